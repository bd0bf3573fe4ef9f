"""Gradients of rows without any element, by both conventions: see "Rows without any element" in docs/gradients.md."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tests.gradients.models import fixed, softmax, write

RNG = np.random.default_rng(0)
Q, K, V, CT = (RNG.standard_normal(shape) for shape in ((3, 2), (4, 2), (4, 5), (3, 5)))
KEEP = np.ones((3, 4), bool)
KEEP[1] = KEEP[2, 2] = False  # the second row sees nothing


def attention(q: Any, k: Any, v: Any, keep: Any) -> Any:
    xp = q.__array_namespace__()
    return softmax(xp.where(keep, q @ k.T, -xp.inf)) @ v


def without_the_row() -> list[Any]:
    """What the other two rows alone give, their q beside a row of zeros."""
    rows = [0, 2]
    names = ("q", "k", "v", "keep", "ct")
    given = (Q[rows], K, V, KEEP[rows], CT[rows])
    dq, dk, dv = write(tv.vjp(attention, (0, 1, 2)), dict(zip(names, fixed(*given), strict=True)))(*given)
    return [np.insert(dq, 1, 0.0, axis=0), dk, dv]


@pytest.mark.parametrize("empty", ["nan", "zero"])
def test_such_a_row_gives_nothing(empty: Any) -> None:
    """To q, k and v, also where its own result is nan."""
    names = ("q", "k", "v", "keep", "ct")
    given = (Q, K, V, KEEP, CT)
    found = write(tv.vjp(attention, (0, 1, 2)), dict(zip(names, fixed(*given), strict=True)), empty)(*given)
    for got, known in zip(found, without_the_row(), strict=True):
        np.testing.assert_allclose(got, known, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("empty", ["nan", "zero"])
def test_compiled(empty: Any) -> None:
    """Each row sees those before it: the first one nothing."""

    def earlier(q: Any, k: Any, v: Any) -> Any:
        i = q.__array_namespace__().arange(q.shape[0])
        return attention(q, k, v, i[None, :] < i[:, None])

    kernel = tv.compile(tv.vjp(earlier), q="n>=1 8", k="n 8", v="n 8", ct="n 8", empty=empty)
    given = [RNG.standard_normal((11, 8)) for _ in range(4)]
    known = write(tv.vjp(earlier), dict(zip(("q", "k", "v", "ct"), fixed(*given), strict=True)), empty)(*given)
    for got, theirs in zip(kernel(*(a.astype("float32") for a in given)), known, strict=True):
        assert np.isfinite(theirs).all()
        np.testing.assert_allclose(got, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("empty", ["nan", "zero"])
def test_what_reads_the_row_is_by_its_value(empty: Any) -> None:
    """o @ w: w's gradient is oᵀ·ct, and nan where o is."""

    def projected(q: Any, k: Any, v: Any, keep: Any, w: Any) -> Any:
        return attention(q, k, v, keep) @ w

    w, ct = RNG.standard_normal((5, 2)), RNG.standard_normal((3, 2))
    given = (Q, K, V, KEEP, w, ct)
    specs = dict(zip(("q", "k", "v", "keep", "w", "ct"), fixed(*given), strict=True))
    (got,) = write(tv.vjp(projected, 4), specs, empty)(*given)
    assert np.isnan(got).all() == (empty == "nan")
    if empty == "zero":
        rows = [0, 2]
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(got, attention(Q, K, V, KEEP)[rows].T @ ct[rows], rtol=1e-12)


@pytest.mark.parametrize("empty", ["nan", "zero"])
def test_tangents_are_as_the_value(empty: Any) -> None:
    ways = [RNG.standard_normal(a.shape) for a in (Q, K, V)]

    def along(q: Any, k: Any, v: Any, keep: Any, d_q: Any, d_k: Any, d_v: Any) -> Any:
        return tv.jvp(lambda q, k, v: attention(q, k, v, keep))(q, k, v, d_q, d_k, d_v)

    given = (Q, K, V, KEEP, *ways)
    specs = dict(zip(("q", "k", "v", "keep", "d_q", "d_k", "d_v"), fixed(*given), strict=True))
    for got in write(along, specs, empty)(*given):
        assert np.isfinite(got[[0, 2]]).all()
        np.testing.assert_array_equal(got[1], np.nan if empty == "nan" else 0.0)
