"""What the functions that a GPU text calls compute, and which of its conversions lose nothing.

tv_max_float(a, b)                       max(a, b): the helper's text is known, its meaning is read off its name
__shfl_xor_sync(0xffffffffu, t, 4)       exchange(t, 4): what the thread whose number differs in that bit holds
a[o] = (half)(t)                         a value is rounded where it is stored, and nowhere else

A thread's number is no value here: `simt_match.py` reads its digits, each an atom with a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tang_verified.proofs.readback import simt_helpers
from tang_verified.proofs.readback.facts import Facts, is_plain
from tang_verified.proofs.readback.machine import Machine
from tang_verified.proofs.readback.nodes import Node
from tang_verified.proofs.readback.simt_language import OPENCL, WORDS, Language
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
from tang_verified.proofs.readback.text_values import BOOL, ELEMENTS, INT, RAW, Here, Load, Memory, Value

BITS = {"0x7f800000": "inf", "0xff800000": "-inf", "0x7fffffff": "nan", "0x7fc00000": "nan"}
FROM_BITS = {"cuda": ("__int_as_float", ""), "glsl": ("uintBitsToFloat", "u"), "wgsl": ("tv_from_bits", "u")}
HALF = Kind("half")


@dataclass
class SimtMachine(Machine):
    language: Language = OPENCL
    helpers: frozenset[str] = frozenset()
    base: Here | None = None  # where the statement at hand begins,
    digits: frozenset[Node] = frozenset()  # the digits of the thread's number in it,
    asynchronous: bool = False  # and whether its copies may go on by themselves

    # Names and numbers

    def literal(self, e: Number) -> Value:
        if e.text.startswith("0x") or e.text.endswith("u"):
            raise Unreadable(e.line, f"{e.text} where a number is expected")
        v = super().literal(e)
        if v.kind == INT and not v.narrow and self.language.bits == 32:
            raise Unreadable(e.line, f"{e.text} does not fit into 32 bits")
        return v

    def read_name(self, e: Name) -> Value:
        if e.text in ("true", "false"):
            return Value(self.nodes.bool(e.text == "true"), BOOL)
        if e.text in ("INFINITY", "NAN") and self.language.name in ("opencl", "metal"):
            return self.special({"INFINITY": "inf", "NAN": "nan"}[e.text])
        return super().read_name(e)

    def special(self, name: str) -> Value:
        return Value(self.nodes.rounded(name, self.real), Kind(self.real))

    def evaluate(self, e: Expression, here: Here) -> Value:
        match e:
            case Cast(line, Kind("i32") | Kind("half")):
                raise Unreadable(line, "a conversion that loses digits")
            case Cast(line, kind, of) if kind != BOOL:
                v = self.value(of, here)
                if v.kind == HALF and kind == Kind("f32") and self.language.name in ("metal", "glsl", "wgsl"):
                    return Value(v.node, kind)
                if v.kind.kind not in ("i64", "f32", "bool") or kind.kind not in ("i64", "f32", "f64"):
                    raise Unreadable(line, f"a conversion from {v.kind.kind} to {kind.kind}")
                return self.convert(line, v, kind)
            case Vector() | Lanes() | Unary(_, "&" | "~", _) | Cast():
                raise Unreadable(e.line, f"a {type(e).__name__.lower()} where a value is expected")
            case _:
                return super().evaluate(e, here)

    def binary(self, e: Binary, here: Here) -> Value:
        if e.sign in ("%", "&", "|"):
            raise Unreadable(e.line, f"{e.sign} of values")
        left, right = e.left, e.right
        if isinstance(right, Number) and right.text in ("0", "0u") and e.sign == "!=":
            v = self.value(left, here)
            if v.kind == RAW["uint8_t"]:  # a bool in memory
                if right.text != ("0u" if self.language.constructors else "0"):
                    raise Unreadable(e.line, "a flag compared with another type of number")
                return Value(v.node, BOOL)
        if isinstance(left, Call) and left.function == "bitcast":
            name = BITS.get(right.text.removesuffix("u")) if isinstance(right, Number) and right.text.endswith("u") else None
            if name not in ("inf", "-inf") or e.sign not in ("==", "!="):
                raise Unreadable(e.line, "bits that are not compared with an infinity's")
            v, infinity = self.value(left.args[0], here), self.nodes.rounded(str(name), "f32")
            if v.kind != Kind("f32"):
                raise Unreadable(e.line, f"the bits of a {v.kind.kind}")
            return Value(self.operation(e.line, {"==": "eq", "!=": "ne"}[e.sign], v.kind, v.node, infinity), BOOL)
        v = super().binary(e, here)
        return v._replace(node=self.in_int(e.line, v.node)) if v.kind == INT and self.language.bits == 32 else v

    def in_int(self, line: int, node: Node) -> Node:
        """Where all integers have 32 bits, the kernel's arithmetic was shown to fit, and constants alone are looked at."""
        return node if self.language.bits == 32 and self.nodes.constant(node) is None else super().in_int(line, node)

    # Functions

    def call(self, e: Call, here: Here) -> Value:
        name, line, language = e.function, e.line, self.language
        bits, suffix = FROM_BITS.get(language.name, ("", ""))
        if name == bits and (name != "tv_from_bits" or name in self.helpers):
            number = e.args[0].text if len(e.args) == 1 and isinstance(e.args[0], Number) else ""
            if number.removesuffix("u") not in BITS or number.endswith("u") != (suffix == "u"):
                raise Unreadable(line, f"{name} of unknown bits")
            return self.special(BITS[number.removesuffix("u")])
        if name == language.exchange:
            return self.exchange(e, here)
        if (name, language.name) == ("__half2float", "cuda"):
            (v,) = self.values_of(e, 1, here)
            if v.kind != HALF:
                raise Unreadable(line, "a half is expected")
            return Value(v.node, Kind("f32"))
        if (name, language.name) == ("vload_half", "opencl"):
            self.count_args(e, 2)
            memory, offset = self.half_cell(e, 0, here)
            return Value(self.remembered(line, memory, offset, here), Kind("f32"))
        found = simt_helpers.meaning(language, name)
        if found is not None:
            if name not in self.helpers:
                raise Unreadable(line, f"{name} is not defined")
            return self.applied(e, *found, here)
        if name in language.functions:
            return self.applied(e, language.functions[name], "f32" if language.double else "", here)
        if language.double and name + language.double in language.functions:
            return self.applied(e, language.functions[name + language.double], "f64", here)
        raise Unreadable(line, f"{name} is not defined")

    def applied(self, e: Call, operation: str, kind: str, here: Here) -> Value:
        """An operation on numbers of that type, or of the arguments' own."""
        args = self.values_of(e, 2 if operation in (*simt_helpers.BINARY, "pow") else 1, here)
        want = Kind(kind) if kind else args[0].kind
        args = [self.adapted(of, v, want) for of, v in zip(e.args, args, strict=True)]
        if any(v.kind != want for v in args) or want.kind not in ("i64", "f32", "f64"):
            raise Unreadable(e.line, f"{e.function} of {', '.join(v.kind.kind for v in args)}")
        nodes = [v.node for v in args]
        if want != INT:
            return Value(self.operation(e.line, operation, want, *nodes), want)
        if operation in ("floordiv", "mod"):
            self.bounded(e.line, "divide", nodes[0], nodes[1], here)
            return Value(self.nodes.divide(operation, *nodes), INT)
        narrow = all(v.narrow for v in args)  # of two int, max is one as well
        if operation not in ("max", "min", "abs"):
            raise Unreadable(e.line, f"{operation} of integers")
        self.bounded(e.line, "compare", nodes[0], nodes[-1] if operation != "abs" else self.nodes.number(0), here)
        ends = [self.nodes.constant(node) for node in nodes]
        if operation != "abs" and None not in ends:
            end = (max if operation == "max" else min)(end for end in ends if end is not None)
            return Value(self.nodes.number(end), INT, narrow=narrow)
        return Value(self.nodes.atom(operation, *nodes), INT, narrow=narrow)

    def exchange(self, e: Call, here: Here) -> Value:
        """All threads of a subgroup must be here: nothing that they may differ in decides whether one comes."""
        args = list(e.args)
        if self.language.name == "cuda":
            if not args or not isinstance(mask := args.pop(0), Number) or mask.text != "0xffffffffu":
                raise Unreadable(e.line, "an exchange that not all threads take part in")
        step = self.nodes.constant(self.integer(args[1], here)) if len(args) == 2 else None
        if step is None or step < 1 or self.base is None or not self.uniform(here.facts, self.base.facts):
            raise Unreadable(e.line, "an exchange of another kind, or one that some threads may not reach")
        v = self.value(args[0], here)
        if v.kind not in (Kind("f32"), Kind("f64"), INT):
            raise Unreadable(e.line, f"an exchange of {v.kind.kind}")
        return Value(self.shared("exchange", v.kind, v.node, step), v.kind)

    def uniform(self, facts: Facts, base: Facts) -> bool:
        """Whether what is known here and was not at the beginning is the same for all threads."""
        fresh = [c for c in facts.known if c not in base.known] + [p for p in facts.below if p not in base.below]
        return all(is_plain(node) and not node.free & self.digits for node in fresh)

    # Memory

    def swizzled(self, e: Index, memory: Memory, offset: Node, here: Here) -> tuple[Memory, Node]:
        """array[tv_swizzle(cell)]"""
        match e.index:
            case Call(_, "tv_swizzle", (cell,)) if "tv_swizzle" in self.helpers and memory.element == "uint16_t":
                return memory, self.nodes.add(offset, self.integer(cell, here))
        raise Unreadable(e.line, "a cell of a swizzled array that is not where it lies")

    def rows(self, e: Expression, here: Here) -> tuple[Memory, Node]:
        """&array[cell]: rows of a swizzled array from there on. At the beginning of a group of rows, nothing lies elsewhere."""
        if not isinstance(e, Unary) or e.sign != "&" or not isinstance(e.of, Index):
            raise Unreadable(e.line, "rows of what is no array")
        memory, offset = self.address(e.of.base, here)
        if not memory.swizzled:
            raise Unreadable(e.line, "rows of an array that is not swizzled")
        return memory, self.nodes.add(offset, self.integer(e.of.index, here))

    def half_cell(self, e: Call, place: int, here: Here) -> tuple[Memory, Node]:
        offset, array = self.integer(e.args[place], here), e.args[place + 1]
        memory = self.names.get(array.text) if isinstance(array, Name) else None
        if not isinstance(memory, Memory) or memory.element != "uint16_t":
            raise Unreadable(e.line, f"{e.function} on what is no array of halves")
        return memory, offset

    def remembered(self, line: int, memory: Memory, offset: Node, here: Here) -> Node:
        """A load of a half from a place that is known."""
        node = self.cell(memory, offset)
        self.loads.setdefault(node, []).append(Load(node, here, line))
        return node

    def words(self, line: int, kind: Kind, address: Expression, here: Here) -> tuple[Memory, Node, Kind]:
        """Where a vector's access goes: the array, the offset (of lane l), the elements' type and number."""
        memory, offset = self.element(address, here)
        width = WORDS.get((kind.kind, memory.element))
        if width is None:
            raise Unreadable(line, f"{memory.element} as {kind.kind}")
        return memory, self.spread(offset, width), ELEMENTS[memory.element]._replace(width=width)

    def spread(self, offset: Node, width: int) -> Node:
        return offset if width == 1 else self.nodes.add(offset, self.lane(width))

    def moved(self, e: Expression, target: Kind, kind: Kind, here: Here) -> Value:
        """What is stored as a vector of that type: another one, or zero."""
        match e:
            case Vector(line, source, _, address) if source == target:
                _, _, found = self.words(line, source, address, here)
                return self.load(line, self.element(address, here), found, here)._replace(kind=found)
            case Cast(line, made, Number(_, "0")) if made == target and self.language.name != "cuda":
                return self.zero(kind)
            case Call(line, name, args) if name == f"make_{target.kind}" and self.language.name == "cuda":
                if [a.text if isinstance(a, Number) else "" for a in args] == ["0"] * int(target.kind[-1]):
                    return self.zero(kind)
            case Number(line, "0") if not target.kind[-1].isdigit():
                return self.zero(kind)
        raise Unreadable(e.line, "neither a vector nor zero")

    def zero(self, kind: Kind) -> Value:
        number = self.nodes.number(0) if kind.kind == "i64" else self.nodes.rounded(Fraction(0), "f32")
        return Value(self.nodes.false if kind.kind == "bool" else number, kind)

    def effect(self, e: Call, here: Here) -> tuple[Memory, Node, Value, Node | None]:
        """vstore_half(value, offset, array);  cp_async_16(&target[…], &source[…]);"""
        if (e.function, self.language.name) == ("vstore_half", "opencl"):
            self.count_args(e, 3)
            v = self.value(e.args[0], here)
            if v.kind not in (Kind("f32"), Kind("f64")):
                raise Unreadable(e.line, f"{v.kind.kind} as half")
            memory, offset = self.half_cell(e, 1, here)
            return memory, offset, Value(v.node, HALF), None
        size = e.function.removeprefix("cp_async_")
        if e.function not in self.helpers or size not in ("4", "8", "16") or len(e.args) != 2:
            raise Unreadable(e.line, f"{e.function} is no store that is defined")
        if not self.asynchronous:
            raise Unreadable(e.line, "a copy that goes on by itself, where the kernel's does not")
        ends = [arg.of if isinstance(arg, Unary) and arg.sign == "&" else arg for arg in e.args]
        if not all(isinstance(arg, Unary) for arg in e.args):
            raise Unreadable(e.line, "a copy between what are no elements")
        (memory, offset), (source, start) = (self.element(end, here) for end in ends)
        bytes_of = {"uint16_t": 2, "uint8_t": 1, "double": 8, "int64_t": 8}.get(memory.element, 4)
        if memory.element != source.element or not source.const:
            raise Unreadable(e.line, "a copy that goes on by itself comes from an input of the same type")
        kind = ELEMENTS[memory.element]._replace(width=int(size) // bytes_of)
        if kind.width < 1:
            raise Unreadable(e.line, f"{size} bytes of {memory.element}")
        value = self.load(e.line, (source, start), kind, here)
        return memory, self.spread(offset, kind.width), value._replace(kind=kind), None

    def stored(self, e: Expression, element: str, here: Here) -> Value:
        """A value on its way to an array: rounded, narrowed or made a flag here and nowhere else."""
        language = self.language.name
        match e:
            case Choice(line, condition, Number(_, one), Number(_, nil)) if element == "uint8_t":
                if (one, nil) != (("1u", "0u") if self.language.constructors else ("1", "0")):
                    raise Unreadable(line, "a flag of another type")
                return Value(self.condition(condition, here), BOOL)
            case Cast(_, Kind("half"), of) if element == "uint16_t" and language != "cuda":
                return self.halved(of, here)
            case Call(_, "__float2half_rn", (of,)) if element == "uint16_t" and language == "cuda":
                return self.halved(of, here)
            case Cast(line, Kind("i32"), of) if element == "int32_t" and self.language.bits == 64:
                v = self.value(of, here)
                if v.kind != INT:
                    raise Unreadable(line, f"{v.kind.kind} stored as an integer")
                return v
            case Cast(_, Kind("f32"), of) if element == "float" and self.real == "f64":
                v = self.value(of, here)
                return Value(v.node, Kind("f32")) if v.kind == Kind("f64") else self.value(e, here)
            case _ if element == "uint8_t":
                raise Unreadable(e.line, "a flag that is not 1 or 0")
            case _:
                return self.value(e, here)

    def halved(self, e: Expression, here: Here) -> Value:
        v = self.value(e, here)
        if v.kind not in (Kind("f32"), Kind("f64")):
            raise Unreadable(e.line, f"{v.kind.kind} as half")
        return Value(v.node, HALF)

