"""Every program on every backend agrees with NumPy in float64, at prime sizes, ragged edges and sizes of 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conformance.backends import DEVICES, ON_A_CPU, SHIMS, TAKEN, WANTED, kernel, need, told
from tests.conformance.programs import CASES, CHOSEN, Case, error, inputs, reference, sizes, tolerance


@pytest.mark.parametrize("name", [*DEVICES, *ON_A_CPU[-2:]])
def test_backend_is_here(name: str, record_property: Any) -> None:
    """Skipped with the reason where it is not; a failure in CI."""
    if name not in WANTED:
        pytest.skip(f"{name} was not asked for ($TANG_CONFORMANCE)")
    record_property("backend", name)
    record_property("device", told(need(name))["device" if name != "c" else "version"])


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_numpy(case: Case, name: str, record_property: Any) -> None:
    record_property("backend", name)
    record_property("program", str(case))
    compiled, worst = kernel(case, need(name)), 0.0
    for number, chosen in enumerate(CHOSEN if name not in SHIMS or "reversed" not in name else CHOSEN[:1]):
        given = inputs(case, sizes(case, chosen), seed=number)
        got = compiled(*given)
        assert got.dtype == np.dtype(case.dtype)
        worst = max(worst, error(got, reference(case, given), tolerance(case, given)))
        assert worst <= 1.0, f"at {sizes(case, chosen)}: {worst:.3g} times the tolerance"
    record_property("error over tolerance", f"{worst:.2g}")
