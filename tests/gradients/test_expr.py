"""Symbolic expressions: derivatives, proved simplification, what is refused, numbers, and the texts of all backends."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.backends import REGISTRY
from tang_verified.errors import DTypeError, TraceError
from tests.conformance.backends import need

x, y, z = tv.expr("x y z")
exp, log, sqrt, where = np.exp, np.log, np.sqrt, np.where

# expression, condition (or None), what it becomes
SIMPLER: list[tuple[Any, Any, str]] = [
    (x * y + y * x, None, "2 · x · y"),
    ((x + y) ** 2 - x * x - y * y, None, "2 · x · y"),
    (0 * x + 1 * y, None, "y"),
    (x / 3 + x / 6, None, "0.5 · x"),
    (x * y + x * z, None, "x · (y + z)"),
    (x / x, None, "x / x"),
    (x / x, x != 0, "1"),
    (x * y / y, y > 0, "x"),
    ((x * x - y * y) / (x - y), x != y, "x + y"),
    (exp(x) * exp(y) / exp(x), None, "exp(y)"),
    (1 / exp(x), None, "exp(−x)"),
    (log(exp(x) * y), y > 0, "x + log(y)"),
    (log(exp(x)), None, "x"),
    (exp(log(x) + y), None, "exp(log(x) + y)"),
    (exp(log(x)), x > 0, "x"),
    (exp(log(1 + exp(x))), None, "1 + exp(x)"),
    (sqrt(x * x), None, "abs(x)"),
    (sqrt(x * x), x < 0, "−x"),
    (sqrt(4 * x * x), None, "abs(2 · x)"),
    (sqrt(x) * sqrt(x), None, "sqrt(x) · sqrt(x)"),
    (sqrt(x) * sqrt(x), x >= 0, "x"),
    (sqrt(exp(x)), None, "exp(0.5 · x)"),
    (abs(x) * abs(x), None, "x · x"),
    (where(x > 0, x, -x), None, "abs(x)"),
    (where(x > y, x, y), None, "max(x, y)"),
    (np.maximum(x, x + 1), None, "x + 1"),
    (np.maximum(x, 0), x > 1, "x"),
    (where(x > 0, 2 * x, x + x), None, "2 · x"),
    ((x * exp(-x)).diff("x"), None, "(1 − x) · exp(−x)"),
    (exp(-x * x / 2).diff("x", "x"), None, "(x · x − 1) · exp(-0.5 · x · x)"),
    ((x**4 - 3 * x**2 + 2 * x).diff("x", "x"), None, "12 · x · x − 6"),
    (sqrt(x * x + y * y).diff("x"), None, "x /₀ sqrt(x · x + y · y)"),
    (log(x).diff("x"), None, "1 /₀ x"),
    (log(x).diff("x"), x > 0, "1 / x"),
    (log(1 + exp(x)).diff("x"), None, "exp(x) / (exp(x) + 1)"),
]


@pytest.mark.parametrize(("before", "given", "after"), SIMPLER, ids=[f"{b} | {g}" for b, g, _ in SIMPLER])
def test_simplified(before: Any, given: Any, after: str) -> None:
    found = before.simplify(given=given)
    assert str(found) == after
    assert str(found.simplify(given=given)) == after  # nothing is left to do
    steps = found.proof.steps
    assert bool(steps) == (str(before) != after) and len(found.proof.obligations) >= len(steps)
    for values in itertools.product((-2.5, -1.0, 0.0, 0.5, 3.0), repeat=len(before.names)):
        named = dict(zip(before.names, values, strict=True))
        if given is None or given(**{name: named[name] for name in given.names}):
            assert found(**named) == pytest.approx(before(**named), rel=1e-12, abs=1e-12, nan_ok=True), named


# Wrong, each in one way: sign, factor, a pole or a domain forgotten, the wrong law.
UNSOUND: list[tuple[Any, Any, Any]] = [
    (x / x, 1, None), (x * y / y, x, None), ((x * x - y * y) / (x - y), x + y, None), (x / x, 1, x >= 0),
    (sqrt(x * x), x, None), (sqrt(x * x), -x, x > 0), (sqrt(x) * sqrt(x), x, None), (exp(log(x)), x, None),
    (exp(log(x)), x, x > -1), (log(x * y), log(x) + log(y), None), (exp(x) * exp(y), exp(x * y), None),
    (exp(x + y), exp(x) + exp(y), None), (log(x) - log(x), 0 * x, None), (1 / x - 1 / x, 0, None), (abs(x), x, None),
    ((x + y) ** 2, x * x + y * y, None), (x * y + y * x, x * y, None), (np.maximum(x, y), x, None),
    (where(x > 0, x, -x), x, None), (where(x > y, x, y), np.minimum(x, y), None), (0 * log(x), 0, None), (0 / x, 0, None),
    (x * x, x, None), (-(x - y), x - y, None), (sqrt(exp(x)), exp(2 * x), None), (np.tanh(-x), np.tanh(x), None),
    (log(x).diff("x"), 1 / x, None), (x / 3, 0.333333 * x, None), (x - (y - z), x - y - z, None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "given"), UNSOUND, ids=[f"{b} -> {a} | {g}" for b, a, g in UNSOUND])
def test_unsound_rewriting_is_refused(before: Any, after: Any, given: Any) -> None:
    with pytest.raises(tv.CompileError, match=r"disproved|unproved"):
        before.rewrite(after, given=given)


def test_a_refusal_shows_where_they_differ() -> None:
    with pytest.raises(tv.CompileError, match="counterexample x=0"):
        (x / x).rewrite(1)
    with pytest.raises(tv.CompileError, match="never holds"):
        (x + 0 * y).rewrite(y, given=x < x - 1)  # nothing follows from what cannot be


def test_a_wrong_proposal_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from tang_verified.passes import algebra
    from tang_verified.semantics.terms import Op, Term

    def lies(term: Term) -> Any:
        if isinstance(term, Op):
            yield from ((part, "a lie") for part in term.args)

    monkeypatch.setattr(algebra, "proposals", lies)
    assert str((x * y + x).simplify()) == "x · y + x"


def test_random_expressions_keep_their_values() -> None:
    rng = random.Random(7)
    made: list[Any] = [x, y, x + 1]
    for _ in range(14):
        a, b = rng.choice(made), rng.choice(made)
        made.append(rng.choice([
            lambda a=a, b=b: a + b, lambda a=a, b=b: a - b, lambda a=a, b=b: a * b, lambda a=a: a / 2, lambda a=a: exp(-a * a),
            lambda a=a, b=b: np.maximum(a, b), lambda a=a: abs(a), lambda a=a, b=b: where(a < b, a * a, b),
        ])())  # fmt: skip
    at = np.array([-1.5, -0.5, 0.0, 0.25, 1.0])
    for e in made[-8:]:
        for f in (e, e.diff(e.names[0])):
            values = dict(zip(f.names, (at[:, None], at[None, :]), strict=False))
            got, want = np.broadcast_arrays(f.simplify()(**values), f(**values))
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_derivatives_are_those_of_dual_numbers() -> None:
    f = tv.expr(lambda x, y: np.tanh(x * y) + sqrt(x) / (1 + y * y) + abs(x - y) ** 3)
    for name, along in (("x", (1.0, 0.0)), ("y", (0.0, 1.0))):
        want = f(tv.Dual(0.7, along[0]), tv.Dual(1.2, along[1])).slope
        assert f.diff(name)(0.7, 1.2) == pytest.approx(want, rel=1e-13)
        assert f.diff(name).simplify()(0.7, 1.2) == pytest.approx(want, rel=1e-12)


def test_ties_and_poles_as_stated() -> None:
    assert np.maximum(x, 0).diff("x")(0.0) == 0.5 and abs(x).diff("x")(0.0) == 0.0
    assert sqrt(x).diff("x")(0.0) == 0.0 and log(x).diff("x")(0.0) == 0.0
    assert math.isnan((1 / x).diff("x")(0.0))
    assert where(x > 0, log(x), 0).diff("x").simplify()(-1.0) == 0.0


def test_symbols_and_functions() -> None:
    f = tv.expr(lambda b, a: exp(a) * b)
    assert f.names == ("b", "a") and f(2.0, 0.0) == 2.0 == f(a=0.0, b=2.0)
    assert (y * x).names == ("x", "y")  # by their spelling, where no function gave an order
    assert str(f(x + 1, 2)) == "exp(2) · (x + 1)" and f(x + 1, 2).names == ("x",)
    np.testing.assert_array_equal(f(np.array([1.0, 2.0]), 0), [1.0, 2.0])
    pair = tv.expr(lambda r, t: (r * np.cos(t), r * np.sin(t)))
    assert [str(part.diff("t")) for part in pair] == ["r · −sin(t)", "r · cos(t)"]
    assert str(tv.expr(lambda x: 3.0)) == "3" and tv.expr(lambda x: 3.0).diff("x")(1.0) == 0.0
    inside = tv.compile(lambda v: f(v, 0.5 * v).sum(), v="n", name="inside")
    assert inside(np.ones(4, "float32")) == pytest.approx(4 * math.exp(0.5), rel=1e-6)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(TraceError, match="no variable 'w'"):
        (x * y).diff("w")
    with pytest.raises(TraceError, match="takes x, y"):
        (x * y)(1.0)
    with pytest.raises(TraceError, match="not a variable's name"):
        tv.expr("x 2y")
    with pytest.raises(DTypeError, match="no condition"):
        (x / x).simplify(given=x)
    with pytest.raises(TraceError, match="truth value"):
        tv.expr(lambda x: x if x > 0 else -x)
    with pytest.raises(tv.CompileError, match="no variable"):
        tv.expr(lambda: 3.0).compile()


GAUSS = (exp(-x * x / 2) * y).diff("x").simplify()


@pytest.mark.parametrize("backend", REGISTRY)
def test_every_backend_prints_it(backend: str) -> None:
    kernel = GAUSS.compile(backend, name="gauss")
    assert "exp" in kernel.source and GAUSS.source(backend, name="gauss") == kernel.source
    assert "note    like terms" in kernel.explain() or "note    common factors" in kernel.explain()


@pytest.mark.parametrize("backend", ["c", "opencl", "wgsl", "glsl"])
def test_it_runs_where_it_can(backend: str) -> None:
    need(backend)
    a, b = np.linspace(-3, 3, 1001, dtype=np.float32), np.linspace(0, 1, 1001, dtype=np.float32)
    got = GAUSS.compile(backend)(a, b)
    np.testing.assert_allclose(got, -a * np.exp(-a * a / 2) * b, rtol=1e-5, atol=1e-6)


def test_the_certificate_holds_the_simplification(tmp_path: Path) -> None:
    kernel = GAUSS.compile("c", dtype="float64", name="gauss")
    kernel.save(tmp_path)
    report = tv.audit(tmp_path / "gauss.cert.json")
    assert report.exit_code == 0
    assert len(kernel.certified.steps) >= len(GAUSS.proof.steps) > 0
    assert "before" in str(GAUSS.proof) and "z3" in str(GAUSS.proof)
    cautious = (x / x).simplify(given=x != 0)  # assumed, so no part of a kernel's certificate
    assert str(cautious.rewrite(1)) == "1" and cautious.proof.given is not None
