"""A model of some hypotheses, by Z3 from their text. Nothing is believed of it: `semantics/exact.py` evaluates it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import z3

from tang_verified.proofs.ask import Asker
from tang_verified.semantics.exact import SORTS, Hypotheses, Model, Table, Value, parse
from tang_verified.semantics.surds import LIMIT, total

BUDGET = 10_000_000  # Z3's resource units


class Unknown(ValueError):
    """Neither a model is found, nor that there is none."""


class Proposer:
    """Z3 in its ledger's context: its models do not depend on what else this process asked."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker

    def model(self, given: Hypotheses) -> Model | None:
        """A model; None when Z3 says that there is none; else `Unknown`."""
        answer, solver = self.asker.ask(given.text, BUDGET)
        if answer == z3.unsat:
            return None
        if answer != z3.sat:
            raise Unknown(f"Z3 answers unknown ({solver.reason_unknown()})")
        found: dict[str, Value | Table] = {}
        for line in given.declarations:  # Z3 says nothing of what does not matter
            _, name, domain, result = parse(line)
            nothing: Value = SORTS[str(result)][0](0)
            found[str(name)] = Table({}, nothing) if domain else nothing
        model = solver.model()
        return {**found, **{d.name(): _meaning(model[d]) for d in model.decls()}}


def _meaning(found: Any) -> Value | Table:
    if not isinstance(found, z3.FuncInterp):
        return _value(found)
    rows = (found.entry(k) for k in range(found.num_entries()))
    at = {tuple(_value(row.arg_value(n)) for n in range(row.num_args())): _value(row.value()) for row in rows}
    return Table(at, _value(found.else_value()))


def _value(value: Any) -> Value:
    if z3.is_int_value(value):
        return int(value.as_long())
    if z3.is_rational_value(value):
        return Fraction(value.numerator_as_long(), value.denominator_as_long())
    if z3.is_true(value) or z3.is_false(value):
        return bool(z3.is_true(value))
    if z3.is_algebraic_value(value):
        return _root(value)
    raise Unknown(f"no number: {str(value)[:80]}")


def _root(value: Any) -> Value:
    """A root of c + b x + a x², written out; others are not looked for."""
    coefficients = [int(c.as_long()) for c in value.poly()]
    if len(coefficients) != 3:
        raise Unknown(f"no root of a quadratic: {str(value)[:80]}")
    c, b, a = coefficients
    inside, outside = b * b - 4 * a * c, 1
    for p in range(2, LIMIT):
        while inside % (p * p) == 0:
            inside, outside = inside // (p * p), outside * p
        if p * p > inside:
            break
    sign = (1 if value.index() == 2 else -1) * (1 if a > 0 else -1)
    return total({1: Fraction(-b, 2 * a), inside: Fraction(sign * outside, 2 * a)})
