"""Σ_j x_j·c / d  ->  (Σ_j x_j)·c / d,   Σ_j −x_j  ->  −Σ_j x_j   for c and d that do not mention j.

H(u) = u·c/d is a homomorphism of addition: (u + v)·c/d = u·c/d + v·c/d; and H(0) = 0, or the domain is never empty.
The factor may stand anywhere in a product or quotient: (p_j / l)·v_j is read as (p_j·v_j) / l. Divisors stay divisors, one
by one (x/8 does not become x·(1/8), nor x/a/b become x/(a·b)). Nothing is pulled out of a maximum or an exponential.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tang_verified.passes.rule import Place, Proposal, depends
from tang_verified.semantics.terms import ADD, REAL_ONE, Fold, Op, Term


@dataclass(frozen=True, slots=True)
class Product:
    """±(n₀·n₁·…)/d₀/d₁/…; each divisor with the operation that divides by it."""

    negative: bool
    factors: tuple[Term, ...]
    divisors: tuple[tuple[str, Term], ...]


def factor(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Fold(monoid, axes, guard, (body,), 0) if monoid == ADD:
            names = frozenset(axis.name for axis in axes)
            whole = product(body)
            kept = tuple(f for f in whole.factors if depends(f, names))
            out = tuple(f for f in whole.factors if not depends(f, names) and f != REAL_ONE)
            below = tuple(d for d in whole.divisors if depends(d[1], names))
            under = tuple(d for d in whole.divisors if not depends(d[1], names))
            if not kept or not (out or under or whole.negative):
                return
            inner = build(Product(False, kept, below))
            fold = Fold(monoid, axes, guard, (inner,))
            yield Proposal("distribute", build(Product(whole.negative, (fold, *out), under)), "factor", moves_reads=True)


def product(term: Term) -> Product:
    """The factors and divisors of a term, outermost products and quotients opened."""
    match term:
        case Op("mul", (a, b)):
            x, y = product(a), product(b)
            return Product(x.negative != y.negative, x.factors + y.factors, x.divisors + y.divisors)
        case Op("div" | "div0" as name, (a, b)):
            x = product(a)
            return Product(x.negative, x.factors, (*x.divisors, (name, b)))
        case Op("neg", (a,)):
            x = product(a)
            return Product(not x.negative, x.factors, x.divisors)
        case _:
            return Product(False, (term,), ())


def build(parts: Product) -> Term:
    out = parts.factors[0]
    for other in parts.factors[1:]:
        out = Op("mul", (out, other))
    for name, divisor in parts.divisors:
        out = Op(name, (out, divisor))
    return Op("neg", (out,)) if parts.negative else out
