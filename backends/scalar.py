"""What the languages of GPUs have in common: scalar code of one thread, C's operators and statements.

A dialect is a table of spellings and the few methods that really differ. Each helper function is made from one
expression, spelt by `choose` and `function`, so that a language without `?:` needs no text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from tang_verified.backends.arithmetic import Arithmetic
from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.literals import decimal
from tang_verified.backends.precedence import operand
from tang_verified.backends.scopes import Type
from tang_verified.backends.simt import Entry
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import Const

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}
REALS = ("f32", "f64")


class ScalarDialect:
    """The part of `dialect.Dialect` that does without vectors."""

    name: ClassVar[str]
    arithmetic: ClassVar[Arithmetic]
    reserved: ClassVar[frozenset[str]]
    types: ClassVar[dict[str, str]]  # "f32", "f64", "i64", "bool" -> a variable's type; those that are not there: refused
    elements: ClassVar[dict[DType, str]]  # dtype -> an array element's type
    functions: ClassVar[dict[str, str]]  # operation -> the language's own function on float32
    bits: ClassVar[int] = 64  # of an index
    asynchronous: ClassVar[bool] = False
    vector_bytes: ClassVar[int] = 0
    own_vectors: ClassVar[bool] = False
    flags: ClassVar[tuple[str, str]] = ("0", "1")  # what a bool array holds
    unit: ClassVar[str] = ""  # the matrix unit that schedules may use
    units: ClassVar[tuple[str, ...]] = ()  # and those that take operands from shared memory
    stages: ClassVar[int] = 2  # of a ring of asynchronous copies
    shared_bytes: ClassVar[int] = 32 << 10  # what every device of the last ten years has: one certificate serves them all
    subgroup: ClassVar[int] = 0  # threads that a schedule may rely on to be one subgroup; 0: none
    qualifier: ClassVar[str] = ""  # before a function
    infinity: ClassVar[dict[str, str]]  # "inf", "-inf", "nan" -> a float

    def __init__(self) -> None:
        self._helpers: dict[str, str] = {}

    def reset(self) -> None:
        self._helpers = {}

    @staticmethod
    def halves(entries: Sequence[Entry]) -> bool:
        """Whether some array has elements of float16."""
        return any("float16" in (dtype for _, dtype, _ in (*entry.arrays, *entry.shared)) for entry in entries)

    def helpers(self) -> list[str]:
        return list(self._helpers.values())

    def need(self, name: str, text: str) -> str:
        """Note a definition that the text relies on (once); returns its name."""
        self._helpers.setdefault(name, text)
        return name

    # Types, declarations, constants

    def type(self, kind: Type) -> str:
        if kind.width > 1:
            raise Unsupported(f"{self.name}: a vector of {kind.width}; threads are this target's lanes")
        if kind.kind not in self.types:
            raise Unsupported(f"{self.name} has no {kind.kind} arithmetic")
        return self.types[kind.kind]

    def element(self, dtype: DType) -> str:
        if dtype not in self.elements:
            raise Unsupported(f"{self.name} has no {dtype} arrays")
        return self.elements[dtype]

    def declare(self, kind: Type, name: str, value: str | None, constant: bool = False) -> str:
        given = "" if value is None else f" = {value}"
        return f"{'const ' if constant else ''}{self.type(kind)} {name}{given};"

    def choose(self, condition: str, a: str, b: str) -> str:
        return f"({condition} ? {a} : {b})"

    def converted(self, text: str, to: str) -> str:
        """A value as one of another type."""
        return f"({to})({text})"

    def cast(self, text: str, kind: Type) -> str:
        return self.converted(text, self.type(kind))

    def constant(self, value: Const, kind: Type) -> str:
        match value.value:
            case bool(b):
                return "true" if b else "false"
            case int(n):
                return f"({n})" if n < 0 else str(n)
            case str(name):
                return self.special(name, kind.kind)
            case Fraction() as exact:
                text = decimal(exact, kind.kind)
                if "inf" in text:
                    return self.special(text, kind.kind)
                return f"({self.literal(text, kind.kind)})" if text.startswith("-") else self.literal(text, kind.kind)

    def literal(self, digits: str, kind: str) -> str:
        return f"{digits}f" if kind == "f32" else digits

    def special(self, name: str, kind: str) -> str:
        """An infinity or nan."""
        return self.infinity[name]

    def convert(self, text: str, have: Type, want: Type) -> str:
        return text if have.kind == want.kind else self.cast(text, want)

    # Operations

    def operation(self, name: str, args: Sequence[str], have: Type, want: Type) -> str:
        if name in INFIX:
            return f"{operand(args[0], name)} {INFIX[name]} {operand(args[1], name, right=True)}"
        if name in ("real", "trunc", "int"):
            return self.convert(args[0], have, want)
        if name == "not":
            return f"!{operand(args[0], 'not')}"
        if name in ("and", "or"):
            return f" {'&&' if name == 'and' else '||'} ".join(operand(arg, name) for arg in args)
        if name == "neg":
            return f"-{operand(args[0], 'neg')}"
        return f"{self.call(name, want)}({', '.join(args)})"

    def call(self, name: str, kind: Type) -> str:
        """The function that computes an operation: the language's own, or a helper."""
        made = self.made(name, kind)
        if made is not None:
            parameters = "ab" if name in ("max", "min", "floordiv", "mod", "sub0", "div0", "pow") else "a"
            function = f"tv_{name}_{self.types[kind.kind].replace(' ', '_')}"
            return self.need(function, self.function(function, parameters, kind, made))
        return self.library(name, kind)

    def library(self, name: str, kind: Type) -> str:
        if name not in self.functions:
            raise Unsupported(f"{self.name} has no {name}")
        return self.functions[name]

    def made(self, name: str, kind: Type) -> str | None:
        """A helper's value as an expression of a and b: what the language lacks, or has with another meaning for nan
        (max and min pass it on) or zero."""
        real = kind.kind in REALS
        zero = self.literal("0.0", kind.kind) if real else "0"
        if name in ("max", "min"):
            condition = f"a {'>' if name == 'max' else '<'} b"
            return self.choose(f"{condition} || a != a" if real else condition, "a", "b")
        if name == "abs" and not real:
            return self.choose("a < 0", "-a", "a")
        if name == "sub0":
            low = self.special("-inf", kind.kind)
            return self.choose(f"a == {low} && b == {low}", low, "a - b")
        if name == "div0":
            return self.choose(f"b == {zero}", zero, "a / b")
        if name in ("floordiv", "mod"):  # without %, whose sign languages differ on
            rest = "a - a / b * b"
            other = f"{rest} != 0 && (a < 0) != (b < 0)"
            return f"{rest} + {self.choose(other, 'b', '0')}" if name == "mod" else f"a / b - {self.choose(other, '1', '0')}"
        return None

    def function(self, name: str, parameters: str, kind: Type, value: str) -> str:
        """The definition of a function of one expression."""
        t = self.type(kind)
        return f"{self.qualifier}{t} {name}({', '.join(f'{t} {p}' for p in parameters)}) {{ return {value}; }}"

    # Memory

    def load(self, dtype: DType, array: str, offset: str, kind: Type) -> str:
        cell = f"{array}[{offset}]"
        if dtype == "bool":
            return f"{cell} != {self.flags[0]}"
        return cell if self.elements[dtype] == self.types[kind.kind] else self.cast(cell, kind)

    def store(self, dtype: DType, array: str, offset: str, value: str, kind: Type) -> str:
        if dtype == "bool":
            value = self.choose(value, self.flags[1], self.flags[0])
        elif self.elements[dtype] != self.types[kind.kind]:
            value = self.converted(value, self.element(dtype))
        return f"{array}[{offset}] = {value};"

    def loop(self, axis: str, extent: str, unroll: bool = False) -> str:
        t = self.types["i64"]
        return f"for ({t} {axis} = 0; {axis} < {extent}; ++{axis})"

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        return f"{self.element(dtype)} {name}[{max(count, 1)}];"

    # Threads: see `simt.py`

    def index(self, name: str, value: str) -> str:
        """A constant integer's declaration."""
        return self.declare(Type("i64", 1), name, value, constant=True)

    def move(
        self, dtype: DType, width: int, target: str, offset: str, source: str, place: str, condition: str | None, wait: bool
    ) -> str:
        """By pointers to a type of that many bytes."""
        bits = self.words(dtype, width)
        to, where = self.at("shared", bits, target, offset), self.at("global", bits, source, place)
        if condition is None:
            return f"{to} = {where};"
        return f"if ({condition}) {to} = {where}; else {to} = {self.zero(bits)};"

    def put(self, dtype: DType, width: int, target: str, offset: str, source: str, place: str) -> str:
        raise Unsupported(f"{self.name}: no vector of a thread's own array is stored")

    def words(self, dtype: DType, width: int) -> str:
        """The vector of that many elements; of halves, a vector of words that are as wide."""
        if dtype != "float16":
            return f"{self.element(dtype)}{width}"
        return {2: "uint", 4: "uint2", 8: "uint4"}[width]

    def at(self, space: str, bits: str, array: str, offset: str) -> str:
        """What lies there, as a word of that type."""
        raise Unsupported(f"{self.name}: no access of a vector of a thread's own")

    def zero(self, bits: str) -> str:
        return f"({bits})(0)"

    def multiply(self, unit: str, c: Sequence[str], a: Sequence[str], b: Sequence[str]) -> str:
        raise Unsupported(f"{self.name} has no unit {unit}; compile for a target without it")

    def multiply_rows(self, unit: str, form: str, a: str, b: str, c: Sequence[str]) -> str:
        raise Unsupported(f"{self.name} has no unit {unit}; compile for a target without it")

    def swizzle(self, dtype: DType, cell: str) -> str:
        raise Unsupported(f"{self.name}: no swizzled arrays")

    def exchange(self, text: str, step: int, kind: Type) -> str:
        raise Unsupported(f"{self.name}: no exchange of values within a subgroup; compile for a target with subgroup 0")

    def number(self, name: str, value: str) -> str:
        """In 32 bits."""
        return f"const int {name} = {value};"

    def narrow(self, extent: str) -> str:
        return extent if self.bits == 32 or extent.isdigit() else f"(int){extent}"

    # What scalar code has no use for

    def splat(self, text: str, kind: Type) -> str:
        raise Unsupported(f"{self.name}: no vectors")

    iota = any_lane = lane_mask = shift_lanes = lane_of = load_vector = store_vector = splat
