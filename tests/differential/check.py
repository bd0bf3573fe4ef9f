"""One program three ways: compiled, by the reference interpreter, and by NumPy in float64.

How far a kernel may be off is measured, not guessed: NumPy runs the program line by line with noise of a few roundings of
the dtype on whatever is not exact, several times; the spread of the results, a few times over, is the tolerance.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

import tang_verified as tv
from tang_verified.semantics.evaluate import evaluate

from .dual import FUNCTIONS, NUMPY
from .programs import TYPES, Source

EPSILON = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
RUNS, NOISE, MARGIN = 6, 4.0, 8.0


class Different(AssertionError):
    """Two of the three disagree."""


def check(source: Source, sizes: dict[str, int], seed: int = 0) -> Any:
    """Compile the program and compare at the given sizes, and at the least ones of its range; the kernel."""
    kernel = tv.compile(source.function(), name="program", **source.arguments())
    traced = kernel.certified.traced
    least = {size.name: size.low for size in traced.sizes}
    here = {name: max(low, sizes[name]) for name, low in least.items()}
    ones = {name: max(low, 1) for name, low in least.items()}
    for at in unique([here, least, ones]):
        inputs = source.inputs(at, seed)
        results = kernel(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        reference = evaluate(traced, dict(zip((t.name for t in traced.inputs), inputs, strict=True)))
        clean = numpy_results(source, inputs)
        spread = tolerance(source, inputs, clean)
        for number, (got, name) in enumerate(zip(results, traced.outputs, strict=True)):
            tensor = traced.tensor(name)
            where = f"result {number} at {at}"
            same(reference[name], clean[number], 1e-9 + spread[number] * 1e-3, f"reference and NumPy: {where}", source)
            if got.dtype != np.dtype(tensor.dtype):
                raise Different(f"dtype {got.dtype}, not {tensor.dtype}: {where}\n{source.text}")
            known = reference[name]
            if tensor.dtype.startswith("float"):
                with np.errstate(over="ignore"):
                    known = known.astype(tensor.dtype).astype(np.float64)
            same(got, known, spread[number], f"kernel and reference: {where}", source)
    return kernel


def unique(items: list[dict[str, int]]) -> list[dict[str, int]]:
    return [item for number, item in enumerate(items) if item not in items[:number]]


def numpy_results(source: Source, inputs: list[Any], noise: Any = None) -> list[Any]:
    """What the results are in NumPy's float64; with `noise` a random generator, what they might be when rounded."""
    scope: dict[str, Any] = {**FUNCTIONS, "xp": NUMPY}
    for (name, _, dtype), array in zip(source.specs, inputs, strict=True):
        scope[name] = array.astype(TYPES[dtype])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for line, (dtype, sure) in zip(source.lines, source.kinds, strict=True):
            name, text = line.split(" = ", 1)
            here = scope
            if noise is not None and not sure:  # afresh at each mention: the compiler may compute it twice, in two ways
                text = re.sub(r"\b([av]\d+)\b", r"shaken(\1, dtype, noise)", text)
                here = {**scope, "shaken": shaken, "dtype": dtype, "noise": noise}
            value = np.asarray(eval(text, here)).astype(TYPES[dtype])
            scope[name] = shaken(value, dtype, noise) if noise is not None and not sure else value
    return [scope[name] for name in source.results]


def shaken(value: Any, dtype: str, noise: Any) -> Any:
    if value.dtype.kind != "f" or dtype not in EPSILON:
        return value
    return value * (1 + noise.uniform(-1.0, 1.0, value.shape) * NOISE * EPSILON[dtype])


def tolerance(source: Source, inputs: list[Any], clean: list[Any]) -> list[Any]:
    """For every element of the results: how far off it may be."""
    out = [np.zeros(c.shape) for c in clean]
    noise = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        for _ in range(RUNS):
            for number, noisy in enumerate(numpy_results(source, inputs, noise)):
                if noisy.dtype.kind == "f":
                    out[number] = np.fmax(out[number], np.abs(noisy - clean[number]))
    kinds = dict(zip((line.split(" = ")[0] for line in source.lines), source.kinds, strict=True))
    for number, (name, c) in enumerate(zip(source.results, clean, strict=True)):
        dtype = kinds[name][0]
        if dtype in EPSILON:  # one element may be lucky: its neighbours' spread counts too
            around = np.nanmax(np.where(np.isfinite(out[number]), out[number], 0), initial=0)
            tiny = 2.0**-24 if dtype == "float16" else 1e-30
            out[number] = (
                MARGIN * np.fmax(np.nan_to_num(out[number]), 0.25 * around)
                + 4 * EPSILON[dtype] * np.abs(np.nan_to_num(c))
                + tiny
            )
    return out


def same(got: Any, known: Any, tolerance: Any, what: str, source: Source) -> None:
    got, known = np.asarray(got), np.asarray(known)
    if got.shape != known.shape:
        raise Different(f"{what}: shapes {got.shape} and {known.shape}\n{source.text}")
    if known.dtype.kind != "f":
        wrong = got != known
    else:
        got = got.astype(np.float64)
        with np.errstate(all="ignore"):
            close = np.abs(got - known) <= tolerance
        wrong = ~((np.isnan(got) & np.isnan(known)) | (got == known) | (np.isfinite(got) & np.isfinite(known) & close))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
        allowed = np.broadcast_to(tolerance, known.shape)[at]
        raise Different(
            f"{what}: {got[at]} and {known[at]} at {at} ({int(wrong.sum())} of {wrong.size} elements; allowed {allowed})\n"
            f"{source.text}with {source.specs}"
        )
