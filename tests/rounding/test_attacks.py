"""What an attacker made the bounds on rounding say that was false; each with what is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tang_verified as tv

DOUBLE = tv.spec("n float64")


def xp(x: Any) -> Any:
    return x.__array_namespace__()


@pytest.mark.parametrize(("fn", "x", "exact"), [
    (lambda x: xp(x).sqrt(x * x), [1e-200], 1e-200),
    (lambda x: xp(x).sqrt((x * x).sum()), [3e-200, 4e-200], 5e-200),
    (lambda x: x * x * 1e300 * 1e300, [1e-163], 1e274),
    (lambda x: xp(x).where(x * x > 0.0, 1.0, 0.0), [1e-200], 1.0),
])  # fmt: skip
def test_what_underflows_in_float64(fn: Any, x: list[float], exact: float) -> None:
    kernel, given = tv.compile(fn, name="f", x=DOUBLE), np.array(x)
    assert np.all(np.abs(kernel(given) - exact) <= kernel.error_bound(given))


def test_an_exponential_below_what_the_bound_is_evaluated_in() -> None:
    kernel = tv.compile(lambda x, y, z, t: xp(x).exp(((x + y) - z).sum() + t), name="f", x="3", y="3", z="3", t="1")
    x, y = np.array([2.0**33, 2.0**31, 2.0**29], "float32"), np.array([513, 129, 33], "float32")
    given = (x, y, x, np.array([-747 - 513 - 129 - 33], "float32"))
    assert kernel(*given)[0] > 1e-34 and kernel.error_bound(*given)[0] >= kernel(*given)[0]


def test_an_integer_beyond_the_significand() -> None:
    kernel = tv.compile(lambda i, x: xp(x).astype(i, x.dtype) - x, name="f", i="n int64", x=DOUBLE)
    given = (np.array([2**53 + 1]), np.array([2.0**53]))
    assert abs(kernel(*given)[0] - 1.0) <= kernel.error_bound(*given)[0]
