"""tv.comprehension on NumPy arrays: the function that is compiled, called as it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.semantics.evaluate import evaluate
from tests.differential.dual import AFFINE, ARGMAX

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(5, 7)), RNG.normal(size=(7, 3))
V, W = RNG.normal(size=7), RNG.normal(size=7)
WEIGHT = np.array([1.0, 4.0, 2.0])


def _scaled(x: Any, i: Any) -> Any:
    return x[i] * WEIGHT[i % 3]


def product(x: Any, y: Any) -> Any:
    return tv.comprehension(out="i j", reduce="k", body=lambda i, j, k: x[i, k] * y[k, j])


def lower(x: Any) -> Any:
    return tv.comprehension(out="i", reduce="k", body=lambda i, k: x[i, k], where=lambda i, k: k <= i)


def upper_max(x: Any) -> Any:
    return tv.comprehension(out="k", reduce="i", monoid="max", body=lambda k, i: x[i, k], where=lambda k, i: k <= i)


def argmax(x: Any) -> Any:
    return tv.comprehension(out="i", reduce="j", monoid=ARGMAX, body=lambda i, j: (x[i, j], j), finish=lambda v, at: at)


def affine(v: Any, w: Any) -> Any:
    return tv.comprehension(out="", reduce="k", monoid=AFFINE, body=lambda k: (v[k], w[k]))[1]


def padded(v: Any) -> Any:
    body = lambda i: np.where(i > 0, v[i - 1], 0.0)  # noqa: E731
    return tv.comprehension(out="i", extents={"i": v.shape[0]}, body=body)


def by_a_helper(v: Any) -> Any:
    """The helper reads an array of its module."""
    return tv.comprehension(out="i", extents={"i": v.shape[0]}, body=lambda i: _scaled(v, i))


def of_what_was_computed(x: Any, y: Any) -> Any:
    xp = x.__array_namespace__()
    s = xp.exp(x @ y)
    return tv.comprehension(out="i", reduce="j", body=lambda i, j: s[i, j]) * 2.0


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], Any]] = {
    "product": (product, {"x": X, "y": Y}, X @ Y),
    "lower": (lower, {"x": X}, np.tril(X).sum(axis=1)),
    "max of nothing": (upper_max, {"x": X}, [max(X[k:, k], default=-np.inf) for k in range(7)]),
    "a tuple of fields": (argmax, {"x": X}, X.argmax(axis=1)),
    "order matters": (affine, {"v": V, "w": W}, sum(W[k] * V[k + 1 :].prod() for k in range(7))),
    "padding": (padded, {"v": V}, np.concatenate([[0.0], V[:-1]])),
    "helper": (by_a_helper, {"v": V}, V * np.resize(WEIGHT, 7)),
    "computed": (of_what_was_computed, {"x": X, "y": Y}, np.exp(X @ Y).sum(axis=1) * 2),
}


@pytest.mark.parametrize("name", CASES)
def test_on_numpy_and_traced(name: str) -> None:
    fn, arrays, expected = CASES[name]
    got = fn(**arrays)
    assert isinstance(got, (np.ndarray, np.generic)) and got.shape == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    specs = {key: tv.spec(" ".join(str(e) for e in a.shape), "float64") for key, a in arrays.items()}
    program = tv.trace(fn, specs)
    np.testing.assert_allclose(evaluate(program, arrays)[program.outputs[0]], got, rtol=1e-12)
    assert got.dtype == program.tensor(program.outputs[0]).dtype


@pytest.mark.parametrize(("dtype", "want"), [("float16", "float16"), ("float32", "float32"), ("int32", "int32"), ("bool", "int64")])
def test_dtypes(dtype: str, want: str) -> None:
    x = np.array([3, 1, 2]).astype(dtype)
    got = tv.comprehension(out="", reduce="k", body=lambda k: x[k])
    assert got == x.sum() and got.dtype == want


def test_sums_are_computed_in_float64() -> None:
    x = np.full(3_000_000, 0.1, np.float32)
    got = tv.comprehension(out="", reduce="k", body=lambda k: x[k])
    assert got == np.float32(x.astype(np.float64).sum()) and got.dtype == np.float32


def test_nan_and_infinity_pass() -> None:
    x = np.array([[1.0, np.nan], [np.inf, 2.0]])
    got = tv.comprehension(out="i", reduce="j", monoid="max", body=lambda i, j: x[i, j])
    np.testing.assert_array_equal(got, [np.nan, np.inf])


class Model:
    w = V


def test_what_is_refused() -> None:
    with pytest.raises(tv.TraceError, match=r"(?s)test_on_numpy.*variables of the function around it"):
        tv.comprehension(out="i", body=lambda i: Model().w[i])
    with pytest.raises(tv.TraceError, match=r"index i\+1 leaves an axis of extent 7 of v"):
        v = V
        tv.comprehension(out="i", body=lambda i: v[i + 1] - v[i])
    with pytest.raises(tv.TraceError, match="max over k, which may be empty"):
        none = np.zeros(0)
        tv.comprehension(out="", reduce="k", monoid="max", body=lambda k: none[k])
    with pytest.raises(tv.TraceError, match=r"dtype .*complex128"):
        c = V * 1j
        tv.comprehension(out="i", body=lambda i: c[i])
