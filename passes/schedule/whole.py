"""A whole fold in one statement:  state[e] := ⊕_{b, l} body(V·b + l)   lanes along its first axis (or along e)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tang_verified.passes.schedule.analysis import renamed
from tang_verified.passes.schedule.group import COPIES, fold_lanes
from tang_verified.passes.schedule.lower import Lowering, Point, Tiled, alloc
from tang_verified.semantics.build import conj, linear
from tang_verified.semantics.kernel import Assign, Kind, Loop, Stmt
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import TRUE, ZERO, Axis, Const, Fold, Op, Sort, Term, Var, free_vars, reads, sort_of

if TYPE_CHECKING:
    from tang_verified.passes.schedule.plan import Planner


def whole_fold(planner: Planner, low: Lowering, fold: Fold) -> list[Stmt]:
    """Allocates and computes a row fold; afterwards `low` reads it from its buffer."""
    names = planner.names
    fold = renamed(fold, tuple(names.fresh(axis.name) for axis in fold.axes))
    extra = [a for a in low.tiled if a in free_vars(fold)]
    name = names.fresh("state")
    out: list[Stmt] = []
    components = range(len(fold.body))
    shape = tuple(t.extent if t.base == ZERO else Const(t.tile) for t in (low.tiled[a] for a in extra))
    loops = tuple(Loop(Axis(names.fresh(f"{a}_e"), extent), "seq") for a, extent in zip(extra, shape, strict=True))
    point: dict[str, Term] = {a: Var(loop.axis.name) for a, loop in zip(extra, loops, strict=True)}
    ragged = [low.tiled[a].valid(point[a]) for a in extra if low.tiled[a].base != ZERO]
    for k in components:
        own = f"{name}_{k}" if len(fold.body) > 1 else name
        out.append(alloc(own, _dtype(planner, fold, k), shape))
        kinds: dict[str, Kind] = {}
        value = laned(low, planner.lanes, Fold(fold.monoid, fold.axes, fold.guard, fold.body, k), kinds)(point)
        for valid in ragged:
            value = Op("select", (valid, value, fold.monoid.identity[k])) if valid != TRUE else value
        index = tuple(Var(loop.axis.name) for loop in loops)
        out.append(Assign(loops, own, index, value, TRUE, tuple(kinds.items())))
        low.store(Fold(fold.monoid, fold.axes, fold.guard, fold.body, k), own, lambda p: tuple(p[a] for a in extra))
    return out


def _dtype(planner: Planner, fold: Fold, k: int) -> DType:
    held: dict[Sort, DType] = {"real": planner.dtype, "int": "int64", "bool": "bool"}
    return held[sort_of(fold.monoid.identity[k])]


def laned(low: Lowering, lanes: int, fold: Fold, kinds: dict[str, Kind]) -> Callable[[Point], Term]:
    """How the fold is written where it stands: lanes along its last axis if that is contiguous. Adds its axes' kinds."""
    names = low.names
    fold = renamed(fold, tuple(names.fresh(axis.name) for axis in fold.axes))
    axis = fold.axes[-1]
    contiguous = any(r.index and linear(r.index[-1])[0].get(Var(axis.name), 0) == 1 for r in reads(fold))
    plain = len(fold.body) != 1 or not fold.monoid.commutative or not contiguous or sort_of(fold) != "real"
    if plain or _small(axis, lanes):
        return lambda point: low.plain_fold(fold, point)
    lined, local, own = fold_lanes(names, axis.name, axis.extent, lanes)
    kinds.update(own)
    tiled = Tiled(axis.name, axis.extent, Const(0), lanes * (COPIES if len(lined) == 3 else 1))

    def value(point: Point) -> Term:
        inner = low.child()
        inner.tiled[axis.name] = tiled
        here = {**point, axis.name: local}
        inside = conj(tiled.valid(local), inner.lower(fold.guard, here))
        element = inner.lower(fold.body[0], here)
        if inside != TRUE:
            element = Op("select", (inside, element, fold.monoid.identity[0]))
        return Fold(fold.monoid, (*fold.axes[:-1], *lined), TRUE, (element,))

    return value


def _small(axis: Axis, lanes: int) -> bool:
    return isinstance(axis.extent, Const) and int(axis.extent.value) < lanes


__all__ = ["laned", "whole_fold"]
