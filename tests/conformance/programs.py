"""The programs of the suite: every example, in float32 and in float16, and inputs and tolerances for them.

    attention:causal, float16   ->   the example's function, its specs with float16 for float32
    inputs(case, chosen)        ->   fresh random arrays, at sizes that the program allows
    error(got, known, case)     ->   the largest difference over the tolerance: at most 1, and nan matches nan alone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np

import tang_verified as tv
from tang_verified.passes.derive import Derived, derive
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import Const
from tang_verified.tracing.tracer import trace
from tests.test_examples import EXAMPLES, function, module

Array = np.ndarray[Any, Any]
UNIT = {"float16": 2.0**-11, "float32": 2.0**-24}


@dataclass(frozen=True)
class Case:
    """One program of the suite."""

    example: str
    dtype: Literal["float32", "float16"] = "float32"
    empty: Literal["nan", "zero"] = "nan"
    schedule: tuple[tuple[str, int], ...] = ()

    @property
    def group(self) -> str:
        """What shares certificates: kept in one process by the test runner."""
        return f"{self.example} {self.dtype}"

    def __str__(self) -> str:
        options = [f"{name}={value}" for name, value in self.schedule]
        return " ".join([self.example, self.dtype, *options, *(["empty=zero"] if self.empty == "zero" else [])])


EVERY = tuple(Case(example, dtype) for dtype in ("float32", "float16") for example in EXAMPLES)
SPLIT = tuple(Case("attention:decode", dtype, schedule=(("splits", 4),)) for dtype in ("float32", "float16"))
CASES = (*EVERY, *SPLIT)
CHOSEN = ((37, 53, 41, 29), (1, 1, 1, 1), (2, 61, 3, 47))  # primes, and sizes of 1; in the order of the program's sizes
FEW = {"b": 2}  # batches, and
HEADS = {"h": 3}  # heads, stay few


@cache
def traced(case: Case) -> Program:
    plain = function(case.example)
    specs = {
        name: replace(spec, dtype=case.dtype) if spec.dtype == "float32" else spec
        for name, spec in plain.__annotations__.items() if isinstance(spec, tv.Spec)
    }  # fmt: skip
    return trace(plain, specs, empty=case.empty)


@cache
def derived(case: Case) -> Derived:
    return derive(traced(replace(case, schedule=())))


def sizes(case: Case, chosen: Sequence[int]) -> dict[str, int]:
    """The chosen numbers, raised to what the program needs."""
    few = FEW | HEADS if case.example.startswith("attention") else FEW
    most = 13 if any(len(tensor.shape) > 3 for tensor in traced(case).inputs) else 64  # of images
    return {
        size.name: min(max(size.low, min(few.get(size.name, most), chosen[place % len(chosen)])), size.high)
        for place, size in enumerate(traced(case).sizes)
    }


def inputs(case: Case, at: dict[str, int], seed: int = 0) -> list[Array]:
    """Random arrays. Integers index the axis that the example names; matrices of weights keep the size of what they map."""
    rng, made = np.random.default_rng(seed), []
    ranges = getattr(module(case.example.split(":")[0]), "RANGES", {})
    for tensor in traced(case).inputs:
        shape = tuple(e.value if isinstance(e, Const) else at[e.name] for e in tensor.shape)  # type: ignore[union-attr]
        if tensor.dtype == "int32":
            made.append(rng.integers(0, at[ranges[tensor.name]], shape).astype(np.int32))
        elif tensor.dtype == "bool":
            made.append(rng.random(shape) < 0.5)
        else:
            weight = len(shape) == 2 and case.example.startswith("transformer")
            made.append((rng.standard_normal(shape) / (np.sqrt(shape[0]) if weight else 1)).astype(tensor.dtype))
    return made


def reference(case: Case, given: Sequence[Array]) -> Array:
    """The same function on the same values, in NumPy's float64."""
    exact = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in given]
    with np.errstate(all="ignore"):
        known: Array = function(case.example)(*exact)
    return known


def tolerance(case: Case, given: Sequence[Array]) -> float:
    """Relative to the largest value: folds of this length in float32, special functions of some ulp, a rounding to the dtype.

    What a program keeps between its kernels is rounded to the dtype too.
    """
    length = max((extent for array in given for extent in array.shape), default=1)
    stored = 2 + 4 * (len(derived(case).program.defs) - 1)
    return (16 + length) * UNIT["float32"] + stored * UNIT[case.dtype]


def error(got: Array, known: Array, allowed: float) -> float:
    """The largest difference in units of what is allowed; infinite where one side alone is nan, or infinities differ."""
    if got.shape != known.shape:
        return np.inf
    if not known.size:
        return 0.0
    finite = np.isfinite(known)
    scale = np.abs(known[finite]).max(initial=0.1)  # inputs are about 1: what cancels below that has lost its digits
    here = got.astype(np.float64)
    same = np.where(np.isnan(known), np.isnan(here), here == known)
    if not np.all(same | finite):
        return np.inf
    difference = np.where(np.isfinite(here), np.abs(here - np.where(finite, known, 0.0)), np.inf)[finite]
    return float(difference.max(initial=0.0) / (allowed * scale))
