"""Threads of a block: no two touch one cell of a shared buffer, one of them writing, without a barrier between.

    s[t] := …      write of s          thread t writes s[t], thread t' reads s[t + 1] with no barrier on the way:
    …  := s[t+1]   read of s           shown: t = t' + 1 and t ≠ t' is impossible. It is not; refused.

All threads run the same statements in the same order: loops and barriers do not depend on the thread. So whether a
barrier lies between two instances of statements is a matter of their order alone. Accesses are looked at pairwise, in
the order in which they run: within one iteration of the loops around both, and from one iteration of such a loop to a
later one (to the next one, if a barrier stands anywhere in its body). A loop may run no iteration at all, so a barrier
inside one orders nothing outside it.

The outermost chain of grid loops is one launch: its instances share nothing but what the coverage obligations speak of,
and what runs before or after it is a launch of its own. A grid loop further inside runs as an ordinary loop.

An asynchronous copy is issued where it stands, and is in flight until its group is waited for. Groups are counted: the
copy's own number is how many `Commit`s ran before it; at a `Wait(keep)` those below (commits so far − keep) are done. Any
access to its cell that comes later must stand behind a `Wait` that completes it and a `Barrier` after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tang_verified.proofs.ledger import Ledger
from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.kernel import Barrier, Buffer, Commit, Wait
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.terms import FALSE, ONE, ZERO, Axis, Const, Op, Term, Var, free_vars, substitute


@dataclass(frozen=True)
class Access:
    """One statement's instances that read or write cells of a buffer: cell `index`, by `thread`, where `facts` hold.

    Two buffers of one name are told apart by what else they are; if nothing is different, they are taken for one.
    """

    buffer: Buffer
    index: tuple[Term, ...]
    thread: Term
    facts: tuple[Term, ...]
    write: bool
    asynchronous: bool = False


@dataclass
class Repeat:
    """A loop, and what runs in it. `parallel`: an axis of the launch's grid."""

    axis: Axis
    items: list[Item] = field(default_factory=list)
    parallel: bool = False


Item: TypeAlias = Access | Barrier | Commit | Wait | Repeat
Path: TypeAlias = tuple[int, ...]  # an item's position in each block on the way to it


@dataclass(frozen=True)
class Place:
    """An access, and the loops between it and where it is looked at from, with a fixed iteration where one is known."""

    access: Access
    inside: tuple[tuple[str, Term], ...] = ()


