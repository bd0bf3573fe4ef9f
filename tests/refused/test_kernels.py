"""Every mutant is refused, for the reason that it was made for, and its sound twin is accepted. How to add one: `kernels.py`."""

from __future__ import annotations

from collections import Counter

import pytest

from tang_verified.proofs import ledger
from tang_verified.proofs.check import certify
from tang_verified.proofs.ledger import Refused
from tang_verified.semantics.terms import IllFormed
from tests.refused.kernels import CASES, MUTANTS, CaseMutant, Mutant
from tests.refused.programs import BY_HAND, FUNCTIONS, Case, sound

BUDGET = 3_000_000  # Z3's units: a refusal needs no more, and an answer that needs more is a refusal anyway


def verdict(case: Case) -> str:
    """The obligation that refuses the case, "IllFormed: …", or "accepted"."""
    try:
        certify(case.traced, case.steps, case.kernels)
    except Refused as refusal:
        return refusal.obligation
    except IllFormed as problem:
        return f"IllFormed: {problem}"
    return "accepted"


@pytest.mark.parametrize("name", [*FUNCTIONS, *BY_HAND])
def test_sound_twin(name: str) -> None:
    twin = sound(name)  # certified as it is made
    if name in BY_HAND:
        certify(twin.traced, twin.steps, twin.kernels)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.program}: {m.name}")
def test_kernel(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = sound(mutant.program).kernels[0]
    broken = mutant.change(kernel)
    assert broken != kernel, "the mutant changes nothing"
    monkeypatch.setattr(ledger, "Z3_BUDGET", BUDGET)
    got = verdict(Case(kernel.program, (), (broken,)))
    assert got != "accepted" and got.startswith(mutant.refused), got


@pytest.mark.parametrize("mutant", CASES, ids=lambda m: f"{m.program}: {m.name}")
def test_case(mutant: CaseMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    case = sound(mutant.program)
    broken = mutant.change(case)
    assert broken != case, "the mutant changes nothing"
    monkeypatch.setattr(ledger, "Z3_BUDGET", BUDGET)
    got = verdict(broken)
    assert got != "accepted" and got.startswith(mutant.refused), got


def test_count() -> None:
    kinds = Counter(mutant.kind for mutant in MUTANTS)
    print(
        f"\n{len(MUTANTS)} broken kernels ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}), {len(CASES)} derivations"
    )
    assert len({(m.program, m.name) for m in MUTANTS}) == len(MUTANTS)
    assert len(MUTANTS) >= 60 and {m.program for m in MUTANTS} == {*FUNCTIONS, *BY_HAND}
