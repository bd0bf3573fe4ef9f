"""What each operation of `terms.SIGNATURES` gives, on NumPy float64, int64 and bool arrays.

The tables follow IEEE 754 where a limit exists (exp(-inf) = 0, log 0 = -inf, 0 * inf = nan, inf - inf = nan) with
these exceptions, because the reals have no signed zero: x / 0 is nan for every x, and so is pow(0, y) for y < 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.special
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


def div(a: Array, b: Array) -> Array:
    """x / 0 is nan for every x; else as IEEE."""
    return np.asarray(np.where(b == 0, np.nan, a / np.where(b == 0, 1.0, b)))


def div0(a: Array, b: Array) -> Array:
    """x / 0 is 0 for every x; else as div."""
    return np.asarray(np.where(b == 0, 0.0, a / np.where(b == 0, 1.0, b)))


def sub0(a: Array, b: Array) -> Array:
    """-inf - -inf is -inf; else as sub."""
    return np.asarray(np.where((a == -np.inf) & (b == -np.inf), -np.inf, a - b))


def rsqrt(a: Array) -> Array:
    """1 / sqrt(a); the limit at 0 is +inf (the root has no sign to choose)."""
    return np.asarray(np.where(a == 0, np.inf, 1.0 / np.sqrt(np.where(a == 0, 1.0, a))))


def power(a: Array, b: Array) -> Array:
    """As IEEE pow, but pow(0, y) is nan for y < 0, as 1 / 0 is."""
    return np.asarray(np.where((a == 0) & (b < 0), np.nan, np.power(np.where((a == 0) & (b < 0), 1.0, a), b)))


TABLE: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,  # passes nan on, as fmax does not
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "div": div,
    "sub0": sub0,
    "div0": div0,
    "floordiv": np.floor_divide,  # towards -inf, as Python; a zero divisor is a fault of the evaluator
    "mod": np.mod,
    "real": lambda a: np.asarray(a, dtype=np.float64),
    "trunc": lambda a: np.trunc(a).astype(np.int64),
    "int": lambda a: np.asarray(a, dtype=np.int64),
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "pow": power,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": scipy.special.erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,  # half to even
}
