"""Every example's gradient in all its float arguments: against differences along random directions, and against PyTorch."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.semantics.terms import Const
from tests.gradients.models import Written, write
from tests.test_examples import BLOCK, EXAMPLES, function, module

SIZES = ((7, 5, 3, 11, 2), (1, 1, 1, 1, 1), (2, 13, 3, 1, 5))
FEW = {"h": 3, "b": 2}


@cache
def differentiated(example: str) -> Written:
    plain = function(example)
    specs = {
        name: replace(s, dtype="float64") if s.dtype == "float32" else s
        for name, s in plain.__annotations__.items() if isinstance(s, tv.Spec)
    }  # fmt: skip
    numbers = tuple(n for n, s in enumerate(specs.values()) if s.dtype == "float64")
    traced = tv.trace(plain, specs)
    result = traced.tensor(traced.outputs[0])
    weights = tv.Spec(tuple(e.value if isinstance(e, Const) else show(e) for e in result.shape), "float64", next(iter(specs.values())).ranges)
    return write(tv.vjp(plain, numbers), {**specs, "ct": weights})


def show(term: Any) -> str:
    from tang_verified.semantics.show import show as text

    return text(term)


def arrays(example: str, chosen: tuple[int, ...]) -> list[Any]:
    """Inputs and weights, at the chosen sizes raised to what the program needs."""
    rng, traced = np.random.default_rng(3), differentiated(example).traced
    ranges = getattr(module(example.split(":")[0]), "RANGES", {})
    sizes = {
        s.name: min(max(s.low, min(FEW.get(s.name, 64), chosen[n % len(chosen)])), s.high) for n, s in enumerate(traced.sizes)
    }
    out = []
    for tensor in traced.inputs:
        shape = tuple(e.value if isinstance(e, Const) else sizes[e.name] for e in tensor.shape)  # type: ignore[union-attr]
        if tensor.dtype.startswith("int"):
            out.append(rng.integers(0, sizes[ranges[tensor.name]], shape))
        elif tensor.dtype == "bool":
            keep = rng.random(shape) < 0.6
            keep[..., 0] = True  # no row without an element: their gradient has tests of its own
            out.append(keep)
        else:
            out.append(rng.standard_normal(shape))
    return out


def along(example: str, given: list[Any], number: int, way: Any) -> float:
    """The change of Σ ct·f(x) along a direction of one argument, by differences of fourth order."""
    fn, weights = function(example), given[-1]

    def value(t: float) -> float:
        moved = [a + t * way if n == number else a for n, a in enumerate(given[:-1])]
        return float((weights * fn(*moved)).sum())

    h = 1e-3
    return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e != BLOCK])
def test_against_differences(example: str) -> None:
    written, rng = differentiated(example), np.random.default_rng(5)
    for sizes in SIZES:
        given = arrays(example, sizes)
        floats = [n for n, a in enumerate(given[:-1]) if a.dtype == np.float64]
        with np.errstate(all="ignore"):
            known = function(example)(*given[:-1])
        if not np.isfinite(known).all():
            continue  # a causal row before the first key
        for number, got in zip(floats, written(*given), strict=True):
            assert got.shape == given[number].shape
            way = rng.standard_normal(got.shape)
            np.testing.assert_allclose((got * way).sum(), along(example, given, number, way), rtol=1e-6, atol=1e-7)


def count() -> int:
    return len(inspect.getmembers(np))
