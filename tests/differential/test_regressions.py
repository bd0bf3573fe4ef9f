"""The cases of `regressions.py`: compiled in the first form that is tried, and equal to NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tang_verified as tv

from .programs import TYPES, values
from .regressions import CASES


@pytest.mark.parametrize("name", CASES)
def test_regression(name: str) -> None:
    fn, specs, shapes = CASES[name]
    kernel = tv.compile(fn, **specs)
    assert not [note for note in kernel.notes if note.startswith("schedule")]
    rng = np.random.default_rng(1)
    inputs = [values(rng, shape, t.dtype) for shape, t in zip(shapes, kernel.program.inputs, strict=True)]
    got = kernel(*inputs)
    known = fn(*(a.astype(TYPES[str(a.dtype)]) for a in inputs))
    np.testing.assert_allclose(got, known, rtol=1e-5, atol=1e-5)
