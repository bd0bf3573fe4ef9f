"""Operations on choices, and choices that are made."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tang_verified.passes.selects import absorb, decide, merge, vanish, zero
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    NEG_INF,
    ONE,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Const,
    Fold,
    Term,
)  # fmt: skip
from tests.passes.helpers import I, J, M, c, fires, keep, label, op, over, stays, x, y

G = op("lt", label(), ZERO)
EIGHT = Const(Fraction(8))


def picked(value: Term, other: Term) -> Term:
    return op("select", G, value, other)


ABSORB: dict[str, tuple[Term, str]] = {
    "product": (op("mul", picked(c(), REAL_ZERO), c()), "label[i] < 0 ? c[i] · c[i] : 0"),
    "product, left": (op("mul", c(), picked(c(), REAL_ZERO)), "label[i] < 0 ? c[i] · c[i] : 0"),
    "additive mask": (op("add", c(), picked(REAL_ZERO, NEG_INF)), "label[i] < 0 ? c[i] : −∞"),
    "bias": (op("add", picked(op("exp", c()), NEG_INF), c()), "label[i] < 0 ? exp(c[i]) + c[i] : −∞"),
    "scale": (op("div", picked(c(), NEG_INF), EIGHT), "label[i] < 0 ? c[i] / 8 : −∞"),
    "indicator": (op("mul", op("real", op("int", G)), c()), "label[i] < 0 ? c[i] : 0"),
}


@pytest.mark.parametrize("name", ABSORB)
def test_absorb(name: str) -> None:
    value, want = ABSORB[name]
    assert fires(value, absorb) == want


REFUSED: dict[str, Term] = {
    "0 · infinite": op("mul", picked(c(), REAL_ZERO), op("log", c())),
    "−∞ · negative": op("mul", picked(c(), NEG_INF), Const(Fraction(-2))),
    "−∞ / negative": op("div", picked(c(), NEG_INF), Const(Fraction(-2))),
    "0 / 0": op("div", picked(c(), REAL_ZERO), REAL_ZERO),
    "not the zero": op("mul", picked(c(), REAL_ONE), c()),
    "unknown bias": op("add", picked(c(), NEG_INF), op("log", c())),
}


@pytest.mark.parametrize("name", REFUSED)
def test_absorb_not(name: str) -> None:
    assert stays(REFUSED[name], absorb)


def test_merge() -> None:
    inner = op("select", op("lt", c(), REAL_ONE), c(), REAL_ZERO)
    assert fires(picked(inner, REAL_ZERO), merge) == "label[i] < 0 ∧ c[i] < 1 ? c[i] : 0"
    assert stays(picked(inner, REAL_ONE), merge)
    guarded = op("select", keep(I, op("sub", I, ONE)), c(), REAL_ZERO)  # where i < 1 there is no such element
    assert stays(op("select", op("and", op("le", ONE, I), op("le", I, M)), guarded, REAL_ZERO), merge)


def test_decide() -> None:
    inside = op("select", op("and", op("le", ZERO, J), op("lt", J, M)), x(), REAL_ZERO)
    assert fires(Fold(ADD, over(), TRUE, (inside,)), decide) == "Σ_{j<m} x[i, j]"
    below = op("select", op("lt", I, J), REAL_ONE, x())
    assert fires(Fold(ADD, over(), op("le", J, I), (below,)), decide) == "Σ_{j<m : j ≤ i} x[i, j]"
    assert stays(Fold(ADD, over(), TRUE, (op("select", op("lt", J, I), x(), REAL_ZERO),)), decide)
    assert stays(Fold(ADD, over(), TRUE, (op("select", keep(), x(), REAL_ZERO),)), decide)


def test_vanish() -> None:
    assert fires(op("mul", c(), REAL_ZERO), vanish) == "0"
    assert fires(op("sub", c(), c()), vanish) == "0"
    assert stays(op("mul", op("log", c()), REAL_ZERO), vanish)  # log 0 = −∞
    assert stays(op("div", REAL_ZERO, c()), vanish)  # 0 / 0


def test_zero() -> None:
    assert fires(op("div0", c(), EIGHT), zero) == "c[i] / 8"
    assert fires(op("sub0", c(), y(ZERO)), zero, low=1) == "c[i] − y[0]"
    assert stays(op("div0", c(), c()), zero)
    top = Fold(MAX, over(), TRUE, (x(),))
    assert fires(op("sub0", op("log", c()), top), zero, low=1).startswith("log(c[i]) − ")
    assert stays(op("sub0", op("log", c()), top), zero)  # log 0 = −∞, and the row may be empty
