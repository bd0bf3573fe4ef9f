"""Two folds over one domain become one fold of pairs, and only then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.passes.tuple import pair, product
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.steps import Step, check_step
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import (
    ADD,
    FALSE,
    INT_ADD,
    MAX,
    MIN,
    REAL_ZERO,
    TRUE,
    Const,
    Fold,
    Monoid,
    Op,
    Sym,
    Term,
    Var,
)
from tests.passes.helpers import I, J, N, arrays, keep, label, op, over, program, x, y

K = Var("k")


def total(body: Term | None = None, axis: str = "j", guard: Term = TRUE) -> Fold:
    return Fold(ADD, over(axis), guard, (x(I, Var(axis)) if body is None else body,))


def largest(axis: str = "k", guard: Term = TRUE) -> Fold:
    return Fold(MAX, over(axis), guard, (x(I, Var(axis)),))


def after(value: Term) -> Derivation:
    """The definition paired; it still means the same."""
    before = program(value, low=1)
    derivation = Derivation(before, Scratch(before))
    pair(derivation, "out")
    assert not derivation.notes
    for seed in range(3):
        data = arrays(before, seed)
        with np.errstate(all="ignore"):
            want, got = evaluate(before, data)["out"], evaluate(derivation.program, data)["out"]
        np.testing.assert_allclose(got, want, rtol=1e-12, equal_nan=True)
    return derivation


def paired(value: Term) -> str:
    derivation = after(value)
    assert {step.rule for step in derivation.steps} == {"tuple"}
    return show(derivation.value("out"))


def stays(value: Term) -> bool:
    return not after(value).steps


def test_fires() -> None:
    assert paired(op("sub", total(), largest())) == (
        "⊕add.max_{j<m}.0 (x[i, j], x[i, j]) − (⊕add.max_{j<m}.1 (x[i, j], x[i, j]))"
    )
    guard = op("le", J, I)
    both = op("div", total(guard=guard), largest(guard=op("le", K, I)))
    assert paired(both).startswith("(⊕add.max_{j<m : j ≤ i}.0 (x[i, j], x[i, j])) / ")
    low = Fold(MIN, over("j1"), TRUE, (op("mul", x(I, Var("j1")), y(Var("j1"))),))
    three = op("add", op("sub", total(), largest()), op("mul", low, total()))  # one of them twice
    assert paired(three).count("⊕add.max.min_{j<m}.") == 4
    count = Fold(INT_ADD, over("k"), TRUE, (Op("select", (keep(I, K), Const(1), Const(0))),))
    assert "⊕add.int_add_{j<m}.1" in paired(op("div", total(), op("real", count)))
    branch = op("select", op("lt", label(), Const(3)), op("sub", total(), largest()), REAL_ZERO)
    assert paired(branch).count("⊕") == 2


def test_not() -> None:
    assert stays(total())
    assert stays(op("add", total(), total(axis="k")))  # one fold, written twice
    assert stays(op("sub", total(), Fold(MAX, over("k", N), TRUE, (x(K, Const(0)),))))  # other extents
    assert stays(op("sub", total(guard=op("le", J, I)), largest()))  # other guards
    assert stays(op("sub", total(op("exp", op("sub", x(), largest()))), largest()))  # one needs the other
    assert stays(op("select", op("lt", label(), Const(3)), total(), largest()))  # what is read for one may not be there
    first = Fold(product([ADD, MAX]), over(), TRUE, (x(), x()), 0)
    assert stays(op("sub", first, largest()))  # pairs already


# -- wrong siblings ---------------------------------------------------------------------------------------------------------

# The last element, and whether there is one: a monoid, but its field 1 is not a fold of its own.
A0, B0, A1, B1 = Sym("a0", "bool"), Sym("b0", "bool"), Sym("a1", "real"), Sym("b1", "real")
LAST = Monoid("last", (FALSE, REAL_ZERO), (op("or", A0, B0), op("select", B0, B1, op("select", A0, A1, op("add", A1, B1)))), False)
SIBLINGS = {
    "the other field": (lambda f: replace(f, component=1 - f.component), "tuple/component"),
    "another body": (lambda f: replace(f, body=(op("neg", f.body[0]), f.body[1])), "tuple/same"),
    "another guard": (lambda f: replace(f, guard=op("lt", J, I)), "tuple/same"),
    "another extent": (lambda f: replace(f, axes=over("j", N)), "tuple/same"),
    "another monoid": (lambda f: replace(f, monoid=product([MAX, MAX])), "tuple/component"),
    "another identity": (lambda f: replace(f, monoid=replace(f.monoid, identity=(REAL_ZERO, REAL_ZERO))), "monoid/add.max/identity"),
    "a field that looks at another": (lambda f: replace(f, monoid=LAST, body=(TRUE, f.body[0]), component=1), "tuple/component"),
}  # fmt: skip


@pytest.mark.parametrize("name", SIBLINGS)
def test_a_wrong_sibling_is_refused(name: str) -> None:
    change, obligation = SIBLINGS[name]
    value = op("sub", total(), largest())
    good = after(value).steps[0]
    assert isinstance(good.after, Fold)
    p = program(value, low=1)
    check_step(Ledger(p), p, good)
    with pytest.raises(Refused) as caught:
        check_step(Ledger(p), p, Step("tuple", "out", good.path, good.before, change(good.after)))
    assert caught.value.obligation.startswith(obligation)


# -- in a pipeline ------------------------------------------------------------------------------------------------------------


def spread(x: Any) -> Any:
    return x.max(axis=-1) - x.mean(axis=-1)


def test_in_a_certificate(tmp_path: Path) -> None:
    """Asked for in plain style: the kernel folds pairs, in one loop, and its certificate says so from the file alone."""
    kernel = tv.compile(spread, x="n m", schedule={"style": "plain"}, name="spread")
    assert [step.rule for step in kernel.certified.steps].count("tuple") == 2 and not kernel.notes
    data = np.random.default_rng(0).standard_normal((37, 53)).astype(np.float32)
    np.testing.assert_allclose(kernel(data), spread(data.astype(np.float64)), rtol=1e-5, atol=1e-6)
    report = tv.audit(kernel.save(tmp_path)[-1])
    assert report.exit_code == 0
    assert "one component of several folds made together" in kernel.explain()


@pytest.mark.parametrize("schedule", [{}, {"style": "rows"}, {"t9_other": {"style": "plain"}}])
def test_not_where_a_schedule_keeps_lanes_for_each(schedule: dict[str, Any]) -> None:
    from tang_verified.passes.derive import derive
    from tang_verified.passes.schedule.search import asked_plain

    traced = tv.trace(spread, {"x": "n m"})
    derived = derive(traced, lambda name: asked_plain(schedule, name))
    assert "tuple" not in {step.rule for step in derived.steps}
