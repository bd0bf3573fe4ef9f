"""Folds are equal under the conditions of the selects above them, in that branch alone, however the branch is written."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tang_verified.proofs.equality import Equality, Scope
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import ADD, REAL_ZERO, TRUE, Axis, Const, Fold, Op, Read, Term, Var

I, K, N = Var("i"), Var("k"), Var("n")
X = Read("x", (K,), "real")
HALF, TWO = Const(Fraction(1, 2)), Const(Fraction(2))
PROGRAM = Program(
    "p", (Size("n"),), (Tensor("x", "float64", (N,)),),
    (Def(Tensor("out", "float64", (N,)), ("i",), Read("x", (I,), "real")),), ("out",),
)  # fmt: skip
C, NARROWER = Op("lt", (I, Const(3))), Op("lt", (I, Const(2)))


def total(condition: Term | None = None) -> Fold:
    body = X if condition is None else Op("select", (condition, X, REAL_ZERO))
    return Fold(ADD, (Axis("k", N),), TRUE, (body,))


def half(condition: Term | None = None) -> Term:
    """Half the sum, as a product where the sum is guarded and as a quotient where it is not."""
    return Op("div", (total(), TWO)) if condition is None else Op("mul", (total(condition), HALF))


def minus(term: Term) -> Term:
    return Op("neg", (term,))


def choose(a: Term, b: Term) -> Term:
    return Op("select", (C, a, b))


def prove(a: Term, b: Term) -> None:
    ledger = Ledger(PROGRAM)
    Equality(ledger).equal("claim", a, b, Scope(ledger.base).over((Axis("i", N),)))


def test_under_the_condition_that_guards_them() -> None:
    prove(choose(half(C), REAL_ZERO), choose(half(), REAL_ZERO))
    prove(choose(REAL_ZERO, half(Op("not", (C,)))), choose(REAL_ZERO, half()))
    prove(choose(half(C), minus(half(Op("not", (C,))))), choose(half(), minus(half())))
    prove(Op("select", (NARROWER, half(C), REAL_ZERO)), Op("select", (NARROWER, half(), REAL_ZERO)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(half(C), half(), id="no select above"),
        pytest.param(choose(REAL_ZERO, half(C)), choose(REAL_ZERO, half()), id="the other branch"),
        pytest.param(choose(half(NARROWER), REAL_ZERO), choose(half(), REAL_ZERO), id="a narrower guard"),
        pytest.param(choose(half(C), minus(half(C))), choose(half(), minus(half())), id="one branch proved, both rewritten"),
        pytest.param(Op("select", (NARROWER, half(C), REAL_ZERO)), choose(half(), REAL_ZERO), id="two conditions"),
        pytest.param(choose(Op("add", (half(C), half())), REAL_ZERO), choose(half(), REAL_ZERO), id="twice the sum"),
    ],
)
def test_unsound(a: Term, b: Term) -> None:
    with pytest.raises(Refused):
        prove(a, b)
    with pytest.raises(Refused):
        prove(b, a)
