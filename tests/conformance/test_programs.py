"""Every program on every backend agrees with NumPy in float64, at prime sizes, ragged edges and sizes of 1."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.conformance.backends import DEVICES, ON_A_CPU, TAKEN, WANTED, backend, kernel, need, told
from tests.conformance.programs import CASES, CHOSEN, Case, error, inputs, reference, sizes, tolerance


@pytest.mark.parametrize("name", [*DEVICES, *ON_A_CPU[-2:]])
def test_backend_is_here(name: str, record_property: Any) -> None:
    """Skipped with the reason where it is not; a failure in CI."""
    if name not in WANTED:
        pytest.skip(f"{name} was not asked for ($TANG_CONFORMANCE)")
    record_property("backend", name)
    record_property("device", told(need(name))["device" if name != "c" else "version"])


# on every backend by default; the others, and all in float16, on some backends in turn: all with -m "everything or not everything"
CORE = (
    "attention:causal", "attention:masked", "attention:decode", "softmax:softmax", "layernorm:layernorm", "conv2d:conv2d",
    "linear_gelu:linear_gelu", "swiglu:swiglu", "cross_entropy:cross_entropy", "embedding:embedding", "pooling:max_pool",
)  # fmt: skip


def cells() -> Iterator[Any]:
    """Every program with every backend. C runs all in float32, as tests/test_examples.py does: one certificate for both."""
    targets = list(dict.fromkeys(backend(name).target() for name in TAKEN))
    for number, case in enumerate(CASES):
        for name in TAKEN:
            whole = case.dtype == "float32" and (name == "c" or case.example in CORE)
            turn = whole or backend(name).target() == targets[number % len(targets)]
            yield pytest.param(case, name, marks=[] if turn else pytest.mark.everything, id=f"{case}-{name}")


@pytest.mark.parametrize(("case", "name"), list(cells()))
def test_agrees_with_numpy(case: Case, name: str, record_property: Any) -> None:
    record_property("backend", name)
    record_property("program", str(case))
    start = sum(os.times()[:4])
    compiled, worst = kernel(case, need(name)), 0.0
    for number, chosen in enumerate(CHOSEN[:1] if name.endswith("reversed") else CHOSEN):
        given = inputs(case, sizes(case, chosen), seed=number)
        got = compiled(*given)
        assert got.dtype == np.dtype(compiled.program.tensor(compiled.program.outputs[0]).dtype)
        worst = max(worst, error(got, reference(case, given), tolerance(case, given)))
        assert worst <= 1.0, f"at {sizes(case, chosen)}: {worst:.3g} times the tolerance"
    record_property("error over tolerance", f"{worst:.2g}")
    record_property("processor seconds", f"{sum(os.times()[:4]) - start:.1f}")  # its first backend pays for the certificate
