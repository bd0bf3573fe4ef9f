"""Where a tensor's cells are: an array in memory, or register variables.

    acc[r, v*16 + l]  with r, v copied out and l the lane axis   ->   f32x16 acc_0_0, acc_0_1, acc_1_0, …

A register buffer becomes variables if all its accesses have constant indices, except for one lane axis (always of the
same extent V, starting at multiples of V) in the last. Otherwise it is a small array. Which of these holds is known
only when everything has been printed; so the printer prints again until nothing new is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tang_verified.backends.dialect import Dialect
from tang_verified.backends.scopes import Lane, Slot, Type
from tang_verified.semantics.build import canonical, linear
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import ZERO, Const, Op, Term, Var, free_vars

T = TypeVar("T")


@dataclass(frozen=True)
class Memory:
    """A row-major array behind a pointer."""

    variable: str
    dtype: DType
    extents: tuple[Term, ...]
    own: bool = False  # a buffer of the kernel's, not an array that it was given
    swizzled: bool = False

    def offset(self, index: tuple[Term, ...]) -> Term:
        """Horner's form: (i0·E1 + i1)·E2 + i2."""
        total: Term = ZERO
        for part, extent in zip(index, self.extents, strict=True):
            total = Op("add", (Op("mul", (total, extent)), part)) if total != ZERO else part
        return _tidy(total)


@dataclass
class Variables:
    """A register buffer's variables by cell number (vectors in the last index), declared in `slot` when first used."""

    stem: str
    dtype: DType
    width: int
    take: Callable[[str], str]
    half: bool = False  # whether the language computes with float16 variables
    slot: Slot = field(default_factory=list)
    cells: dict[tuple[int, ...], str] = field(default_factory=dict)

    def type(self, width: int) -> Type:
        """A register has its own precision, whatever the statement that meets it computes in."""
        kinds = {"float64": "f64", "int32": "i64", "int64": "i64", "bool": "bool"}
        if self.half:
            kinds["float16"] = "f16"
        return Type(kinds.get(self.dtype, "f32"), width)

    def variable(self, number: tuple[int, ...], dialect: Dialect) -> str:
        if number not in self.cells:
            parts = (str(n) if n >= 0 else f"m{-n}" for n in number)
            self.cells[number] = self.take("_".join((self.stem, *parts)))
            self.slot.append(dialect.declare(self.type(self.width), self.cells[number], None))
        return self.cells[number]


Storage = Memory | Variables


class Again(Exception):
    """A register buffer turned out to need an array: print again."""


def settled(dialect: Dialect, attempt: Callable[[Registers], T]) -> T:
    """What an attempt prints, once it learns nothing new of the registers."""
    registers = Registers()
    while True:
        registers.changed = False
        dialect.reset()
        try:
            printed = attempt(registers)
        except Again:
            continue
        if not registers.changed:
            return printed


class Registers:
    """What is known about each register buffer: its vector width, or that it must be an array."""

    def __init__(self) -> None:
        self.width: dict[str, int] = {}
        self.arrays: set[str] = set()
        self.changed = False

    def declare(self, name: str) -> None:
        self.width.setdefault(name, 1)

    def holds(self, name: str) -> bool:
        return name in self.width and name not in self.arrays

    def find(self, name: str, index: tuple[Term, ...], lane: Lane | None) -> tuple[int, tuple[int, ...], int | None]:
        """(width, cell number, lane within the cell or None for all of it) of an access."""
        width = self.width[name]
        numbers: list[int] = []
        wide = False
        for place, part in enumerate(index):
            atoms, constant = linear(part)
            if lane is not None and place == len(index) - 1 and atoms == {Var(lane.name): 1}:
                wide = True
            elif atoms:
                raise self.give_up(name)
            numbers.append(constant)
        if wide and lane is not None:
            if width == 1:
                self.width[name], self.changed = lane.width, True
                width = lane.width
            if width != lane.width or numbers[-1] % width:
                raise self.give_up(name)
        if width == 1:
            return 1, tuple(numbers), None
        cell = (*numbers[:-1], numbers[-1] // width)
        return width, cell, None if wide else numbers[-1] % width

    def give_up(self, name: str) -> Again:
        self.arrays.add(name)
        return Again(name)


def _tidy(term: Term) -> Term:
    """Fold the zeros and ones of a Horner form, without multiplying it out: x·E + 0 -> x·E, 0·E -> 0, x·1 -> x."""
    match term:
        case Op(name, (a, b)) if name in ("add", "mul"):
            a, b = _tidy(a), _tidy(b)
            if not free_vars(a) and not free_vars(b):
                return canonical(Op(name, (a, b)))
            if name == "mul":
                return ZERO if ZERO in (a, b) else a if b == Const(1) else b if a == Const(1) else Op(name, (a, b))
            return a if b == ZERO else b if a == ZERO else Op(name, (a, b))
        case _:
            return term
