"""A fold of the kernel in the text: accumulators, loops, copies with states of their own, lanes joined at the end.

    at(t ⊕ shuffle(t), 0), t = max(r0, r1)      =     max over k < n, u < 2 [unroll], l < 16 [lane]
      lanes: each joining doubles the lanes that lane 0 stands for, until all are there once
      copies: the joined states, one for each u        (only if the monoid is commutative; its laws are proved)
      loops: recurrence(k, 0, n; start, step), start = identity, step = select(guard, combine(state, body), state)

A loop may be cut into consecutive pieces. Which way the text takes is read off the text; each is compared to the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tang_verified.proofs.readback.compare import Compare, Mismatch, Spent, Where, inside, show
from tang_verified.proofs.readback.facts import has_lane, open_atom
from tang_verified.proofs.readback.kernel_values import Env, Opened, closure, mentioned
from tang_verified.proofs.readback.nodes import Node, children
from tang_verified.semantics.terms import TRUE, Axis, Fold, free_vars

Fields = dict[int, Node]


@dataclass
class FoldCompare(Compare):
    visited: set[Node] = dataclasses.field(default_factory=set)  # loops whose unused fields have been looked at
    lane: tuple[Node, int] | None = None  # the last digit of the thread's number, and its extent

    def fold(self, t: Node, k: Node, w: Where) -> None:
        number = k.args[0]
        opened = self.kernel.opened[number if isinstance(number, int) else -1]
        fold, env = opened.fold, opened.env
        if self.if_empty(k, w) is not None:
            return self.nothing(t, opened, w)
        t = self.plain(t, w.facts)
        if t.tag in ("and", "or"):  # a condition that is a fold in some cases
            atom = open_atom(children(t)[0], w.facts)
            if atom is not None:
                return self.split(t, k, w, atom)
        t = self.alone(t)
        if any(self.kernel.kinds.get(axis.name) == "thread" for axis in fold.axes):
            return self.butterfly({fold.component: t}, opened, w)
        lane = fold.axes[-1]
        if t.tag == "at":
            vector, first = t.args
            if not isinstance(vector, Node) or not isinstance(first, int):
                raise self.differ(t, w, "a lane of no vector")
            inner = replace(w, facts=w.facts.without_lanes(), path=self.some_lane(w))
            fields, lanes = self.joined_lanes({fold.component: vector}, first, opened, inner)
            extent = self.nodes.constant(self.kernel.value(lane.extent, env))
            ordered = lanes if not fold.monoid.commutative else sorted(lanes)
            if extent is None or self.kernel.kinds.get(lane.name) != "lane" or ordered != list(range(extent)):
                raise self.differ(t, w, f"lanes {lanes} are joined, where the kernel folds over {extent}")
            spread = {**env, lane.name: self.machine.lane(extent)}
            return self.states(fields, Opened(fold, spread), [axis for axis in fold.axes if axis is not lane], inner)
        return self.states({fold.component: t}, opened, list(fold.axes), w)

    def some_lane(self, w: Where) -> tuple[tuple[Node, bool], ...]:
        """Conditions on the lanes outside, for a fold that has lanes of its own: they hold on some lane."""
        lanes = self.nodes.true
        for condition, truth in w.path:
            if has_lane(condition):
                lanes = self.nodes.make("and", lanes, condition if truth else self.nodes.negation(condition))
        rest = tuple((condition, truth) for condition, truth in w.path if not has_lane(condition))
        return rest if lanes is self.nodes.true else (*rest, (self.nodes.make("any", lanes), True))

    def if_empty(self, k: Node, w: Where) -> Node | None:
        """The identity, if an axis that depends on no other has no values."""
        number, names = k.args[0], set[str]()
        opened = self.kernel.opened[number if isinstance(number, int) else -1]
        for axis in opened.fold.axes:
            if not names & free_vars(axis.extent):
                extent = self.kernel.value(axis.extent, opened.env)
                if self.truth(self.nodes.at_most_zero(extent), w.facts) is True:
                    return self.kernel.identity(opened.fold, opened.env)[opened.fold.component]
            names.add(axis.name)
        if self.excluded(opened.fold, opened.env, opened.fold.axes, w):
            return self.kernel.identity(opened.fold, opened.env)[opened.fold.component]
        return None

    def excluded(self, fold: Fold, env: Env, axes: Sequence[Axis], w: Where) -> bool:
        """Whether an axis has no values, or the guard is false whatever they are."""
        facts, n = w.facts, self.nodes
        for number, axis in enumerate(axes):
            extent, value = self.kernel.value(axis.extent, env), n.atom("var", axis.name, -1 - number)
            if self.truth(n.at_most_zero(extent), facts) is True:
                return True
            env, facts = {**env, axis.name: value}, facts.within(children(value)[0], n.number(0), extent)
        return fold.guard != TRUE and self.truth(self.kernel.value(fold.guard, env), facts) is False

    def nothing(self, t: Node, opened: Opened, w: Where) -> None:
        """The identity; or identities joined, as lanes and copies are."""
        fold, t = opened.fold, self.idle(self.plain(t, w.facts), w)
        identity = self.kernel.identity(fold, opened.env)
        copied = [axis.name for axis in fold.axes if self.kernel.kinds.get(axis.name) == "unroll"]
        for count in {1, len(self.kernel.copies(fold, copied, opened.env))} - {0}:
            state = self.pairs(fold, [identity] * count)
            for _ in range(8):
                if state[fold.component] is t:
                    return
                state = self.kernel.combine(fold, state, state, list(state))
        return self.equal(t, identity[fold.component], w)

    def idle(self, t: Node, w: Where) -> Node:
        """Without loops that change nothing, and lanes of what is the same on all."""

        def new(node: Node) -> Node | None:
            if node.tag in ("at", "shuffle"):
                inner = self.idle(self.plain(children(node)[0], w.facts), w)
                return None if has_lane(inner) else inner
            if node.tag == "recurrence":
                low, high = (part for part in node.args[1:3] if isinstance(part, Node))
                if self.truth(self.nodes.at_most_zero(self.nodes.sub(high, low)), w.facts) is True:
                    return self.idle(_nodes(node, 4)[int(str(node.args[6]))], w)
                steps = [self.alone(self.idle(self.plain(step, w.facts), w)) for step in _nodes(node, 5)]
                place = int(str(node.args[6]))
                return self.idle(_nodes(node, 4)[place], w) if steps == _nodes(node, 3) else None
            return None

        return self.rebuild(t, new)

    # Lanes

    def joined_lanes(self, fields: Fields, first: int, opened: Opened, w: Where) -> tuple[Fields, list[int]]:
        """Take off one joining after the other: v = combine(u, shuffle(u))."""
        fold, lanes = opened.fold, [first]
        while True:
            shuffles = sorted({s for node in fields.values() for s in inside(node, "shuffle")}, key=lambda s: s.number)
            if not shuffles:
                return fields, lanes
            wanted = sorted({number for field in fields for number in mentioned(fold, field)})
            shuffles = shuffles[-len(wanted) :]  # the last joining; those before it are within
            order = shuffles[0].args[1]
            if len(wanted) != len(shuffles) or any(s.args[1] != order for s in shuffles) or not isinstance(order, tuple):
                raise self.differ(shuffles[0], w, "lanes are joined in another way than the kernel's fold")
            right = {number: self.typed(shuffle) for number, shuffle in zip(wanted, shuffles, strict=True)}
            left = {number: children(shuffle)[0] for number, shuffle in zip(wanted, shuffles, strict=True)}
            both = self.kernel.combine(fold, left, right, list(fields))
            self.each(fields, both, replace(w, quiet=True))
            fields = left
            lanes = [lane for start in lanes for lane in (start, int(str(order[start])))]

    # Threads of a subgroup

    def butterfly(self, fields: Fields, opened: Opened, w: Where) -> None:
        """Take off one exchange after the other, the widest first: v = combine(u, what the thread `step` away has of u)."""
        fold, env = opened.fold, opened.env
        spread = [axis for axis in fold.axes if self.kernel.kinds.get(axis.name) == "thread"]
        extent = self.nodes.constant(self.kernel.value(spread[0].extent, env))
        some = next(iter(fields.values()))
        if self.lane is None or len(spread) != 1 or extent != self.lane[1] or not fold.monoid.commutative:
            raise self.differ(some, w, f"threads join what they hold, where the kernel folds over {extent}")
        inner = replace(w, facts=w.facts.of_all_threads(self.lane[0].free))
        step = extent
        while step > 1:
            step, odd = divmod(step, 2)
            found = sorted({e for node in fields.values() for e in inside(node, "exchange")}, key=lambda e: e.number)
            found = [exchange for exchange in found if exchange.args[1] == step]
            wanted = sorted({number for field in fields for number in mentioned(fold, field)})
            if odd or len(wanted) != len(found):
                raise self.differ(some, w, f"no exchange by {step}, where the kernel folds over {extent} threads")
            right = {number: self.typed(exchange) for number, exchange in zip(wanted, found, strict=True)}
            left = {number: children(exchange)[0] for number, exchange in zip(wanted, found, strict=True)}
            both = self.kernel.combine(fold, left, right, list(fields))
            self.each(fields, both, replace(inner, quiet=True))
            fields = left
        here = {**env, spread[0].name: self.lane[0]}
        return self.states(fields, Opened(fold, here), [axis for axis in fold.axes if axis is not spread[0]], inner)

    def typed(self, node: Node) -> Node:
        """As a value: an atom of integers becomes an integer."""
        parts = children(node)
        whole = any(part.tag == "int" for part in parts[:1]) if node.tag in ("shuffle", "exchange") else self.is_integer(node)
        return self.nodes.integer({(node,): 1}) if whole else node

    def is_integer(self, recurrence: Node) -> bool:
        return _nodes(recurrence, 4)[int(str(recurrence.args[6]))].tag == "int"

    # Copies

    def states(self, fields: Fields, opened: Opened, axes: list[Axis], w: Where) -> None:
        """All in one state, or copied axes with states of their own."""
        fold, env = opened.fold, opened.env
        identity = self.kernel.identity(fold, env)
        fields = {field: self.plain(node, w.facts) for field, node in fields.items()}
        for select in [s for node in fields.values() for s in inside(node, "select")]:
            atom = open_atom(children(select)[0], w.facts)
            if atom is not None and atom.tag == "le0" and not has_lane(atom):  # no loop at all in some cases
                for truth in (True, False):
                    facts = self.case(w.facts, atom, truth)
                    if facts is not None:
                        self.in_case(fields, opened, axes, replace(w, facts=facts))
                return None
        copied = [axis.name for axis in axes if self.kernel.kinds.get(axis.name) == "unroll"]
        envs = self.kernel.copies(fold, copied, env)
        found = list({r for node in fields.values() for r in inside(node, "recurrence")})
        found.sort(key=lambda r: _nodes(r, 3)[0].number)
        if len(copied) == len(axes):  # no loop: each state holds one element
            self.bodies(fold, envs, w)
            try:
                return self.each(fields, self.kernel.chain(fold, envs, identity, list(fields)), w)
            except Spent:
                raise
            except Mismatch as problem:
                if len(envs) == 1 or not fold.monoid.commutative:
                    raise
                parts = [self.kernel.chain(fold, [copy], identity, closure(fold, list(fields))) for copy in envs]
                try:
                    return self.each(fields, self.pairs(fold, parts), w)
                except Mismatch:
                    raise problem from None
        needed, rest = closure(fold, list(fields)), [axis for axis in axes if axis.name not in copied]
        size, live = len(needed), [copy for copy in envs if not self.excluded(fold, copy, rest, w)]
        if len(found) == len(envs) * size:
            live = envs
        if len(envs) > 1 and len(found) == len(live) * size and fold.monoid.commutative:
            groups = [dict(zip(needed, found[k : k + size], strict=True)) for k in range(0, len(found), size)]
            typed = iter([{i: self.typed(node) for i, node in group.items()} for group in groups])
            states = [next(typed) if copy in live else identity for copy in envs]
            self.each(fields, self.pairs(fold, states), replace(w, quiet=True))
            for group, copy in zip(groups, live, strict=True):
                for field, node in group.items():
                    self.loops(field, node, fold, copy, rest, identity, w)
            return None
        for field, node in fields.items():
            self.loops(field, node, fold, env, axes, identity, w)
        return None

    def in_case(self, fields: Fields, opened: Opened, axes: list[Axis], w: Where) -> None:
        """`states` where more is known, which may be that there is nothing to fold."""
        fold, names = opened.fold, {axis.name for axis in opened.fold.axes}
        sizes = [self.kernel.value(axis.extent, opened.env) for axis in axes if not free_vars(axis.extent) & names]
        if any(self.truth(self.nodes.at_most_zero(size), w.facts) is True for size in sizes):
            for field, node in fields.items():
                self.nothing(node, Opened(replace(fold, component=field), opened.env), w)
        else:
            self.states(fields, opened, axes, w)

    def each(self, fields: Fields, expected: Fields, w: Where) -> None:
        for field, node in fields.items():
            self.equal(node, expected[field], w)

    def pairs(self, fold: Fold, states: list[Fields]) -> Fields:
        """Neighbours joined, and so on until one is left."""
        while len(states) > 1:
            couples = [states[k : k + 2] for k in range(0, len(states), 2)]
            states = [
                self.kernel.combine(fold, pair[0], pair[1], list(pair[0])) if len(pair) == 2 else pair[0] for pair in couples
            ]
        return states[0]

    # Loops

    def loops(self, field: int, t: Node, fold: Fold, env: Env, axes: list[Axis], start: Fields, w: Where) -> None:
        """t is the field after all elements of the axes, from the state `start`."""
        copied = 0
        while copied < len(axes) and self.kernel.kinds.get(axes[copied].name) == "unroll":
            copied += 1
        envs = self.kernel.copies(fold, [axis.name for axis in axes[:copied]], env)
        envs = [copy for copy in envs if not self.excluded(fold, copy, axes[copied:], w)]
        if copied == len(axes):
            self.bodies(fold, envs, w)
            return self.equal(t, self.kernel.chain(fold, envs, start, [field])[field], w)
        axis, rest = axes[copied], axes[copied + 1 :]
        t = self.alone(self.plain(t, w.facts))
        if t.tag in ("select", "and", "or") and (atom := open_atom(children(t)[0], w.facts)) is not None:
            for truth in (True, False):
                facts = self.case(w.facts, atom, truth)
                if facts is not None:
                    self.loops(field, t, fold, env, axes, start, replace(w, facts=facts))
            return None
        if not envs or self.truth(self.nodes.at_most_zero(self.kernel.value(axis.extent, envs[-1])), w.facts) is True:
            return self.equal(self.idle(t, w), start[field], w)
        seen: set[tuple[int, Node, int, Node]] = set()
        waiting = [(field, t, len(envs), self.kernel.value(axis.extent, envs[-1]))]
        while waiting:  # a field's value after so many copies, the last of them up to `end`
            field, t, count, end = waiting.pop()
            if (field, t, count, end) in seen:
                continue
            seen.add((field, t, count, end))
            if count == 0:
                self.equal(t, start[field], w)
                continue
            low, starts = self.piece(field, t, fold, envs[count - 1], axis, rest, end, w)
            if self.nodes.constant(low) == 0:
                count -= 1
                end = self.kernel.value(axis.extent, envs[count - 1])
            else:
                end = low
            waiting += [(i, node, count, end) for i, node in starts.items()]
        return None

    def bodies(self, fold: Fold, envs: list[Env], w: Where) -> None:
        """Elements are evaluated whatever combine makes of them: their loads are justified before it is looked at."""
        for env in envs:
            inside = w.under(self.kernel.value(fold.guard, env), True)
            for part in fold.body:
                self.visit(self.kernel.value(part, env), inside)

    def piece(
        self, field: int, t: Node, fold: Fold, env: Env, axis: Axis, rest: list[Axis], end: Node, w: Where
    ) -> tuple[Node, Fields]:
        """A loop that ends at `end`: where it begins, and the states that it starts from."""
        t, group, n = self.alone(self.plain(t, w.facts)), closure(fold, [field], "a"), self.nodes
        if t.tag != "recurrence" or len(_nodes(t, 3)) != len(group) or t.args[6] != group.index(field):
            raise self.differ(t, w, "no loop of the kernel's fold")
        counter, low, high = (part for part in t.args[:3] if isinstance(part, Node))
        if self.plain(high, w.facts) is not self.plain(end, w.facts):
            raise self.differ(t, w, f"a loop up to {show(high)}, where the kernel folds up to {show(end)}")
        if self.truth(n.at_most_zero(n.sub(n.number(0), low)), w.facts) is not True:
            raise self.differ(t, w, f"a loop from {show(low)}")
        starts = dict(zip(group, _nodes(t, 4), strict=True))
        states = dict(zip(group, _nodes(t, 3), strict=True))
        states = {i: n.integer({(state,): 1}) if starts[i].tag == "int" else state for i, state in states.items()}
        some = n.at_most_zero(n.add(n.sub(low, high), n.number(1)))
        within = replace(w, facts=w.facts.within(counter, low, high), loops=(*w.loops, (counter, some)))
        inner = {**env, axis.name: n.integer({(counter,): 1})}
        for i, step in zip(group, _nodes(t, 5), strict=True):
            self.loops(i, step, fold, inner, rest, states, within)
        self.unused(t, counter, fold, env, [axis, *rest], group, w)
        return low, starts

    def unused(self, t: Node, counter: Node, fold: Fold, env: Env, axes: list[Axis], group: list[int], w: Where) -> None:
        """Fields that the loop accumulates beside, though nothing uses them: for loads, and integers compared."""
        beside, count = self.machine.together.get(counter, []), len(fold.body)
        place = next((k for k, node in enumerate(beside) if self.alone(node) is t), None)
        asked = self.machine.loads or self.machine.unbounded
        if place is None or len(group) == count or not asked or w.quiet or counter in self.visited:
            return
        self.visited.add(counter)
        start = place - place % count
        for field, node in enumerate(beside[start : start + count]):
            if field not in group:
                try:
                    self.loops(field, node, fold, env, axes, self.kernel.identity(fold, env), w)
                except Spent:
                    raise
                except Mismatch:
                    continue


def _nodes(recurrence: Node, place: int) -> list[Node]:
    part = recurrence.args[place]
    return [node for node in part if isinstance(node, Node)] if isinstance(part, tuple) else []
