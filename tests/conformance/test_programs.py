"""Every program on every backend agrees with NumPy in float64, at prime sizes, ragged edges and sizes of 1."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.conformance.backends import DEVICES, ON_A_CPU, TAKEN, WANTED, in_turn, kernel, need, told
from tests.conformance.programs import CASES, CHOSEN, Case, error, inputs, reference, sizes, tolerance


@pytest.mark.parametrize("name", [*DEVICES, *ON_A_CPU[-2:]])
def test_backend_is_here(name: str, record_property: Any) -> None:
    """Skipped with the reason where it is not; a failure in CI."""
    if name not in WANTED:
        pytest.skip(f"{name} was not asked for ($TANG_CONFORMANCE)")
    record_property("backend", name)
    record_property("device", told(need(name))["device" if name != "c" else "version"])


def cells() -> Iterator[Any]:
    """Every program with every backend. In float16 on those of one target in turn, which share a certificate, and shims in
    reversed order with theirs: all with -m "everything or not everything"."""
    for case in CASES:
        for name in TAKEN:
            whole = case.dtype == "float32" and (not name.endswith("reversed") or in_turn(case, name))
            marks = [] if whole or in_turn(case, name) else pytest.mark.everything
            yield pytest.param(case, name, marks=marks, id=f"{case}-{name}")


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
