"""The tables agree: the interpreter's, those in SMT, the integer simplifier and isl, on random terms without variables."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest
import z3

from tang_verified.semantics import sets
from tang_verified.semantics.build import canonical, real
from tang_verified.semantics.evaluate_term import evaluate_term
from tang_verified.semantics.meaning import Encoder, Extended, all_of, same
from tang_verified.semantics.terms import FALSE, NAN, NEG_INF, POS_INF, SIGNATURES, TRUE, Const, Op, Term, Var

REALS = (NAN, POS_INF, NEG_INF, *(Const(Fraction(k, 2)) for k in (-4, -3, -2, -1, 0, 0, 1, 2, 3, 5)))
INTS = (-7, -3, -2, -1, 0, 1, 2, 3, 5, 8)
OPS = {
    "real": ("add", "sub", "mul", "div", "max", "min", "neg", "abs", "sub0", "div0", "select", "real"),
    "int": ("add", "sub", "mul", "max", "min", "neg", "abs", "floordiv", "mod", "select", "int", "trunc"),
    "bool": ("lt", "le", "eq", "ne", "and", "or", "not", "select"),
}
ARGUMENT = {"real": "int", "int": "bool", "trunc": "real", "not": "bool", "and": "bool", "or": "bool"}


def term(rng: random.Random, sort: str, depth: int, variables: str = "", affine: bool = False) -> Term:
    if depth == 0 or rng.random() < 0.15:
        if sort == "int":
            return rng.choice([*(Const(k) for k in INTS), *(Var(v) for v in variables * 4)])
        return rng.choice(REALS) if sort == "real" else rng.choice((TRUE, FALSE))

    def next_(s: str) -> Term:
        return term(rng, s, depth - 1, variables, affine)

    name = rng.choice([n for n in OPS[sort] if not affine or n not in ("int", "trunc", "abs")])
    if name == "select":
        return Op(name, (next_("bool"), next_(sort), next_(sort)))
    if name in ("lt", "le", "eq", "ne"):
        kind = "int" if affine else rng.choice(("int", "real"))
        return Op(name, (next_(kind), next_(kind)))
    if affine and name in ("floordiv", "mod") and rng.random() < 0.7:
        return Op(name, (next_("int"), Const(rng.choice((1, 2, 3, 8, -3)))))
    return Op(name, tuple(next_(ARGUMENT.get(name, sort)) for _ in SIGNATURES[name][0]))


def value_of(t: Term, env: dict[str, int]) -> Any:
    """The interpreter's value, or None where there is none."""
    try:
        return evaluate_term(t, env, {}).item()
    except ArithmeticError:
        return None


def allows(t: Term, want: Any) -> bool:
    """Whether the formulas and axioms of SMT allow the term to have the interpreter's value."""
    encoder = Encoder()
    value = encoder.encode(t)
    if isinstance(value, Extended):
        exact = encoder.encode(real(want))
        claim = same(value, exact)
        if math.isfinite(want):  # the interpreter rounds
            near = Fraction(max(1.0, abs(want))) / 10**9
            claim = all_of(value.finite, value.value - exact.value < near, exact.value - value.value < near)
    else:
        claim = value == want
    problem = z3.Solver()
    problem.add(*encoder.axioms(), *encoder.shape, claim)
    return bool(problem.check() == z3.sat)


@pytest.mark.parametrize("seed", range(4))
def test_smt_and_interpreter(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(700):
        t = term(rng, rng.choice(tuple(OPS)), rng.randint(1, 4))
        want = value_of(t, {})
        if want is not None:
            assert allows(t, want), (t, want)


@pytest.mark.parametrize("seed", range(4))
def test_simplifier_and_isl(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(400):
        env = {name: rng.randint(-9, 9) for name in "abc"}
        t = term(rng, rng.choice(("int", "bool")), rng.randint(1, 4), "abc", affine=True)
        want = value_of(t, env)
        if want is None:
            continue
        assert value_of(canonical(t), env) == want, (t, env)
        if isinstance(want, bool):
            facts = [Op("eq", (Var(name), Const(value))) for name, value in env.items()]
            false = Op("not", (t,)) if want else t
            try:
                assert not sets.implies(facts, false), (t, env)
            except sets.NotAffine:
                continue
