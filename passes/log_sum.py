"""exp(u − M)·x / Σ_j exp(u_j − M)   ->   exp(u − L)·x,   L = M + log Σ_j exp(u_j − M).

A row that needs both its maximum and its sum needs only one number: half the statistics to store and read, and no division.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tang_verified.passes.factor import build, product
from tang_verified.passes.rule import Place, Proposal, depends
from tang_verified.semantics.terms import ADD, REAL_ZERO, Fold, Op, Term, alpha


def log_sum(term: Term, place: Place) -> Iterator[Proposal]:
    if not (isinstance(term, Op) and term.name in ("mul", "div", "div0", "neg")):
        return
    whole = product(term)
    for divisor in whole.divisors:
        top = centre(divisor[1])
        for number, factor in enumerate(whole.factors):
            match factor:
                case Op("exp", (Op("sub", (u, m)),)) if top is not None and alpha(m) == alpha(top):
                    exp = Op("exp", (Op("sub", (u, logarithm(divisor[1], top))),))
                    factors = (*whole.factors[:number], exp, *whole.factors[number + 1 :])
                    divisors = tuple(d for d in whole.divisors if d is not divisor)
                    yield Proposal("pointwise", build(replace(whole, factors=factors, divisors=divisors)), "log-sum")


def centre(term: Term) -> Term | None:
    """M in Σ_j exp(u_j − M), or in Σ_j (c ? exp(u_j − M) : 0)."""
    if not isinstance(term, Fold) or term.monoid != ADD:
        return None
    body = term.body[0]
    while isinstance(body, Op) and body.name == "select" and body.args[2] == REAL_ZERO:
        body = body.args[1]
    match body:
        case Op("exp", (Op("sub", (_, m)),)):
            return None if depends(m, frozenset(axis.name for axis in term.axes)) else m
        case _:
            return None


def logarithm(total: Term, top: Term) -> Term:
    """M + log Σ_j exp(u_j − M)."""
    return Op("add", (top, Op("log", (total,))))
