"""Whole derivations: how many definitions remain, what they say, that they mean the same, and that the checker agrees."""

from __future__ import annotations

import numpy as np
import pytest

from tang_verified.passes.derive import derive
from tang_verified.proofs.ledger import Ledger
from tang_verified.proofs.steps import check_bounds, check_step
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.show import show_program
from tang_verified.semantics.terms import Fold, Term, alpha, children
from tests.passes.zoo import MODELS, traced


@pytest.mark.parametrize("name", MODELS)
def test_derivation(name: str) -> None:
    model, program = MODELS[name], traced(name)
    derived = derive(program)
    assert len(derived.program.defs) == model.defs
    assert derived.program.outputs == program.outputs
    for seed in range(2):
        data = model.arrays(seed)
        with np.errstate(all="ignore"):
            want, got = evaluate(program, data), evaluate(derived.program, data)
        for output in program.outputs:
            np.testing.assert_allclose(got[output], want[output], rtol=1e-9, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", ["attention", "causal", "window", "masked, zero", "cross entropy", "layer norm"])
def test_a_new_ledger_accepts_the_steps(name: str) -> None:
    program = traced(name)
    derived = derive(program)
    ledger = Ledger(program)
    check_bounds(ledger, program)
    last = program
    for step in derived.steps:
        last = check_step(ledger, last, step)
    assert last == derived.program




def test_normal_forms() -> None:
    assert show_program(derive(traced("embedding")).program) == (
        "t0_take[i0, i1] = 0 ≤ label[i0] ∧ label[i0] < v ? x[label[i0], i1] : 0"
    )
    assert show_program(derive(traced("dequantised")).program).endswith("(Σ_{j<d} x[i0, j] · w[j, i1]) · 0.125 · s[i1]")
    text = show_program(derive(traced("causal")).program)
    assert text.endswith("))") and text.count("j ≤ i0") == 1 and "?" not in text and text.count(" / (Σ_") == 1
    text = show_program(derive(traced("masked")).program)
    assert text.split(" = ", 1)[1].startswith("max_{j<m} (keep[i0, j] ? ") and " = −∞ ? nan : (Σ_" in text
    assert "nan" not in show_program(derive(traced("masked, zero")).program)


@pytest.mark.parametrize("name", ["attention", "causal", "masked", "layer norm"])
def test_equal_folds_are_one_term(name: str) -> None:
    (d,) = derive(traced(name)).program.defs
    folds: dict[Term, set[Term]] = {}

    def walk(term: Term, bound: frozenset[str]) -> None:
        if isinstance(term, Fold):
            names = frozenset(axis.name for axis in term.axes)
            assert not names & bound, "an axis is bound twice on one path"
            folds.setdefault(alpha(term), set()).add(term)
            bound |= names
        for part in children(term):
            walk(part, bound)

    walk(d.value, frozenset(d.axes))
    assert all(len(same) == 1 for same in folds.values())


def test_a_refusal_is_noted_and_harmless() -> None:
    derived = derive(traced("masked"))
    assert any("unmask" in note and "disproved" in note for note in derived.notes)
