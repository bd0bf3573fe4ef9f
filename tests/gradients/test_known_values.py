"""Gradients that others are known to get wrong, and the values that they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tests.gradients.models import attention, elementwise, gradients, log_sum_exp, pool, softmax, unary, write


def masked_log_sum_exp(x: Any, keep: Any) -> Any:
    xp = x.__array_namespace__()
    s = xp.where(keep, x, -xp.inf)
    m = s.max()
    return m + xp.log(xp.exp(s - m).sum())


def causal(q: Any, k: Any, v: Any) -> Any:
    """The last query level with the last key: with more queries than keys the first see none."""
    xp = q.__array_namespace__()
    i, j = xp.arange(q.shape[0])[:, None] + (k.shape[0] - q.shape[0]), xp.arange(k.shape[0])[None, :]
    return softmax(xp.where(j <= i, q @ k.T * 0.5, -xp.inf)) @ v


def plain_causal(q: Any, k: Any, v: Any, ct: Any) -> tuple[Any, Any, Any]:
    """dq, dk, dv by the textbook, rows that see no key left out."""
    n, m = len(q), len(k)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i in range(n):
        seen = np.arange(m) <= i + m - n
        if seen.any():
            s = np.where(seen, q[i] @ k.T * 0.5, -np.inf)
            p = np.exp(s - s.max())
            p /= p.sum()
            dp = v @ ct[i]
            ds = p * (dp - p @ dp) * 0.5
            dq[i], dk, dv = ds @ k, dk + np.outer(ds, q[i]), dv + np.outer(p, ct[i])
    return dq, dk, dv


def test_masked_log_sum_exp() -> None:
    """A mask by −1e9, or by 0·∞, gives nan here, or takes weight from what is not masked."""
    (got,) = gradients(masked_log_sum_exp, [np.array([0.0, 100.0]), np.array([True, False])])
    np.testing.assert_array_equal(got, [1.0, 0.0])


def test_compiled_masked_log_sum_exp() -> None:
    got = tv.grad(masked_log_sum_exp)(np.array([0.0, 100.0]), np.array([True, False]))
    np.testing.assert_array_equal(got, [1.0, 0.0])


def test_logaddexp_at_a_tie() -> None:
    for at in (1.0, 0.0, -1000.0, 1e300):
        got = gradients(elementwise("xp.logaddexp(x, y)"), [np.array([at]), np.array([at])])
        np.testing.assert_array_equal(np.concatenate(got), [0.5, 0.5])


def test_maximum_of_many_equal_float16() -> None:
    """70,000 is no float16: a count in float16 would be infinite, and the gradient 0."""
    got = tv.grad(lambda x: x.max())(np.ones(70_000, np.float16))
    assert got.dtype == np.float16 and np.all(got == np.float16(1 / 70_000)) and got[0] > 0


def test_ties_of_a_maximum_share_evenly() -> None:
    x = np.array([[3.0, 1.0, 3.0, 3.0], [2.0, 2.0, 2.0, 2.0], [0.0, -1.0, 5.0, 4.0]])
    (got,) = gradients(unary("xp.max(x, axis=1)"), [x])
    np.testing.assert_allclose(got, [[1 / 3, 0, 1 / 3, 1 / 3], [1 / 4] * 4, [0, 0, 1, 0]])
    (got,) = gradients(unary("xp.max(x)"), [x])
    np.testing.assert_array_equal(got, x == 5.0)


def test_ties_within_overlapping_windows() -> None:
    """Each window of three equal ones gives a third to each of its elements."""
    (got,) = gradients(pool, [np.ones(11)])
    np.testing.assert_allclose(got, np.array([1, 2, 3, 3, 3, 3, 3, 3, 3, 2, 1]) / 3)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 1), (1, 1)])
def test_causal_attention_with_rows_that_see_no_key(shape: tuple[int, int]) -> None:
    n, m = shape
    rng = np.random.default_rng(0)
    q, k, v, ct = (rng.standard_normal(s) for s in ((n, 4), (m, 4), (m, 2), (n, 2)))
    got = causal_zero()(q, k, v, ct)
    assert all(np.isfinite(part).all() for part in got)
    assert not got[0][: max(0, n - m)].any()  # of fully masked rows
    for part, known in zip(got, plain_causal(q, k, v, ct), strict=True):
        np.testing.assert_allclose(part, known, rtol=1e-12, atol=1e-14)


CAUSAL: list[Any] = []


def causal_zero() -> Any:
    if not CAUSAL:
        CAUSAL.append(write(tv.vjp(causal), {"q": "n 4", "k": "m 4", "v": "m 2", "ct": "n 2"}, "zero"))
    return CAUSAL[0]


def test_the_running_maximum_contributes_nothing() -> None:
    """Rows shifted by a constant: the same gradient, to the last bits; ties of the maximum make no difference."""
    x = np.array([[1.0, 1.0, 0.5], [0.0, -2.0, 0.0]])
    written = write(tv.vjp(log_sum_exp), {"x": "n m>=1", "ct": "n"})
    (got,) = written(x, np.ones(2))
    known = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(got, known, rtol=1e-14)
    np.testing.assert_allclose(written(x + 1000.0, np.ones(2))[0], known, rtol=1e-12)
    assert any(step.invariants for step in written.steps)


def test_softmax_of_large_scores() -> None:
    (got,) = gradients(lambda x: softmax(x)[:, 0], [np.array([[1e4, 0.0, -1e4]])])
    np.testing.assert_array_equal(got, [[0.0, 0.0, 0.0]])


def test_a_norm_at_the_origin() -> None:
    norm = unary("xp.sqrt((x * x).sum())")
    np.testing.assert_array_equal(gradients(norm, [np.zeros(3)])[0], np.zeros(3))
    np.testing.assert_allclose(gradients(norm, [np.array([3.0, 4.0])])[0], [0.6, 0.8])


@pytest.mark.parametrize(("x", "known"), [([2.0, 3.0, 4.0], [12, 8, 6]), ([0.0, 3.0, 4.0], [12, 0, 0]), ([0.0, 0.0, 4.0], [0, 0, 0])])
def test_products_with_zeros(x: list[float], known: list[float]) -> None:
    """Divided out, as prod(x) / x, a zero would give nan."""
    np.testing.assert_array_equal(gradients(unary("xp.prod(x)"), [np.array(x)])[0], known)


def test_an_index_met_often_adds_up() -> None:
    table, ids = np.zeros((5, 2)), np.array([3, 1, 3, 3])
    (got,) = gradients(lambda t, i: t.__array_namespace__().take(t, i, axis=0), [table, ids])
    np.testing.assert_array_equal(got[:, 0], [0, 1, 0, 3, 0])


def test_nothing_to_differentiate() -> None:
    np.testing.assert_array_equal(gradients(unary("(x * 0.0).sum() + 1.0"), [np.ones(3)])[0], np.zeros(3))
    np.testing.assert_array_equal(gradients(elementwise("x.sum()"), [np.ones(3), np.ones(2)])[1], np.zeros(2))
    np.testing.assert_array_equal(gradients(unary("xp.where(x > 0, 1.0, 2.0)"), [np.ones(3)])[0], np.zeros(3))


def test_attention_by_the_textbook() -> None:
    rng = np.random.default_rng(1)
    q, k, v, ct = (rng.standard_normal(s) for s in ((3, 4), (5, 4), (5, 2), (3, 2)))
    specs = {"q": "n 4", "k": "m>=1 4", "v": "m 2", "ct": "n 2"}
    written = write(tv.vjp(attention), dict(specs))
    for got, known in zip(written(q, k, v, ct), plain_attention(q, k, v, ct), strict=True):
        np.testing.assert_allclose(got, known, rtol=1e-12)


def plain_attention(q: Any, k: Any, v: Any, ct: Any) -> tuple[Any, Any, Any]:
    s = q @ k.T * 0.5
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dp = ct @ v.T
    ds = p * (dp - (p * dp).sum(1, keepdims=True)) * 0.5
    return ds @ k, ds.T @ q, p.T @ ct
