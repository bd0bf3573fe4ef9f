"""A tile program of one worker, dealt to the threads of a block.

    acc[4 rb + ru, 16 cv + cl] := acc[…] + Σ_k x[4 rb + ru, k] y[k, cv, cl]
        for rb < 16, ru < 4 [unroll], cv < 4 [unroll], cl < 16 [lane]
    ->  acc[rb, cl, ru, cv] := acc[rb, cl, ru, cv] + Σ_k …       rb, cl [thread]; acc : register of 2
    x, y : shared, their copies dealt to all threads, barriers between

1. folds over lanes become partial folds (`parts.py`);
2. a buffer that is updated in place under copied-out loops stays in registers, if every access to it can be dealt so
   that each thread meets only its own cells; the claims on it are restated over (thread, slot);
3. all other private buffers become the block's: shared;
4. each statement's loops are dealt to the threads (`digits.py`), and barriers put in (`barriers.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from tang_verified.passes.schedule.analysis import all_folds
from tang_verified.passes.schedule.gpu.barriers import with_barriers
from tang_verified.passes.schedule.gpu.digits import Digit, deal, digits
from tang_verified.passes.schedule.gpu.parts import in_parts
from tang_verified.passes.schedule.gpu.pipeline import pipelined
from tang_verified.passes.schedule.lower import Names
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.threads import aligned, conditions, constant, copied
from tang_verified.semantics.build import canonical, iadd, imul, linear
from tang_verified.semantics.kernel import (
    Alloc,
    Assign,
    Buffer,
    Carried,
    Claim,
    For,
    Kernel,
    Kind,
    Loop,
    Machine,
    Stmt,
    allocations,
    assignments,
    shared_bytes,
)
from tang_verified.semantics.program import BYTES, DType
from tang_verified.semantics.terms import (
    ONE,
    ZERO,
    Axis,
    Const,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    reads,
    rebuild,
    substitute,
)

T = TypeVar("T")
Cut = tuple[int, int | None]  # extent of a part of a loop, and the owner digit that it is (None: a slot), least first
SLOTS = 256  # registers of a thread that a buffer may take


@dataclass
class Layout:
    """How a buffer is spread: for each place, its digits (most significant first)."""

    places: list[list[Digit]]

    def digits(self) -> list[Digit]:
        return [digit for place in self.places for digit in place]

    def sorted(self, found: list[tuple[Digit, T]]) -> tuple[T, ...]:
        """What belongs to the digits, in the buffer's order: owners by rank, then slots in the order of their loops."""
        return tuple(what for _, what in sorted(found, key=lambda pair: pair[0].place))


def distribute(kernel: Kernel, target: Target) -> Kernel:
    """The kernel for blocks of `target.threads` threads. Raises `LookupError` where a buffer has no constant size."""
    return _Distribution(kernel, target).run()


