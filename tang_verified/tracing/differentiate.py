"""Derivatives of array functions: functions again, which trace, compile and run like any other.

    grad(f)(x)               ∂f/∂x of a scalar f                       value_and_grad(f)(x)     f too
    vjp(f)(x, w)             the gradient of Σ w·f(x): wᵀJ             jvp(f)(x, dx)            f(x) and J·dx

Here a derivative is only stated: a definition whose value is `Gradient` or `Tangent`. How it is computed is derived and
proved when the program is compiled (`passes/gradient.py`, `proofs/gradient.py`); what it means is in `semantics/derivative.py`.
An argument that is differentiated counts as a variable of its own within f: what f takes from around it stays as it is.

On NumPy arrays the function is compiled for their shapes and run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tang_verified.errors import DTypeError, ShapeError, TraceError
from tang_verified.semantics.program import SORTS
from tang_verified.semantics.terms import REAL_ONE, Gradient, Tangent
from tang_verified.tracing.array import Traced
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.dtypes import as_dtype
from tang_verified.tracing.sizes import show_shape
from tang_verified.tracing.values import array_of, tracing_of

Argnums = int | Sequence[int]


def grad(fn: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The gradient of a scalar function with respect to the arguments numbered `argnums` (a tuple for several).

    Each gradient has its argument's shape and dtype. Ties of max and min share evenly (`semantics/derivative.py` states
    the values at kinks and poles). Raises `ShapeError` where fn's result is no scalar, `DTypeError` where an argument is
    not of floats.

    >>> import numpy as np
    >>> grad(lambda x: (x * x * x).sum())(np.array([1.0, 2.0]))
    array([ 3., 12.])
    """
    both = _value_and_grad(fn, argnums)

    def gradient(args: list[Any], kwargs: dict[str, Any], weights: tuple[Any, ...]) -> Any:
        return both(args, kwargs, weights)[1]

    return _like(fn, gradient, "grad", ())


