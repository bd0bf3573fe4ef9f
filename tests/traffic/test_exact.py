"""Roots of rationals lie within their bounds; points and elements are those of a count one by one."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tang_verified as tv
from tang_verified.semantics.counting import elements, points
from tang_verified.semantics.radicals import floor_root, power_product
from tang_verified.semantics.statements import work

RATIONALS = st.fractions(min_value=F(1, 10**6), max_value=10**6, max_denominator=10**6)
EXPONENTS = st.fractions(min_value=-3, max_value=3, max_denominator=6)


@given(st.integers(0, 10**60), st.integers(1, 12))
def test_roots(n: int, k: int) -> None:
    r = floor_root(n, k)
    assert r**k <= n < (r + 1) ** k


@given(st.lists(st.tuples(RATIONALS, EXPONENTS), min_size=1, max_size=3))
def test_products_of_powers(pairs: list[tuple[F, F]]) -> None:
    made = power_product(pairs)
    low, high = made.lower(), made.upper()
    assert low**made.root <= made.value <= high**made.root
    assert low <= high <= low * (1 + F(1, 1 << 62))
    about = 1.0
    for base, exponent in pairs:
        about *= float(base) ** float(exponent)
    assert float(low) == pytest.approx(about, rel=1e-9)


def test_lowest_terms() -> None:
    assert (power_product([(8, F(1, 2)), (2, F(1, 2))]).value, power_product([(9, F(3, 2))]).root) == (4, 1)
    with pytest.raises(ValueError, match="not positive"):
        power_product([(0, F(1, 2))])


def strided(x: tv.spec("n m")):  # type: ignore[valid-type]
    return (x[::2, 1:] * x[::2, :-1]).sum(axis=-1)


def triangle(x: tv.spec("n m"), y: tv.spec("m")):  # type: ignore[valid-type]
    return tv.comprehension(out="i", reduce="j", body=lambda i, j: x[i, j] * y[j], where=lambda i, j: j <= 2 * i)


def windows(x: tv.spec("n>=6")):  # type: ignore[valid-type]
    return tv.comprehension(out="i", reduce="r", body=lambda i, r: x[2 * i + r], extents={"i": (x.shape[0] - 2) // 2, "r": 3})


def gathered(table: tv.spec("v d"), ids: tv.spec("n", "int32")):  # type: ignore[valid-type]
    xp = table.__array_namespace__()
    return xp.take(table, ids, axis=0).sum(axis=-1)


KNOWN: dict[str, tuple[Any, dict[str, int], Any, dict[str, int]]] = {
    "strided": (
        strided, {"n": 7, "m": 6}, lambda: 4 * 5, {"x": 4 * 6}),
    "triangle": (
        triangle, {"n": 4, "m": 9}, lambda: sum(j <= 2 * i for i, j in product(range(4), range(9))),
        {"x": sum(j <= 2 * i for i, j in product(range(4), range(9))), "y": 7}),
    "windows": (
        windows, {"n": 11}, lambda: 4 * 3, {"x": len({2 * i + r for i in range(4) for r in range(3)})}),
    "gathered": (gathered, {"v": 5, "d": 3, "n": 4}, lambda: 4 * 3, {"ids": 4, "table": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_counts(name: str) -> None:
    fn, sizes, count, touched = KNOWN[name]
    (kernel,) = tv.compile(fn).certified.kernels
    job = work(kernel)
    assert points(job.statements[0], sizes) == count()
    for tensor, number in touched.items():
        assert elements([t for t in job.touches if t.access.tensor == tensor], sizes) == number, tensor


def test_nothing_is_touched_where_there_is_nothing() -> None:
    (kernel,) = tv.compile(triangle).certified.kernels
    job = work(kernel)
    assert points(job.statements[0], {"n": 0, "m": 5}) == 0
    assert elements([t for t in job.touches if t.access.tensor == "x"], {"n": 0, "m": 5}) == 0
