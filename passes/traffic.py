"""Weights for the traffic theorems, by linear programming: proposed here, checked by `proofs/traffic.py`.

    minimise Σ s_j + Σ λ_i t_i   subject to   dim H ≤ Σ_j s_j dim φ_j(H) + Σ_i t_i dim H_i   for each subspace H of the lattice

λ_i is log_M of axis i's extent: 0.1 for an axis that is short, more than 1 for one that is long. Which axes are short is not
known when a kernel is compiled, so the vertices for "all long" and "one of them short" all become claims; each of them holds
at all sizes. At given sizes `best` moves the weights off the vertices, to where the bound with its constants is largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np
from scipy.optimize import linprog, minimize

from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.traffic import (
    Bound,
    Claim,
    Matrix,
    Theorem,
    Weights,
    bound,
    image,
    lattice,
    maps_of,
    operand_maps,
    rank,
    selecting,
    tile_bytes,
    unit,
)  # fmt: skip
from tang_verified.proofs.traffic import (
    kernel as kernel_of,
)
from tang_verified.semantics.counting import extents as extents_of
from tang_verified.semantics.counting import points
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.statements import Row, Statement, work

DENOMINATOR = 60  # of weights; those of small vertices are 1/2, 1/3, 2/3, …
LONG, SHORT = 4.0, 0.1
PACES = (Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(4))


def propose(kernel: Kernel) -> tuple[Claim, ...]:
    """Claims that hold, for every statement of a kernel that has operands."""
    statements, found = work(kernel).statements, dict[Claim, None]()
    first: dict[object, int] = {}  # of statements that differ in offsets and conditions alone, one is enough
    for number, s in enumerate(statements):
        reads = tuple((a.tensor, a.rows(s.axes)) for a in s.operands)
        alike = (s.stored, s.width, len(s.outer), *(s.extent(axis) for axis in s.axes), *reads)
        if first.setdefault(alike, number) != number:
            continue
        for theorem in theorems(s):
            for costs in regimes(len(s.axes)):
                found |= dict.fromkeys(vertex(number, s, theorem, costs))
    return tuple(claim for claim in found if holds(statements, claim))


def theorems(s: Statement) -> tuple[Theorem, ...]:
    if not s.operands:
        return ()
    return ("stored",) if s.stored else ("used", "operands") if s.whole_inside() else ("operands",)


def regimes(axes: int) -> Iterator[list[float]]:
    """log_M of the extents: all long; then one short."""
    yield [LONG] * axes
    for short in range(axes):
        yield [SHORT if axis == short else LONG for axis in range(axes)]


def holds(statements: Sequence[Statement], claim: Claim) -> bool:
    try:
        bound(statements, claim)
    except Refused:
        return False
    return True


def vertex(number: int, s: Statement, theorem: Theorem, costs: Sequence[float]) -> Iterator[Claim]:
    """The claim with the weights that are least for extents of M^cost."""
    solved = cover(maps_of(s, theorem)[0], len(s.axes), costs)
    if solved is None:
        return
    arrays, axes, tile = solved
    outer: tuple[Weights, Weights] = ((), ())
    if theorem == "used":
        whole = cover(operand_maps(s, s.outer)[0], len(s.outer), costs[: len(s.outer)])
        if whole is None:
            return
        outer = whole[:2]
    yield Claim(number, theorem, arrays, axes, pace(sum(arrays, Fraction(0))), outer, () if any(axes) else tile)


def pace(total: Fraction) -> Fraction:
    """X/M where the bound is largest as the sizes grow."""
    return 1 / (total - 1) if total > 1 else Fraction(1)


def cover(
    maps: Sequence[tuple[Row, ...]], dim: int, costs: Sequence[float]
) -> tuple[Weights, Weights, Weights] | None:
    """Least weights of the maps and of the axes, and the tile on the other side, as rationals.

    None where HiGHS finds none or the lattice is too large; no tile where maps do not select axes.
    """
    if dim == 0:
        return tuple(Fraction(0) for _ in maps), (), ()
    units = [(tuple(int(i == k) for i in range(dim)),) for k in range(dim)]
    rows = conditions([*maps, *units], dim)
    if rows is None:
        return None
    dims, spaces = rows
    cost = np.array([*(1.0 for _ in maps), *costs])
    answer = linprog(cost, A_ub=-dims, b_ub=-spaces, bounds=(0, None), method="highs-ds")
    if answer.status != 0:
        return None
    exact = [Fraction(x).limit_denominator(DENOMINATOR) for x in answer.x]
    tile = [Fraction(-x).limit_denominator(DENOMINATOR) for x in answer.ineqlin.marginals] if selecting(maps) else []
    return tuple(exact[: len(maps)]), tuple(exact[len(maps) :]), tuple(tile)


def conditions(maps: Sequence[tuple[Row, ...]], dim: int) -> tuple[np.ndarray, np.ndarray] | None:
    """dims[H, j]·weights[j] ≥ spaces[H]. Where all maps select axes, the axes themselves are enough."""
    if selecting(maps):
        spaces: list[Matrix] = [(tuple(Fraction(int(i == axis)) for i in range(dim)),) for axis in range(dim)]
    else:
        found = subspaces(tuple(maps), dim)
        if found is None:
            return None
        spaces = [space for space in found if space]
    dims = np.array([[rank(image(rows, space)) for rows in maps] for space in spaces], float)
    return dims, np.array([len(space) for space in spaces], float)


@lru_cache(maxsize=512)  # a refusal, too, takes seconds, and is asked for again with each cost
def subspaces(maps: tuple[tuple[Row, ...], ...], dim: int) -> tuple[Matrix, ...] | None:
    """The lattice that the maps' kernels generate; None where it is too large."""
    try:
        return tuple(lattice([kernel_of(rows, dim) for rows in maps], dim))
    except Refused:
        return None


