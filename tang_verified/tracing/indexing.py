"""x[1:-1, ::2, None, ..., i]  ->  one read at affine indices; x[ids] and x[rows, cols]  ->  a gather.

A slice start:stop:step of an axis of extent e reads start + step * i for i < ceil((stop - start) / step), after the
bounds are clamped as Python clamps them. Where a clamp would depend on a symbolic size, the size's range is raised so
that nothing is clamped: x[1:-1] means n >= 2 (`Tracing.require`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tang_verified.errors import BoundsError, DTypeError, ShapeError, UnsupportedError
from tang_verified.semantics.build import canonical, ceildiv, iadd, imul, isub
from tang_verified.semantics.program import SORTS
from tang_verified.semantics.terms import ONE, ZERO, Const, Op, Term
from tang_verified.tracing.array import Scalar, Traced
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.extent import Extent, as_term
from tang_verified.tracing.gather import gather
from tang_verified.tracing.sizes import show, show_shape
from tang_verified.tracing.values import array_of, lift


@dataclass(frozen=True, slots=True)
class Slice:
    """Reads start + step * i for i < count."""

    start: Term
    step: int
    count: Term


def get_item(x: Traced, key: Any) -> Any:
    """What `x[key]` means."""
    keys = _expand(x, key if isinstance(key, tuple) else (key,))
    if any(isinstance(k, Scalar) for k in keys):
        return _element(x, keys)
    keys = [array_of(k, x.tracing, "index") if isinstance(k, (np.ndarray, list)) else k for k in keys]
    arrays = [k for k in keys if isinstance(k, Traced) and (k.ndim or not k.weak)]
    for k in arrays:
        if SORTS[k.dtype_name] == "bool":
            raise UnsupportedError(
                "indexing by a boolean mask: the result's size would depend on data",
                "use xp.where(mask, x, 0), and pass the mask on to the reduction",
            )
        if SORTS[k.dtype_name] != "int":
            raise DTypeError(f"index of dtype {k.dtype_name}", "index with integers")
    if not arrays:
        return _slices(x, keys)
    places = [number for number, k in enumerate(k for k in keys if k is not None) if isinstance(k, Traced)]
    simple: list[Any] = [slice(None) if isinstance(k, Traced) else k for k in keys]
    if any(k is None or not isinstance(k, slice) for k in simple) or places != list(range(places[0], places[-1] + 1)):
        raise UnsupportedError(
            "integer arrays mixed with None, single integers, or apart from one another in one index",
            "take in two steps: x[ids] first, then slices and single indices",
        )
    sliced = x if all(k == slice(None) for k in simple) else _slices(x, simple)
    return gather(sliced, places[0], arrays)


def _expand(x: Traced, keys: tuple[Any, ...]) -> list[Any]:
    """One key an axis, and None for each new one; the ellipsis filled in."""
    given = sum(k is not None and k is not Ellipsis for k in keys)
    ellipses = sum(k is Ellipsis for k in keys)
    if ellipses > 1:
        raise ShapeError("an index with two ellipses")
    if given > x.ndim:
        raise BoundsError(f"{given} indices for an array of shape {show_shape(x.extents)}", f"give at most {x.ndim}")
    if not ellipses:
        keys = (*keys, Ellipsis)
    out: list[Any] = []
    for k in keys:
        out.extend([slice(None)] * (x.ndim - given) if k is Ellipsis else [k])
    return out


def _element(x: Traced, keys: list[Any]) -> Scalar:
    """x[i, k] within a comprehension."""
    index = []
    for k in keys:
        if k is None or isinstance(k, (slice, Traced, np.ndarray, list)):
            raise ShapeError(
                f"an element of {x.tensor.name}, of shape {show_shape(x.extents)}, takes {x.ndim} indices",
                "within a comprehension index every axis with one index",
            )
        part = lift(k, x.tracing, "index")
        if part.sort != "int":
            raise DTypeError(f"index of dtype {part.dtype}", "index with integers")
        index.append(canonical(part.at()))
    return Scalar(x.at(*index), x.dtype_name, x.tracing, x.weak)


def _slices(x: Traced, keys: list[Any]) -> Traced:
    """Slices, single indices and new axes."""
    shape: list[Term] = []
    plan: list[tuple[Slice | Term, int]] = []  # for each source axis: what it reads, and at which output axis
    axis = 0
    for k in keys:
        if k is None:
            shape.append(ONE)
            continue
        extent = x.extents[axis]
        if isinstance(k, slice):
            part = _slice(x.tracing, k, extent, axis)
            plan.append((part, len(shape)))
            shape.append(part.count)
        else:
            plan.append((_single(x, k, extent, axis), -1))
        axis += 1

    def value(*i: Term) -> Term:
        at = (p if not isinstance(p, Slice) else iadd(p.start, imul(i[place], p.step)) for p, place in plan)
        return x.at(*at)

    return x.tracing.define("slice", x.dtype_name, tuple(shape), value, weak=x.weak)


def _single(x: Traced, key: Any, extent: Term, axis: int) -> Term:
    """An integer index, counted from the end where negative."""
    index = as_term(key)
    if index is None:
        raise UnsupportedError(
            f"an index of type {type(key).__name__}", "index with integers, slices, None, ... or integer arrays"
        )
    if isinstance(index, Const) and int(index.value) < 0:
        index = iadd(extent, index)
    inside = Op("and", (Op("le", (ZERO, index)), Op("lt", (index, extent))))
    x.tracing.require(
        inside, f"index {key} is out of bounds for axis {axis} of an array of shape {show_shape(x.extents)}"
    )
    return index


def _slice(tracing: Tracing, key: slice, extent: Term, axis: int) -> Slice:
    """A slice with its bounds clamped to the axis."""
    step = 1 if key.step is None else key.step
    if isinstance(step, Extent) or not isinstance(step, (int, np.integer)) or step == 0:
        raise BoundsError(f"slice step {key.step!r}", "use a nonzero int")
    step = int(step)
    last = isub(extent, ONE)
    shown = f"slice {_show(key)} leaves axis {axis} of extent {show(extent)}"

    def bound(value: Any, default: Term) -> Term:
        if value is None:
            return default
        term = as_term(value)
        if term is None:
            raise BoundsError(f"slice bound {value!r} is not a size", "slice with ints and sizes such as x.shape[0]")
        if isinstance(term, Const) and int(term.value) < 0:
            term = iadd(extent, term)
        low, high = (ZERO, extent) if step > 0 else (Const(-1), last)
        negated = tracing.least(isub(ZERO, term), isub(ZERO, low), shown)  # max(term, low)
        return tracing.least(isub(ZERO, negated), high, shown)

    if step > 0:
        start, stop = bound(key.start, ZERO), bound(key.stop, extent)
        length = isub(stop, start)
    else:
        start, stop = bound(key.start, last), bound(key.stop, Const(-1))
        length = isub(start, stop)
    if tracing.never(Op("lt", (ZERO, length))):
        return Slice(ZERO, 1, ZERO)
    tracing.require(Op("le", (ZERO, length)), shown)
    return Slice(start, step, ceildiv(length, abs(step)))


def _show(key: slice) -> str:
    parts = ["" if part is None else str(part) for part in (key.start, key.stop, key.step)]
    return ":".join(parts if key.step is not None else parts[:2])
