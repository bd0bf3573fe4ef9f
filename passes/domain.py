"""Σ_j (g_j ? x_j : 0)  ->  Σ_{j : g_j} x_j,   max_j (g_j ? x_j : −∞)  ->  max_{j : g_j} x_j   for affine g.

What is left out is the identity of the monoid. A condition that is not affine (a mask that is data) stays in the body;
of a conjunction, the affine parts move. With the branches the other way round, the condition is negated.
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.passes.hoist import conjuncts
from tang_verified.passes.rule import Place, Proposal
from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.terms import TRUE, Fold, Op, Term, sort_of


def mask_to_domain(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Fold(monoid, axes, guard, (Op("select", (g, x, z)),), 0) if z == monoid.identity[0] or x == monoid.identity[0]:
            if x == monoid.identity[0]:
                g, x, z = negated(g), z, x
            moved = conj(*(part for part in conjuncts(g) if is_affine(part)))
            left = conj(*(part for part in conjuncts(g) if not is_affine(part)))
            if moved != TRUE:
                body = x if left == TRUE else Op("select", (left, x, z))
                yield Proposal("reindex", Fold(monoid, axes, conj(guard, moved), (body,)), "mask to domain")


def negated(condition: Term) -> Term:
    """Not the condition; of integers, a < b for not b <= a."""
    match condition:
        case Op("le", (a, b)) if sort_of(a) == "int":
            return Op("lt", (b, a))
        case Op("lt", (a, b)) if sort_of(a) == "int":
            return Op("le", (b, a))
        case _:
            return canonical(Op("not", (condition,)))
