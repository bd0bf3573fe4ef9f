"""Arrays made from nothing: xp.zeros((n, 3)), xp.arange(n), xp.tril(x). Their value is their own index, or a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from tang_verified.errors import DTypeError, ShapeError, UnsupportedError
from tang_verified.semantics.build import canonical, iadd, imul, real
from tang_verified.semantics.program import SORTS, DType
from tang_verified.semantics.terms import FALSE, REAL_ZERO, ZERO, Const, Op, Term, sort_of
from tang_verified.tracing.array import Traced
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.dtypes import as_dtype, cast
from tang_verified.tracing.extent import as_term
from tang_verified.tracing.pointwise import astype
from tang_verified.tracing.sizes import show_shape
from tang_verified.tracing.values import array_of, lift, need_array
from tang_verified.tracing.views import shape_terms


def full(tracing: Tracing, shape: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Traced:
    value = lift(fill_value, tracing, "full")
    if value.shape:
        raise ShapeError(f"full: the fill value has shape {show_shape(value.shape)}", "use xp.broadcast_to")
    default = tracing.default_float if value.weak and value.sort == "real" else value.dtype
    out = default if dtype is None else as_dtype(dtype)
    return tracing.define("full", out, shape_terms(shape, "full"), lambda *i: cast_constant(value.at(), out))


def cast_constant(term: Term, dtype: DType) -> Term:
    """A term as a dtype's sort; finite constants directly."""
    if isinstance(term, Const) and not isinstance(term.value, str):
        number = term.value
        if SORTS[dtype] == "real":
            return real(int(number) if isinstance(number, bool) else number)
        return Const(bool(number)) if SORTS[dtype] == "bool" else Const(int(number))
    if isinstance(term, Const) and SORTS[dtype] != "real":
        raise DTypeError(f"{term.value} has no value of dtype {dtype}")
    return cast(term, sort_of(term), SORTS[dtype])


def zeros(tracing: Tracing, shape: Any, dtype: Any = None, device: Any = None) -> Traced:
    return full(tracing, shape, 0, tracing.default_float if dtype is None else dtype)


def ones(tracing: Tracing, shape: Any, dtype: Any = None, device: Any = None) -> Traced:
    return full(tracing, shape, 1, tracing.default_float if dtype is None else dtype)


def arange(tracing: Tracing, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, device: Any = None) -> Traced:
    """start + step * i for i < ceil((stop - start) / step); ints and sizes only."""
    if stop is None:
        start, stop = 0, start
    first, end, by = as_term(start), as_term(stop), as_term(step)
    if first is None or end is None or not isinstance(by, Const) or by == ZERO:
        raise UnsupportedError(f"arange({start}, {stop}, {step}): not ints or sizes", "scale afterwards: xp.arange(n) * 0.5")
    stride = int(by.value)
    sign = 1 if stride > 0 else -1
    length = imul(canonical(Op("sub", (end, first))), sign)
    if tracing.never(Op("lt", (ZERO, length))):
        length = ZERO
    tracing.require(Op("le", (ZERO, length)), f"arange({start}, {stop}, {step}) may have a negative length")
    count = canonical(Op("floordiv", (iadd(length, Const(abs(stride) - 1)), Const(abs(stride)))))
    out = "int64" if dtype is None else as_dtype(dtype)
    return tracing.define("arange", out, (count,), lambda i: cast(iadd(first, imul(i, stride)), "int", SORTS[out]))


def eye(tracing: Tracing, rows: Any, cols: Any = None, *, k: int = 0, dtype: Any = None, device: Any = None) -> Traced:
    out = tracing.default_float if dtype is None else as_dtype(dtype)
    shape = shape_terms((rows, rows if cols is None else cols), "eye")

    def value(i: Term, j: Term) -> Term:
        hit = canonical(Op("eq", (j, iadd(i, Const(k)))))
        return hit if out == "bool" else Op("select", (hit, cast_constant(Const(1), out), cast_constant(Const(0), out)))

    return tracing.define("eye", out, shape, value)


def linspace(tracing: Tracing, start: Any, stop: Any, num: int, dtype: Any = None, endpoint: bool = True) -> Traced:
    out = tracing.default_float if dtype is None else as_dtype(dtype)
    if not isinstance(num, int) or not all(isinstance(end, (int, float)) for end in (start, stop)):
        raise UnsupportedError("linspace with symbolic ends or count", "use xp.arange(n) and scale it")
    points = np.linspace(start, stop, num, endpoint=endpoint)
    return astype(tracing.constant(points), out)  # type: ignore[no-any-return]


def asarray(tracing: Tracing, value: Any, dtype: Any = None, copy: Any = None, device: Any = None) -> Traced:
    """A traced array of a scalar, a size, or a small concrete array."""
    array = array_of(np.asarray(value) if isinstance(value, (list, tuple)) else value, tracing, "asarray")
    if array.weak and dtype is None:
        dtype = tracing.default_float if SORTS[array.dtype_name] == "real" else array.dtype_name
    return array if dtype is None else astype(array, dtype)


def full_like(array: Any, fill_value: Any, dtype: Any = None) -> Traced:
    x = need_array(array, "full_like", (fill_value,))
    return full(x.tracing, x.shape, fill_value, x.dtype_name if dtype is None else dtype)


def zeros_like(x: Any, dtype: Any = None) -> Traced:
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: Any = None) -> Traced:
    return full_like(x, 1, dtype)


def tril(x: Any, k: int = 0) -> Traced:
    """x where column <= row + k, zero elsewhere."""
    return _triangle(x, "tril", lambda i, j: Op("le", (j, iadd(i, Const(k)))))


def triu(x: Any, k: int = 0) -> Traced:
    """x where column >= row + k, zero elsewhere."""
    return _triangle(x, "triu", lambda i, j: Op("le", (iadd(i, Const(k)), j)))


def _triangle(array: Any, label: str, keep: Any) -> Traced:
    x = need_array(array, label)
    if x.ndim < 2:
        raise ShapeError(f"{label} of an array of shape {show_shape(x.extents)}", "it takes at least two axes")
    zero: Term = {"real": REAL_ZERO, "int": ZERO, "bool": FALSE}[SORTS[x.dtype_name]]
    return x.tracing.define(
        label, x.dtype_name, x.extents, lambda *i: Op("select", (keep(i[-2], i[-1]), x.at(*i), zero))
    )


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Traced]:
    first = need_array(arrays[0], "meshgrid", arrays)
    parts = [array_of(part, first.tracing, "meshgrid") for part in arrays]
    if any(part.ndim != 1 for part in parts):
        raise ShapeError("meshgrid takes arrays of one axis")
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[0], order[1] = 1, 0
    shape = tuple(parts[number].extents[0] for number in order)
    places = {number: place for place, number in enumerate(order)}

    def one(number: int, part: Traced) -> Traced:
        return part.tracing.define("meshgrid", part.dtype_name, shape, lambda *i: part.at(i[places[number]]))

    return [one(number, part) for number, part in enumerate(parts)]

