"""Brackets around operands, from the text alone: C's order of operators."""

from __future__ import annotations

import re

STRENGTH = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
NEEDS = {"or": 1, "and": 2, "eq": 3, "ne": 3, "lt": 4, "le": 4, "add": 5, "sub": 5, "mul": 6, "div": 6}


def operand(text: str, parent: str, right: bool = False) -> str:
    """The text, in brackets if its weakest outer operator binds less than its parent's."""
    depth, weakest = 0, 9
    for word in re.findall(r"[()\[\]{}]|[^\s()\[\]{}]+", text):
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        elif depth == 0 and word in STRENGTH:
            weakest = min(weakest, STRENGTH[word])
    if parent == "or" and weakest == 2:
        return f"({text})"  # not all languages take && beside ||
    need = NEEDS.get(parent, 8)
    tight = right and parent not in ("add", "and", "or")  # a - (b + c), a * (b * c) as the term has it
    return f"({text})" if weakest < need or (tight and weakest == need) or text.startswith("-") else text
