"""A row an instance: each thread keeps its elements of the row in registers, and all threads learn what folds give.

    out[i, j] = f(x[i, j], ⊕_j g(x[i, j]), …)        j < E, read as vectors of V neighbours

    row[y, l, c, v] := x[i, V·(Y·32·c + 32·y + l) + v]        for y < Y, l < 32 [thread], c < C [unroll], v < V [lane]
    part[y, l]      := ⊕_{c, v} g(row[y, l, c, v])            each thread its own elements,
    all[y, l]       := ⊕_{k < 32 [thread]} part[y, k]         the lanes of a subgroup by shuffles, into shared memory;
    barrier
    fold[y, l]      := ⊕_{k < Y} all[k, 0]                    then every thread for itself: one barrier a fold
    o[y, l, c, v]   := f(row[…], fold[y, l])                  and the row's vectors are stored

Folds that do not need each other share a barrier. What is dear and needed twice (exp(x - m), for its sum and for the result)
is kept in registers as well. A row that one subgroup can hold needs no barrier; then several rows, one a subgroup, make a
block. Where a row's extent is known only by a bound, elements are read one by one (V = 1) under their guard; where it has
none, or a row does not fit, they are read again in each pass, and there are as many passes as folds need each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod

from tang_verified.passes.schedule.analysis import all_folds, depends, has_special, key, renamed
from tang_verified.passes.schedule.gpu.barriers import with_barriers
from tang_verified.passes.schedule.group import costly_parts
from tang_verified.passes.schedule.lower import Lowering, Point, Tiled
from tang_verified.passes.schedule.plan import Planner, by_reciprocal
from tang_verified.semantics.build import canonical, ceildiv, conj, iadd, imul, lt
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Claim, For, Kernel, Kind, Loop, Machine, Stmt, shared_bytes
from tang_verified.semantics.program import BYTES, SORTS, Def, DType
from tang_verified.semantics.terms import (
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    reads,
    sort_of,
)

EACH = 32  # elements of a row that a thread takes, if there are as many
MOST = 64  # and at most
THREADS = 512  # of a block at most,
BLOCK = 128  # and of one whose rows are short
COPIES = 8  # elements that a thread reads at a time where it does not keep them


def row_kernel(planner: Planner) -> Kernel:
    """The kernel of definitions whose folds run along one axis. Raises `LookupError` where they are of another kind."""
    return Rows(planner).kernel()


@dataclass(frozen=True)
class Spread:
    """How a row's elements lie: element V·(threads·c + thread) + v belongs to that thread, in slot (c, v)."""

    extent: Term
    subgroups: int
    lanes: int
    chunks: int  # 0: as many as it takes, read COPIES at a time
    vector: int
    rows: int  # of a block

    @property
    def threads(self) -> int:
        return self.subgroups * self.lanes

    @property
    def exact(self) -> bool:
        return isinstance(self.extent, Const) and self.chunks * self.threads * self.vector == self.extent.value


