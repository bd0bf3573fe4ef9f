"""Every scalar function: its slope at ordinary points, against differences, and at the points where something ends or ties."""

from __future__ import annotations

from functools import cache
from math import e, inf, log, nan, pi, sqrt
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tests.gradients.models import Written, elementwise, gradients, unary, write

ORDINARY = np.array([-2.3, -0.7, -0.31, 0.29, 0.71, 1.7])

# text -> what x is within, for ordinary points
UNARY: dict[str, tuple[float, float]] = {
    "xp.exp(x)": (-inf, inf), "xp.expm1(x)": (-inf, inf), "xp.log(x)": (0, inf), "xp.log1p(x)": (-1, inf), "xp.sqrt(x)": (0, inf),
    "xp.rsqrt(x)": (0, inf), "xp.sin(x)": (-inf, inf), "xp.cos(x)": (-inf, inf), "xp.tan(x)": (-inf, inf), "xp.tanh(x)": (-inf, inf),
    "xp.sinh(x)": (-inf, inf), "xp.cosh(x)": (-inf, inf), "xp.asin(x)": (-1, 1), "xp.acos(x)": (-1, 1), "xp.atan(x)": (-inf, inf),
    "xp.erf(x)": (-inf, inf), "xp.abs(x)": (-inf, inf), "-x": (-inf, inf), "xp.square(x)": (-inf, inf), "x ** 2": (-inf, inf),
    "x ** 3": (-inf, inf), "x ** -1": (-inf, inf), "x ** -2.0": (-inf, inf), "x ** 0.75": (0, inf), "2.0 ** x": (-inf, inf),
    "xp.exp2(x)": (-inf, inf), "xp.log2(x)": (0, inf), "xp.log10(x)": (0, inf), "xp.sign(x)": (-inf, inf), "xp.floor(x)": (-inf, inf),
    "xp.ceil(x)": (-inf, inf), "xp.round(x)": (-inf, inf), "xp.trunc(x)": (-inf, inf), "xp.maximum(x, 0.5)": (-inf, inf),
    "xp.minimum(x, 0.5)": (-inf, inf), "xp.clip(x, -0.5, 0.5)": (-inf, inf), "1.0 / (1.0 + xp.exp(-x))": (-inf, inf),
    "xp.where(x > 0.0, x * x, -x)": (-inf, inf), "x % 0.9": (-inf, inf), "x // 0.9": (-inf, inf), "xp.logaddexp(x, 0.25)": (-inf, inf),
    "xp.positive(x)": (-inf, inf), "x * xp.log(x)": (0, inf), "1.0 / x": (-inf, inf), "x - xp.sin(x)": (-inf, inf),
}  # fmt: skip
BINARY = ("x + y", "x - y", "x * y", "x / y", "xp.maximum(x, y)", "xp.minimum(x, y)", "xp.logaddexp(x, y)", "xp.abs(x) ** y", "x % y",
          "xp.where(x < y, x * y, y)", "xp.clip(x, -1.0, y)")  # fmt: skip

