"""Index places as mixed-radix numbers over loops, and how the digits are dealt to threads.

    r = 4·rb + ru,  c = 64·cb + 16·cv + cl     digits of r: rb ru; of c: cb cv cl (most significant first)
    threads take rb (16) and cl (16); the others are slots of a thread's own
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from tang_verified.proofs.threads import constant
from tang_verified.semantics.build import linear
from tang_verified.semantics.kernel import Loop
from tang_verified.semantics.terms import Term, Var


@dataclass(frozen=True, slots=True)
class Digit:
    """One loop's part in an index place. `rank`: its place among the digits of a thread's number; None for a slot.
    `order`: the loop's place in the statement."""

    loop: str
    extent: int
    rank: int | None = None
    order: int = 0

    @property
    def place(self) -> tuple[bool, int, int]:
        """Where it stands among a buffer's axes: owners by rank, then slots by order."""
        return self.rank is None, self.rank or 0, self.order

    @property
    def thread(self) -> bool:
        return self.rank is not None


def digits(place: Term, extent: int, loops: Mapping[str, Loop]) -> list[Digit] | None:
    """The place as Σ stride·loop with strides that make each value below `extent` occur once; None if it is not so."""
    parts, offset = linear(place)
    if offset:
        return None
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    out = []
    for atom, _ in ordered:
        size = constant(loops[atom.name].axis.extent) if isinstance(atom, Var) and atom.name in loops else None
        if size is None:
            return None
        out.append(Digit(atom.name, size))  # type: ignore[union-attr]
    stride = 1
    for digit, (_, factor) in zip(reversed(out), reversed(ordered), strict=True):
        if factor != stride:
            return None
        stride *= digit.extent
    return out if stride == extent else None


def power_of_two(number: int) -> int:
    """The largest power of two that divides it."""
    return number & -number


def deal(loops: tuple[Loop, ...], threads: int) -> dict[str, int]:
    """How many threads each loop gets: the innermost first, powers of two, at most `threads` together. Loops that are
    copied out stay so, for a thread's registers, and those of computed extent run in each thread."""
    given: dict[str, int] = {}
    left = threads
    for kinds in (("lane",), ("seq", "thread")):
        for loop in reversed(loops):
            size = constant(loop.axis.extent)
            if loop.kind in kinds and size is not None and left > 1:
                share = gcd(power_of_two(size), left) if size else 1
                if share > 1:
                    given[loop.axis.name] = share
                    left //= share
    return given