class _Distribution:
    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel, self.target = kernel, target
        self.names = Names(_names(kernel))
        self.layouts: dict[str, Layout] = {}
        self.shared: set[str] = set()
        self.buffers: dict[str, Buffer] = {}
        self.bytes = 0

    def run(self) -> Kernel:
        body = self._launches(self.kernel.body, top=True)
        machine = Machine(self.target.threads, self.target.subgroup, self.bytes, self.target.index_bits)
        return replace(self.kernel, body=body, machine=machine)

    def _launches(self, body: tuple[Stmt, ...], *, top: bool) -> tuple[Stmt, ...]:
        """Down the chain of grid loops; what is inside is one block's program."""
        if len(body) == 1 and isinstance(body[0], For) and body[0].kind == "grid":
            return (replace(body[0], body=self._launches(body[0].body, top=False)),)
        if top and any(isinstance(s, For) and s.kind == "grid" for s in body):  # several launches
            out: list[Stmt] = []
            for alone, part in groupby(body, _stands_alone):
                if alone:
                    for statement in part:
                        out += (statement,) if isinstance(statement, Alloc) else self._launches((statement,), top=False)
                else:  # a launch of one block
                    out.append(For(Axis(self.names.fresh("block"), ONE), "grid", self._block(tuple(part))))
            return tuple(out)
        return self._block(body)

    def _block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        self.layouts, before = {}, self.bytes
        body = self._parts(body)
        for name in _candidates(body):
            layout = self._layout(name, body)
            if layout is not None:
                self.layouts[name] = layout
        for statement in assignments(body):  # a statement may meet several; drop what does not agree
            while self._cuts(statement) is None:
                dropped = next(r for r in reversed(_touched(statement)) if r in self.layouts)
                del self.layouts[dropped]
        body = self._rewrite(body)
        if self.target.asynchronous:
            known = {name: self.kernel.program.tensor(name) for name in self.kernel.reads}
            body = pipelined(body, known, self.names, self.target.stages)
            self.shared = {a.buffer.name for a in allocations(body) if a.buffer.scope == "shared"}
            self.bytes = before + sum(_bytes(a.buffer) for a in allocations(body) if a.buffer.scope == "shared")
        return with_barriers(body, frozenset(self.shared))

    # -- 1 ------------------------------------------------------------------------------------------------------------

    def _parts(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for statement in body:
            match statement:
                case Assign():
                    out += in_parts(statement, self.target, self.names, self._dtype())
                case For():
                    out.append(replace(statement, body=self._parts(statement.body)))
                case _:
                    out.append(statement)
        return tuple(out)

    def _dtype(self) -> DType:
        names = (*self.kernel.reads, *self.kernel.outputs)
        return "float64" if any(self.kernel.program.tensor(n).dtype == "float64" for n in names) else "float32"

    # -- 2: registers ---------------------------------------------------------------------------------------------------

    def _layout(self, name: str, body: tuple[Stmt, ...]) -> Layout | None:
        """From the statement that updates it: its innermost loops are threads, its copies slots."""
        shape = next(s.buffer.shape for s in allocations(body) if s.buffer.name == name)
        for statement in assignments(body):
            if statement.target != name or not any(loop.kind == "unroll" for loop in statement.loops):
                continue
            given = deal(statement.loops, self.target.threads)
            loops = {loop.axis.name: loop for loop in statement.loops}
            order = {name: place for place, name in enumerate(loops)}
            ranks = {name: rank for rank, name in enumerate(n for n in loops if n in given)}
            places = []
            for place, extent in zip(statement.index, shape, strict=True):
                found = digits(place, constant(extent) or 0, loops)
                if found is None:
                    return None
                split: list[Digit] = []
                for digit in found:
                    share = given.get(digit.loop, 1)
                    split += [Digit(digit.loop, digit.extent // share)] * (share < digit.extent)
                    split += [Digit(digit.loop, share, ranks.get(digit.loop))] * (share > 1)
                places.append([replace(d, order=order[d.loop]) for d in split if d.extent > 1] or [Digit("", 1)])
            layout = Layout(places)
            slots = 1
            for place_digits in places:
                for digit in place_digits:
                    slots *= 1 if digit.thread else digit.extent
            if slots > SLOTS or not any(d.thread for p in places for d in p):
                return None
            good = all(self._fits(layout, s, name) for s in assignments(body) if name in _touched(s))
            return layout if good and not _claimed_elsewhere(name, body) else None
        return None

    def _fits(self, layout: Layout, statement: Assign, name: str) -> bool:
        return all(_refine(layout, index, statement) is not None for index in _accesses(statement, name))

    def _cuts(self, statement: Assign) -> dict[str, list[Cut]] | None:
        """How the statement's loops are cut so that each owned buffer's cells are their owner's; None if they disagree."""
        cuts: dict[str, list[Cut]] = {}
        for name in _touched(statement):
            if name in self.layouts:
                for index in _accesses(statement, name):
                    found = _refine(self.layouts[name], index, statement)
                    if found is None or any(cuts.get(loop, parts) != parts for loop, parts in found.items()):
                        return None
                    cuts |= found
        return cuts

    # -- 3 and 4 --------------------------------------------------------------------------------------------------------

    def _rewrite(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for statement in body:
            match statement:
                case Alloc():
                    out.append(self._alloc(statement))
                case For():
                    carried = tuple(Carried(c.buffer, self._claim(c.buffer, c.claim)) for c in statement.carried)
                    kind: Kind = "seq" if statement.kind == "grid" else statement.kind
                    out.append(For(statement.axis, kind, self._rewrite(statement.body), carried))
                case Assign():
                    out.append(self._assign(statement))
                case _:
                    out.append(statement)
        return tuple(out)

    def _alloc(self, statement: Alloc) -> Alloc:
        buffer = statement.buffer
        dtype: DType = "int32" if buffer.dtype == "int64" and self.target.index_bits == 32 else buffer.dtype
        if buffer.owners:
            return statement
        if buffer.name in self.layouts:
            layout = self.layouts[buffer.name]
            every = layout.digits()
            shape = layout.sorted([(d, Const(d.extent)) for d in every])
            return Alloc(Buffer(buffer.name, dtype, shape, "register", sum(d.thread for d in every)), statement.claim)
        shared = replace(buffer, dtype=dtype, scope="shared")
        self.shared.add(buffer.name)
        self.buffers[buffer.name] = shared
        self.bytes += _bytes(shared)
        return Alloc(shared, statement.claim)

    def _vector(self, statement: Assign) -> tuple[Assign, dict[str, Term], str]:
        """A copy whose innermost lanes are neighbours at both ends moves whole vectors: l = V·l' + v, v < V."""
        read, last = copied(statement.value), statement.loops[-1] if statement.loops else None
        if read is None or last is None or last.kind != "lane" or statement.target not in self.shared:
            return statement, {}, ""
        target, source = self.buffers[statement.target], self.kernel.program.tensor(read.tensor) if self._given(read) else None
        extent, name = constant(last.axis.extent) or 1, last.axis.name
        if source is None or source.dtype != target.dtype:
            return statement, {}, ""
        width = min(self.target.vector_bytes // BYTES[target.dtype], extent)
        if width < 2:
            return statement, {}, ""
        lane, rest = self.names.fresh(name), self.names.fresh(name)
        put: dict[str, Term] = {name: iadd(imul(Var(rest), width), Var(lane))}
        index, there = ([canonical(substitute(i, put)) for i in part] for part in (statement.index, read.index))
        value = statement.value
        if isinstance(value, Op) and name in free_vars(value.args[0]):
            value = replace(value, args=(_of_vectors(canonical(substitute(value.args[0], put)), lane, width), *value.args[1:]))
        fixed = all(not free_vars(term) & {name, lane} for term in (statement.guard, *conditions(value)))
        ends = ((index, target.shape), (there, source.shape))
        if not fixed or not all(aligned(tuple(i), shape, lane, width) for i, shape in ends):
            return statement, {}, ""
        parts = ((rest, extent // width), (lane, width))
        inner = tuple(Loop(Axis(part, Const(size)), "lane") for part, size in parts)
        return replace(statement, loops=(*statement.loops[:-1], *inner), value=value), put, lane

    def _given(self, read: Read) -> bool:
        return read.tensor in self.kernel.reads

    def _assign(self, statement: Assign) -> Assign:
        cuts = self._cuts(statement) or {}
        owned = bool(cuts)
        vector = ""
        whole: dict[str, Term] = {}
        if not owned:
            statement = _with_claim(statement, {"": ZERO}, self.names)
            statement, whole, vector = self._vector(statement)
            dealt = tuple(loop for loop in statement.loops if loop.axis.name != vector)
            cuts = {n: [(g, 0)] + ([(e // g, None)] if (e := _extent(statement, n)) > g else [])
                    for n, g in deal(dealt, self.target.threads).items()}  # fmt: skip
        threads: list[tuple[int, Loop]] = []
        rest: list[Loop] = []
        kind: Kind
        put: dict[str, Term] = {}
        pieces: dict[tuple[str, int], Term] = {}  # (loop, place of the cut) -> its variable
        for order, loop in enumerate(statement.loops):
            name = loop.axis.name
            if name not in cuts:
                kind = "lane" if name == vector else "seq" if loop.kind in ("lane", "thread") else loop.kind
                rest.append(Loop(loop.axis, kind))
                continue
            total: Term = ZERO
            stride = 1
            fresh: list[Loop] = []
            for place, (extent, owner) in enumerate(cuts[name]):
                own = name if len(cuts[name]) == 1 else self.names.fresh(name)
                total = iadd(total, imul(Var(own), stride))
                stride *= extent
                pieces[name, place] = Var(own)
                if owner is None:
                    kind = "unroll" if owned or loop.kind == "unroll" else "seq"
                    fresh.insert(0, Loop(Axis(own, Const(extent)), kind))
                else:
                    threads.append((owner if owned else order, Loop(Axis(own, Const(extent)), "thread")))
            rest += fresh
            if len(cuts[name]) > 1:
                put[name] = total
        put |= {name: canonical(substitute(term, put)) for name, term in whole.items()}
        loops = tuple(loop for _, loop in sorted(threads, key=lambda pair: pair[0])) + tuple(rest)
        statement = _with_claim(statement, put, self.names)
        change = _Change(self, put, pieces, cuts, statement)
        index = change.index(statement.target, statement.index)
        claim = None if statement.claim is None else self._claim(statement.target, statement.claim)
        kinds = tuple((name, "seq" if kind == "lane" else kind) for name, kind in statement.fold_kinds)
        value, guard = change.term(statement.value), change.term(statement.guard)
        return replace(
            statement, loops=loops, index=index, value=value, guard=guard, fold_kinds=kinds, claim=claim
        )

    def _claim(self, name: str, claim: Claim) -> Claim:
        """A claim on a spread buffer, over (owners, slots)."""
        if name not in self.layouts:
            return claim
        found: list[tuple[Digit, str]] = []
        put: dict[str, Term] = {}
        for old, place in zip(claim.index, self.layouts[name].places, strict=True):
            total: Term = ZERO
            for digit in place:
                found.append((digit, self.names.fresh(old)))
                total = iadd(imul(total, digit.extent), Var(found[-1][1]))
            put[old] = total
        value, where = (canonical(substitute(part, put)) for part in (claim.value, claim.where))
        return Claim(self.layouts[name].sorted(found), value, where)


def _of_vectors(condition: Term, lane: str, width: int) -> Term:
    """The condition of a vector's first lane, where it is that of all: V·x + lane < V·y."""
    if isinstance(condition, Op) and condition.name == "and":
        return replace(condition, args=tuple(_of_vectors(part, lane, width) for part in condition.args))
    if isinstance(condition, Op) and condition.name == "lt":
        parts, offset = linear(Op("sub", condition.args))
        if parts.pop(Var(lane), 0) == 1 and all(factor % width == 0 for factor in (*parts.values(), offset)):
            return canonical(substitute(condition, {lane: ZERO}))
    return condition


def _stands_alone(statement: Stmt) -> bool:
    """A launch, or what several share."""
    if isinstance(statement, Alloc):
        return statement.buffer.scope == "global"
    return isinstance(statement, For) and statement.kind == "grid"


@dataclass
class _Change:
    """Rewrites a statement's terms: loops cut, reads of spread buffers by owner and slot."""

    whole: _Distribution
    put: dict[str, Term]
    pieces: dict[tuple[str, int], Term]
    cuts: dict[str, list[Cut]]
    statement: Assign

    def index(self, name: str, index: tuple[Term, ...]) -> tuple[Term, ...]:
        if name not in self.whole.layouts:
            return tuple(canonical(substitute(i, self.put)) for i in index)
        every: list[tuple[Digit, Term]] = []
        loops = {loop.axis.name: loop for loop in self.statement.loops}
        for place, layout in zip(index, self.whole.layouts[name].places, strict=True):
            total = _extent_of(layout)
            given = digits(place, total, loops) or []
            parts = [(self.pieces[d.loop, k], e, o) for d in reversed(given) for k, (e, o) in enumerate(self.cuts[d.loop])]
            found: list[tuple[Digit, Term]] = []
            for digit in reversed(layout):  # least significant first, as the parts are
                value: Term = ZERO
                stride = 1
                while stride < digit.extent:
                    variable, extent, _ = parts.pop(0)
                    value = iadd(value, imul(variable, stride))
                    stride *= extent
                found.insert(0, (digit, value))
            every += found
        return self.whole.layouts[name].sorted(every)

    def term(self, term: Term) -> Term:
        if isinstance(term, Read) and term.tensor in self.whole.layouts:
            return Read(term.tensor, self.index(term.tensor, term.index), term.sort)
        if isinstance(term, Var):
            return self.put.get(term.name, term)
        parts = children(term)
        return canonical(rebuild(term, tuple(self.term(part) for part in parts))) if parts else term


# -- helpers --------------------------------------------------------------------------------------------------------------


def _refine(layout: Layout, index: tuple[Term, ...], statement: Assign) -> dict[str, list[Cut]] | None:
    """Cuts of the statement's loops under which the index names (owner, slot) digit by digit."""
    loops = {loop.axis.name: loop for loop in statement.loops}
    cuts: dict[str, list[Cut]] = {}
    for place, want in zip(reversed(index), reversed(layout.places), strict=True):
        have = digits(place, _extent_of(want), loops)
        if have is None:
            return None
        left = [(d.loop, d.extent) for d in reversed(have) if d.extent > 1]
        for digit in have:
            if digit.extent == 1:
                cuts[digit.loop] = [(1, None)]
        for digit in reversed(want):
            need = digit.extent
            while need > 1:
                if not left:
                    return None
                loop, extent = left.pop(0)
                take = min(need, extent)
                if need % take or extent % take or (digit.thread and take < need):
                    return None
                cuts.setdefault(loop, []).append((take, digit.rank))
                if take < extent:
                    left.insert(0, (loop, extent // take))
                need //= take
        if left:
            return None
    return cuts


def _extent_of(place: list[Digit]) -> int:
    total = 1
    for digit in place:
        total *= digit.extent
    return total


def _extent(statement: Assign, name: str) -> int:
    return next(constant(loop.axis.extent) or 1 for loop in statement.loops if loop.axis.name == name)


def _with_claim(statement: Assign, put: dict[str, Term], names: Names) -> Assign:
    """An index that is no longer the loops themselves needs a claim: the value, in terms of the index."""
    if statement.claim is not None or not put or not all(isinstance(i, Var) for i in statement.index):
        return statement
    own = {i.name: names.fresh("x") for i in statement.index if isinstance(i, Var)}
    said = substitute(statement.value, {old: Var(new) for old, new in own.items()})
    return replace(statement, claim=Claim(tuple(own.values()), said))


def _bytes(buffer: Buffer) -> int:
    count = 1
    for extent in buffer.shape:
        value = constant(canonical(extent))
        if value is None:
            raise LookupError(f"buffer {buffer.name} has an extent that is known only when the kernel runs")
        count *= value
    return shared_bytes(buffer.dtype, count)


def _touched(statement: Assign) -> list[str]:
    return list(dict.fromkeys([statement.target, *(r.tensor for r in reads(statement.value))]))


def _accesses(statement: Assign, name: str) -> list[tuple[Term, ...]]:
    own = [statement.index] if statement.target == name else []
    return own + [r.index for r in reads(statement.value) if r.tensor == name]


def _candidates(body: tuple[Stmt, ...]) -> list[str]:
    """Mutable private buffers of constant shape that some statement updates with a fold."""
    updated = {s.target for s in assignments(body) if all_folds(s.value)}
    return [a.buffer.name for a in allocations(body)
            if a.claim is None and a.buffer.name in updated and a.buffer.shape
            and all(constant(canonical(e)) is not None for e in a.buffer.shape)]  # fmt: skip


def _claimed_elsewhere(name: str, body: tuple[Stmt, ...]) -> bool:
    """Whether the claim of another buffer reads this one."""
    return any(s.claim is not None and any(r.tensor == name for r in reads(s.claim.value)) for s in assignments(body))


def _names(kernel: Kernel) -> set[str]:
    """Every name that the kernel binds or reads."""
    program = kernel.program
    out = {s.name for s in program.sizes} | {t.name for t in program.inputs} | {d.tensor.name for d in program.defs}

    def term(node: Term) -> None:
        out.update(free_vars(node))
        for fold in all_folds(node):
            out.update(axis.name for axis in fold.axes)

    def claim(said: Claim | None) -> None:
        if said is not None:
            out.update(said.index)
            term(said.value)

    def block(body: tuple[Stmt, ...]) -> None:
        for statement in body:
            match statement:
                case Alloc(buffer, said):
                    out.add(buffer.name)
                    claim(said)
                case For():
                    out.add(statement.axis.name)
                    for carried in statement.carried:
                        claim(carried.claim)
                    block(statement.body)
                case Assign():
                    out.update(loop.axis.name for loop in statement.loops)
                    term(statement.value)
                    claim(statement.claim)
                case _:
                    pass

    block(kernel.body)
    return out
