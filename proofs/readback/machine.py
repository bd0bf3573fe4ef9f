"""A symbolic run of all statements of a text that store nothing.

float s = 0.0f;                                   s -> lit 0
for (k < n) { t = x[i * n + k]; s = s + t; }      s -> recurrence(k, 0, n, states (s'), starts (0), steps (s' + read x …))
if (c) t = a; else t = b;                         t -> select(c, a, b)
for (l < 16) if (m[l]) v[l] = f(l);               v -> select(m, f(lane), v)       a vector's lanes are one value
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tang_verified.proofs.readback.nodes import Node, children
from tang_verified.proofs.readback.syntax import (
    Declare,
    Expression,
    If,
    Index,
    Kind,
    Loop,
    Name,
    Set,
    Statement,
    Unreadable,
)
from tang_verified.proofs.readback.text_values import INT, Here, TextValues, Value, Variable


@dataclass
class Machine(TextValues):
    """Runs statements; what they store is the caller's (`match.py`, `stores.py`)."""

    def run(self, body: Sequence[Statement], here: Here) -> None:
        outside, self.block = self.block, self.new_block()
        for statement in body:
            self.step(statement, here)
        self.block = outside

    def new_block(self) -> int:
        self.count += 1
        return self.count

    def step(self, s: Statement, here: Here) -> None:
        match s:
            case Declare():
                node = None
                if s.value is not None:
                    node = self.fitting(s.line, self.adapted(s.value, self.value(s.value, here), s.kind), s.kind)
                self.count += 1
                self.names[s.name] = Variable(s.kind, s.const, here.level, self.count, node, self.block if node else 0)
            case Set(line, Name(_, name), value):
                new, found = self.value(value, here), self.variable(line, name, here)
                if found.unread == self.block:
                    raise Unreadable(line, f"{name} is set twice")
                found.node, found.unread = self.fitting(line, self.adapted(value, new, found.kind), found.kind), self.block
            case Set(line, Index(_, Name(_, name), lane), value) if isinstance(self.names.get(name), Variable):
                found, new = self.variable(line, name, here), self.value(value, here)
                if self.integer(lane, here) is not self.lane(found.kind.width):
                    raise Unreadable(line, "a lane is set that is not the loop's own")
                found.node = self.fitting(line, self.lane_value(line, new, found.kind), found.kind)
            case If():
                self.branch(s, here)
            case Loop():
                self.loop(s, here)
            case _:
                raise Unreadable(s.line, f"a {type(s).__name__.lower()} that the kernel does not have here")

    def lane_value(self, line: int, v: Value, kind: Kind) -> Value:
        """A scalar as one lane of a vector; a mask's lanes are set to 0 or -1."""
        if v.kind.width != 1 or v.inverted != (kind.kind == "bool"):
            raise Unreadable(line, "not one lane's value")
        return Value(v.node, v.kind._replace(width=kind.width))

    def variable(self, line: int, name: str, here: Here) -> Variable:
        found = self.names.get(name)
        if not isinstance(found, Variable) or found.const or found.level != here.level:
            raise Unreadable(line, f"{name} may not be set here")
        return found

    def fitting(self, line: int, v: Value, kind: Kind) -> Node:
        """The value for a variable of that type; float may become double."""
        if v.inverted or v.kind[:2] != kind[:2]:
            if (v.kind.kind, kind.kind) != ("f32", "f64") or v.kind.width != kind.width or v.kind.width != 1:
                raise Unreadable(line, f"a {v.kind.kind}x{v.kind.width} for a variable of type {kind.kind}x{kind.width}")
        return v.node

    def branch(self, s: If, here: Here) -> None:
        condition = self.condition(s.condition, here)
        before = self.values()
        ends: list[dict[str, Node | None]] = []
        for truth, body in ((True, s.yes), (False, s.no or ())):
            facts = here.facts.assume(condition, truth)
            self.restore(before)
            if facts is not None:
                self.run(body, replace(here, facts=facts))
            ends.append(self.values())
        for name in before:
            a, b = ends[0][name], ends[1][name]
            if a is not b:
                lost = self.nodes.make("undefined") if a is None or b is None else None
                if lost is not None and (a or b or lost).tag == "int":
                    lost = self.nodes.atom("undefined")
                merged = self.nodes.make("select", condition, a or lost, b or lost)  # type: ignore[arg-type]
                self.set_node(name, merged)
        self.forget(before)

    def values(self) -> dict[str, Node | None]:
        return {name: v.node for name, v in self.names.items() if isinstance(v, Variable)}

    def restore(self, values: dict[str, Node | None]) -> None:
        for name, node in values.items():
            self.set_node(name, node)

    def set_node(self, name: str, node: Node | None) -> None:
        found = self.names[name]
        if isinstance(found, Variable):
            found.node = node

    def forget(self, before: dict[str, Node | None]) -> None:
        """Leave a block: what it declared is gone."""
        for name in [name for name, v in self.names.items() if isinstance(v, Variable) and name not in before]:
            del self.names[name]

    def over_lanes(self, s: Loop) -> bool:
        """Whether the loop's variable numbers a vector's lanes."""
        return any(
            isinstance(e, Index) and isinstance(e.index, Name) and e.index.text == s.variable and isinstance(e.base, Name)
            and isinstance(v := self.names.get(e.base.text), Variable) and v.kind.width > 1
            for e in expressions(s.body)
        )  # fmt: skip

    def enter(self, s: Loop, here: Here) -> tuple[Node, Node, Node, Here]:
        """The loop's variable (an atom), its bounds, and the place inside."""
        self.lasting(s)
        low, high = self.integer(s.low, here), self.integer(s.high, here)
        self.bounded(s.line, "compare", low, high, here)
        if self.over_lanes(s):
            width = self.nodes.constant(high)
            if self.nodes.constant(low) != 0 or width is None:
                raise Unreadable(s.line, "a loop over lanes with other bounds")
            value, loops, facts = self.lane(width), here.loops, here.facts
            atom = children(value)[0]
        else:
            self.count += 1
            value = self.nodes.atom("var", s.variable, self.count)
            atom = children(value)[0]
            loops, facts = here.loops | {atom}, here.facts.within(atom, low, high)
        self.names[s.variable] = Variable(INT, True, here.level, self.count, value)
        return atom, low, high, replace(here, facts=facts, loops=loops)

    def lasting(self, s: Loop) -> None:
        """Refuse a bound that the body could change: it is asked for before every iteration, and read here once."""
        for e in (*all_of(s.low), *all_of(s.high)):
            found = self.names.get(e.text) if isinstance(e, Name) else None
            if isinstance(e, Name) and not (isinstance(found, Variable) and found.const):
                raise Unreadable(e.line, f"a loop's bound made of {e.text}, which is no constant")

    def loop(self, s: Loop, here: Here) -> None:
        if s.parallel:
            raise Unreadable(s.line, "a parallel loop that the kernel does not have here")
        before = self.values()
        atom, low, high, inside = self.enter(s, here)
        if atom.tag == "lane":
            self.one_by_one(s, set(before))
            self.run(s.body, inside)
            self.forget(before)
            return
        if here.facts.decide(self.nodes.at_most_zero(self.nodes.sub(high, low))) is True:
            return self.forget(before)  # it never runs
        carried = [name for name in before if name in set(assigned(s.body))]
        carried.sort(key=lambda name: self.names[name].order)  # type: ignore[union-attr]
        states: dict[str, Node] = {}
        for name in carried:
            self.count += 1
            variable = self.names[name]
            kind = variable.kind if isinstance(variable, Variable) else INT
            value = self.shared("state", kind, self.count)
            states[name] = children(value)[0] if kind.kind == "i64" else value
            self.set_node(name, value)
        self.run(s.body, inside)
        after, together = self.values(), []
        for name in carried:
            group = self.connected(name, states, after)
            parts = [[table[other] for other in group] for table in (before, after)]
            if any(node is None for part in parts for node in part):
                raise Unreadable(s.line, f"{name} has no value before the loop")
            args = (atom, low, high, tuple(states[g] for g in group), *map(tuple, parts), group.index(name))
            kind = self.names[name].kind  # type: ignore[union-attr]
            value = self.shared("recurrence", kind, *args)  # type: ignore[arg-type]
            together.append(value)
            self.lines[value] = self.lines[children(value)[0] if kind.kind == "i64" else value] = s.line
            self.set_node(name, value)
        self.together[atom] = together
        self.forget(before)

    def one_by_one(self, s: Loop, outside: set[str]) -> None:
        """Refuse a loop over lanes in which one lane could see what another has done: it is read as all lanes at once."""
        own = {name for name in assigned(s.body) if name in outside}
        for e in expressions(s.body):
            if isinstance(e, Index) and isinstance(e.base, Name) and e.base.text in own:
                if not (isinstance(e.index, Name) and e.index.text == s.variable):
                    raise Unreadable(e.line, f"another lane of {e.base.text} in a loop that sets it")
        named = [e.text for e in expressions(s.body) if isinstance(e, Name) and e.text in own]
        by_lane = [e for e in expressions(s.body) if isinstance(e, Index) and isinstance(e.base, Name) and e.base.text in own]
        if len(named) != len(by_lane):
            raise Unreadable(s.line, f"{', '.join(sorted(own))} as a whole in a loop over the lanes")

    def connected(self, name: str, states: dict[str, Node], after: dict[str, Node | None]) -> list[str]:
        """The carried variables that the value of one depends on, itself included, in order of declaration."""
        found = {name}
        while True:
            used = {node for other in found for node in (after[other].free if after[other] else ())}  # type: ignore[union-attr]
            more = found | {other for other, state in states.items() if state in used}
            if more == found:
                return [other for other in states if other in found]
            found = more


def assigned(body: Sequence[Statement]) -> Iterator[str]:
    """Names of variables that the statements set (with what they declare themselves)."""
    for s in body:
        match s:
            case Set(_, Name(_, name), _) | Set(_, Index(_, Name(_, name), _), _):
                yield name
            case If(_, _, yes, no):
                yield from assigned(yes)
                yield from assigned(no or ())
            case Loop():
                yield from assigned(s.body)


def all_of(e: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    yield e
    for name in e.__dataclass_fields__:
        inner = getattr(e, name)
        for part in inner if isinstance(inner, tuple) else (inner,):
            if hasattr(part, "__dataclass_fields__"):
                yield from all_of(part)


def expressions(body: Sequence[Statement]) -> Iterator[Expression]:
    """Every expression in the statements, parts included."""
    for s in body:
        for name in s.__dataclass_fields__:
            inner = getattr(s, name)
            if isinstance(inner, tuple) and inner and isinstance(inner[0], (Declare, Set, If, Loop)):
                yield from expressions(inner)
            elif hasattr(inner, "__dataclass_fields__"):
                yield from all_of(inner)
