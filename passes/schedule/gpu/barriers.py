"""Barriers where one thread may need what another did.

    s[t] := …                     s[t] := …
    y[t] := s[t + 1]      ->      barrier
                                  y[t] := s[t + 1]

A barrier goes in front of a statement that touches a shared buffer which a statement since the last barrier has touched,
one of them writing; at the end of a loop's body too, if its next iteration would meet this one; and behind each wait for
copies that go on by themselves, which is all that orders these before what reads them. This is on the safe side
(it does not look at which cell or which thread); the checker proves that it is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tang_verified.semantics.kernel import Alloc, Assign, Barrier, For, Stmt, Wait
from tang_verified.semantics.terms import Term, reads


@dataclass(frozen=True)
class Touched:
    """Shared buffers read and written."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def __or__(self, other: Touched) -> Touched:
        return Touched(self.reads | other.reads, self.writes | other.writes)

    def meets(self, later: Touched) -> bool:
        return bool(self.writes & (later.reads | later.writes) or self.reads & later.writes)


NOTHING = Touched()


def with_barriers(body: tuple[Stmt, ...], shared: frozenset[str]) -> tuple[Stmt, ...]:
    """The statements of one launch, with barriers."""
    return _block(body, shared, NOTHING)[0]


def _block(body: tuple[Stmt, ...], shared: frozenset[str], live: Touched) -> tuple[tuple[Stmt, ...], Touched]:
    """The block, entered while `live` is not yet ordered; and what is not ordered at its end."""
    out: list[Stmt] = []
    for statement in body:
        match statement:
            case Assign():
                own = _touched(statement, shared)
                if live.meets(own):
                    out.append(Barrier())
                    live = NOTHING
                live |= Touched(own.reads) if statement.asynchronous else own
                out.append(statement)
            case Wait():
                out += [statement, Barrier()]
                live = NOTHING
            case For():
                first = _first(statement.body, shared)
                if live.meets(first):
                    out.append(Barrier())
                    live = NOTHING
                inner, tail = _block(statement.body, shared, NOTHING)
                if tail.meets(_first(inner, shared)):
                    inner, tail = (*inner, Barrier()), NOTHING
                live = live | _all(inner, shared)  # it may run no iteration: nothing before it is ordered by it
                out.append(replace(statement, body=inner))
            case _:
                out.append(statement)
    return tuple(out), live


def _first(body: tuple[Stmt, ...], shared: frozenset[str]) -> Touched:
    """What is touched before the first barrier."""
    total = NOTHING
    for statement in body:
        if isinstance(statement, Barrier | Wait):
            break
        total |= _all((statement,), shared)
    return total


def _all(body: tuple[Stmt, ...], shared: frozenset[str]) -> Touched:
    total = NOTHING
    for statement in body:
        match statement:
            case Assign():
                total |= _touched(statement, shared)
            case For():
                total |= _all(statement.body, shared)
            case Alloc() | _:
                pass
    return total


def _touched(statement: Assign, shared: frozenset[str]) -> Touched:
    terms: tuple[Term, ...] = (statement.value, statement.guard, *statement.index)
    read = {r.tensor for term in terms for r in reads(term)}
    return Touched(frozenset(read & shared), frozenset({statement.target} & shared))
