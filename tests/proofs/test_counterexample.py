"""What a refusal tells its reader: each open value by name, both results, and the plainest of what was tried."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tang_verified.advice import telling
from tang_verified.proofs.equality import Equality, Scope
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import ADD, MAX, TRUE, Axis, Const, Fold, Op, Read, Term, Var

I, N = Var("i"), Var("n")
X = Read("x", (I,), "real")
PROGRAM = Program(
    "p", (Size("n"),), (Tensor("x", "float64", (N,)),), (Def(Tensor("out", "float64", (N,)), ("i",), X),), ("out",)
)  # fmt: skip


def refusal(a: Term, b: Term) -> Refused:
    ledger = Ledger(PROGRAM)
    with pytest.raises(Refused) as caught:
        Equality(ledger).equal("claim", a, b, Scope(ledger.base).over((Axis("i", N),)))
    return caught.value


def test_values_and_both_results() -> None:
    found = refusal(Op("exp", (X,)), Op("add", (X, Const(Fraction(1)))))
    assert found.verdict == "disproved"
    names = [name for name, _ in found.values]
    values = dict(found.values)
    assert names[0] == "i" and names[-2:] == ["one side", "the other side"]
    x = values[f"x[{values['i']}]"]
    assert values["one side"] == values[f"exp({x})"]
    assert Fraction(values["the other side"]) == Fraction(x) + 1 != Fraction(values["one side"])


def test_infinities_by_name() -> None:
    top = Fold(MAX, (Axis("j", I),), TRUE, (Read("x", (Var("j"),), "real"),))
    found = refusal(Op("sub", (top, top)), Const(Fraction(0)))
    values = dict(found.values)
    assert values["one side"] == "nan" and values["the other side"] == "0"
    assert values[f"max_{{j<{values['i']}}} x[j]"] == "-inf"  # over nothing: i is 0, or any bound that is not known to hold


def test_an_element_says_more_than_the_fold() -> None:
    j = Var("j")
    element = Read("x", (j,), "real")
    a = Fold(ADD, (Axis("j", N),), TRUE, (Op("mul", (element, element)),))
    b = Fold(ADD, (Axis("j", N),), TRUE, (element,))
    found = refusal(a, b)
    plain = telling(found)
    assert found.obligation == "claim/pointwise" and plain.obligation == "claim/element/pointwise"
    values = dict(plain.values)
    x = Fraction(values[f"x[{values['j']}]"])
    assert {Fraction(values["one side"]), Fraction(values["the other side"])} == {x, x * x} and x != x * x
