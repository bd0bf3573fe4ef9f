"""A whole fold in one statement:  state[e] := ⊕_{b, l} body(V·b + l)   lanes along its first axis (or along e)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tang_verified.passes.schedule.analysis import renamed
from tang_verified.passes.schedule.group import COPIES, fold_lanes
from tang_verified.passes.schedule.lower import Lowering, Tiled, alloc
from tang_verified.semantics.build import conj, linear
from tang_verified.semantics.kernel import Assign, Kind, Loop, Stmt
from tang_verified.semantics.terms import TRUE, Axis, Const, Fold, Op, Read, Term, Var, free_vars, reads, sort_of

if TYPE_CHECKING:
    from tang_verified.passes.schedule.plan import Planner


def whole_fold(planner: Planner, low: Lowering, fold: Fold) -> list[Stmt]:
    """Allocates and computes a row fold; afterwards `low` reads it from its buffer."""
    names, lanes = planner.names, planner.lanes
    fold = renamed(fold, tuple(names.fresh(axis.name) for axis in fold.axes))
    extra = [a for a in low.tiled if a in free_vars(fold)]
    name = names.fresh("state")
    out: list[Stmt] = []
    components = range(len(fold.body))
    shape = tuple(low.tiled[a].extent for a in extra)
    loops = tuple(Loop(Axis(names.fresh(f"{a}_e"), low.tiled[a].extent), "seq") for a in extra)
    point: dict[str, Term] = {a: Var(loop.axis.name) for a, loop in zip(extra, loops, strict=True)}
    for k in components:
        own = f"{name}_{k}" if len(fold.body) > 1 else name
        out.append(alloc(own, _dtype(planner, fold, k), shape))
        inner = low.child()
        value, kinds = _value(inner, Fold(fold.monoid, fold.axes, fold.guard, fold.body, k), point, lanes, planner)
        index = tuple(Var(loop.axis.name) for loop in loops)
        out.append(Assign(loops, own, index, value, TRUE, tuple(kinds.items())))
        low.store(Fold(fold.monoid, fold.axes, fold.guard, fold.body, k), own, lambda p: tuple(p[a] for a in extra))
    return out


def _dtype(planner: Planner, fold: Fold, k: int) -> str:
    sort = sort_of(fold.monoid.identity[k])
    return {"real": planner.dtype, "int": "int64", "bool": "bool"}[sort]


def _value(
    low: Lowering, fold: Fold, point: dict[str, Term], lanes: int, planner: Planner
) -> tuple[Term, dict[str, Kind]]:
    axis = fold.axes[-1]
    contiguous = any(r.index and linear(r.index[-1])[0].get(Var(axis.name), 0) == 1 for r in reads(fold))
    if len(fold.body) != 1 or not fold.monoid.commutative or not contiguous or sort_of(fold) != "real" or _small(axis, lanes):
        value = low.lower(fold, point)
        return value, {}
    lined, local, kinds = fold_lanes(planner.names, axis.name, axis.extent, lanes)
    step = lanes * (COPIES if len(lined) == 3 else 1)
    low.tiled[axis.name] = Tiled(axis.name, axis.extent, Const(0), step)
    here = {**point, axis.name: local}
    inside = conj(low.tiled[axis.name].valid(local), low.lower(fold.guard, here))
    element = Op("select", (inside, low.lower(fold.body[0], here), fold.monoid.identity[0]))
    axes = (*fold.axes[:-1], *lined)
    return Fold(fold.monoid, axes, TRUE, (element if inside != TRUE else element.args[1],)), kinds


def _small(axis: Axis, lanes: int) -> bool:
    return isinstance(axis.extent, Const) and int(axis.extent.value) < lanes  # type: ignore[arg-type]


__all__ = ["Read", "whole_fold"]