def value_and_grad(fn: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """fn's value, and its gradient as `grad` gives it. Of several results of fn the first is differentiated.

    When compiled the results are flat: the value (or values), then the gradients.

    >>> import numpy as np
    >>> value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    (array(5.), array([2., 4.]))
    """
    return _like(fn, _value_and_grad(fn, argnums), "value_and_grad", ())


def _value_and_grad(fn: Callable[..., Any], argnums: Argnums) -> Callable[..., Any]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def both(args: list[Any], kwargs: dict[str, Any], weights: tuple[Any, ...]) -> Any:
        tracing, own, varied = _varied(args, kwargs, numbers, "grad")
        result = fn(*own, **kwargs)
        loss = result[0] if isinstance(result, tuple) else result
        if not isinstance(loss, Traced) or loss.ndim or SORTS[loss.dtype_name] != "real":
            what = f"shape {show_shape(loss.extents)}, {loss.dtype_name}" if isinstance(loss, Traced) else type(loss).__name__
            raise ShapeError(f"grad: the result is no real scalar: {what}", "sum it, or use tv.vjp, with weights for elements")
        one = tracing.define("one", loss.dtype_name, (), lambda: REAL_ONE)
        found = tuple(_gradient(tracing, ((loss, one),), x) for x in varied)
        return result, found[0] if isinstance(argnums, int) else found

    return both


def vjp(
    fn: Callable[..., Any], argnums: Argnums | None = None, weights: Sequence[str] = ("ct",), *, value: bool = False
) -> Callable[..., Any]:  # fmt: skip
    """A function of fn's arguments and of weights (cotangents), one for each result of fn and of its shape: wᵀJ.

    `weights` names those parameters; `argnums` the arguments to differentiate with respect to (None: all). The result is
    one gradient for each, a tuple unless there is one; with `value`, fn's result and those.

    >>> import numpy as np
    >>> vjp(lambda x: x * x)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([ 2., 40.])
    """

    def pulled(args: list[Any], kwargs: dict[str, Any], cts: tuple[Any, ...]) -> Any:
        tracing, own, varied = _varied(args, kwargs, _numbers(fn, argnums), "vjp")
        result = fn(*own, **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(cts):
            raise TraceError(f"vjp: {len(results)} results and {len(cts)} weights", "name one in `weights` for each result")
        outputs = []
        for y, w in zip(results, cts, strict=True):
            weight = array_of(w, tracing, "vjp")
            if not isinstance(y, Traced) or SORTS[y.dtype_name] != "real":
                raise DTypeError("vjp: a result is not an array of floats")
            if y.extents != weight.extents:
                shapes = f"{show_shape(y.extents)} and weights {show_shape(weight.extents)}"
                raise ShapeError(f"vjp: a result of shape {shapes}", "weights have the shape of the result")
            outputs.append((y, weight))
        found = tuple(_gradient(tracing, tuple(outputs), x) for x in varied)
        gradients = found[0] if len(found) == 1 and not isinstance(argnums, Sequence) else found
        return (result, gradients) if value else gradients

    return _like(fn, pulled, "vjp", tuple(weights))


def jvp(fn: Callable[..., Any], argnums: Argnums | None = None) -> Callable[..., Any]:
    """A function of fn's arguments, and of a direction d_x for each argument x in `argnums` (None: all): (fn(x), J·d_x).

    >>> import numpy as np
    >>> jvp(lambda x: x * x)(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    (array([1., 4.]), array([ 2., 40.]))
    """
    parameters = list(inspect.signature(fn).parameters)
    numbers = _numbers(fn, argnums)
    names = tuple(f"d_{parameters[number]}" for number in numbers)

    def pushed(args: list[Any], kwargs: dict[str, Any], ways: tuple[Any, ...]) -> Any:
        tracing, own, varied = _varied(args, kwargs, numbers, "jvp")
        along = []
        for x, way in zip(varied, ways, strict=True):
            direction = array_of(way, tracing, "jvp")
            if direction.extents != x.extents:
                shapes = f"{show_shape(direction.extents)} for an argument of shape {show_shape(x.extents)}"
                raise ShapeError(f"jvp: a direction of shape {shapes}", "a direction has the shape of its argument")
            along.append((x.tensor.name, direction.tensor.name))
        result = fn(*own, **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        tangents = tuple(_tangent(tracing, y, tuple(along)) for y in results)
        return (result, tangents) if isinstance(result, tuple) else (result, tangents[0])

    return _like(fn, pushed, "jvp", names)


def _numbers(fn: Callable[..., Any], argnums: Argnums | None) -> tuple[int, ...]:
    if argnums is None:
        parameters = inspect.signature(fn).parameters.values()
        return tuple(n for n, p in enumerate(parameters) if p.default is p.empty and p.kind is not p.VAR_KEYWORD)
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _varied(
    args: Sequence[Any], kwargs: dict[str, Any], numbers: Sequence[int], label: str
) -> tuple[Tracing, list[Any], list[Traced]]:
    """The arguments with those numbered copied: variables that only fn sees."""
    tracing = tracing_of([*args, *kwargs.values()], label)
    if tracing is None:
        raise TraceError(f"{label}: no argument is a traced array")
    out, varied = list(args), []
    for number in numbers:
        if not -len(out) <= number < len(out):
            raise TraceError(f"{label}: no argument number {number}: there are {len(out)}", "argnums counts from 0")
        array = array_of(out[number], tracing, label)
        if SORTS[array.dtype_name] != "real":
            raise DTypeError(f"{label}: argument {number} is {array.dtype_name}", "only float arrays have a derivative")
        copy = tracing.define("variable", array.dtype_name, array.extents, array.at)
        out[number] = copy
        varied.append(copy)
    return tracing, out, varied


def _gradient(tracing: Tracing, outputs: tuple[tuple[Traced, Traced], ...], x: Traced) -> Traced:
    names: dict[str, str] = {}
    for y, w in outputs:
        if y.tensor.name in names:  # one array returned twice: a copy of it is another tensor
            y = tracing.define("copy", y.dtype_name, y.extents, y.at)
        names[y.tensor.name] = w.tensor.name
    value = Gradient(tuple(names.items()), x.tensor.name)
    return tracing.define("gradient", x.dtype_name, x.extents, lambda *_: value)


def _tangent(tracing: Tracing, y: Traced, along: tuple[tuple[str, str], ...]) -> Traced:
    return tracing.define("tangent", y.dtype_name, y.extents, lambda *_: Tangent(y.tensor.name, along))


def _like(fn: Callable[..., Any], made: Callable[..., Any], prefix: str, more: tuple[str, ...]) -> Callable[..., Any]:
    """`made` with fn's parameters and `more`; on arrays that are not traced it compiles itself for their shapes."""
    signature = inspect.signature(fn)
    extra = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in more]
    own = list(signature.parameters.values())
    required = [p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY) for p in own]
    at = required.index(False) if False in required else len(own)
    full = signature.replace(parameters=[*own[:at], *extra, *own[at:]])
    compiled: dict[Any, Any] = {}

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = full.bind(*args, **kwargs)
        if tracing_of(list(bound.arguments.values()), prefix) is None:
            return _run(call, compiled, bound)
        weights = tuple(bound.arguments.pop(name) for name in more)
        plain = inspect.BoundArguments(signature, bound.arguments)
        return made(list(plain.args), plain.kwargs, weights)

    call.__name__ = call.__qualname__ = f"{prefix}_{getattr(fn, '__name__', 'function').strip('<>')}"
    call.__signature__ = full  # type: ignore[attr-defined]
    return call


def _run(fn: Callable[..., Any], compiled: dict[Any, Any], bound: inspect.BoundArguments) -> Any:
    import numpy as np

    from tang_verified.compiler import compile
    from tang_verified.spec import Spec

    arrays = {name: np.asarray(value) for name, value in bound.arguments.items() if hasattr(value, "dtype")}
    rest = {name: value for name, value in bound.arguments.items() if name not in arrays}
    key = (tuple((name, a.shape, str(a.dtype)) for name, a in arrays.items()), tuple(rest.items()))
    if key not in compiled:
        specs: dict[str, Any] = {name: Spec(a.shape, as_dtype(a.dtype)) for name, a in arrays.items()}

        def with_rest(*args: Any) -> Any:
            return fn(**dict(zip(arrays, args, strict=True)), **rest)

        names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in arrays]
        with_rest.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        compiled[key] = compile(with_rest, name=fn.__name__, **specs)
    return compiled[key](*arrays.values())
