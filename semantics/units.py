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

    wgmma.m64nNk64.f16.f32   (PTX ISA, "Asynchronous warpgroup level matrix instructions", four of .k16), N = 128 or 256
        lane = 32 w + 4 g + t                               w < 4: the warp of the group of four
        C[16 w + 8 h + g, 64 e + 8 j + 2 t + p]  is slot 4 (8 e + j) + 2 h + p
        A and B lie in swizzled shared buffers, in rows of 64:

    C[v, w, g, t, x, e, j, h, p] := C[…] + Σ_{k < 64} A[y, a + 16 w + 8 h + g, k] · B[z, e + …, k, 8 j + 2 t + p]
                                                                              or B[z, b + 64 e + 8 j + 2 t + p, k]

v numbers the group of warps; y, z, a, b depend on none of the other digits; a and b are multiples of 8, where a swizzled
buffer's groups of rows begin.
"""

from __future__ import annotations

from dataclasses import dataclass

from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import ADD, TRUE, Axis, Const, Fold, Op, Read, Term, Var


@dataclass(frozen=True, slots=True)
class Unit:
    """A matrix unit: the shape of its fragments, their dtypes, and the lanes that work together. `shared`: its operands lie
    in shared buffers."""

    name: str
    rows: int
    columns: int
    depth: int
    operand: DType
    accumulator: DType
    lanes: int
    shared: bool = False


ROW = 64  # elements of a row of a swizzled buffer
UNITS = {
    unit.name: unit
    for unit in (
        Unit("mma.m16n8k16.f16.f32", 16, 8, 16, "float16", "float32", 32),
        *(Unit(f"wgmma.m64n{n}k64.f16.f32", 64, n, ROW, "float16", "float32", 128, shared=True) for n in (128, 256)),
    )
}


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


@dataclass(frozen=True, slots=True)
class Rows:
    """A shared operand: its buffer, the places in front of the last two, and where its rows begin (for B: `across`, whether
    a row holds the elements of one column of C rather than of one k)."""

    buffer: str
    which: tuple[Term, ...]
    first: Term
    across: bool = False


def shared_product(c: Operand, a: Rows, b: Rows, digits: tuple[str, ...], blocks: Term, k: str) -> Term:
    """The value that a unit with shared operands gives to C's cell (w, g, t, j, h, p) = `digits` of the block of 64 columns
    `blocks`; `k` is the name of the fold's axis. Of B with rows of one k each, the block is the last of its `which`."""
    w, g, t, j, h, p = (Var(name) for name in digits)
    row = canonical(_sum(a.first, (16, w), (8, h), (1, g)))
    column = canonical(_sum(b.first, *(((64, blocks),) if b.across else ()), (8, j), (2, t), (1, p)))
    before = Read(c.buffer, (*c.subgroup, w, g, t, *c.which, j, h, p), "real")
    x = Read(a.buffer, (*a.which, row, Var(k)), "real")
    y = Read(b.buffer, (*b.which, column, Var(k)) if b.across else (*b.which, Var(k), column), "real")
    return Op("add", (before, Fold(ADD, (Axis(k, Const(ROW)),), TRUE, (Op("mul", (x, y)),))))


def _sum(first: Term, *parts: tuple[int, Term]) -> Term:
    for factor, part in parts:
        first = Op("add", (first, Op("mul", (Const(factor), part))))
    return first
