"""Conditions on the lane axis: their parts with and without it, and linear comparisons as bounds of the lane number."""

from __future__ import annotations

from collections.abc import Callable

from tang_verified.backends.scopes import Lane
from tang_verified.semantics.build import canonical, conjuncts, linear
from tang_verified.semantics.terms import ONE, TRUE, Const, Op, Term, Var


def split_condition(
    condition: Term, lane: str, uses: Callable[[Term], frozenset[str]], safe: Callable[[Term], bool]
) -> tuple[Term, Term]:
    """A conjunction as (the part without the lane axis, the part with it).

    A part that reads memory may need those before it: it leaves only if none of them has the lane axis.
    """
    fixed: Term = TRUE
    varying: Term = TRUE
    for part in conjuncts(condition):
        if lane not in uses(part) and (varying == TRUE or safe(part)):
            fixed = canonical(Op("and", (fixed, part)))
        else:
            varying = canonical(Op("and", (varying, part)))
    return fixed, varying


def lane_bound(
    name: str, args: tuple[Term, ...], lane: Lane | None, uses: Callable[[Term], frozenset[str]]
) -> tuple[str, Term, bool] | None:
    """(relation, bound, negate) of an integer comparison that is linear in the lane."""
    if lane is None:
        return None
    atoms, constant = linear(Op("sub", args))
    axis = Var(lane.name)
    slope = atoms.pop(axis, 0)
    if slope == 0 or any(lane.name in uses(atom) for atom in atoms):
        return None
    rest: Term = Const(constant)
    for atom in sorted(atoms, key=repr):
        rest = Op("add", (rest, Op("mul", (Const(atoms[atom]), atom))))
    if name in ("eq", "ne"):
        if abs(slope) != 1:
            return None
        return "equal", canonical(Op("mul", (Const(-slope), rest))), name == "ne"
    if name == "le":  # for integers, a <= 0 is a - 1 < 0
        rest = Op("sub", (rest, ONE))
    # slope·l + rest < 0:  l < ceil(-rest / slope) if slope > 0, else l >= floor(rest / -slope) + 1
    if slope > 0:
        bound: Term = Op("neg", (Op("floordiv", (rest, Const(slope))),))
        return "below", canonical(bound), False
    return "from", canonical(Op("add", (Op("floordiv", (rest, Const(-slope))), ONE))), False
