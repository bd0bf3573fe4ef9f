"""Kernels of several outputs agree with NumPy in float64 on every backend, at prime sizes, ragged edges and sizes of 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

from tang_verified.compiler import CompiledKernel
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.check import Certified
from tang_verified.semantics.terms import Const
from tang_verified.tracing.tracer import trace
from tests.conformance.backends import TAKEN, backend, need, number_in_turn, printed
from tests.conformance.programs import UNIT, error
from tests.schedule import several

Array = np.ndarray[Any, Any]
SIZES = ({"n": 37, "m": 53, "d": 19, "e": 23, "h": 3}, {"n": 67, "m": 131, "d": 16, "e": 257, "h": 1},
         {"n": 1, "m": 1, "d": 1, "e": 1, "h": 1})  # fmt: skip
PROGRAMS = (
    several.attention, several.attention_of_any_width, several.causal, several.two_values, several.gradients_of_keys,
    several.gradients_of_narrow_values, several.causal_gradients, several.statistics, several.softmax_and_log_sum,
    several.norm_and_statistics, several.sum_and_largest, several.two_of_a_product, several.maps,
)  # fmt: skip


@cache
def certified(fn: Callable[..., Any], target: Target) -> tuple[Certified, tuple[str, ...]]:
    traced = trace(fn, {})
    return certified_plan(traced, derive(traced), target, {})


def compiled(fn: Callable[..., Any], name: str) -> CompiledKernel:
    return printed(*certified(fn, backend(name).target()), name)


def inputs(kernel: CompiledKernel, sizes: dict[str, int]) -> list[Array]:
    """Random; what stands for a row's log-sum-exp is one, so that weights are no larger than 1."""
    rng, made = np.random.default_rng(sizes["n"]), []
    for tensor in kernel.program.inputs:
        shape = [e.value if isinstance(e, Const) else sizes[e.name] for e in tensor.shape]  # type: ignore[union-attr]
        made.append(rng.standard_normal(shape).astype(np.float32) + (6.0 if tensor.name == "lse" else 0.0))
    return made


ALL = [  # one on all backends, each other on one target in turn
    pytest.param(fn, name, id=f"{fn.__name__}-{name}",
                 marks=() if fn is several.attention or number_in_turn(number, name) else pytest.mark.everything)
    for number, fn in enumerate(PROGRAMS) for name in TAKEN
]  # fmt: skip


@pytest.mark.parametrize(("fn", "name"), ALL)
def test_agrees_with_numpy(fn: Callable[..., Any], name: str) -> None:
    kernel = compiled(fn, need(name))
    assert len(kernel.certified.kernels) == 1 or any("bytes of shared memory" in note for note in kernel.notes)
    for sizes in SIZES[:1] if name.endswith("reversed") else SIZES:
        given = [array.astype(np.float32) for array in inputs(kernel, sizes)]
        with np.errstate(all="ignore"):
            known = fn(*(array.astype(np.float64) for array in given))
        allowed = 4 * (16 + 160) * UNIT["float32"]
        for got, exact in zip(kernel(*given), known, strict=True):
            assert error(got, exact, allowed) <= 1.0, sizes


def test_nothing_beyond_an_output_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL 3.0 did, where it was let optimise; a driver that does so may not stay unnoticed."""
    need("opencl")
    import pyopencl as cl

    from tang_verified.backends.opencl import runtime

    spare, made = 1 << 14, []

    def allocate(dtype: str, shape: tuple[int, ...]) -> Any:
        size = max(prod(shape) * np.dtype(dtype).itemsize, runtime.DUMMY)
        whole = cl.Buffer(runtime._queue().context, cl.mem_flags.READ_WRITE, size + 2 * spare)
        cl.enqueue_copy(runtime._queue(), whole, np.full(size + 2 * spare, 0xAB, np.uint8))
        made.append((whole, size))
        return whole.get_sub_region(spare, size)

    monkeypatch.setattr(runtime, "_allocate", allocate)
    for fn in (several.two_of_a_product, several.two_values, several.causal):
        kernel = compiled(fn, "opencl")
        kernel(*(array.astype(np.float32) for array in inputs(kernel, SIZES[0])))
    assert len(made) >= 11
    for whole, size in made:
        around = np.empty(size + 2 * spare, np.uint8)
        cl.enqueue_copy(runtime._queue(), around, whole)
        assert (around[:spare] == 0xAB).all() and (around[spare + size :] == 0xAB).all()
