"""What the tests of single passes need: programs by hand, one rule at work, and agreement with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from tang_verified.passes.rule import Derivation, Rule
from tang_verified.passes.scratch import Scratch
from tang_verified.passes.simplify import Simplifier
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.program import SORTS, Def, DType, Program, Size, Tensor
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import Axis, Op, Read, Term, Var

N, M = Var("n"), Var("m")
I, J = Var("i"), Var("j")
PRIMES = {"n": 5, "m": 7}


def op(name: str, *args: Term) -> Term:
    return Op(name, args)


def x(*index: Term) -> Term:
    return Read("x", index or (I, J), "real")


def y(*index: Term) -> Term:
    return Read("y", index or (J,), "real")


def c(*index: Term) -> Term:
    return Read("c", index or (I,), "real")


def keep(*index: Term) -> Term:
    return Read("keep", index or (I, J), "bool")


def label(*index: Term) -> Term:
    return Read("label", index or (I,), "int")


def over(name: str = "j", extent: Term = M) -> tuple[Axis, ...]:
    return (Axis(name, extent),)


def program(value: Term, low: int = 0, axes: tuple[str, ...] = ("i",), dtype: DType = "float64") -> Program:
    """out[i] = value over inputs x[n, m], y[m], c[n], keep[n, m] and label[n]; m >= low."""
    extents = {"i": N, "j": M}
    inputs = (
        Tensor("x", "float64", (N, M)), Tensor("y", "float64", (M,)), Tensor("c", "float64", (N,)),
        Tensor("keep", "bool", (N, M)), Tensor("label", "int64", (N,)),
    )  # fmt: skip
    out = Tensor("out", dtype, tuple(extents[a] for a in axes))
    return Program("p", (Size("n"), Size("m", low)), inputs, (Def(out, axes, value),), ("out",))


def arrays(p: Program, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    out: dict[str, Any] = {}
    for tensor in p.inputs:
        shape = tuple(PRIMES[e.name] for e in tensor.shape if isinstance(e, Var))
        match SORTS[tensor.dtype]:
            case "bool":
                out[tensor.name] = rng.random(shape) < 0.6
            case "int":
                out[tensor.name] = rng.integers(-1, 9, size=shape)
            case _:
                out[tensor.name] = rng.normal(size=shape)
    return out


def simplified(p: Program, *rules: Rule) -> Derivation:
    """The program after these rules alone; checks that it still means the same."""
    derivation = Derivation(p, Scratch(p))
    Simplifier(derivation, rules).simplify("out")
    for seed in range(3):
        data = arrays(p, seed)
        with np.errstate(all="ignore"):
            want, got = evaluate(p, data)["out"], evaluate(derivation.program, data)["out"]
        np.testing.assert_allclose(got, want, rtol=1e-12, equal_nan=True)
    return derivation


def shown(derivation: Derivation) -> str:
    return show(derivation.value("out"))


def fires(value: Term, *rules: Rule, low: int = 0) -> str:
    """What a term becomes under the rules."""
    return shown(simplified(program(value, low), *rules))


def stays(value: Term, *rules: Rule, low: int = 0) -> bool:
    """Whether nothing applies (or what applies is refused)."""
    return simplified(program(value, low), *rules).value("out") == value
