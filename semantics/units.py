"""Matrix units: which lane of a subgroup holds which element of a fragment, and the assignment that a unit computes.

A fragment is a register buffer spread over the lanes; a lane's number and a slot's are written in digits, so that every
layout is linear:

    mma.m16n8k16.f16.f32     (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", .f16 operands)
        lane = 4 g + t                                       g < 8, t < 4      (groupID, threadID_in_group)
        A[8 h + g, 8 u + 2 t + q]  is slot 4 u + 2 h + q     h, u, q < 2
        B[8 u + 2 t + q, g]        is slot 2 u + q
        C[8 h + g, 2 t + p]        is slot 2 h + p           p < 2

    C[w, g, t, x, h, p] := C[w, g, t, x, h, p] + Σ_{u < 2, s < 4, q < 2} A[w, g, s, y, u, h, q] · B[w, 2 t + p, s, z, u, q]

w numbers the subgroup, x, y, z the fragment among several; each may be several places, and depends on no digit above.
"""

from __future__ import annotations

from dataclasses import dataclass

from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import ADD, TRUE, Axis, Const, Fold, Op, Read, Term, Var


@dataclass(frozen=True, slots=True)
class Unit:
    """A matrix unit: the shape of its fragments, their dtypes, and the lanes that work together."""

    name: str
    rows: int
    columns: int
    depth: int
    operand: DType
    accumulator: DType
    lanes: int


UNITS = {unit.name: unit for unit in (Unit("mma.m16n8k16.f16.f32", 16, 8, 16, "float16", "float32", 32),)}


@dataclass(frozen=True, slots=True)
class Operand:
    """A fragment's buffer, and which of its fragments (`subgroup` and `which` are index places)."""

    buffer: str
    subgroup: tuple[Term, ...]
    which: tuple[Term, ...]


def product(unit: Unit, c: Operand, a: Operand, b: Operand, digits: tuple[str, ...], axes: tuple[str, ...]) -> Term:
    """The value that the unit gives to C's cell (g, t, h, p) = `digits`; `axes` are the names of the fold's (u, s, q)."""
    g, t, h, p = (Var(name) for name in digits)
    u, s, q = (Var(name) for name in axes)
    column = canonical(Op("add", (Op("mul", (Const(2), t)), p)))
    before = Read(c.buffer, (*c.subgroup, g, t, *c.which, h, p), "real")
    x = Read(a.buffer, (*a.subgroup, g, s, *a.which, u, h, q), "real")
    y = Read(b.buffer, (*b.subgroup, column, s, *b.which, u, q), "real")
    over = tuple(Axis(name, Const(extent)) for name, extent in zip(axes, (2, 4, 2), strict=True))
    return Op("add", (before, Fold(ADD, over, TRUE, (Op("mul", (x, y)),))))
