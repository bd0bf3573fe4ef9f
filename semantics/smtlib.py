"""Statements in SMT-LIB 2: one declaration or assertion a line, the same bytes on every run.

    (declare-fun i.n () Int)
    (assert (<= 1 i.n))
    (assert (not (< 0 i.n)))        ; the negated goal comes last: the statement holds when this text is unsatisfiable

Z3 spells each assertion; its own whole-problem printer numbers shared subterms by their place in memory, so that two runs
of one proof would differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import z3

NAME = re.compile(r"[A-Za-z][\w.!]*")


def declaration(name: str, arguments: Iterable[Any], result: Any) -> str:
    return f"(declare-fun {name} ({' '.join(sort.sexpr() for sort in arguments)}) {result.sexpr()})"


def statement(symbols: Mapping[str, str], assertions: Iterable[Any]) -> str:
    """The problem's text. `symbols` gives the declaration of each name that may occur."""
    lines = []
    for assertion in assertions:
        formula = z3.BoolVal(assertion) if isinstance(assertion, bool) else assertion
        lines.append(f"(assert {' '.join(formula.sexpr().split())})")
    used = frozenset(name for line in lines for name in NAME.findall(line))
    return "\n".join([*(text for name, text in symbols.items() if name in used), *lines, "(check-sat)", ""])
