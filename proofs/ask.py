"""Z3 is asked about a text, so that its answer depends on that text and on what this asker was asked before, on nothing
else that the process did.

    Asker().ask("(declare-const …) (assert …)", budget)   ->   (unsat, the solver)
"""

from __future__ import annotations

from typing import Any

import z3


class Asker:
    """One context of Z3; a ledger has one, for all its questions."""

    def __init__(self) -> None:
        self.context = z3.Context()

    def ask(self, text: str, budget: int) -> tuple[Any, z3.Solver]:
        """Z3's answer within so many of its resource units, and the solver, for its model or its reason.

        Its usual strategy gives up parts of the search after some seconds, so that a busy machine can make it answer
        unknown; its plain core, asked then, looks at no clock.
        """
        solver = answer = None
        for make in (z3.Solver, z3.SimpleSolver):
            solver = make(ctx=self.context)
            solver.set("rlimit", budget)
            solver.from_string(text)
            answer = solver.check()
            if answer != z3.unknown:
                break
        return answer, solver
