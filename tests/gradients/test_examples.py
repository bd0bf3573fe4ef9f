"""Every example's gradient in all its float arguments: against differences along random directions, and against PyTorch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.semantics.show import show
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
    weights = tv.Spec(tuple(e.value if isinstance(e, Const) else show(e) for e in result.shape), "float64")  # type: ignore[misc]
    return write(tv.vjp(plain, numbers), {**specs, "ct": weights})


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

    h = 1e-6 if "max_pool" in example else 1e-3  # no tie on the way
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


# -- PyTorch's own gradients ------------------------------------------------------------------------------------------


def _attention(torch: Any, q: Any, k: Any, v: Any) -> Any:
    n, m = q.shape[-2], k.shape[-2]
    mask = torch.arange(m)[None, :] <= torch.arange(n)[:, None] + (m - n)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1 / 8)


PEERS: dict[str, Any] = {
    "attention:causal": _attention,
    "attention:heads": lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, scale=1 / 8),
    "softmax:softmax": lambda t, x: t.softmax(x, -1),
    "logsumexp:logsumexp": lambda t, x: t.logsumexp(x, -1),
    "conv2d:conv2d": lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1),
    "conv2d:strided": lambda t, x, w: t.nn.functional.conv2d(x, w, stride=2, padding=1, dilation=2, groups=2),
    "pooling:max_pool": lambda t, x: t.nn.functional.max_pool2d(x, 2),
    "pooling:average_pool": lambda t, x: t.nn.functional.avg_pool2d(x, 2),
    "embedding:embedding": lambda t, table, ids: t.nn.functional.embedding(ids, table),
    "linear_gelu:linear_gelu": lambda t, x, w, b: t.nn.functional.gelu(x @ w + b, approximate="tanh"),
}


@pytest.mark.parametrize("example", PEERS)
def test_like_pytorch(example: str) -> None:
    torch = pytest.importorskip("torch")
    given = arrays(example, (3, 5, 7, 2, 4))
    tensors = [torch.tensor(a, requires_grad=a.dtype == np.float64) for a in given[:-1]]
    result = PEERS[example](torch, *tensors)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result.detach().numpy(), function(example)(*given[:-1]), rtol=1e-10, atol=1e-12)
    (result * torch.tensor(given[-1])).sum().backward()
    known = [t.grad.numpy() for t in tensors if t.requires_grad]
    for got, theirs in zip(differentiated(example)(*given), known, strict=True):
        np.testing.assert_allclose(got, theirs, rtol=1e-10, atol=1e-12)


# -- JAX's: the examples run on its arrays as they stand ----------------------------------------------------------------


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e != BLOCK])
def test_like_jax(example: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    given = arrays(example, (3, 5, 7, 2, 4))
    floats = [n for n, a in enumerate(given[:-1]) if a.dtype == np.float64]

    def of_floats(*moving: Any) -> Any:
        own = [jax.numpy.asarray(a) for a in given[:-1]]
        for n, value in zip(floats, moving, strict=True):
            own[n] = value
        return function(example)(*own)

    result, pull = jax.vjp(of_floats, *(jax.numpy.asarray(given[n]) for n in floats))
    if not np.isfinite(np.asarray(result)).all():
        pytest.skip("a row sees no key")
    for got, theirs in zip(differentiated(example)(*given), pull(jax.numpy.asarray(given[-1])), strict=True):
        np.testing.assert_allclose(got, np.asarray(theirs), rtol=1e-9, atol=1e-11)
