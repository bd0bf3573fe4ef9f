"""Each rule against what it bounds: arguments moved within their errors, the operation in float64, one rounding to float32."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tang_verified.semantics.evaluate_term import evaluate_term
from tang_verified.semantics.rounding import COARSE, RULES, Rounding, Rules, exact
from tang_verified.semantics.scalar_tables import TABLE
from tang_verified.semantics.terms import SIGNATURES, Op, Read, Term, Var

Array = np.ndarray[Any, Any]
CORRECT = Rounding({(name, dtype): Fraction(1, 2) for name in RULES for dtype in ("float16", "float32", "float64")})
COUNT = 20_000


def read(name: str) -> Read:
    return Read(name, (Var("i"),), "real")


def arguments(rng: np.random.Generator, name: str) -> list[tuple[Array, Array, Array]]:
    """For each argument: over the reals, as computed (a float32), and a bound on the difference."""
    out = []
    for place, _ in enumerate(SIGNATURES[name][0]):
        scale = 2.0 ** rng.integers(-8, 4, COUNT)
        if name in ("asin", "acos"):
            scale = np.full(COUNT, 0.4)
        x = rng.standard_normal(COUNT) * scale
        if name in ("log", "sqrt", "rsqrt") or (name == "pow" and place == 0):
            x = np.abs(x)
        if name == "log1p":
            x = np.maximum(x, -0.99)
        computed = x.astype(np.float32).astype(float)
        moved = computed * (1 + 2.0 ** rng.integers(-26, -3, COUNT) * rng.uniform(-1, 1, COUNT))
        moved = np.where(rng.random(COUNT) < 0.2, computed, moved)
        out.append((moved, computed, np.abs(moved - computed) * (1 + rng.random(COUNT))))
    return out


def bounded(name: str, given: list[tuple[Array, Array, Array]], exactly: bool) -> Array:
    from tang_verified.semantics.terms import REAL_ZERO

    names = "ab"[: len(given)]
    value = Op(name, tuple(read(n) for n in names))
    pairs: list[tuple[Term, Term]] = [(read(n), REAL_ZERO if exactly else read(f"e{n}")) for n in names]
    term = Rules(CORRECT, "float32").operation(name, value, *pairs)
    arrays = {n: x for n, (x, _, _) in zip(names, given, strict=True)} | {f"e{n}": e for n, (_, _, e) in zip(names, given, strict=True)}
    with np.errstate(all="ignore"):
        return np.broadcast_to(evaluate_term(term, {"i": np.arange(COUNT)}, arrays), (COUNT,))


@pytest.mark.parametrize("exactly", [False, True], ids=["moved", "exact"])
@pytest.mark.parametrize("name", RULES)
def test_a_rule_bounds_what_it_says(name: str, exactly: bool) -> None:
    given = arguments(np.random.default_rng(7), name)
    if exactly:
        given = [(c, c, np.zeros(COUNT)) for _, c, _ in given]
    bound = bounded(name, given, exactly)
    with np.errstate(all="ignore"):
        known = TABLE[name](*(x for x, _, _ in given))
        computed = TABLE[name](*(c for _, c, _ in given)).astype(np.float32).astype(float)
    has = np.isfinite(bound) & ~np.isnan(known)
    error = np.abs(computed - known)[has]
    assert has.mean() > 0.3
    assert (error <= bound[has] * (1 + 2.0**-20) + 2.0**-50 * np.abs(known[has])).all(), (error / bound[has]).max()
    if name not in ("floor", "ceil", "round") and bound[has].any():
        assert (error / np.where(bound[has] > 0, bound[has], 1)).max() > 0.2  # and not by much more than need be


def test_a_sum_of_terms_with_errors() -> None:
    """In two orders: one after the other, and in pairs."""
    from tang_verified.semantics.terms import ADD, TRUE, Axis, Const, Fold

    rng = np.random.default_rng(3)
    x = rng.standard_normal((64, 500)).astype(np.float32)
    moved = x * (1 + 1e-6 * rng.uniform(-1, 1, x.shape))
    leaf = Read("x", (Var("j"), Var("i")), "real")
    error = Read("e", (Var("j"), Var("i")), "real")

    def bound(depth: int) -> Array:
        fold = Fold(ADD, (Axis("j", Const(64)),), TRUE, (leaf,))
        term = Rules(CORRECT, "float32").total(fold, leaf, error, Const(depth))
        found: Array = evaluate_term(term, {"i": np.arange(500)}, {"x": moved, "e": np.abs(moved - x)})
        return found

    one, pairs = np.zeros(500, np.float32), x
    for row in x:
        one = one + row
    while len(pairs) > 1:
        pairs = pairs[0::2] + pairs[1::2]
    known = moved.sum(axis=0)
    assert (np.abs(one - known) <= bound(63)).all() and (np.abs(pairs[0] - known) <= bound(6)).all()
    assert (bound(6) < bound(63)).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_of_a_format(dtype: str) -> None:
    known, info = Rounding({}), np.finfo(dtype)
    assert float(known.unit(dtype)) == info.eps / 2 and float(known.largest(dtype)) == info.max
    assert known.tiny(dtype) == max(Fraction(float(info.smallest_subnormal)) / 2, COARSE)
    assert Rounding({}, neighbours=True).unit(dtype) == 2 * known.unit(dtype)
    assert Rounding({}, flushed=True).tiny(dtype) == max(Fraction(float(info.tiny)), COARSE)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(1, 10), Fraction(2**24 + 1), Fraction(1, 2**140)])
def test_what_is_no_number_of_a_format(value: Fraction) -> None:
    assert not exact(value, "float32") and exact(Fraction(float(value)), "float64")


@pytest.mark.parametrize("value", [Fraction(0), Fraction(1), Fraction(-3, 4), Fraction(2**24), Fraction(0.1).limit_denominator(2) + 1])
def test_what_is(value: Fraction) -> None:
    assert exact(value, "float32")


def applied(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(x.__array_namespace__(), name)(x)


NAMES = ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan")


QUICK = ("exp", "log", "tanh")


@pytest.mark.parametrize("lanes", [1, 64], ids=["one number", "vectors"])
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.everything) for n in NAMES])
def test_functions_of_c_are_as_near_as_assumed(name: str, lanes: int) -> None:
    """On vectors our own, on single numbers the C library's, where 4 units in the last place are assumed."""
    import tang_verified as tv

    rng = np.random.default_rng(11)
    kernel = tv.compile(applied(name), x=f"n {lanes}", name=f"f_{name}_{lanes}")
    x = rng.standard_normal((256 if lanes > 1 else 4096, lanes)) * 2.0 ** rng.integers(-20, 5, (1, lanes))
    x = np.abs(x) if name in ("log", "sqrt") else np.clip(x, -0.999, None) if name == "log1p" else x
    x = (np.clip(x, -1, 1) if name in ("asin", "acos") else x).astype("float32")
    with np.errstate(all="ignore"):
        known = getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(name, name))(x.astype(float))
    bound = kernel.error_bound(x)
    has = np.isfinite(bound)
    assert has.mean() > 0.9 and (np.abs(kernel(x) - known)[has] <= bound[has]).all()
