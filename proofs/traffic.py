"""Checked lower bounds on traffic: the theorems of docs/traffic_bounds.md, applied to a kernel's own statements.

A *claim* names a statement, a theorem and weights. What must hold is derived here from the kernel: its maps, the rank
conditions on the weights, the number of points. Everything is exact; there is no solver. A claim holds for all sizes and
all capacities; `lower_bytes` gives its bytes at one size and capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm, prod
from typing import Any, Literal

from tang_verified.proofs.ledger import Refused
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.radicals import Radical, power_product
from tang_verified.semantics.serial import fields, fraction, items, one_of, text, whole
from tang_verified.semantics.statements import Row, Statement, work

DENOMINATOR = 2520  # of all weights of a claim together, at most, so that exact roots stay small
LATTICE = 512  # subspaces, at most
Matrix = tuple[tuple[Fraction, ...], ...]  # a basis in reduced echelon form
Weights = tuple[Fraction, ...]
Theorem = Literal["operands", "stored", "used"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Weights for a statement's maps: of the operands (and, but for theorem "operands", of the result), and of its axes.

    `pace` is X as a multiple of M. `outer`: for theorem "used", weights of operands and outer axes on whole results.
    `tile`: log_M of a tile's extents, the other side of the linear program: equal sums show that both are the best.
    """

    statement: int
    theorem: Theorem
    arrays: Weights
    axes: Weights
    pace: Fraction
    outer: tuple[Weights, Weights] = ((), ())
    tile: Weights = ()


@dataclass(frozen=True, slots=True)
class Form:
    """G(F) = F^power · constant · Π extent^weight: how many points a footprint of F bytes has, at most."""

    power: Fraction
    constant: Radical
    extents: tuple[tuple[str, Fraction], ...]

    def said(self, name: str, times: Fraction) -> str:
        """G at `times`·M, in words."""
        factor = power_product([(times, self.power), (self.constant.value, Fraction(1, self.constant.root))])
        extents = "".join(f"·{axis}{exponent(weight)}" for axis, weight in self.extents)
        return f"{factor}·{name}{exponent(self.power)}{extents}"

    def at(self, footprint: Fraction, extents: Mapping[str, int]) -> Fraction:
        """An upper bound at a footprint in bytes."""
        if footprint <= 0 or any(extents[axis] == 0 for axis, _ in self.extents):
            return Fraction(0)
        factors = [(footprint, self.power), (self.constant.value, Fraction(1, self.constant.root))]
        return power_product([*factors, *((extents[axis], weight) for axis, weight in self.extents)]).upper()


