"""A concrete array's element as a term over its index.

    np.arange(6).reshape(2, 3)[i, j]  ->  3 * i + j
    np.array([0.5, 0.25])[i]          ->  0.5 if i = 0 else 0.25

Arrays of whole numbers that are affine in their index (np.arange, np.zeros) are that function, at any size; others are
selects, up to CONSTANT_LIMIT elements: a larger one belongs in an argument, not in the program's text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tang_verified.semantics.build import from_linear, real
from tang_verified.semantics.program import SORTS
from tang_verified.semantics.terms import Const, Op, Term
from tang_verified.tracing.dtypes import as_dtype

CONSTANT_LIMIT = 64


def element_of(array: np.ndarray[Any, Any]) -> Callable[[tuple[Term, ...]], Term] | None:
    """The element at an index, or None where the array is too large to write down."""
    slopes = _affine(array)
    if slopes is not None:
        found = slopes
        return lambda index: _affine_element(array, found, index)
    if array.size > CONSTANT_LIMIT:
        return None
    return lambda index: _selects(array, index)


def _affine(array: np.ndarray[Any, Any]) -> tuple[int, list[int]] | None:
    """(constant, one slope an axis) if the array is affine in its index with whole coefficients, or constant."""
    if array.size == 0:
        return 0, [0] * array.ndim
    first = array[(0,) * array.ndim]
    if bool(np.all(array == first)):
        return 0, [0] * array.ndim
    if array.dtype.kind == "b" or not np.all(np.isfinite(array)) or np.any(array != np.floor(array)):
        return None
    if np.max(np.abs(array)) > 2**52:
        return None
    whole = array.astype(np.int64)
    start = int(whole[(0,) * array.ndim])
    slopes = [
        int(whole[tuple(int(axis == other) for other in range(array.ndim))]) - start if extent > 1 else 0
        for axis, extent in enumerate(array.shape)
    ]
    grid = np.indices(array.shape)
    model = start + sum(slope * grid[axis] for axis, slope in enumerate(slopes))
    return (start, slopes) if bool(np.all(model == whole)) else None


def _affine_element(array: np.ndarray[Any, Any], form: tuple[int, list[int]], index: tuple[Term, ...]) -> Term:
    start, slopes = form
    sort = SORTS[as_dtype(array.dtype)]
    if not any(slopes):
        return _constant(array.flat[0].item() if array.size else 0, sort)
    value = from_linear({i: slope for i, slope in zip(index, slopes, strict=True) if slope}, start)
    return Op("real", (value,)) if sort == "real" else value


def _selects(array: np.ndarray[Any, Any], index: tuple[Term, ...]) -> Term:
    if not index:
        return _constant(array.item(), SORTS[as_dtype(array.dtype)])
    out = _selects(array[-1], index[1:])
    for number in range(len(array) - 2, -1, -1):
        out = Op("select", (Op("eq", (index[0], Const(number))), _selects(array[number], index[1:]), out))
    return out


def _constant(value: Any, sort: str) -> Term:
    if sort == "real":
        return real(float(value))
    return Const(bool(value)) if sort == "bool" else Const(int(value))
