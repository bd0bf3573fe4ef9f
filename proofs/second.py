"""A second opinion: cvc5 refutes an SMT-LIB 2 statement that it parses itself.

Two strategies in turn, since neither does all that arises: cylindrical coverings first (products of reals), then cvc5's own
choice (quantifiers). "unsat" from either settles it. The budget is in cvc5's units; a wall-clock limit far beyond it is
there because the units do not count every kind of work, and can only turn an answer into "unknown".
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

Answer = Literal["unsat", "sat", "unknown", "missing"]
STRATEGIES: tuple[dict[str, str], ...] = ({"nl-cov": "true"}, {})
MILLISECONDS = 20_000


def refuted(statement: str, budget: int) -> Answer:
    """cvc5's answer within `budget` of its resource units; "missing" when cvc5 is not installed."""
    if find_spec("cvc5") is None:
        return "missing"
    import cvc5

    answer: Answer = "unknown"
    for strategy in STRATEGIES:
        answer = _ask(cvc5, statement, {**strategy, "rlimit-per": str(budget), "tlimit-per": str(MILLISECONDS)})
        if answer != "unknown":
            return answer
    return answer


def _ask(cvc5: Any, statement: str, options: dict[str, str]) -> Answer:
    solver = cvc5.Solver()
    for name, value in options.items():
        solver.setOption(name, value)
    solver.setLogic("ALL")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, statement, "obligation")
    symbols = parser.getSymbolManager()
    try:
        while not (command := parser.nextCommand()).isNull():
            if command.getCommandName() != "check-sat":
                command.invoke(solver, symbols)
        answer = solver.checkSat()
    except RuntimeError:  # a strategy that this build lacks, or that does not take this statement
        return "unknown"
    return "unsat" if answer.isUnsat() else "sat" if answer.isSat() else "unknown"
