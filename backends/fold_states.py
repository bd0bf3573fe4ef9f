"""Folds while they are printed: their accumulators, and what one copy of a step adds to one of them.

s, s_1, s_2, s_3      the states of a fold whose axis of extent 4 is copied out
s_1 := s_1 ⊕ x[64 k + 16 + l]   if 64 k + 16 + l < m        the second copy's task
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.scopes import Value
from tang_verified.backends.whole import Whole
from tang_verified.semantics.terms import Const, Fold, Term


@dataclass
class Running:
    """A fold being computed: accumulator variables by copy and field."""

    fold: Fold
    states: list[list[Value]]
    copied: dict[str, int]  # the axes whose copies have states of their own

    def copy(self, values: dict[str, Term]) -> int:
        """The number of the copy, counted along the copied axes."""
        count = 0
        for name, extent in self.copied.items():
            count = count * extent + number(values[name])
        return count


class Task(NamedTuple):
    """One copy's contribution to a fold: state := combine(state, body) if the guard holds."""

    fold: Fold
    state: list[Value]
    guard: Term
    body: list[Term]

    def under(self, whole: Whole) -> Task:
        """The same where the conditions hold."""
        return self._replace(guard=whole.within(self.guard), body=[whole.within(part) for part in self.body])


def number(extent: Term) -> int:
    if not isinstance(extent, Const) or not isinstance(extent.value, int):
        raise Unsupported(f"axis of extent {extent} cannot be copied out or spread over lanes: its extent must be a constant")
    return extent.value
