"""The kernel language: loops, buffers, and tile assignments whose values are terms.

    for i0 < ceil(n/4)  [grid]:                        # parallel
      alloc acc[4, 64] : float32 register
      acc[r, c] := 0
      for k0 < ceil(K/256) [seq]  carrying acc[r, c] = Σ_{k < min(256 k0, K)} a[4 i0 + r, k] b[k, c]:
        acc[r, c] := acc[r, c] + Σ_{k < 256} (256 k0 + k < K ? a[4 i0 + r, 256 k0 + k] b[256 k0 + k, c] : 0)
      out[4 i0 + r, c] := acc[r, c]   if 4 i0 + r < n

Every statement is a *tile assignment*: `target[index(axes)] := value(axes)` for all axes (where `guard` holds); the
value may hold folds with axes of their own. So each statement has an iteration domain (surrounding loops × its axes)
and access relations, all isl, and a scalar meaning that Z3 reads. Nothing else moves data.

Kinds of a loop or axis say how it runs and change no meaning: "grid" (parallel instances: CPU threads, GPU blocks),
"thread" (the threads of a block; axes of an assignment only, so that control flow is the same for all), "seq", "unroll"
(copied out by the printer, so that register buffers get constant indices), "lane" (SIMD lanes; a small constant).

How an Assign with folds runs: seq axes outermost in order; inside them, for each fold in the value, its fold axes in
order around the unroll and lane axes (accumulators in registers, one per unroll × lane cell); then the value itself.
A fold axis of kind "lane" keeps one partial state per lane and combines them at the end.

Threads of a block (a kernel whose machine has more than one):

    alloc s[16, 64] : shared                           # one for the block
    alloc acc[16, 16, 4, 4] : register of 2            # cell [y, x, …] belongs to thread 16 y + x, which alone may touch it
    s[y, 16 u + x] := …        for y < 16 [thread], x < 16 [thread], u < 4 [unroll]
    barrier
    acc[y, x, r, c] := acc[y, x, r, c] + Σ_k s[…] …    for y, x [thread], r, c [unroll]

The thread axes of a statement number its threads row by row; threads beyond their product do nothing. Statements of one
thread run in order; what different threads do to one cell of a shared buffer is ordered by barriers alone. A fold axis of
kind "thread" runs over the lanes of a subgroup (the statement's last thread axis): lane l computes the element l, and
every lane gets the result.

An axis of kind "lane" of such a statement is a vector of one thread: a plain copy of neighbours, both ends aligned to the
vector (every array and buffer begins at a multiple of 16 bytes; so do the slots of a thread in a buffer of its own).

An *asynchronous* assignment to a shared buffer is issued where it stands and done when a `Wait` says so: `Commit` closes
a group of those issued, `Wait(keep)` waits until at most `keep` of the thread's groups are pending.

A *unit* (semantics/units.py) computes an assignment for all lanes of a subgroup at once; it says which lane holds what. Some
units take their operands from shared buffers that are *swizzled*: rows of 128 bytes whose 16-byte pieces lie in another
order, so that eight rows of one column meet no bank twice. Cells keep their indices; only their addresses change.

Claims (`Carried.value`, `Assign.claim`, `Alloc.claim`) are witnesses. The checker proves each; printers ignore them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tang_verified.semantics.program import BYTES, DType, Program
from tang_verified.semantics.terms import TRUE, Axis, Term

Kind: TypeAlias = Literal["grid", "thread", "seq", "unroll", "lane"]
Scope: TypeAlias = Literal["register", "thread", "shared", "global"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Scratch storage. `thread` scope is private to one grid instance; `register` extents are constants.

    `owners`: how many leading axes number the thread that a cell belongs to (0: no cell is any thread's own).
    `swizzled`: where a cell lies is `swizzle` of its row-major number.
    """

    name: str
    dtype: DType
    shape: tuple[Term, ...]
    scope: Scope
    owners: int = 0
    swizzled: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """What a buffer holds: buffer[index] = value, for every cell `where` (the others are undefined). `index` are names
    free in both."""

    index: tuple[str, ...]
    value: Term
    where: Term = TRUE


