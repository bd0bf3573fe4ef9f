"""The exponential of a masked score."""

from __future__ import annotations

from tang_verified.passes.unmask import unmask
from tang_verified.semantics.terms import ADD, MAX, NEG_INF, TRUE, Const, Fold, Term, Var
from tests.passes.helpers import I, J, fires, keep, op, over, stays, x

K = Var("k")


def weights(minus: str, guard: Term, row: Fold) -> Fold:
    score = op("select", guard, x(), NEG_INF)
    return Fold(ADD, over(), TRUE, (op("exp", op(minus, score, row)),))


def test_a_row_that_is_never_empty() -> None:
    row = Fold(MAX, over("k"), op("le", K, I), (x(I, K),))
    got = fires(weights("sub", op("le", J, I), row), unmask, low=1)
    assert got == "Σ_{j<m} (j ≤ i ? exp(x[i, j] − (max_{k<m : k ≤ i} x[i, k])) : 0)"


def test_a_row_that_may_be_empty() -> None:
    row = Fold(MAX, over("k"), op("lt", K, I), (x(I, K),))
    top = "max_{k<m : k < i} x[i, k]"
    want = f"Σ_{{j<m}} ({top} = −∞ ? nan : j < i ? exp(x[i, j] − ({top})) : 0)"
    assert fires(weights("sub", op("lt", J, I), row), unmask) == want


def test_the_convention() -> None:
    row = Fold(MAX, over("k"), TRUE, (op("select", keep(I, K), x(I, K), NEG_INF),))
    got = fires(weights("sub0", keep(), row), unmask)
    assert got == "Σ_{j<m} (keep[i, j] ? exp(x[i, j] − (max_{k<m} (keep[i, k] ? x[i, k] : −∞))) : 0)"


def test_not_with_another_row() -> None:
    less = Fold(MAX, over("k"), op("lt", op("add", K, Const(1)), I), (x(I, K),))  # −∞ where this row has an element
    assert stays(weights("sub", op("lt", J, I), less), unmask)


def test_not_without_a_mask() -> None:
    row = Fold(MAX, over("k"), TRUE, (x(I, K),))
    assert stays(Fold(ADD, over(), TRUE, (op("exp", op("sub", x(), row)),)), unmask)
