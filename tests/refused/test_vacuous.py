"""Contradictory hypotheses, smuggled in. Whatever is claimed under them follows; so each is refused, or reported as vacuous."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from tang_verified.compare import compare
from tang_verified.explain import explain
from tang_verified.proofs.certificate import read
from tang_verified.proofs.check import Certified, certify
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.propose_model import Proposer
from tang_verified.proofs.replay import audit_text
from tang_verified.proofs.steps import Step
from tang_verified.report import render
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, For, Kernel, Loop
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import ADD, REAL_ZERO, TRUE, ZERO, Axis, Const, Fold, IllFormed, Op, Read, Term, Var
from tests.proofs.samples import certificate, sources

I, N, T = Var("i"), Var("n"), Var("t")
FALSEHOOD = Const(Fraction(42))


def op(name: str, *args: Term) -> Op:
    return Op(name, args)


def x(index: Term = I) -> Read:
    return Read("x", (index,), "real")


def z(index: Term = I) -> Read:
    return Read("z", (index,), "real")


def program(value: Term, *sizes: Size) -> Program:
    """y[i] = value over x[n] and z[n]."""
    inputs = (Tensor("x", "float64", (N,)), Tensor("z", "float64", (N,)))
    y = Tensor("y", "float64", (N,))
    return Program("p", sizes or (Size("n", 1, 1000),), inputs, (Def(y, ("i",), value),), ("y",))


def store(value: Term, guard: Term = TRUE) -> Assign:
    return Assign((Loop(Axis("i", N), "seq"),), "y", (I,), value, guard)


def kernel(p: Program, *body: object) -> Kernel:
    return Kernel("k", p, ("x", "z"), ("y",), body)  # type: ignore[arg-type]


def one_step(condition: Term, before: Term, after: Term, rule: str = "pointwise") -> Certified:
    """The step `before -> after` in the first branch of a select, and a kernel for the result."""

    def branch(value: Term) -> Program:
        return program(op("select", condition, value, z()))

    p, q = branch(before), branch(after)
    return certify(p, (Step(rule, "y", (1,), before, after),), (kernel(q, store(q.defs[0].value)),))


IMPOSSIBLE = {
    "an index below 0": op("lt", I, ZERO),
    "an index past the end": op("le", N, I),
    "an index in two places": op("and", op("eq", I, Const(3)), op("eq", I, Const(5))),
    "a size out of its range": op("lt", Const(1000), N),
    "no residue": op("eq", op("mod", I, Const(4)), Const(4)),
    "an order of reals that is none": op("and", op("lt", x(), z()), op("lt", z(), x())),
    "a square below 0": op("lt", op("mul", x(), x()), REAL_ZERO),
    "an input that is infinite": op("eq", x(), Const("inf")),
    "a negative exponential": op("lt", op("exp", x()), REAL_ZERO),
    "tanh above 1": op("lt", Const(Fraction(1)), op("tanh", x())),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_step_under_an_impossible_condition(name: str) -> None:
    with pytest.raises(Refused) as refusal:
        one_step(IMPOSSIBLE[name], x(), FALSEHOOD)
    assert (refusal.value.obligation, refusal.value.verdict) == ("pointwise/reachable", "disproved"), refusal.value


@pytest.mark.parametrize("rule", ["pointwise", "rename"])
def test_even_a_true_step_there_is_refused(rule: str) -> None:
    with pytest.raises(Refused, match=f"{rule}/reachable"):
        one_step(IMPOSSIBLE["a square below 0"], x(), x(), rule)


POSSIBLE = {
    "some index": op("lt", I, Const(5)),
    "the largest size": op("eq", N, Const(1000)),
    "an order of reals": op("and", op("lt", x(), z()), op("lt", z(), Const(Fraction(7, 3)))),
    "a square": op("eq", op("mul", x(), x()), Const(Fraction(9, 4))),
    "an exponential": op("lt", op("exp", x()), Const(Fraction(1, 1000))),
    "above the root of 3": op("lt", op("sqrt", Const(Fraction(3))), x()),
    "between two roots": op("and", op("lt", op("sqrt", Const(Fraction(2))), x()), op("lt", x(), op("sqrt", Const(Fraction(3))))),
    "one over a root": op("lt", op("rsqrt", Const(Fraction(12))), op("div", x(), op("sqrt", Const(Fraction(8))))),
    "a root": op("lt", op("sqrt", op("add", x(), Const(Fraction(2)))), Const(Fraction(3))),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_sound_twins(name: str) -> None:
    before = op("add", x(), REAL_ZERO)
    certified = one_step(POSSIBLE[name], before, x())
    assert "pointwise/reachable" in {o.name for o in certified.obligations}
    assert all(o.model and not o.vacuous for o in certified.obligations if o.prover != "structure")
    with pytest.raises(Refused, match="pointwise"):
        one_step(POSSIBLE[name], before, FALSEHOOD)


def test_sizes_that_contradict_each_other() -> None:
    with pytest.raises(IllFormed, match=r"range 9\.\.5"):
        program(x(), Size("n", 9, 5))


@pytest.mark.parametrize(
    "guard", [op("lt", I, ZERO), op("lt", N, Const(1)), op("and", op("lt", I, Const(3)), op("lt", Const(5), I))], ids=str
)
def test_a_statement_that_never_runs(guard: Term) -> None:
    p = program(x())
    with pytest.raises(Refused, match="reachable/y: disproved"):
        certify(p, (), (kernel(p, store(x()), store(FALSEHOOD, guard)),))


def test_its_sound_twin() -> None:
    p = program(x())
    half = op("lt", I, Const(500))
    certified = certify(p, (), (kernel(p, store(x(), half), store(x(), op("not", half))),))
    assert [o.name for o in certified.obligations].count("reachable/y") == 2


def summed(extent: Term, element: Term, claim: Term) -> None:
    """y[] = Σ_{j < n} x[j] by a running sum over `extent` iterations."""
    whole = Fold(ADD, (Axis("j", N),), TRUE, (x(Var("j")),))
    p = replace(program(x()), defs=(Def(Tensor("y", "float64", ()), (), whole),))
    state = Read("s", (), "real")
    loop = For(Axis("t", extent), "seq", (Assign((), "s", (), op("add", state, element)),), (Carried("s", Claim((), claim)),))
    start = (Alloc(Buffer("s", "float64", (), "thread")), Assign((), "s", (), REAL_ZERO))
    rest = Fold(ADD, (Axis("c", op("sub", N, extent)),), TRUE, (x(op("add", Var("c"), extent)),))
    certify(p, (), (kernel(p, *start, loop, Assign((), "y", (), op("add", state, rest))),))


PREFIX = Fold(ADD, (Axis("j", T),), TRUE, (x(Var("j")),))


@pytest.mark.parametrize("extent", [ZERO, op("min", op("sub", N, N), N)], ids=["0", "min(n - n, n)"])
def test_a_loop_that_is_never_entered_and_claims_what_it_likes(extent: Term) -> None:
    with pytest.raises(Refused, match="reachable/t: disproved"):
        summed(extent, FALSEHOOD, op("mul", FALSEHOOD, op("real", T)))


def test_a_loop_that_is_entered() -> None:
    element = Fold(ADD, (Axis("e", Const(1)),), TRUE, (x(op("add", Var("e"), T)),))
    summed(Const(1), element, PREFIX)
    summed(N, element, PREFIX)


def test_finite_because_it_is_empty() -> None:
    """log(x) over no index at all would be remembered as finite."""
    p = program(x())
    z = Tensor("w", "float64", (ZERO,))
    p = replace(p, defs=(Def(z, ("i",), op("log", x())), *p.defs))
    with pytest.raises(Refused, match="finite/reachable"):
        certify(p, (Step("finite", "w", (), op("log", x()), op("log", x())),), (kernel(p, store(x())),))


def test_dead_branches_of_a_program_are_reported() -> None:
    """Padding of width 0, say: the user may write it; its read is in bounds because it never happens."""
    value = op("select", op("lt", I, ZERO), x(op("add", I, Const(5))), x())
    p = program(value)
    certified = certify(p, (), (kernel(p, store(x())),))
    vacuous = [o for o in certified.obligations if o.vacuous]
    assert [o.name for o in vacuous] == ["in-bounds/x"] * 1 and all(o.trust == "vacuous" for o in vacuous)
    shown = [o for o in certified.obligations if o.name == "in-bounds/x/contradictory"]
    assert [o.prover for o in shown] == ["z3"] and "(assert true)" in shown[0].statement


def test_an_output_without_elements_is_reported() -> None:
    """x[5:] of size 3: NumPy gives an empty array, and so does the kernel. Its statements never run, by the program's will."""
    p = replace(program(x()), defs=(Def(Tensor("y", "float64", (ZERO,)), ("i",), x()),))
    body = Assign((Loop(Axis("i", ZERO), "seq"),), "y", (I,), x())
    certified = certify(p, (), (kernel(p, body),))
    assert "empty/y" in {o.name for o in certified.obligations}
    assert {"in-bounds/x", "in-bounds/y"} <= {o.name for o in certified.obligations if o.vacuous}


