"""A scalar term  <->  Σ coefficient · Π factor^power, rational coefficients and whole powers.

    (x + y)·x − x·x / 2        ->  {x²: 1/2, x·y: 1}        polynomial
    {x²: 1/2, x·y: 1}          ->  0.5·x·x + x·y            built
                               ->  x·(0.5·x + y)            factored

As if every factor were a finite number other than 0: exp(a)·exp(b) = exp(a + b), √a·√a = a, x/x = 1. Nothing here is
believed; terms made of it are proposals (algebra.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from tang_verified.semantics.show import show
from tang_verified.semantics.terms import REAL_ONE, REAL_ZERO, Const, Op, Term, children

Monomial: TypeAlias = tuple[tuple[Term, int], ...]  # (factor, power), by the factors' spelling; a power may be negative
Polynomial: TypeAlias = dict[Monomial, Fraction]

LIMIT = 64  # a product of more terms is left as it is


def polynomial(term: Term, expand: bool = True) -> Polynomial:
    """A term as Σ coefficient · Π factor^power; what is no sum, product or quotient is a factor.

    Without `expand` a sum that is multiplied is a factor, too.
    """

    def part(term: Term) -> Polynomial:
        return polynomial(term, expand)

    def factor(term: Term) -> Polynomial:
        found = part(term)
        return found if expand or len(found) < 2 else {((built(found), 1),): Fraction(1)}

    match term:
        case Const(value) if isinstance(value, Fraction):
            return {(): value} if value else {}
        case Op("add" | "sub" as name, (a, b)):
            return plus(part(a), part(b), Fraction(1 if name == "add" else -1))
        case Op("neg", (a,)):
            return plus({}, factor(a), Fraction(-1))
        case Op("mul", (a, b)):
            return times(factor(a), factor(b), term)
        case Op("div", (a, Op("mul", (b, c)))):  # one after the other, so that the divisor stays a product
            return _quotient(_quotient(factor(a), part(b), term), part(c), term)
        case Op("div", (a, b)):
            return _quotient(factor(a), part(b), term)
        case Op("div0", (a, b)) if a != REAL_ONE:
            return times(factor(a), {((Op("div0", (REAL_ONE, b)), 1),): Fraction(1)}, term)
        case Op("exp", (a,)):
            return {monomial_of({Op("exp", (built(polynomial(a)),)): 1}): Fraction(1)}
        case _:
            return {((term, 1),): Fraction(1)}


def plus(a: Polynomial, b: Polynomial, sign: Fraction) -> Polynomial:
    out = dict(a)
    for monomial, coefficient in b.items():
        out[monomial] = out.get(monomial, Fraction(0)) + sign * coefficient
    return {monomial: coefficient for monomial, coefficient in out.items() if coefficient}


def times(a: Polynomial, b: Polynomial, whole: Term) -> Polynomial:
    if len(a) * len(b) > LIMIT:
        return {((whole, 1),): Fraction(1)}
    out: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            powers = dict(left)
            for factor, power in right:
                powers[factor] = powers.get(factor, 0) + power
            out = plus(out, _squares(powers), x * y)
    return out


def _quotient(a: Polynomial, b: Polynomial, whole: Term) -> Polynomial:
    if not b:
        return {((whole, 1),): Fraction(1)}
    if a and a.keys() == b.keys() and len({a[m] / b[m] for m in a}) == 1:
        return {(): next(a[m] / b[m] for m in a)}
    exact = _divided(a, b)
    if exact is not None:
        return exact
    if len(b) == 1:
        ((monomial, coefficient),) = b.items()
        inverse: Polynomial = {tuple((factor, -power) for factor, power in monomial): 1 / coefficient}
    else:
        inverse = {((built(b), -1),): Fraction(1)}
    return times(a, inverse, whole)


def _divided(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """a / b where b, a sum, divides a; by leading terms, in the order of the factors' spelling."""
    if len(b) == 1 or len(a) > LIMIT or any(power < 0 for m in (*a, *b) for _, power in m):
        return None
    names = sorted({factor for m in (*a, *b) for factor, _ in m}, key=show)

    def leading(terms: Polynomial) -> Monomial:
        return max(terms, key=lambda m: [dict(m).get(name, 0) for name in names])

    first, out, rest = leading(b), dict[Monomial, Fraction](), dict(a)
    for _ in range(LIMIT):
        if not rest:
            return out
        top = leading(rest)
        powers = dict(top)
        for factor, power in first:
            powers[factor] = powers.get(factor, 0) - power
        if any(power < 0 for power in powers.values()):
            return None
        piece = {tuple(sorted(((f, p) for f, p in powers.items() if p), key=lambda i: show(i[0]))): rest[top] / b[first]}
        out, rest = plus(out, piece, Fraction(1)), plus(rest, times(piece, b, REAL_ONE), Fraction(-1))
    return None


