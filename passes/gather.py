"""Σ_{v<V} (v = e ? f(v) : 0)  ->  (0 ≤ e < V ? f(e) : 0)   for e free of v: an embedding, a label's logit.

At most one v equals e; every other element is the identity. Σ over several such axes is first nested, one axis a fold,
and an equality among other conditions is first put outermost. So for every monoid.
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.passes.hoist import conjuncts
from tang_verified.passes.rule import Place, Proposal
from tang_verified.semantics.build import conj
from tang_verified.semantics.terms import TRUE, ZERO, Fold, Op, Term, Var, free_vars, substitute


def gather(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Fold(monoid, axes, _, (Op("select", (c, f, identity)),), 0) if identity == monoid.identity[0]:
            for number, axis in enumerate(axes):
                hit = next((part for part in conjuncts(c) if position(part, axis.name) is not None), None)
                if hit is None:
                    continue
                if len(axes) > 1:
                    yield from _nest(term, number)
                else:
                    yield _one(term, hit, conj(*(part for part in conjuncts(c) if part != hit)), f, identity)
                return


def position(condition: Term, axis: str) -> Term | None:
    """e, of a condition axis = e or e = axis with e free of the axis."""
    match condition:
        case Op("eq", (Var(name), e)) if name == axis and axis not in free_vars(e):
            return e
        case Op("eq", (e, Var(name))) if name == axis and axis not in free_vars(e):
            return e
        case _:
            return None


def _one(fold: Fold, hit: Term, rest: Term, f: Term, identity: Term) -> Proposal:
    """The element that `hit` chooses; the other conditions are put inside first."""
    (axis,) = fold.axes
    e = position(hit, axis.name) or ZERO
    value = f if rest == TRUE else Op("select", (rest, f, identity))
    here: dict[str, Term] = {axis.name: e}
    inside = conj(Op("le", (ZERO, e)), Op("lt", (e, axis.extent)), substitute(fold.guard, here))
    found = Proposal("gather", Op("select", (inside, substitute(value, here), identity)), "gather")
    if rest == TRUE:
        return found
    first = Fold(fold.monoid, fold.axes, fold.guard, (Op("select", (hit, value, identity)),))
    return Proposal("reindex", first, "gather: equality first", found)


def _nest(fold: Fold, number: int) -> Iterator[Proposal]:
    """Σ_{v,w} f  ->  Σ_w Σ_v f, the axis `number` innermost, when no other axis' extent needs it."""
    axis = fold.axes[number]
    others = fold.axes[:number] + fold.axes[number + 1 :]
    if not any(axis.name in free_vars(other.extent) for other in others) and fold.monoid.commutative:
        inner = Fold(fold.monoid, (axis,), TRUE, fold.body)
        yield Proposal("reindex", Fold(fold.monoid, others, fold.guard, (inner,)), "gather: one axis a fold")
