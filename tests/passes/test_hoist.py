"""Choices that do not depend on the axis leave the fold."""

from __future__ import annotations

from tang_verified.passes.hoist import hoist
from tang_verified.semantics.terms import ADD, MAX, NAN, NEG_INF, REAL_ZERO, TRUE, ZERO, Fold
from tests.passes.helpers import fires, keep, label, op, over, stays, x, y

FREE = op("lt", label(), ZERO)


def test_nan_leaves_a_sum_that_is_never_empty() -> None:
    value = Fold(ADD, over(), TRUE, (op("select", FREE, NAN, x()),))
    assert fires(value, hoist, low=1) == "label[i] < 0 ? nan : Σ_{j<m} x[i, j]"
    assert stays(value, hoist)  # the sum over nothing is 0


def test_zero_leaves_always() -> None:
    value = Fold(ADD, over(), TRUE, (op("select", op("and", FREE, keep()), x(), REAL_ZERO),))
    assert fires(value, hoist) == "label[i] < 0 ? Σ_{j<m} (keep[i, j] ? x[i, j] : 0) : 0"
    value = Fold(MAX, over(), TRUE, (op("select", FREE, x(), NEG_INF),))
    assert fires(value, hoist) == "label[i] < 0 ? max_{j<m} x[i, j] : −∞"


def test_not() -> None:
    assert stays(Fold(ADD, over(), TRUE, (op("select", op("lt", y(), REAL_ZERO), NAN, x()),)), hoist, low=1)
    assert stays(Fold(ADD, over(), TRUE, (op("select", FREE, x(), y()),)), hoist, low=1)
    assert stays(Fold(MAX, over(), TRUE, (op("select", FREE, x(), REAL_ZERO),)), hoist, low=1)