@dataclass(frozen=True, slots=True)
class Bound:
    """A claim that holds: pieces of X = pace·M bytes have at most `part`(M + X) points (theorem "used": `part`(2M + X)
    and `whole`(M + X))."""

    claim: Claim
    part: Form
    whole: Form | None = None

    def said(self, s: Statement) -> str:
        """The bound in words; M is in bytes, and so is Q."""
        claim = self.claim
        m = f"{claim_word(claim.pace)}M"
        most = self.part.said("M", 2 + claim.pace if self.whole else 1 + claim.pace)
        if self.whole is not None:
            most = f"({most} + {self.whole.said('M', 1 + claim.pace)})"
        where = "".join(f", where {text}" for text in s.place.assumes)
        return f"{elided(s.text)}: Q ≥ {m}·(⌈N / {most}⌉ − 1), N points ({', '.join(s.axes)}), theorem {claim.theorem}{where}"

    def leading(self) -> Radical:
        """c of Q ≥ c·N·M^(1 − power)/Π extent^weight − pace·M, which (1) gives where one form bounds the points."""
        if self.whole is not None:
            raise ValueError("theorem used has two forms")
        pace, constant = self.claim.pace, self.part.constant
        return power_product([(pace, 1), (1 + pace, -self.part.power), (constant.value, Fraction(-1, constant.root))])

    def lower_bytes(self, points: int, extents: Mapping[str, int], capacity: int, processors: int = 1) -> Fraction:
        """Bytes that every execution moves across the boundary of a fast memory of `capacity` bytes (of each processor's)."""
        x = self.claim.pace * capacity
        most = self.part.at((2 * capacity if self.whole else capacity) + x, extents)
        if self.whole is not None:
            most += self.whole.at(capacity + x, extents)
        if most == 0 or points == 0:
            return Fraction(0)
        return max(Fraction(0), x * (-(-points // most) - processors))


def bound(statements: Sequence[Statement], claim: Claim) -> Bound:
    """The bound that a claim gives, or `Refused` where a condition of its theorem does not hold."""
    if not 0 <= claim.statement < len(statements):
        raise refused("", f"there is no statement {claim.statement}")
    s = statements[claim.statement]
    if not 0 < claim.pace < DENOMINATOR or claim.pace.denominator > DENOMINATOR:
        raise refused(s.tensor, f"pieces of {claim.pace} M bytes")
    weights = (*claim.arrays, *claim.axes, *claim.outer[0], *claim.outer[1], *claim.tile)
    if lcm(*(w.denominator for w in weights)) > DENOMINATOR or any(abs(w) > DENOMINATOR for w in weights):
        raise refused(s.tensor, f"weights are multiples of 1/k for one k up to {DENOMINATOR}, and as small")
    if claim.theorem == "stored" and not s.stored:
        raise refused(s.tensor, f"the results of {s.text} are not the output's elements")
    maps, widths = maps_of(s, claim.theorem)
    part = form(s, s.axes, maps, widths, claim.arrays, claim.axes)
    check_tile(s, maps, claim)
    if claim.theorem != "used":
        if claim.outer != ((), ()):
            raise refused(s.tensor, f"weights that theorem {claim.theorem} does not have")
        return Bound(claim, part)
    if not s.whole_inside():
        raise refused(s.tensor, f"{s.text} folds other points for other results")
    return Bound(claim, part, whole_results(s, *claim.outer))


def maps_of(s: Statement, theorem: Theorem) -> tuple[list[tuple[Row, ...]], list[Fraction]]:
    """The maps that a theorem gives weights to, and the widths of their elements: operands, then the result."""
    maps, widths = operand_maps(s, s.axes)
    if theorem != "operands":
        maps.append(tuple(unit(axis, s.axes) for axis in s.outer))
        widths.append(Fraction(s.width, s.alike))
    return maps, widths


def operand_maps(s: Statement, axes: tuple[str, ...]) -> tuple[list[tuple[Row, ...]], list[Fraction]]:
    """The maps of a statement's operands and the widths of their elements, each shared by the reads of one tensor."""
    maps, widths = [], []
    distinct = tuple(dict.fromkeys((a.tensor, a.width, a.rows(s.axes)) for a in s.operands))
    columns = [s.axes.index(axis) for axis in axes]
    for tensor, width, rows in distinct:
        maps.append(tuple(dict.fromkeys(r for row in rows if any(r := tuple(row[c] for c in columns)))))
        widths.append(Fraction(width, sum(1 for other, _, _ in distinct if other == tensor)))
    return maps, widths


def exponent(value: Fraction) -> str:
    return "" if value == 1 else f"^{value}" if value.denominator == 1 and value >= 0 else f"^({value})"


def claim_word(pace: Fraction) -> str:
    return "" if pace == 1 else f"{pace}·" if pace.denominator == 1 else f"({pace})·"


def elided(text: str, width: int = 100) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def refused(place: str, why: str) -> Refused:
    return Refused("traffic", place, "disproved", why)


def unit(axis: str, axes: tuple[str, ...]) -> Row:
    return tuple(int(axis == other) for other in axes)


def form(
    s: Statement, axes: tuple[str, ...], maps: Sequence[tuple[Row, ...]], widths: Sequence[Fraction], arrays: Weights,
    extents: Weights,
) -> Form:  # fmt: skip
    """|E| ≤ T·Π|φ_j(E)|^{s_j}, made the largest over footprints of F bytes in all: T (F/σ)^σ Π (s_j/w_j)^{s_j}."""
    if len(arrays) != len(maps) or len(extents) != len(axes) or any(w < 0 for w in (*arrays, *extents)):
        raise refused(s.tensor, f"{len(maps)} maps and {len(axes)} axes do not have the weights given")
    every = [*maps, *((unit(axis, axes),) for axis in axes)]
    problem = uncovered(every, (*arrays, *extents), len(axes))
    if problem:
        raise refused(s.tensor, f"the weights do not cover {problem}")
    total = sum(arrays, Fraction(0))
    pairs = [(weight / width, weight) for weight, width in zip(arrays, widths, strict=True) if weight]
    if total:
        pairs.append((1 / total, total))
    named = tuple((axis, weight) for axis, weight in zip(axes, extents, strict=True) if weight)
    return Form(total, power_product(pairs), named)


def check_tile(s: Statement, maps: Sequence[tuple[Row, ...]], claim: Claim) -> None:
    """A tile of M^x_i points along each axis has at most M of each array, and as many points in all as the weights allow."""
    if not claim.tile:
        return
    if any(claim.axes) or len(claim.tile) != len(s.axes) or any(x < 0 for x in claim.tile) or not selecting(maps):
        raise refused(s.tensor, "a tile stands beside weights of arrays alone, with one exponent for each axis")
    for rows in maps:
        if sum((x for k, x in enumerate(claim.tile) if any(row[k] for row in rows)), Fraction(0)) > 1:
            raise refused(s.tensor, "the tile has more than M elements of an array")
    held, allowed = sum(claim.tile, Fraction(0)), sum(claim.arrays, Fraction(0))
    if held != allowed:
        raise refused(s.tensor, f"the tile has M^{held} points, the weights allow M^{allowed}")


def selecting(maps: Sequence[tuple[Row, ...]]) -> bool:
    """Whether each coordinate of each map is one axis."""
    return all(sum(map(bool, row)) == 1 for rows in maps for row in rows)


def tile_bytes(s: Statement, tile: Mapping[str, int], extents: Mapping[str, int], capacity: int) -> int:
    """Bytes that a schedule moves which goes through the box tile by tile, inner axes fastest, results staying.

    An upper bound on what is needed, by that schedule. Raises `Refused` where the tile does not fit, or a map is not affine.
    """
    if set(tile) != set(s.axes) or any(not 1 <= tile[axis] <= max(extents[axis], 1) for axis in s.axes):
        raise refused(s.tensor, "a tile has an extent for each axis, from 1 to that of the axis")
    if not all(access.linear(s.axes) for access in s.operands):
        raise refused(s.tensor, "an index that is no linear form of the axes")
    held = s.width * prod(tile[axis] for axis in s.outer)
    moved = s.width * prod(extents[axis] for axis in s.outer) if s.stored else 0
    for access in dict.fromkeys((a.tensor, a.width, a.rows(s.axes)) for a in s.operands):
        _, width, rows = access
        own = {axis for k, axis in enumerate(s.axes) if any(row[k] for row in rows)}
        points = prod(sum(abs(c) * (tile[a] - 1) for c, a in zip(row, s.axes, strict=True)) + 1 for row in rows)
        held += width * points
        # what knows some fold axes only comes again for each tile of the others, if those run outside
        inside = [axis for axis in s.inner if axis not in own and set(s.inner) & own]
        times = prod(-(-extents[axis] // tile[axis]) for axis in s.axes if axis in own or axis in s.outer or axis in inside)
        if selecting([rows]) and len(rows) == len(own):
            again = prod(-(-extents[axis] // tile[axis]) for axis in (*s.outer, *inside) if axis not in own)
            moved += width * prod(extents[axis] for axis in own) * again
        else:
            moved += width * points * times
    if held > capacity:
        raise refused(s.tensor, f"the tile takes {held} bytes of {capacity}")
    return moved


def whole_results(s: Statement, arrays: Weights, extents: Weights) -> Form:
    """G': points of results whose r points all lie in one piece. Operand j has r_j elements an image of an outer point."""
    outer, widths = operand_maps(s, s.outer)
    maps, _ = operand_maps(s, s.axes)
    if not selecting(maps):
        raise refused(s.tensor, "theorem used is for operands that select axes")
    base = form(s, s.outer, outer, widths, arrays, extents)
    inner = {axis: Fraction(1) for axis in s.inner}  # r, divided by r_j to the power of operand j's weight
    for rows, weight in zip(maps, arrays, strict=True):
        for axis in s.inner:
            if any(row[s.axes.index(axis)] for row in rows):
                inner[axis] -= weight
    return Form(base.power, base.constant, (*base.extents, *((axis, w) for axis, w in inner.items() if w)))


# -- the rank conditions --------------------------------------------------------------------------------------------


def uncovered(maps: Sequence[tuple[Row, ...]], weights: Sequence[Fraction], dim: int) -> str:
    """A subspace H with dim H > Σ weight · dim φ(H), in words; empty where there is none."""
    used = [(rows, weight) for rows, weight in zip(maps, weights, strict=True) if weight]
    if selecting([rows for rows, _ in used]):  # then the axes are enough (the case of Loomis and Whitney)
        for axis in range(dim):
            if sum((weight for rows, weight in used if any(row[axis] for row in rows)), Fraction(0)) < 1:
                return f"axis {axis}"
        return ""
    for space in lattice([kernel(rows, dim) for rows, _ in used], dim):
        if len(space) > sum((weight * rank(image(rows, space)) for rows, weight in used), Fraction(0)):
            return f"the subspace of {[[str(c) for c in row] for row in space]}"
    return ""


def lattice(generators: Iterable[Matrix], dim: int) -> tuple[Matrix, ...]:
    """All subspaces that arise from these, and the whole space, by sums and intersections."""
    return _closed(frozenset(generators), dim)


@lru_cache(maxsize=64)
def _closed(generators: frozenset[Matrix], dim: int) -> tuple[Matrix, ...]:
    whole = tuple(tuple(Fraction(int(i == j)) for j in range(dim)) for i in range(dim))
    found: dict[Matrix, None] = {whole: None, **dict.fromkeys(sorted(generators))}
    fresh = list(found)
    while fresh:
        made: dict[Matrix, None] = {}
        for a in fresh:
            for b in list(found):
                made |= {echelon((*a, *b)): None, intersection(a, b, dim): None}
        fresh = [space for space in made if space not in found]
        found |= dict.fromkeys(fresh)
        if len(found) > LATTICE:
            raise refused("", f"the kernels of the maps generate more than {LATTICE} subspaces")
    return tuple(found)


def echelon(rows: Iterable[Sequence[Fraction | int]]) -> Matrix:
    """The reduced echelon form without zero rows: one name for each subspace."""
    matrix = [[Fraction(c) for c in row] for row in rows]
    pivot = 0
    for column in range(len(matrix[0]) if matrix else 0):
        at = next((r for r in range(pivot, len(matrix)) if matrix[r][column]), None)
        if at is None:
            continue
        matrix[pivot], matrix[at] = matrix[at], matrix[pivot]
        head = matrix[pivot][column]
        matrix[pivot] = [c / head for c in matrix[pivot]]
        for r, row in enumerate(matrix):
            if r != pivot and row[column]:
                matrix[r] = [c - row[column] * p for c, p in zip(row, matrix[pivot], strict=True)]
        pivot += 1
    return tuple(tuple(row) for row in matrix[:pivot])


def kernel(rows: Iterable[Sequence[Fraction | int]], dim: int) -> Matrix:
    """The vectors that every row sends to 0."""
    matrix = echelon(rows)
    pivots = [next(k for k, c in enumerate(row) if c) for row in matrix]
    basis = []
    for free in (k for k in range(dim) if k not in pivots):
        vector = [Fraction(int(k == free)) for k in range(dim)]
        for row, pivot in zip(matrix, pivots, strict=True):
            vector[pivot] = -row[free]
        basis.append(vector)
    return echelon(basis)


def intersection(a: Matrix, b: Matrix, dim: int) -> Matrix:
    """Vectors in both: those that the equations of both send to 0."""
    return kernel((*kernel(a, dim), *kernel(b, dim)), dim)


def image(rows: Iterable[Row], space: Matrix) -> list[list[Fraction]]:
    return [[sum((c * v for c, v in zip(row, vector, strict=True)), Fraction(0)) for row in rows] for vector in space]


def rank(matrix: Sequence[Sequence[Fraction]]) -> int:
    return len(echelon(matrix))


# -- in a certificate -----------------------------------------------------------------------------------------------


def recorded(kernel: Kernel, claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """The claims of one kernel, each with what it says; `Refused` where one does not hold."""
    statements = work(kernel).statements
    out = []
    for claim in claims:
        found = bound(statements, claim)
        out.append({
            "statement": claim.statement, "theorem": claim.theorem, "arrays": [*map(str, claim.arrays)],
            "axes": [*map(str, claim.axes)], "pace": str(claim.pace), "outer": [[*map(str, w)] for w in claim.outer],
            "tile": [*map(str, claim.tile)], "says": found.said(statements[claim.statement]),
        })  # fmt: skip
    return out


def read_claim(data: Any, what: str) -> Claim:
    """A claim as the file states it, not believed. What it says in words is compared when it is checked."""
    d = fields(data, ("statement", "theorem", "arrays", "axes", "pace", "outer", "tile", "says"), what)
    text(d["says"], what, 2000)
    first, second = items(d["outer"], what, 2)
    return Claim(
        whole(d["statement"], what), one_of(d["theorem"], ("operands", "stored", "used"), what), _weights(d["arrays"], what),
        _weights(d["axes"], what), fraction(d["pace"], what), (_weights(first, what), _weights(second, what)),
        _weights(d["tile"], what),
    )  # fmt: skip


def _weights(data: Any, what: str) -> Weights:
    return tuple(fraction(entry, what) for entry in items(data, what))
