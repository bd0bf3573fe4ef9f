"""Where a printed line goes: nested scopes of C-like text, and what is already computed in each.

    {                                   Assign          memo: m[r] -> t0
      const float t0 = m[r];
      for (j …) {                       loop, binds j   memo: x[r, j] -> t1
        const float t1 = x[r, j];
        if (j <= i) { … }               conditional

A term is emitted once, in the outermost scope that may hold it: one that binds all its names, and that is not separated
from its place by a condition if evaluating it needs that condition (a read may be out of bounds elsewhere).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tang_verified.proofs.readback.syntax import Kind
from tang_verified.semantics.terms import Const, Term

Type: TypeAlias = Kind


class Value(NamedTuple):
    """A side-effect-free expression of the target language."""

    text: str
    type: Type


class Lane(NamedTuple):
    """The axis that runs over SIMD lanes."""

    name: str
    width: int


Conditions = tuple[Term, ...]  # lane-dependent conditions, each under the ones before it
Slot = list[str]  # lines that are not known yet when their place is
Line = tuple[int, "str | Slot"]  # depth of indentation, text


@dataclass(eq=False)
class Scope:
    """A block of text. `names`: what it binds. `conditional`: it may run zero times. `loop`: it may run many times."""

    parent: Scope | None = None
    names: frozenset[str] = frozenset()
    conditional: bool = False
    loop: bool = False
    lines: list[Line] = field(default_factory=list)
    memo: dict[tuple[Term, Conditions], Value] = field(default_factory=dict)
    positive: frozenset[Term] = frozenset()  # integer terms that are known to be positive here
    some_lane: Conditions = ()  # it runs only if some lane has these: what does not depend on the lane may use its value there
    holds_reads: bool = False  # a line here relies on this scope's condition

    def is_positive(self, term: Term) -> bool:
        if isinstance(term, Const):
            return isinstance(term.value, int) and term.value > 0
        return term in self.positive or (self.parent is not None and self.parent.is_positive(term))

    def add(self, *texts: str) -> None:
        self.lines.extend((0, text) for text in texts)

    def nest(self, lines: list[Line], depth: int = 1) -> None:
        self.lines.extend((depth + level, text) for level, text in lines)

    @contextmanager
    def block(
        self, head: str, names: frozenset[str] = frozenset(), *, conditional: bool = False, loop: bool = False
    ) -> Iterator[Scope]:
        """A braced block, appended when it is complete: what it hoists meanwhile lands in front of it."""
        child = Scope(self, names, conditional, loop)
        yield child
        self.add(f"{head} {{".lstrip())
        self.nest(child.lines)
        self.add("}")


class Context(NamedTuple):
    """Where a term is evaluated: the scope, the lane axis if there is one, and the conditions on the lanes."""

    scope: Scope
    lane: Lane | None = None
    conditions: Conditions = ()


def flatten(lines: list[Line], depth: int = 0) -> Iterator[str]:
    """The final text of the lines; preprocessor lines keep their indentation, which C allows."""
    for level, item in lines:
        for text in [item] if isinstance(item, str) else item:
            yield "  " * (depth + level) + text