# text -> points, and the slopes that semantics/derivative.py states there
STATED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "xp.sqrt(x)": ((0.0, 1e-300, 4.0), (0.0, 5e149, 0.25)),  # a pole of the slope: 0
    "x ** 0.5": ((0.0, 4.0), (0.0, 0.25)),
    "x ** 0.75": ((0.0, 1.0), (0.0, 0.75)),
    "x ** 1.5": ((0.0, 4.0), (0.0, 3.0)),
    "xp.log(x)": ((0.0, 1.0, e), (0.0, 1.0, 1 / e)),
    "xp.log1p(x)": ((-1.0, 0.0), (0.0, 1.0)),
    "xp.log2(x)": ((0.0, 1.0), (0.0, 1 / log(2))),
    "xp.asin(x)": ((-1.0, 0.0, 1.0), (0.0, 1.0, 0.0)),
    "xp.acos(x)": ((-1.0, 0.0, 1.0), (0.0, -1.0, 0.0)),
    "xp.abs(x)": ((-1.0, -0.0, 0.0, 1.0), (-1.0, 0.0, 0.0, 1.0)),  # a tie of x and −x
    "xp.maximum(x, 0.0)": ((-1.0, 0.0, 1.0), (0.0, 0.5, 1.0)),
    "xp.minimum(x, 0.0)": ((-1.0, 0.0, 1.0), (1.0, 0.5, 0.0)),
    "xp.maximum(x, x)": ((3.0,), (1.0,)),
    "xp.clip(x, -1.0, 2.0)": ((-3.0, -1.0, 0.0, 2.0, 3.0), (0.0, 0.5, 1.0, 0.5, 0.0)),
    "xp.sign(x)": ((-1.0, 0.0, 1.0), (0.0, 0.0, 0.0)),
    "xp.floor(x)": ((-1.0, 0.0, 0.5), (0.0, 0.0, 0.0)),
    "xp.ceil(x)": ((-1.0, 0.0, 0.5), (0.0, 0.0, 0.0)),
    "xp.round(x)": ((-0.5, 0.5, 1.5), (0.0, 0.0, 0.0)),
    "xp.exp(x)": ((-800.0, 0.0, 800.0), (0.0, 1.0, inf)),
    "xp.expm1(x)": ((-800.0, 0.0), (0.0, 1.0)),
    "xp.tanh(x)": ((-400.0, 0.0, 400.0), (0.0, 1.0, 0.0)),
    "xp.erf(x)": ((-30.0, 0.0, 30.0), (0.0, 2 / sqrt(pi), 0.0)),
    "xp.atan(x)": ((-1e300, 0.0, 1e300), (0.0, 1.0, 0.0)),
    "xp.logaddexp(x, 0.0)": ((-1000.0, 0.0, 1000.0), (0.0, 0.5, 1.0)),
    "xp.logaddexp(x, x)": ((-1000.0, 1.0, 1000.0), (1.0, 1.0, 1.0)),
    "x ** 2": ((-3.0, 0.0), (-6.0, 0.0)),
    "x ** 1": ((0.0, 2.0), (1.0, 1.0)),
    "x ** 0": ((0.0, 2.0), (0.0, 0.0)),
    "0.0 ** x": ((0.0, 1.0), (0.0, 0.0)),
    "x / x": ((0.0, 2.0), (nan, 0.0)),  # x / 0 is nan
    # a branch that is not taken contributes nothing, whatever is in it
    "xp.where(x > 0, xp.log(x), 0.0)": ((-1.0, 0.0, 2.0), (0.0, 0.0, 0.5)),
    "xp.where(x > 0, xp.sqrt(x), 0.0)": ((-1.0, 0.0, 4.0), (0.0, 0.0, 0.25)),
    "xp.where(x > 0, 1.0 / x, 0.0)": ((-1.0, 0.0, 2.0), (0.0, 0.0, -0.25)),
    "xp.where(x != 0, xp.sin(x) / x, 1.0)": ((0.0,), (0.0,)),
    "xp.where(x == 1.0, x * 3.0, x)": ((1.0, 2.0), (3.0, 1.0)),  # the slope of the branch, though it is taken at one point only
    "x * xp.log(xp.where(x > 0, x, 1.0))": ((-1.0, 0.0, 1.0), (0.0, 0.0, 1.0)),
    "xp.sqrt(x * x)": ((-3.0, 0.0, 3.0), (-1.0, 0.0, 1.0)),
    "xp.abs(x) * x": ((0.0,), (0.0,)),
}  # fmt: skip


@cache
def one(text: str) -> Written:
    return write(tv.vjp(unary(text)), {"x": "n", "ct": "n"})


def differences(fn: Any, x: Any, step: float = 1e-6) -> Any:
    return (fn(x + step) - fn(x - step)) / (2 * step)


class Namespace:
    """NumPy with the array API's names."""

    def __getattr__(self, name: str) -> Any:
        import scipy.special

        other = {"erf": scipy.special.erf, "rsqrt": lambda x: x**-0.5, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan}
        return other.get(name) or getattr(np, name)


