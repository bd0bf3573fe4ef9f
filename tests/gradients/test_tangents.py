"""Tangents of what does not depend on its maximum: beside JAX's, ties and masks included, and without a maximum's own slope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import Op, Term, children
from tests.gradients.models import attention, fixed, log_sum_exp, named, softmax, write


def causal(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    i, j = xp.arange(q.shape[0]), xp.arange(k.shape[0])
    return softmax(xp.where(j[None, :] <= i[:, None], q @ k.T, -xp.inf)) @ v


def two_softmaxes(x: Any) -> Any:
    return softmax(softmax(x) * 3.0 + x)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "softmax": (softmax, ((5, 7),)),
    "log-sum-exp": (log_sum_exp, ((5, 7),)),
    "attention": (attention, ((5, 3), (7, 3), (7, 2))),
    "causal attention": (causal, ((7, 3), (7, 3), (7, 2))),
    "two softmaxes": (two_softmaxes, ((5, 7),)),
}


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    fn, shapes = CASES[name]
    rng = np.random.default_rng(4)
    here = [np.round(rng.standard_normal(shape), 1) for shape in shapes]  # rounded: there are ties
    here[0][0] = 0.0
    ways = [rng.standard_normal(shape) for shape in shapes]
    names = [f"x{n}" for n in range(len(shapes))]
    specs = dict(zip([*names, *(f"d_{name}" for name in names)], fixed(*here, *ways), strict=True))
    written = write(tv.jvp(named(fn, names)), specs)
    known = jax.jvp(fn, tuple(map(jax.numpy.asarray, here)), tuple(map(jax.numpy.asarray, ways)))
    for got, theirs in zip(written(*here, *ways), known, strict=True):
        np.testing.assert_allclose(got, np.asarray(theirs), rtol=1e-10, atol=1e-12)
    assert not [show(d.value) for d in written.program.defs if any(is_tie(term) for term in terms(d.value))]


def is_tie(term: Term) -> bool:
    """Two reals compared: what a maximum's slope begins with, and nothing else here."""
    return isinstance(term, Op) and term.name == "eq" and show(term).count("max") > 0


def terms(term: Term) -> Iterator[Term]:
    yield term
    for part in children(term):
        yield from terms(part)


def test_compiled() -> None:
    """Softmax's tangent reads each row twice and compares nothing."""
    kernel = tv.compile(tv.jvp(softmax), x="n m>=1", d_x="n m")
    x, d = (np.random.default_rng(n).standard_normal((5, 37)).astype("float32") for n in (0, 1))
    p = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf)).astype("float64")
    p /= p.sum(-1, keepdims=True)
    value, slope = kernel(x, d)
    np.testing.assert_allclose(value, p, rtol=1e-5)
    np.testing.assert_allclose(slope, p * (d - (p * d).sum(-1, keepdims=True)), rtol=1e-4, atol=1e-6)
    assert not any(is_tie(term) for d in kernel.certified.program.defs for term in terms(d.value))
