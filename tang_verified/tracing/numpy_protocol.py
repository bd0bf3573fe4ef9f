"""np.exp(x), np.sum(x), np.where(c, x, y) on traced values: NumPy hands them over, and they trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tang_verified.errors import UnsupportedError
from tang_verified.tracing.namespace import FUNCTIONS, LINALG, no_such

# NumPy's spelling where it is not the array API's.
SPELLINGS = {
    "absolute": "abs", "fabs": "abs", "power": "pow", "float_power": "pow", "true_divide": "divide", "fmod": "fmod",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "rint": "round", "around": "round", "invert": "bitwise_invert",
    "concatenate": "concat", "transpose": "permute_dims", "amax": "max", "amin": "min", "cumsum": "cumulative_sum",
    "cumprod": "cumulative_prod", "fix": "trunc",
}  # fmt: skip

REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip


def call_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A NumPy ufunc, or its `reduce`, on operands of which some are traced."""
    name = SPELLINGS.get(ufunc.__name__, ufunc.__name__)
    if method == "reduce" and ufunc.__name__ in REDUCTIONS:
        options = {"axis": 0, **kwargs}
        return _call(REDUCTIONS[ufunc.__name__], inputs, options)
    if method != "__call__":
        raise UnsupportedError(f"np.{ufunc.__name__}.{method}", "use the array function instead")
    return _call(name, inputs, kwargs)


def call_function(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Any other NumPy function."""
    name = SPELLINGS.get(func.__name__, func.__name__)
    if name == "norm":
        return bound(LINALG.vector_norm, "norm", args, kwargs)
    if name in ("shape", "ndim", "size"):
        return getattr(args[0], name)
    return _call(name, args, kwargs)


def _call(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if name not in FUNCTIONS:
        raise no_such(name)
    return bound(FUNCTIONS[name], name, args, kwargs)


def bound(function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call with the options that are given, and say which one is not understood."""
    given = {key: value for key, value in kwargs.items() if not (value is None and key in ("out", "dtype", "initial", "where"))}
    try:
        inspect.signature(function).bind(*args, **given)
    except TypeError as mismatch:
        raise UnsupportedError(f"{name}: {mismatch}", "leave the option out; results are always new arrays") from None
    return function(*args, **given)
