"""A GPU text against the kernel: entry points, numbers of blocks and threads, and what threads do together.

    for i < n [grid]: for j < m [grid]:          if (block < n * m) { j = block % m; rest = block / m; i = rest; …
    s[y, x] := …   for y < 8, x < 16 [thread]    if (thread < 128) { x = thread % 16; rest = thread / 16; y = rest; … }
    barrier                                      barrier

The digits are read as they stand, row by row; each becomes an atom with its range, so that a statement is then scalar code
(`stores.py`). A number of a block or thread occurs nowhere else. A thread's own cells have no owner in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from tang_verified.proofs.readback import warpgroup
from tang_verified.proofs.readback.compare import Mismatch, show
from tang_verified.proofs.readback.facts import Facts
from tang_verified.proofs.readback.kernel_values import Env, Place
from tang_verified.proofs.readback.match import Cursor, targets_of
from tang_verified.proofs.readback.nodes import Node, children
from tang_verified.proofs.readback.simt_language import Language, kinds
from tang_verified.proofs.readback.simt_machine import SimtMachine
from tang_verified.proofs.readback.stores import Store, Stores
from tang_verified.proofs.readback.syntax import (
    Array,
    Binary,
    Call,
    Cast,
    Declare,
    Do,
    Entry,
    Expression,
    If,
    Index,
    Kind,
    Module,
    Name,
    Number,
    Set,
    Statement,
    Sync,
    Vector,
)  # fmt: skip
from tang_verified.proofs.readback.text_values import ELEMENTS, INT, Here, Memory, Register, Variable
from tang_verified.semantics import units
from tang_verified.semantics.kernel import Alloc, Assign, Barrier, Buffer, Commit, For, Stmt, Wait, allocations, assignments
from tang_verified.semantics.kernel import Loop as Axis
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import Const, Fold, Op, Read, Term, Var, free_vars, reads

UNITS = {"mma.m16n8k16.f16.f32": "mma_m16n8k16"}  # the helper that has a unit do its work


@dataclass
class Threads(Stores):
    language: Language = field(kw_only=True)
    machine: SimtMachine
    thread: str = ""  # the name of the thread's number
    pending: list[Array] = field(default_factory=list)  # arrays of the block that no buffer has had,
    in_rows: list[Array] = field(default_factory=list)  # and those that a swizzled one will have
    proxies: bool = False  # whether units read what threads write: barriers order that too

    def module(self, text: Module) -> None:
        """Every launch of the kernel is the entry point in its place."""
        machine = self.kernel.machine
        if machine.index_bits != self.language.bits:
            raise Mismatch(1, f"indices of {self.language.bits} bits, the kernel's have {machine.index_bits}")
        scratch, launches = self.launches()
        if len(launches) != len(text.entries):
            raise Mismatch(text.entries[-1].line, f"{len(text.entries)} entry points, the kernel has {len(launches)} launches")
        for number, (entry, body) in enumerate(zip(text.entries, launches, strict=True)):
            name = self.kernel.name if len(launches) == 1 else f"{self.kernel.name}_{number}"
            if entry.name != name and not entry.name.startswith(f"{name}_"):
                raise Mismatch(entry.line, f"the entry point is called {entry.name}, the launch {name}")
            if entry.threads not in (None, machine.threads):
                raise Mismatch(entry.told, f"{entry.threads} threads, the kernel has {machine.threads}")
            self.entry(entry, body, scratch)

    def launches(self) -> tuple[list[Buffer], list[list[Stmt]]]:
        """Buffers that all launches see; then each outermost grid loop, and what stands between two of them."""
        scratch: list[Buffer] = []
        out: list[list[Stmt]] = []
        for s in self.kernel.body:
            if isinstance(s, Alloc) and s.buffer.scope == "global":
                scratch.append(s.buffer)
            elif out and not isinstance(out[-1][0], For) and not (isinstance(s, For) and s.kind == "grid"):
                out[-1].append(s)
            else:
                out.append([s])
        return scratch, out

    def entry(self, entry: Entry, body: list[Stmt], scratch: list[Buffer]) -> None:
        program, n = self.kernel.program, self.machine.nodes
        self.machine.names = {}
        self.proxies = any((unit := units.UNITS.get(s.unit)) and unit.shared for s in assignments(body))
        if len(entry.sizes) != len(program.sizes):
            raise Mismatch(entry.line, f"{len(entry.sizes)} sizes, the program has {len(program.sizes)}")
        here, env = Here(Facts(n)), Env()
        for spelled, size in zip(entry.sizes, program.sizes, strict=True):
            env[size.name] = n.atom("var", size.name, 0)
            facts = here.facts.within(children(env[size.name])[0], n.number(size.low), n.number(size.high + 1))
            here = replace(here, facts=facts)
            self.machine.names[spelled.name] = Variable(INT, True, 0, 0, env[size.name])
        kernel = self.kernel
        tensors = [(t.name, t.name, t.dtype, t.shape, t.name in kernel.outputs)
                   for t in (program.tensor(name) for name in (*kernel.reads, *kernel.outputs))]  # fmt: skip
        tensors += [(b.name, f"{b.name}#", b.dtype, b.shape, True) for b in scratch]
        if len(entry.arrays) != len(tensors):
            raise Mismatch(entry.line, f"{len(entry.arrays)} arrays, the kernel has {len(tensors)}")
        for given, (tensor, key, dtype, shape, written) in zip(entry.arrays, tensors, strict=True):
            if given.element != self.elements[dtype] or given.const is written:
                raise Mismatch(given.line, f"{given.name} stands for {tensor} of type {dtype}{', written' if written else ''}")
            self.values.places[tensor] = Place(key, dtype, tuple(self.values.value(e, env) for e in shape))
            self.machine.names[given.name] = Memory(key, given.element, given.const)
        count = sum(alloc.buffer.swizzled for alloc in allocations(body))
        self.pending, self.in_rows = list(entry.shared[count:]), list(entry.shared[:count])  # those that are swizzled lie first
        cursor = Cursor(entry.body, entry.line)
        self.grid(entry, body, cursor, env, here)
        cursor.finish()
        self.bounded()
        for array in (*self.in_rows, *self.pending):
            raise Mismatch(array.line, f"array {array.name} is no buffer of the kernel")

    def grid(self, entry: Entry, body: Sequence[Stmt], cursor: Cursor, env: Env, here: Here) -> None:
        """if (block < product) { digits; body }"""
        n, nest = self.machine.nodes, list[For]()
        while len(body) == 1 and isinstance(loop := body[0], For) and loop.kind == "grid":
            if free_vars(loop.axis.extent) & {outer.axis.name for outer in nest}:
                break
            nest.append(loop)
            body = loop.body
        extents = [self.values.value(loop.axis.extent, env) for loop in nest]
        total = n.number(1)
        for extent in extents:
            total = n.mul(total, extent)
        s = self.below(entry.block, self.pure(cursor, here), total, here)
        inner, self.thread = Cursor(s.yes, s.line), entry.thread
        env, here, _ = self.digits(entry.block, [loop.axis.name for loop in nest], extents, inner, env, here)
        targets = targets_of(body)
        self.change(targets)
        self.block(body, inner, env, replace(here, level=here.level + 1))
        inner.finish()
        self.change(targets)

    def below(self, name: str, s: Statement, total: Node, here: Here) -> If:
        """if (name < total) { … }"""
        match s:
            case If(line, Binary(_, "<", Name(_, text), bound), _, None) if text == name:
                if (found := self.machine.integer(bound, here)) is not total:
                    raise Mismatch(line, f"{name} < {show(found)}, where the kernel has {show(total)}")
                return s
        raise Mismatch(s.line, f"no test of {name}, where the kernel has {show(total)} of them")

    def digits(
        self, number: str, axes: Sequence[str], extents: Sequence[Node], cursor: Cursor, env: Env, here: Here
    ) -> tuple[Env, Here, frozenset[Node]]:
        """The axes' values as digits of a number, the last axis first: name = number % extent; rest = number / extent; …"""
        n, rest, found = self.machine.nodes, number, frozenset[Node]()
        for place in range(len(axes) - 1, -1, -1):
            s = self.declared(cursor, INT, f"the digit {axes[place]}")
            value = s.value
            if self.language.number == "uint":
                value = value.of if isinstance(value, Cast) and value.kind == INT else None
            if place > 0:
                self.divided(s.line, value, "%", rest, extents[place], here)
            elif not isinstance(value, Name) or value.text != rest:
                raise Mismatch(s.line, f"{s.name} is not the last digit of {number}")
            self.machine.count += 1
            node = n.atom("var", axes[place], self.machine.count)
            atom = children(node)[0]
            found |= {atom}
            env = {**env, axes[place]: node}
            here = replace(here, facts=here.facts.within(atom, n.number(0), extents[place]), loops=here.loops | {atom})
            self.machine.names[s.name] = Variable(INT, True, here.level, self.machine.count, node)
            if place > 0:
                s = self.declared(cursor, kinds(self.language)[self.language.number], "the other digits")
                self.divided(s.line, s.value, "/", rest, extents[place], here)
                rest = s.name
        return env, here, found

    def declared(self, cursor: Cursor, kind: Kind, what: str) -> Declare:
        s = cursor.next
        if not isinstance(s, Declare) or not s.const or s.kind != kind:
            raise Mismatch(s.line if s else cursor.line, f"{what} is expected")
        cursor.place += 1
        return s

    def divided(self, line: int, e: Expression | None, sign: str, number: str, extent: Node, here: Here) -> None:
        match e:
            case Binary(_, operator, Name(_, text), divisor) if (operator, text) == (sign, number):
                if isinstance(divisor, Cast) and divisor.kind == Kind("i32"):
                    divisor = divisor.of
                elif isinstance(divisor, Number) and self.language.number == "uint":
                    divisor = Number(divisor.line, divisor.text.removesuffix("u"))
                if self.machine.integer(divisor, here) is extent:
                    return
        raise Mismatch(line, f"not {number} {sign} {show(extent)}")

    # Statements

    def stores(self, s: Statement) -> bool:
        """A part of the threads is a statement of the kernel, whatever it does."""
        match s:
            case If(_, Binary(_, "<", Name(_, text), _), _, _) if text == self.thread:
                return True
        return super().stores(s)

    def together(self, statement: Stmt, cursor: Cursor, here: Here) -> None:
        match statement:
            case Barrier():
                self.sync(cursor, here, "barrier for units" if self.proxies else "barrier", 0)
            case Commit() if self.language.name == "cuda":
                self.sync(cursor, here, "commit", 0)
            case Wait(keep) if self.language.name == "cuda":
                self.sync(cursor, here, "wait", keep)
            case Commit() | Wait():
                pass  # a copy that is done at once is done in time
            case _:
                raise Mismatch(cursor.line, f"the kernel has a {type(statement).__name__.lower()} here")

    def sync(self, cursor: Cursor, here: Here, what: str, keep: int) -> None:
        s = self.pure(cursor, here)
        if not isinstance(s, Sync) or (s.what, s.keep) != (what, keep):
            raise Mismatch(s.line, f"the kernel has a {what}{f' for all but {keep}' if what == 'wait' else ''} here")
        written = {m.key for m in self.machine.names.values() if isinstance(m, Memory) and not m.const}
        for node, loads in self.machine.loads.items():
            if node.args[0] in written:
                raise Mismatch(loads[0].line, f"{show(node)} is loaded in front of a {what}")
        for key in written:  # the others' stores arrive: what was loaded before is another value
            self.changed(key)

    def assign(self, statement: Assign, cursor: Cursor, env: Env, here: Here) -> None:
        """One thread's part of a statement, in a block of its own."""
        loops = [loop for loop in statement.loops if loop.kind == "thread"]
        extents = [self.values.value(loop.axis.extent, env) for loop in loops]
        counts = [self.machine.nodes.constant(extent) or 0 for extent in extents]
        s = self.below(self.thread, self.pure(cursor, here), self.machine.nodes.number(prod(counts)), here)
        variables, inner = set(self.machine.names), Cursor(s.yes, s.line)
        here = replace(here, level=here.level + 1)
        if statement.unit and statement.unit in UNITS:  # all threads; and its variables have no owner in the text
            self.by_unit(statement, inner, env)
            return inner.finish()
        env, here, digits = self.digits(self.thread, [loop.axis.name for loop in loops], extents, inner, env, here)
        if statement.unit:
            self.by_rows(statement, inner, env, here)
            inner.finish()
            return self.leave(variables)
        self.machine.base, self.machine.digits = here, digits
        self.compare.lane = (env[loops[-1].axis.name], counts[-1]) if loops else None
        self.machine.asynchronous = statement.asynchronous
        rest = tuple(self.own(loop, s.line, statement) for loop in statement.loops if loop.kind != "thread")
        super().assign(replace(statement, loops=rest, asynchronous=False), inner, env, here)  # `effect` knows
        inner.finish()
        self.machine.base, self.machine.digits, self.compare.lane = None, frozenset(), None
        self.leave(variables)

    def own(self, loop: Axis, line: int, statement: Assign) -> Axis:
        """Vectors are elements one by one where the language has none."""
        if loop.kind != "lane":
            return loop
        if sum(other.kind == "lane" for other in statement.loops) > 1:
            raise Mismatch(line, "a vector of several axes")
        names = (statement.target, *(r.tensor for r in reads(statement.value)))
        own = any(self.values.places[name].owners for name in names)
        return loop if self.language.vectors and (self.language.own or not own) else replace(loop, kind="unroll")

    def store(self, s: Statement, here: Here) -> Store:
        machine = self.machine
        match s:
            case Set(line, Name(_, name), value) if isinstance(register := machine.names.get(name), Register):
                element = next((e for e, kind in ELEMENTS.items() if kind == register.kind), "")
                given = machine.value(value, here) if register.kind.kind == "bool" else machine.stored(value, element, here)
                return Store(line, self.key_of(register), machine.nodes.number(0), given, register.kind, None, register)
            case Set(line, Vector(_, target, False, address), value):
                memory, offset, kind = machine.words(line, target, address, here)
                return self.into(line, memory, offset, machine.moved(value, target, kind, here), kind, None)
            case Do(line, Call(_, "__stcg", (Vector(_, target, False, address), value))):
                memory, offset, kind = machine.words(line, target, address, here)
                if "#" in memory.key:
                    raise Mismatch(line, f"__stcg stores to global memory, {self.statement.target} is a buffer")
                return self.into(line, memory, offset, machine.moved(value, target, kind, here), kind, None)
            case Set(line, Index() as target, value):
                memory, offset = machine.element(target, here)
                given = machine.stored(value, memory.element, here)
                return self.into(line, memory, offset, given, ELEMENTS[memory.element], None)
            case Set(_, Name(_, _), _) | Do():
                return super().store(s, here)
        raise Mismatch(s.line, f"the kernel stores {self.statement.target} here")

    # Buffers

    def alloc(self, buffer: Buffer, cursor: Cursor, env: Env, here: Here, rest: Sequence[Stmt]) -> bool:
        self.count += 1
        extents = tuple(self.values.value(e, env) for e in buffer.shape[buffer.owners :])
        key = f"{buffer.name}#{self.count}"
        self.values.places[buffer.name] = Place(key, buffer.dtype, extents, buffer.owners)
        if buffer.scope == "shared":
            arrays = self.in_rows if buffer.swizzled else self.pending
            if not arrays:
                raise Mismatch(cursor.line, f"no array of the block for {buffer.name}")
            array = arrays.pop(0)
            if buffer.swizzled and (array.start < 0 or array.start % 1024):
                raise Mismatch(array.line, f"{array.name} does not begin with a group of eight rows")
        elif self.registers(buffer, key, cursor):
            return False
        else:
            found = self.pure(cursor, here)
            if not isinstance(found, Array):
                raise Mismatch(found.line, f"the kernel has a buffer {buffer.name} of {buffer.dtype} here")
            array = found
        if array.element != self.elements[buffer.dtype]:
            raise Mismatch(array.line, f"{array.name} stands for {buffer.name} of {buffer.dtype}")
        self.fits(array, tuple(self.machine.integer(e, here) for e in array.extents), extents, buffer)
        self.machine.names[array.name] = Memory(key, array.element, swizzled=buffer.swizzled)
        return False

    def register_kind(self, dtype: DType) -> str:
        return "half" if dtype == "float16" and self.language.name == "cuda" else super().register_kind(dtype)

    # Matrix units

    def by_unit(self, statement: Assign, cursor: Cursor, env: Env) -> None:
        """One multiplication for each fragment of the result: the slots of a lane, in the order of `semantics/units.py`."""
        value = statement.value
        if not (isinstance(value, Op) and isinstance(c := value.args[0], Read) and isinstance(fold := value.args[1], Fold)):
            raise Mismatch(cursor.line, "no product of fragments")
        factors = fold.body[0].args if isinstance(fold.body[0], Op) else ()
        a, b = (factor for factor in factors if isinstance(factor, Read))
        h, p = (place.name for place in statement.index[-2:] if isinstance(place, Var))
        u, _, q = (axis.name for axis in fold.axes)
        outer = [loop for loop in statement.loops if loop.kind != "thread" and loop.axis.name not in (h, p)]
        for numbers in product(*(range(_count(loop)) for loop in outer)):
            around = {**env, **{k.axis.name: self.machine.nodes.number(v) for k, v in zip(outer, numbers, strict=True)}}
            s = cursor.next
            if not isinstance(s, Do) or s.call.function not in self.machine.helpers & {UNITS.get(statement.unit)}:
                raise Mismatch(s.line if s else cursor.line, f"the unit {statement.unit} computes {statement.target} here")
            cursor.place += 1
            names = self.slots_of(s.call)
            operands = ((c, (h, p)), (a, (u, h, q)), (b, (u, q)))
            wanted = [cell for read, axes in operands for cell in self.cells_of(read, axes, around)]
            if len(names) != len(wanted):
                raise Mismatch(s.line, f"{len(names)} slots, the unit has {len(wanted)}")
            self.registers_are(s.line, names, wanted)
        self.changed(self.values.places[statement.target].key)

    def by_rows(self, statement: Assign, cursor: Cursor, env: Env, here: Here) -> None:
        """helper(&left[first row], &right[first row], c, …), a call for each fragment of the result."""
        unit = units.UNITS.get(statement.unit)
        value, n = statement.value, self.machine.nodes
        if unit is None or not isinstance(value, Op) or not isinstance(fold := value.args[1], Fold):
            raise Mismatch(cursor.line, "no product of rows")
        factors = [f for f in (fold.body[0].args if isinstance(fold.body[0], Op) else ()) if isinstance(f, Read)]
        c = value.args[0]
        if len(factors) != 2 or not isinstance(c, Read):
            raise Mismatch(cursor.line, "no product of rows")
        k = fold.axes[0].name
        form = "columns" if factors[1].index[-1] == Var(k) else "rows"
        lanes = [loop.axis.name for loop in statement.loops if loop.kind == "thread"][-3:]
        cells = [place.name for place in statement.index[-4:] if isinstance(place, Var)]
        helper = warpgroup.helper(statement.unit, form)
        outer = [loop for loop in statement.loops if loop.kind != "thread" and loop.axis.name not in cells]
        first = dict.fromkeys((*lanes, *cells, k), n.number(0))
        for numbers in product(*(range(_count(loop)) for loop in outer)):
            around = {**env, **{a.axis.name: n.number(v) for a, v in zip(outer, numbers, strict=True)}}
            s = cursor.next
            if not isinstance(s, Do) or s.call.function not in self.machine.helpers & {helper}:
                raise Mismatch(s.line if s else cursor.line, f"{helper} computes {statement.target} here")
            cursor.place += 1
            wanted = self.cells_of(c, tuple(cells), around, (unit.columns // units.ROW, 8, 2, 2))
            if len(s.call.args) != 2 + len(wanted):
                raise Mismatch(s.line, f"{len(s.call.args)} operands, the unit has {2 + len(wanted)}")
            for arg, read in zip(s.call.args, factors, strict=False):
                place = self.values.places[read.tensor]
                begin = self.values.within(place, tuple(self.values.value(i, {**around, **first}) for i in read.index))
                memory, offset = self.machine.rows(arg, here)
                if memory.key != place.key or offset is not begin:
                    raise Mismatch(s.line, f"rows of {memory.key.partition('#')[0]} from {show(offset)} on, the kernel's unit "
                                           f"takes those of {read.tensor} from {show(begin)} on")  # fmt: skip
            names = [arg.text if isinstance(arg, Name) else "" for arg in s.call.args[2:]]
            self.registers_are(s.line, names, wanted)
        self.changed(self.values.places[statement.target].key)

    def registers_are(self, line: int, names: Sequence[str], wanted: Sequence[tuple[str, int | None]]) -> None:
        """The variables of a unit's cells, each its own."""
        for name, (key, offset) in zip(names, wanted, strict=True):
            register = self.machine.names.get(name)
            if not isinstance(register, Register) or register.key != key or offset is None or register.base != offset:
                raise Mismatch(line, f"{name} is not the slot {offset} of {key.partition('#')[0]}")

    def slots_of(self, call: Call) -> list[str]:
        """c0, c1, c2, c3, tv_pair(a0, a1), …"""
        out: list[str] = []
        for place, arg in enumerate(call.args):
            pair = arg.args if isinstance(arg, Call) and arg.function == "tv_pair" and "tv_pair" in self.machine.helpers else ()
            parts = [arg] if place < 4 else list(pair)
            if len(parts) != (1 if place < 4 else 2) or not all(isinstance(part, Name) for part in parts):
                raise Mismatch(call.line, "a unit's operands are variables, halves in pairs")
            out += [part.text for part in parts if isinstance(part, Name)]
        return out

    def cells_of(
        self, read: Read, axes: tuple[str, ...], env: Env, extents: tuple[int, ...] = ()
    ) -> list[tuple[str, int | None]]:  # fmt: skip
        """The cells for all values of the axes (of two each, unless it is said), the last one fastest."""
        n, place = self.machine.nodes, self.values.places[read.tensor]
        out: list[tuple[str, int | None]] = []
        for numbers in product(*map(range, extents or (2,) * len(axes))):
            inner = {**env, **{name: n.number(v) for name, v in zip(axes, numbers, strict=True)}}
            own = tuple(self.values.value(part, inner) for part in read.index[place.owners :])  # of no thread's digit
            out.append((place.key, n.constant(self.values.within(place, own))))
        return out


def _count(loop: Axis) -> int:
    extent: Term = loop.axis.extent
    return int(extent.value) if isinstance(extent, Const) else 0
