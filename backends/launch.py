"""How a printed text of a GPU backend is started: entry points in order, and what they are given.

A kernel's body is a list of grid nests; each is one launch, and a launch sees all that the launches before it wrote.

    for i < n [grid]: …       ->   Launch("f_0", blocks = n, threads = 256)
    for j < ceil(m/64) […]    ->   Launch("f_1", blocks = ceil(m/64), threads = 256)

Arrays are bound in order: the kernel's reads, its outputs, its scratch arrays (of global scope; the runtime allocates
them, undefined); then the sizes, as the dialect takes numbers. An entry computes its block's number, in 32 bits (there
are fewer than 2^31), as x + y · (blocks along x), and does nothing for a number that is not below `blocks`: so a runtime
may fold a long row of blocks into two dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import Term


@dataclass(frozen=True, slots=True)
class Launch:
    """One entry point: `blocks` is a term over the sizes; threads of a block, bytes of shared memory it declares."""

    entry: str
    blocks: Term
    threads: int
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Binding:
    """One array: its shape is over the sizes; `scratch` ones belong to the kernel alone."""

    name: str
    dtype: DType
    shape: tuple[Term, ...]
    written: bool
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a runtime needs beside the text.

    `index_bits`: the width of sizes and index arithmetic in the text. `subgroup`: the size of a subgroup (warp, simdgroup) that
    the text relies on, 0 if on none.
    """

    name: str
    sizes: tuple[str, ...]
    bindings: tuple[Binding, ...]
    launches: tuple[Launch, ...]
    index_bits: int = 64
    subgroup: int = 0
