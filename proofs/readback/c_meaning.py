"""What the functions that a C text calls compute: `exp_f32x16` is exp on each lane, `load_…_if` a masked load, and so on.

The helpers' texts are compared letter by letter (`c_known.py`); their meaning is read off their names here. Functions of
C's library are those of `semantics/terms.py`, with the suffix f in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass

from tang_verified.proofs.readback import c_helpers
from tang_verified.proofs.readback.c_known import ACCESS, ELEMENTS, vector
from tang_verified.proofs.readback.machine import Machine
from tang_verified.proofs.readback.nodes import Node
from tang_verified.proofs.readback.syntax import Binary, Call, Expression, Index, Kind, TypeName, Unreadable
from tang_verified.proofs.readback.text_values import Here, Memory, Value, compare_integers

LIBRARY = {
    c_helpers.LIBM.get(name, name) + suffix: (name, kind)
    for name in (*c_helpers.UNARY, "pow") if name != "rsqrt" for suffix, kind in (("f", "f32"), ("", "f64"))
}  # fmt: skip
CONSTANTS = {
    "__builtin_inff": ("inf", "f32"), "__builtin_inf": ("inf", "f64"), "__builtin_nanf": ("nan", "f32"),
    "__builtin_nan": ("nan", "f64"),
}  # fmt: skip
BINARY = ("max", "min", "floordiv", "mod", "sub0", "div0", "pow")


@dataclass
class CMachine(Machine):
    helpers: frozenset[str] = frozenset()

    def call(self, e: Call, here: Here) -> Value:
        name, line = e.function, e.line
        if name in CONSTANTS:
            constant, real = CONSTANTS[name]
            self.count_args(e, 0)
            return Value(self.nodes.rounded(constant, real), Kind(real))
        if name == "__builtin_convertvector":
            self.count_args(e, 2)
            return self.convert(line, self.value(e.args[0], here), self.type_argument(e, 1))
        if name in LIBRARY:
            operation, of = LIBRARY[name]
            return self.lanewise(e, operation, Kind(of), here)
        if (name if name != "half_to_float" else "TV_HALF") not in self.helpers and name != "float_to_half":
            raise Unreadable(line, f"{name} is not defined")
        if name in ("half_to_float", "float_to_half"):
            return self.half(e, here)
        if name == "TV_SHUFFLE":
            return self.shuffle(e, here)
        found = ACCESS.fullmatch(name)
        if found is not None and found[1] == "load":
            address, stride, (mask,) = self.place(e, here, 1)
            kind = vector(found[3])
            if kind is None:
                raise Unreadable(line, name)
            place = self.array_of(e, found[2], address, here)
            return self.load(line, place, kind, here, stride, mask.node if mask else None)
        return self.helper(e, here)

    def helper(self, e: Call, here: Here) -> Value:
        operation, _, last = e.function.rpartition("_")
        kind, n, line = vector(last) or Kind(last), self.nodes, e.line
        if operation == "splat":
            (v,) = self.values_of(e, 1, here)
            v = self.adapted(e.args[0], v, kind._replace(width=1, bits=32))
            if v.kind.width != 1 or v.kind.kind != kind.kind or v.inverted:
                raise Unreadable(line, f"{v.kind.kind} splat as {kind.kind}")
            return Value(v.node, kind)
        if operation in ("below", "from", "equal") and kind.width > 1:
            self.count_args(e, 1)
            bound, lane = self.integer(e.args[0], here), self.lane(kind.width)
            a, b = (bound, lane) if operation == "from" else (lane, bound)
            self.bounded(line, "compare", a, b, here)
            return Value(compare_integers(n, {"below": "lt", "from": "le", "equal": "eq"}[operation], a, b), kind)
        if operation == "any":
            (v,) = self.values_of(e, 1, here)
            self.fits(line, v, kind)
            return Value(n.make("any", v.node) if any(f.tag == "lane" for f in v.node.free) else v.node, Kind("bool"))
        if operation in ("select_m32", "select_m64"):
            mask, yes, no = self.values_of(e, 3, here)
            self.fits(line, mask, Kind("bool", kind.width, int(operation[-2:])))
            self.fits(line, yes, kind)
            self.fits(line, no, kind)
            return Value(n.make("select", mask.node, yes.node, no.node), kind)
        return self.lanewise(e, operation, kind, here)

    def lanewise(self, e: Call, operation: str, kind: Kind, here: Here) -> Value:
        args = self.values_of(e, 2 if operation in BINARY else 1, here)
        for v in args:
            self.fits(e.line, v, kind)
        nodes = [v.node for v in args]
        if kind.kind != "i64":
            return Value(self.operation(e.line, operation, kind, *nodes), kind)
        if operation in ("floordiv", "mod"):
            self.bounded(e.line, "divide", nodes[0], nodes[1], here)
            return Value(self.nodes.divide(operation, *nodes), kind)
        if operation not in ("max", "min", "abs"):
            raise Unreadable(e.line, f"{operation} of integers")
        self.bounded(e.line, "compare", nodes[0], nodes[-1] if operation != "abs" else self.nodes.number(0), here)
        return Value(self.nodes.atom(operation, *nodes), kind)

    def half(self, e: Call, here: Here) -> Value:
        self.count_args(e, 1)
        if "TV_HALF" not in self.helpers:
            raise Unreadable(e.line, f"{e.function} is not defined")
        v = self.value(e.args[0], here)
        if e.function == "float_to_half":
            if v.kind not in (Kind("f32"), Kind("f64")):
                raise Unreadable(e.line, f"{v.kind.kind} as half")
            return Value(v.node, Kind("half"))
        if not isinstance(e.args[0], Index) or v.kind != Kind("half"):
            raise Unreadable(e.line, "half_to_float of what is no half")
        return Value(v.node, Kind("f32"))

    def shuffle(self, e: Call, here: Here) -> Value:
        if len(e.args) < 3:
            raise Unreadable(e.line, "a shuffle without lanes")
        v, mask = self.value(e.args[0], here), self.type_argument(e, 1)
        lanes = [self.nodes.constant(self.integer(arg, here)) for arg in e.args[2:]]
        numbers = tuple(lane for lane in lanes if lane is not None and 0 <= lane < v.kind.width)
        if len(numbers) != v.kind.width or len(lanes) != v.kind.width or mask[:2] != ("bool", v.kind.width) or v.inverted:
            raise Unreadable(e.line, "a shuffle of other lanes than the vector has")
        if numbers[0] < 1 or numbers != tuple(min(k + numbers[0], v.kind.width - 1) for k in range(v.kind.width)):
            raise Unreadable(e.line, "a shuffle that does not move all lanes by one distance")
        return Value(self.shared("shuffle", v.kind, v.node, numbers, self.lane(v.kind.width)), v.kind)

    def effect(self, e: Call, here: Here) -> tuple[Memory, Node, Value, Node | None]:
        found = ACCESS.fullmatch(e.function)
        kind = vector(found[3]) if found else None
        if found is None or kind is None or found[1] != "store" or e.function not in self.helpers:
            raise Unreadable(e.line, f"{e.function} is no store that is defined")
        address, stride, (value, mask) = self.place(e, here, 2)
        memory, offset = self.array_of(e, found[2], address, here)
        if value is None:
            raise Unreadable(e.line, "a store of nothing")
        self.fits(e.line, value, kind)
        step = self.nodes.number(1) if stride is None else stride
        place = self.nodes.add(offset, self.nodes.mul(step, self.lane(kind.width)))
        return memory, place, value, mask.node if mask else None

    def place(self, e: Call, here: Here, rest: int) -> tuple[Expression, Node | None, list[Value | None]]:
        """The arguments of a load or store: the address and the stride, then a value and a mask as there are."""
        found, args = ACCESS.fullmatch(e.function), list(e.args)
        if found is None:
            raise Unreadable(e.line, e.function)
        self.count_args(e, 1 + 2 * bool(found[4]) + (found[1] == "store") + bool(found[5]))
        address, stride = args.pop(0), None
        if found[4]:
            address = Binary(e.line, "+", address, args.pop(0))
            stride = self.integer(args.pop(0), here)
        values: list[Value | None] = [self.value(arg, here) for arg in args]
        if found[5]:
            kind, mask = vector(found[3]), values[-1]
            if kind is None or mask is None or mask.kind[:2] != ("bool", kind.width) or mask.inverted:
                raise Unreadable(e.line, "not a mask")
        else:
            values.append(None)
        return address, stride, values

    def array_of(self, e: Call, dtype: str, address: Expression, here: Here) -> tuple[Memory, Node]:
        memory, offset = self.address(address, here)
        if ELEMENTS[dtype] != memory.element:
            raise Unreadable(e.line, f"{e.function} on {memory.element}")
        return memory, offset

    # Arguments

    def type_argument(self, e: Call, place: int) -> Kind:
        found = e.args[place]
        if not isinstance(found, TypeName):
            raise Unreadable(e.line, f"{e.function} without a type")
        return found.kind

    def fits(self, line: int, v: Value, kind: Kind) -> None:
        if v.kind[:2] != kind[:2] or v.inverted:
            raise Unreadable(line, f"a {v.kind.kind}x{v.kind.width} where {kind.kind}x{kind.width} is expected")
        if kind.kind == "bool" and kind.width > 1 and v.kind.bits != kind.bits:
            raise Unreadable(line, "a mask of another lane size")
