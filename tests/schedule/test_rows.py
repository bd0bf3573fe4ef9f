"""Rows in registers and elements as vectors: the texts on the CPU's shims against NumPy in float64, and what stands in them.

Lengths that a vector divides and that it does not, several rows a subgroup, one, several subgroups; a last block of rows that
is not full; lengths known by a bound, and not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from examples.cross_entropy import cross_entropy
from examples.layernorm import layernorm
from examples.logsumexp import logsumexp
from examples.rmsnorm import rmsnorm
from examples.softmax import softmax
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.tracing.tracer import trace
from tests.conformance.backends import backend, printed
from tests.shims import nvcc


def momentum(p, g, v):
    moved = 0.9 * v + g
    return p - 0.01 * moved, moved


def matvec(a, x):
    return a @ x


def scaled(x, w):
    return x * 2.0 + w


ROW, WEIGHT, FLAT = "n {}", "{}", "k"
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "softmax": (softmax, {"x": ROW}),
    "rmsnorm": (rmsnorm, {"x": ROW, "w": WEIGHT}),
    "layernorm": (layernorm, {"x": ROW, "w": WEIGHT, "b": WEIGHT}),
    "logsumexp": (logsumexp, {"x": ROW}),
    "cross_entropy": (cross_entropy, {"logits": ROW, "label": "n"}),
    "matvec": (matvec, {"a": ROW, "x": WEIGHT}),
    "scaled": (scaled, {"x": ROW, "w": WEIGHT}),
    "momentum": (momentum, {"p": FLAT, "g": FLAT, "v": FLAT}),
}
LENGTHS = ("8192", "1000", "96", "10", "m>=1", "m>=1<=500")
CASES = [("softmax", length, dtype) for length in (*LENGTHS, "2056") for dtype in ("float16", "float32")]
CASES += [(name, length, "float16") for name in ("rmsnorm", "layernorm", "cross_entropy") for length in ("2048", "1000")]
CASES += [(name, "520", dtype) for name in ("logsumexp", "matvec", "scaled") for dtype in ("float16", "float32", "float64")]
CASES += [("scaled", "20000", "float32"), ("momentum", "1", "float16"), ("momentum", "1", "float32"), ("matvec", "m", "float32")]


def made(name: str, length: str, dtype: str, shim: str) -> tuple[Any, tuple[str, ...]]:
    function, shapes = PROGRAMS[name]
    bare = length.split(">=")[0] if ">=" in length else length
    specs = {key: tv.spec(shape.format(length if shape == ROW else bare), "int32" if key == "label" else dtype)
             for key, shape in shapes.items()}  # fmt: skip
    program = trace(function, specs, name=name)
    proved, notes = certified_plan(program, derive(program), backend(shim).target(), {})
    return printed(proved, notes, shim), notes


def inputs(name: str, rows: int, length: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(7)
    shapes = {ROW: (rows, length), WEIGHT: (length,), FLAT: (1021 * rows,), "n": (rows,)}
    given = PROGRAMS[name][1]
    return [rng.integers(0, length, rows).astype("int32") if key == "label" else rng.standard_normal(shapes[shape]).astype(dtype)
            for key, shape in given.items()]  # fmt: skip


@pytest.mark.parametrize(("name", "length", "dtype"), CASES)
@pytest.mark.parametrize("shim", ["cuda-shim", "cuda-shim-reversed", "metal-shim"])
def test_agrees_with_numpy(name: str, length: str, dtype: str, shim: str) -> None:
    if dtype == "float64" and shim.startswith("metal"):
        pytest.skip("Metal has no float64")
    kernel, notes = made(name, length, dtype, shim)
    assert not notes
    size = {"m>=1": 777, "m>=1<=500": 333, "m": 300}.get(length) or int(length)
    given = inputs(name, 5, size, dtype)
    found = kernel(*given)
    known = PROGRAMS[name][0](*(a if a.dtype.kind == "i" else a.astype("float64") for a in given))
    for got, want in zip(found if isinstance(found, tuple) else (found,), known if isinstance(known, tuple) else (known,), strict=True):
        near = {"float16": 2e-3, "float32": 3e-5, "float64": 1e-13}[dtype]
        np.testing.assert_allclose(got, want, rtol=near, atol=near * (30 if name == "matvec" else 1))


def text_of(name: str, length: str, dtype: str) -> str:
    return "\n".join(made(name, length, dtype, "cuda-shim")[0].sources.values())


def test_a_row_is_read_once_and_a_fold_takes_one_barrier() -> None:
    text = text_of("softmax", "8192", "float16")
    assert text.count("= *(const uint4 *)&x[") == 4 and "= x[" not in text and "(x[" not in text
    assert text.count("__stcg((uint4 *)") == 4 and text.count("__syncthreads") == 2 and text.count("expf(") == 32


def test_a_short_row_takes_no_barrier() -> None:
    assert "__syncthreads" not in text_of("layernorm", "1024", "float16")
    assert "__syncthreads" not in text_of("softmax", "96", "float32")


@pytest.mark.parametrize(("name", "length", "dtype"), [(n, "8192", t) for n in PROGRAMS for t in ("float16", "float32")])
@pytest.mark.skipif(nvcc.find() is None, reason=nvcc.INSTALL)
def test_nothing_is_spilled(name: str, length: str, dtype: str) -> None:
    for text in made(name, length, dtype, "cuda-shim")[0].sources.values():
        for usage in nvcc.compile_for(text, "sm_90a").values():
            assert (usage.spill_stores, usage.spill_loads, usage.stack) == (0, 0, 0), usage
