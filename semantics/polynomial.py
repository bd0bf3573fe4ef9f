"""A real expression of Z3's as a polynomial in what is no sum or product:   (x + 2)·y − 2·y   ->   x·y.

Arguments of special functions are put into this form, so that equal ones meet. Z3's own form orders terms by their place in
memory, and two runs of one proof would differ; here terms are ordered by their spelling. Ring identities only.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import z3

Polynomial: TypeAlias = dict[tuple[str, ...], Fraction]  # sorted spellings of the factors -> coefficient
LIMIT = 64  # a product that would have more terms is left as it is


class Normal:
    """Normal forms; each expression is written out once."""

    def __init__(self) -> None:
        self.atoms: dict[str, Any] = {}
        self.known: dict[int, Polynomial] = {}  # by Z3's number of the expression, alive while `kept` holds it
        self.kept: list[Any] = []

    def difference_size(self, a: Any, b: Any) -> int:
        """How many terms a - b has when written out."""
        return len(_sum(self.polynomial(a), self.polynomial(b), Fraction(-1)))

    def expression(self, value: Any) -> Any:
        """The same value, sums and products written out in a fixed order."""
        polynomial = self.polynomial(value)
        out = None
        for factors in sorted(polynomial, key=lambda f: (len(f), f)):
            coefficient = polynomial[factors]
            piece = None if coefficient == 1 and factors else z3.RealVal(coefficient)
            for factor in factors:
                piece = self.atoms[factor] if piece is None else piece * self.atoms[factor]
            out = piece if out is None else out + piece
        return z3.RealVal(0) if out is None else out

    def polynomial(self, value: Any) -> Polynomial:
        if value.get_id() not in self.known:
            self.kept.append(value)
            self.known[value.get_id()] = self._polynomial(value)
        return self.known[value.get_id()]

    def _polynomial(self, value: Any) -> Polynomial:
        if z3.is_rational_value(value):
            constant = value.as_fraction()
            return {(): constant} if constant else {}
        kind, parts = value.decl().kind(), value.children()
        if kind in (z3.Z3_OP_ADD, z3.Z3_OP_SUB):
            out = self.polynomial(parts[0])
            for part in parts[1:]:
                out = _sum(out, self.polynomial(part), Fraction(1 if kind == z3.Z3_OP_ADD else -1))
            return out
        if kind == z3.Z3_OP_UMINUS:
            return _sum({}, self.polynomial(parts[0]), Fraction(-1))
        if kind == z3.Z3_OP_MUL:
            factors = [self.polynomial(part) for part in parts]
            size = 1
            for factor in factors:
                size *= max(1, len(factor))
            if size <= LIMIT:
                out = {(): Fraction(1)}
                for factor in factors:
                    out = _product(out, factor)
                return out
        if kind == z3.Z3_OP_ITE:
            yes, no = self.expression(parts[1]), self.expression(parts[2])
            return self.polynomial(yes) if yes.eq(no) else self._atom(z3.If(parts[0], yes, no))
        return self._atom(value)

    def _atom(self, value: Any) -> Polynomial:
        spelling = " ".join(value.sexpr().split())
        self.atoms.setdefault(spelling, value)
        return {(spelling,): Fraction(1)}


def _sum(a: Polynomial, b: Polynomial, scale: Fraction) -> Polynomial:
    out = dict(a)
    for factors, coefficient in b.items():
        out[factors] = out.get(factors, Fraction(0)) + scale * coefficient
    return {factors: c for factors, c in out.items() if c}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for f, c in a.items():
        out = _sum(out, {tuple(sorted((*f, *g))): c * d for g, d in b.items()}, Fraction(1))
    return out
