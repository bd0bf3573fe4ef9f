"""A traced program  ->  one simplified definition for each thing worth computing on its own, step by checked step.

First derivatives are written out (gradient.py). Then in order, definition by definition: inline what it reads, rename,
simplify, rename; in plain style, pair folds over one domain (tuple.py: a faster schedule would keep them apart); at the end
drop what nothing reads. Every step goes past the checker as it is made. A refused one is left out and noted: the result is
then a less simple program, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tang_verified.passes.fuse import drop_unused, inline
from tang_verified.passes.gradient import write_out
from tang_verified.passes.policy import materialised, repeated
from tang_verified.passes.rename import rename
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.passes.simplify import Simplifier
from tang_verified.passes.tuple import pair
from tang_verified.proofs.steps import Step
from tang_verified.semantics.program import Program


@dataclass(frozen=True, slots=True)
class Derived:
    """The simplified program, the accepted steps that lead to it, and what was tried and refused."""

    program: Program
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def derive(program: Program, plain: Callable[[str], bool] = lambda name: False) -> Derived:
    """Simplify a program by checked steps. `plain` says which definitions are to be scheduled as plain loops."""
    derivation = Derivation(program, Scratch(program))
    write_out(derivation)
    program = derivation.program
    kept = materialised(program)
    again = repeated(program, kept)
    simplifier = Simplifier(derivation)
    for d in program.defs:
        name = d.tensor.name
        inline(derivation, name, kept - again.get(name, frozenset()))
        rename(derivation, name)
        simplifier.simplify(name)
        rename(derivation, name)
        if plain(name):
            pair(derivation, name)
        if name in kept and name not in program.outputs:  # those that read it may then take it for finite
            value = derivation.value(name)
            derivation.take(Step("finite", name, (), value, value, "finite"))
    drop_unused(derivation)
    return Derived(derivation.program, tuple(derivation.steps), tuple(str(note) for note in derivation.notes))
