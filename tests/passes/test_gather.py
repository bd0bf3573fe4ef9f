"""One-hot reductions become reads at an index that is data."""

from __future__ import annotations

from tang_verified.passes.gather import gather
from tang_verified.passes.hoist import hoist
from tang_verified.semantics.terms import ADD, MAX, NEG_INF, REAL_ZERO, TRUE, ZERO, Axis, Fold, Var
from tests.passes.helpers import I, J, M, N, fires, keep, label, op, over, stays, x

HIT = op("eq", J, label())


def test_fires() -> None:
    want = "0 ≤ label[i] ∧ label[i] < m ? x[i, label[i]] : 0"
    assert fires(Fold(ADD, over(), TRUE, (op("select", HIT, x(), REAL_ZERO),)), gather) == want
    flipped = op("eq", label(), J)
    assert fires(Fold(ADD, over(), TRUE, (op("select", flipped, x(), REAL_ZERO),)), gather) == want
    best = fires(Fold(MAX, over(), TRUE, (op("select", HIT, x(), NEG_INF),)), gather)
    assert best == "0 ≤ label[i] ∧ label[i] < m ? x[i, label[i]] : −∞"


def test_guards_and_other_conditions() -> None:
    guarded = Fold(ADD, over(), op("le", J, I), (op("select", HIT, x(), REAL_ZERO),))
    assert fires(guarded, gather) == "0 ≤ label[i] ∧ label[i] < m ∧ label[i] ≤ i ? x[i, label[i]] : 0"
    also = op("select", op("and", keep(), HIT), x(), REAL_ZERO)
    got = fires(Fold(ADD, over(), TRUE, (also,)), gather)
    assert got == "0 ≤ label[i] ∧ label[i] < m ? (keep[i, label[i]] ? x[i, label[i]] : 0) : 0"


def test_two_axes() -> None:
    k = Var("k")
    axes = (Axis("k", N), Axis("j", M))
    hit = op("and", op("eq", k, label()), op("eq", J, label(ZERO)))
    got = fires(Fold(ADD, axes, TRUE, (op("select", hit, x(k, J), REAL_ZERO),)), gather, hoist, low=1)
    assert got.count("Σ") == 0 and "x[label[i], label[0]]" in got


def test_not() -> None:
    moving = op("eq", J, op("add", J, label()))  # the index depends on the axis
    assert stays(Fold(ADD, over(), TRUE, (op("select", moving, x(), REAL_ZERO),)), gather)
    assert stays(Fold(MAX, over(), TRUE, (op("select", HIT, x(), REAL_ZERO),)), gather)
    assert stays(Fold(ADD, over(), TRUE, (op("select", op("le", J, label()), x(), REAL_ZERO),)), gather)
    assert stays(op("mul", x(I, ZERO), x(I, ZERO)), gather, low=1)  # no fold
