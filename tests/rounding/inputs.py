"""Inputs that are hard on rounding, beside random ones: cancellation, wide exponents, near ties, large and tiny numbers.

    for arrays in inputs(kernel, example, count, seed): …       each array of a call of a kind of its own, mostly the same for all
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tang_verified.compiler import CompiledKernel
from tang_verified.semantics.program import SORTS
from tests.test_examples import module

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _cancelling(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Each number, and nearly its negative, along the last axis."""
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(0, 12, shape)
    if shape and shape[-1] > 1:
        half = shape[-1] // 2
        x[..., half : 2 * half] = -x[..., :half] * (1 + 2.0**-20 * rng.integers(-2, 3, (*shape[:-1], half)))
        x = x[..., rng.permutation(shape[-1])]
    return x


def _wide(low: int, high: int) -> Draw:
    return lambda rng, shape: rng.standard_normal(shape) * 2.0 ** rng.integers(low, high, shape)


KINDS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape) + 2.0**-10,
    "constant": lambda rng, shape: np.full(shape, rng.standard_normal()),
    "cancelling": _cancelling,
    "wide": _wide(-20, 20),
    "any exponent": _wide(-149, 127),
    "tiny": _wide(-149, -120),
    "huge": _wide(100, 127),
    "near ties": lambda rng, shape: rng.standard_normal() * (1 + 2.0**-22 * rng.integers(-2, 3, shape)),
    "large scores": lambda rng, shape: 30 * rng.standard_normal(shape),
    "offset": lambda rng, shape: 1000 + rng.standard_normal(shape),
    "integers": lambda rng, shape: rng.integers(-3, 4, shape).astype(float),
    "zeros": lambda rng, shape: np.zeros(shape),
}
HALF = ("normal", "positive", "constant", "cancelling", "near ties", "large scores", "integers", "zeros", "normal", "positive")


def sizes_of(kernel: CompiledKernel, rng: np.random.Generator, most: int) -> dict[str, int]:
    few = {"h": 2, "b": 2}
    return {
        s.name: min(max(s.low, int(rng.integers(1, few.get(s.name, most) + 1))), s.high, max(s.low, most))
        for s in kernel.program.sizes
    }


def inputs(
    kernel: CompiledKernel, example: str, count: int, seed: int = 0, most: int = 9, at: dict[str, int] | None = None
) -> Iterator[tuple[str, list[Array]]]:
    """So many calls: the kind of their numbers, and the arrays."""
    rng = np.random.default_rng(seed)
    ranges = getattr(module(example.split(":")[0]), "RANGES", {}) if ":" in example else {}
    half = any(t.dtype == "float16" for t in kernel.program.inputs)
    names = HALF if half else tuple(KINDS)
    for number in range(count):
        sizes = {**sizes_of(kernel, rng, most), **(at or {})}
        main = names[number % len(names)]
        made: list[Array] = []
        for tensor in kernel.program.inputs:
            shape = kernel_shape(tensor, sizes)
            kind = main if rng.random() < 0.7 else names[int(rng.integers(len(names)))]
            if SORTS[tensor.dtype] == "int":
                made.append(rng.integers(0, sizes[ranges[tensor.name]], shape).astype(tensor.dtype))
            elif tensor.dtype == "bool":
                made.append(rng.random(shape) < 0.6)
            else:
                made.append(finite(np.asarray(KINDS[kind](rng, shape)), tensor.dtype))
        yield main, made


def kernel_shape(tensor: Any, sizes: dict[str, int]) -> tuple[int, ...]:
    from tang_verified.semantics.evaluate import tensor_shape

    return tensor_shape(tensor, dict(sizes))


def finite(x: Array, dtype: str) -> Array:
    most = float(np.finfo(dtype).max)
    return np.clip(x, -most, most).astype(dtype)


def worst(kernel: CompiledKernel, known: Callable[[list[Array]], Any], arrays: list[Array]) -> tuple[float, float, float]:
    """The largest error / bound over the outputs' elements (inf where a bound fails by an infinity), its median, and the
    share of elements that have a bound."""
    got, exact, bound = (_tuple(x) for x in (kernel(*arrays), known(arrays), kernel.error_bound(*arrays)))
    ratios, bounded, total = [np.zeros(0)], 0, 0
    for g, e, b in zip(got, exact, bound, strict=True):
        g, e = np.asarray(g, float), np.asarray(e, float)
        assert g.shape == e.shape == b.shape and not np.isnan(b).any() and (b >= 0).all()
        has = np.isfinite(b)
        assert np.isfinite(e[has]).all(), "a bound on what is not finite"
        with np.errstate(all="ignore"):
            error = np.maximum(np.abs(g - e) - 2.0**-50 * np.abs(e), 0.0)  # the reference has an error of its own
            ratio = np.where(error == 0, 0.0, error / b)[has]
        ratios.append(np.where(np.isfinite(g[has]), ratio, np.inf))
        bounded, total = bounded + int(has.sum()), total + has.size
    every = np.concatenate(ratios)
    return float(every.max(initial=0.0)), float(np.median(every)) if every.size else 0.0, bounded / max(total, 1)


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)
