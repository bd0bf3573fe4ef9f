"""The whole transformer block's gradient in all its arguments, compiled, beside JAX's in float64."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tests.gradients.models import named
from tests.test_examples import BLOCK, function

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]  # a minute to compile: beside what CI runs alone
SPECS = {name: spec for name, spec in function(BLOCK).__annotations__.items() if isinstance(spec, tv.Spec)}
NUMBERS = tuple(range(len(SPECS)))


def loss(*arrays: Any) -> Any:
    return (function(BLOCK)(*arrays) ** 2).sum()


@cache
def compiled() -> Any:
    names = list(inspect.signature(function(BLOCK)).parameters)
    return tv.compile(tv.grad(named(loss, names), NUMBERS), **SPECS, name="block_gradient")


def arrays(n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    shapes = [tuple(n if isinstance(extent, str) else extent for extent in spec.shape) for spec in SPECS.values()]
    return [(rng.standard_normal(shape) * (shape[0] ** -0.5 if number and len(shape) > 1 else 1.0)).astype("float32")
            for number, shape in enumerate(shapes)]  # fmt: skip


@pytest.mark.parametrize("n", [1, 7, 13])
def test_like_jax(n: int) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    given = arrays(n)
    known = jax.grad(loss, NUMBERS)(*(jax.numpy.asarray(a, "float64") for a in given))
    largest = max(float(np.abs(theirs).max()) for theirs in known)
    for name, got, theirs in zip(SPECS, compiled()(*given), known, strict=True):
        scale = float(np.abs(theirs).max()) or largest  # with one key wq and wk have no slope: what is left is rounding
        np.testing.assert_allclose(got, np.asarray(theirs), rtol=2e-4, atol=1e-5 * scale, err_msg=name)


def test_no_schedule_is_refused() -> None:
    """Each kernel in the form that was chosen for it."""
    assert not [note for note in compiled().notes if note.startswith("schedule") and " of " in note]
