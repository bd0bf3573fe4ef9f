"""NumPy's functions of whole arrays, on Duals.

    linear in the arrays they move        f(a)' = f(a')                      reshape, sum, stack, where, a[key], …
    linear in each of two                 f(a, b)' = f(a', b) + f(a, b')     matmul, einsum, outer, …
    maximum, minimum                      Σ [x = M] x' / N, N the number of ties: as `semantics/derivative.py` states them
    by the value alone                    argmax, shape, …
    made of others                        mean, var, norm, hypot, …

With several directions the linear ones are applied to one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from tang_verified.dual import Dual, aligned, apply, plain, spread
from tang_verified.errors import UnsupportedError
from tang_verified.tracing.numpy_protocol import bound

LINEAR = frozenset((
    "reshape", "ravel", "transpose", "permute_dims", "matrix_transpose", "swapaxes", "moveaxis", "rollaxis", "expand_dims",
    "squeeze", "broadcast_to", "flip", "flipud", "fliplr", "roll", "rot90", "tile", "repeat", "take", "take_along_axis",
    "concatenate", "concat", "stack", "hstack", "vstack", "dstack", "column_stack", "atleast_1d", "atleast_2d", "sum", "cumsum",
    "cumulative_sum", "diff", "trace", "diag", "diagonal", "tril", "triu", "copy", "delete",
))  # fmt: skip
BILINEAR = frozenset((
    "matmul", "dot", "vdot", "inner", "outer", "einsum", "tensordot", "kron", "convolve", "correlate", "vecdot", "cross",
))  # fmt: skip
BY_VALUE = frozenset((
    "shape", "ndim", "size", "argmax", "argmin", "argsort", "nonzero", "flatnonzero", "count_nonzero", "any", "all",
    "zeros_like", "ones_like", "empty_like", "sign", "array_equal", "isclose", "allclose", "result_type",
    "searchsorted", "iscomplexobj", "isrealobj",
))  # fmt: skip
REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip


def call(name: str, args: Sequence[Any], kwargs: dict[str, Any], func: Callable[..., Any] | None = None) -> Any:
    """A NumPy function by its name."""
    kwargs = {key: value for key, value in kwargs.items() if not (value is None and key in ("out", "dtype"))}
    function = func or getattr(np, name)
    if name in MADE:
        return bound(MADE[name], name, args, kwargs)
    wrong = [key for key, value in kwargs.items() if key in ("out", "initial") or _duals(value)]
    if wrong:
        raise UnsupportedError(f"np.{name} of a Dual with {wrong[0]}=…", "leave it out, or join arrays with np.concatenate")
    if name in LINEAR:
        return _linear(function, args, kwargs)
    if name in BILINEAR:
        return _bilinear(function, args, kwargs)
    if name in BY_VALUE:
        return function(*_each(args, plain), **_each(kwargs, plain))
    raise UnsupportedError(f"np.{name} of a Dual", "write it with elementwise functions, sums and products")


def reduced(ufunc: str, x: Any, options: dict[str, Any]) -> Any:
    """np.add.reduce and the like, which x.sum() of NumPy's comes to."""
    if ufunc not in REDUCTIONS:
        raise UnsupportedError(f"np.{ufunc}.reduce of a Dual", "use the array function")
    return call(REDUCTIONS[ufunc], (x,), {"axis": 0, **options})


# -- by the form of the function ------------------------------------------------------------------------------------


def _each(part: Any, change: Callable[[Any], Any]) -> Any:
    """Numbers within lists and tuples changed one by one."""
    if isinstance(part, (list, tuple)) and not hasattr(part, "_fields"):
        return type(part)(_each(x, change) for x in part)
    if isinstance(part, dict):
        return {key: _each(x, change) for key, x in part.items()}
    return change(part)


def _duals(part: Any) -> list[Dual]:
    if isinstance(part, (list, tuple)):
        return [x for inner in part for x in _duals(inner)]
    return [part] if type(part) is Dual else []


def _directions(found: Sequence[Dual]) -> tuple[int, ...]:
    """The axes of directions that slopes have in common."""
    shapes = [np.shape(x.slope)[: np.ndim(x.slope) - np.ndim(x.value)] for x in found]
    return np.broadcast_shapes(*shapes)


def _by_direction(found: Sequence[Dual], along: Callable[[tuple[int, ...]], Any]) -> Any:
    """What `along` gives for each direction, together."""
    shape = _directions(found)
    if not shape:
        return along(())
    parts = [along(place) for place in np.ndindex(shape)]
    whole = np.stack(parts)
    return np.reshape(whole, (*shape, *np.shape(whole)[1:]))


