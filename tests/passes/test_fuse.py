"""Producers written into consumers, bound axes apart; what nothing reads is dropped."""

from __future__ import annotations

import numpy as np

from tang_verified.passes.fuse import apart, drop_unused, inline
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.show import show, show_program
from tang_verified.semantics.terms import ADD, TRUE, Axis, Fold, Var
from tests.passes.helpers import I, M, op, over, x
from tests.passes.zoo import MODELS, traced


def fused(name: str, kept: frozenset[str] = frozenset()) -> Derivation:
    program = traced(name)
    derivation = Derivation(program, Scratch(program))
    kept = kept | set(program.outputs)
    for d in program.defs:
        inline(derivation, d.tensor.name, kept)
    drop_unused(derivation)
    return derivation


def test_fires() -> None:
    derivation = fused("softmax")
    assert not derivation.notes and len(derivation.program.defs) == 1
    model = MODELS["softmax"]
    data = model.arrays()
    want, got = evaluate(model.program(), data), evaluate(derivation.program, data)
    (out,) = derivation.program.outputs
    np.testing.assert_allclose(got[out], want[out], rtol=1e-12)


def test_not_what_is_kept() -> None:
    program = traced("softmax")
    names = frozenset(d.tensor.name for d in program.defs)
    derivation = Derivation(program, Scratch(program))
    for d in program.defs:
        inline(derivation, d.tensor.name, names)
    drop_unused(derivation)
    assert derivation.program == program and not derivation.steps


def test_bound_axes_are_renamed_apart() -> None:
    k = Var("k")
    fold = Fold(ADD, over("k"), TRUE, (x(I, k),))
    assert show(apart(op("add", fold, fold), {"k"})) == "Σ_{k0<m} x[i, k0] + (Σ_{k0<m} x[i, k0])"
    nested = Fold(ADD, (Axis("k", M),), TRUE, (op("mul", x(I, k), fold),))
    assert show(apart(nested, {"k"})) == "Σ_{k0<m} x[i, k0] · (Σ_{k1<m} x[i, k1])"


def test_a_read_in_an_index_goes_first() -> None:
    text = show_program(fused("embedding").program)
    assert text == "t0_take[i0, i1] = Σ_{v0<v} (v0 = label[i0] ? x[v0, i1] : 0)"
