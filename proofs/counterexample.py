"""A model of a false claim, for the reader: each name with its value, and what both sides come to. Nothing rests on it.

    u0=1, v0=0 for u0 − v0 = v0 − u0          in one line, of the free names alone
    (u0, 1), (v0, 0), (one side, 1), …        name by name: variables, reads, folds and functions as they occur in both sides

Reads, folds and functions are whatever the facts and axioms in use admit: exp may have a value here that exp never has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

from tang_verified.semantics.build import canonical
from tang_verified.semantics.meaning import Encoder, Extended
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import Const, Fold, Op, Read, Sym, Term, Var, children, free_vars, substitute

FLAGS = {"nan": "nan", "top": "inf", "bot": "-inf"}  # an extended real's, in an encoder's names
SHOWN = 12  # names in one line
TABLED = frozenset("add sub sub0 mul div div0 neg abs max min lt le eq ne and or not select real int floordiv mod".split())


def counterexample(model: Any, show_as: str) -> str:
    """The values that a model gives to the free constants, by name; a real's flags and number are one value."""
    parts: dict[str, dict[str, Any]] = {}  # name -> "" for its number, and its flags
    for d in model.decls():
        if d.arity() == 0:
            name = d.name().split(".", 1)[-1]
            stem, _, flag = name.rpartition(".")
            stem, flag = (stem, flag) if stem and flag in FLAGS else (name, "")
            parts.setdefault(stem, {})[flag] = d
    shown = ", ".join(f"{name}={_spelt(model, parts[name])}" for name in sorted(parts)[:SHOWN])
    return f"counterexample {shown or '(any values)'}" + (f" for {show_as}" if show_as else "")


def _spelt(model: Any, parts: dict[str, Any]) -> str:
    for flag, word in FLAGS.items():
        if flag in parts and z3.is_true(model[parts[flag]]):
            return word
    return str(model[parts[""]]) if "" in parts else "0"  # any number


def values(model: Any, encoder: Encoder, sides: Sequence[Term]) -> tuple[tuple[str, str], ...]:
    """(name, value) for everything in the sides that the claim left open, at those integers; then the sides' own values."""
    open_: dict[Term, None] = {}
    for side in sides:
        _open(side, open_)
    names = sorted({name for term in open_ for name in free_vars(term)})
    at: dict[str, Term] = {name: Const(int(_value(model, encoder.encode(Var(name))))) for name in names}
    out = [(name.split("!")[0], show(value)) for name, value in at.items()]
    for term in open_:
        if isinstance(term, Op):
            arguments = ", ".join(_value(model, encoder.encode(part)) for part in term.args)
            out.append((f"{term.name}({arguments})", _value(model, encoder.encode(term))))
        elif not isinstance(term, Var):
            out.append((show(canonical(substitute(term, at))), _value(model, encoder.encode(term))))
    ends = ("one side", "the other side")
    out += [(end, _value(model, encoder.encode(side))) for end, side in zip(ends, sides, strict=False)]
    return tuple(out)


def _open(term: Term, found: dict[Term, None]) -> None:
    """Collects variables, placeholders, reads, whole folds, and functions that are known by axioms only."""
    if isinstance(term, (Var, Sym, Read, Fold)):
        found[term] = None
        return
    for part in children(term):
        _open(part, found)
    if isinstance(term, Op) and term.name not in TABLED:
        found[term] = None


def _value(model: Any, value: Any) -> str:
    if isinstance(value, Extended):
        for name, flag in (("nan", value.nan), ("inf", value.top), ("-inf", value.bottom)):
            if flag is True or (flag is not False and z3.is_true(model.eval(flag, True))):
                return name
        value = value.value
    if isinstance(value, (bool, int)):
        return str(value)
    found = model.eval(value, True)
    return str(found.as_decimal(6)) if z3.is_algebraic_value(found) else str(found)
