"""The lines that a statement's value comes from: what sets its variables, and theirs, and what stands around it.

12  const int64_t t0 = i * n;         line 30 comes from 12, 20 and 25
20  if (i < m) {
25    const float t1 = x[t0];
30    y[i] = t1;
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

from tang_verified.proofs.readback.syntax import Array, Declare, If, Index, Loop, Name, Region, Set, Statement


def comes_from(body: Sequence[Statement], line: int) -> tuple[int, ...]:
    """In order; without the line itself."""
    set_by: dict[str, list[Statement]] = {}
    at: list[Statement] = []
    around: dict[int, list[Statement]] = {}
    for s, outer in _all(body, []):
        if s.line == line:
            at.append(s)
        around[id(s)] = outer
        for name in _sets(s):
            set_by.setdefault(name, []).append(s)
    found: dict[int, Statement] = {}
    waiting = list(at)
    while waiting:
        s = waiting.pop()
        if id(s) not in found:
            found[id(s)] = s
            waiting += around[id(s)]
            waiting += [other for name in _names(s) for other in set_by.get(name, ())]
    return tuple(sorted({s.line for s in found.values()} - {line}))


def _all(body: Sequence[Statement], outer: list[Statement]) -> Iterator[tuple[Statement, list[Statement]]]:
    for s in body:
        yield s, outer
        for inner in (s.body,) if isinstance(s, (Loop, Region)) else (s.yes, s.no or ()) if isinstance(s, If) else ():
            yield from _all(inner, [*outer, s])


def _sets(s: Statement) -> list[str]:
    match s:
        case Declare() | Array():
            return [s.name]
        case Loop():
            return [s.variable]
        case Set(_, Name(_, name) | Index(_, Name(_, name), _), _):
            return [name]
        case _:
            return []


def _names(s: object) -> Iterator[str]:
    """Variables that the statement itself mentions, not the blocks in it."""
    if isinstance(s, Name):
        yield s.text
    elif isinstance(s, tuple):
        for part in s:
            yield from _names(part)
    elif is_dataclass(s):
        for field in fields(s):
            if field.name not in ("body", "yes", "no") or not isinstance(s, (Loop, If, Region)):
                yield from _names(getattr(s, field.name))