def _squares(powers: dict[Term, int]) -> Polynomial:
    """Π factor^power, where squares of roots and of absolute values are written out."""
    rest: dict[Term, int] = {}
    more: Polynomial = {(): Fraction(1)}
    for factor, power in powers.items():
        if isinstance(factor, Op) and factor.name in ("sqrt", "abs") and power >= 2:
            a = polynomial(factor.args[0])
            for _ in range((power // 2) * (1 if factor.name == "sqrt" else 2)):
                more = times(more, a, factor)
            power %= 2
        rest[factor] = rest.get(factor, 0) + power
    out = {monomial_of(rest): Fraction(1)}
    return out if more == {(): Fraction(1)} else times(out, more, REAL_ONE)


def monomial_of(powers: dict[Term, int]) -> Monomial:
    """In one order; the exponentials in it as one."""
    exponent: Polynomial = {}
    rest: dict[Term, int] = {}
    for factor, power in powers.items():
        if isinstance(factor, Op) and factor.name == "exp":
            exponent = plus(exponent, polynomial(factor.args[0]), Fraction(power))
        elif power:
            rest[factor] = power
    if exponent:
        rest[Op("exp", (built(exponent),))] = 1
    return tuple(sorted(rest.items(), key=lambda item: show(item[0])))


def built(terms: Polynomial) -> Term:
    """The sum written out, the highest powers first."""
    order = sorted(terms, key=lambda m: (-sum(abs(power) for _, power in m), [show(factor) for factor, _ in m]))
    order = [m for m in order if terms[m] > 0] + [m for m in order if terms[m] < 0]
    out: Term | None = None
    for monomial in order:
        coefficient = terms[monomial]
        if out is None:
            out = product(monomial, coefficient)
        elif coefficient < 0:
            out = Op("sub", (out, product(monomial, -coefficient)))
        else:
            out = Op("add", (out, product(monomial, coefficient)))
    return REAL_ZERO if out is None else out


def product(monomial: Monomial, coefficient: Fraction) -> Term:
    zeros = [factor for factor, power in monomial if power == 1 and isinstance(factor, Op) and factor.name == "div0"]
    if zeros and children(zeros[0])[0] == REAL_ONE and (len(monomial) > 1 or coefficient != 1):
        rest = tuple(item for item in monomial if item[0] != zeros[0])
        return Op("div0", (product(rest, coefficient), children(zeros[0])[1]))
    above = [factor for factor, power in monomial for _ in range(power)]
    below = [factor for factor, power in monomial for _ in range(-power)]
    if coefficient.denominator & (coefficient.denominator - 1):  # no power of two: as a constant it would be rounded
        below.insert(0, Const(Fraction(coefficient.denominator)))
        coefficient = Fraction(coefficient.numerator)
    if coefficient == -1 and above:
        top: Term = Op("neg", (_row(above),))
    elif coefficient == 1 and above:
        top = _row(above)
    else:
        top = _row([Const(coefficient), *above])
    return Op("div", (top, _row(below))) if below else top


def _row(factors: list[Term]) -> Term:
    out = factors[0]
    for factor in factors[1:]:
        out = Op("mul", (out, factor))
    return out


def factored(terms: Polynomial) -> Term:
    """The sum with the factor that most of its terms share taken out, and so on within (Horner's form, for one variable)."""
    counts: dict[tuple[Term, int], int] = {}
    for monomial in terms:
        for factor, power in monomial:
            sign = 1 if power > 0 else -1
            counts[factor, sign] = counts.get((factor, sign), 0) + 1
    shared = [(count, show(factor), factor, sign) for (factor, sign), count in counts.items() if count > 1]
    if not shared:
        return built(terms)
    _, _, factor, sign = min(shared, key=lambda item: (-item[0], item[1]))
    inside: Polynomial = {}
    outside: Polynomial = {}
    for monomial, coefficient in terms.items():
        powers = dict(monomial)
        if powers.get(factor, 0) * sign > 0:
            powers[factor] -= sign
            kept = tuple((f, p) for f, p in monomial if f != factor)
            left = tuple(sorted((*kept, (factor, powers[factor])), key=lambda i: show(i[0]))) if powers[factor] else kept
            inside[left] = coefficient
        else:
            outside[monomial] = coefficient
    inner = factored(inside)
    if sign < 0:
        part: Term = Op("div", (inner, factor))
    else:  # a variable stands before its factor, a function behind it
        part = Op("mul", (inner, factor) if children(factor) else (factor, inner))
    if not outside:
        return part
    if all(coefficient < 0 for coefficient in outside.values()):
        return Op("sub", (part, factored(plus({}, outside, Fraction(-1)))))
    return Op("add", (part, factored(outside)))
