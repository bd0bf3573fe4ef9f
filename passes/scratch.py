"""A ledger to try steps on: a smaller solver budget, and no statements written out.

What it accepts is not believed: the accepted steps are checked again, on a ledger of their own, by `proofs.check.certify`.
A smaller budget only makes a pass give up sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

from tang_verified.proofs.counterexample import counterexample
from tang_verified.proofs.ledger import Ledger, assumed
from tang_verified.semantics import sets
from tang_verified.semantics.meaning import Encoder, negate
from tang_verified.semantics.terms import Term

BUDGET = 8_000_000  # Z3's resource units; a step that holds takes a tenth of this


class Scratch(Ledger):
    """Discharges as `Ledger` does, and remembers answers.

    It asks in its own context, too: in the one that all encoders share, what the process asked before changes the order of
    Z3's terms, and with it whether an answer takes a moment or minutes.
    """

    def valid(
        self, name: str, encoder: Encoder, facts: Sequence[Any], claim: Any, show_as: str = "", sides: Sequence[Term] = ()
    ) -> None:  # fmt: skip
        goal = negate(claim)
        if goal is False:
            return
        answer, problem = self.asker.ask([*assumed(encoder, facts), goal], BUDGET)
        if answer == z3.sat:
            raise self.refuse(name, counterexample(problem.model(), show_as), "disproved")
        if answer != z3.unsat:
            raise self.refuse(name, f"Z3 answers unknown ({problem.reason_unknown()}): {show_as}")

    def covers(self, name: str, facts: Sequence[Term], parts: Sequence[tuple[tuple[str, ...], Sequence[Term]]]) -> None:
        try:
            proved = sets.covers(facts, parts)
        except sets.NotAffine as problem:
            raise self.refuse(name, str(problem)) from None
        if not proved:
            raise self.refuse(name, "some element is in no part", "disproved")

    def reachable(self, name: str, encoder: Encoder, facts: Sequence[Any]) -> None:
        answer, _ = self.asker.ask(assumed(encoder, facts), BUDGET)
        if answer != z3.sat:
            raise self.refuse(name, "what is assumed here never holds", "disproved")

    def _integer_statement(self, facts: Sequence[Term], goal: Term) -> str:
        return ""

    def _settle(self, name: str, prover: str, statement: str) -> None:
        self.record(name, prover, statement)
