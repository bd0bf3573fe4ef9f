"""No error above its bound: every example on C, in float32 and float16, on random and on adversarial inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tests.conformance.backends import kernel, need
from tests.conformance.programs import Case
from tests.rounding.inputs import Array, inputs, worst
from tests.test_examples import BLOCK, EXAMPLES, reference

QUICK = ("softmax:softmax", "layernorm:layernorm", "rmsnorm:rmsnorm", "logsumexp:logsumexp", "attention:plain", "pooling:average_pool")
SEVERAL_TILES = {
    "softmax:softmax": {"m": 2500, "n": 3}, "logsumexp:logsumexp": {"m": 2100, "n": 3}, "layernorm:layernorm": {"d": 2300, "n": 3},
    "attention:plain": {"m": 300, "n": 3, "d": 4, "e": 2}, "attention:with_sink": {"m": 300, "n": 3},
    "attention:masked": {"m": 300, "n": 3}, "linear_gelu:linear_gelu": {"k": 600, "n": 3, "m": 2},
    "cross_entropy:cross_entropy": {"c": 2100, "n": 3}, "attention:decode": {"m": 1100, "h": 2},
}  # fmt: skip


def check(case: Case, count: int, seed: int = 0, at: dict[str, int] | None = None, backend: str = "c") -> float:
    compiled = kernel(case, backend)

    def known(arrays: list[Array]) -> Any:
        return reference(case.example, arrays)

    largest, share = 0.0, 0.0
    for kind, arrays in inputs(compiled, case.example, count, seed, at=at):
        ratio, _, bounded = worst(compiled, known, arrays)
        assert ratio <= 1, (kind, ratio, [a.shape for a in arrays])
        largest, share = max(largest, ratio), share + bounded / count
    assert share > 0.3, "hardly anything has a bound"
    return largest


@pytest.mark.parametrize("example", QUICK)
def test_no_error_is_above_its_bound(example: str) -> None:
    check(Case(example), 26)


@pytest.mark.parametrize("example", ["softmax:softmax", "layernorm:layernorm"])
def test_over_several_tiles(example: str) -> None:
    check(Case(example), 13, 1, SEVERAL_TILES[example])


@pytest.mark.parametrize("example", ["softmax:softmax"])
def test_float16(example: str) -> None:
    check(Case(example, "float16"), 20)


@pytest.mark.everything
@pytest.mark.parametrize("example", [e for e in EXAMPLES if e != BLOCK])
def test_a_thousand_inputs(example: str) -> None:
    check(Case(example), 1000, 2)


@pytest.mark.everything
@pytest.mark.parametrize("example", SEVERAL_TILES)
def test_over_several_tiles_everywhere(example: str) -> None:
    check(Case(example), 52, 3, SEVERAL_TILES[example])


@pytest.mark.everything
@pytest.mark.parametrize("example", [e for e in EXAMPLES if e != BLOCK])
def test_float16_everywhere(example: str) -> None:
    check(Case(example, "float16"), 100, 4)


@pytest.mark.everything
@pytest.mark.parametrize("backend", ["opencl", "cuda-shim"])
@pytest.mark.parametrize("example", [*QUICK, "attention:heads", "linear_gelu:linear_gelu"])
def test_on_other_backends(example: str, backend: str) -> None:
    check(Case(example), 13, 5, backend=need(backend))


# -- dot products ----------------------------------------------------------------------------------------------------------


def dots(length: int, count: int, seed: int) -> tuple[float, float]:
    """The largest error of a dot product over its bound, and the largest in a product of matrices."""
    rng, one, many = np.random.default_rng(seed), dot(), matmul()
    of_one, rows, columns = 0.0, [], []
    for number in range(count):
        x = rng.random(length) if number % 2 else np.full(length, rng.random())
        y = rng.standard_normal(length) if number % 4 == 1 else rng.random(length) if number % 2 else np.full(length, rng.random())
        rows.append(x.astype("float32"))
        columns.append(y.astype("float32"))
        if number < 40:
            exact = np.dot(rows[-1].astype(np.longdouble), columns[-1].astype(np.longdouble))
            error = abs(np.longdouble(one(rows[-1], columns[-1])) - exact)
            of_one = max(of_one, float(error / one.error_bound(rows[-1], columns[-1])))
    a, b = np.stack(rows[:24]), np.stack(columns[:24], axis=1)
    error = np.abs(many(a, b) - a.astype(np.longdouble) @ b.astype(np.longdouble))
    return of_one, float((error / many.error_bound(a, b)).max())


def dot() -> tv.CompiledKernel:
    return _kept("dot", lambda x, y: (x * y).sum(), x="n", y="n")


def matmul() -> tv.CompiledKernel:
    return _kept("product", lambda x, y: x @ y, x="n k", y="k m")


_KEPT: dict[str, tv.CompiledKernel] = {}


def _kept(name: str, fn: Any, **specs: str) -> tv.CompiledKernel:
    if name not in _KEPT:
        _KEPT[name] = tv.compile(fn, name=name, **specs)
    return _KEPT[name]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 16, 37, 64, 256, 1000, 4096])
def test_dot_products_are_near_their_bound(length: int) -> None:
    """Never above it, and at worst within a factor of 100."""
    for ratio in dots(length, 60, length):
        assert 0.01 <= ratio <= 1
