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
from tang_verified.semantics.terms import ZERO, Const, Op, Term, children, rebuild


def indices(term: Term, place: Place) -> Iterator[Proposal]:
    """For a whole term of sort int."""
    after = canonical(_rewrite(canonical(term), place))
    if after != canonical(term):
        yield Proposal("pointwise", after, "index arithmetic")


def _rewrite(term: Term, place: Place) -> Term:
    parts = children(term)
    fresh = tuple(_rewrite(part, place) for part in parts)
    node = term if fresh == parts else canonical(rebuild(term, fresh))
    match node:
        case Op("add", _):
            whole = recombine(node)
            return node if whole is None else whole
        case Op("floordiv" | "mod" as name, (a, Const(d))) if isinstance(d, int) and d > 0:
            try:
                small = implies(place.facts(), conj(Op("le", (ZERO, a)), Op("lt", (a, Const(d)))))
            except NotAffine:
                return node
            return node if not small else ZERO if name == "floordiv" else a
        case _:
            return node


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
