"""Laws of extended reals: applied together, proved once."""

from __future__ import annotations

import pytest

from tang_verified.passes.laws import law, normal
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import (
    ADD,
    NAN,
    NEG_INF,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    Fold,
    Op,
    Term,
)  # fmt: skip
from tests.passes.helpers import c, fires, keep, label, op, over, stays, x, y

COND = keep(label(), label())
A, B = c(), op("exp", c())
OTHER = op("lt", c(), REAL_ZERO)

FIRES: dict[str, tuple[Term, str]] = {
    "x + 0": (op("add", B, REAL_ZERO), "exp(c[i])"),
    "1·x": (op("mul", REAL_ONE, B), "exp(c[i])"),
    "x / 1": (op("div", B, REAL_ONE), "exp(c[i])"),
    "−(−x)": (op("neg", op("neg", B)), "exp(c[i])"),
    "x − (−y)": (op("sub", A, op("neg", B)), "c[i] + exp(c[i])"),
    "max(x, −∞)": (op("max", B, NEG_INF), "exp(c[i])"),
    "nan": (op("add", op("exp", NAN), B), "nan"),
    "same branches": (op("select", OTHER, A, A), "c[i]"),
    "nested": (op("select", OTHER, NAN, op("add", op("select", OTHER, NAN, A), B)), "c[i] < 0 ? nan : c[i] + exp(c[i])"),
    "nested, taken": (op("select", OTHER, op("neg", op("select", OTHER, A, B)), B), "c[i] < 0 ? −c[i] : exp(c[i])"),
    "nan out": (op("mul", op("select", OTHER, NAN, A), B), "c[i] < 0 ? nan : c[i] · exp(c[i])"),
    "both nan": (
        op("div", op("select", OTHER, NAN, A), op("select", OTHER, NAN, B)), "c[i] < 0 ? nan : c[i] / exp(c[i])",
    ),
    "exp(−∞)": (op("add", A, op("exp", NEG_INF)), "c[i]"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str) -> None:
    value, want = FIRES[name]
    assert fires(value) == want


STAYS: dict[str, Term] = {
    "x·0": op("mul", op("log", A), REAL_ZERO),
    "x − x": op("sub", op("log", A), op("log", A)),
    "0 + x of sub": op("sub", REAL_ZERO, A),
    "1 / x": op("div", REAL_ONE, A),
    "other condition": op("select", OTHER, op("select", op("lt", A, REAL_ONE), A, B), REAL_ONE),
    "comparison of nan": op("select", op("lt", op("log", A), A), A, B),
    "nan in a branch": op("select", OTHER, A, NAN),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    assert stays(STAYS[name])


def test_folds_are_not_entered() -> None:
    fold = Fold(ADD, over(), TRUE, (op("add", x(), REAL_ZERO),))
    assert normal(fold) == fold
    assert fires(fold) == "Σ_{j<m} x[i, j]"  # as a region of its own


def test_a_law_at_the_root_only() -> None:
    inside = op("sin", op("add", A, REAL_ZERO))
    assert isinstance(inside, Op) and law(inside) is None and show(normal(inside)) == "sin(c[i])"
    assert y() != A
