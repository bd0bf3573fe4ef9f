"""Dual numbers: values and slopes against closed forms, central differences, ties and poles; many directions, nesting, speed."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special

import tang_verified as tv
from tang_verified.dual import SlopeDropped
from tang_verified.errors import ShapeError, UnsupportedError
from tang_verified.semantics.derivative import PARTIALS

# A function of one number, and places where central differences can be trusted.
ONE: dict[str, tuple[Any, tuple[float, ...]]] = {
    "polynomial": (lambda x: 3.0 * x**3 - x * x / 2 + 1, (-1.3, 0.0, 2.0)),
    "quotient": (lambda x: (1.0 + x) / (2.0 + x * x), (-1.3, 0.0, 2.0)),
    "rational power": (lambda x: x**2.5 + x**-1 + x**0.5, (0.7, 2.0)),
    "to the power": (lambda x: 2.0**x + x**x, (0.7, 2.0)),
    "negative base": (lambda x: x**3 + x**-2, (-0.7, -2.0)),
    "exp": (lambda x: np.exp(-x) + np.expm1(x) + np.exp2(x), (-1.3, 0.0, 2.0)),
    "log": (lambda x: np.log(x) + np.log1p(x) + np.log2(x) + np.log10(x), (0.7, 2.0)),
    "sqrt": (lambda x: np.sqrt(x) + 1 / np.sqrt(x), (0.7, 2.0)),
    "trigonometric": (lambda x: np.sin(x) * np.cos(x) + np.tan(x), (-0.6, 0.0, 0.9)),
    "hyperbolic": (lambda x: np.sinh(x) * np.cosh(x) + np.tanh(x), (-0.6, 0.0, 0.9)),
    "inverse": (lambda x: np.arcsin(x) + np.arccos(x / 2) * np.arctan(x), (-0.6, 0.0, 0.9)),
    "erf": (lambda x: scipy.special.erf(x) * x, (-0.6, 0.0, 0.9)),
    "abs": (lambda x: abs(x) * x + np.abs(x - 1) + np.fabs(x), (-0.6, 0.3)),
    "extremes": (lambda x: np.maximum(x, 0.5) * np.minimum(x, 0.2), (-0.6, 0.3, 0.9)),
    "where": (lambda x: np.where(x > 0, x * x, -x), (-0.6, 0.3)),
    "if": (lambda x: x * x if x > 0 else -x, (-0.6, 0.3)),
    "hypot": (lambda x: np.hypot(x, 3.0) + np.hypot(4.0, x), (-0.6, 0.0, 2.0)),
    "arctan2": (lambda x: np.arctan2(x, -1.0) + np.arctan2(2.0, x) + np.arctan2(np.sin(x), np.cos(x)), (-0.6, 0.3, 2.0)),
    "whole": (lambda x: x * np.floor(x) + np.ceil(x) + np.round(x) * x + x // 0.4 + x % 0.7, (-0.6, 0.3, 2.25)),
    "logaddexp": (lambda x: np.logaddexp(x, 1.0), (-0.6, 0.3)),
    "clip": (lambda x: np.clip(x, 0.0, 1.0) * x, (-0.6, 0.3, 2.0)),
    "sign": (lambda x: np.sign(x) * x * x + np.square(x), (-0.6, 0.3)),
    "angles": (lambda x: np.radians(x) + np.rad2deg(x), (-0.6, 0.3)),
}


def difference(fn: Any, x: float, h: float = 1e-6) -> float:
    return float((fn(x + h) - fn(x - h)) / (2 * h))


@pytest.mark.parametrize("name", ONE)
def test_one_number(name: str) -> None:
    fn, places = ONE[name]
    for x in places:
        value, slope = tv.slope(fn, x)
        assert value == pytest.approx(float(fn(x)), rel=1e-12, abs=1e-14), x
        assert slope == pytest.approx(difference(fn, x), rel=2e-7, abs=1e-7), x
        seen = tv.slope(lambda v, fn=fn, x=x: np.stack([fn(v[0])]), np.array([x]))  # the same by arrays
        assert float(seen[0][0]) == pytest.approx(value, rel=1e-12, abs=1e-14)
        assert float(seen[1][0, 0]) == pytest.approx(slope, rel=1e-12, abs=1e-14)


def test_closed_forms() -> None:
    x = tv.Dual(0.3, 1.0)
    for made, slope in (
        (np.exp(x), math.exp(0.3)), (np.sin(x), math.cos(0.3)), (np.log(x), 1 / 0.3), (np.tanh(x), 1 - math.tanh(0.3) ** 2),
        (x**7, 7 * 0.3**6), (1 / x, -1 / 0.09), (scipy.special.erf(x), 2 / math.sqrt(math.pi) * math.exp(-0.09)),
    ):  # fmt: skip
        assert made.slope == pytest.approx(slope, rel=1e-15)


# What `semantics/derivative.py` states where there is no derivative, or where it has a pole.
STATED: list[tuple[str, Any, float, float, float]] = [
    ("|x| at 0", abs, 0.0, 0.0, 0.0),
    ("max(x, x)", lambda x: np.maximum(x, x), 2.0, 2.0, 1.0),
    ("max(x, 2)", lambda x: np.maximum(x, 2.0), 2.0, 2.0, 0.5),
    ("min(2, x)", lambda x: np.minimum(2.0, x), 2.0, 2.0, 0.5),
    ("sqrt at 0", np.sqrt, 0.0, 0.0, 0.0),
    ("x ** 0.5 at 0", lambda x: x**0.5, 0.0, 0.0, 0.0),
    ("log at 0", np.log, 0.0, -math.inf, 0.0),
    ("hypot at (0, 0)", lambda x: np.hypot(x, 0.0), 0.0, 0.0, 0.0),
    ("x ** 0 at 0", lambda x: x**0, 0.0, 1.0, 0.0),
    ("0 ** x at 0", lambda x: 0.0**x, 0.0, 1.0, 0.0),
    ("0 ** x at 2", lambda x: 0.0**x, 2.0, 0.0, 0.0),
    ("1 / x at 0", lambda x: 1.0 / x, 0.0, math.nan, math.nan),
    ("log at -1", np.log, -1.0, math.nan, -1.0),
    ("exp overflows", np.exp, 1000.0, math.inf, math.inf),
    ("where, its branch", lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), 0.0), 0.0, 0.0, 0.0),
    ("where, the other's pole", lambda x: np.where(x > 0, np.log(x), 0.0), 0.0, 0.0, 0.0),
    ("logaddexp(x, 1) at 1", lambda x: np.logaddexp(x, 1.0), 1.0, 1.0 + math.log(2.0), 0.5),
    ("floor at 1", np.floor, 1.0, 1.0, 0.0),
]


@pytest.mark.parametrize(("name", "fn", "x", "value", "slope"), STATED, ids=[row[0] for row in STATED])
def test_ties_and_poles(name: str, fn: Any, x: float, value: float, slope: float) -> None:
    got = tv.slope(fn, x)
    np.testing.assert_allclose([*map(float, got)], [value, slope], rtol=1e-15)
    array = fn(tv.Dual(np.array([x, x]), np.array([1.0, 1.0])))
    np.testing.assert_allclose(array.value, [value] * 2, rtol=1e-15)
    np.testing.assert_allclose(array.slope, [slope] * 2, rtol=1e-15)


def test_every_operation_with_a_derivative_is_one_of_duals() -> None:
    from tang_verified.dual import ELEMENTWISE

    assert set(PARTIALS) <= {*ELEMENTWISE, "pow"}


ARRAYS: dict[str, Any] = {
    "matmul": lambda x: A @ x + x @ A.T[:3, :3],
    "sums": lambda x: (x * x).sum(axis=0) + x.mean() + x.T.sum(0, keepdims=True)[0, :2].sum(),
    "extremes": lambda x: np.max(x * x, axis=0) - x.min(axis=1).sum(),
    "products": lambda x: np.prod(x, axis=0) + np.cumprod(x) [2] + x.prod(),
    "moments": lambda x: x.var(axis=0) + x.std() + np.var(x, ddof=1),
    "norm": lambda x: np.linalg.norm(x, axis=1) / np.linalg.norm(x),
    "shapes": lambda x: np.concatenate([x.reshape(-1)[:4], np.ravel(x.T)[::-1], np.ones(2)]),
    "stack": lambda x: np.stack([x[0], x[1] * x[2], np.zeros(3)]) * np.broadcast_to(x[2], (3, 3)),
    "broadcast": lambda x: x[:, None, :] * x[None, :, :] + x[0],
    "softmax": lambda x: np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x - x.max(axis=1, keepdims=True)).sum(1, keepdims=True),
    "einsum": lambda x: np.einsum("ij,jk->ik", x, x) + np.outer(x[0], x[1]) + np.dot(x, A[:3, :3]),
    "where": lambda x: np.where(x > 0.2, x * x, 1.0) + np.where(x[0] > 0, x, -x[1]),
    "cumulative": lambda x: np.cumsum(x, axis=1) * np.diff(np.cumsum(x, 0), axis=0, prepend=0.0),
    "gather": lambda x: x[[0, 2, 0]] * np.take(x, [1, 1, 2], axis=1),
    "hypot": lambda x: np.hypot(x, x[::-1] + 2) + np.arctan2(x, x.T + 3),
    "spread": lambda x: np.ones((2, 3, 3)) + x + np.where(np.ones((2, 3, 3)) > 0, x, 0.0) + np.full_like(x, x[1, 1]),
    "linear in two": lambda x: np.tensordot(x, x, 1) + np.kron(x[:1], x[1:2])[:, :3],
}  # fmt: skip
A = np.arange(9.0).reshape(3, 3) / 5 - 0.7
AT = np.array([[0.3, -0.8, 0.5], [1.2, 0.1, -0.4], [-0.6, 0.9, 0.7]])


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_in_all_directions(name: str) -> None:
    fn, h = ARRAYS[name], 1e-6
    value, slope = tv.slope(fn, AT)
    assert slope.shape == (3, 3, *value.shape)
    np.testing.assert_allclose(value, fn(AT), rtol=1e-12)
    for i, j in np.ndindex(3, 3):
        way = np.zeros((3, 3))
        way[i, j] = 1.0
        np.testing.assert_allclose(slope[i, j], (fn(AT + h * way) - fn(AT - h * way)) / (2 * h), rtol=1e-6, atol=1e-7)
    way = np.cos(AT)
    np.testing.assert_allclose(tv.slope(fn, AT, along=way)[1], np.tensordot(way, slope, 2), rtol=1e-9, atol=1e-12)


def test_ties_of_a_maximum_share_evenly() -> None:
    value, slope = tv.slope(lambda x: x.max(), np.array([1.0, 2.0, 2.0, 0.0]))
    assert value == 2.0 and slope.tolist() == [0.0, 0.5, 0.5, 0.0]
    ones = tv.slope(lambda x: x.max(), np.ones(70_000, np.float16), along=np.ones(70_000))
    assert ones[1] == pytest.approx(1.0)


def test_a_product_with_zeros() -> None:
    assert tv.slope(np.prod, np.array([0.0, 2.0, 3.0]))[1].tolist() == [6.0, 0.0, 0.0]
    assert tv.slope(np.prod, np.array([0.0, 0.0, 3.0]))[1].tolist() == [0.0, 0.0, 0.0]


def test_several_directions_at_once_are_those_one_by_one() -> None:
    def arm(angles: Any) -> Any:
        first, second = angles[0], angles[0] + angles[1]
        return 227.0 * np.cos(first) + 236.0 * np.cos(second), 227.0 * np.sin(first) + 236.0 * np.sin(second)

    at = np.array([0.4, 1.1])
    (x, y), (dx, dy) = tv.slope(arm, at)
    for k in range(2):
        one = tv.slope(arm, at, along=np.eye(2)[k])
        assert one[0] == (x, y) and one[1] == (dx[k], dy[k])
    assert dx[1] == pytest.approx(-236.0 * math.sin(1.5)) and dy[1] == pytest.approx(236.0 * math.cos(1.5))


def test_what_is_differentiated_within_what_is_differentiated() -> None:
    assert tv.slope(lambda x: x * tv.slope(lambda y: x + y, 1.0)[1], 1.0) == (1.0, 1.0)  # Siskind and Pearlmutter 2005: not 2
    second = tv.slope(lambda x: tv.slope(lambda y: y**4 + np.sin(y) * x, x)[1], 2.0)
    assert second[1] == pytest.approx(48 + math.cos(2) - 2 * math.sin(2))
    twice = tv.Dual(tv.Dual(0.7, 1.0), tv.Dual(1.0, 0.0))
    for fn, want in (
        (np.sin, -math.sin(0.7)), (np.log, -1 / 0.49), (np.sqrt, -0.25 * 0.7**-1.5), (lambda x: np.hypot(x, 2.0), 4 / 4.49**1.5),
        (lambda x: x**3 / (1 + x), 3 * 0.7 * 2 / 1.7 - 2 * 3 * 0.49 / 1.7**2 + 2 * 0.343 / 1.7**3),
    ):  # fmt: skip
        assert fn(twice).slope.slope == pytest.approx(want, rel=1e-12)
    hessian = tv.slope(lambda v: tv.slope(lambda w: (w @ A @ w) * w[0], v)[1], AT[0])[1]
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)


def test_plain_python_goes_through() -> None:
    def newton(a: Any) -> Any:
        x = a
        while abs(x * x - a) > 1e-14 * a:
            x = (x + a / x) / 2
        return x

    assert tv.slope(newton, 2.0) == pytest.approx((math.sqrt(2), 0.5 / math.sqrt(2)))
    assert sorted([tv.Dual(2.0, 1.0), tv.Dual(1.0, 5.0)])[0].slope == 5.0
    assert tv.slope(lambda v: sum(v), np.array([1.0, 2.0])) [1].tolist() == [1.0, 1.0]
    x = tv.Dual(2.6, 1.0)
    assert int(x) == 2 and round(x) == 3 and math.floor(x) == 2 and f"{x:.1f}" == "2.6" and bool(x) and x == 2.6
    assert (np.array([1.0, 2.0]) * x).slope.tolist() == [1.0, 2.0] and (np.float64(2.0) * x).slope == 2.0
    objects = np.exp(np.array([x, 2 * x])) @ np.array([1.0, 1.0])
    assert objects.slope == pytest.approx(math.exp(2.6) + 2 * math.exp(5.2))


def test_a_slope_is_not_lost_in_silence() -> None:
    x = tv.Dual(0.5, 1.0)
    with pytest.warns(SlopeDropped, match=r"np\.sin"):
        assert math.sin(x) == math.sin(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(tv.Dual(0.5)) == 0.5
        assert float(x.value) == 0.5


def test_refused() -> None:
    x = tv.Dual(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    with pytest.raises(UnsupportedError, match="fft"):
        np.fft.fft(x)
    with pytest.raises(UnsupportedError, match="sort"):
        np.sort(x)
    with pytest.raises(ShapeError, match="slope of shape"):
        tv.Dual(np.zeros(3), np.zeros(2))
    with pytest.raises(UnsupportedError, match="complex"):
        tv.Dual(1j)
    with pytest.raises(UnsupportedError, match="out"):
        np.add(x, 1.0, out=np.zeros(2))
    with pytest.raises(UnsupportedError, match="initial"):
        np.sum(x, initial=3.0)
    with pytest.raises(UnsupportedError, match="prepend"):
        np.diff(x, prepend=x[:1])
    with pytest.raises(UnsupportedError, match="max"):
        np.max(x, initial=3.0)
    with pytest.raises(UnsupportedError, match="index"):
        x[x]
    with pytest.raises(UnsupportedError, match="ord"):
        np.linalg.norm(x, 1)


def test_large_and_small_hypotenuses() -> None:
    for scale in (1e-300, 5e-324, 1e300):
        value, slope = tv.slope(lambda x, s=scale: np.hypot(x, s), scale)
        assert value == pytest.approx(math.hypot(scale, scale), rel=1e-15) and slope == pytest.approx(math.sqrt(0.5), rel=1e-15)
    assert np.arctan2(tv.Dual(0.0, 1.0), -1.0).value == math.pi


def test_a_long_simulation_takes_a_moment() -> None:
    def fly(start: Any) -> Any:
        x, y, u, v, dt = 1.0, 0.0, start[0], start[1], 1e-3
        for _ in range(1600):
            pull = -1.0 / np.hypot(x, y) ** 3
            u, v = u + dt * pull * x, v + dt * pull * y
            x, y = x + dt * u, y + dt * v
        return x, y

    begin = time.perf_counter()
    (x, y), slopes = tv.slope(fly, np.array([0.1, 1.0]))
    assert time.perf_counter() - begin < 2.0  # 0.2 s on one core of 2020
    h = 1e-6
    for k, way in enumerate(np.eye(2) * h):
        up, down = (fly(np.array([0.1, 1.0]) + s * way) for s in (1, -1))
        assert [s[k] for s in slopes] == pytest.approx([(a - b) / (2 * h) for a, b in zip(up, down, strict=True)], rel=1e-6)
    assert math.isfinite(x * y)
