"""Every unsound sibling of a real step is refused, for the stated reason; the step itself is accepted."""

from __future__ import annotations

from functools import cache

import pytest

from tang_verified.passes.derive import Derived, derive
from tang_verified.passes.scratch import Scratch
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.steps import Step, check_step
from tests.passes.zoo import traced
from tests.refused.steps import SIBLINGS, Sibling


@cache
def derived(model: str) -> Derived:
    return derive(traced(model))


def changed(sibling: Sibling, steps: tuple[Step, ...]) -> tuple[int, Step]:
    """The step to replace, and what replaces it."""
    for number, step in enumerate(steps):
        if step.note.startswith(sibling.note):
            try:
                wrong = sibling.wrong(step)
            except LookupError:
                continue
            if wrong != step:
                return number, wrong
    raise LookupError(f"{sibling.name}: no step {sibling.note!r} of {sibling.model} to change")


@pytest.mark.parametrize("sibling", SIBLINGS, ids=lambda s: s.name)
def test_refused(sibling: Sibling) -> None:
    program, steps = traced(sibling.model), derived(sibling.model).steps
    number, wrong = changed(sibling, steps)
    scratch = Scratch(program)  # the way there is checked elsewhere
    here = program
    for step in steps[:number]:
        here = check_step(scratch, here, step)
    ledger = Ledger(program)
    with pytest.raises(Refused) as refusal:
        check_step(ledger, here, wrong)
    names = [refusal.value.obligation, *(attempt.obligation for _, attempt in ledger.attempts)]
    assert any(name.startswith(sibling.obligation) for name in names), names
    check_step(Ledger(program), here, steps[number])


def test_how_many() -> None:
    assert len(SIBLINGS) >= 25 and len({s.name for s in SIBLINGS}) == len(SIBLINGS)