def test_the_ledger_gives_every_set_of_hypotheses_a_model() -> None:
    ledger = Ledger(program(x()))
    ledger.holds("one", ledger.base, op("lt", ZERO, N))
    ledger.holds("two", (*ledger.base, op("lt", N, ZERO)), op("eq", N, Const(7)))
    ledger.ground()
    assert [(o.name, o.vacuous) for o in ledger.obligations] == [("one", False), ("two", True), ("two/contradictory", False)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "/contradictory: unproved"),
        ({}, "/hypotheses: unproved: no model of them: it gives i.i no value"),
        ({"i.i": 5, "i.n": 5}, "/hypotheses: unproved: no model of them: it falsifies"),
        ({"i.i": 0, "i.n": 10**50}, "/hypotheses: unproved: no model of them: model: '1000"),
    ],
)
def test_the_search_is_not_believed(said: object, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Proposer, "model", lambda self, given: said)
    ledger = Ledger(program(x()))
    ledger.holds("here", (*ledger.base, op("le", ZERO, I), op("lt", I, N)), op("lt", I, Const(1000)))
    with pytest.raises(Refused) as refusal:
        ledger.ground()
    assert why in str(refusal.value)


def test_reports_say_what_is_vacuous() -> None:
    """The state before the only tile is a fold over nothing."""
    text = certificate("one tile")
    report = audit_text(text, "z3", sources("one tile"))
    assert report.exit_code == 0
    count = sum(o.vacuous for o in report.certified.obligations)  # type: ignore[union-attr]
    assert f"vacuous, as what they assume is contradictory: {count} in kernel t4_div" in render([report], "text") and count > 0
    assert f"{count} proofs are vacuous" in explain(text) and "part × 2 (isl, vacuous)" in explain(text)
    data = read(text)
    live = replace(data, obligations=tuple(replace(r, trust="replayed") for r in data.obligations))
    assert all(str(d).endswith("vacuous") for d in compare(live, data)) and compare(live, data)
    assert not compare(data, live)
