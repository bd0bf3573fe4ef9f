"""One tile assignment: every cell stored once, in order, where the kernel's guard holds, with the kernel's value.

    if (32 * b + 31 < n) {                       cells u = 0, 1 under 32 b + 31 < n: the guard holds on all lanes
      *(f32x16_u *)(y + 32 * b) = …;
      *(f32x16_u *)(y + 32 * b + 16) = …;
    } else {                                     the same cells under its negation, each on the lanes where the guard holds
      store_float32_f32x16_if(y + 32 * b, …, below_m32x16(n - 32 * b));
      …

The sequential axes are loops, outermost and in order (each whole, or as consecutive pieces); copied axes are copied out;
the lane axis is the lanes of vectors. A branch that stores fewer cells than the other must be one where their guards are
false. A test around a loop must hold unless the loop is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tang_verified.proofs.readback.compare import Mismatch, Where, show
from tang_verified.proofs.readback.kernel_values import Env
from tang_verified.proofs.readback.match import Cursor, Matcher
from tang_verified.proofs.readback.nodes import Node, children
from tang_verified.proofs.readback.syntax import (
    Call,
    Cast,
    Do,
    Expression,
    If,
    Index,
    Kind,
    Loop,
    Name,
    Set,
    Statement,
    TypeName,
    Vector,
)
from tang_verified.proofs.readback.text_values import ELEMENTS, Here, Load, Memory, Register, Value
from tang_verified.semantics.build import canonical
from tang_verified.semantics.kernel import Assign
from tang_verified.semantics.kernel import Loop as Axis
from tang_verified.semantics.terms import Const, free_vars, reads, substitute


class Cell(NamedTuple):
    """A copy of the assignment: its environment, its flat offset and its guard."""

    env: Env
    offset: Node
    guard: Node


class Store(NamedTuple):
    line: int
    key: str
    offset: Node
    value: Value
    kind: Kind  # what the place takes
    mask: Node | None
    register: Register | None = None


@dataclass
class Stores(Matcher):
    def assign(self, statement: Assign, cursor: Cursor, env: Env, here: Here) -> None:
        dtypes = [self.values.places[r.tensor].dtype for r in reads(statement.value)]
        dtypes.append(self.values.places[statement.target].dtype)
        self.machine.real = "f64" if "float64" in dtypes else "f32"
        self.values.start(self.machine.real, dict(statement.fold_kinds))
        self.statement = statement
        if statement.asynchronous or statement.unit:
            raise Mismatch(cursor.line, f"this language has nothing that assigns {statement.target} as the kernel does")
        lanes = [loop for loop in statement.loops if loop.kind == "lane" and _width(loop) > 1]
        self.lane = lanes[-1] if lanes else None
        outer = [loop for loop in statement.loops if loop.kind != "unroll" and loop is not self.lane]
        self.axes = [loop for loop in statement.loops if loop.kind == "unroll"]
        self.loops: tuple[tuple[Node, Node], ...] = tuple((v, self.machine.nodes.true) for v in here.loops)
        self.nested(outer, cursor, env, here, top=True)
        for loads in [loads for loads in self.machine.loads.values() if not self.private(loads)]:
            raise Mismatch(loads[0].line, f"the text loads {show(loads[0].node)}, which the kernel does not read there")
        self.machine.loads.clear()
        self.changed(self.values.places[statement.target].key)

    def private(self, loads: list[Load]) -> bool:
        """Loads from within a buffer whose extent is a constant, whatever the variables are: they may run in vain."""
        n = self.machine.nodes
        for load in loads:
            place = next(place for place in self.values.places.values() if place.key == load.node.args[0])
            count, offset = n.number(1), children(load.node)[0]
            for extent in place.extents:
                count = n.mul(count, extent)
            bounds = (n.sub(n.number(0), offset), n.add(n.sub(offset, count), n.number(1)))
            if self.compare.impossible(load.here.facts):
                continue
            if "#" not in place.key or any(load.here.facts.decide(n.at_most_zero(p)) is not True for p in bounds):
                return False
        return True

    # Loops

    def nested(self, loops: list[Axis], cursor: Cursor, env: Env, here: Here, top: bool = False) -> None:
        """The remaining sequential axes, then the cells."""
        if not loops:
            cells = self.cells(env)
            done = self.run(cells, 0, cursor, here, top)
            return self.skip(cells[done:], here, cursor.line)
        n, extent = self.machine.nodes, self.values.value(loops[0].axis.extent, env)
        reached = n.number(0)
        while True:
            s = self.pure(cursor, here)
            if isinstance(s, If) and s.no is None:
                self.tested(s, loops, cursor, env, here)
                break
            if not isinstance(s, Loop) or s.parallel:
                raise Mismatch(s.line, f"the kernel has a loop over {loops[0].axis.name} here")
            high = self.one(s, reached, extent, loops, env, here)
            if high is extent:
                break
            reached = high
        if not top:
            cursor.finish()

    def one(self, s: Loop, low: Node, extent: Node, loops: list[Axis], env: Env, here: Here) -> Node:
        """A loop, or a piece of it that starts where the last one ended; where it ends."""
        n, variables = self.machine.nodes, set(self.machine.names)
        atom, start, high, inside = self.machine.enter(s, here)
        if start is not low or atom.tag == "lane":
            raise Mismatch(s.line, f"a loop from {show(start)}, expected from {show(low)}")
        for a, b in ((low, high), (high, extent)):
            if a is not b and here.facts.decide(n.at_most_zero(n.sub(a, b))) is not True:
                raise Mismatch(s.line, f"a loop up to {show(high)}, where the kernel has {show(extent)}")
        inside = replace(inside, level=inside.level + 1)
        some = n.at_most_zero(n.add(n.sub(low, high), n.number(1)))
        kept, self.loops = self.loops, (*self.loops, (atom, some))
        self.nested(loops[1:], Cursor(s.body, s.line), {**env, loops[0].axis.name: n.integer({(atom,): 1})}, inside)
        self.loops = kept
        self.leave(variables)
        return high

    def tested(self, s: If, loops: list[Axis], cursor: Cursor, env: Env, here: Here) -> None:
        """if (n > 0 && m > 0) { loops }: where it does not hold, one of the loops is empty."""
        n, condition = self.machine.nodes, self.machine.condition(s.condition, here)
        sizes = [loop.axis.extent for loop in loops]
        known = [self.values.value(e, env) for e in sizes if not free_vars(e) & {loop.axis.name for loop in loops}]
        for part in _conjuncts(condition):
            facts = here.facts.assume(part, False)
            if facts is not None and not any(facts.decide(n.at_most_zero(e)) is True for e in known):
                raise Mismatch(s.line, f"{show(part)} is no condition of the kernel's")
        facts = here.facts.assume(condition)
        if facts is not None:
            inner, before = Cursor(s.yes, s.line), self.machine.values()
            self.nested(loops, inner, env, replace(here, facts=facts, level=here.level + 1))
            self.machine.forget(before)

    # Cells

    def cells(self, env: Env) -> list[Cell]:
        """The copies of the assignment, in order."""
        n, out = self.machine.nodes, [env]
        if self.lane is not None:
            out = [{**env, self.lane.axis.name: self.machine.lane(_width(self.lane))}]
        for loop in self.axes:
            count = n.constant(self.values.value(loop.axis.extent, env))
            if count is None:
                raise Mismatch(0, f"axis {loop.axis.name} is copied out, but its extent is no constant")
            out = [{**e, loop.axis.name: n.number(k)} for e in out for k in range(count)]
        place = self.values.places[self.statement.target]
        return [
            Cell(
                e, self.values.offset(place, tuple(self.values.value(part, e) for part in self.statement.index)),
                self.values.value(self.statement.guard, e),
            )
            for e in out
        ]  # fmt: skip

    def skip(self, cells: list[Cell], here: Here, line: int) -> None:
        """These are not stored here: their guards must be false."""
        for cell in cells:
            if self.compare.truth(cell.guard, here.facts) is not False:
                raise Mismatch(line, f"cell {show(cell.offset)} of {self.statement.target} is not stored")

    def run(self, cells: list[Cell], done: int, cursor: Cursor, here: Here, top: bool) -> int:
        """Statements that store cells from number `done` on; how many are stored then. A block is read to its end."""
        while True:
            while done < len(cells) and cells[done].guard is self.machine.nodes.false:
                done += 1
            if done == len(cells) if top else not any(map(self.stores, cursor.body[cursor.place :])):
                break
            s = self.pure(cursor, here)
            if isinstance(s, If):
                done = self.branch(s, cells, done, here)
            elif isinstance(s, Loop):
                done = self.lanes(s, cells, done, here)
            else:
                done = self.one_cell(cells, done, self.store(s, here), here)
        if not top:
            self.machine.run(cursor.body[cursor.place :], here)
        return done

    def branch(self, s: If, cells: list[Cell], done: int, here: Here) -> int:
        condition, before = self.machine.condition(s.condition, here), self.machine.values()
        ends: list[tuple[int, Here]] = []
        for truth, body in ((True, s.yes), (False, s.no or ())):
            facts = here.facts.assume(condition, truth)
            if facts is not None:
                there = replace(here, facts=facts, level=here.level + 1)
                ends.append((self.run(cells, done, Cursor(body, s.line), there, False), there))
                self.machine.forget(before)
        reached = max(end for end, _ in ends)
        for end, there in ends:
            self.skip(cells[end:reached], there, s.line)
        return reached

    def lanes(self, s: Loop, cells: list[Cell], done: int, here: Here) -> int:
        """A loop over the lanes that stores one lane at a time."""
        variables = set(self.machine.names)
        atom, _, _, inside = self.machine.enter(s, here)
        if atom.tag != "lane":
            raise Mismatch(s.line, "the kernel has no loop here")
        self.machine.one_by_one(s, variables)
        body, conditions = s.body, self.machine.nodes.true
        while len(body) == 1 and isinstance(body[0], If) and body[0].no is None:
            conditions = self.machine.nodes.make("and", conditions, self.machine.condition(body[0].condition, inside))
            body = body[0].yes
        facts = inside.facts.assume(conditions)
        if facts is not None:
            self.machine.run(body[:-1], replace(inside, facts=facts))
            store = self.store(body[-1], replace(inside, facts=facts))
            done = self.one_cell(cells, done, store._replace(mask=conditions), inside)
        self.leave(variables)
        return done

    def one_cell(self, cells: list[Cell], done: int, store: Store, here: Here) -> int:
        """The store as the next cell; cells whose guards are false may be left out."""
        while done < len(cells) and self.compare.truth(cells[done].guard, here.facts) is False:
            if store.offset is cells[done].offset and store.register is None:
                break
            done += 1
        if done == len(cells):
            raise Mismatch(store.line, f"{self.statement.target} is stored more often than in the kernel")
        self.cell(cells[done], store, here)
        return done + 1

    def store(self, s: Statement, here: Here) -> Store:
        machine = self.machine
        match s:
            case Set(line, Name(_, name), value) if isinstance(register := machine.names.get(name), Register):
                wide = register.kind.width > 1
                offset = machine.lane(register.kind.width) if wide else machine.nodes.number(0)
                given = self.narrowed(value, register.kind, here)
                return Store(line, self.key_of(register), offset, given, register.kind, None, register)
            case Set(line, Index(_, Name(_, name), lane), value) if isinstance(register := machine.names.get(name), Register):
                kind, number = register.kind._replace(width=1), machine.integer(lane, here)
                given = self.narrowed(value, kind, here)
                at = machine.nodes.constant(number)
                if given.inverted != (kind.kind == "bool") or at is None or not 0 <= at < register.kind.width:
                    raise Mismatch(line, "not one lane's value")
                return Store(line, self.key_of(register), number, Value(given.node, given.kind), kind, None, register)
            case Set(line, Index() as target, value):
                memory, offset = machine.element(target, here)
                kind = ELEMENTS[memory.element]
                return self.into(line, memory, offset, self.as_truth(machine.value(value, here), kind), kind, None)
            case Set(line, Vector(_, kind, _, address), value):
                memory, offset = machine.address(address, here)
                machine.as_it_lies(line, memory, kind)
                place = machine.nodes.add(offset, machine.lane(kind.width))
                return self.into(line, memory, place, machine.value(value, here), kind, None)
            case Do(line, call):
                memory, offset, found, mask = machine.effect(call, here)
                return self.into(line, memory, offset, found, found.kind, mask)
            case _:
                raise Mismatch(s.line, f"the kernel stores {self.statement.target} here")

    def as_truth(self, value: Value, kind: Kind) -> Value:
        """0 and 1, where truths are kept, are what they are kept as."""
        number = self.machine.nodes.constant(value.node) if kind.kind == "bool" and value.kind == Kind("i64") else None
        return value if number not in (0, 1) else Value(self.machine.nodes.bool(number == 1), kind)

    def narrowed(self, value: Expression, kind: Kind, here: Here) -> Value:
        """What a register keeps: a double may be made a float here, and nowhere else."""
        match value:
            case Cast(_, Kind("f32"), of) | Call(_, "__builtin_convertvector", (of, TypeName(_, Kind("f32")))):
                wide = self.machine.value(of, here)
                if wide.kind == Kind("f64", kind.width):
                    return Value(wide.node, kind)
        return self.machine.value(value, here)

    def key_of(self, register: Register) -> str:
        """The buffer whose cells a variable holds: the first that it is set for."""
        key = self.values.places[self.statement.target].key
        return register.key or (key if key in register.buffers else "")

    def into(self, line: int, memory: Memory, offset: Node, value: Value, kind: Kind, mask: Node | None) -> Store:
        if memory.const:
            raise Mismatch(line, "a store into an input")
        return Store(line, memory.key, offset, value, kind, mask)

    def cell(self, cell: Cell, store: Store, here: Here) -> None:
        """One store is one cell of the kernel's: place, lanes, value."""
        n, place = self.machine.nodes, self.values.places[self.statement.target]
        value, kind = store.value, store.kind
        if store.key != place.key:
            other = store.key.partition("#")[0]
            raise Mismatch(store.line, f"a store into {other}, where the kernel has {self.statement.target}")
        narrowed = self.machine.real == "f64" and {value.kind.kind, kind.kind} == {"f32", "f64"}
        if value.inverted or (value.kind[:2] != kind[:2] and not (narrowed and value.kind.width == kind.width == 1)):
            raise Mismatch(store.line, f"a {value.kind.kind}x{value.kind.width} stored as {kind.kind}x{kind.width}")
        known = self.compare.settled(here.facts)
        if known is None:
            return  # it never runs
        where = Where(known, store.line, (), self.loops)
        if store.register is not None:
            self.place_register(cell, store, store.register)
        else:
            self.compare.integers(store.offset, cell.offset, where)
        self.compare.conditions(n.true if store.mask is None else store.mask, cell.guard, where)
        facts = known.assume(cell.guard)
        if facts is None:
            return
        inside = replace(where, facts=facts).under(cell.guard, True)
        self.compare.visit(cell.offset, inside)
        self.compare.equal(value.node, self.values.value(self.statement.value, cell.env), inside)

    def place_register(self, cell: Cell, store: Store, register: Register) -> None:
        """The cells that a variable holds: from its first store on."""
        n = self.machine.nodes
        base = n.constant(n.sub(cell.offset, store.offset))
        if base is None or (register.base is not None and register.base != base):
            raise Mismatch(store.line, f"the variable holds other cells than {show(cell.offset)} of {self.statement.target}")
        for other in self.machine.names.values():
            if isinstance(other, Register) and other is not register and other.key == register.key and other.base is not None:
                if other.base < base + register.kind.width and base < other.base + other.kind.width:
                    raise Mismatch(store.line, "two variables for one cell")
        if register.kind.kind != self.register_kind(self.values.places[self.statement.target].dtype):
            raise Mismatch(store.line, f"{self.statement.target} is kept in {register.kind.kind}")
        register.base, register.key = base, store.key


def _width(loop: Axis) -> int:
    """The extent of a lane axis that can run over lanes: a constant power of two above one."""
    extent = canonical(substitute(loop.axis.extent, {}))
    value = extent.value if isinstance(extent, Const) else 0
    return value if isinstance(value, int) and value > 1 and value & (value - 1) == 0 else 0


def _conjuncts(node: Node) -> list[Node]:
    return [part for child in children(node) for part in _conjuncts(child)] if node.tag == "and" else [node]
