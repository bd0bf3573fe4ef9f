"""The shape of a rule: a term in its place  ->  proposals for that term, the best first.

A rule looks and proposes; it proves nothing and changes nothing. Each proposal becomes a `Step` at that place, which the
checker accepts or refuses; the first accepted one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tang_verified.proofs.equality import Scope
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.steps import Step, check_step, enter, within
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import Axis, IllFormed, Read, Term, at_path, children, free_vars


@dataclass(frozen=True, slots=True)
class Proposal:
    """By the checker's rule `rule`, the term at hand is `after`, and then what `then` makes of it: all of it, or nothing.

    `note` names the idea for the reader. `moves_reads`: a read may now stand outside a condition that kept it within its
    tensor; the result is then taken only if every read still is.
    """

    rule: str
    after: Term
    note: str
    then: Proposal | None = None
    moves_reads: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a term stands. `facts` says what holds there: ranges of axes, guards, conditions of choices."""

    facts: Callable[[], tuple[Term, ...]]


Rule: TypeAlias = Callable[[Term, Place], Iterable[Proposal]]


@dataclass(frozen=True, slots=True)
class Note:
    """A step that was tried and refused, and the obligation that refused it."""

    step: Step
    obligation: str
    why: str

    def __str__(self) -> str:
        return f"{self.step.tensor}: {self.step.note or self.step.rule} not taken: {self.obligation}: {self.why[:160]}"


@dataclass
class Derivation:
    """A program on its way: what it is now, the accepted steps, and what was refused."""

    program: Program
    ledger: Ledger
    steps: list[Step] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    refused: set[Step] = field(default_factory=set)

    def value(self, tensor: str, path: Sequence[int] = ()) -> Term:
        return at_path(self.program.definition(tensor).value, tuple(path))

    def take(self, step: Step) -> bool:
        """Whether the checker accepts the step; if so it is taken."""
        if step in self.refused:
            return False
        try:
            with self.ledger.trial():
                self.program = check_step(self.ledger, self.program, step)
        except (Refused, IllFormed) as problem:
            self.refused.add(step)
            obligation = problem.obligation if isinstance(problem, Refused) else "well-formed"
            why = f"{problem.verdict}, {problem.why}" if isinstance(problem, Refused) else str(problem)
            self.notes.append(Note(step, obligation, why))
            return False
        self.steps.append(step)
        return True

    def take_all(self, steps: Sequence[Step], moves_reads: bool = False) -> bool:
        """Take the steps one after the other, or none."""
        program, count = self.program, len(self.steps)
        if all(self.take(step) for step in steps) and not (moves_reads and self._leaves_tensors(steps[-1])):
            return True
        self.program = program
        del self.steps[count:]
        return False

    def _leaves_tensors(self, step: Step) -> bool:
        """Whether some read of the step's definition can no longer be shown to lie within its tensor; noted if so."""
        d = step.new or self.program.definition(step.tensor)
        taken = {size.name for size in self.program.sizes} | set(d.axes)
        start = Scope(self.ledger.base).over(tuple(Axis(n, e) for n, e in zip(d.axes, d.tensor.shape, strict=True)))

        def visit(term: Term, scope: Scope, taken: set[str]) -> None:
            if isinstance(term, Read):
                within(self.ledger, f"in-bounds/{term.tensor}", self.program.tensor(term.tensor), term.index, scope)
            for number, part in enumerate(children(term)):
                names = set(taken)
                visit(part, enter(self.ledger, term, number, scope, names), names)

        try:
            visit(d.value, start, taken)
            return False
        except Refused as problem:
            self.notes.append(Note(step, problem.obligation, problem.why))
            return True

    def rewrite(self, rule: str, tensor: str, path: tuple[int, ...], after: Term, note: str = "") -> bool:
        """Propose `after` for the term at a path."""
        return self.take(Step(rule, tensor, path, self.value(tensor, path), after, note))


def depends(term: Term, axes: frozenset[str]) -> bool:
    return bool(free_vars(term) & axes)