class Races:
    """Shows that the accesses of a kernel are ordered where they must be."""

    def __init__(self, ledger: Ledger, facts: Sequence[Term], fixed: frozenset[str]) -> None:
        self.ledger, self.facts = ledger, tuple(facts)
        self.fixed = fixed  # sizes: the same for every instance

    def check(self, items: list[Item]) -> None:
        """All of a kernel's accesses, in order; raises `Refused`."""
        self._sequence(items, ())
        self._steady(items)
        for path, access in _accesses(items, ()):
            if access.asynchronous:
                self._in_flight(items, path, access)

    # -- barriers ---------------------------------------------------------------------------------------------------

    def _sequence(self, items: list[Item], around: tuple[str, ...]) -> tuple[list[Place], list[Place], bool]:
        """Check one block. Returns what may run before its first barrier, what after its last one, and whether it
        surely has one."""
        first: list[Place] = []
        live: list[Place] = []  # since the last barrier
        barrier = False
        for item in items:
            match item:
                case Access():
                    here = Place(item)
                    self._pairs([*live, here], [here], around)
                    live.append(here)
                    if not barrier:
                        first.append(here)
                case Barrier():
                    live, barrier = [], True
                case Repeat(parallel=True):
                    self._sequence(item.items, (*around, item.axis.name))
                    live, barrier = [], True  # a launch begins, and ends
                case Repeat():
                    head, tail = self._loop(item, around)
                    self._pairs(live, head, around)
                    live += tail
                    if not barrier:
                        first += head
                case _:
                    pass
        return first, live, barrier

    def _loop(self, loop: Repeat, around: tuple[str, ...]) -> tuple[list[Place], list[Place]]:
        name = loop.axis.name
        head, tail, barrier = self._sequence(loop.items, (*around, name))
        later = self.ledger.fresh(name)
        for a in tail:
            for b in head:
                order = Op("eq", (Var(later), Op("add", (Var(name), ONE)))) if barrier else Op("lt", (Var(name), Var(later)))
                self._pair(a, b, (*around, name), {name: later}, (order,))
        if not barrier:
            return [Place(p.access) for p in head], [Place(p.access) for p in tail]
        last = canonical(Op("sub", (loop.axis.extent, ONE)))
        return [Place(p.access, (*p.inside, (name, ZERO))) for p in head], [
            Place(p.access, (*p.inside, (name, last))) for p in tail
        ]

    def _pairs(self, earlier: list[Place], later: list[Place], around: tuple[str, ...]) -> None:
        for a in earlier:
            for b in later:
                self._pair(a, b, around, {}, ())

    def _pair(self, a: Place, b: Place, around: tuple[str, ...], names: dict[str, str], order: tuple[Term, ...]) -> None:
        """No cell of a's is a cell of b's for two different threads. Loops `around` both are in one iteration, but for those
        of b's in `names`."""
        first, second = a.access, b.access
        if first.buffer != second.buffer or not (first.write or second.write):
            return
        if first.asynchronous:
            return  # see `_in_flight`
        mine, theirs = self._instance(a, around, {}), self._instance(b, around, names)
        given = [f for f in (*self.facts, *mine[2], *theirs[2], *order) if is_affine(f)]
        # a copy that goes on by itself is not even ordered after what its own thread did before
        apart: Term = FALSE if second.asynchronous else Op("eq", (mine[1], theirs[1]))
        for pair in zip(mine[0], theirs[0], strict=True):
            apart = Op("or", (Op("ne", pair), apart))
        self.ledger.holds(f"no-race/{first.buffer.name}", given, apart)

    def _instance(
        self, place: Place, around: tuple[str, ...], names: dict[str, str]
    ) -> tuple[tuple[Term, ...], Term, list[Term]]:
        """Cell, thread and facts of an access, with everything that is its own named apart."""
        access = place.access
        facts = [*access.facts, *(Op("eq", (Var(name), value)) for name, value in place.inside)]
        kept = self.fixed.union(around)
        loose = frozenset().union(*map(free_vars, (*access.index, access.thread, *facts))) - kept
        fresh: dict[str, Term] = {name: Var(self.ledger.fresh(name)) for name in sorted(loose)}
        fresh |= {name: Var(other) for name, other in names.items()}  # the later iteration
        index = tuple(canonical(substitute(i, fresh)) for i in access.index)
        return index, substitute(access.thread, fresh), [substitute(f, fresh) for f in facts]

    # -- asynchronous copies ----------------------------------------------------------------------------------------

    def _steady(self, items: list[Item]) -> None:
        """Every iteration of a loop closes as many groups as any other: so they are counted."""
        for item in items:
            if isinstance(item, Repeat):
                self._steady(item.items)
                if not item.parallel and item.axis.name in free_vars(_commits(item.items)):
                    why = f"iterations of {item.axis.name} close different numbers of groups"
                    raise self.ledger.refuse("async/groups", why, "disproved")

    def _in_flight(self, items: list[Item], path: Path, copy: Access) -> None:
        """Every later access to a cell of the copy stands behind a wait that completes it, and a barrier."""
        group = _commits_before(items, path)
        for there, access in _accesses(items, ()):
            if access.buffer != copy.buffer:
                continue
            ready = _completed(items, there)
            common = _common_loops(items, path, there)
            names = tuple(loop.axis.name for loop in common)
            if path < there:
                self._flight(copy, group, access, ready, names, {}, ())
            for level, loop in enumerate(common):
                if not loop.parallel:  # the access in a later iteration; in another block, it is to another buffer
                    later = self.ledger.fresh(names[level])
                    order = (Op("lt", (Var(names[level]), Var(later))),)
                    self._flight(copy, group, access, ready, names[: level + 1], {names[level]: later}, order)

    def _flight(
        self, copy: Access, group: Term, access: Access, ready: Sequence[Term], around: tuple[str, ...],
        names: dict[str, str], order: tuple[Term, ...],
    ) -> None:  # fmt: skip
        mine = self._instance(Place(_counted(copy, group)), around, {})
        theirs = self._instance(Place(_counted(access, *ready)), around, names)
        rank = len(copy.index)
        given = [f for f in (*self.facts, *mine[2], *theirs[2], *order) if is_affine(f)]
        done: Term = FALSE
        for pair in zip(mine[0][:rank], theirs[0][:rank], strict=True):
            done = Op("or", (Op("ne", pair), done))
        for count, iteration in zip(theirs[0][rank::2], theirs[0][rank + 1 :: 2], strict=True):
            waited = conj(Op("lt", (ZERO, iteration)), Op("lt", (mine[0][rank], count)))
            done = canonical(Op("or", (done, waited)))
        self.ledger.holds(f"async/{copy.buffer.name}", given, done)


