"""The bounds never exceed what an exhaustive search finds, and have the closed forms that are known."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from functools import cache
from itertools import product
from typing import Any

import pytest

import tang_verified as tv
from tang_verified.bounds import traffic
from tang_verified.passes.traffic import propose
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.traffic import Bound, Claim, bound, tile_bytes
from tang_verified.semantics.counting import extents, points
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.statements import Statement, work
from tests.traffic.pebbles import Operation, least_traffic


def matmul(a: tv.spec("n k"), b: tv.spec("k m")):  # type: ignore[valid-type]
    return a @ b


def matvec(a: tv.spec("n m"), x: tv.spec("m")):  # type: ignore[valid-type]
    return a @ x


def bodies(x: tv.spec("n")):  # type: ignore[valid-type]
    xp = x.__array_namespace__()
    return (1 / (1 + (x[:, None] - x[None, :]) ** 2) * xp.exp(x)[None, :]).sum(axis=-1)


def attention(q: tv.spec("n d"), k: tv.spec("m d"), v: tv.spec("m e")):  # type: ignore[valid-type]
    xp = q.__array_namespace__()
    s = q @ k.T
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return (p @ v) / p.sum(axis=-1, keepdims=True)


def scores_times_values(q: tv.spec("n d"), k: tv.spec("m d"), v: tv.spec("m")):  # type: ignore[valid-type]
    xp = q.__array_namespace__()
    return xp.exp(q @ k.T) @ v


def window(x: tv.spec("c n>=3"), w: tv.spec("o c 3")):  # type: ignore[valid-type]
    return tv.comprehension(
        out="p i", reduce="q r", body=lambda p, i, q, r: w[p, q, r] * x[q, i + r], extents={"i": x.shape[1] - 2}
    )


@cache
def kernel(fn: Callable[..., Any], **specs: str) -> Kernel:
    (only,) = tv.compile(fn, **specs).certified.kernels
    return only


def claims(fn: Callable[..., Any]) -> list[tuple[Statement, Claim, Bound]]:
    statements = work(kernel(fn)).statements
    return [(statements[c.statement], c, bound(statements, c)) for c in propose(kernel(fn))]


# -- tiny instances against every schedule -----------------------------------------------------------------------------


def products(n: int, m: int, k: int) -> tuple[list[Operation], list[str]]:
    made = [Operation(f"c{i}{j}", (f"a{i}{l}", f"b{l}{j}")) for i, j, l in product(range(n), range(m), range(k))]
    return made, sorted({op.result for op in made})


def pairs(n: int) -> tuple[list[Operation], list[str]]:
    made = [Operation(f"f{i}", tuple(sorted({f"x{i}", f"x{j}"}))) for i, j in product(range(n), repeat=2)]
    return made, [f"f{i}" for i in range(n)]


def weighted(n: int, m: int, d: int) -> tuple[list[Operation], list[str]]:
    made = [Operation(f"s{i}{j}", (f"q{i}{l}", f"k{j}{l}")) for i, j, l in product(range(n), range(m), range(d))]
    made += [Operation(f"o{i}", (f"s{i}{j}", f"v{j}")) for i, j in product(range(n), range(m))]
    return made, [f"o{i}" for i in range(n)]


PRODUCTS = [(2, 2, 2), (1, 3, 3), (3, 3, 1), (3, 2, 2), (2, 3, 2)]


@pytest.mark.parametrize("shape", PRODUCTS)
@pytest.mark.parametrize("capacity", [3, 4, 5])
def test_products(shape: tuple[int, int, int], capacity: int) -> None:
    n, m, k = shape
    least = least_traffic(*products(n, m, k), capacity)
    found = traffic(kernel(matmul), {"n": n, "m": m, "k": k}, 4 * capacity)
    assert found.compulsory == 4 * (n * k + k * m + n * m) <= found.bytes <= 4 * least
    assert found.tile_bytes is None or found.tile_bytes >= 4 * least


@pytest.mark.parametrize(("shape", "capacity"), [((3, 3), 3), ((2, 4), 3), ((4, 2), 3), ((3, 3), 4)])
def test_matrix_times_vector(shape: tuple[int, int], capacity: int) -> None:
    n, m = shape
    least = least_traffic(*products(n, 1, m), capacity)
    assert traffic(kernel(matvec), {"n": n, "m": m}, 4 * capacity).bytes <= 4 * least


@pytest.mark.parametrize(("n", "capacity"), [(3, 3), (4, 3), (4, 4)])
def test_pairs(n: int, capacity: int) -> None:
    least = least_traffic(*pairs(n), capacity)
    assert traffic(kernel(bodies), {"n": n}, 4 * capacity).bytes <= 4 * least


@pytest.mark.parametrize(("shape", "capacity"), [((2, 2, 1), 3), ((2, 2, 1), 4), ((1, 2, 2), 3), ((2, 1, 2), 4)])
@pytest.mark.parametrize("again", [False, True])
def test_results_that_are_used(shape: tuple[int, int, int], capacity: int, again: bool) -> None:
    n, m, d = shape
    least = least_traffic(*weighted(n, m, d), capacity, again=again)
    assert traffic(kernel(scores_times_values), {"n": n, "m": m, "d": d}, 4 * capacity).bytes <= 4 * least


def test_a_bound_that_says_more_than_compulsory() -> None:
    """The search has to move more than everything once, and the bound knows a part of it."""
    assert least_traffic(*products(2, 2, 2), 3) == 17
    found = [traffic(kernel(matmul), {"n": n, "m": n, "k": n}, 12) for n in (4, 6, 8)]
    assert [b.bytes > b.compulsory for b in found] == [True, True, True]


@pytest.mark.parametrize("capacity", [12, 20, 40, 96])
def test_every_tiling_of_a_small_nest(capacity: int) -> None:
    sizes = {"n": 6, "m": 5, "k": 7}
    (s,) = work(kernel(matmul)).statements
    ends = extents(s, sizes)
    moved = []
    for shape in product(*(range(1, ends[axis] + 1) for axis in s.axes)):
        try:
            moved.append(tile_bytes(s, dict(zip(s.axes, shape, strict=True)), ends, capacity))
        except Refused:
            continue
    found = traffic(kernel(matmul), sizes, capacity)
    assert found.bytes <= min(moved)
    assert found.tile_bytes is None or found.tile_bytes == min(moved)


# -- closed forms --------------------------------------------------------------------------------------------------------


def test_the_product_of_matrices() -> None:
    """Q ≥ 2 n m k/√M - 2 M in elements (Smith, Lowery, Langou, van de Geijn 2019): with M in bytes, 16 n m k/√M - 2 M bytes."""
    s, claim, found = claims(matmul)[0]
    assert (claim.theorem, claim.arrays, claim.axes, claim.pace) == ("stored", (F(1, 2),) * 3, (0, 0, 0), 2)
    assert claim.tile == (F(1, 2), F(1, 2), F(1, 2))
    assert found.part.power == F(3, 2) and (found.leading().value, found.leading().root) == (16, 1)
    n, elements = 5000, 1 << 14
    exact = 2 * n**3 / F(128) - 2 * elements
    bytes_ = found.lower_bytes(n**3, dict.fromkeys(s.axes, n), 4 * elements)
    assert 4 * exact <= bytes_ <= 4 * (exact + 2 * elements)


def test_a_matrix_times_a_vector() -> None:
    """Every element of the matrix is used once: n m elements, whatever the memory."""
    found = traffic(kernel(matvec), {"n": 3000, "m": 5000}, 1 << 12)
    assert found.bytes == 4 * (3000 * 5000 + 5000 + 3000)
    assert any(claim.arrays[0] == 1 and sum(claim.arrays) == 1 for _, claim, _ in claims(matvec))


def test_pairs_of_bodies() -> None:
    """n²/M with its constant: two reads of one array and the result share the memory."""
    best = max(
        (b for _, c, b in claims(bodies) if not any(c.axes)), key=lambda b: b.lower_bytes(10**10, {"i0": 10**5, "j": 10**5}, 4096)
    )
    assert best.part.power == 2 and best.claim.pace == 1
    n, elements = 10**5, 1 << 10
    moved = best.lower_bytes(n * n, {"i0": n, "j": n}, 4 * elements)
    assert 4 * (F(n * n, 4 * elements) - 2 * elements) <= moved <= 4 * F(n * n, elements)


def test_exact_attention() -> None:
    """n²d²/M for M ≥ d² and n²d/√M below (Saha, Ye 2024), within the constants of theorem 2."""
    d = 64
    for elements, published in ((d**2 * 4, lambda n, m: F(n * n * d * d, m)), (d**2 // 16, lambda n, m: F(n * n * d * 16, d * 4))):
        n = 1 << 16
        found = traffic(kernel(attention), {"n": n, "m": n, "d": d, "e": d}, 4 * elements)
        ratio = F(found.bytes, 4) / published(n, elements)
        assert F(1, 4) < ratio < 4, (elements, float(ratio))


def test_a_small_filter() -> None:
    """A window's map i + r is no projection: the plane of i and r needs weight 2, or half of r's extent (Demmel, Dinh 2018)."""
    (s,) = work(kernel(window)).statements
    rows = [a.rows(s.axes) for a in s.operands]
    assert any(sum(map(bool, row)) == 2 for access in rows for row in access)
    short = [b for _, c, b in claims(window) if (c.arrays, c.axes) == ((F(1, 2),) * 3, (0, 0, 0, F(1, 2)))]
    assert [(b.part.power, b.leading().value, b.leading().root) for b in short] == [(F(3, 2), 16, 1)]
    sizes = {"c": 64, "n": 4096, "o": 64}
    plain = traffic(kernel(window), sizes, 1 << 13)
    assert plain.bytes > plain.compulsory == 4 * (64 * 4096 + 64 * 64 * 3 + 64 * 4094)
    assert plain.tile_bytes is not None and plain.bytes <= plain.tile_bytes


@pytest.mark.parametrize("elements", [64, 300, 1000, 5000])
@pytest.mark.parametrize("shape", [(96, 80, 112), (500, 8, 500), (2, 700, 700), (1000, 1000, 2)])
def test_between_bound_and_tile(shape: tuple[int, int, int], elements: int) -> None:
    """The tile is a schedule: the bound lies below it, and not far."""
    sizes = dict(zip(("n", "m", "k"), shape, strict=True))
    (s,) = work(kernel(matmul)).statements
    found = traffic(kernel(matmul), sizes, 4 * elements)
    if found.tile_bytes is not None:
        assert found.bytes <= found.tile_bytes <= 6 * found.bytes
    assert points(s, sizes) == shape[0] * shape[1] * shape[2]
