"""The interval of a sum of indices holds every value that it, and any part of it in any order, takes."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.width import NARROW, Ranges
from tang_verified.semantics.build import iadd, imul
from tang_verified.semantics.evaluate_term import evaluate_term
from tang_verified.semantics.program import Program, Size
from tang_verified.semantics.terms import Axis, Const, Op, Term, Var

HIGH = 5
SIZES = (Size("n", 1, HIGH), Size("m", 0, HIGH))
EMPTY = Program("width", SIZES, (), (), ())
LEAVES = st.sampled_from([Var("n"), Var("m")]) | st.integers(-4, 4).map(Const)
NAMES = st.sampled_from(["add", "sub", "mul", "max", "min"])


def wider(parts: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    binary = st.builds(lambda name, a, b: Op(name, (a, b)), NAMES, parts, parts)
    whole = st.builds(lambda name, a, c: Op(name, (a, Const(c))), st.sampled_from(["floordiv", "mod"]), parts, st.integers(1, 7))
    return binary | whole | st.builds(lambda a: Op("neg", (a,)), parts)


@settings(max_examples=300, deadline=None)
@given(st.recursive(LEAVES, wider, max_leaves=8))
def test_holds_every_value(term: Term) -> None:
    low, high = Ranges.of(SIZES).span(Ledger(EMPTY), term)
    for n, m in product(range(1, HIGH + 1), range(HIGH + 1)):
        assert low <= evaluate_term(term, {"n": n, "m": m}, {}) <= high


@settings(max_examples=100, deadline=None)
@given(st.lists(LEAVES, min_size=2, max_size=5))
def test_holds_every_part_of_a_sum(parts: list[Term]) -> None:
    whole = parts[0]
    for part in parts[1:]:
        whole = Op("sub", (whole, part)) if isinstance(part, Const) else Op("add", (whole, part))
    low, high = Ranges.of(SIZES).span(Ledger(EMPTY), whole)
    signed = [parts[0], *(Op("neg", (p,)) if isinstance(p, Const) else p for p in parts[1:])]
    for n, m in ((1, 0), (HIGH, HIGH), (1, HIGH)):
        values = [evaluate_term(part, {"n": n, "m": m}, {}) for part in signed]
        for count in range(1, len(values) + 1):
            assert all(low <= sum(chosen) <= high for chosen in combinations(values, count))


def test_rows_below_a_diagonal_fit_in_31_bits() -> None:
    """16·max(0, ⌊(n − m)/16⌋) + 16 t + m for t < ⌈(n − 16·max(…))/16⌉: four times 2^28, if the maximum is known to be ≥ 0."""
    sizes = (Size("n", 0, 2**30), Size("m", 0, 2**30))
    first = Op("max", (Const(0), Op("floordiv", (Op("sub", (Var("n"), Var("m"))), Const(16)))))
    steps = Op("floordiv", (Op("add", (Op("sub", (Var("n"), imul(first, 16))), Const(15))), Const(16)))
    ledger = Ledger(EMPTY)
    inside = Ranges.of(sizes, 32).over(ledger, Axis("t", steps))
    assert inside.limit(ledger, iadd(iadd(imul(first, 16), imul(Var("t"), 16)), Var("m"))) <= NARROW


@pytest.mark.parametrize("term", [imul(Var("n"), 9), Op("sub", (imul(Var("n"), 9),) * 2), Op("mul", (Var("n"),) * 2)])
def test_refuses_what_may_pass_31_bits(term: Term) -> None:
    with pytest.raises(Refused, match="width/int32"):
        Ranges.of((Size("n", 0, 2**30),), 32).limit(Ledger(EMPTY), term)
