"""Rounding bounds at given inputs: the terms of a certificate's bounds, evaluated in float64.

    exact values of all definitions      evaluate(program)             what later kernels read
    errors of each kernel's outputs      its bounds, where the errors of what it reads are arrays NAME.error
    the evaluation's own rounding        2^-20 of the bound more; twice the bound where kernels compute in float64

A bound consists of sums, products and quotients of sizes; the differences in it are values over the reals, whose own
error in float64 enters multiplied by a unit roundoff. So what the evaluation may miss is a small part of the bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tang_verified.proofs.check import Certified
from tang_verified.proofs.rounding import Bound, bounds, error_of
from tang_verified.semantics.evaluate import define, evaluate
from tang_verified.semantics.program import SORTS, Def, Program, Tensor
from tang_verified.semantics.rounding import Rounding

Array = np.ndarray[Any, Any]
MARGIN = 1 + 2.0**-20
LEAST = 2.0**-1040  # what products of errors may lose to underflow in float64: of float64 alone is it no part of the bound


def bounds_of(certified: Certified, rounding: Rounding) -> tuple[Bound, ...]:
    return tuple(bound for kernel in certified.kernels for bound in bounds(kernel, rounding))


def error_bound(
    program: Program, known: Sequence[Bound], inputs: Mapping[str, Array], sizes: Mapping[str, int]
) -> tuple[Array, ...]:  # fmt: skip
    """The bounds of a program's outputs, each kernel's reckoned from those before it."""
    arrays: dict[str, Array] = {
        t.name: inputs[t.name].astype(np.float64) if SORTS[t.dtype] == "real" else inputs[t.name] for t in program.inputs
    }
    if len(program.defs) > 1:
        arrays |= evaluate(program, dict(arrays), dict(sizes))
    wide = any(t.dtype == "float64" for t in (*program.inputs, *(d.tensor for d in program.defs)))
    found: dict[str, Array] = {}
    for bound in known:
        tensor = program.tensor(bound.output)
        error = define(Def(Tensor(tensor.name, "float64", tensor.shape), bound.axes, bound.value), dict(sizes), arrays)
        error = error * 2.0 + LEAST if wide else error * MARGIN
        error = np.where(error >= 0, error, np.inf)  # nan, too, is no bound
        found[bound.output] = arrays[error_of(bound.output)] = error
    return tuple(found[name] for name in program.outputs)
