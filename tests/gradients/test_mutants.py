"""Every wrong derivative is refused, for the stated reason; the steps that it was made from are accepted."""

from __future__ import annotations

from functools import cache

import pytest

from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.steps import Step, check_step, follow
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import IllFormed
from tests.gradients.models import MODELS, model
from tests.gradients.mutants import MUTANTS, Mutant


def place(mutant: Mutant) -> int:
    """The number of the step that is changed."""
    rule, which = mutant.which if isinstance(mutant.which, tuple) else ("", mutant.which)
    rules = (rule,) if rule else ("gradient", "tangent")
    return [number for number, step in enumerate(model(mutant.model).steps) if step.rule in rules][which]


@cache
def before(name: str, count: int, skip: str = "") -> Program:
    """The model's program after so many of its steps, which are checked below; without the definition named `skip`."""
    here = model(name).traced
    for step in model(name).steps[:count]:
        if not (step.new is not None and step.new.tensor.name == skip):
            here = follow(here, step)
    return here


def refusals(program: Program, traced: Program, step: Step) -> list[str]:
    """The obligations that refuse a step, or why it is none."""
    ledger = Ledger(traced)
    try:
        check_step(ledger, program, step)
    except Refused as refusal:
        return [refusal.obligation, *(attempt.obligation for _, attempt in ledger.attempts)]
    except IllFormed as problem:
        return [str(problem)]
    return []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_refused(mutant: Mutant) -> None:
    written, number = model(mutant.model), place(mutant)
    program = before(mutant.model, number, mutant.skip)
    wrong = mutant.wrong(program, written.steps[number])
    assert mutant.skip or wrong != written.steps[number]
    names = refusals(program, written.traced, wrong)
    assert any(name.startswith(mutant.obligation) or (" " in name and mutant.obligation in name) for name in names), names


@pytest.mark.parametrize("name", sorted({mutant.model for mutant in MUTANTS}))
def test_originals_are_accepted(name: str) -> None:
    """By the checker itself, not by the smaller ledger that passes try their steps on."""
    written = model(name)
    ledger = Ledger(written.traced)
    here = written.traced
    for number, step in enumerate(written.steps):
        here = check_step(ledger, here, step, number)
    assert here == written.program


def test_how_many() -> None:
    assert len(MUTANTS) >= 60 and len({m.name for m in MUTANTS}) == len(MUTANTS)
    assert {m.model for m in MUTANTS} <= set(MODELS)
