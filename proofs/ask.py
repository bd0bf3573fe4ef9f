"""Z3 is asked about a text, so that its answer depends on that text and on what this asker was asked before, on nothing
else that the process did.

    Asker().ask("(declare-const …) (assert …)", budget)   ->   (unsat, the solver)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

QUICK = 100_000  # resource units for the plain core's first try, about a tenth of a second


class Asker:
    """One context of Z3; a ledger has one, for all its questions."""

    def __init__(self) -> None:
        self.context = z3.Context()

    def ask(self, statement: str | Sequence[Any], budget: int) -> tuple[Any, z3.Solver]:
        """Z3's answer within so many of its resource units, and the solver, for its model or its reason.

        The plain core comes first, for a moment: it often needs none where the usual strategy spends seconds. That one gives
        up parts of the search by the clock, so that a busy machine can make it answer unknown; the core, asked again with the
        whole budget, looks at no clock. The assertions are a text, or terms of any context.
        """
        solver = answer = None
        if not isinstance(statement, str):
            statement = [a if isinstance(a, bool) else a.translate(self.context) for a in statement]
        for make, limit in ((z3.SimpleSolver, min(QUICK, budget)), (z3.Solver, budget), (z3.SimpleSolver, budget)):
            solver = make(ctx=self.context)
            solver.set("rlimit", limit)
            if isinstance(statement, str):
                solver.from_string(statement)
            else:
                solver.add(*statement)
            answer = solver.check()
            if answer != z3.unknown:
                break
        return answer, solver
