"""How few bytes a kernel can move at given sizes: the claims of its certificate, and what it must touch at least once.

    bound = traffic(kernel, {"n": 4096, "m": 4096, "k": 4096}, capacity=32 << 10)
    bound.bytes, bound.why, bound.compulsory

The theorems are in docs/traffic_bounds.md; `proofs/traffic.py` checks every number anew, from the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tang_verified.passes.traffic import best, propose, tile
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.traffic import Claim
from tang_verified.semantics.counting import elements, extents
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.statements import work


@dataclass(frozen=True)
class TrafficBound:
    """No execution of the kernel at these sizes moves fewer than `bytes` to and from a fast memory of `capacity` bytes.

    `compulsory`: the part of it that every input read once and every output written once make (less what may be
    resident). `claim`: what gives the rest. `assumes`: what is assumed of data, in words. `tile`: extents of a tile that fits,
    and the bytes that going tile by tile moves, for the statement of the claim.
    """

    bytes: int
    compulsory: int
    claim: Claim | None
    why: str
    assumes: tuple[str, ...]
    tile: Mapping[str, int]
    tile_bytes: int | None


def traffic(
    kernel: Kernel, sizes: Mapping[str, int], capacity: int, processors: int = 1, *, resident: bool = False,
    claims: Sequence[Claim] | None = None, tiled: bool = True,
) -> TrafficBound:  # fmt: skip
    """The bound at given sizes. `resident`: operands may lie in fast memory at the start, and results stay there at the end
    (`capacity` bytes of each at most).

    `tiled`: whether to look for a tile as well, which may take a second.
    `processors`: fast memories of `capacity` bytes each; the bytes are the sum over all of them.
    """
    job = work(kernel)
    once = sum(touched(kernel, sizes).values())
    once = max(0, once - 2 * capacity * processors) if resident else once  # there at the start, and left at the end
    moved, found = best(kernel, propose(kernel) if claims is None else claims, sizes, capacity, processors)
    if resident:
        moved = max(Fraction(0), moved - capacity * processors)
    places = [*(touch.place for touch in job.touches), *(s.place for s in job.statements)]
    assumes = tuple(dict.fromkeys(text for place in places for text in place.assumes))
    if found is None or moved <= once:
        return TrafficBound(once, once, None, "each input once, each output once", assumes, {}, None)
    s = job.statements[found.claim.statement]
    if not tiled:
        return TrafficBound(-int(-moved // 1), once, found.claim, found.said(s), assumes, {}, None)
    try:
        shape, cost = tile(s, extents(s, sizes), capacity)
    except Refused:  # an index that is taken from data, or no tile of one point fits
        return TrafficBound(-int(-moved // 1), once, found.claim, found.said(s), assumes, {}, None)
    return TrafficBound(-int(-moved // 1), once, found.claim, found.said(s), assumes, shape, cost)


def touched(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes of each tensor that every execution reads, or writes, at least once."""
    return dict(_touched(kernel, tuple(sorted(sizes.items()))))


@lru_cache(maxsize=64)  # the same for every capacity, and where isl enumerates it takes a while
def _touched(kernel: Kernel, sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    touches = work(kernel).touches
    found = {}
    for name in dict.fromkeys(touch.access.tensor for touch in touches):
        own = [touch for touch in touches if touch.access.tensor == name]
        found[name] = own[0].access.width * elements(own, dict(sizes))
    return tuple(found.items())
