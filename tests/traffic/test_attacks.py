"""What an attacker made the bounds say that was false; each with what is true."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import tang_verified as tv
from tang_verified.bounds import traffic
from tang_verified.semantics.statements import work
from tests.traffic.pebbles import Operation, least_traffic

FIRST = tv.monoid("first", identity=(0.0, 0.0), combine=lambda p, q: (p[0] + q[0], p[1] + q[1]))


def gram(a: tv.spec("n k")):  # type: ignore[valid-type]
    return a @ a.T


def gathered_and_read(t: tv.spec("v c"), i: tv.spec("1 int32")):  # type: ignore[valid-type]
    xp = t.__array_namespace__()
    return xp.take(t, i, axis=0)[0] + t[5]


def one_of_two(m: tv.spec("n"), a: tv.spec("n"), b: tv.spec("n")):  # type: ignore[valid-type]
    xp = a.__array_namespace__()
    return xp.exp(xp.where(m > 0, a, 0.0)) + xp.where(m > 0, 0.0, b)


def a_field_of_no_use(a: tv.spec("n"), b: tv.spec("n")):  # type: ignore[valid-type]
    return tv.comprehension(out="", reduce="i", body=lambda i: (a[i], b[i]), finish=lambda p, q: p, monoid=FIRST)


def differences(a: tv.spec("u v"), b: tv.spec("u w")):  # type: ignore[valid-type]
    return tv.comprehension(out="n", reduce="p q", body=lambda n, p, q: abs(a[n, p] - b[n, q]))


def only(fn: Callable[..., Any]) -> Any:
    return tv.compile(fn).certified.kernels[-1]


def test_one_value_for_two_results() -> None:
    """Triangular blocks (Beaumont et al. 2022) hold a[i]·a[j] once for (i, j) and (j, i)."""
    groups, rows, tile, length = 44, 1009, 30, 10_000
    n, elements = groups * rows, groups * (groups - 1) // 2 + groups
    tiles = -(-rows // tile)
    schedule = rows * rows * groups * length + groups * (tiles * (tiles + 1) // 2) * 2 * tile * length + n * n
    assert tile * tile + 2 * tile <= elements
    assert traffic(only(gram), {"n": n, "k": length}, 4 * elements, tiled=False).bytes <= 4 * schedule
    assert [s.alike for s in work(only(gram)).statements] == [2]


@pytest.mark.parametrize(("fn", "sizes", "most"), [
    (gathered_and_read, {"v": 10, "c": 1000}, 8004),  # i = [5]: one row
    (one_of_two, {"n": 1000}, 12000),
    (a_field_of_no_use, {"n": 1000}, 4004),
])  # fmt: skip
def test_no_more_than_is_needed(fn: Callable[..., Any], sizes: dict[str, int], most: int) -> None:
    assert traffic(only(fn), sizes, 256).bytes <= most


def test_the_words_say_what_is_assumed() -> None:
    def sometimes(m: tv.spec("n"), a: tv.spec("n k"), b: tv.spec("k n")):  # type: ignore[valid-type]
        xp = a.__array_namespace__()
        return xp.where(m[:, None] > 0, a @ b, 0.0)

    said = [line for line in tv.compile(sometimes).explain().splitlines() if "Q ≥" in line]
    assert said and all("where (0 < m[i0])" in line for line in said)


def test_what_knows_one_fold_axis_comes_again_for_the_other() -> None:
    made = [Operation("o", (f"a{p}", f"b{q}")) for p, q in product(range(3), repeat=2)]
    found = traffic(only(differences), {"u": 1, "v": 3, "w": 3}, 12)
    assert found.tile_bytes is None or found.tile_bytes >= 4 * least_traffic(made, ["o"], 3, again=True)
    large = traffic(only(differences), {"u": 1, "v": 10_000, "w": 10_000}, 64)
    assert large.tile_bytes is not None and large.tile_bytes >= large.bytes
