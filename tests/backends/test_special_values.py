"""pow and log1p where a language's own or a helper's could be wrong: signs, zeros, the largest numbers and infinities."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.proofs.readback import read_back

BACKENDS = ("c", "opencl", "wgsl", "glsl")
X = np.array([-2, -2, -2, 2, 0, 0, -0.5, -8, 1, 7, -1, 3, 1e20, -1e20], np.float32)
Y = np.array([3, 2, 0, 3, 0, 2, 1, -1, 9, 0, 7, -3, 1, 1], np.float32)
BIG = np.array([0, -0.5, 1e-30, 1, 3.9e36, 1e37, 3e38, 1, -1], np.float32)  # the last but one becomes infinite


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name != "c":
        told = dict(import_module(f"tang_verified.backends.{name}.runtime").describe())
        if told["usable"] != "yes":
            pytest.skip(f"{name} is not usable here: {told['usable']}")
    return name


def test_powers(backend: str) -> None:
    found = np.asarray(tv.compile(lambda x, y: x**y, x="n", y="n", backend=backend)(X, Y))
    assert np.allclose(found, X.astype(np.float64) ** Y, rtol=1e-4, atol=0), found


def test_powers_of_negative_numbers_that_are_not_whole(backend: str) -> None:
    power = tv.compile(lambda x, y: x**y, x="n", y="n", backend=backend)
    assert np.isnan(np.asarray(power(np.array([-2, -0.5], np.float32), np.array([0.5, 1.5], np.float32)))).all()


def test_log1p(backend: str) -> None:
    def f(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.log1p(xp.where(x == 1.0, xp.inf, x))

    found = np.asarray(tv.compile(f, x="n", backend=backend)(BIG))
    with np.errstate(divide="ignore"):
        assert np.allclose(found, np.log1p(np.where(BIG == 1, np.inf, BIG)), rtol=1e-4, atol=0), found


@pytest.mark.parametrize("backend", ["wgsl", "glsl"])
def test_the_languages_own_pow_is_refused(backend: str) -> None:
    made = tv.compile(lambda x, y: x**y, x="n", y="n", backend=backend, name="power")
    suffix, name = {"wgsl": ("wgsl", "tv_pow_f32"), "glsl": ("comp", "tv_pow_float")}[backend]
    head, entry, body = made.source.partition({"wgsl": "@compute", "glsl": "void main() {"}[backend])
    changed = head + entry + body.replace(f"{name}(", "pow(")
    assert changed != made.source
    assert read_back(made.certified.kernels[0], made.source, suffix) is None
    found = read_back(made.certified.kernels[0], changed, suffix)
    assert found is not None and "pow is not defined" in found.why
