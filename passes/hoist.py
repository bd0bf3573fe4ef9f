"""Σ_j (c ? nan : x_j)  ->  (c ? nan : Σ_j x_j),   Σ_j (c ∧ g_j ? x_j : 0)  ->  (c ? Σ_j (g_j ? x_j : 0) : 0).

c does not mention j. With H(u) = (c ? nan : u): H(u + v) = H(u) + H(v), and the sum over nothing is 0, not nan, so the
domain must never be empty. With H(u) = (c ? u : 0) there is nothing to ask: H(0) = 0. So for every monoid.
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.passes.rule import Place, Proposal, depends
from tang_verified.semantics.build import conj
from tang_verified.semantics.terms import NAN, TRUE, Fold, Op, Term


def hoist(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Fold(monoid, axes, guard, (Op("select", (c, a, x)),), 0):
            names = frozenset(axis.name for axis in axes)
            if a == NAN and not depends(c, names):
                hoisted = Op("select", (c, NAN, Fold(monoid, axes, guard, (x,))))
                yield Proposal("distribute", hoisted, "hoist nan", moves_reads=True)
            elif x == monoid.identity[0]:
                free = conj(*(part for part in conjuncts(c) if not depends(part, names)))
                rest = conj(*(part for part in conjuncts(c) if depends(part, names)))
                if free != TRUE:
                    inner = a if rest == TRUE else Op("select", (rest, a, x))
                    hoisted = Op("select", (free, Fold(monoid, axes, guard, (inner,)), x))
                    yield Proposal("distribute", hoisted, "hoist", moves_reads=True)


def conjuncts(condition: Term) -> tuple[Term, ...]:
    match condition:
        case Op("and", (a, b)):
            return conjuncts(a) + conjuncts(b)
        case _:
            return (condition,)