class Rows:
    def __init__(self, planner: Planner) -> None:
        self.planner, self.program, self.target = planner, planner.program, planner.target
        self.names = planner.names
        self.rows, self.axis, extent = self._axes()
        self.folds = [renamed(fold, (self.axis,)) for fold in planner.folds]
        self.values = [self._value(d) for d in planner.defs]
        self.held = self._held()
        self.spread = self._spread(extent)
        self.low = Lowering(self.names)
        self.low.tiled[self.axis] = Tiled(self.axis, extent, ZERO, 1)
        self.out: list[Stmt] = []
        self.shared: list[Buffer] = []
        self.row, self.block = self.rows[-1] if self.rows else "", ""
        self.valid: Term = TRUE
        self.loaded: set[Term] = set()

    def _consumers(self) -> list[Term]:
        return [*(f.body[0] for f in self.folds), *self.values]

    # -- what it is -----------------------------------------------------------------------------------------------------

    def _axes(self) -> tuple[list[str], str, Term]:
        """The axes of which each instance has one index; the one that is folded, and its extent."""
        planner = self.planner
        if not planner.folds or planner.choice.keep or planner.choice.splits > 1 or not self.target.subgroup:
            raise LookupError("no row that subgroups could fold")
        if planner.beside or planner._along_output():
            raise LookupError("its lanes lie along the output")
        first = planner.folds[0]
        alike = all(len(f.axes) == 1 and len(f.body) == 1 and f.monoid.commutative for f in planner.folds)
        if not alike or any(canonical(f.axes[0].extent) != canonical(first.axes[0].extent) for f in planner.folds):
            raise LookupError("folds over several axes")
        if any(sort_of(f) != "real" for f in planner.folds):
            raise LookupError("folds of no reals")
        rows = [a for a in planner.axes if all(a in free_vars(f) for f in planner.folds)]
        rest = [a for a in planner.axes if a not in rows]
        extent = canonical(first.axes[0].extent)
        if len(rest) > 1 or any(set(rows) - set(d.axes) for d in planner.defs):
            raise LookupError("a row has several axes")
        if rest and (canonical(planner.extent[rest[0]]) != extent or any(rest[0] in free_vars(f) for f in planner.folds)):
            raise LookupError("the row is not what is folded")
        if free_vars(extent) & set(planner.axes):
            raise LookupError("rows of different extents")
        return rows, rest[0] if rest else first.axes[0].name, extent

    def _value(self, d: Def) -> Term:
        return by_reciprocal(d.value, self.axis) if self.axis in d.axes else d.value

    def _held(self) -> list[Read]:
        """Reads of neighbours along the row."""
        found: dict[Term, Read] = {}
        for term in self._consumers():
            for read in outside_folds(term):
                along = read.index and read.index[-1] == Var(self.axis)
                if along and not any(self.axis in free_vars(i) for i in read.index[:-1]) and not any(map(_reads, read.index)):
                    found.setdefault(key(read), read)
        first = [f.body[0] for f in self.folds] or self.values
        if not any(key(r) in found for term in first for r in outside_folds(term)):
            raise LookupError("a row's elements are no neighbours")
        return list(found.values())

    def _spread(self, extent: Term) -> Spread:
        widths = [self._width(read.tensor) for read in self.held] + [self._width(d.tensor.name) for d in self.planner.defs]
        vector, size = 1, None
        if isinstance(extent, Const):
            size = int(extent.value)
            vector = gcd(size, max(widths)) if self.target.own_vectors else 1
        elif isinstance(extent, Var):
            size = next((s.high for s in self.program.sizes if s.name == extent.name), None)
        most = THREADS if self.target.own_vectors else self.target.threads
        if size is None or size > most * MOST:
            threads = self.target.threads
            return Spread(extent, threads // self.target.subgroup, self.target.subgroup, 0, 1, 1)
        lanes = self.target.subgroup
        count = -(-size // vector)  # vectors in all,
        each = max(1, EACH // vector)  # and of a thread
        while lanes > 1 and lanes // 2 >= count:
            lanes //= 2
        subgroups = 1 if count <= lanes * each else min(-(-count // (each * lanes)), most // lanes)
        chunks = max(1, -(-count // (subgroups * lanes)))
        rows = max(1, BLOCK // (subgroups * lanes)) if subgroups == 1 and self.rows else 1
        return Spread(extent, subgroups, lanes, chunks, vector, rows)

    def _width(self, tensor: str) -> int:
        """Elements of a thread's widest vector."""
        dtype = self.program.tensor(tensor).dtype
        return 1 if dtype in ("bool", "int64") else max(1, self.target.vector_bytes // BYTES[dtype])

    # -- the kernel -----------------------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        spread, low = self.spread, self.low
        if spread.rows > 1:
            self.block = self.names.fresh(f"{self.row}_t")
            base, whole = imul(Var(self.block), spread.rows), self.planner.extent[self.row]
            low.tiled[self.row] = Tiled(self.row, whole, base, spread.rows)
        left = list(self.folds)
        while left:
            level = [f for f in left if not any(depends(f.body[0], g) for g in left)]
            if not level:
                raise LookupError("folds that need each other")
            self._level(level, left)
            left = [f for f in left if f not in level]
        self._keep([])
        for d, value in zip(self.planner.defs, self.values, strict=True):
            self._store(d, value)
        body: tuple[Stmt, ...] = with_barriers(tuple(self.out), frozenset(b.name for b in self.shared))
        for axis in reversed(self.rows):
            whole = self.planner.extent[axis]
            if axis == self.row and spread.rows > 1:
                body = (For(Axis(self.block, ceildiv(whole, spread.rows)), "grid", body),)
            else:
                body = (For(Axis(axis, whole), "grid", body),)
        if not self.rows:
            body = (For(Axis(self.names.fresh("block"), Const(1)), "grid", body),)
        held = sum(shared_bytes(b.dtype, prod(int(e.value) for e in b.shape if isinstance(e, Const))) for b in self.shared)
        machine = Machine(spread.threads * spread.rows, self.target.subgroup, held, self.target.index_bits)
        return self.planner.kernel_of(body, machine)

    def _threads(self) -> tuple[list[Loop], Point, tuple[Term, ...]]:
        """Thread axes under new names: rows of the block, subgroups, lanes; the row that they are at, and their cell."""
        s, loops, point = self.spread, list[Loop](), dict[str, Term]()
        for stem, extent in ((f"{self.row}_r", s.rows), ("y", s.subgroups), ("l", s.lanes)):
            if extent > 1 or stem == "l":
                loops.append(Loop(Axis(self.names.fresh(stem), Const(extent)), "thread"))
                point[stem] = Var(loops[-1].axis.name)
        cell = tuple(point.values())
        thread = iadd(imul(point.pop("y", ZERO), s.lanes), point.pop("l"))
        return loops, {**({self.row: point[f"{self.row}_r"]} if point else {}), "#thread": thread}, cell

    def _owners(self) -> tuple[Term, ...]:
        s = self.spread
        return tuple(Const(e) for e in ((s.rows,) * (s.rows > 1) + (s.subgroups,) * (s.subgroups > 1) + (s.lanes,)))

    def _fresh(self, stem: str, dtype: DType, slots: tuple[Term, ...]) -> Buffer:
        owners = self._owners()
        buffer = Buffer(self.names.fresh(stem), dtype, (*owners, *slots), "register", len(owners))
        self.out.append(Alloc(buffer))
        return buffer

    def _at(self, point: Point, chunk: Term, slot: Term) -> dict[str, Term]:
        """The point at an element of the thread's."""
        s = self.spread
        first = imul(iadd(imul(chunk, s.threads), point["#thread"]), s.vector)
        return {**point, self.axis: iadd(first, slot), "#chunk": chunk, "#slot": slot, "#first": first}

    def _valid(self, point: Point) -> Term:
        """Whether there is such a row."""
        return self.low.tiled[self.row].valid(point[self.row]) if self.row in point else TRUE

    def _inside(self, point: Point) -> Term:
        """Whether the row has such an element; the same for all elements of a vector."""
        return TRUE if self.spread.exact else lt(point["#first"], self.spread.extent)

    # -- folds ----------------------------------------------------------------------------------------------------------

    def _level(self, level: list[Fold], left: list[Fold]) -> None:
        """Folds that need only what is known: one barrier for all."""
        self._keep(left)
        for fold in level:
            self._load(fold.body[0])
        parts = [self._part(fold) for fold in level]
        whole = [self._over_lanes(fold, part) for fold, part in zip(level, parts, strict=True)]
        for fold, part in zip(level, whole, strict=True):
            state = self._over_subgroups(fold, part) if self.spread.subgroups > 1 else part
            self._remember(fold, state.name, ())

    def _remember(self, term: Term, buffer: str, slots: tuple[str, ...]) -> None:
        self.low.store(term, buffer, lambda p: (*self._cell_of(p), *(p[s] for s in slots)))

    def _cell_of(self, point: Point) -> tuple[Term, ...]:
        return self.cell

    def _statement(
        self, target: Buffer, inner: list[Loop], value: Callable[[Point], Term], kinds: tuple[tuple[str, Kind], ...] = (),
        slots: tuple[Term, ...] = (),
    ) -> None:  # fmt: skip
        """target[thread, slots] := value."""
        loops, point, self.cell = self._threads()
        self.out.append(Assign((*loops, *inner), target.name, (*self.cell, *slots), value(point), TRUE, kinds))

    def _part(self, fold: Fold) -> Buffer:
        s, identity = self.spread, fold.monoid.identity[0]
        part = self._fresh("part", self.planner.dtype, ())
        chunk, slot = self.names.fresh("c"), self.names.fresh("v")
        if s.chunks:
            axes: tuple[Axis, ...] = (Axis(chunk, Const(s.chunks)), Axis(slot, Const(s.vector)))
            kinds: tuple[tuple[str, Kind], ...] = ((chunk, "unroll"), (slot, "unroll"))
        else:
            axes = (Axis(chunk, ceildiv(s.extent, s.threads * COPIES)), Axis(slot, Const(COPIES)))
            kinds = ((chunk, "seq"), (slot, "unroll"))

        def value(point: Point) -> Term:
            here = self._element(point, chunk, slot)
            guard = conj(self._inside(here), self.low.lower(fold.guard, here))
            free = [r for r in outside_folds(fold.body[0]) if key(r) not in self.low.stored]
            if free:
                guard = conj(self._valid(point), guard)
            body = self.low.lower(fold.body[0], here)
            return Fold(fold.monoid, axes, TRUE, (body if guard == TRUE else Op("select", (guard, body, identity)),))

        self._statement(part, [], value, kinds)
        return part

    def _element(self, point: Point, chunk: str, slot: str) -> dict[str, Term]:
        if self.spread.chunks:
            return self._at(point, Var(chunk), Var(slot))
        return self._at(point, iadd(imul(Var(chunk), COPIES), Var(slot)), ZERO)

    def _over_lanes(self, fold: Fold, part: Buffer) -> Buffer:
        s, lane = self.spread, self.names.fresh("k")
        if s.subgroups > 1:
            whole = Buffer(self.names.fresh("all"), part.dtype, self._owners(), "shared")
            self.shared.append(whole)
            self.out.append(Alloc(whole))
        else:
            whole = self._fresh("all", part.dtype, ())

        def value(_: Point) -> Term:
            read = Read(part.name, (*self.cell[:-1], Var(lane)), "real")
            return Fold(fold.monoid, (Axis(lane, Const(s.lanes)),), TRUE, (read,))

        self._statement(whole, [], value, ((lane, "thread"),))
        return whole

    def _over_subgroups(self, fold: Fold, whole: Buffer) -> Buffer:
        state, k = self._fresh("fold", whole.dtype, ()), self.names.fresh("k")
        read = Read(whole.name, (Var(k), ZERO), "real")
        value = Fold(fold.monoid, (Axis(k, Const(self.spread.subgroups)),), TRUE, (read,))
        self._statement(state, [], lambda _: value, ((k, "unroll"),))
        return state

    # -- elements -------------------------------------------------------------------------------------------------------

    def _load(self, term: Term) -> None:
        """The row's elements that the term reads, into registers."""
        for read in outside_folds(term):
            if self.spread.chunks and key(read) not in self.low.stored and key(read) in map(key, self.held):
                self._load_row(read)

    def _load_row(self, read: Read) -> None:
        s, dtype = self.spread, self.program.tensor(read.tensor).dtype
        row = self._fresh(f"{read.tensor}_row", dtype, (Const(s.chunks), Const(s.vector)))
        zero: Term = {"real": REAL_ZERO, "int": ZERO}.get(SORTS[dtype], Const(False))

        def value(here: Point) -> Term:
            element = Read(read.tensor, tuple(self.low.lower(i, here) for i in read.index), read.sort)
            guard = conj(self._inside(here), self._valid(here) if self.row in free_vars(read) else TRUE)
            return element if guard == TRUE else Op("select", (guard, element, zero))

        self._fill(row, value, min(s.vector, self._width(read.tensor)))
        self._remember(read, row.name, ("#chunk", "#slot"))
        times = sum(any(key(r) == key(read) for r in outside_folds(term)) for term in self._consumers()) if self.folds else 1
        if SORTS[dtype] == "real" and BYTES[dtype] < BYTES[self.planner.dtype] and times > 1:
            self._keep_one(read)  # converted once

    def _fill(self, row: Buffer, value: Callable[[Point], Term], width: int) -> None:
        """row[thread, chunk, slot] := value, vectors of `width` slots where that is more than one."""
        loops, point, self.cell = self._threads()
        inner, at_chunk, slot = self._slots(width)
        index = (*self.cell, at_chunk, slot)
        made = value(self._at(point, at_chunk, slot))
        self.out.append(Assign((*loops, *inner), row.name, index, made, TRUE, (), self._claim(row, value)))

    def _slots(self, width: int) -> tuple[list[Loop], Term, Term]:
        """Loops over a thread's slots, the last one over a vector of so many; the chunk and the place in it."""
        s, loops = self.spread, list[Loop]()
        places: list[Term] = []
        for stem, extent, kind in (("c", s.chunks, "unroll"), ("u", s.vector // width, "unroll"), ("v", width, "lane")):
            places.append(ZERO)
            if extent > 1:
                loops.append(Loop(Axis(self.names.fresh(stem), Const(extent)), kind))  # type: ignore[arg-type]
                places[-1] = Var(loops[-1].axis.name)
        return loops, places[0], iadd(imul(places[1], width), places[2])

    def _claim(self, row: Buffer, value: Callable[[Point], Term]) -> Claim:
        """What the buffer holds, in terms of its own index."""
        kept = self.cell
        loops, point, self.cell = self._threads()
        chunk, slot = self.names.fresh("c"), self.names.fresh("v")
        said = value(self._at(point, Var(chunk), Var(slot)))
        self.cell = kept
        return Claim((*(loop.axis.name for loop in loops), chunk, slot), said)

    def _keep(self, left: list[Fold]) -> None:
        """What is dear, can be computed now, and is needed more than once from here on."""
        s = self.spread
        if not s.chunks or s.chunks * s.vector > MOST:
            return
        consumers = [f.body[0] for f in left] + self.values
        times = Counter(part for term in consumers for part in {key(p) for p in costly_parts(term)})

        def dear(term: Term) -> list[Term]:
            if isinstance(term, Fold) or key(term) in self.low.stored:
                return []
            ready = all(key(f) in self.low.stored for f in all_folds(term))
            own = isinstance(term, Op) and has_special(term) and self.axis in free_vars(term) and times[key(term)] > 1
            if own and ready and all(key(r) in map(key, self.held) for r in outside_folds(term)) and sort_of(term) == "real":
                return [term]
            return [part for inner in children(term) for part in dear(inner)]

        for part in {key(p): p for term in consumers for p in dear(term)}.values():
            self._load(part)
            self._keep_one(part)

    def _keep_one(self, term: Term) -> None:
        row = self._fresh("kept", self.planner.dtype, (Const(self.spread.chunks), Const(self.spread.vector)))
        self._fill(row, lambda here: self.low.lower(term, here), 1)
        self._remember(term, row.name, ("#chunk", "#slot"))

    # -- results --------------------------------------------------------------------------------------------------------

    def _store(self, d: Def, value: Term) -> None:
        s = self.spread
        if self.axis not in d.axes:
            loops, point, self.cell = self._threads()
            alone = conj(Op("eq", (canonical(point["#thread"]), ZERO)), self._valid(point))
            self._to(d, loops, point, self.low.lower(value, point), alone)
            return
        self._load(value)
        if not s.chunks:
            chunk, slot = self.names.fresh("c"), self.names.fresh("v")
            loops, point, self.cell = self._threads()
            here = self._element(point, chunk, slot)
            inner = [Loop(Axis(chunk, ceildiv(s.extent, s.threads * COPIES)), "seq"), Loop(Axis(slot, Const(COPIES)), "unroll")]
            guard = conj(self._valid(point), self._inside(here))
            self._to(d, [*loops, *inner], here, self.low.lower(value, here), guard)
            return
        width = min(s.vector, self._width(d.tensor.name))
        arrays = (*self._reads(), *(e.tensor.name for e in self.planner.defs))
        widest = max(BYTES[self.program.tensor(name).dtype] for name in arrays)
        if width > 1 and BYTES[d.tensor.dtype] == widest and all(key(r) in self.low.stored for r in outside_folds(value)):
            row = self._fresh("result", d.tensor.dtype, (Const(s.chunks), Const(s.vector)))
            self._fill(row, lambda here: self.low.lower(value, here), 1)

            def made(here: Point) -> Term:
                return Read(row.name, (*self.cell, here["#chunk"], here["#slot"]), sort_of(value))
        else:
            width = 1

            def made(here: Point) -> Term:
                return self.low.lower(value, here)

        loops, point, self.cell = self._threads()
        inner, part, element = self._slots(width)
        here = self._at(point, part, element)
        self._to(d, [*loops, *inner], here, made(here), conj(self._valid(point), self._inside(here)))

    def _to(self, d: Def, loops: list[Loop], point: Point, value: Term, guard: Term) -> None:
        full = self.low.full(point)
        index = tuple(full.get(a, Var(a)) for a in d.axes)
        self.out.append(Assign(tuple(loops), d.tensor.name, index, value, guard))

    def _reads(self) -> list[str]:
        return [r.tensor for d in self.planner.defs for r in reads(d.value)]


def outside_folds(term: Term) -> list[Read]:
    """Reads that stand in no fold."""
    if isinstance(term, Fold):
        return []
    own = [term] if isinstance(term, Read) else []
    return own + [read for part in children(term) for read in outside_folds(part)]


def _reads(term: Term) -> bool:
    return isinstance(term, (Read, Fold)) or any(map(_reads, children(term)))