def plain(text: str) -> Any:
    return lambda x, y=0.0: eval(text, {"x": x, "y": y, "xp": Namespace()})


@pytest.mark.parametrize("text", UNARY)
def test_ordinary_points(text: str) -> None:
    low, high = UNARY[text]
    x = ORDINARY[(ORDINARY > low) & (ORDINARY < high)]
    (got,) = one(text)(x, np.ones_like(x))
    np.testing.assert_allclose(got, differences(plain(text), x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one(text)(x, -2 * np.ones_like(x))[0], -2 * got)


@pytest.mark.parametrize("text", STATED)
def test_stated_slopes(text: str) -> None:
    points, slopes = STATED[text]
    (got,) = one(text)(np.array(points), np.ones(len(points)))
    np.testing.assert_allclose(got, np.array(slopes), rtol=1e-14)


@pytest.mark.parametrize("text", BINARY)
def test_of_two_arguments(text: str) -> None:
    x, y = np.array([-1.3, 0.4, 2.2, 0.9]), np.array([0.7, 1.9, -0.6, 1.1])
    at_x, at_y = write(tv.vjp(elementwise(text)), {"x": "n", "y": "n", "ct": "n"})(x, y, np.ones(4))
    np.testing.assert_allclose(at_x, differences(lambda x: plain(text)(x, y), x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(at_y, differences(lambda y: plain(text)(x, y), y), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "x", "y", "slopes"),
    [
        ("xp.logaddexp(x, y)", 1.0, 1.0, (0.5, 0.5)),
        ("xp.maximum(x, y)", 2.0, 2.0, (0.5, 0.5)),
        ("xp.minimum(x, y)", 2.0, 2.0, (0.5, 0.5)),
        ("x ** y", 0.0, 2.0, (0.0, 0.0)),
        ("x ** y", 0.0, 1.0, (1.0, 0.0)),
        ("x ** y", 0.0, 0.0, (0.0, 0.0)),
        ("x ** y", -2.0, 3.0, (12.0, 0.0)),  # by y there is no slope on the reals: 0
        ("x * y", 0.0, 0.0, (0.0, 0.0)),
        ("xp.where(y > 0, x / y, x)", 3.0, 0.0, (1.0, 0.0)),
        ("xp.where(y > 0, x / y, x)", 3.0, 2.0, (0.5, -0.75)),
        ("xp.sqrt(x * x + y * y)", 0.0, 0.0, (0.0, 0.0)),  # a norm at 0
        ("xp.sqrt(x * x + y * y)", 3.0, 4.0, (0.6, 0.8)),
    ],
)  # fmt: skip
def test_two_arguments_at_degenerate_points(text: str, x: float, y: float, slopes: tuple[float, float]) -> None:
    got = gradients(elementwise(text), [np.array([x]), np.array([y])])
    np.testing.assert_allclose(np.concatenate(got), slopes, rtol=1e-14)


@pytest.mark.parametrize("text", [t for t in UNARY if not any(name in t for name in ("xp.sign", "round", "//", "% 0.9", "xp.where"))])
def test_like_pytorch(text: str) -> None:
    torch = pytest.importorskip("torch")
    low, high = UNARY[text]
    chosen = ORDINARY[(ORDINARY > low) & (ORDINARY < high)]
    x = torch.tensor(chosen, requires_grad=True)
    plain_torch = eval(f"lambda x: {text}", {"xp": _Torch(torch)})
    plain_torch(x).sum().backward()
    np.testing.assert_allclose(one(text)(chosen, np.ones_like(chosen))[0], x.grad.numpy(), rtol=1e-12, atol=1e-14)


class _Torch:
    """PyTorch's functions, numbers as arguments too."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def __getattr__(self, name: str) -> Any:
        found = {"clip": self.torch.clamp}.get(name) or getattr(self.torch, name)
        if name in ("maximum", "minimum", "logaddexp"):
            return lambda x, y: found(x, self.torch.as_tensor(y, dtype=x.dtype))
        return found
