"""Attention of one query split over its keys: partial states, one of them empty or all of them tiny, merged by proof."""

from __future__ import annotations

import numpy as np
import pytest

import tang_verified as tv


def decode(q, k, v):
    xp = q.__array_namespace__()
    s = q @ k.mT / 8.0
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


@pytest.fixture(scope="module")
def kernel():
    return tv.compile(decode, q="h 1 64", k="h m 64", v="h m 64", schedule={"splits": 4}, name="decode_split")


def test_it_is_split(kernel) -> None:
    assert len(kernel.certified.kernels) == 1
    assert "part_state" in kernel.source, kernel.notes
    assert not [note for note in kernel.notes if note.startswith("schedule")]


@pytest.mark.parametrize("m", [1, 2, 255, 256, 257, 1024, 1025, 4111])
def test_parts_that_are_empty_or_ragged(kernel, m: int) -> None:
    rng = np.random.default_rng(m)
    q, k, v = (rng.standard_normal((3, rows, 64), dtype=np.float32) for rows in (1, m, m))
    exact = decode(*(x.astype(np.float64) for x in (q, k, v)))
    np.testing.assert_allclose(kernel(q, k, v), exact, rtol=2e-5, atol=2e-6)


def test_scores_below_minus_1e5(kernel) -> None:
    rng = np.random.default_rng(3)
    q = np.full((1, 1, 64), 100.0, np.float32) + rng.standard_normal((1, 1, 64), dtype=np.float32)
    k = np.full((1, 700, 64), -200.0, np.float32) + rng.standard_normal((1, 700, 64), dtype=np.float32) / 64
    v = rng.standard_normal((1, 700, 64), dtype=np.float32)
    exact = decode(*(x.astype(np.float64) for x in (q, k, v)))
    assert (q[0] @ k[0].T / 8).max() < -1e5
    np.testing.assert_allclose(kernel(q, k, v), exact, rtol=0.1, atol=0.02)  # the scores themselves are rounded to 1/64


@pytest.mark.parametrize("schedule", [{}, {"keep": 1}, {"tile": 64}, {"style": "plain"}])
def test_softmax_by_every_schedule(schedule: dict) -> None:
    def softmax(x):
        xp = x.__array_namespace__()
        e = xp.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    kernel = tv.compile(softmax, x="n m", schedule=schedule, name="softmax_" + "_".join(schedule))
    for n, m in ((1, 1), (5, 16), (7, 1031)):
        x = np.random.default_rng(m).standard_normal((n, m), dtype=np.float32)
        np.testing.assert_allclose(kernel(x), softmax(x.astype(np.float64)), rtol=2e-6)
