"""Kernel -> text for GPUs: each grid nest is an entry point; a statement is written for one thread.

    for i < n [grid]: for j < m [grid]: body      ->   entry(…) { if (block < n * m) { i = block / m; j = block % m; … } }
    alloc s[16, 64] : shared                      ->   an array of the block, declared in front
    alloc acc[16, 16, 4, 4] : register of 2       ->   a thread's variables acc_0_0 … acc_3_3
    s[y, 16 u + x] := …  for y, x [thread], u     ->   { y = thread / 16; x = thread % 16; … }   only for threads below 256
    barrier                                       ->   barrier

It decides nothing. The owner axes of a buffer do not appear in the text: every access is the owner's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Protocol

from tang_verified.backends.assign import Assigns, Cell
from tang_verified.backends.dialect import Dialect, Unsupported
from tang_verified.backends.launch import Binding, Launch, Plan
from tang_verified.backends.names import Names
from tang_verified.backends.scopes import Context, Line, Scope, flatten
from tang_verified.backends.storage import Memory, Registers, Variables, settled
from tang_verified.proofs.readback.simt_text import RESERVED  # what no reader takes for a variable, in any of the languages
from tang_verified.proofs.threads import reads_in_order
from tang_verified.semantics.build import canonical
from tang_verified.semantics.kernel import (
    Alloc,
    Assign,
    Barrier,
    Buffer,
    Commit,
    For,
    Kernel,
    Loop,
    Stmt,
    Wait,
    assignments,
    shared_bytes,
)
from tang_verified.semantics.program import BYTES, DType
from tang_verified.semantics.terms import (
    ONE,
    TRUE,
    ZERO,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    rebuild,
    substitute,
)
from tang_verified.semantics.units import ROW, UNITS


@dataclass(frozen=True)
class Entry:
    """One entry point, as a dialect sees it: its arrays, sizes, shared arrays and the lines of its body."""

    name: str
    threads: int
    subgroup: int
    arrays: tuple[tuple[str, DType, bool], ...]  # variable, dtype, written
    sizes: tuple[str, ...]
    shared: tuple[tuple[str, DType, int], ...]  # variable, dtype, elements
    body: tuple[str, ...]
    swizzled: frozenset[str] = frozenset()  # which of the shared arrays are
    words: int = 0  # that the register buffers of a straight program take; 0: not counted


class SimtDialect(Dialect, Protocol):
    """What a language of GPU kernels spells beside expressions."""

    subgroup: int  # threads that a schedule may rely on to be one subgroup; 0: none
    unit: str  # the matrix unit that schedules may use, or none
    units: tuple[str, ...]  # and those that take operands from shared memory
    stages: int  # of a ring of asynchronous copies
    shared_bytes: int  # that a block may have
    vector_bytes: int  # the widest access of a thread
    own_vectors: bool  # also to and from its own arrays
    asynchronous: bool  # copies to shared memory can go on by themselves
    types: dict[str, str]  # kind -> a variable's type

    def index(self, name: str, value: str) -> str:
        """A constant integer's declaration."""

    def number(self, name: str, value: str) -> str:
        """The same in 32 bits: of blocks and threads there are fewer than 2^31, and division is quick."""

    def narrow(self, extent: str) -> str:
        """An integer that is below 2^31, in 32 bits."""

    def block_index(self) -> str:
        """The block's number, as an integer: x + y · (blocks along x)."""

    def thread_index(self) -> str:
        """The thread's number in its block, as an integer."""

    def barrier(self, units: bool = False) -> str:
        """All threads of the block meet, and see what was written to shared arrays; with `units`, so do matrix units."""

    def move(
        self, dtype: DType, width: int, target: str, offset: str, source: str, place: str, condition: str | None, wait: bool
    ) -> str:
        """A copy of `width` neighbours to a shared array; zero where the condition fails, and then nothing is read. Unless
        `wait`, it goes on by itself."""

    def put(self, dtype: DType, width: int, target: str, offset: str, source: str, place: str) -> str:
        """A copy of `width` neighbours from a thread's own array to one of the kernel's."""

    def commit(self) -> str:
        """The copies so far are a group."""

    def wait(self, keep: int) -> str:
        """Wait until at most `keep` groups are pending."""

    def multiply(self, unit: str, c: Sequence[str], a: Sequence[str], b: Sequence[str]) -> str:
        """A matrix unit's statement on variables: the slots of a lane's fragments, in the order of `semantics/units.py`."""

    def multiply_rows(self, unit: str, form: str, a: str, b: str, c: Sequence[str]) -> str:
        """The same, of operands in shared arrays, from the elements a and b on."""

    def swizzle(self, dtype: DType, cell: str) -> str:
        """Where a cell of a swizzled array lies."""

    def module(self, kernel: Kernel, entries: Sequence[Entry]) -> str:
        """The whole text: helpers, then the entry points."""


