"""Texts in the five languages of GPUs are accepted as they are printed, and refused, with the line, when anything is changed."""

from __future__ import annotations

import pytest

from tang_verified.proofs.readback import read_back

from . import sweep
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


@pytest.mark.parametrize("name", ["embedding.cl", "embedding.wgsl", "half.cu", "half.comp"])
@pytest.mark.parametrize("way", [sweep.statements, sweep.tokens, sweep.helpers])
def test_every_change_is_refused(name: str, way) -> None:  # type: ignore[no-untyped-def]
    """Every fifth of all changes to the text, one at a time; most are blamed on their line."""
    whole, count, right = text(name), 0, 0
    for what, line, changed in list(way(whole))[::5]:
        if changed == whole:
            continue
        count += 1
        found = read_back(kernel(name), changed, name.partition(".")[2])
        assert found is not None, f"{what} in line {line}: {whole.splitlines()[line - 1]}"
        right += named(found.line, found.origin, line)
    assert right >= 0.6 * count, (count, right)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("hostile", ["", "\n", "int x", "(" * 50000, "// x.\n", "/* x. */\n\n", "\0", "#version 450\n" * 9])
def test_what_is_no_text(hostile: str, suffix: str) -> None:
    found = read_back(kernel(f"embedding.{suffix}"), hostile, suffix)
    assert found is not None and found.line >= 1


def test_another_languages_text() -> None:
    assert read_back(kernel("softmax.cu"), text("softmax.metal"), "metal") is None  # one certificate serves both
    assert read_back(kernel("softmax.cu"), text("softmax.cl"), "cl") is not None
    assert read_back(kernel("softmax.cu"), text("softmax.cu"), "metal") is not None
