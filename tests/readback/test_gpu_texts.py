"""Texts in the five languages of GPUs are accepted as they are printed, and refused, with the line, when anything is changed."""

from __future__ import annotations

import pytest

from tang_verified.proofs.readback import read_back

from .gpu_mutants import MUTANTS
from .mutants import Mutant
from .test_readback import named
from .texts import FOR_GPUS, kernel, text

SUFFIXES = ("cl", "cu", "metal", "comp", "wgsl")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", FOR_GPUS)
def test_what_is_printed_is_accepted(name: str, suffix: str) -> None:
    assert read_back(kernel(f"{name}.{suffix}"), text(f"{name}.{suffix}"), suffix) is None


def test_there_are_many_mutants() -> None:
    assert len(MUTANTS) >= 60 and len({mutant.what for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.base.partition(".")[2] for mutant in MUTANTS} == set(SUFFIXES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutants_are_refused_with_their_line(mutant: Mutant) -> None:
    changed, line = mutant.made()
    found = read_back(kernel(mutant.base), changed, mutant.base.partition(".")[2])
    assert found is not None and not found.spent
    assert mutant.gone or named(found.line, found.origin, line), f"changed line {line}, but: {found}"