@dataclass(frozen=True, slots=True)
class Alloc:
    """Declare a buffer for the rest of the enclosing block, undefined at first.

    With a claim the buffer is *single-assignment*: any statement below may write parts of it, each cell once, and it can
    be read once the writes so far cover it. Without, each Assign to it must cover it whole (it is mutable).
    """

    buffer: Buffer
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """A mutable buffer's content at the head of an iteration, as a function of the loop axis (the loop invariant)."""

    buffer: str
    claim: Claim


@dataclass(frozen=True, slots=True)
class For:
    """0 <= axis < extent. `carried` names each outer mutable buffer that the body assigns."""

    axis: Axis
    kind: Kind
    body: tuple[Stmt, ...]
    carried: tuple[Carried, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """An axis of a tile assignment or of a fold in its value, and how it runs."""

    axis: Axis
    kind: Kind


@dataclass(frozen=True, slots=True)
class Assign:
    """target[index] := value for all `loops` where `guard`. Fold axes in `value` take their kinds from `fold_kinds`
    (absent: "seq"). `claim` restates the whole target's content after the statement in terms of its own index.
    `asynchronous`: a copy that is done at a `Wait`. `unit`: what computes it ("": the threads)."""

    loops: tuple[Loop, ...]
    target: str
    index: tuple[Term, ...]
    value: Term
    guard: Term = TRUE
    fold_kinds: tuple[tuple[str, Kind], ...] = ()
    claim: Claim | None = None
    asynchronous: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Barrier:
    """No thread of the block goes on before all are here; what they wrote to shared buffers is then seen by all."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Each thread's asynchronous copies since its last `Commit` become its next group."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Each thread waits until at most `keep` of its groups, the last ones, are pending."""

    keep: int


Stmt: TypeAlias = Alloc | For | Assign | Barrier | Commit | Wait


def assignments(body: Iterable[Stmt]) -> list[Assign]:
    """Every assignment in the statements, in order."""
    return [a for s in body for a in ([s] if isinstance(s, Assign) else assignments(s.body) if isinstance(s, For) else ())]


def allocations(body: Iterable[Stmt]) -> list[Alloc]:
    """Every declaration of a buffer in the statements, in order."""
    return [a for s in body for a in ([s] if isinstance(s, Alloc) else allocations(s.body) if isinstance(s, For) else ())]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel asks of the machine: threads of a block, lanes of a subgroup that it relies on (0: none), bytes of
    shared memory, and the width of index arithmetic (32: for sizes up to 2^28 and arrays of fewer than 2^31 elements)."""

    threads: int = 1
    subgroup: int = 0
    shared_bytes: int = 0
    index_bits: int = 64


def swizzle(cell: int, size: int) -> int:
    """Where cell number `cell`, of `size` bytes, lies: piece p of row r of a group of eight at piece p xor r."""
    piece = 16 // size
    return cell ^ (cell // (8 * piece) % 8 * piece)


def shared_bytes(dtype: DType, count: int) -> int:
    """Bytes that `count` elements of a shared buffer take, at most, in any of the languages: each array begins anew at
    a multiple of 16, and a bool takes a word (WebGPU's rules, the least thrifty)."""
    return -(-max(BYTES[dtype], 4 if dtype == "bool" else 0) * count // 16) * 16


@dataclass(frozen=True, slots=True)
class Kernel:
    """Computes the definitions `outputs` of `program`, reading its inputs and the definitions in `reads`."""

    name: str
    program: Program
    reads: tuple[str, ...]
    outputs: tuple[str, ...]
    body: tuple[Stmt, ...]
    notes: tuple[str, ...] = field(default=())
    machine: Machine = Machine()
