"""Elements at positions that are data: x[ids]  ->  out[i] = Σ_v [v = ids[i]] · x[v], a one-hot reduction.

So an embedding is a reduction like any other, and what is out of 0 <= id < size contributes nothing (NumPy would raise
or count from the end; ids must be in range). An id that is an affine function of its own index, as xp.arange(n) is, is
read directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tang_verified.errors import BoundsError, DTypeError, ShapeError
from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import SORTS
from tang_verified.semantics.terms import (
    ADD,
    ANY,
    FALSE,
    INT_ADD,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    rebuild,
    substitute,
)  # fmt: skip
from tang_verified.tracing.array import Traced
from tang_verified.tracing.axes import one_axis
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.sizes import is_affine, show, show_shape
from tang_verified.tracing.values import array_of, broadcast_shapes, lift, need_array


def take(array: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Traced:
    """x's slices at the given indices along an axis."""
    x = need_array(array, "take", (indices,))
    if axis is None and x.ndim != 1:
        raise ShapeError(f"take from an array of shape {show_shape(x.extents)} without an axis", "say axis=0")
    return gather(x, one_axis(x, axis or 0, "take"), [array_of(indices, x.tracing, "take")])


def take_along_axis(array: Any, indices: Any, axis: Any = -1) -> Traced:
    """out[i, j] = x[i, indices[i, j]], all other axes broadcast together."""
    x = need_array(array, "take_along_axis", (indices,))
    ids = array_of(indices, x.tracing, "take_along_axis")
    place = one_axis(x, axis, "take_along_axis")
    _need_ints(ids, "take_along_axis")
    if ids.ndim != x.ndim:
        raise ShapeError(f"take_along_axis: shapes {show_shape(x.extents)} and {show_shape(ids.extents)} differ in rank")
    one = ids.extents[place]
    rest = broadcast_shapes(
        x.tracing, [(*s[:place], *s[place + 1 :]) for s in (x.extents, ids.extents)], "take_along_axis"
    )  # fmt: skip
    shape = (*rest[:place], one, *rest[place:])
    lifted, chosen = lift(x, x.tracing, "take_along_axis"), lift(ids, x.tracing, "take_along_axis")

    def read(v: Sequence[Term], *i: Term) -> Term:
        return lifted.broadcast((*i[:place], v[0], *i[place + 1 :]), lifted.sort)

    return _one_hot(x, "take_along", [x.extents[place]], shape, lambda *i: [chosen.broadcast(i, "int")], read)


def gather(x: Traced, first: int, ids: list[Traced]) -> Traced:
    """x[..., ids0, ids1, ...] from axis `first` on, the index arrays broadcast together."""
    for array in ids:
        _need_ints(array, "index")
    tracing = x.tracing
    lifted = [lift(array, tracing, "index") for array in ids]
    inner = broadcast_shapes(tracing, [part.shape for part in lifted], "index")
    last = first + len(ids)
    shape = (*x.extents[:first], *inner, *x.extents[last:])

    def chosen(*i: Term) -> list[Term]:
        return [part.broadcast(i[first : first + len(inner)], "int") for part in lifted]

    def read(v: Sequence[Term], *i: Term) -> Term:
        return x.at(*i[:first], *v, *i[first + len(inner) :])

    return _one_hot(x, "take", list(x.extents[first:last]), shape, chosen, read)


def _one_hot(
    x: Traced, hint: str, extents: list[Term], shape: tuple[Term, ...],
    chosen: Callable[..., list[Term]], read: Callable[..., Term],
) -> Traced:  # fmt: skip
    """out[i] = Σ_v select(v = chosen(i), read(v, i), 0); positions that are affine in i are read directly."""
    tracing = x.tracing
    axes = tuple(Axis(name, extent) for name, extent in zip(tracing.axes(len(extents), "v"), extents, strict=True))
    monoid, nothing = {"real": (ADD, REAL_ZERO), "int": (INT_ADD, ZERO), "bool": (ANY, FALSE)}[SORTS[x.dtype_name]]

    def value(*i: Term) -> Term:
        asked = chosen(*i)
        box = {var.name: extent for var, extent in zip(i, shape, strict=True) if isinstance(var, Var)}
        at: list[Term] = []
        folded: list[tuple[Axis, Term]] = []
        for axis, position in zip(axes, asked, strict=True):
            direct = index_arithmetic(tracing, position)
            if direct is None:
                at.append(Var(axis.name))
                folded.append((axis, position))
                continue
            inside = Op("and", (Op("le", (ZERO, direct)), Op("lt", (direct, axis.extent))))
            if not tracing.always_over(inside, box):
                raise BoundsError(
                    f"index {show(direct)} leaves its axis of extent {show(axis.extent)}", "keep indices within 0 <= i < size"
                )
            at.append(direct)
        body = read(at, *i)
        if not folded:
            return body
        hit: Term = TRUE
        for axis, position in folded:
            hit = canonical(Op("and", (hit, Op("eq", (Var(axis.name), position)))))
        return Fold(monoid, tuple(axis for axis, _ in folded), TRUE, (Op("select", (hit, body, nothing)),))

    return tracing.define(hint, x.dtype_name, shape, value)


def index_arithmetic(tracing: Tracing, term: Term) -> Term | None:
    """The term with reads of definitions expanded, if it then depends on no array and is affine."""
    definitions = {d.tensor.name: d for d in tracing.defs}

    def expand(node: Term) -> Term:
        fresh = tuple(expand(part) for part in children(node))
        if isinstance(node, Read) and node.tensor in definitions and SORTS[definitions[node.tensor].tensor.dtype] == "int":
            d = definitions[node.tensor]
            return expand(substitute(d.value, dict(zip(d.axes, fresh, strict=True))))
        return rebuild(node, fresh)

    found = canonical(expand(term))
    return found if is_affine(found) else None


def _need_ints(array: Traced, label: str) -> None:
    if SORTS[array.dtype_name] != "int":
        raise DTypeError(f"{label}: indices of dtype {array.dtype_name}", "index with integers")
