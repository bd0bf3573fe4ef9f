"""exp((g ? s : −∞) − M)  ->  (g ? exp(s − M) : 0), or (M = −∞ ? nan : (g ? exp(s − M) : 0)).

Where g fails the argument is −∞ − M: −∞ for finite M, and its exponential is 0. Only M = −∞, a row that is masked
throughout, is different: −∞ − (−∞) is nan; by the convention empty="zero" (−₀) it is −∞ again. The form without the case
is proposed first; the checker takes it when the row is never empty (a causal mask), or under the convention. Where M may
be nan (scores divided by the root of a size that may be 0) that is one more case.
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.passes.rule import Place, Proposal
from tang_verified.semantics.terms import NAN, NEG_INF, REAL_ZERO, Op, Term


def unmask(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Op("exp", (Op("sub" | "sub0" as minus, (Op("select", (g, s, z)), top)),)) if z == NEG_INF:
            plain = Op("select", (g, Op("exp", (Op("sub", (s, top)),)), REAL_ZERO))
            yield Proposal("pointwise", plain, "unmask")
            if minus == "sub":
                empty = Op("eq", (top, NEG_INF))
                yield Proposal("pointwise", Op("select", (empty, NAN, plain)), "unmask, or nan")
                unknown = Op("or", (empty, Op("ne", (top, top))))
                yield Proposal("pointwise", Op("select", (unknown, NAN, plain)), "unmask, or nan of nan")
