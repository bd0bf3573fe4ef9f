"""A random program's derivatives: forward against reverse, and both against differences.

    ⟨Jv, w⟩ = ⟨v, Jᵀw⟩     at the program's own inputs, multiples of 1/8 with many ties: at kinks, too
    ⟨Jv, w⟩ = d/dt ⟨f(x + t·v), w⟩     a little away from them, where no tie is met
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import tang_verified as tv
from tang_verified.semantics.terms import Const
from tang_verified.spec import Spec
from tests.differential.dual import NUMPY
from tests.differential.programs import Source
from tests.gradients.models import named, write


class Different(AssertionError):
    """Two of the three disagree."""


def check(source: Source, sizes: dict[str, int], seed: int) -> bool:
    """Compare, or say False where there is nothing to differentiate. In float64, whatever the program's floats are."""
    inputs = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in source.inputs(sizes, seed)]
    specs = {name: Spec(s.shape, "float64" if a.dtype.kind == "f" else s.dtype, s.ranges)
             for (name, s), a in zip(source.arguments().items(), inputs, strict=True)}  # fmt: skip
    fn = first_real(source, specs)
    if fn is None:
        return False
    names = list(specs)
    numbers = tuple(n for n, a in enumerate(inputs) if a.dtype.kind == "f")
    traced = tv.trace(named(fn, names), specs)
    out = traced.tensor(traced.outputs[0])
    known = np.asarray(numpy_result(source, inputs)[result_number(source, specs)])
    if len(out.shape) != known.ndim or not known.size:
        return False
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(known.shape)
    ways = [rng.standard_normal(inputs[n].shape) for n in numbers]
    ct = {"ct": Spec(tuple(known.shape), "float64")}
    here = {name: Spec(a.shape, s.dtype) for (name, s), a in zip(specs.items(), inputs, strict=True)}
    symbolic = all(isinstance(e, Const) for e in out.shape)
    back = write(tv.vjp(named(fn, names), numbers), {**(specs if symbolic else here), **ct})
    forward = write(tv.jvp(named(fn, names), numbers), {**specs, **{f"d_{names[n]}": specs[names[n]] for n in numbers}})
    for nudge in (0.0, 0.03):
        point = [a + nudge * rng.standard_normal(a.shape) if a.dtype.kind == "f" else a for a in inputs]
        _, tangent = forward(*point, *ways)
        gradients = back(*point, weights)
        by_tangent = float((tangent * weights).sum())
        by_gradient = float(sum((g * v).sum() for g, v in zip(gradients, ways, strict=True)))
        scale = float(np.abs(tangent * weights).sum() + sum(np.abs(g * v).sum() for g, v in zip(gradients, ways, strict=True)))
        if not np.isfinite(scale):
            continue
        if abs(by_tangent - by_gradient) > 1e-10 * scale + 1e-12:
            raise Different(f"⟨Jv, w⟩ = {by_tangent}, ⟨v, Jᵀw⟩ = {by_gradient} at {sizes}, nudged by {nudge}\n{source.text}")
        if nudge:
            compare(source, specs, point, numbers, ways, weights, by_tangent, scale)
    return True


def compare(
    source: Source, specs: dict[str, Spec], point: list[Any], numbers: tuple[int, ...], ways: list[Any], weights: Any,
    slope: float, scale: float,
) -> None:  # fmt: skip
    """With differences of two steps; where these disagree there is a kink or a jump between, and nothing is compared."""
    number = result_number(source, specs)

    def value(t: float) -> float:
        moved = list(point)
        for n, way in zip(numbers, ways, strict=True):
            moved[n] = point[n] + t * way
        return float((np.asarray(numpy_result(source, moved)[number]) * weights).sum())

    one, other = ((value(h) - value(-h)) / (2 * h) for h in (1e-5, 3e-6))
    if not np.isfinite(one + other) or abs(one - other) > 1e-6 * scale + 1e-7:
        return
    if abs(one - slope) > 1e-5 * scale + 1e-6:
        raise Different(f"slope {slope}, by differences {one}\n{source.text}")


def numpy_result(source: Source, inputs: list[Any]) -> tuple[Any, ...]:
    """With no rounding: every float is a float64."""
    exact = replace(source, lines=tuple(re.sub(r"xp\.float(16|32)", "xp.float64", line) for line in source.lines))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = exact.function(NUMPY)(*inputs)
    return found if isinstance(found, tuple) else (found,)


def result_number(source: Source, specs: dict[str, Spec]) -> int:
    """The first result of floats, or −1."""
    program = tv.trace(source.function(), specs)
    kinds = [program.tensor(name).dtype.startswith("float") for name in program.outputs]
    return kinds.index(True) if True in kinds else -1


def first_real(source: Source, specs: dict[str, Spec]) -> Any:
    number = result_number(source, specs)
    if number < 0:
        return None

    def fn(*args: Any) -> Any:
        found = source.function()(*args)
        return found[number] if isinstance(found, tuple) else found

    return fn
