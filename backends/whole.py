"""When the conditions of a step hold on all lanes of all copies: a scalar test, under which nothing is masked.

    64 k + 16 u + l < m  for u < 4, l < 16     ->     64 k + 63 < m

An affine comparison is convex, so the two end lanes decide it; of the copies' tests the strongest stays. A guard must go
as a whole; of the `select`s within values what can go does, and the rest keeps its mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tang_verified.backends.lanes import lane_bound
from tang_verified.backends.scopes import Lane
from tang_verified.semantics.build import canonical, conj, conjuncts, linear
from tang_verified.semantics.terms import FALSE, TRUE, Const, Fold, Op, Term, children, rebuild, sort_of, substitute


class Whole(NamedTuple):
    """A test without the lane axis, and the comparisons that hold on every lane where it holds."""

    test: Term
    known: frozenset[Term]

    def within(self, term: Term) -> Term:
        """The term where the test holds."""
        return canonical(_assume(term, self.known, {}))


def find_whole(
    guards: list[Term], values: list[Term], lane: Lane | None,
    uses: Callable[[Term], frozenset[str]], safe: Callable[[Term], bool],
) -> Whole | None:  # fmt: skip
    """None if a guard cannot go, or if there is nothing to test. `safe`: may be evaluated whatever the conditions are."""

    def varies(part: Term) -> bool:
        return lane is not None and lane.name in uses(part)

    def testable(part: Term) -> bool:
        if not safe(part) or not varies(part):
            return safe(part)
        affine = isinstance(part, Op) and part.name in ("lt", "le") and sort_of(part.args[0]) == "int"
        return affine and lane_bound(part.name, part.args, lane, uses) is not None  # type: ignore[union-attr]

    parts = {part: None for guard in guards for part in conjuncts(guard) if part != TRUE}
    if not all(testable(part) for part in parts):
        return None
    for condition in _conditions(values):
        if varies(condition):
            parts |= {part: None for part in conjuncts(condition) if testable(part)}
    ends: dict[Term, None] = {}
    for part in parts:
        if lane is None or not varies(part):
            ends[part] = None
        else:
            ends |= {canonical(substitute(part, {lane.name: Const(end)})): None for end in (0, lane.width - 1)}
    test = conj(*_strongest(list(ends)))
    return None if test in (TRUE, FALSE) else Whole(test, frozenset(parts))


def _conditions(values: list[Term]) -> Iterator[Term]:
    """The conditions of the selects, but those in folds, which may mention the fold's own axes."""
    seen: set[Term] = set()
    waiting = values[::-1]
    while waiting:
        term = waiting.pop()
        if term in seen or isinstance(term, Fold):
            continue
        seen.add(term)
        if isinstance(term, Op) and term.name == "select":
            yield term.args[0]
        waiting += children(term)[::-1]


def _assume(term: Term, known: frozenset[Term], memo: dict[Term, Term]) -> Term:
    if term in known:
        return TRUE
    if term not in memo:
        parts = children(term)
        memo[term] = rebuild(term, tuple(_assume(part, known, memo) for part in parts)) if parts else term
    return memo[term]


def _strongest(parts: list[Term]) -> list[Term]:
    """Of a < b + 1, a < b, a < b - 1, …: the last."""
    best: dict[object, tuple[int, Term]] = {}
    for part in parts:
        if isinstance(part, Op) and part.name in ("lt", "le") and sort_of(part.args[0]) == "int":
            atoms, constant = linear(Op("sub", part.args))
            key: object = frozenset(atoms.items())
            weight = 2 * constant + (part.name == "lt")
        else:
            key, weight = part, 0
        if key not in best or best[key][0] < weight:
            best[key] = (weight, part)
    return [part for _, part in best.values()]
