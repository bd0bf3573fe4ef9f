"""How large a text's integers may be, by the rules of `proofs/width.py`: an interval for each atom, and for sums of products.

    512 b + l + 2147483647 < m + 2147483647      b <= 4095, l <= 511: beyond 2^31 - 1, where a language has 32 bits

Sums and products are exact modulo 2^bits, in whatever order they are computed. What they are compared with, or divided by, is
not: so there the operands' exact values must fit (`fits`). Data have no interval.
"""

from __future__ import annotations

from tang_verified.proofs.readback.facts import Facts
from tang_verified.proofs.readback.nodes import Node, children
from tang_verified.proofs.width import LIMIT, NARROW, NARROW_SIZE, Span, binary, hull

DEPTH = 6  # bounds that rest on bounds


def fits(node: Node, facts: Facts, bits: int) -> bool:
    """Whether the integer is within the width, as indices are, wherever the facts hold; or nothing is computed: it is held."""
    parts, most, n = facts.nodes.polynomial(node), LIMIT if bits == 64 else NARROW, facts.nodes
    if [(len(monomial), c) for monomial, c in parts.items()] == [(1, 1)] and _held(next(iter(parts))[0], facts, bits):
        return True
    found = span(node, facts, bits)
    if found is not None and -most <= found[0] and found[1] <= most:
        return True
    end = n.number(most)
    return facts.follows(n.sub(node, end)) and facts.follows(n.sub(n.number(-most), node))


def _held(atom: Node, facts: Facts, bits: int) -> bool:
    """A datum, or what a variable accumulates, as it is; or one of two such."""
    if atom.tag in ("at", "shuffle", "exchange", "select"):
        return all(fits(part, facts, bits) for part in children(atom) if part.tag == "int")
    return atom.tag in ("read", "state", "recurrence", "trunc")


def span(node: Node, facts: Facts, bits: int, depth: int = DEPTH) -> Span | None:
    """The least and the largest value, or None."""
    low = high = 0
    for monomial, c in facts.nodes.polynomial(node).items():
        part: Span = (c, c)
        for atom in monomial:
            found = _atom(atom, facts, bits, depth)
            if found is None:
                return None
            part = binary("mul", part, found)
        low, high = low + part[0], high + part[1]
    return low, high


def _atom(atom: Node, facts: Facts, bits: int, depth: int) -> Span | None:
    match atom.tag:
        case "lane":
            return 0, int(str(atom.args[0])) - 1
        case "truth":
            return 0, 1
        case "var":
            return _variable(atom, facts, bits, depth)
    parts = [span(part, facts, bits, depth) for part in children(atom) if part.tag == "int"]
    if None in parts:
        return None
    match atom.tag, [part for part in parts if part is not None]:
        case "floordiv" | "mod" | "max" | "min" as name, [a, b]:
            return binary(name, a, b)
        case "abs", [(low, high)]:
            return 0, max(abs(low), abs(high))
        case "select", [a, b]:
            return hull(a, b)
        case "at" | "shuffle", [a, *_]:
            return a
    return None


def _variable(atom: Node, facts: Facts, bits: int, depth: int) -> Span | None:
    """A size, or a loop's variable, whose end may be known by other variables: c v + r <= 0."""
    low, high = facts.ranges.get(atom, (None, None))
    if bits == 32 and atom.args[1] == 0 and high is not None:
        high = min(high, NARROW_SIZE)  # of a size: checked when the kernel is called
    for p in facts.below if depth and (low is None or high is None) else ():
        parts = facts.nodes.polynomial(p)
        c = parts.pop((atom,), 0)
        if c == 0 or any(atom in monomial for monomial in parts) or (low if c < 0 else high) is not None:
            continue
        rest = span(facts.nodes.integer(parts), facts, bits, depth - 1)
        if rest is not None:
            if c > 0:
                high = -rest[0] // c
            else:
                low = -(-rest[0] // -c)
    return None if low is None or high is None else (low, high)
