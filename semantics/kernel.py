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
"thread" (parallel lanes of a block with barriers between statements), "seq", "unroll" (copied out by the printer, so
that register buffers get constant indices), "lane" (SIMD lanes; extent a small constant; innermost).

How an Assign with folds runs: seq axes outermost in order; inside them, for each fold in the value, its fold axes in
order around the unroll and lane axes (accumulators in registers, one per unroll × lane cell); then the value itself.
A fold axis of kind "lane" keeps one partial state per lane and combines them at the end.

Claims (`Carried.value`, `Assign.claim`, `Alloc.claim`) are witnesses. The checker proves each; printers ignore them.

Room for later: a buffer's scope names where it lives; a copy that is asynchronous, a wait and a barrier are statements
of this same list (they change the order relation, not the values), and a matrix unit is an attribute of an assignment
whose fold it computes. Each enters together with its obligation, not before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tang_verified.semantics.program import DType, Program
from tang_verified.semantics.terms import TRUE, Axis, Term

Kind: TypeAlias = Literal["grid", "thread", "seq", "unroll", "lane"]
Scope: TypeAlias = Literal["register", "thread", "shared", "global"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Scratch storage. `thread` scope is private to one grid instance; `register` extents are constants."""

    name: str
    dtype: DType
    shape: tuple[Term, ...]
    scope: Scope


@dataclass(frozen=True, slots=True)
class Claim:
    """What a buffer holds: buffer[index] = value, for every cell. `index` are names free in `value`."""

    index: tuple[str, ...]
    value: Term


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
    (absent: "seq"). `claim` restates the whole target's content after the statement in terms of its own index."""

    loops: tuple[Loop, ...]
    target: str
    index: tuple[Term, ...]
    value: Term
    guard: Term = TRUE
    fold_kinds: tuple[tuple[str, Kind], ...] = ()
    claim: Claim | None = None


Stmt: TypeAlias = Alloc | For | Assign


@dataclass(frozen=True, slots=True)
class Kernel:
    """Computes the definitions `outputs` of `program`, reading its inputs and the definitions in `reads`."""

    name: str
    program: Program
    reads: tuple[str, ...]
    outputs: tuple[str, ...]
    body: tuple[Stmt, ...]
    notes: tuple[str, ...] = field(default=())
