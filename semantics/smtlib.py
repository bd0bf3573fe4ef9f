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
    lines = [_line(z3.BoolVal(a) if isinstance(a, bool) else a) for a in assertions]
    used = frozenset[str]().union(*(names for _, names in lines))
    declared = (text for name, text in symbols.items() if name in used)
    return "\n".join([*declared, *(line for line, _ in lines), "(check-sat)", ""])


def _line(formula: Any) -> tuple[str, frozenset[str]]:
    """The assertion, and the names in it; the formula keeps both, for a fact is asserted in many statements."""
    found: tuple[str, frozenset[str]] | None = getattr(formula, "spelled", None)
    if found is None:
        line = f"(assert {' '.join(formula.sexpr().split())})"
        found = formula.spelled = (line, frozenset(NAME.findall(line)))
    return found
