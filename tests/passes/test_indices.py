"""What reshapes leave in indices."""

from __future__ import annotations

from tang_verified.passes.indices import recombine
from tang_verified.semantics.build import canonical, iadd
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import ADD, TRUE, Const, Fold, Term, Var
from tests.passes.helpers import I, J, N, fires, op, over, stays, x

FOUR = Const(4)


def parts(factor: int) -> Term:
    return iadd(op("mul", Const(factor), op("floordiv", I, FOUR)), op("mod", I, FOUR))


def test_quotient_and_remainder() -> None:
    assert fires(x(parts(4), Const(0)), low=1) == "x[i, 0]"
    assert recombine(parts(3)) is None
    more = recombine(iadd(op("mul", Const(2), parts(4)), J))
    assert more is not None and show(more) in ("2 · i + j", "j + 2 · i")


def test_small_remainders() -> None:
    k = Var("k")
    row = op("floordiv", iadd(op("mul", FOUR, I), k), FOUR)
    assert fires(canonical(Fold(ADD, over("k", FOUR), TRUE, (x(row, op("mod", k, FOUR)),))), low=4) == "Σ_{k<4} x[i, k]"
    assert stays(x(op("mod", I, FOUR), Const(0)), low=1)
    assert stays(x(op("floordiv", I, FOUR), op("mod", N, FOUR)), low=4)
