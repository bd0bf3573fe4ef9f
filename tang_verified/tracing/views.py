"""Axes moved, added, removed, stretched or reversed: out[index] = x[index'], one read at affine indices."""

from __future__ import annotations

from typing import Any

from tang_verified.errors import ShapeError
from tang_verified.semantics.build import isub
from tang_verified.semantics.terms import ONE, ZERO, Const, Term
from tang_verified.tracing.array import Traced
from tang_verified.tracing.axes import one_axis, several_axes
from tang_verified.tracing.extent import as_term
from tang_verified.tracing.sizes import show_shape
from tang_verified.tracing.values import need_array


def permute_dims(array: Any, axes: Any = None) -> Traced:
    x = need_array(array, "permute_dims")
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(one_axis(x, a, "permute_dims") for a in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(f"permute_dims: {axes} does not name each axis of shape {show_shape(x.extents)} once")
    source = {axis: place for place, axis in enumerate(order)}
    return x.tracing.define(
        "transpose", x.dtype_name, tuple(x.extents[a] for a in order),
        lambda *i: x.at(*(i[source[axis]] for axis in range(x.ndim))), weak=x.weak,
    )  # fmt: skip


def matrix_transpose(array: Any) -> Traced:
    x = need_array(array, "matrix_transpose")
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose of an array of shape {show_shape(x.extents)}", "it takes at least two axes")
    return swapaxes(x, -1, -2)


def swapaxes(array: Any, a: int, b: int) -> Traced:
    x = need_array(array, "swapaxes")
    order = list(range(x.ndim))
    p, q = one_axis(x, a, "swapaxes"), one_axis(x, b, "swapaxes")
    order[p], order[q] = q, p
    return permute_dims(x, order)


def moveaxis(array: Any, source: Any, destination: Any) -> Traced:
    x = need_array(array, "moveaxis")
    sources = [one_axis(x, a, "moveaxis") for a in (source if isinstance(source, (tuple, list)) else (source,))]
    targets = [one_axis(x, a, "moveaxis") for a in (destination if isinstance(destination, (tuple, list)) else (destination,))]
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets) or len(sources) != len(targets):
        raise ShapeError(f"moveaxis: {source} to {destination} does not pair distinct axes")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return permute_dims(x, order)


def expand_dims(array: Any, axis: Any = 0) -> Traced:
    x = need_array(array, "expand_dims")
    asked = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(asked)
    new = {one_axis(x, a, "expand_dims", rank) for a in asked}
    if len(new) != len(asked):
        raise ShapeError(f"expand_dims: axis {axis} names an axis twice")
    kept = [place for place in range(rank) if place not in new]
    old = iter(x.extents)
    shape = tuple(ONE if place in new else next(old) for place in range(rank))
    return x.tracing.define("expand", x.dtype_name, shape, lambda *i: x.at(*(i[place] for place in kept)), weak=x.weak)


def squeeze(array: Any, axis: Any = None) -> Traced:
    x = need_array(array, "squeeze")
    gone = [a for a in range(x.ndim) if x.extents[a] == ONE] if axis is None else list(several_axes(x, axis, "squeeze"))
    for a in gone:
        if x.extents[a] != ONE:
            raise ShapeError(f"squeeze: axis {a} of an array of shape {show_shape(x.extents)} is not 1")
    kept = [a for a in range(x.ndim) if a not in gone]

    def value(*i: Term) -> Term:
        at = dict(zip(kept, i, strict=True))
        return x.at(*(at.get(a, ZERO) for a in range(x.ndim)))

    return x.tracing.define("squeeze", x.dtype_name, tuple(x.extents[a] for a in kept), value, weak=x.weak)


def shape_terms(shape: Any, label: str) -> tuple[Term, ...]:
    """A shape given as an int, an extent or a tuple of them."""
    parts = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    terms = []
    for part in parts:
        term = as_term(part)
        if term is None or (isinstance(term, Const) and int(term.value) < 0):
            raise ShapeError(f"{label}: {part!r} is not a size", "use ints, and sizes such as x.shape[0]")
        terms.append(term)
    return tuple(terms)


def broadcast_to(array: Any, shape: Any) -> Traced:
    x = need_array(array, "broadcast_to", shape if isinstance(shape, (tuple, list)) else (shape,))
    target = shape_terms(shape, "broadcast_to")
    skip = len(target) - x.ndim
    fits = skip >= 0 and all(
        e == ONE or x.tracing.same(e, t) for e, t in zip(x.extents, target[max(skip, 0) :], strict=False)
    )
    if not fits:
        raise ShapeError(f"broadcast_to: shape {show_shape(x.extents)} does not stretch to {show_shape(target)}")
    stretched = [e == ONE and t != ONE for e, t in zip(x.extents, target[skip:], strict=True)]
    return x.tracing.define(
        "broadcast", x.dtype_name, target,
        lambda *i: x.at(*(ZERO if wide else at for wide, at in zip(stretched, i[skip:], strict=True))), weak=x.weak,
    )  # fmt: skip


def flip(array: Any, axis: Any = None) -> Traced:
    x = need_array(array, "flip")
    turned = several_axes(x, axis, "flip")

    def value(*i: Term) -> Term:
        return x.at(*(isub(isub(x.extents[a], ONE), i[a]) if a in turned else i[a] for a in range(x.ndim)))

    return x.tracing.define("flip", x.dtype_name, x.extents, value)
