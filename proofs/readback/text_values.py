"""What the expressions of a text compute, as nodes.

    float t = x[i * n + k] * 0.5f;        t -> mul(read x (i·n + k), lit 1/2)         the literal rounded as its suffix says
    f32x16 v = load_…_if(x + o, m);       v -> select(m, read x (o + lane), 0)        a vector's lanes are one value

Types are checked as they are declared: no conversion is tacit but float -> double. Each load is remembered with what is
known where it runs, so that `compare.py` can show that the kernel reads that element too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from tang_verified.proofs.readback.facts import Facts
from tang_verified.proofs.readback.nodes import Node, Nodes, children
from tang_verified.proofs.readback.spans import fits, span
from tang_verified.proofs.readback.syntax import (
    Binary,
    Call,
    Cast,
    Choice,
    Expression,
    Index,
    Kind,
    Lanes,
    Name,
    Number,
    Unary,
    Unreadable,
    Vector,
)  # fmt: skip

ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
COMPARISONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne"}
ELEMENTS = {  # element type in memory -> type of its value
    "float": Kind("f32"), "double": Kind("f64"), "int32_t": Kind("i64"), "int64_t": Kind("i64"), "uint8_t": Kind("bool"),
    "uint16_t": Kind("half"),
}  # fmt: skip
WHOLE = {"f32": "float", "f64": "double", "i64": "int64_t"}  # a vector's lanes -> elements that have the same bits
RAW = {"uint8_t": Kind("u8"), "uint16_t": Kind("half")}  # elements that are no values before they are converted
INT = Kind("i64")
BOOL = Kind("bool")


Operands: TypeAlias = tuple[str, Node, Node]  # of "compare", or "divide"


class Value(NamedTuple):
    """`inverted`: a condition as the number 0 or -1, as the elements of masks are. `narrow`: an integer of 32 bits, as
    literals and elements of int32 arrays are, until it meets one of 64 or is converted."""

    node: Node
    kind: Kind
    inverted: bool = False
    narrow: bool = False


@dataclass
class Variable:
    kind: Kind
    const: bool
    level: int  # how many storing loops and branches stand around its declaration
    order: int
    node: Node | None
    unread: int = 0  # the block that set it, until it is read


@dataclass(frozen=True)
class Memory:
    """An array in the text: what it holds in the kernel, and the type of its elements."""

    key: str
    element: str
    const: bool = False
    swizzled: bool = False


@dataclass
class Register:
    """A variable that holds cells base, base + 1, … of a register buffer, one of `buffers`: which is known when it is set."""

    kind: Kind
    buffers: list[str]
    key: str = ""
    base: int | None = None


@dataclass(frozen=True)
class Here:
    """Where a statement stands: what holds, and which loops run around it."""

    facts: Facts
    loops: frozenset[Node] = frozenset()
    level: int = 0


@dataclass(frozen=True)
class Load:
    node: Node
    here: Here
    line: int


@dataclass
class TextValues:
    """Evaluates expressions; a dialect overrides `call`."""

    nodes: Nodes
    names: dict[str, Variable | Memory | Register] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    loads: dict[Node, list[Load]] = field(default_factory=dict)
    real: str = "f32"  # what the statement at hand computes in
    count: int = 0
    block: int = -1
    together: dict[Node, list[Node]] = field(default_factory=dict)  # by loop: what it accumulates
    lines: dict[Node, int] = field(default_factory=dict)  # where a value was computed last
    bits: int = 64  # of an index
    unbounded: dict[Operands, tuple[int, Facts]] = field(default_factory=dict)  # integers that may not fit; where

    # Expressions

    def value(self, e: Expression, here: Here) -> Value:
        found = self.evaluate(e, here)
        if not isinstance(e, Name):
            self.lines[found.node] = e.line
        return found

    def evaluate(self, e: Expression, here: Here) -> Value:
        match e:
            case Number():
                return self.literal(e)
            case Name():
                return self.read_name(e)
            case Index():
                return self.index(e, here)
            case Vector():
                place = self.address(e.address, here)
                self.as_it_lies(e.line, place[0], e.kind)
                return self.load(e.line, place, Kind(e.kind.kind, e.kind.width), here)
            case Unary(line, sign, of):
                return self.sign(line, sign, self.value(of, here))
            case Binary():
                return self.binary(e, here)
            case Choice(line, condition, yes, no):
                c, a, b = self.condition(condition, here), self.value(yes, here), self.value(no, here)
                a, b = self.adapted(yes, a, b.kind), self.adapted(no, b, a.kind)
                self.same(line, a, b)
                return Value(self.nodes.make("select", c, a.node, b.node), a.kind, narrow=a.narrow and b.narrow)
            case Cast(line, kind, _) if kind.width > 1:
                raise Unreadable(line, "a vector's bits taken for another type's")
            case Cast(line, kind, of):
                return self.convert(line, self.value(of, here), kind)
            case Lanes(line, kind, values):
                numbers = [self.nodes.number(lane) for lane in range(kind.width)]
                if kind.kind != "i64" or [self.value(v, here).node for v in values] != numbers:
                    raise Unreadable(line, "a vector that is not 0, 1, 2, …")
                return Value(self.lane(kind.width), kind)
            case Call():
                return self.call(e, here)
            case _:
                raise Unreadable(e.line, f"a {type(e).__name__} where a value is expected")

    def call(self, e: Call, here: Here) -> Value:
        raise NotImplementedError

    def effect(self, e: Call, here: Here) -> tuple[Memory, Node, Value, Node | None]:
        """A call that stores: where, from which offset at lane l, what, and on which lanes."""
        raise NotImplementedError

    def count_args(self, e: Call, count: int) -> None:
        if len(e.args) != count:
            raise Unreadable(e.line, f"{e.function} with {len(e.args)} arguments")

    def values_of(self, e: Call, count: int, here: Here) -> list[Value]:
        self.count_args(e, count)
        return [self.value(arg, here) for arg in e.args]

    def literal(self, e: Number) -> Value:
        text = e.text.removesuffix("f")
        if text.isdigit() and text == e.text:
            if int(text) >= 2**63:
                raise Unreadable(e.line, f"{text} does not fit into 64 bits")
            return Value(self.nodes.number(int(text)), INT, narrow=int(text) < 2**31)
        kind = "f64" if text == e.text else "f32"
        return Value(self.nodes.rounded(Fraction(text), kind), Kind(kind))

    def read_name(self, e: Name) -> Value:
        found = self.names.get(e.text)
        if isinstance(found, Register):
            if found.base is None:
                raise Unreadable(e.line, f"{e.text} is read before it is set")
            return Value(self.cell(found, self.lane_offset(found)), found.kind)
        if not isinstance(found, Variable) or found.node is None:
            raise Unreadable(e.line, f"{e.text} has no value here")
        found.unread = 0
        return Value(found.node, found.kind)

    def lane_offset(self, register: Register) -> Node:
        base = self.nodes.number(register.base or 0)
        return base if register.kind.width == 1 else self.nodes.add(base, self.lane(register.kind.width))

    def cell(self, place: Memory | Register, offset: Node) -> Node:
        kind = place.kind if isinstance(place, Register) else ELEMENTS[place.element]
        return read_of(self.nodes, place.key, self.versions.get(place.key, 0), offset, kind.kind)

    def lane(self, width: int) -> Node:
        return self.nodes.atom("lane", width)

    def index(self, e: Index, here: Here) -> Value:
        base = self.names.get(e.base.text) if isinstance(e.base, Name) else None
        if isinstance(base, Memory):
            loaded = self.load(e.line, self.element(e, here), ELEMENTS[base.element], here)
            return loaded._replace(kind=RAW.get(base.element, loaded.kind), narrow=base.element == "int32_t")
        vector, lane = self.value(e.base, here), self.integer(e.index, here)
        if vector.kind.width == 1:
            raise Unreadable(e.line, "an index into a scalar")
        return Value(self.at(e.line, vector, lane), vector.kind._replace(width=1), vector.kind.kind == "bool")

    def at(self, line: int, vector: Value, lane: Node) -> Node:
        """One lane of a vector: a number, or the loop variable that runs over the lanes."""
        if lane is self.lane(vector.kind.width):
            return vector.node
        number = self.nodes.constant(lane)
        if number is None or not 0 <= number < vector.kind.width:
            raise Unreadable(line, "a lane that is neither a number nor a loop over the lanes")
        node = vector.node
        if not any(free.tag == "lane" for free in node.free):
            return node
        if node.tag in ("read", "flag") or (vector.kind.kind == "i64" and self.is_read(node)):  # a register's lane
            return self.replace_lane(node, number)
        return self.shared("at", vector.kind, node, number)

    def is_read(self, node: Node) -> bool:
        parts = self.nodes.polynomial(node)
        return [len(m) == 1 and m[0].tag == "read" and c == 1 for m, c in parts.items()] == [True]

    def replace_lane(self, node: Node, number: int) -> Node:
        read = node if node.tag != "int" else next(iter(self.nodes.polynomial(node)))[0]
        key, version, offset = read.args
        parts = self.nodes.polynomial(offset)  # type: ignore[arg-type]
        moved = self.nodes.number(0)
        for monomial, c in parts.items():
            lane = [atom.tag for atom in monomial] == ["lane"]
            moved = self.nodes.add(moved, self.nodes.number(number) if lane else self.nodes.integer({monomial: 1}), c)
        make = self.nodes.atom if node.tag == "int" else self.nodes.make
        return make(read.tag, key, version, moved)

    def shared(self, tag: str, kind: Kind, *args: Node | int | tuple[int, ...]) -> Node:
        return self.nodes.atom(tag, *args) if kind.kind == "i64" else self.nodes.make(tag, *args)

    def sign(self, line: int, sign: str, v: Value) -> Value:
        n = self.nodes
        if sign == "-" and (v.inverted or v.kind == BOOL):
            return Value(v.node, v.kind, not v.inverted)
        if v.inverted or (v.kind.kind == "bool") != (sign in "!~") or (sign != "-" and (sign == "!") != (v.kind.width == 1)):
            raise Unreadable(line, f"{sign} of a {v.kind.kind}")
        if sign == "-":
            negative = n.sub(n.number(0), v.node) if v.kind.kind == "i64" else self.operation(line, "neg", v.kind, v.node)
            return v._replace(node=self.in_int(line, negative) if v.narrow else negative)
        return v._replace(node=n.negation(v.node))

    def binary(self, e: Binary, here: Here) -> Value:
        a, b = self.value(e.left, here), self.value(e.right, here)
        n, line, sign = self.nodes, e.line, e.sign
        a, b = self.adapted(e.left, a, b.kind), self.adapted(e.right, b, a.kind)
        if a.kind == RAW["uint8_t"] and b.kind == INT and sign == "!=" and n.constant(b.node) == 0:  # a bool in memory
            return Value(a.node, BOOL)
        self.same(line, a, b)
        kind, one = a.kind, a.kind.width == 1
        if sign in ("&&", "||", "&", "|"):
            if kind.kind != "bool" or (len(sign) == 2) != one or a.inverted or b.inverted:
                raise Unreadable(line, f"{sign} of {kind.kind}")
            return Value(n.make("and" if "&" in sign else "or", a.node, b.node), kind)
        if a.inverted or kind.kind == "bool" or kind.kind not in ("f32", "f64", "i64"):
            raise Unreadable(line, f"{sign} of {kind.kind}")
        if sign in ARITHMETIC:
            result = self.arithmetic(line, ARITHMETIC[sign], kind, a.node, b.node)
            narrow = a.narrow and b.narrow
            return Value(self.in_int(line, result) if narrow else result, kind, narrow=narrow)
        left, right = (b.node, a.node) if sign[0] == ">" else (a.node, b.node)
        name = COMPARISONS[sign.replace(">", "<")]
        if kind.kind == "i64":
            self.bounded(line, "compare", left, right, here)
        mask = Kind("bool", kind.width, 64 if kind.kind[1:] == "64" else 32)
        return Value(self.comparison(line, name, kind, left, right), mask)

    def arithmetic(self, line: int, name: str, kind: Kind, a: Node, b: Node) -> Node:
        if kind.kind != "i64":
            return self.operation(line, name, kind, a, b)
        if name == "div":
            raise Unreadable(line, "/ of integers")
        return {"add": self.nodes.add, "sub": self.nodes.sub, "mul": self.nodes.mul}[name](a, b)

    def in_int(self, line: int, node: Node) -> Node:
        """What is computed of integers of 32 bits: a constant that they hold; of anything else nothing is known."""
        number = self.nodes.constant(node)
        if number is None or not -(2**31) <= number < 2**31:
            raise Unreadable(line, "computed in 32 bits, which need not hold it: convert an operand first")
        return node

    def bounded(self, line: int, what: str, a: Node, b: Node, here: Here) -> None:
        """A comparison or a division of integers that fit; else it must be the kernel's own: asked for later."""
        if not self.within(what, a, b, here.facts):
            self.unbounded.setdefault((what, a, b), (line, here.facts))

    def within(self, what: str, a: Node, b: Node, facts: Facts) -> bool:
        ends = span(b, facts, self.bits) if what == "divide" else (1, 1)
        nonzero = ends is not None and not ends[0] <= 0 <= ends[1]
        return nonzero and all(fits(node, facts, self.bits) for node in (a, b))

    def comparison(self, line: int, name: str, kind: Kind, a: Node, b: Node) -> Node:
        if kind.kind != "i64":
            return self.operation(line, name, kind, a, b)
        return compare_integers(self.nodes, name, a, b)

    def operation(self, line: int, name: str, kind: Kind, *args: Node) -> Node:
        """An operation on reals, in the precision of the statement."""
        if kind.kind != self.real:
            raise Unreadable(line, f"computed in {kind.kind}, where the kernel computes in {self.real}")
        return self.nodes.make(name, *args)

    def adapted(self, e: Expression, v: Value, want: Kind) -> Value:
        """A whole number that is spelled where a condition or a real is expected."""
        number = self.nodes.constant(v.node) if v.kind == INT and isinstance(e, Number) else None
        if number in (0, 1) and want == BOOL:
            return Value(self.nodes.bool(number == 1), BOOL)
        if number is not None and want in (Kind("f32"), Kind("f64")):
            return Value(self.nodes.rounded(Fraction(number), want.kind), want)
        return v

    def same(self, line: int, a: Value, b: Value) -> None:
        if a.kind[:2] != b.kind[:2] or a.inverted != b.inverted:
            raise Unreadable(line, f"{a.kind.kind}x{a.kind.width} meets {b.kind.kind}x{b.kind.width}")

    def convert(self, line: int, v: Value, want: Kind) -> Value:
        """Conversions that are spelled out. A mask's lanes become 0 or -1."""
        have, n = v.kind, self.nodes
        if have.width != want.width or v.inverted:
            raise Unreadable(line, "a conversion between vectors of different length")
        names = (have.kind, want.kind)
        if names == ("f32", "f64") or have.kind == want.kind:
            return Value(v.node, want)
        if names[0] == "i64" and want.kind in ("f32", "f64"):
            return Value(self.operation(line, "real", want, v.node), want)
        if names[0] == "bool" and want.kind in ("i64", "f32", "f64"):
            number = n.atom("truth", v.node)
            return Value(number if want.kind == "i64" else self.operation(line, "real", want, number), want, want.width > 1)
        if want == INT._replace(width=have.width) and have.kind in ("f32", "f64"):
            return Value(n.atom("trunc", v.node), want)
        raise Unreadable(line, f"a conversion from {have.kind} to {want.kind}")

    def integer(self, e: Expression, here: Here) -> Node:
        v = self.value(e, here)
        if v.kind != INT:
            raise Unreadable(e.line, f"a {v.kind.kind} where an integer is expected")
        return v.node

    def condition(self, e: Expression, here: Here) -> Node:
        v = self.adapted(e, self.value(e, here), BOOL)
        if v.kind[:2] != ("bool", 1) or (v.inverted and not isinstance(e, Index)):
            raise Unreadable(e.line, "not a condition")
        return v.node

    # Memory

    def address(self, e: Expression, here: Here) -> tuple[Memory, Node]:
        """array + offset + …: a pointer. What an array holds is none, so no [ ] occurs."""
        match e:
            case Name(line, text):
                found = self.names.get(text)
                if not isinstance(found, Memory):
                    raise Unreadable(line, f"{text} is no array here")
                return found, self.nodes.number(0)
            case Binary(_, "+", left, right):
                memory, offset = self.address(left, here)
                return memory, self.nodes.add(offset, self.integer(right, here))
            case _:
                raise Unreadable(e.line, "not an address")

    def element(self, e: Expression, here: Here) -> tuple[Memory, Node]:
        """address[offset]"""
        if not isinstance(e, Index):
            raise Unreadable(e.line, "not an element")
        memory, offset = self.address(e.base, here)
        if memory.swizzled:
            return self.swizzled(e, memory, offset, here)
        return memory, self.nodes.add(offset, self.integer(e.index, here))

    def swizzled(self, e: Index, memory: Memory, offset: Node, here: Here) -> tuple[Memory, Node]:
        raise Unreadable(e.line, "an element of a swizzled array")

    def as_it_lies(self, line: int, memory: Memory, kind: Kind) -> None:
        """A pointer to a vector converts nothing: the elements must be of the vector's own type."""
        if memory.element != WHOLE.get(kind.kind):
            raise Unreadable(line, f"{memory.element} in memory taken for {kind.kind}x{kind.width}")

    def load(
        self, line: int, place: tuple[Memory, Node], kind: Kind, here: Here, stride: Node | None = None,
        mask: Node | None = None,
    ) -> Value:  # fmt: skip
        """A scalar, or lane l of a vector from offset + stride·l; zero where the mask is false."""
        memory, offset = place
        if ELEMENTS[memory.element].kind != kind.kind and not (kind.kind == "f64" and memory.element == "float"):
            if memory.element != "uint16_t" or kind.kind not in ("f32", "f64"):
                raise Unreadable(line, f"{memory.element} read as {kind.kind}")
        if kind.width > 1:
            step = self.nodes.number(1) if stride is None else stride
            offset = self.nodes.add(offset, self.nodes.mul(step, self.lane(kind.width)))
        node = self.cell(memory, offset)
        facts = here.facts if mask is None else here.facts.assume(mask)
        if facts is not None:
            read = node if node.tag != "int" else children(node)[0]
            self.loads.setdefault(read, []).append(Load(read, replace(here, facts=facts), line))
        if mask is None:
            return Value(node, kind)
        zero = {"i64": self.nodes.number(0), "bool": self.nodes.false}.get(kind.kind) or self.nodes.rounded(Fraction(0), "f32")
        return Value(self.nodes.make("select", mask, node, zero), kind)


def read_of(nodes: Nodes, key: str, version: int, offset: Node, kind: str) -> Node:
    """A cell of an array, as it is after that many changes of the array: `flag` for conditions, else `read`."""
    if kind == "i64":
        return nodes.atom("read", key, version, offset)
    return nodes.make("flag" if kind == "bool" else "read", key, version, offset)


def compare_integers(nodes: Nodes, name: str, a: Node, b: Node) -> Node:
    """a < b, a <= b, a == b, a != b in their normal forms."""
    difference = nodes.sub(a, b)
    match name:
        case "lt":
            return nodes.at_most_zero(nodes.add(difference, nodes.number(1)))
        case "le":
            return nodes.at_most_zero(difference)
        case "eq":
            return nodes.is_zero(difference)
        case _:
            return nodes.negation(nodes.is_zero(difference))
