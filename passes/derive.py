"""A traced program  ->  one simplified definition for each thing worth computing on its own, step by checked step.

First derivatives are written out (gradient.py). Then in order, definition by definition: inline what it reads, rename,
simplify, rename; in plain style, pair folds over one domain (tuple.py: a faster schedule would keep them apart); at the end
drop what nothing reads. Every step goes past the checker as it is made. A refused one is left out and noted: the result is
then a less simple program, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tang_verified.passes.fuse import drop_unused
from tang_verified.passes.gradient import fresh, remember, write_out
from tang_verified.passes.log_sum import centre, log_sum, logarithm
from tang_verified.passes.policy import materialised, repeated, statistics, written_twice
from tang_verified.passes.recall import recall, remains
from tang_verified.passes.rename import rename
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.passes.simplify import Simplifier, written_in
from tang_verified.passes.tuple import pair
from tang_verified.proofs.steps import Step
from tang_verified.semantics.program import Def, Program, Tensor
from tang_verified.semantics.terms import Op, mentions


@dataclass(frozen=True, slots=True)
class Derived:
    """The simplified program, the accepted steps that lead to it, and what was tried and refused."""

    program: Program
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def _with_statistics(
    derivation: Derivation, simplifier: Simplifier, name: str, kept: frozenset[str], own: frozenset[str]
) -> bool:  # fmt: skip
    """Simplify a definition with the kept row statistics that it reads written in, as more is known of them so, then recall
    them. Whether all could be recalled; if not, nothing is done."""
    written = statistics(derivation.program, name, kept) - own
    if not written:
        return False
    before, count = derivation.program, len(derivation.steps)
    written_in(simplifier, name, kept - own - written)
    Simplifier(derivation, (log_sum,)).simplify(name)
    logarithms = [d.tensor.name for d in before.defs if _is_logarithm(d)]
    recall(derivation, name, [*logarithms, *(d.tensor.name for d in before.defs if d.tensor.name in written)])
    rename(derivation, name)
    value = derivation.value(name)
    for other in written:
        d = derivation.program.definition(other)
        if remains(value, d.value, d.axes):
            derivation.program = before
            del derivation.steps[count:]
            return False
    return True


def _add_logarithm(derivation: Derivation, name: str) -> str | None:
    """M + log Σ_j exp(u_j − M) beside such a sum, for those that need M and the sum; its name."""
    d = derivation.program.definition(name)
    top = centre(d.value)
    following = derivation.program.defs[derivation.program.defs.index(d) + 1 :]
    if top is None or not following:
        return None
    new = fresh(derivation.program, f"{name}_log")
    added = Def(Tensor(new, d.tensor.dtype, d.tensor.shape), d.axes, logarithm(d.value, top))
    taken = derivation.take(Step("define", following[0].tensor.name, (), None, None, "log-sum", added))
    return new if taken else None


def _is_logarithm(d: Def) -> bool:
    match d.value:
        case Op("add", (top, Op("log", (total,)))):
            return centre(total) == top
        case _:
            return False


def derive(program: Program, plain: Callable[[str], bool] = lambda name: False) -> Derived:
    """Simplify a program by checked steps. `plain` says which definitions are to be scheduled as plain loops."""
    derivation = Derivation(program, Scratch(program))
    write_out(derivation)
    derivation.refused.clear()  # what would not have kept slopes may be done now
    program = derivation.program
    kept = materialised(program)
    again = repeated(program, kept)
    simplifier = Simplifier(derivation)
    for d in program.defs:
        name = d.tensor.name
        own = again.get(name, frozenset())
        if not _with_statistics(derivation, simplifier, name, kept, own):
            written_in(simplifier, name, kept - own)
        if plain(name):
            pair(derivation, name)
        if name in kept and any(name in mentions(x.value) for x in program.defs):  # those that read it may then rely on it
            remember(derivation, name)
            if name not in program.outputs and (new := _add_logarithm(derivation, name)) is not None:
                kept |= {new}
    drop_unused(derivation)
    notes = [
        f"schedule: {name} is computed on its own: it is read more than once, and written out it has {count} terms"
        for name, count in written_twice(program, kept).items()
    ]
    return Derived(derivation.program, tuple(derivation.steps), (*notes, *(str(note) for note in derivation.notes)))
