"""A definition is remembered as finite only when it is shown to be, and only as a whole."""

from __future__ import annotations

import pytest

from tang_verified.passes.derive import derive
from tang_verified.proofs.ledger import Ledger, Refused
from tang_verified.proofs.steps import Step, check_step
from tang_verified.semantics.terms import ADD, TRUE, Fold, Term
from tests.passes.helpers import c, op, over, program, x
from tests.passes.zoo import traced


def remembered(value: Term, path: tuple[int, ...] = (), after: Term | None = None) -> bool:
    p = program(value)
    ledger = Ledger(p)
    before = value if not path else c()
    assert check_step(ledger, p, Step("finite", "out", path, before, before if after is None else after)) == p
    return ledger.never.get("out", (False,) * 5)[:3] == (True, True, True)


def test_accepted() -> None:
    assert remembered(Fold(ADD, over(), TRUE, (op("mul", x(), c()),)))
    assert remembered(op("exp", c()))
    assert any(step.rule == "finite" for step in derive(traced("mlp")).steps)


@pytest.mark.parametrize("value", [op("log", c()), op("div", c(), c()), Fold(ADD, over(), TRUE, (op("div", x(), c()),))])
def test_refused(value: Term) -> None:
    with pytest.raises(Refused) as refusal:
        remembered(value)
    assert refusal.value.obligation == "finite/value"


def test_a_part_is_not_the_whole() -> None:
    with pytest.raises(Refused) as refusal:
        remembered(op("log", c()), (0,))
    assert refusal.value.obligation == "finite/whole"
    with pytest.raises(Refused) as refusal:
        remembered(c(), after=op("exp", c()))
    assert refusal.value.obligation == "finite/same"
