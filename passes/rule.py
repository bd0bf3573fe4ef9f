"""The shape of a rule: a term in its place  ->  proposals for that term, the best first.

A rule looks and proposes; it proves nothing and changes nothing. Each proposal becomes a `Step` at that place, which the
checker accepts or refuses; the first accepted one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.steps import Step, check_step
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import IllFormed, Term, at_path, children, free_vars


@dataclass(frozen=True, slots=True)
class Proposal:
    """By the checker's rule `rule`, the term at hand is `after`. `note` names the idea for the reader."""

    rule: str
    after: Term
    note: str


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

    def rewrite(self, rule: str, tensor: str, path: tuple[int, ...], after: Term, note: str = "") -> bool:
        """Propose `after` for the term at a path."""
        return self.take(Step(rule, tensor, path, self.value(tensor, path), after, note))


def depends(term: Term, axes: frozenset[str]) -> bool:
    return bool(free_vars(term) & axes)


def size(term: Term) -> int:
    """The number of nodes, shared ones counted each time."""
    return 1 + sum(size(part) for part in children(term))
