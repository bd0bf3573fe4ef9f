"""A traced program  ->  one simplified definition for each thing worth computing on its own, step by checked step.

In order, definition by definition: inline what it reads, rename, simplify, rename; at the end drop what nothing reads. Every
step goes past the checker as it is made. A refused one is left out and noted: the result is then a less simple program,
never a wrong one.
"""

from __future__ import annotations

from tang_verified.passes.fuse import drop_unused, inline
from tang_verified.passes.policy import materialised
from tang_verified.passes.rename import rename
from tang_verified.passes.rule import Derivation, Note
from tang_verified.passes.scratch import Scratch
from tang_verified.passes.simplify import Simplifier
from tang_verified.proofs.steps import Step
from tang_verified.semantics.program import Program


def derive(program: Program, notes: list[Note] | None = None) -> tuple[Program, tuple[Step, ...]]:
    """The simplified program and the steps that lead to it; what was tried and refused is added to `notes`."""
    derivation = Derivation(program, Scratch(program))
    kept = materialised(program)
    simplifier = Simplifier(derivation)
    for d in program.defs:
        name = d.tensor.name
        inline(derivation, name, kept)
        rename(derivation, name)
        simplifier.simplify(name)
        rename(derivation, name)
    drop_unused(derivation)
    if notes is not None:
        notes += derivation.notes
    return derivation.program, tuple(derivation.steps)