def _slope(x: Dual, place: tuple[int, ...]) -> Any:
    """A slope in one direction, in the value's shape."""
    return np.broadcast_to(x.slope[place], np.shape(x.value)) if np.ndim(x.slope) > np.ndim(x.value) else x.slope


def _linear(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A function that is linear in its first argument: an array, or a list of arrays."""
    if _duals(args[1:]):
        raise UnsupportedError(f"np.{function.__name__} of a Dual, not as its first argument", "an index or a size is a number")
    found = _duals(args[:1])
    level = max(x.level for x in found)
    top = [x for x in found if x.level == level]
    joined = len(_duals(args[:1])) != 1 or isinstance(args[0], (list, tuple))

    def moved(x: Any, place: tuple[int, ...]) -> Any:
        if type(x) is Dual and x.level == level:
            return _slope(x, place)
        number = joined and (type(x) is Dual or isinstance(x, (float, int, np.ndarray)))
        return np.zeros(np.shape(x)) if number else x  # what stands beside it does not move

    first, rest = args[0], args[1:]
    value = function(_each(first, lambda x: x.value if type(x) is Dual and x.level == level else x), *rest, **kwargs)
    return Dual(value, _by_direction(top, lambda p: function(_each(first, lambda x: moved(x, p)), *rest, **kwargs)), level)


def _bilinear(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    found = _duals(args)
    level = max(x.level for x in found)
    places = [number for number, x in enumerate(args) if type(x) is Dual and x.level == level]
    values = [x.value if number in places else x for number, x in enumerate(args)]
    total: Any = None
    for number in places:
        def along(place: tuple[int, ...], number: int = number) -> Any:
            return function(*values[:number], _slope(args[number], place), *values[number + 1 :], **kwargs)

        part = _by_direction([args[n] for n in places], along) if np.ndim(args[number].slope) else along(())
        total = part if total is None else total + part
    return Dual(function(*values, **kwargs), total, level)


def get_item(x: Dual, key: Any) -> Any:
    """x[key]; the directions' axes, in front, stay."""
    key = key if isinstance(key, tuple) else (key,)
    if any(type(part) is Dual for part in key):
        raise UnsupportedError("an index that is a Dual", "an index is whole: use int(x)")
    return Dual(x.value[key], _by_direction([x], lambda place: _slope(x, place)[key]), x.level)


# -- made of others -------------------------------------------------------------------------------------------------


def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, b elsewhere, with that one's slope: the other contributes nothing."""
    condition = plain(condition)
    found = [x for x in (a, b) if type(x) is Dual]
    if not found:
        return np.where(condition, a, b)
    level = max(x.level for x in found)
    values = [x.value if type(x) is Dual and x.level == level else x for x in (a, b)]
    value = where(condition, *values)
    ndim = np.ndim(value)
    slopes = [
        aligned(x.slope, np.ndim(x.value), ndim) if type(x) is Dual and x.level == level else 0.0 for x in (a, b)
    ]  # fmt: skip
    return Dual(value, spread(where(condition, *slopes), value), level)


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        at = getattr(np, name)(plain(x), axis=axis, keepdims=True)
        ties = plain(x) == at
        share = np.asarray(ties / np.sum(ties, axis=axis, keepdims=True))
        picked = np.sum(where(ties, x, 0.0) * share, axis=axis, keepdims=keepdims)
        value = getattr(np, name)(x.value, axis=axis, keepdims=keepdims)
        return Dual(value, picked.slope, x.level)

    return extreme


def _prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """One factor after the other, so that a 0 among them is nothing special."""
    if axis is None:
        flat = np.ravel(x)
        out = reduce(lambda a, b: a * b, [flat[n] for n in range(len(flat))], 1.0)
        return np.reshape(out, (1,) * np.ndim(x)) if keepdims else out
    parts = np.moveaxis(x, axis, 0)
    out = reduce(lambda a, b: a * b, [parts[n] for n in range(len(parts))], 1.0)
    return np.expand_dims(out, axis) if keepdims else out


def _cumprod(x: Any, axis: Any = None) -> Any:
    parts = np.ravel(x) if axis is None else np.moveaxis(x, axis, 0)
    out: list[Any] = []
    for n in range(len(parts)):
        out.append(parts[n] if not out else out[-1] * parts[n])
    return np.stack(out) if axis is None else np.moveaxis(np.stack(out), 0, axis)


def _mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    total = np.sum(x, axis=axis, keepdims=keepdims)
    return total / (np.size(plain(x)) / max(np.size(plain(total)), 1))


def _var(x: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False, correction: float | None = None) -> Any:
    away = x - _mean(x, axis, True)
    total = np.sum(away * away, axis=axis, keepdims=keepdims)
    count = np.size(plain(x)) / max(np.size(plain(total)), 1)
    return total / (count - (ddof if correction is None else correction))


def _std(x: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False, correction: float | None = None) -> Any:
    return np.sqrt(_var(x, axis, ddof, keepdims, correction))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The Euclidean norm (of a matrix: Frobenius's); its slope at 0 is 0."""
    if ord not in (None, 2, "fro") or (ord == 2 and axis is None and np.ndim(x) == 2):
        raise UnsupportedError(f"norm of a Dual with ord={ord}", "write it with abs, max and sums")
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def _hypot(a: Any, b: Any) -> Any:
    """√(a² + b²), scaled by a power of two so that no square overflows; at (0, 0) the slope is 0."""
    big = np.maximum(np.abs(plain(a)), np.abs(plain(b)))
    usual = (big > 0) & np.isfinite(big)
    scale = np.where(usual, np.ldexp(1.0, np.maximum(np.frexp(np.where(usual, big, 1.0))[1] - 1, -1000)), 1.0)
    unit = float(scale) if not np.ndim(scale) else scale
    a, b = a / unit, b / unit
    return np.sqrt(a * a + b * b) * unit


def _arctan2(y: Any, x: Any) -> Any:
    """The angle of (x, y): its slope is that of atan(y / x), or of −atan(x / y) where y is the greater; nan at the origin."""
    steep = np.abs(plain(y)) > np.abs(plain(x))
    top, below = where(steep, -x, y), where(steep, y, x)
    angle = np.arctan(top / below)
    return _revalued(angle, np.arctan2, (y, x))


def _revalued(result: Any, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The result's slope with the value that the function gives, level by level."""
    if type(result) is not Dual:
        return function(*args)
    lower = [x.value if type(x) is Dual and x.level == result.level else x for x in args]
    return Dual(_arctan2(*lower) if any(type(x) is Dual for x in lower) else function(*lower), result.slope, result.level)


def _clip(x: Any, a_min: Any = None, a_max: Any = None, **limits: Any) -> Any:
    low, high = limits.get("min", a_min), limits.get("max", a_max)
    out = x if low is None else np.maximum(x, low)
    return out if high is None else np.minimum(out, high)


MADE: dict[str, Callable[..., Any]] = {
    "where": where, "max": _extreme("max"), "min": _extreme("min"), "amax": _extreme("max"), "amin": _extreme("min"),
    "prod": _prod, "cumprod": _cumprod, "cumulative_prod": _cumprod, "mean": _mean, "var": _var, "std": _std,
    "norm": _norm, "vector_norm": _norm, "hypot": _hypot, "arctan2": _arctan2, "clip": _clip,
    "around": lambda x, decimals=0: apply("round", x) if not decimals else apply("round", x * 10.0**decimals) / 10.0**decimals,
    "round": lambda x, decimals=0: apply("round", x) if not decimals else apply("round", x * 10.0**decimals) / 10.0**decimals,
    "fix": lambda x: apply("trunc", x), "reciprocal": lambda x: 1.0 / x,
    "deg2rad": lambda x: x * (math.pi / 180.0), "radians": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi), "degrees": lambda x: x * (180.0 / math.pi),
    "astype": lambda x, dtype, copy=True: x, "real": lambda x: x, "asarray": lambda x, **_: x,
    "full_like": lambda a, fill_value, **_: fill_value * np.ones(np.shape(plain(a))),
    "ptp": lambda x, axis=None: np.max(x, axis=axis) - np.min(x, axis=axis),
}  # fmt: skip


def _method(name: str) -> Callable[..., Any]:
    def method(self: Dual, *args: Any, **kwargs: Any) -> Any:
        return call(name, (self, *args), kwargs)

    return method


METHODS: dict[str, Callable[..., Any]] = {
    **{name: _method(name) for name in (
        "sum", "prod", "max", "min", "mean", "var", "std", "cumsum", "cumprod", "ravel", "squeeze", "swapaxes", "repeat",
        "take", "trace", "diagonal", "copy", "argmax", "argmin", "any", "all", "clip", "round", "dot", "astype",
    )},
    "flatten": _method("ravel"),
    "reshape": lambda self, *shape: call("reshape", (self, shape[0] if len(shape) == 1 else shape), {}),
    "transpose": lambda self, *axes: call("transpose", (self, axes[0] if len(axes) == 1 else axes or None), {}),
    "item": lambda self: self.value.item() if hasattr(self.value, "item") else self.value,
}  # fmt: skip