def _counted(access: Access, *counts: Term) -> Access:
    """The access with counts of groups as more places of its cell, so that all are named alike."""
    return Access(access.buffer, (*access.index, *counts), access.thread, access.facts, access.write)


def _accesses(items: list[Item], path: Path) -> Iterator[tuple[Path, Access]]:
    for number, item in enumerate(items):
        if isinstance(item, Access):
            yield (*path, number), item
        elif isinstance(item, Repeat):
            yield from _accesses(item.items, (*path, number))


def _levels(items: list[Item], path: Path) -> list[tuple[list[Item], int, Repeat | None]]:
    """The blocks on the way to an item from the launch it belongs to: items, position, the loop around them."""
    out: list[tuple[list[Item], int, Repeat | None]] = []
    loop: Repeat | None = None
    for number in path:
        if loop is not None and loop.parallel:
            out.clear()
        out.append((items, number, loop))
        item = items[number]
        if isinstance(item, Repeat):
            loop, items = item, item.items
    return out


def _common_loops(items: list[Item], one: Path, other: Path) -> list[Repeat]:
    """The loops around both, outermost first."""
    out = []
    for mine, theirs in zip(one, other, strict=False):
        item = items[mine]
        if mine != theirs or not isinstance(item, Repeat):
            break
        out.append(item)
        items = item.items
    return out


def _commits(items: Sequence[Item]) -> Term:
    """How many groups a thread closes in these items."""
    total: Term = ZERO
    for item in items:
        if isinstance(item, Commit):
            total = Op("add", (total, ONE))
        elif isinstance(item, Repeat):
            inner = _commits(item.items)
            if inner != ZERO:
                total = Op("add", (total, Op("mul", (inner, item.axis.extent))))
    return canonical(total)


def _commits_before(items: list[Item], path: Path) -> Term:
    """How many groups a thread of this launch has closed when it comes to the item."""
    total: Term = ZERO
    for block, position, loop in _levels(items, path):
        if loop is not None and not loop.parallel:
            total = Op("add", (total, Op("mul", (_commits(block), Var(loop.axis.name)))))
        total = Op("add", (total, _commits(block[:position])))
    return canonical(total)


def _completed(items: list[Item], path: Path) -> list[Term]:
    """Numbers, in pairs (c, i): groups below c are done for all threads at the item, if i > 0. By the last wait before the
    item with a barrier after it; or by that of the iteration before, of a loop around the item."""
    out: list[Term] = []
    levels = _levels(items, path)
    start = len(path) - len(levels)
    barrier = False
    for depth, (block, position, loop) in reversed(list(enumerate(levels))):
        for number in range(position - 1, -1, -1):
            barrier = barrier or isinstance(block[number], Barrier)
            item = block[number]
            if barrier and isinstance(item, Wait):
                at = (*path[: start + depth], number)
                return [*out, canonical(Op("sub", (_commits_before(items, at), Const(item.keep)))), ONE]
        if loop is not None and not loop.parallel:
            out += _before(items, path[: start + depth], block, loop.axis.name, barrier)
    return out


def _before(items: list[Item], path: Path, block: list[Item], axis: str, barrier: bool) -> list[Term]:
    """By the last wait of the iteration before, with a barrier after it there or (`barrier`) since."""
    for number in range(len(block) - 1, -1, -1):
        item = block[number]
        barrier = barrier or isinstance(item, Barrier)
        if barrier and isinstance(item, Wait):
            count = Op("sub", (_commits_before(items, (*path, number)), Const(item.keep)))
            return [canonical(substitute(count, {axis: Op("sub", (Var(axis), ONE))})), Var(axis)]
    return []
