"""What a printed text and a kernel are both turned into: values as shared nodes, so that equal values are one object.

    (48 * i + 2) * n - 96 * n  ->  int(48·i·n - 94·n)          an exact polynomial over atoms
    l < -((m - 64 k) // 1)     ->  le0(l + 64 k - m + 1)        p <= 0 over the integers, divided by its content
    1 + exp(x[o])              ->  add(1, exp(read x@2 o))      reals: the operations as they stand, nothing reordered

Integer identities only; nothing about reals is used but -(c) = the constant -c, and rsqrt x = 1 / sqrt x (its meaning).
A node's `free` are the variables, lanes and loop states that it depends on.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import TypeAlias


class Node:
    """A value. Made by `Nodes` only, once for each tag and arguments; compared by identity."""

    __slots__ = ("args", "free", "number", "tag")

    def __init__(self, tag: str, args: tuple[Part, ...], number: int, free: frozenset[Node]) -> None:
        self.tag, self.args, self.number, self.free = tag, args, number, free

    def __repr__(self) -> str:
        return f"{self.tag}{self.args}"


Part: TypeAlias = "Node | str | int | bool | Fraction | tuple[Part, ...]"
Monomial: TypeAlias = tuple[Node, ...]
Polynomial: TypeAlias = dict[Monomial, int]
BOOLS = ("le0", "eq0", "and", "or", "not", "any", "true", "false")
LOCAL = ("var", "lane", "state")  # what a loop, a vector or an accumulator binds


def parts_of(part: Part) -> list[Node]:
    """The nodes directly in an argument."""
    if isinstance(part, tuple):
        return [node for inner in part for node in parts_of(inner)]
    return [part] if isinstance(part, Node) else []


def children(node: Node) -> list[Node]:
    return parts_of(node.args)


class Nodes:
    """The table of all nodes of one comparison."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[Part, ...]], Node] = {}
        self.true, self.false = self._make("true"), self._make("false")

    def _make(self, tag: str, *args: Part) -> Node:
        key = (tag, args)
        found = self._known.get(key)
        if found is None:
            free: frozenset[Node] = frozenset().union(*(child.free for child in parts_of(args)))
            if tag == "recurrence":  # (counter, low, high, states, starts, steps, place): the counter and states are bound
                free -= {*parts_of(args[0]), *parts_of(args[3])}
            elif tag in ("at", "any"):
                free = frozenset(n for n in free if n.tag != "lane")
            found = Node(tag, args, len(self._known), free)
            if tag in LOCAL:
                found.free = frozenset((found,))
            self._known[key] = found
        return found

    def bool(self, value: bool) -> Node:
        return self.true if value else self.false

    # Integers

    def atom(self, tag: str, *args: Part) -> Node:
        """An integer that is no sum or product: a variable, a read, a quotient, …"""
        if tag == "truth" and args[0] in (self.true, self.false):
            return self.number(int(args[0] is self.true))
        return self.integer({(self._make(tag, *args),): 1})

    def integer(self, parts: Polynomial) -> Node:
        listed = sorted(((m, c) for m, c in parts.items() if c), key=lambda part: [a.number for a in part[0]])
        return self._make("int", tuple(listed))

    def number(self, value: int) -> Node:
        return self.integer({(): value})

    def polynomial(self, node: Node) -> Polynomial:
        if node.tag != "int":
            raise TypeError(f"{node.tag} is no integer")
        return dict(node.args[0])  # type: ignore[arg-type]

    def constant(self, node: Node) -> int | None:
        """The value of an integer node that is a constant."""
        parts = self.polynomial(node)
        return parts.get((), 0) if set(parts) <= {()} else None

    def add(self, a: Node, b: Node, scale: int = 1) -> Node:
        out = self.polynomial(a)
        for monomial, c in self.polynomial(b).items():
            out[monomial] = out.get(monomial, 0) + scale * c
        return self.integer(out)

    def sub(self, a: Node, b: Node) -> Node:
        return self.add(a, b, -1)

    def mul(self, a: Node, b: Node) -> Node:
        out: Polynomial = {}
        for f, c in self.polynomial(a).items():
            for g, d in self.polynomial(b).items():
                both = tuple(sorted((*f, *g), key=lambda atom: atom.number))
                out[both] = out.get(both, 0) + c * d
        return self.integer(out)

    def divide(self, tag: str, a: Node, b: Node) -> Node:
        """a // b and a % b; for a constant b > 0:  (b·q + r) // b = q + r // b,  (b·q + r) % b = r % b."""
        d = self.constant(b)
        if d is None or d <= 0:
            return self.atom(tag, a, b)
        whole = self.integer({m: c // d for m, c in self.polynomial(a).items()})
        rest = self.integer({m: c % d for m, c in self.polynomial(a).items()})
        left = self.constant(rest)  # 0 <= left < d
        if tag == "mod":
            return rest if left is not None else self.atom("mod", rest, b)
        return whole if left is not None else self.add(whole, self.atom("floordiv", rest, b))

    # Conditions

    def at_most_zero(self, node: Node) -> Node:
        """p <= 0.   ± (r // d) + e <= 0  is  r + d e < d,  or  d e - r <= 0;   g p + k <= 0  is  p + ceil(k / g) <= 0."""
        parts = self.polynomial(node)
        for monomial, c in sorted(parts.items(), key=lambda part: [-atom.number for atom in part[0]]):  # those around first
            if len(monomial) == 1 and monomial[0].tag == "floordiv" and c in (1, -1):
                r, divisor = (p for p in monomial[0].args if isinstance(p, Node))
                d = self.constant(divisor)
                if d is not None and d > 0:
                    e = self.integer({m: d * k for m, k in parts.items() if m != monomial})
                    return self.at_most_zero(self.sub(self.add(r, e), self.number(d - 1)) if c == 1 else self.sub(e, r))
        k = parts.pop((), 0)
        if not parts:
            return self.bool(k <= 0)
        g = gcd(*parts.values())
        return self._make("le0", self.integer({**{m: c // g for m, c in parts.items()}, (): -(-k // g)}))

    def is_zero(self, node: Node) -> Node:
        parts = self.polynomial(node)
        k = parts.pop((), 0)
        if not parts:
            return self.bool(k == 0)
        g = gcd(*parts.values())
        if k % g:
            return self.false
        first = min(parts, key=lambda monomial: [atom.number for atom in monomial])
        g = g if parts[first] > 0 else -g
        return self._make("eq0", self.integer({**{m: c // g for m, c in parts.items()}, (): k // g}))

    def negation(self, a: Node) -> Node:
        if a in (self.true, self.false):
            return self.bool(a is self.false)
        if a.tag == "not":
            return parts_of(a.args)[0]
        if a.tag == "le0":
            return self.at_most_zero(self.sub(self.number(1), parts_of(a.args)[0]))
        return self._make("not", a)

    # Everything else

    def rounded(self, value: Fraction | str, kind: str) -> Node:
        """A real constant as the machine's nearest number."""
        return self._make("lit", value if isinstance(value, str) else nearest(value, kind))

    def make(self, tag: str, *args: Part) -> Node:
        """An operation on values, or a node of another kind; conditions with constants are folded."""
        nodes = parts_of(args)
        match tag:
            case "and":
                if self.false in nodes or self.true in nodes:
                    return self.false if self.false in nodes else nodes[1] if nodes[0] is self.true else nodes[0]
            case "or":
                if self.false in nodes or self.true in nodes:
                    return self.true if self.true in nodes else nodes[1] if nodes[0] is self.false else nodes[0]
            case "select":
                return self._select(*nodes)
            case "neg" if nodes[0].tag == "lit" and nodes[0].args[0] not in ("nan", Fraction(0)):
                value = nodes[0].args[0]
                if isinstance(value, Fraction):
                    return self._make("lit", -value)
                return self._make("lit", {"inf": "-inf", "-inf": "inf"}[str(value)])
            case "rsqrt":
                return self._make("div", self._make("lit", Fraction(1)), self._make("sqrt", *args))
        return self._make(tag, *args)

    def _select(self, condition: Node, a: Node, b: Node) -> Node:
        if condition in (self.true, self.false) or a is b:
            return b if condition is self.false else a
        if b is self.false:
            return self.make("and", condition, a)
        if a is self.true:
            return self.make("or", condition, b)
        return self.atom("select", condition, a, b) if a.tag == "int" else self._make("select", condition, a, b)


PRECISION = {"f32": (24, -149, 127), "f64": (53, -1074, 1023)}  # digits, exponent of the least number, largest exponent


def nearest(value: Fraction, kind: str) -> Fraction | str:
    """The nearest number of the type, ties to even; infinite from half a unit above the largest on."""
    digits, least, most = PRECISION[kind]
    if value == 0:
        return value
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1  # 2^exponent <= size < 2^(exponent + 1)
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    rounded = round(size / unit) * unit  # Python rounds ties to even
    if rounded >= Fraction(2) ** (most + 1):
        return "inf" if value > 0 else "-inf"
    return rounded if value > 0 else -rounded
