"""The interpreter against NumPy and against the value tables of docs/architecture.md."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tang_verified.semantics.evaluate import evaluate, evaluate_term
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import (
    ADD,
    ALL,
    MAX,
    MUL,
    NAN,
    NEG_INF,
    POS_INF,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    Axis,
    Const,
    Fold,
    Monoid,
    Op,
    Read,
    Sym,
    Term,
    Var,
)  # fmt: skip

N, M = Var("n"), Var("m")
HALF = Const(Fraction(1, 2))


def scalar(term: Term) -> float | bool:
    return evaluate_term(term, {}, {}).item()


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("div", (REAL_ONE, REAL_ZERO), math.nan),
        ("div", (POS_INF, REAL_ZERO), math.nan),
        ("div", (POS_INF, POS_INF), math.nan),
        ("div", (REAL_ONE, POS_INF), 0.0),
        ("div0", (NAN, REAL_ZERO), 0.0),
        ("div0", (POS_INF, POS_INF), math.nan),
        ("sub", (NEG_INF, NEG_INF), math.nan),
        ("sub0", (NEG_INF, NEG_INF), -math.inf),
        ("sub0", (POS_INF, POS_INF), math.nan),
        ("mul", (REAL_ZERO, POS_INF), math.nan),
        ("exp", (NEG_INF,), 0.0),
        ("log", (REAL_ZERO,), -math.inf),
        ("log", (Const(Fraction(-1)),), math.nan),
        ("max", (NAN, REAL_ONE), math.nan),
        ("min", (REAL_ONE, NAN), math.nan),
        ("lt", (NAN, REAL_ONE), False),
        ("eq", (NAN, NAN), False),
        ("ne", (NAN, NAN), True),
        ("round", (HALF,), 0.0),
        ("round", (Const(Fraction(3, 2)),), 2.0),
        ("pow", (REAL_ZERO, Const(Fraction(-1))), math.nan),
        ("select", (TRUE, REAL_ONE, NAN), 1.0),
        ("floordiv", (Const(-7), Const(2)), -4),
        ("mod", (Const(-7), Const(2)), 1),
        ("mod", (Const(7), Const(-2)), -1),
    ],
)
def test_value_tables(name: str, args: tuple[Const, ...], expected: float) -> None:
    np.testing.assert_equal(scalar(Op(name, args)), expected)


def test_integer_division_by_zero_has_no_value() -> None:
    with pytest.raises(ArithmeticError, match="floordiv"):
        scalar(Op("floordiv", (Const(3), Const(0))))
    assert scalar(Op("select", (TRUE, Const(1), Op("mod", (Const(3), Const(0)))))) == 1


def test_empty_fold_is_the_identity() -> None:
    for monoid, expected in ((ADD, 0.0), (MUL, 1.0), (MAX, -math.inf)):
        assert scalar(Fold(monoid, (Axis("k", Const(0)),), TRUE, (HALF,))) == expected
    assert scalar(Fold(ALL, (Axis("k", Const(0)),), TRUE, (Const(False),))) is True


def test_max_keeps_negative_zero() -> None:
    zero = Fold(MAX, (Axis("k", Const(8193)),), TRUE, (Read("x", (Var("k"),), "real"),))
    value = evaluate_term(zero, {}, {"x": np.full(8193, -0.0)})
    assert value == 0 and np.signbit(value)


def test_constant_body_counts() -> None:
    assert scalar(Fold(ADD, (Axis("k", Const(7)), Axis("l", Const(3))), TRUE, (HALF,))) == 10.5


def test_triangular_extent_and_guard() -> None:
    k, extent = Var("k"), Op("add", (Var("i"), Const(1)))
    fold = Fold(ADD, (Axis("k", extent),), Op("ne", (k, Const(1))), (Read("x", (k,), "real"),))
    x = np.arange(1.0, 6.0)
    got = evaluate_term(fold, {"i": np.arange(5)}, {"x": x})
    np.testing.assert_array_equal(got, [sum(x[k] for k in range(i + 1) if k != 1) for i in range(5)])


def test_noncommutative_fold_goes_in_axis_order() -> None:
    first = Monoid("first", (Const(False), REAL_ZERO), (
        Op("or", (Sym("a0", "bool"), Sym("b0", "bool"))),
        Op("select", (Sym("a0", "bool"), Sym("a1", "real"), Sym("b1", "real"))),
    ), commutative=False)  # fmt: skip
    x = np.arange(12.0).reshape(4, 3) + 1
    guard = Op("lt", (Var("j"), Var("k")))
    fold = Fold(first, (Axis("k", Const(4)), Axis("l", Const(3))), guard, (TRUE, Read("x", (Var("k"), Var("l")), "real")), 1)
    np.testing.assert_array_equal(evaluate_term(fold, {"j": np.arange(4)}, {"x": x}), [4, 7, 10, 0])


def test_faults_only_where_taken() -> None:
    i, k = Var("i"), Var("k")
    inside = Op("lt", (i, Const(3)))
    read = Read("x", (i,), "real")
    x = {"x": np.arange(3.0)}
    masked = evaluate_term(Op("select", (inside, read, REAL_ONE)), {"i": np.arange(5)}, x)
    np.testing.assert_array_equal(masked, [0, 1, 2, 1, 1])
    with pytest.raises(IndexError, match=r"x\[3\] is out of range"):
        evaluate_term(read, {"i": np.arange(5)}, x)
    window = Fold(ADD, (Axis("k", Const(9)),), Op("lt", (k, Const(3))), (Read("x", (k,), "real"),))
    assert evaluate_term(window, {}, x) == 3.0
    empty = Fold(ADD, (Axis("k", Const(0)),), TRUE, (Read("x", (Const(7),), "real"),))
    assert evaluate_term(empty, {}, x) == 0.0


def matmul_program() -> Program:
    a, b = Read("a", (Var("i"), Var("k")), "real"), Read("b", (Var("k"), Var("j")), "real")
    value = Fold(ADD, (Axis("k", M),), TRUE, (Op("mul", (a, b)),))
    return Program(
        "matmul", (Size("n"), Size("m")),
        (Tensor("a", "float32", (N, M)), Tensor("b", "float32", (M, N))),
        (Def(Tensor("c", "float32", (N, N)), ("i", "j"), value),), ("c",),
    )  # fmt: skip


def test_program_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(7, 13)), rng.normal(size=(13, 7))
    np.testing.assert_allclose(evaluate(matmul_program(), {"a": a, "b": b})["c"], a @ b, rtol=1e-12)
    monkeypatch.setattr("tang_verified.semantics.evaluate.CHUNK", 40)
    np.testing.assert_allclose(evaluate(matmul_program(), {"a": a, "b": b})["c"], a @ b, rtol=1e-12)


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="shape"):
        evaluate(matmul_program(), {"a": np.ones((2, 3)), "b": np.ones((4, 2))})
    with pytest.raises(ValueError, match="no array"):
        evaluate(matmul_program(), {"a": np.ones((2, 3))})
