"""axis=-1, axis=(0, 2), axis=None: which axes an operation means."""

from __future__ import annotations

from typing import Any

import numpy as np

from tang_verified.errors import ShapeError
from tang_verified.tracing.array import Traced
from tang_verified.tracing.sizes import show_shape


def one_axis(x: Traced, axis: Any, label: str, rank: int | None = None) -> int:
    """An axis number in 0..rank-1 (rank: the array's own, unless a new axis is being made)."""
    bound = x.ndim if rank is None else rank
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise ShapeError(f"{label}: axis {axis!r} is not an integer", f"use one of {-bound}..{bound - 1}")
    if not -bound <= axis < bound:
        shown = show_shape(x.extents)
        raise ShapeError(f"{label}: no axis {axis} in an array of shape {shown}", f"use one of {-bound}..{bound - 1}")
    return int(axis) % bound


def several_axes(x: Traced, axis: Any, label: str) -> tuple[int, ...]:
    """Distinct axis numbers in ascending order; all of them for None."""
    if axis is None:
        return tuple(range(x.ndim))
    asked = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple(sorted(one_axis(x, number, label) for number in asked))
    if len(set(found)) != len(found):
        raise ShapeError(f"{label}: axis {axis} names an axis twice")
    return found
