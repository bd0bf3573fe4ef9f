"""Claims that a bug of the trusted core once let through, or once never answered."""

from __future__ import annotations

from fractions import Fraction

from tang_verified.proofs.equality import Equality, Scope
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    NAN,
    NEG_INF,
    POS_INF,
    REAL_ZERO,
    TRUE,
    Axis,
    Const,
    Fold,
    Monoid,
    Sym,
    Term,
    Var,
)  # fmt: skip
from tests.passes.helpers import I, M, N, keep, op, over, program, x

K = Var("k")


def proved(a: Term, b: Term, *facts: Term, before: Term | None = None) -> bool:
    ledger = Ledger(program(REAL_ZERO))
    equality = Equality(ledger)
    scope = Scope(ledger.base).over((Axis("i", N),)).given(*facts)
    if before is not None:
        equality.finite("before", before, scope)
    try:
        equality.pointwise("claim", a, b, scope)
        return True
    except Refused:
        return False


def test_rsqrt_of_minus_infinity_is_nan() -> None:
    assert not proved(op("rsqrt", NEG_INF), POS_INF)
    assert proved(op("rsqrt", NEG_INF), NAN)
    assert proved(op("rsqrt", REAL_ZERO), POS_INF)


def test_what_a_monoid_keeps_is_not_remembered_by_its_name() -> None:
    a, b = Sym("a0", "real"), Sym("b0", "real")
    other = Monoid("add", (REAL_ZERO,), (op("div", a, b),))  # 0 / 0 is nan: it does not keep finiteness
    plain, divided = Fold(ADD, over(), TRUE, (x(),)), Fold(other, over(), TRUE, (x(),))
    assert proved(op("mul", plain, REAL_ZERO), REAL_ZERO)
    assert not proved(op("mul", divided, REAL_ZERO), REAL_ZERO, before=plain)


def test_a_fact_about_a_fold_ends() -> None:
    row = Fold(MAX, over("k"), TRUE, (op("select", keep(I, K), x(I, K), NEG_INF),))
    known = op("not", op("eq", row, NEG_INF))
    weights = Fold(ADD, (Axis("j", M),), TRUE, (op("exp", op("sub", x(), row)),))
    assert proved(op("add", weights, REAL_ZERO), weights, known)
    assert not proved(weights, REAL_ZERO, known)


def test_a_sum_of_squares_is_never_negative_even_over_nothing() -> None:
    squares = Fold(ADD, over("k"), TRUE, (op("mul", x(I, K), x(I, K)),))
    root = op("sqrt", op("add", squares, Const(Fraction(1, 1000))))
    assert proved(op("div", REAL_ZERO, root), REAL_ZERO)
    assert not proved(op("div", REAL_ZERO, op("sqrt", squares)), REAL_ZERO)
