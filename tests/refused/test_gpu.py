"""Every broken kernel of threads is refused, for the reason that it was made for; each barrier counts, or is redundant."""

from __future__ import annotations

from collections import Counter

import pytest

from tang_verified.proofs import ledger
from tang_verified.semantics.kernel import Barrier
from tests.refused.edits import NoSuchPlace
from tests.refused.gpu import BARRIERS, FUNCTIONS, MUTANTS, case, without
from tests.refused.kernels import Mutant
from tests.refused.programs import Case
from tests.refused.test_kernels import BUDGET, verdict

EACH = [(name, number, fate) for name, fates in BARRIERS.items() for number, fate in enumerate(fates)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sound_twin(name: str) -> None:
    assert verdict(case(name)) == "accepted"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.program}: {m.name}")
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = case(mutant.program).kernels[0]
    broken = mutant.change(kernel)
    assert broken != kernel, "the mutant changes nothing"
    monkeypatch.setattr(ledger, "Z3_BUDGET", BUDGET)
    got = verdict(Case(kernel.program, (), (broken,)))
    assert got != "accepted" and got.startswith(mutant.refused), got


@pytest.mark.parametrize(("name", "number", "fate"), EACH)
def test_barrier_dropped(name: str, number: int, fate: str) -> None:
    kernel = case(name).kernels[0]
    got = verdict(Case(kernel.program, (), (without(Barrier, number)(kernel),)))
    assert got == "accepted" if fate == "r" else got.startswith(("no-race/", "async/")), got


@pytest.mark.parametrize("name", BARRIERS)
def test_no_more_barriers(name: str) -> None:
    with pytest.raises(NoSuchPlace):
        without(Barrier, len(BARRIERS[name]))(case(name).kernels[0])


def test_count() -> None:
    kinds = Counter(mutant.kind for mutant in MUTANTS)
    print(f"\n{len(MUTANTS)} broken kernels of threads ({', '.join(f'{n} {kind}' for kind, n in kinds.items())})")
    assert len({(m.program, m.name) for m in MUTANTS}) == len(MUTANTS) >= 60
    assert {m.program for m in MUTANTS} == set(FUNCTIONS)
