"""Products by units that take their operands from swizzled shared memory: on the host shim, and on a GPU that has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.compiler import CompiledKernel
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.tracing.tracer import trace
from tests.conformance.backends import OF_UNITS, backend, need, printed, usable
from tests.conformance.programs import UNIT, error
from tests.shims import nvcc

WHERE = (*OF_UNITS, *(["cuda-sm90a"] if usable("cuda") else []))


def product(a: tv.spec("n 192", "float16"), b: tv.spec("192 128", "float16")):
    return a @ b


def of_columns(a: tv.spec("n 128", "float16"), w: tv.spec("256 128", "float16")):
    return a @ w.T


def ragged(a: tv.spec("n 200", "float16"), b: tv.spec("200 136", "float16")):
    return a @ b


def with_bias(a: tv.spec("n 128", "float16"), w: tv.spec("128 128", "float16"), b: tv.spec("128", "float16")):
    xp = a.__array_namespace__()
    return xp.maximum(a @ w + b, 0.0)


def short(a: tv.spec("n 64", "float16"), b: tv.spec("64 128", "float16")):
    return a @ b


PROGRAMS = (product, of_columns, ragged, with_bias, short)


@cache
def certified(fn: Callable[..., Any]) -> Any:
    traced = trace(fn, {})
    return certified_plan(traced, derive(traced), backend("cuda-sm90a").target(), {})


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("fn", PROGRAMS)
def test_agrees_with_numpy(fn: Callable[..., Any], where: str) -> None:
    kernel: CompiledKernel = printed(*certified(fn), need(where))
    assert "wgmma_m64n128k64" in "".join(kernel.sources.values()), kernel.notes
    rng = np.random.default_rng(7)
    for n in (1, 131, 257):
        given = [
            rng.standard_normal([n if not hasattr(e, "value") else e.value for e in tensor.shape]).astype(np.float16)
            for tensor in kernel.program.inputs
        ]
        known = fn(*(array.astype(np.float64) for array in given))
        assert error(kernel(*given), known, 4 * UNIT["float16"]) <= 1.0, n


@pytest.mark.parametrize("fn", PROGRAMS)
def test_nvcc_spills_nothing(fn: Callable[..., Any]) -> None:
    if nvcc.find() is None:
        pytest.skip(f"no nvcc here; run: {nvcc.INSTALL}")
    kernel: CompiledKernel = printed(*certified(fn), "cuda-sm90a-shim")
    for text in kernel.sources.values():
        usage = nvcc.compile_for(text, "sm_90a")
        assert usage and not any(used.spill_stores or used.spill_loads for used in usage.values())
        assert all(used.registers <= 128 for used in usage.values()), "two blocks a multiprocessor"