# -- at given sizes -------------------------------------------------------------------------------------------------


def best(
    kernel: Kernel, claims: Sequence[Claim], sizes: Mapping[str, int], capacity: int, processors: int = 1
) -> tuple[Fraction, Bound | None]:
    """The largest bound found at given sizes, and what gives it: the claims, others between them, several paces."""
    statements = work(kernel).statements
    found: tuple[Fraction, Bound | None] = (Fraction(0), None)
    for number in dict.fromkeys(claim.statement for claim in claims):
        s = statements[number]
        count, extents = points(s, sizes), extents_of(s, sizes)
        for claim in [claim for claim in claims if claim.statement == number]:
            for other in (claim, *between(s, claim, extents, capacity)):
                for step in PACES:
                    paced = replace(other, pace=other.pace * step)
                    try:
                        here = bound(statements, paced)
                    except Refused:
                        break
                    moved = here.lower_bytes(count, extents, capacity, processors)
                    found = max(found, (moved, here), key=lambda pair: pair[0])
    return found


def between(s: Statement, claim: Claim, extents: Mapping[str, int], capacity: int) -> Iterator[Claim]:
    """The weights with the least G at a footprint, off the vertices: log G is convex in them."""
    if claim.theorem == "used" or any(extents[axis] == 0 for axis in s.axes):
        return
    maps, widths = maps_of(s, claim.theorem)
    rows = conditions([*maps, *((unit(axis, s.axes),) for axis in s.axes)], len(s.axes))
    if rows is None:
        return
    dims, spaces = rows
    logs = np.array([log(extents[axis]) for axis in s.axes])
    count, footprint = len(maps), log(float((1 + claim.pace) * capacity))

    def size(weights: np.ndarray) -> float:
        arrays = np.maximum(weights[:count], 1e-12)
        total = arrays.sum()
        entropy = sum(w * (log(w) - log(float(width))) for w, width in zip(arrays, widths, strict=True))
        return float(weights[count:] @ logs + total * (footprint - log(total)) + entropy)

    start = np.array([float(w) for w in (*claim.arrays, *claim.axes)]) * 1.02 + 0.01
    limit = {"type": "ineq", "fun": lambda w: dims @ w - spaces, "jac": lambda w: dims}
    answer = minimize(size, start, bounds=[(0, None)] * len(start), constraints=limit, method="SLSQP", options={"maxiter": 60})
    for denominator in (12, DENOMINATOR):
        up = [Fraction(-int(-(x - 1e-7) * denominator // 1), denominator) for x in answer.x]
        fits = tuple(max(x, Fraction(0)) for x in up)
        yield Claim(claim.statement, claim.theorem, fits[:count], fits[count:], claim.pace)


def tile(s: Statement, extents: Mapping[str, int], capacity: int) -> tuple[dict[str, int], int]:
    """A tile that moves few bytes, and how many, as `tile_bytes` says: descent from a few starts, one or two extents a step."""
    best = _descent(s, {axis: 1 for axis in s.axes}, extents, capacity)
    for grown in (s.axes, s.outer, *((a, b) for a in s.outer for b in s.outer if a < b)):
        size, start = 1, {axis: 1 for axis in s.axes}
        while size < max(extents.values()):
            size *= 2
            wider = {axis: min(size, max(extents[axis], 1)) if axis in grown else 1 for axis in s.axes}
            if _moved(s, wider, extents, capacity) is None:
                break
            start = wider
        best = min(best, _descent(s, start, extents, capacity), key=lambda pair: pair[1])
    return best


def _descent(s: Statement, now: dict[str, int], extents: Mapping[str, int], capacity: int) -> tuple[dict[str, int], int]:
    moved = tile_bytes(s, now, extents, capacity)
    better = True
    while better:
        better = False
        for axis in s.axes:
            for other in s.axes:
                for up in (2 * now[axis], now[axis] + now[axis] // 4 + 1, now[axis] + 1, extents[axis]):
                    b = now[other]
                    for down in (b, b // 2, b - b // 4 - 1, b - 1):
                        tried = now | {other: max(down, 1)} | {axis: min(up, max(extents[axis], 1))}
                        cost = _moved(s, tried, extents, capacity)
                        if cost is not None and cost < moved:
                            now, moved, better = tried, cost, True
    return now, moved


def _moved(s: Statement, tried: Mapping[str, int], extents: Mapping[str, int], capacity: int) -> int | None:
    try:
        return tile_bytes(s, tried, extents, capacity)
    except Refused:
        return None
