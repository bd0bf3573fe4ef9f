"""Affine masks become part of the domain."""

from __future__ import annotations

from tang_verified.passes.domain import mask_to_domain
from tang_verified.semantics.terms import ADD, MAX, NEG_INF, REAL_ONE, REAL_ZERO, TRUE, Fold
from tests.passes.helpers import I, J, M, N, fires, keep, op, over, stays, x

BELOW = op("le", J, I)


def test_fires() -> None:
    assert fires(Fold(ADD, over(), TRUE, (op("select", BELOW, x(), REAL_ZERO),)), mask_to_domain) == "Σ_{j<m : j ≤ i} x[i, j]"
    assert fires(Fold(MAX, over(), TRUE, (op("select", BELOW, x(), NEG_INF),)), mask_to_domain) == "max_{j<m : j ≤ i} x[i, j]"
    both = op("and", BELOW, keep())
    got = fires(Fold(ADD, over(), TRUE, (op("select", both, x(), REAL_ZERO),)), mask_to_domain)
    assert got == "Σ_{j<m : j ≤ i} (keep[i, j] ? x[i, j] : 0)"
    got = fires(Fold(ADD, over(), TRUE, (op("select", BELOW, REAL_ZERO, x()),)), mask_to_domain)
    assert got == "Σ_{j<m : i < j} x[i, j]"


def test_not() -> None:
    assert stays(Fold(ADD, over(), TRUE, (op("select", keep(), x(), REAL_ZERO),)), mask_to_domain)
    assert stays(Fold(ADD, over(), TRUE, (op("select", BELOW, x(), REAL_ONE),)), mask_to_domain)
    assert stays(Fold(MAX, over(), TRUE, (op("select", BELOW, x(), REAL_ZERO),)), mask_to_domain)
    product = op("lt", op("mul", J, N), op("mul", I, M))  # not affine
    assert stays(Fold(ADD, over(), TRUE, (op("select", product, x(), REAL_ZERO),)), mask_to_domain)
