"""What a generated program may call besides the array API, twice: on traced arrays and on NumPy arrays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special

import tang_verified as tv

ARGMAX = tv.monoid(
    "argmax",
    identity=(-np.inf, 0),
    combine=lambda a, b: (np.maximum(a[0], b[0]), np.where(a[0] > b[0], a[1], np.where(b[0] > a[0], b[1], np.minimum(a[1], b[1])))),
)  # fmt: skip
LAST = tv.monoid("last", identity=0.0, combine=lambda a, b: np.where(b == 0.0, a, b), commutative=False)
AFFINE = tv.monoid(
    "affine", identity=(1.0, 0.0), combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), commutative=False
)  # fmt: skip
MOMENTS = tv.monoid("moments", identity=(0, 0.0), combine=lambda a, b: (a[0] + b[0], a[1] + b[1]))


def _rows(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def argmax(x: Any) -> Any:
    """Of a matrix' rows, the first place of the maximum, at least 0."""
    if _rows(x):
        return x.argmax(axis=1) if x.shape[1] else np.zeros(x.shape[0], np.int64)
    return tv.comprehension(out="i", reduce="j", monoid=ARGMAX, body=lambda i, j: (x[i, j], j), finish=lambda v, at: at)


def last(x: Any) -> Any:
    """Of a matrix' rows, the last element that is not 0 (0 if there is none)."""
    if _rows(x):
        return np.array([next((v for v in row[::-1] if v != 0), 0.0) for row in x], np.float64)
    return tv.comprehension(out="i", reduce="j", monoid=LAST, body=lambda i, j: x[i, j])


def affine(x: Any, y: Any) -> Any:
    """The recurrence s := s·x + y along a vector, from 0."""
    if _rows(x):
        state = 0.0
        for a, b in zip(x, y, strict=True):
            state = state * a + b
        return np.asarray(state)
    both = tv.comprehension(out="", reduce="k", monoid=AFFINE, body=lambda k: (x[k], y[k]))
    return both[1]


def positive(x: Any) -> Any:
    """Of a matrix' rows, the number and the sum of the elements above 0, as one array."""
    if _rows(x):
        return (x > 0).sum(axis=1) + (x * (x > 0)).sum(axis=1)
    return tv.comprehension(
        out="i", reduce="j", monoid=MOMENTS,
        body=lambda i, j: (np.where(x[i, j] > 0, 1, 0), np.where(x[i, j] > 0, x[i, j], 0.0)), finish=lambda c, s: c + s,
    )  # fmt: skip


def lower(x: Any) -> Any:
    """Σ_{k <= i} x[i, k]: a guarded domain."""
    if _rows(x):
        return np.tril(x).sum(axis=1)
    return tv.comprehension(out="i", reduce="k", body=lambda i, k: x[i, k], where=lambda i, k: k <= i)


def upper_max(x: Any) -> Any:
    """max_{k >= i} x[i, k], -inf where no k is left."""
    if _rows(x):
        return np.array([max(row[i:], default=-np.inf) for i, row in enumerate(x)], np.float64)
    return tv.comprehension(out="i", reduce="k", monoid="max", body=lambda i, k: x[i, k], where=lambda i, k: i <= k)


def window(x: Any, y: Any) -> Any:
    """out[i] = Σ_{k < 3} x[i + k]·y[k]: y of length 3, x of length at least 3."""
    if _rows(x):
        return np.array([sum(x[i + k] * y[k] for k in range(3)) for i in range(max(len(x) - 2, 0))], np.float64)
    return tv.comprehension(
        out="i", reduce="k", body=lambda i, k: x[i + k] * y[k], extents={"i": (x[2:]).shape[0], "k": 3}
    )  # fmt: skip


FUNCTIONS = {f.__name__: f for f in (argmax, last, affine, positive, lower, upper_max, window)}


class NumPy(SimpleNamespace):
    """NumPy as an array-API namespace, with the functions that it lacks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


NUMPY = NumPy(
    erf=scipy.special.erf, rsqrt=lambda x: 1.0 / np.sqrt(x), asin=np.arcsin, acos=np.arccos, atan=np.arctan,
    cumulative_sum=lambda x, axis: np.cumsum(x, axis=axis), cumulative_prod=lambda x, axis: np.cumprod(x, axis=axis),
)  # fmt: skip