def print_simt(kernel: Kernel, dialect: SimtDialect) -> tuple[str, Plan]:
    """The kernel's text in the dialect's language, and how it is started."""
    return settled(dialect, lambda registers: _Printer(kernel, dialect, registers).print())


class _Printer(Assigns):
    dialect: SimtDialect

    def __init__(self, kernel: Kernel, dialect: SimtDialect, registers: Registers) -> None:
        super().__init__(dialect, Names(dialect.reserved | RESERVED), registers)  # a word of any GPU's language
        self.kernel = kernel
        self.mutable: set[str] = set()
        self.shared: list[tuple[str, DType, int]] = []
        self.swizzled: set[str] = set()
        self.proxies = False  # units read what threads write
        self.owners: dict[str, int] = {}
        self.copying = False  # the statement moves elements as they are,
        self.width = 1  # so many neighbours at a time,
        self.waits = True  # and is done when it is done

    def print(self) -> tuple[str, Plan]:
        kernel, program = self.kernel, self.kernel.program
        if kernel.machine.index_bits != self.dialect.bits:
            raise Unsupported(f"{self.dialect.name} computes indices in {self.dialect.bits} bits")
        sizes = [self.names.take(size.name) for size in program.sizes]
        names: dict[str, Term] = {size.name: Var(text) for size, text in zip(program.sizes, sizes, strict=True)}
        tensors = [program.tensor(name) for name in (*kernel.reads, *kernel.outputs)]
        bindings = [self.bind(t.name, t.dtype, t.shape, t.name in kernel.outputs, False, names) for t in tensors]
        launches: list[list[Stmt]] = []
        for statement in kernel.body:
            if isinstance(statement, Alloc) and statement.buffer.scope == "global":
                buffer = statement.buffer
                bindings.append(self.bind(buffer.name, buffer.dtype, buffer.shape, True, True, names))
            elif isinstance(statement, For) and statement.kind == "grid":
                launches.append([statement])
            elif launches and not isinstance(launches[-1][0], For):
                launches[-1].append(statement)
            else:
                launches.append([statement])
        arrays = tuple((self.memory(b.name).variable, b.dtype, b.written) for b in bindings)
        entries, plans = [], []
        for number, body in enumerate(launches):
            self.proxies = any(UNITS[s.unit].shared for s in assignments(body) if s.unit)
            name = self.names.entry(kernel.name if len(launches) == 1 else f"{kernel.name}_{number}")
            lines, blocks = self.launch(tuple(body), names)
            machine = kernel.machine
            shared, words = tuple(self.shared), _words(body)
            entries.append(Entry(name, machine.threads, machine.subgroup, arrays, tuple(sizes), shared, lines,
                                 frozenset(self.swizzled), words))  # fmt: skip
            held = sum(shared_bytes(dtype, count) for _, dtype, count in self.shared)
            plans.append(Launch(name, blocks, machine.threads, held))
            self.shared, self.swizzled = [], set()
        plan = Plan(kernel.name, tuple(s.name for s in program.sizes), tuple(bindings), tuple(plans), self.dialect.bits,
                    kernel.machine.subgroup)  # fmt: skip
        return self.dialect.module(kernel, entries), plan

    def bind(
        self, name: str, dtype: DType, shape: tuple[Term, ...], written: bool, scratch: bool, names: dict[str, Term]
    ) -> Binding:
        variable = self.names.take(name)
        self.storage[name] = Memory(variable, dtype, tuple(substitute(e, names) for e in shape), own=scratch)
        return Binding(name, dtype, shape, written, scratch)

    # Launches

    def launch(self, body: tuple[Stmt, ...], names: dict[str, Term]) -> tuple[tuple[str, ...], Term]:
        """The lines of an entry point, and how many blocks it takes."""
        nest: list[For] = []
        while len(body) == 1 and isinstance(loop := body[0], For) and loop.kind == "grid":
            if free_vars(loop.axis.extent) & {outer.axis.name for outer in nest}:
                break
            nest.append(loop)
            body = loop.body
        blocks: Term = ONE
        for loop in nest:
            blocks = loop.axis.extent if blocks == ONE else Op("mul", (blocks, loop.axis.extent))
        scope = Scope()
        scope.add(self.dialect.number(block := self.names.take("block"), self.dialect.block_index()))
        scope.add(self.dialect.number(thread := self.names.take("thread"), self.dialect.thread_index()))
        self.thread = thread
        extents = [self.extent(scope, canonical(substitute(loop.axis.extent, names))) for loop in nest]
        inside = dict(names)
        lines: list[Line] = []
        rest = block
        for loop, extent in reversed(list(zip(nest, extents, strict=True))):
            variable = self.names.take(loop.axis.name)
            last = loop is nest[0]
            small = self.dialect.narrow(extent)
            lines.append((0, self.dialect.index(variable, rest if last else f"{rest} % {small}")))
            if not last:
                lines.append((0, self.dialect.number(fresh := self.names.take("rest"), f"{rest} / {small}")))
                rest = fresh
            inside[loop.axis.name] = Var(variable)
        lines += self.block(body, inside)
        total = " * ".join(extents) or "1"
        whole = [*scope.lines, (0, f"if ({block} < {total}) {{"), *((level + 1, text) for level, text in lines), (0, "}")]
        return tuple(flatten(whole, 1)), canonical(blocks)

    def extent(self, scope: Scope, extent: Term) -> str:
        self._safe = {}
        return self.bound(extent, Context(scope)).text

    # Statements

    def block(self, body: tuple[Stmt, ...], names: dict[str, Term]) -> list[Line]:
        saved, saved_mutable = dict(self.storage), set(self.mutable)
        lines: list[Line] = []
        for statement in body:
            match statement:
                case Alloc():
                    self.alloc(statement, lines)
                case Assign():
                    lines += self.for_threads(statement, names)
                case For():
                    lines += self.for_loop(statement, names)
                case Barrier():
                    lines.append((0, self.dialect.barrier(units=True) if self.proxies else self.dialect.barrier()))
                case Commit() if self.dialect.asynchronous:
                    lines.append((0, self.dialect.commit()))
                case Wait(keep) if self.dialect.asynchronous:
                    lines.append((0, self.dialect.wait(keep)))
                case Commit() | Wait():
                    pass  # a copy that is done at once is done in time
                case _:
                    raise Unsupported(f"statement {type(statement).__name__}")
        self.storage, self.mutable = saved, saved_mutable
        return lines

    def for_loop(self, loop: For, names: dict[str, Term]) -> list[Line]:
        extent = canonical(substitute(loop.axis.extent, names))
        if loop.kind == "unroll" and isinstance(extent, Const) and isinstance(extent.value, int):
            copies = (self.block(loop.body, {**names, loop.axis.name: Const(k)}) for k in range(extent.value))
            return [line for copy in copies for line in copy]
        scope = Scope()
        bound = self.extent(scope, extent)
        variable = self.names.take(loop.axis.name)
        if isinstance(extent, Const) and isinstance(extent.value, int):
            self.reach[variable] = extent.value
        body = self.block(loop.body, {**names, loop.axis.name: Var(variable)})
        return [*scope.lines, (0, f"{self.dialect.loop(variable, bound)} {{"), *((n + 1, text) for n, text in body), (0, "}")]

    def for_threads(self, statement: Assign, names: dict[str, Term]) -> list[Line]:
        """One thread's part of a statement, in a block of its own."""
        loops = [loop for loop in statement.loops if loop.kind == "thread"]
        extents = [int(loop.axis.extent.value) for loop in loops if isinstance(loop.axis.extent, Const)]
        lines: list[Line] = []
        inside = dict(names)
        rest = self.thread
        for place in range(len(loops) - 1, -1, -1):
            variable, extent = self.names.take(loops[place].axis.name), extents[place]
            self.reach[variable] = extent
            outer, small = prod(extents[:place]), self.dialect.narrow(str(extent))
            lines.append((0, self.dialect.index(variable, f"{rest} % {small}" if outer > 1 else rest)))
            if outer > 1:
                lines.append((0, self.dialect.number(fresh := self.names.take("rest"), f"{rest} / {small}")))
                rest = fresh
            inside[loops[place].axis.name] = Var(variable)
            if place == len(loops) - 1:
                self.lane_variable = variable
        self.lanes = [loop.axis.name for loop in loops]
        own = replace(
            statement, loops=tuple(loop for loop in statement.loops if loop.kind != "thread"),
            index=statement.index[self.owners.get(statement.target, 0) :],
            value=self.slots(statement.value), guard=self.slots(statement.guard), claim=None,
        )  # fmt: skip
        self.waits = not (statement.asynchronous and self.dialect.asynchronous)
        own = self.vectors(own)
        self.copying = self.width > 1 or not self.waits
        if statement.unit and UNITS[statement.unit].shared:
            lines += self.by_rows(own, inside)
        elif statement.unit:
            lines = self.by_unit(own)
        else:
            lines += self.assign(own, inside, frozenset(self.mutable)).lines
        # also where all threads take part: PoCL 3.0 was seen to mix up such a block with a conditional one before it
        return [(0, f"if ({self.thread} < {prod(extents)}) {{"), *((level + 1, text) for level, text in lines), (0, "}")]

    def vectors(self, statement: Assign) -> Assign:
        """A vector is named by its first lane; where the language has none, its elements are moved one by one."""
        lanes = [loop for loop in statement.loops if loop.kind == "lane"]
        self.width = 1
        if not lanes:
            return statement
        own = any(self.owners.get(name) for name in (statement.target, *(r.tensor for r in reads_in_order(statement.value))))
        if self.dialect.vector_bytes == 0 or (own and not self.dialect.own_vectors):
            return replace(statement, loops=tuple(replace(k, kind="unroll") if k in lanes else k for k in statement.loops))
        self.width = prod(int(k.axis.extent.value) for k in lanes if isinstance(k.axis.extent, Const))
        first: dict[str, Term] = {k.axis.name: ZERO for k in lanes}
        value, guard = (canonical(substitute(term, first)) for term in (statement.value, statement.guard))
        index = tuple(canonical(substitute(place, first)) for place in statement.index)
        loops = tuple(loop for loop in statement.loops if loop not in lanes)
        return replace(statement, loops=loops, index=index, value=value, guard=guard)

    def by_unit(self, statement: Assign) -> list[Line]:
        """One multiplication for each fragment of the result; its last two places are the slots of a lane."""
        reads = reads_in_order(statement.value)
        fold = next(f for f in children(statement.value) if isinstance(f, Fold))
        slots = [place.name for place in statement.index[-2:] if isinstance(place, Var)]
        outer = [loop for loop in statement.loops if loop.axis.name not in slots]
        lines: list[Line] = []
        u, _, q = ((axis.name, 2) for axis in fold.axes)
        h, p = ((name, 2) for name in slots)
        for numbers in product(*(range(_extent(loop)) for loop in outer)):
            around: dict[str, Term] = {loop.axis.name: Const(n) for loop, n in zip(outer, numbers, strict=True)}
            operands = zip(reads, ((h, p), (u, h, q), (u, q)), strict=True)
            c, a, b = (self.fragment(read, axes, around) for read, axes in operands)
            lines.append((0, self.dialect.multiply(statement.unit, c, a, b)))
        return lines

    def fragment(self, read: Read, axes: Sequence[tuple[str, int]], around: dict[str, Term]) -> list[str]:
        """The variables of a lane's slots, for all values of the axes (each with its extent), the last one fastest."""
        place = self.storage[read.tensor]
        if not isinstance(place, Variables):
            raise Unsupported(f"{read.tensor}: a unit's fragments are variables")
        found = []
        for numbers in product(*(range(extent) for _, extent in axes)):
            put = {**around, **{name: Const(n) for (name, _), n in zip(axes, numbers, strict=True)}}
            index = tuple(canonical(substitute(i, put)) for i in read.index)
            _, number, _ = self.registers.find(read.tensor, index, None)
            found.append(place.variable(number, self.dialect))
        return found

    def by_rows(self, statement: Assign, names: dict[str, Term]) -> list[Line]:
        """A unit's statement whose operands lie in shared arrays."""
        c, *operands = reads_in_order(statement.value)
        fold = next(f for f in children(statement.value) if isinstance(f, Fold))
        k = fold.axes[0].name
        form = "columns" if operands[1].index[-1] == Var(k) else "rows"
        cells = [place.name for place in statement.index[-4:] if isinstance(place, Var)]
        outer = [loop for loop in statement.loops if loop.axis.name not in cells]
        slots = tuple(zip(cells, (UNITS[statement.unit].columns // ROW, 8, 2, 2), strict=True))
        lines: list[Line] = []
        first: dict[str, Term] = dict.fromkeys((*self.lanes[-3:], *cells, k), ZERO)
        for numbers in product(*(range(_extent(loop)) for loop in outer)):
            around: dict[str, Term] = {loop.axis.name: Const(n) for loop, n in zip(outer, numbers, strict=True)}
            scope = Scope()
            ends = []
            for read in operands:
                memory = self.memory(read.tensor)
                index = tuple(canonical(substitute(i, {**around, **first})) for i in read.index)
                offset = canonical(substitute(memory.offset(index), names))
                ends.append(f"&{memory.variable}[{self.integer(offset, Context(scope))}]")
            found = self.fragment(c, slots, around)
            lines += [*scope.lines, (0, self.dialect.multiply_rows(statement.unit, form, ends[0], ends[1], found))]
        return lines

    def _joint(self, target: str, cells: list[Cell], context: Context) -> None:
        """A copy that goes on by itself names its source; it has no value to compute."""
        if not self.copying:
            super()._joint(target, cells, context)
            return
        place = self._array(target)
        for index, value, _ in cells:
            condition = None
            if isinstance(value, Op) and value.name == "select":
                condition, value = self.value(value.args[0], context).text, value.args[1]
            if not isinstance(value, Read):
                raise Unsupported(f"{target}: only an element of an array is copied asynchronously")
            source = self._array(value.tensor)
            offset, there = self.integer(place.offset(index), context), self.integer(source.offset(value.index), context)
            if place.swizzled:
                offset = self.dialect.swizzle(place.dtype, offset)
            ends = (place.variable, offset, source.variable, there)
            if place.own:
                context.scope.add(self.dialect.move(place.dtype, self.width, *ends, condition, self.waits))
            elif condition is None:
                context.scope.add(self.dialect.put(place.dtype, self.width, *ends))
            else:
                raise Unsupported(f"{target}: a vector of an array is stored where a guard holds, not by a condition")

    def _masked(self, target: str, index: tuple[Term, ...], value: Term, guard: Term, context: Context) -> None:
        if self.copying and guard == TRUE:
            self._joint(target, [(index, value, TRUE)], context)
        else:
            super()._masked(target, index, value, guard, context)

    def _array(self, name: str) -> Memory:
        """What vectors move to or from is no variable."""
        if self.registers.holds(name):
            raise self.registers.give_up(name)
        return self.memory(name)

    def slots(self, term: Term) -> Term:
        """Reads of a thread's own cells without the owner."""
        parts = tuple(self.slots(part) for part in children(term))
        if isinstance(term, Read):
            parts = parts[self.owners.get(term.tensor, 0) :]
        return rebuild(term, parts) if children(term) else term

    # Buffers

    def alloc(self, statement: Alloc, lines: list[Line]) -> None:
        buffer = statement.buffer
        if statement.claim is None:
            self.mutable.add(buffer.name)
        else:
            self.mutable.discard(buffer.name)
        self.owners[buffer.name] = buffer.owners
        shape = buffer.shape[buffer.owners :]
        if buffer.scope == "shared":
            variable = self.names.take(buffer.name)
            self.storage[buffer.name] = Memory(variable, buffer.dtype, shape, own=True, swizzled=buffer.swizzled)
            self.shared.append((variable, buffer.dtype, _count(buffer, shape)))
            self.swizzled |= {variable} if buffer.swizzled else set()
            return
        self.registers.declare(buffer.name)
        if self.registers.holds(buffer.name):
            half = "f16" in self.dialect.types
            cells = Variables(buffer.name, buffer.dtype, self.registers.width[buffer.name], self.names.take, half)
            self.storage[buffer.name] = cells
            lines.append((0, cells.slot))
            return
        variable = self.names.take(buffer.name)
        self.storage[buffer.name] = Memory(variable, buffer.dtype, shape, own=True)
        lines.append((0, self.dialect.private_array(buffer.dtype, variable, _count(buffer, shape))))


def _extent(loop: Loop) -> int:
    extent = loop.axis.extent
    if not isinstance(extent, Const) or loop.kind != "unroll":
        raise Unsupported(f"{loop.axis.name}: the fragments of a unit are copied out")
    return int(extent.value)


def _words(body: Sequence[Stmt]) -> int:
    """Registers of a thread that buffers take where nothing is repeated."""
    total = 0
    for s in body:
        if isinstance(s, For) and s.kind == "grid":
            total += _words(s.body)
        elif isinstance(s, For):
            return 0
        elif isinstance(s, Alloc) and s.buffer.owners:
            total += -(-_count(s.buffer, s.buffer.shape[s.buffer.owners :]) * BYTES[s.buffer.dtype] // 4)
    return total


def _count(buffer: Buffer, shape: tuple[Term, ...]) -> int:
    extents = [canonical(extent) for extent in shape]
    if not all(isinstance(extent, Const) for extent in extents):
        raise Unsupported(f"{buffer.name}: the size of a block's array is a constant")
    return prod(int(extent.value) for extent in extents if isinstance(extent, Const))
