"""Bound axes get names of their own, equal folds the same."""

from __future__ import annotations

from tang_verified.passes.rename import rename, tidy
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import ADD, MAX, TRUE, Fold, Var
from tests.passes.helpers import I, op, over, program, x

K = Var("k0")
ROW = Fold(MAX, over("k0"), TRUE, (x(I, K),))


def named(value: object) -> str:
    p = program(value)  # type: ignore[arg-type]
    derivation = Derivation(p, Scratch(p))
    rename(derivation, "out")
    assert not derivation.notes
    return show(derivation.value("out"))


def test_fires() -> None:
    shadowed = Fold(ADD, over("k0"), TRUE, (op("mul", x(I, K), ROW),))
    assert named(shadowed) == "Σ_{j<m} x[i, j] · (max_{j1<m} x[i, j1])"
    assert named(op("sub", ROW, ROW)) == "max_{j<m} x[i, j] − (max_{j<m} x[i, j])"
    other = Fold(MAX, over("k1"), op("lt", Var("k1"), I), (x(I, Var("k1")),))
    assert named(op("sub", ROW, other)) == "max_{j<m} x[i, j] − (max_{j1<m : j1 < i} x[i, j1])"


def test_not() -> None:
    p = program(tidy(ROW, {"n", "m", "i"}))
    derivation = Derivation(p, Scratch(p))
    rename(derivation, "out")
    assert derivation.steps == [] and derivation.program == p


def test_names_in_use_are_left_out() -> None:
    assert show(tidy(ROW, {"j", "j1"})) == "max_{j2<m} x[i, j2]"
