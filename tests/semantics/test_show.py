"""Terms as a reader sees them; each shown text means the term."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tang_verified.semantics.build import canonical
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import Const, Op, Read, Term, Var

M, N, K = Var("m"), Var("n"), Var("k")
X = Read("x", (N,), "real")


def op(name: str, *args: Term) -> Term:
    return Op(name, args)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (op("sub", M, N), "m − n"),
        (op("sub", N, M), "n − m"),
        (op("sub", N, Const(3)), "n − 3"),
        (op("sub", Const(3), N), "3 − n"),
        (op("sub", N, op("mul", Const(2), M)), "n − 2 · m"),
        (op("sub", op("sub", K, M), N), "k − m − n"),
        (op("neg", op("add", M, N)), "−m − n"),
        (op("mul", Const(2), op("floordiv", op("sub", M, N), Const(4))), "2 · ((m − n) // 4)"),
        (op("lt", op("sub", N, Const(1)), M), "n − 1 < m"),
        (op("floordiv", op("neg", N), Const(2)), "−n // 2"),
    ],
)  # fmt: skip
def test_differences_of_integers(term: Term, text: str) -> None:
    assert show(canonical(term)) == text


def test_a_difference_that_is_subtracted_keeps_its_brackets() -> None:
    assert show(op("sub", K, op("add", M, op("mul", Const(-1), N)))) == "k − (m − n)"
    assert show(op("mul", K, op("add", M, Const(-1)))) == "k · (m − 1)"


def test_reals_are_shown_as_they_stand() -> None:
    """x + −1·x rounds as x − x does, but they are two terms; a reader of a certificate sees which it is."""
    minus = op("mul", Const(Fraction(-1)), X)
    assert show(op("add", X, minus)) == "x[n] + -1 · x[n]" != show(op("sub", X, X))
