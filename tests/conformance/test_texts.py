"""The printed texts under compilers that are stricter than those that run them: nvcc for real GPUs, Tint, spirv-val."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.conformance.backends import IN_CI, TAKEN, in_turn, kernel
from tests.conformance.programs import CASES, Case
from tests.shims import nvcc, tint

SAMPLE = (
    Case("attention:causal", "float16"), Case("softmax:softmax", "float16"), Case("linear_gelu:linear_gelu", "float16"),
    Case("conv2d:strided"), Case("cross_entropy:cross_entropy"),
)  # fmt: skip


def param(case: Case, taken: bool) -> Any:
    return pytest.param(case, marks=[] if taken else pytest.mark.everything, id=str(case))


def missing(what: str, install: str) -> None:
    """Skip, saying how to get it; in CI it must be there."""
    message = f"no {what} here; run: {install}"
    if IN_CI:
        pytest.fail(message)
    pytest.skip(message)


@pytest.mark.parametrize("architecture", nvcc.ARCHITECTURES)
@pytest.mark.parametrize("case", [param(case, case in SAMPLE) for case in CASES])
def test_nvcc_spills_nothing(case: Case, architecture: str) -> None:
    if not any(name.startswith("cuda") for name in TAKEN):
        pytest.skip("cuda was not asked for ($TANG_CONFORMANCE)")
    if nvcc.find() is None:
        missing("nvcc", nvcc.INSTALL)
    for text in kernel(case, "cuda").sources.values():
        usage = nvcc.compile_for(text, architecture)
        assert usage, "no entry point"
        spilt = {entry: used for entry, used in usage.items() if used.spill_stores or used.spill_loads}
        assert not spilt


@pytest.mark.parametrize("case", [param(case, case.dtype == "float32" or in_turn(case, "wgsl")) for case in CASES])
def test_tint_takes_the_text(case: Case) -> None:
    if "wgsl" not in TAKEN:
        pytest.skip("wgsl was not asked for ($TANG_CONFORMANCE)")
    if not tint.available():
        missing("Tint", tint.INSTALL)
    compiled = kernel(case, "wgsl")
    plans = compiled._backend.plans(compiled.certified)
    for (name, text), plan in zip(compiled.sources.items(), plans, strict=True):
        assert tint.validate(text, plan.launches) is None, name


def test_spirv_is_validated() -> None:
    """The GLSL runtime hands every module to spirv-val where it is installed: so must it be where the suite counts."""
    if shutil.which("spirv-val") is None:
        missing("spirv-val", "apt-get install spirv-tools")
