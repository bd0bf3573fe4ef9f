"""The text against the kernel, statement by statement, in order. Names are a witness: the order says what is what.

    for j_t < (m + 127) // 128 [seq]:            for (int64_t j_t = 0; j_t < t4; ++j_t) {
      alloc tile[8, 48] : float32 thread           float tile[384] __attribute__((aligned(64)));
      tile[8 b + u, 16 v + l] := value             …  *(f32x16_u *)(tile + 8 * b * 48 + 16) = t9;

Each loop has the kernel's extent and kind, each array its type and size, and each cell of an assignment is stored once, in
order, where its guard holds and nowhere else (`stores.py`). A read of a buffer names the number of changes before it, so
that a value that is computed too early or too late differs. Every load must be one that the kernel makes there too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tang_verified.proofs.readback.compare import Mismatch, inside, show
from tang_verified.proofs.readback.facts import Facts
from tang_verified.proofs.readback.folds import FoldCompare
from tang_verified.proofs.readback.kernel_values import Env, KernelValues, Place
from tang_verified.proofs.readback.machine import Machine
from tang_verified.proofs.readback.nodes import Node, children
from tang_verified.proofs.readback.syntax import (
    Array,
    Declare,
    Fail,
    Free,
    If,
    Index,
    Kind,
    Loop,
    Name,
    Region,
    Set,
    Statement,
    Text,
)  # fmt: skip
from tang_verified.proofs.readback.text_values import Here, Memory, Operands, Register, Variable
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, For, Kernel, Stmt
from tang_verified.semantics.program import BYTES, DType

PRIVATE_BYTES = 1 << 17
BRANCHES = 20_000
REGISTERS: dict[DType, str] = {"float64": "f64", "int32": "i64", "int64": "i64", "bool": "bool"}


@dataclass
class Cursor:
    """A block of the text, and how far it has been understood."""

    body: Sequence[Statement]
    line: int
    place: int = 0
    registers: tuple[list[str], int] | None = None  # register buffers declared in a row, and where their variables end

    @property
    def next(self) -> Statement | None:
        return self.body[self.place] if self.place < len(self.body) else None

    def finish(self) -> None:
        if self.next is not None:
            raise Mismatch(self.next.line, "the kernel has no such statement here")


@dataclass
class Matcher:
    """Walks kernel and text together. `elements` are the dialect's types of elements, by dtype."""

    kernel: Kernel
    machine: Machine
    elements: dict[str, str]
    values: KernelValues = field(init=False)
    compare: FoldCompare = field(init=False)
    parallel: bool = False
    parallel_line: int = 0  # of the pragma in front of the loops that run at once
    spare: list[tuple[Array, tuple[Node, ...]]] = field(default_factory=list)  # arrays of a worker, not yet a buffer's
    hoisted: dict[Buffer, Memory] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)  # arrays of the text that hold a buffer at present
    count: int = 0
    private_bytes: int = 0  # of arrays for which nobody asks whether there is memory

    def __post_init__(self) -> None:
        self.values = KernelValues(self.machine.nodes, versions=self.machine.versions)
        self.compare = FoldCompare(self.machine, self.values)

    def whole(self, text: Text) -> None:
        """The entry point: sizes, arrays, body."""
        program, n = self.kernel.program, self.machine.nodes
        if len(text.sizes) != len(program.sizes):
            raise Mismatch(text.line, f"{len(text.sizes)} sizes, the program has {len(program.sizes)}")
        here, env = Here(Facts(n)), Env()
        for name, size in zip(text.sizes, program.sizes, strict=True):
            env[size.name] = n.atom("var", size.name, 0)
            facts = here.facts.within(children(env[size.name])[0], n.number(size.low), n.number(size.high + 1))
            here = replace(here, facts=facts)
            self.machine.names[name] = Variable(Kind("i64"), True, 0, 0, env[size.name])
        tensors = [program.tensor(name) for name in dict.fromkeys((*self.kernel.reads, *self.kernel.outputs))]
        if len(text.arrays) != len(tensors):
            raise Mismatch(text.line, f"{len(text.arrays)} arrays, the kernel has {len(tensors)}")
        for given, tensor in zip(text.arrays, tensors, strict=True):
            if given.element != self.elements[tensor.dtype] or given.const is (tensor.name in self.kernel.outputs):
                raise Mismatch(given.line, f"{given.name} stands for {tensor.name} of type {tensor.dtype}")
            extents = tuple(self.values.value(e, env) for e in tensor.shape)
            self.values.places[tensor.name] = Place(tensor.name, tensor.dtype, extents)
            self.machine.names[given.name] = Memory(tensor.name, given.element, given.const)
        cursor = Cursor(text.body, text.line)
        self.block(self.kernel.body, cursor, env, here)
        cursor.finish()
        self.bounded()

    def bounded(self) -> None:
        """What is compared and divided fits into an index, or is the kernel's own: an index whose width is proved, or data."""
        own = self.values.own
        for pair, (line, facts) in self.machine.unbounded.items():
            if pair not in own:
                own = own if own is not self.values.own else self.known_branches()
                if not self.fitting(pair, own, facts):
                    what, a, b = pair
                    why = f"{show(a)} and {show(b)} are {what}d, which may not fit into {self.machine.bits} bits, or be 0"
                    raise Mismatch(line, why)

    def known_branches(self) -> set[Operands]:
        """The kernel's operands, and what they are where it is known which branch is taken."""
        own, waiting = set(self.values.own), list(self.values.own)
        while waiting and len(own) < BRANCHES:
            more = [pair for pair in self.branches(waiting.pop()) if pair not in own]
            own.update(more)
            waiting += more
        return own

    def fitting(self, pair: Operands, own: set[Operands], facts: Facts, depth: int = 6) -> bool:
        """The operands are the kernel's, or fit; or in each of two cases they do (where a lane is masked, it holds 0)."""
        if pair in own or self.machine.within(*pair, facts):
            return True
        found = self.branches(pair) if depth else []
        return bool(found) and all(self.fitting(case, own, facts, depth - 1) for case in found)

    def branches(self, pair: Operands) -> list[Operands]:
        """With a condition that values in them are selected by true, and with it false."""
        what, a, b = pair
        select = next((node for side in (a, b) for node in inside(side, "select")), None)
        if select is None:
            return []
        condition = children(select)[0]

        def branch(truth: bool) -> Callable[[Node], Node | None]:
            place = 1 if truth else 2
            return lambda node: children(node)[place] if node.tag == "select" and children(node)[0] is condition else None

        ends = [branch(True), branch(False)]
        return [(what, self.compare.rebuild(a, end), self.compare.rebuild(b, end)) for end in ends]

    # Statements

    def block(self, body: Sequence[Stmt], cursor: Cursor, env: Env, here: Here) -> None:
        places, live = dict(self.values.places), set(self.live)
        for number, statement in enumerate(body):
            match statement:
                case Assign():
                    self.assign(statement, cursor, env, here)
                case For():
                    self.loop(statement, cursor, env, here)
                case Alloc():
                    if self.alloc(statement.buffer, cursor, env, here, body[number + 1 :]):
                        break
                case _:
                    self.together(statement, cursor, here)
        self.values.places, self.live = places, live

    def assign(self, statement: Assign, cursor: Cursor, env: Env, here: Here) -> None:
        raise NotImplementedError

    def together(self, statement: Stmt, cursor: Cursor, here: Here) -> None:
        """What only the threads of a block do."""
        raise Mismatch(cursor.line, f"this language has no {type(statement).__name__.lower()}")

    def register_kind(self, dtype: DType) -> str:
        """What a variable for a buffer's cell computes in."""
        return REGISTERS.get(dtype, "f32")

    def pure(self, cursor: Cursor, here: Here) -> Statement:
        """Run what stores nothing; the first statement that does something else."""
        while (s := cursor.next) is not None and not self.stores(s):
            self.machine.step(s, here)
            cursor.place += 1
        if s is None:
            raise Mismatch(cursor.line, "the text ends before the kernel does")
        cursor.place += 1
        return s

    def stores(self, s: Statement) -> bool:
        match s:
            case Declare():
                return False
            case Set(_, Name(_, name) | Index(_, Name(_, name), _), _):
                return not isinstance(self.machine.names.get(name), Variable) and not self.declared_inside(name)
            case If(_, _, yes, no):
                return any(map(self.stores, (*yes, *(no or ()))))
            case Loop():
                return bool(s.parallel) or any(map(self.stores, s.body))
            case _:
                return True

    def declared_inside(self, name: str) -> bool:
        """Whether it is no array or register: a variable of a block further in, which is not known yet."""
        return name not in self.machine.names

    def loop(self, statement: For, cursor: Cursor, env: Env, here: Here) -> None:
        n, extent = self.machine.nodes, self.values.value(statement.axis.extent, env)
        if statement.kind == "unroll":
            for k in range(n.constant(extent) or 0):
                self.block(statement.body, cursor, {**env, statement.axis.name: n.number(k)}, here)
            return
        s = self.pure(cursor, here)
        if isinstance(s, Region) and statement.kind == "grid" and not self.parallel:
            return self.region(statement, s, env, here)
        if not isinstance(s, Loop):
            raise Mismatch(s.line, f"the kernel has a loop over {statement.axis.name} here")
        self.nest(statement, s, s.parallel, env, here)

    def nest(self, statement: For, s: Loop, parallel: int, env: Env, here: Here) -> None:
        """A loop of the kernel as a loop of the text; `parallel` loops from here on run at once."""
        if parallel and (statement.kind != "grid" or not self.parallel or s.parallel not in (0, parallel)):
            raise Mismatch(s.line, f"the loop over {statement.axis.name} is not one that may run in parallel")
        extent = self.values.value(statement.axis.extent, env)
        targets = targets_of(statement.body)
        self.change(targets)
        variables = set(self.machine.names)
        atom, low, high, inside = self.machine.enter(s, here)
        if self.machine.nodes.constant(low) != 0 or high is not extent or atom.tag == "lane":
            raise Mismatch(s.line, f"a loop up to {show(high)}, where the kernel has {show(extent)}")
        inside = replace(inside, level=inside.level + 1)
        inner, body = {**env, statement.axis.name: self.machine.nodes.integer({(atom,): 1})}, statement.body
        if parallel > 1:
            if len(s.body) != 1 or not isinstance(s.body[0], Loop) or len(body) != 1 or not isinstance(body[0], For):
                raise Mismatch(self.parallel_line, "loops that run at once must stand directly in each other")
            self.nest(body[0], s.body[0], parallel - 1, inner, inside)
        else:
            cursor = Cursor(s.body, s.line)
            if parallel and self.spare:
                self.ready(body, cursor, inner, inside)
            else:
                self.block(body, cursor, inner, inside)
                cursor.finish()
        self.leave(variables)
        self.change(targets)

    def leave(self, variables: set[str]) -> None:
        for name in set(self.machine.names) - variables:
            del self.machine.names[name]

    def change(self, targets: Sequence[str]) -> None:
        """Other contents from now on: what was read before is another value."""
        for target in targets:
            if target in self.values.places:
                self.changed(self.values.places[target].key)

    def changed(self, key: str) -> None:
        self.machine.versions[key] = self.machine.versions.get(key, 0) + 1

    # Parallel workers and arrays

    def region(self, statement: For, s: Region, env: Env, here: Here) -> None:
        """Arrays of a worker, the parallel loops, the arrays given back."""
        variables, cursor = set(self.machine.names), Cursor(s.body, s.line)
        here = replace(here, level=here.level + 1)
        self.parallel, self.spare, self.hoisted = True, [], {}
        while isinstance(array := self.pure(cursor, here), Array) and array.fallible:
            extents = tuple(self.machine.integer(e, here) for e in array.extents)
            self.spare.append((array, extents))
        if not isinstance(array, Loop) or not array.parallel:
            raise Mismatch(array.line, "a parallel region without its loop")
        taken, self.parallel_line = list(self.spare), array.line - 1
        self.portion(statement, array, env, here)
        self.nest(statement, array, array.parallel, env, here)
        if self.spare:
            raise Mismatch(self.spare[0][0].line, f"array {self.spare[0][0].name} is no buffer of the kernel")
        for array, _ in taken:
            self.free(array, cursor)
        cursor.finish()
        self.parallel, self.hoisted = False, {}
        self.leave(variables)

    def portion(self, statement: For, s: Loop, env: Env, here: Here) -> None:
        """The number of iterations that a share is taken of: the extents of these loops, which are never negative."""
        extents: list[Node] = []
        nest: Stmt = statement
        while isinstance(nest, For) and len(extents) < s.parallel:
            extents.append(self.values.value(nest.axis.extent, env))
            nest = nest.body[0]
        if s.portion and extents != [self.machine.integer(e, here) for e in s.portion]:
            raise Mismatch(self.parallel_line, "a share of other iterations than the loops have")

    def ready(self, body: Sequence[Stmt], cursor: Cursor, env: Env, here: Here) -> None:
        """if (a && b) { body } else failed = 1;   for all of the worker's arrays"""
        s = cursor.next
        names = [array.name for array, _ in self.spare]
        if not isinstance(s, If) or _conjunction(s) != names:
            raise Mismatch(s.line if s else cursor.line, f"no test that there was memory for {', '.join(names)}")
        cursor.place += 1
        self.failing(s)
        inner = Cursor(s.yes, s.line)
        self.block(body, inner, env, here)
        inner.finish()
        cursor.finish()

    def failing(self, s: If) -> None:
        if s.no is None or len(s.no) != 1 or not isinstance(s.no[0], Fail) or s.no[0].atomic is not self.parallel:
            raise Mismatch(s.no[0].line if s.no else s.line, "that there was no memory is not reported")

    def free(self, array: Array, cursor: Cursor) -> None:
        s = cursor.next
        if not isinstance(s, Free) or s.name != array.name:
            raise Mismatch(s.line if s else cursor.line, f"{array.name} is not given back")
        cursor.place += 1

    def alloc(self, buffer: Buffer, cursor: Cursor, env: Env, here: Here, rest: Sequence[Stmt]) -> bool:
        """Find the buffer's array or variables; True if `rest` has been read as well, in the block that tests for memory."""
        self.count += 1
        extents = tuple(self.values.value(e, env) for e in buffer.shape)
        key = f"{buffer.name}#{self.count}"
        self.values.places[buffer.name] = Place(key, buffer.dtype, extents)
        if buffer.scope == "register" and self.registers(buffer, key, cursor):
            return False
        if self.take_spare(buffer, key, extents):
            return False
        s = self.pure(cursor, here)
        if not isinstance(s, Array) or s.element != self.elements[buffer.dtype]:
            raise Mismatch(s.line, f"the kernel has a buffer {buffer.name} of {buffer.dtype} here")
        self.fits(s, tuple(self.machine.integer(e, here) for e in s.extents), extents, buffer)
        self.machine.names[s.name] = Memory(key, s.element)
        if not s.fallible:
            return False
        test = cursor.next
        if not isinstance(test, If) or _conjunction(test) != [s.name]:
            raise Mismatch(s.line, f"no test that there was memory for {s.name}")
        cursor.place += 1
        self.failing(test)
        inner = Cursor(test.yes, test.line)
        self.block(rest, inner, env, here)
        inner.finish()
        self.free(s, cursor)
        return True

    def fits(self, s: Array, found: tuple[Node, ...], extents: tuple[Node, ...], buffer: Buffer) -> None:
        n = self.machine.nodes
        have, want = n.number(1), n.number(1)
        for e in found:
            have = n.mul(have, e)
        for e in extents:
            want = n.mul(want, e)
        if not s.fallible and n.constant(want) == 0:
            want = n.number(1)
        if not s.fallible and buffer.scope != "shared":
            self.private_bytes += (n.constant(want) or PRIVATE_BYTES + 1) * BYTES[buffer.dtype]
        if self.private_bytes > PRIVATE_BYTES:
            raise Mismatch(s.line, f"{s.name} may be too large for the stack: it needs a test that there is memory")
        if have is not want:
            raise Mismatch(s.line, f"{s.name} has {show(have)} elements, the kernel's {buffer.name} has {show(want)}")

    def take_spare(self, buffer: Buffer, key: str, extents: tuple[Node, ...]) -> bool:
        """An array of the worker: the one that this buffer had before, or the next that no buffer has had."""
        if buffer in self.hoisted:
            known = self.hoisted[buffer]
            name = next(name for name, v in self.machine.names.items() if v is known)
            if name in self.live:
                raise Mismatch(0, f"{name} holds {buffer.name} twice at a time")
        elif self.spare and self.spare[0][0].element == self.elements[buffer.dtype] and buffer.scope != "register":
            array, found = self.spare[0]
            try:
                self.fits(array, found, extents, buffer)
            except Mismatch:
                return False
            self.spare.pop(0)
            name = array.name
        else:
            return False
        self.hoisted[buffer] = Memory(key, self.elements[buffer.dtype])
        self.machine.names[name] = self.hoisted[buffer]
        self.live.add(name)
        return True

    def registers(self, buffer: Buffer, key: str, cursor: Cursor) -> bool:
        """Variables without a value, for cells that are known when they are set; False where there is an array instead."""
        if isinstance(cursor.next, Array) and _stem(cursor.next.name) == _stem(buffer.name):
            return False
        if cursor.registers is None or cursor.registers[1] != cursor.place:
            cursor.registers = ([], cursor.place)
        buffers = cursor.registers[0]
        buffers.append(key)
        while isinstance(s := cursor.next, Declare) and s.value is None:
            following = cursor.body[cursor.place + 1] if cursor.place + 1 < len(cursor.body) else None
            if isinstance(following, If) and s.name in _set_at_once(following):
                break  # a value that depends on a condition, not a cell
            self.machine.names[s.name] = Register(s.kind, buffers)
            cursor.place += 1
        cursor.registers = (buffers, cursor.place)
        return True


def _stem(name: str) -> str:
    return re.sub("[^A-Za-z]", "", name)


def _conjunction(s: If) -> list[str]:
    """a && b && c as names."""
    out: list[str] = []
    e = s.condition
    while not isinstance(e, Name):
        if getattr(e, "sign", "") != "&&" or not isinstance(e.right, Name):  # type: ignore[union-attr]
            return []
        out.insert(0, e.right.text)  # type: ignore[union-attr]
        e = e.left  # type: ignore[union-attr]
    return [e.text, *out]


def _set_at_once(s: If) -> set[str]:
    """Names that both branches set directly."""
    both = [{t.target.text for t in body if isinstance(t, Set) and isinstance(t.target, Name)} for body in (s.yes, s.no or ())]
    return both[0] & both[1]


def targets_of(body: Sequence[Stmt]) -> list[str]:
    """What the statements assign."""
    out: dict[str, None] = {}
    for s in body:
        if isinstance(s, Assign):
            out[s.target] = None
        elif isinstance(s, For):
            out.update(dict.fromkeys(targets_of(s.body)))
    return list(out)
