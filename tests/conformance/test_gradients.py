"""Backward passes on every backend: as the interpreter has them in float64, at prime sizes, ragged edges and sizes of 1.

Against finite differences and other frameworks they are tested in tests/gradients. Here a program's own meaning is the
reference, and its shape: attention's backward stores nothing with a row and a column for each score, in three kernels.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.compiler import CompiledKernel
from tang_verified.passes.derive import Derived, derive
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.check import Certified
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import Const
from tests.conformance.backends import TAKEN, backend, need, number_in_turn, printed, told
from tests.conformance.programs import UNIT, error
from tests.test_examples import function

ATTENTION = (("attention:heads", "nan"), ("attention:causal", "zero"), ("attention:grouped_query", "nan"),
             ("attention:sliding_window", "zero"))  # fmt: skip
OTHERS = (("cross_entropy:cross_entropy", "nan"), ("rmsnorm:rmsnorm", "nan"), ("layernorm:layernorm", "nan"),
          ("conv2d:conv2d", "nan"), ("embedding:embedding", "nan"), ("pooling:max_pool", "nan"))  # fmt: skip
SIZES = ((37, 53, 41, 29), (1, 1, 1, 1))
BACKWARD_KERNELS = 3


@cache
def traced(example: str, empty: str) -> Program:
    plain = function(example)
    forward = tv.trace(plain, empty=empty)  # type: ignore[arg-type]
    numbers = [n for n, tensor in enumerate(forward.inputs) if tensor.dtype == "float32"]
    shape = forward.tensor(forward.outputs[0]).shape
    weights = tv.Spec(tuple(e.value if isinstance(e, Const) else e.name for e in shape))  # type: ignore[union-attr, misc]
    return tv.trace(tv.vjp(plain, numbers, value=True), {"ct": weights}, empty=empty, name="backward")  # type: ignore[arg-type]


@cache
def derived(example: str, empty: str) -> Derived:
    return derive(traced(example, empty))


@cache
def certified(example: str, empty: str, target: Target) -> tuple[Certified, tuple[str, ...]]:
    return certified_plan(traced(example, empty), derived(example, empty), target, {})


def compiled(example: str, empty: str, name: str) -> CompiledKernel:
    return printed(*certified(example, empty, backend(name).target()), name)


def inputs(program: Program, chosen: tuple[int, ...]) -> tuple[dict[str, int], list[Any]]:
    images = any(len(tensor.shape) > 3 for tensor in program.inputs)
    few = {"b": 2, "h": 13 if images else 3, "w": 11}
    at = {s.name: max(s.low, min(few.get(s.name, 64), chosen[n % len(chosen)])) for n, s in enumerate(program.sizes)}
    rng, made = np.random.default_rng(7), []
    for tensor in program.inputs:
        shape = tuple(e.value if isinstance(e, Const) else at[e.name] for e in tensor.shape)  # type: ignore[union-attr]
        if tensor.dtype == "int32":
            made.append(rng.integers(0, min(at.values()), shape).astype(np.int32))
        else:
            made.append(rng.standard_normal(shape).astype(np.float32))
    return at, made


FORWARDS = [name for name in TAKEN if not name.endswith("reversed")]
# attention's two plainest on all backends; each other program on one target in turn, as each costs proofs for every target
ALL = [
    pytest.param(*case, name, id=f"{case[0]} {case[1]}-{name}",
                 marks=() if number < 2 or number_in_turn(number, name) else pytest.mark.everything)
    for number, case in enumerate((*ATTENTION, *OTHERS)) for name in FORWARDS
]  # fmt: skip


@pytest.mark.parametrize(("example", "empty", "name"), ALL)
def test_agrees_with_the_interpreter(example: str, empty: str, name: str) -> None:
    if example.startswith("conv2d") and "llvmpipe" in told(need(name)).get("device", ""):
        pytest.skip("llvmpipe ends every loop of a shader after 65,535 iterations in all: nine sums over images are more")
    kernel = compiled(example, empty, need(name))
    for chosen in SIZES:
        at, given = inputs(kernel.program, chosen)
        exact = {t.name: a.astype(np.float64) if a.dtype.kind == "f" else a
                 for t, a in zip(kernel.program.inputs, given, strict=True)}  # fmt: skip
        with np.errstate(all="ignore"):
            known = evaluate(derived(example, empty).program, exact, at)
        for output, got in zip(kernel.program.outputs, kernel(*given), strict=True):
            assert error(got, known[output], 64 * (16 + 64) * UNIT["float32"]) <= 1.0, (output, at)


@pytest.mark.parametrize(("example", "empty", "name"), ALL[: len(ATTENTION) * len(FORWARDS)])
def test_attention_stores_no_scores(example: str, empty: str, name: str) -> None:
    kernel = compiled(example, empty, need(name))
    for d in kernel.certified.program.defs:
        extents = [extent for extent in d.tensor.shape if extent != Const(64)]
        assert len({str(e) for e in extents} & {"Var(name='n')", "Var(name='m')"}) < 2, d.tensor.name
    kernels = kernel.certified.kernels
    backward = [k for k in kernels if "gradient" in " ".join(k.outputs) or k is kernels[-1]]
    little = any("schedule" in note and "shared memory" in note for note in kernel.notes)  # a kernel each, then
    assert len(backward) <= BACKWARD_KERNELS + little, kernel.notes
