"""A second opinion: cvc5 refutes an SMT-LIB 2 statement that it parses itself."""

from __future__ import annotations

from typing import Literal


def refuted(statement: str, budget: int) -> Literal["unsat", "sat", "unknown", "missing"]:
    """cvc5's answer within `budget` of its resource units; "missing" when cvc5 is not installed."""
    try:
        import cvc5
    except ImportError:
        return "missing"
    solver = cvc5.Solver()
    solver.setOption("rlimit-per", str(budget))
    solver.setLogic("ALL")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, statement, "obligation")
    symbols = parser.getSymbolManager()
    while True:
        command = parser.nextCommand()
        if command.isNull():
            break
        if command.getCommandName() in ("check-sat", "set-logic", "set-info"):
            continue
        command.invoke(solver, symbols)
    answer = solver.checkSat()
    return "unsat" if answer.isUnsat() else "sat" if answer.isSat() else "unknown"
