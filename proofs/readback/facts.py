"""What is known at a place: ranges of loop variables, inequalities, and conditions that hold or do not.

`decide(c)` is True, False or None (unknown, which is never taken for a yes). An inequality p <= 0 follows from a known
q <= 0 if p - c q <= 0 for some whole c >= 0, whatever the variables with constant bounds are.
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.proofs.readback.nodes import Node, Nodes, children, parts_of


class Facts:
    """Immutable; `assume` and `within` return facts that say more."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.ranges: dict[Node, tuple[int, int | None]] = {}
        self.below: tuple[Node, ...] = ()
        self.known: dict[Node, bool] = {}
        self._decided: dict[Node, bool | None] = {}

    def _more(self) -> Facts:
        fresh = Facts(self.nodes)
        fresh.ranges, fresh.below, fresh.known = dict(self.ranges), self.below, dict(self.known)
        return fresh

    def within(self, variable: Node, low: Node, high: Node) -> Facts:
        """low <= variable < high. `variable` is an atom, bound anew: nothing may be known of it yet."""
        n, fresh = self.nodes, self._more()
        first, end = n.constant(low), n.constant(high)
        value = n.integer({(variable,): 1})
        if first is not None and (end is None or first < end):
            fresh.ranges[variable] = (first, None if end is None else end - 1)
        if first is None or end is None or first >= end:
            fresh.below += (n.sub(low, value), n.add(n.sub(value, high), n.number(1)))
        return fresh

    def without_lanes(self) -> Facts:
        """What does not mention a lane (a fold over lanes inside a vector has lanes of its own)."""
        fresh = self._more()
        fresh.below = tuple(p for p in self.below if not has_lane(p))
        fresh.known = {c: truth for c, truth in self.known.items() if not has_lane(c)}
        return fresh

    def without(self, condition: Node) -> Facts:
        """As if it had not been assumed."""
        fresh = self._more()
        fresh.known.pop(condition, None)
        return fresh

    def of_sizes(self) -> Facts:
        """What sizes and loop variables say, and no data."""
        return self.of_all_threads(frozenset())

    def of_all_threads(self, digits: frozenset[Node]) -> Facts:
        """What other threads know too: neither these digits nor anything that is read decides it."""
        fresh = self._more()
        fresh.below = tuple(p for p in self.below if is_plain(p) and not p.free & digits)
        fresh.known = {c: truth for c, truth in self.known.items() if is_plain(c) and not c.free & digits}
        return fresh

    def assume(self, condition: Node, truth: bool = True) -> Facts | None:
        """With the condition true (or false); None if that cannot be."""
        decided = self.decide(condition)
        if decided is not None:
            return self if decided == truth else None
        n = self.nodes
        if condition.tag == "not":
            return self.assume(parts_of(condition.args)[0], not truth)
        if (condition.tag, truth) in (("and", True), ("or", False)):
            out: Facts | None = self
            for part in children(condition):
                out = out.assume(part, truth) if out is not None else None
            return out
        if condition.tag in ("and", "or"):  # not both: where one holds, the other does not; dually
            for one, other in (children(condition), children(condition)[::-1]):
                if self.decide(one) is (condition.tag == "and"):
                    return self.assume(other, truth)
        fresh = self._more()
        if condition.tag == "le0":
            p = parts_of((condition if truth else n.negation(condition)).args)[0]
            fresh.below += (p,)
        elif condition.tag == "eq0" and truth:
            p = parts_of(condition.args)[0]
            fresh.below += (p, n.sub(n.number(0), p))
        fresh.known[condition] = truth
        return fresh.consistent()

    def consistent(self) -> Facts | None:
        """With what follows for the other part of an "and" or "or" that is known; None if its parts contradict it."""
        for condition, truth in self.known.items():
            if condition.tag in ("and", "or"):
                strong, ends = condition.tag == "or", [self.decide(part) for part in children(condition)]
                if (strong in ends) if truth is not strong else ends == [not strong] * 2:
                    return None
                if truth is strong and strong not in ends and (not strong) in ends:
                    return self.assume(children(condition)[ends.index(None)], strong)
        return self

    def decide(self, condition: Node) -> bool | None:
        if condition not in self._decided:
            self._decided[condition] = self._decide(condition)
        return self._decided[condition]

    def _decide(self, condition: Node) -> bool | None:
        n = self.nodes
        if condition in self.known:
            return self.known[condition]
        match condition.tag:
            case "true" | "false":
                return condition.tag == "true"
            case "not":
                inner = self.decide(parts_of(condition.args)[0])
                return None if inner is None else not inner
            case "and" | "or":
                first, second = (self.decide(part) for part in children(condition))
                strong = condition.tag == "or"
                if first is strong or second is strong:
                    return strong
                if first is second is None and self._against(condition, strong):
                    return strong
                return None if first is None or second is None else not strong
            case "select":
                chosen, a, b = children(condition)
                taken = self.decide(chosen)
                return None if taken is None else self.decide(a if taken else b)
            case "le0":
                p = parts_of(condition.args)[0]
                return True if self.follows(p) else False if self.follows(n.sub(n.number(1), p)) else None
            case "eq0":
                p = parts_of(condition.args)[0]
                q = n.sub(n.number(0), p)
                if self.follows(n.add(p, n.number(1))) or self.follows(n.add(q, n.number(1))):
                    return False
                return True if self.follows(p) and self.follows(q) else None
            case "any":  # true if it holds on the lane at hand, or if another mask that implies it has such a lane
                mask, plain = parts_of(condition.args)[0], self.without_lanes()
                if self.decide(mask) is True:
                    return True
                if plain.of_sizes().decide(mask) is False:  # on every lane
                    return False
                for other, truth in self.known.items():
                    if other.tag == "any" and truth:  # left out of what is known there: its mask may ask for it again
                        there = plain.without(other).assume(parts_of(other.args)[0])
                        if there is None or there.decide(mask) is True:
                            return True
                return None
            case _:
                return None

    def _against(self, condition: Node, truth: bool) -> bool:
        """Whether one part has that truth wherever the other has not: a and not a, a or not a, and what takes a look to see."""
        a, b = children(condition)
        if self.nodes.negation(a) is b:
            return True
        if a.tag not in ("and", "or", "not") and b.tag not in ("and", "or", "not"):
            return False
        there = self.assume(a, not truth)
        return there is None or there.decide(b) is truth

    def follows(self, p: Node) -> bool:
        """p <= 0."""
        if self._most(p):
            return True
        parts = self.nodes.polynomial(p)
        for q in self.below:
            scales = {parts[m] // c for m, c in self.nodes.polynomial(q).items() if m in parts and m and parts[m] % c == 0}
            if any(scale > 0 and self._most(self.nodes.add(p, q, -scale)) for scale in sorted(scales)):
                return True
        return False

    def _most(self, p: Node) -> bool:
        """p <= 0 by the constant bounds alone."""
        most = 0
        for monomial, c in self.nodes.polynomial(p).items():
            if not monomial:
                most += c
                continue
            if len(monomial) > 1 or not (monomial[0] in self.ranges or monomial[0].tag == "lane"):
                return False
            low, high = self.ranges.get(monomial[0]) or (0, int(str(monomial[0].args[0])) - 1)
            if c > 0 and high is None:
                return False
            most += c * low if c < 0 or high is None else c * high
        return most <= 0


PLAIN = ("le0", "eq0", "and", "or", "not", "true", "false", "int", "var", "floordiv", "mod", "max", "min")


def is_plain(node: Node) -> bool:
    """Made of sizes and loop variables alone."""
    return node.tag in PLAIN and all(is_plain(part) for part in children(node))


def has_lane(node: Node) -> bool:
    return any(free.tag == "lane" for free in node.free)


def open_atom(condition: Node, facts: Facts) -> Node | None:
    """The first part of a condition that is not decided and is no connective."""
    return next(_open(condition, facts), None)


def _open(condition: Node, facts: Facts) -> Iterator[Node]:
    if facts.decide(condition) is not None:
        return
    if condition.tag in ("and", "or", "not", "select"):
        for part in children(condition):
            yield from _open(part, facts)
    else:
        yield condition
