"""Who touches what in a block of threads: owners of private cells, lanes of a subgroup, copies that go on by themselves.

    acc[y, x, r, c] : register of 2      touched in instances of thread 16 y + x alone                 no-race/owner
    s[16 u + t] : shared                 noted, with its thread and where it stands, for `races.py`      no-race
    max_{l < 32} p[y, l]                 lane l of the subgroup computes p[y, l], from its own register   parallelise/subgroup
    acc := acc + Σ a b   by a unit       reads its fragments as the unit's table says, across lanes      unit/…
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from tang_verified.proofs.ledger import Ledger
from tang_verified.proofs.races import Access, Item, Races
from tang_verified.semantics.build import canonical, linear
from tang_verified.semantics.kernel import Assign, Buffer, For, Kernel, swizzle
from tang_verified.semantics.program import BYTES, DType, Tensor
from tang_verified.semantics.terms import (
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    IllFormed,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    substitute,
)  # fmt: skip
from tang_verified.semantics.units import ROW, UNITS, Operand, Rows, Unit, product, shared_product

NOBODY = Const(-1)  # no thread's number: what is not ordered with the thread itself
MOST_THREADS = 1024
MOST_SHARED = 1 << 20


class Threads:
    """The threads of one kernel's blocks. `order` is what they do to buffers that they share, as it stands in the text."""

    def __init__(self, ledger: Ledger, kernel: Kernel) -> None:
        self.ledger, self.kernel, self.machine = ledger, kernel, kernel.machine
        self.order: list[Item] = []

    def check_machine(self) -> None:
        """What a kernel may ask of a machine at all, and data from which 32-bit indices can be computed."""
        m = self.machine
        subgroup = m.subgroup >= 0 and m.subgroup & (m.subgroup - 1) == 0 and (not m.subgroup or m.threads % m.subgroup == 0)
        within = 1 <= m.threads <= MOST_THREADS and 0 <= m.shared_bytes <= MOST_SHARED
        if not (within and subgroup and m.index_bits in (32, 64)):
            raise IllFormed(f"no machine: {m}")
        names = (*self.kernel.reads, *self.kernel.outputs)
        self._check_width(self.kernel.program.tensor(name).dtype for name in names)

    def _check_width(self, dtypes: Iterable[DType]) -> None:
        if self.machine.index_bits == 32 and "int64" in dtypes:
            raise self.ledger.refuse("width/int64", "an int64 array, in a kernel of 32-bit integers", "disproved")

    def check_order(self) -> None:
        """No two threads race."""
        if self.machine.threads > 1:
            sizes = frozenset(size.name for size in self.kernel.program.sizes)
            Races(self.ledger, self.ledger.base, sizes).check(self.order)

    def check_owners(self, buffer: Buffer) -> None:
        """Where a block has threads, a private buffer says which thread each cell belongs to."""
        private = buffer.scope in ("register", "thread")
        if not 0 <= buffer.owners <= len(buffer.shape) or (buffer.owners and not private):
            raise IllFormed(f"buffer {buffer.name}: {buffer.owners} owner axes")
        if private and buffer.owners == 0 and self.machine.threads > 1:
            why = f"{buffer.name} is private to a thread, and no axis says to which"
            raise self.ledger.refuse("no-race/owner", why, "disproved")
        if buffer.owners and (None in map(constant, buffer.shape) or owners(buffer) > self.machine.threads):
            why = f"{buffer.name} is spread over more than {self.machine.threads} threads"
            raise self.ledger.refuse("capacity/threads", why, "disproved")

    def check_place(self, buffer: Buffer, inside: bool) -> None:
        """A block's memory ends with its launch. `inside`: some loop lies around the declaration."""
        self._check_width((buffer.dtype,))
        if buffer.swizzled:
            self._check_swizzle(buffer)
        launches = any(isinstance(s, For) and s.kind == "grid" for s in self.kernel.body)
        if self.machine.threads > 1 and buffer.scope != "global" and launches and not inside:
            why = f"{buffer.name} belongs to a block, and is declared for several launches"
            raise self.ledger.refuse("no-race/scope", why, "disproved")

    def _check_swizzle(self, buffer: Buffer) -> None:
        """Whole groups of eight rows of 128 bytes, in which no two cells come to lie at one place, nor vectors apart."""
        size = BYTES[buffer.dtype]
        extents = [constant(extent) or 0 for extent in buffer.shape]
        row, why = 128 // size, ""
        if buffer.scope != "shared" or self.machine.threads == 1 or size not in (2, 4):
            why = "it is not shared by threads, or its elements have neither 2 nor 4 bytes"
        elif len(extents) < 2 or extents[-1] != row or extents[-2] % 8:
            why = f"it has no whole groups of eight rows of {row} elements"
        elif sorted(places := [swizzle(cell, size) for cell in range(8 * row)]) != list(range(8 * row)):
            why = "two cells lie at one place"
        elif any(places[cell] != places[cell - 1] + 1 for cell in range(8 * row) if cell % (16 // size)):
            why = "a piece of 16 bytes is torn"
        if why:
            raise self.ledger.refuse("capacity/swizzle", f"{buffer.name}: {why}", "disproved")

    def number(self, statement: Assign) -> Term:
        """The number of the thread that runs an instance: the thread axes row by row."""
        number: Term = ZERO
        count = 1
        for loop in statement.loops:
            if loop.kind == "thread":
                extent = constant(loop.axis.extent)
                if extent is None:
                    why = f"thread axis {loop.axis.name} has no constant extent"
                    raise self.ledger.refuse("capacity/threads", why, "disproved")
                number = Op("add", (Op("mul", (number, Const(extent))), Var(loop.axis.name)))
                count *= extent
        if count > self.machine.threads:
            why = f"{statement.target} takes {count} threads, a block has {self.machine.threads}"
            raise self.ledger.refuse("capacity/threads", why, "disproved")
        return canonical(number)

    def touch(
        self, buffer: Buffer, index: tuple[Term, ...], thread: Term | None, facts: tuple[Term, ...], writer: Assign | None,
        inside: bool,
    ) -> None:  # fmt: skip
        """An access to a cell: by its owner, or noted. `inside`: a grid loop lies between the buffer and the access.
        With no thread, a unit's operand: a fragment, which `check_unit` has found where it belongs, or shared cells, which
        any of its lanes may read."""
        if self.machine.threads == 1 or (thread is None and buffer.owners):
            return
        if buffer.scope != "global" and inside:
            why = f"{buffer.name} belongs to a block, and blocks inside it use it"
            raise self.ledger.refuse("no-race/scope", why, "disproved")
        if buffer.owners and thread is not None:
            owner: Term = ZERO
            for i, extent in zip(index[: buffer.owners], buffer.shape, strict=False):
                owner = Op("add", (Op("mul", (owner, extent)), i))
            self.ledger.holds(f"no-race/owner/{buffer.name}", facts, canonical(Op("eq", (canonical(owner), thread))))
        else:
            going_on = writer is not None and writer.asynchronous
            self.order.append(Access(buffer, index, NOBODY if thread is None else thread, facts, writer is not None, going_on))

    def lane(self, fold: Fold, statement: Assign, thread: Term | None) -> Term | None:
        """The thread that computes an element of a fold: the statement's, or the lane that the fold's axis names; none
        alone, where a unit does."""
        kinds = dict(statement.fold_kinds)
        if statement.unit or thread is None:
            return None
        if not any(kinds.get(axis.name) == "thread" for axis in fold.axes):
            return thread
        axes = [loop.axis for loop in statement.loops if loop.kind == "thread"]
        lanes = constant(fold.axes[0].extent) or 0
        why = ""
        if len(fold.axes) != 1 or fold.guard != TRUE or not axes or constant(axes[-1].extent) != lanes:
            why = "it is not over the statement's last thread axis alone"
        elif lanes & (lanes - 1) or not 0 < lanes <= self.machine.subgroup:
            why = f"{lanes} lanes, of a subgroup of {self.machine.subgroup}"
        elif not always(fold, statement.value) or any(occurs(fold, part) for part in statement.index):
            why = "some lanes may not come to it"
        elif not self._all_take_part(statement):
            why = "some threads of the block do not take part, or not as often as others"
        elif any(axes[-1].name in free_vars(body) for body in fold.body):
            why = "its body differs from lane to lane"
        if why:
            raise self.ledger.refuse("parallelise/subgroup", f"fold over {fold.axes[0].name}: {why}", "disproved")
        return canonical(substitute(thread, {axes[-1].name: Var(fold.axes[0].name)}))

    def _all_take_part(self, statement: Assign) -> bool:
        """Every thread of the block runs the statement, as often as any other."""
        axes = [loop.axis for loop in statement.loops if loop.kind == "thread"]
        alike = not any(free_vars(loop.axis.extent) & {axis.name for axis in axes} for loop in statement.loops)
        whole = prod(constant(axis.extent) or 0 for axis in axes) == self.machine.threads
        return alike and whole and statement.guard == TRUE

    def check_unit(self, statement: Assign, buffers: Mapping[str, Buffer]) -> None:
        """A unit's statement is the one of its table, over fragments that are spread as the table says."""
        if not statement.unit:
            return
        unit = UNITS.get(statement.unit)
        if unit is None or statement.asynchronous:
            raise IllFormed(f"no unit {statement.unit!r} is known")
        value = self._shared_value if unit.shared else self._unit_value
        why = self._unit_lanes(unit, statement) or value(unit, statement, buffers)
        if why:
            raise self.ledger.refuse(f"unit/{unit.name}", why, "disproved")

    def _unit_lanes(self, unit: Unit, statement: Assign) -> str:
        extents = [constant(loop.axis.extent) for loop in statement.loops if loop.kind == "thread"]
        wanted = [4, 8, 4] if unit.shared else [8, 4]
        if self.machine.subgroup != 32 or prod(wanted) != unit.lanes or extents[-len(wanted) :] != wanted:
            return f"its last thread axes are not its {unit.lanes} lanes, {' by '.join(map(str, wanted))}"
        return "" if self._all_take_part(statement) else "some lanes do not take part"

    def _shared_value(self, unit: Unit, statement: Assign, buffers: Mapping[str, Buffer]) -> str:
        """That the value is `units.shared_product` of a fragment and of rows in swizzled buffers."""
        threads = [loop.axis for loop in statement.loops if loop.kind == "thread"]
        slots = [loop.axis for loop in statement.loops if loop.kind != "thread"]
        reads, fold = reads_in_order(statement.value), next((f for f in children(statement.value) if isinstance(f, Fold)), None)
        if len(reads) != 3 or fold is None or len(fold.axes) != 1:
            return "it is not a product of rows and columns added to a fragment"
        spread, a, b = (buffers.get(read.tensor) for read in reads)
        count, k = len(threads), fold.axes[0].name
        own = spread is not None and spread.scope == "register" and spread.dtype == unit.accumulator
        if spread is None or not own or spread.owners != count or len(statement.index) < count + 4:
            return f"{reads[0].tensor} is no {unit.accumulator} fragment, spread over the unit's lanes"
        shape, sides = [constant(extent) for extent in spread.shape], [constant(axis.extent) for axis in threads]
        copied_out = all(loop.kind in ("thread", "unroll") for loop in statement.loops)
        if shape[:count] != sides or shape[-4:] != [unit.columns // ROW, 8, 2, 2] or not copied_out:
            return f"{statement.target} has not the unit's shape"
        blocks, j, h, p = (place.name if isinstance(place, Var) else "" for place in statement.index[-4:])
        whole = {axis.name: constant(axis.extent) for axis in slots}
        if [whole.get(name) for name in (blocks, j, h, p)] != shape[-4:]:
            return "it computes a part of its fragment"
        digits = (*(axis.name for axis in threads[-3:]), j, h, p)
        if any(x is None or not x.swizzled or x.dtype != unit.operand for x in (a, b)):
            return f"its operands are no swizzled buffers of {unit.operand}"
        inner = {*digits, blocks, k}
        which = statement.index[count:-4]
        c = Operand(statement.target, tuple(Var(axis.name) for axis in threads[:-3]), (*which, Var(blocks)))
        if reads[0] != Read(statement.target, statement.index, "real") or any(free_vars(place) & inner for place in which):
            return "it takes another fragment than it gives"
        rows = _rows(reads[1], inner - {k}, k, ""), _rows(reads[2], inner - {k}, k, blocks)
        if rows[0] is None or rows[1] is None or rows[0].across is False:
            return "its operands are no rows of its buffers, or which they are depends on the lane, or on data"
        depth = b.shape[-2] if b is not None else ZERO
        if not rows[1].across and constant(depth) != ROW:
            return f"a block of {reads[2].tensor} has not {ROW} rows"
        if canonical(statement.value) != canonical(shared_product(c, rows[0], rows[1], digits, Var(blocks), k)):
            return "it reads its operands in another layout than the unit does"
        return ""

    def _unit_value(self, unit: Unit, statement: Assign, buffers: Mapping[str, Buffer]) -> str:
        """That the value is `units.product` of three fragments, each of its own dtype and spread over (…, 8, 4)."""
        reads = reads_in_order(statement.value)
        threads = [loop.axis.name for loop in statement.loops if loop.kind == "thread"]
        index, axes_ = statement.index, [loop.axis for loop in statement.loops if loop.kind == "thread"]
        pairs = {loop.axis.name for loop in statement.loops if loop.kind == "unroll" and loop.axis.extent == Const(2)}
        last = [place.name for place in index[-2:] if isinstance(place, Var) and place.name in pairs]
        if len(reads) != 3 or len(last) != 2:
            return "it is not a product of two fragments added to a third, two rows by two columns a lane"
        operands = []
        for read, slots, dtype in zip(reads, (2, 3, 2), (unit.accumulator, unit.operand, unit.operand), strict=True):
            buffer = buffers.get(read.tensor)
            spread = buffer is not None and buffer.owners == len(threads) and buffer.scope == "register"
            if buffer is None or not spread or buffer.dtype != dtype or not self._fragment(buffer, axes_, slots):
                return f"{read.tensor} is no {dtype} fragment of the unit, spread over the subgroup's lanes"
            lanes = len(threads)
            operands.append(Operand(read.tensor, read.index[: lanes - 2], read.index[lanes : len(read.index) - slots]))
        fold = next((f for f in children(statement.value) if isinstance(f, Fold)), None)
        axes = tuple(axis.name for axis in fold.axes) if fold is not None else ()
        digits = (*threads[-2:], *last)
        own = {*digits, *axes}
        places = [place for o in operands for place in (*o.subgroup, *o.which)]
        if len(axes) != 3 or any(free_vars(place) & own or reads_in_order(place) for place in places):
            return "which fragment it takes depends on the lane, or on data"
        c, a, b = operands
        subgroup = tuple(Var(name) for name in threads[:-2])
        if any(o.subgroup != subgroup for o in operands) or statement.target != c.buffer or reads[0].index != index:
            return "it takes another subgroup's fragments"
        if canonical(statement.value) != canonical(product(unit, c, a, b, digits, axes)):
            return "it reads its fragments in another layout than the unit does"
        return ""

    @staticmethod
    def _fragment(buffer: Buffer, threads: Sequence[Axis], slots: int) -> bool:
        extents = [constant(extent) for extent in buffer.shape]
        spread = extents[: buffer.owners] == [constant(axis.extent) for axis in threads]
        return spread and extents[len(extents) - slots :] == [2] * slots

    def check_vector(self, statement: Assign, target: Buffer | Tensor, sources: Mapping[str, Buffer | Tensor]) -> None:
        """A thread's vector: neighbours copied as they are, from and to addresses that are multiples of the vector."""
        lanes = [loop.axis for loop in statement.loops if loop.kind == "lane"]
        if not lanes or self.machine.threads == 1:
            return
        width, lane, read = constant(lanes[0].extent) or 0, lanes[0].name, copied(statement.value)
        extents = [loop.axis.extent for loop in statement.loops]
        source = sources.get(read.tensor) if read is not None else None
        why = ""
        if len(lanes) > 1 or read is None or source is None or source.dtype != target.dtype:
            why = "it is no plain copy"
        elif width & (width - 1) or not 1 < width * BYTES[target.dtype] <= 16:
            why = f"a vector of {width} elements is wider than 16 bytes, or no power of two"
        elif any(lane in free_vars(term) for term in (statement.guard, *conditions(statement.value), *extents)):
            why = "a condition or an extent differs from lane to lane"
        elif not (aligned(statement.index, target.shape, lane, width) and aligned(read.index, source.shape, lane, width)):
            why = "an address is no multiple of the vector, or its lanes are no neighbours"
        if why:
            raise self.ledger.refuse("width/vector", f"{statement.target}: {why}", "disproved")

    def check_copy(self, statement: Assign, target: Buffer | None, tensors: Mapping[str, Tensor]) -> None:
        """A copy that goes on by itself: a tensor's elements as they are, or zeros, into a shared buffer."""
        if not statement.asynchronous:
            return
        if self.machine.threads == 1:
            raise self.ledger.refuse("async/copy", f"{statement.target}: one thread has nobody to wait for it", "disproved")
        read = copied(statement.value)
        source = tensors.get(read.tensor) if read is not None else None
        if source is None or target is None or target.scope != "shared" or source.dtype != target.dtype:
            why = f"{statement.target} is no plain copy into a shared buffer"
            raise self.ledger.refuse("async/copy", why, "disproved")


def _rows(read: Read, digits: set[str], k: str, blocks: str) -> Rows | None:
    """What of an operand's index is not the unit's own: the places in front, and where its rows begin. Of B in rows of one
    k each, the last place in front numbers the block."""
    across = bool(read.index) and read.index[-1] == Var(k)
    if len(read.index) < (2 if across else 3):
        return None
    *front, line, column = read.index
    place = line if across else column
    parts, offset = linear(place)
    first: Term = Const(offset)
    for atom, factor in parts.items():
        if not free_vars(atom) & digits:
            first = Op("add", (first, Op("mul", (Const(factor), atom))))
    others = linear(first)
    if any(n % 8 for n in (*others[0].values(), others[1])) or (not across and line != Var(k)):
        return None
    outside = [first, *front[: len(front) if across else -1]]
    if not across:
        begin, _ = linear(front[-1])
        if begin.get(Var(blocks)) != 1:
            return None
        outside += [atom for atom in begin if atom != Var(blocks)]
    if any(free_vars(term) & (digits | {k}) or reads_in_order(term) for term in outside):
        return None
    return Rows(read.tensor, tuple(front), canonical(first), across)


def copied(value: Term) -> Read | None:
    """The element that a plain copy takes (where a condition holds; else zero)."""
    if isinstance(value, Op) and value.name == "select" and value.args[2] == REAL_ZERO:
        value = value.args[1]
    return value if isinstance(value, Read) else None


def conditions(value: Term) -> tuple[Term, ...]:
    return value.args[:1] if isinstance(value, Op) else ()


def aligned(index: tuple[Term, ...], shape: tuple[Term, ...], lane: str, width: int) -> bool:
    """Whether the cells at lane 0, 1, … are neighbours, the first at a multiple of the width."""
    if not index or any(lane in free_vars(place) for place in index[:-1]):
        return False
    parts, offset = linear(index[-1])
    row = constant(shape[-1])
    whole = len(shape) == 1 or (row is not None and row % width == 0)
    rest = {atom: c for atom, c in parts.items() if atom != Var(lane)}
    steps = all(c % width == 0 and lane not in free_vars(atom) for atom, c in rest.items())
    return whole and parts.get(Var(lane)) == 1 and offset % width == 0 and steps


def reads_in_order(term: Term) -> list[Read]:
    """Every read, as it stands in the term."""
    if isinstance(term, Read):
        return [term]
    return [read for part in children(term) for read in reads_in_order(part)]


def owners(buffer: Buffer) -> int:
    """How many threads a private buffer is spread over."""
    return prod(constant(extent) or 1 for extent in buffer.shape[: buffer.owners]) or 1


def constant(extent: Term) -> int | None:
    """The value of a constant extent."""
    return int(extent.value) if isinstance(extent, Const) and isinstance(extent.value, int) else None


def always(fold: Fold, term: Term) -> bool:
    """Whether a fold occurs in the term, and is evaluated whenever the term is: below no branch and in no other fold."""
    if term == fold:
        return True
    if isinstance(term, Fold) or (isinstance(term, Op) and term.name in ("select", "and", "or")):
        return False
    parts = [part for part in children(term) if occurs(fold, part)]
    return bool(parts) and all(always(fold, part) for part in parts)


def occurs(fold: Fold, term: Term) -> bool:
    return term == fold or any(occurs(fold, part) for part in children(term))
