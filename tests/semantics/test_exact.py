"""Hypotheses evaluated at a model: as Z3 evaluates them, and nothing that is no model passes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import sqrt

import pytest
import z3

from tang_verified.semantics.exact import Exact, Model, NoModel, Table, evaluate, hypotheses, parse
from tang_verified.semantics.surds import Surd, squarefree, total

STATEMENT = """(declare-fun i.n () Int)
(declare-fun fn.exp (Real) Real)
(declare-fun i.unused () Int)
(assert (<= 1 i.n))
(assert (= (fn.exp 0.0) 1.0))
(assert (not (< 0 i.unused)))
(check-sat)
"""
GOOD: Model = {"i.n": 3, "fn.exp": Table({(Fraction(0),): Fraction(1)}, Fraction(2))}


def check(model: Model, statement: str = STATEMENT) -> None:
    Exact().check(hypotheses(statement), model, "name")


def test_the_goal_is_no_hypothesis() -> None:
    given = hypotheses(STATEMENT)
    assert given.assertions == ("(assert (<= 1 i.n))", "(assert (= (fn.exp 0.0) 1.0))")
    assert len(given.declarations) == 2  # the goal's own names need no value
    check(GOOD)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"i.n": 0}, "falsifies"),
        ({"i.n": Fraction(3)}, "no value of sort Int"),
        ({"i.n": True}, "no value of sort Int"),
        ({"i.n": Table({}, 3)}, "no value of sort Int"),
        ({"fn.exp": Fraction(1)}, "no value of sort Real"),
        ({"fn.exp": Table({}, 1)}, "no value of sort Real"),
        ({"fn.exp": Table({(0,): Fraction(1)}, Fraction(2))}, "no value of sort Real"),
        ({"fn.exp": Table({(Fraction(0), Fraction(0)): Fraction(1)}, Fraction(1))}, "no value of sort Real"),
        ({"fn.exp": Table({(Fraction(0),): Fraction(3)}, Fraction(1))}, "falsifies"),
        ({"<=": Table({}, True), "i.n": 0}, "falsifies"),
        ({"1.0": Fraction(2), "fn.exp": Table({}, Fraction(2))}, "falsifies"),
    ],
)
def test_no_model(change: Model, why: str) -> None:
    with pytest.raises(NoModel, match=why):
        check({**GOOD, **change})


def test_a_name_without_a_value() -> None:
    with pytest.raises(NoModel, match=r"gives i\.n no value"):
        check({"fn.exp": GOOD["fn.exp"]})


@pytest.mark.parametrize("text", ["(forall ((x Int)) (= x x))", "(= 1 1 1)", "(bvadd 1 2)", "(to_int r.s)"])
def test_what_has_no_exact_meaning_here(text: str) -> None:
    with pytest.raises(NoModel):
        evaluate(parse(text), {"r.s": total({2: Fraction(1)})}, {})


def test_numbers_stay_small() -> None:
    text = "i.n"
    for _ in range(40):
        text = f"(let ((a {text})) (* a a))"
    with pytest.raises(NoModel, match="bits"):
        evaluate(parse(text), {"i.n": 3}, {})
    with pytest.raises(NoModel, match="too deep"):
        check(GOOD, STATEMENT.replace("(<= 1 i.n)", "(not " * 900 + "(<= 1 i.n)" + ")" * 900))


FORMULAS = [
    "(= (div i.a i.b) i.c)", "(= (mod i.a i.b) i.c)", "(let ((x (+ i.a i.b)) (y (- i.c))) (< (* x y) (- x y 1)))",
    "(ite (> i.a i.b) (>= i.c 0) (distinct i.a i.c))", "(=> (< i.a i.b) (or (= i.c 1) (and (<= i.c 0) true)))",
    "(= (to_int (/ (to_real i.a) 2.0)) i.b)", "(< (* (to_real i.a) (- 0.25)) (/ (- 3.0) 7.0))", "(= (< i.a i.b) (< i.b i.c))",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_as_z3_evaluates(text: str) -> None:
    names = ("i.a", "i.b", "i.c")
    declared = "".join(f"(declare-fun {name} () Int)" for name in names)
    formula = z3.parse_smt2_string(f"{declared}(assert {text})")[0]
    for values in product((-7, -2, 1, 3), (-3, -1, 2, 5), (-1, 0, 1, 2)):
        point = [(z3.Int(name), z3.IntVal(value)) for name, value in zip(names, values, strict=True)]
        want = z3.is_true(z3.simplify(z3.substitute(formula, *point)))
        assert evaluate(parse(text), dict(zip(names, values, strict=True)), {}) is want, values


def root(n: int, c: Fraction = Fraction(1)) -> Surd:
    found = total({n: c})
    assert isinstance(found, Surd)
    return found


def test_sums_of_roots() -> None:
    assert root(2) * root(2) == Fraction(2) and root(6) * root(3) == root(2, Fraction(3))
    assert root(2) - root(2) == Fraction(0) and root(2) != Fraction(0)
    assert (root(2) + root(3)) * (root(3) - root(2)) == Fraction(1)
    assert hash(root(5)) == hash(root(20 // 4))


def test_the_order_of_roots() -> None:
    values = [Fraction(n, 7) for n in range(-9, 10)] + [root(2), -root(3), root(2) + root(3), root(2) - root(3) * Fraction(9, 11)]
    for a, b in product(values, values):
        x, y = (float(v) if isinstance(v, Fraction) else sum(float(c) * sqrt(n) for n, c in v.parts) for v in (a, b))
        assert (a < b, a <= b, a > b, a >= b) == (x < y, x <= y, x > y, x >= y), (a, b)
    close = Fraction(665857, 470832)  # a convergent of sqrt 2, from above
    assert root(2) < close and close - Fraction(1, 10**11) < root(2) < close + Fraction(1, 10**30)


def test_squarefree() -> None:
    assert [n for n in range(-3, 21) if squarefree(n)] == [1, 2, 3, 5, 6, 7, 10, 11, 13, 14, 15, 17, 19]
    assert not squarefree(10**30 + 57)
