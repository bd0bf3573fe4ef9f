"""Factors that do not depend on the axis leave the sum."""

from __future__ import annotations

from tang_verified.passes.factor import factor
from tang_verified.semantics.terms import ADD, MAX, REAL_ZERO, TRUE, ZERO, Fold, Term, Var
from tests.passes.helpers import I, c, fires, keep, op, over, stays, x, y


def total(body: Term) -> Fold:
    return Fold(ADD, over(), TRUE, (body,))


def test_fires() -> None:
    assert fires(total(op("mul", x(), c())), factor) == "(Σ_{j<m} x[i, j]) · c[i]"
    assert fires(total(op("mul", op("mul", c(), x()), y())), factor) == "(Σ_{j<m} x[i, j] · y[j]) · c[i]"
    assert fires(total(op("neg", x())), factor) == "−(Σ_{j<m} x[i, j])"
    assert fires(total(op("mul", op("div", x(), c()), y())), factor, low=1) == "(Σ_{j<m} x[i, j] · y[j]) / c[i]"
    positive = Fold(ADD, over("k"), TRUE, (op("exp", x(I, Var("k"))),))
    got = fires(total(op("mul", op("div", x(), positive), y())), factor, low=1)
    assert got == "(Σ_{j<m} x[i, j] · y[j]) / (Σ_{k<m} exp(x[i, k]))"
    assert fires(total(op("div0", x(), c())), factor) == "(Σ_{j<m} x[i, j]) /₀ c[i]"


def test_not() -> None:
    assert stays(total(op("mul", x(), y())), factor)
    assert stays(total(op("div", x(), y())), factor)
    assert stays(total(op("add", x(), c())), factor)
    assert stays(Fold(MAX, over(), TRUE, (op("mul", x(), c()),)), factor)
    assert stays(total(op("div", x(), c())), factor)  # m may be 0: Σ over nothing is 0, 0 / c may be nan
    assert stays(total(op("mul", x(), op("log", c()))), factor)  # 0 · log 0 is nan
    assert stays(total(op("select", keep(), op("mul", x(), c()), REAL_ZERO)), factor)


def test_a_constant_alone_stays() -> None:
    assert stays(total(op("mul", c(), c(ZERO))), factor)
