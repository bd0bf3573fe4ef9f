"""Index arithmetic that reshapes leave behind, on integers, for constant d > 0.

    d·(a // d) + a % d   ->  a
    a // d               ->  0      where 0 ≤ a < d
    a % d                ->  a      where 0 ≤ a < d

Linear forms are canonical already (semantics.build.canonical); these are what it leaves. Ranges come from the axes around.
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.passes.rule import Place, Proposal
from tang_verified.semantics.build import canonical, conj, from_linear, linear
from tang_verified.semantics.sets import NotAffine, implies
from tang_verified.semantics.terms import ZERO, Const, Op, Term


def indices(term: Term, place: Place) -> Iterator[Proposal]:
    """For terms of sort int."""
    match term:
        case Op("add", _):
            whole = recombine(term)
            if whole is not None:
                yield Proposal("pointwise", whole, "quotient and remainder")
        case Op("floordiv" | "mod" as name, (a, Const(d))) if isinstance(d, int) and d > 0:
            try:
                small = implies(place.facts(), conj(Op("le", (ZERO, a)), Op("lt", (a, Const(d)))))
            except NotAffine:
                return
            if small:
                yield Proposal("pointwise", ZERO if name == "floordiv" else a, "small remainder")


def recombine(term: Term) -> Term | None:
    """c·d·(a // d) + c·(a % d) + rest  ->  c·a + rest, once."""
    parts, constant = linear(term)
    for atom, c in parts.items():
        match atom:
            case Op("mod", (a, Const(d))) if isinstance(d, int):
                quotient = Op("floordiv", (a, Const(d)))
                if parts.get(quotient) == c * d:
                    rest = {other: k for other, k in parts.items() if other not in (atom, quotient)}
                    return canonical(Op("add", (Op("mul", (Const(c), a)), from_linear(rest, constant))))
    return None
