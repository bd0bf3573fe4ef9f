"""A scalar term  ->  cheaper terms that may be equal: proposals, each of which the checker proves or refuses.

    2·x·y + y·x                ->  3·x·y              like terms, as polynomials with rational coefficients
    x·y + x·z                  ->  x·(y + z)          what most terms have in common, outside
    x·y / y, x / x             ->  x, 1               where y, x ≠ 0 is known; refused elsewhere
    exp(a)·exp(b), 1 / exp(a)  ->  exp(a + b), exp(−a)
    log(exp(a)·y)              ->  a + log(y)
    exp(a + log(y))            ->  exp(a)·y           where y > 0
    sqrt(x·x), sqrt(exp(a))    ->  |x|, exp(a / 2)
    sqrt(a)·sqrt(a), |a|·|a|   ->  a, a·a             the first where a ≥ 0
    (c ? a : b)                ->  a, b, max(a, b), min(a, b)
    max(a, b), min(a, b), |a|  ->  one of them; a, −a

Over the reals, at finite values of the variables. Nothing is claimed here: x·0 -> 0 is proposed for every x, and taken where
x is proved to be finite. A proposal is tried only where it costs less itself, and so does the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import z3

from tang_verified.passes.laws import normal
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.proofs.ask import Asker
from tang_verified.semantics.meaning import Encoder, negate
from tang_verified.semantics.show import show
from tang_verified.semantics.smtlib import statement
from tang_verified.semantics.terms import REAL_ONE, REAL_ZERO, Const, Op, Term, children, rebuild, sort_of

BUDGET = 100_000  # Z3's resource units for one proposal: some tenths of a second


class Quick(Scratch):
    """Asks what the checker will ask, letter by letter, for a short while: what is proved here is proved there as soon."""

    def valid(
        self, name: str, encoder: Encoder, facts: Sequence[Any], claim: Any, show_as: str = "", sides: Sequence[Term] = ()
    ) -> None:  # fmt: skip
        goal = negate(claim)
        if goal is False:
            return
        assertions = [*(fact for fact in facts if fact is not True), *encoder.axioms(), *encoder.shape, goal]
        answer, _ = Asker().ask(statement(encoder.symbols, assertions), BUDGET)
        if answer != z3.unsat:
            raise self.refuse(name, f"Z3 answers {answer}: {show_as}")


Monomial: TypeAlias = tuple[tuple[Term, int], ...]  # (factor, power), by the factors' spelling; a power may be negative
Polynomial: TypeAlias = dict[Monomial, Fraction]

MOST = 200  # steps
LIMIT = 64  # a product of more terms is left as it is
PRICES = {"add": 1.0, "sub": 1.0, "mul": 1.0, "neg": 0.5, "abs": 0.75, "max": 1.0, "min": 1.0, "div": 3.0, "div0": 3.5,
          "sub0": 1.5, "select": 1.5, "sqrt": 4.0, "rsqrt": 4.0}  # fmt: skip


def cost(term: Term) -> tuple[float, int]:
    """What a term costs to compute, equal parts once, and to read; its length. All prices are binary: sums are exact."""
    return 4 * _price(term, set()) + _price(term, None), _length(term)


def _price(term: Term, seen: set[Term] | None) -> float:
    """The sum over all operations; given `seen`, over those that differ."""
    if seen is not None:
        if term in seen:
            return 0.0
        seen.add(term)
    match term:
        case Const(value):
            return 0.125 if isinstance(value, Fraction) and value < 0 else 0.0  # x + −6 costs more than x − 6
        case Op("add", (a, b)) if a == b:
            return 1.25 + _price(a, seen)  # than 2·x
        case Op(name, args):
            own = PRICES.get(name, 8.0 if sort_of(term) == "real" else 1.0)
            return own + sum(_price(part, seen) for part in args)
        case _:
            return 0.25


def _length(term: Term) -> int:
    return 1 + sum(map(_length, children(term)))


def simplify(derivation: Derivation, tensor: str, path: tuple[int, ...] = ()) -> None:
    """Bring the term at a path to what costs least by steps that are proved, its parts first."""
    while True:
        for number in range(len(children(derivation.value(tensor, path)))):
            simplify(derivation, tensor, (*path, number))
        before = derivation.value(tensor, path)
        if sort_of(before) != "real":
            return
        whole = derivation.value(tensor)
        if len(derivation.steps) >= MOST:
            return
        better: dict[Term, str] = {}
        prices: dict[Term, tuple[float, int]] = {}
        for after, note in proposals(before):
            price = cost(_everywhere(whole, before, after))  # its equals elsewhere are rewritten in their turn
            if after not in better and price < cost(whole) and cost(after) < cost(before):
                better[after], prices[after] = note, price
        tries = sorted(better, key=lambda after: (prices[after], show(after)))
        if not any(derivation.rewrite("pointwise", tensor, path, after, better[after]) for after in tries):
            return


def _everywhere(term: Term, before: Term, after: Term) -> Term:
    if term == before:
        return after
    return rebuild(term, tuple(_everywhere(part, before, after) for part in children(term))) if children(term) else term


def proposals(term: Term) -> Iterator[tuple[Term, str]]:
    """Terms that may be equal, and the idea of each."""
    if not isinstance(term, Op):
        return
    yield normal(term), "laws"
    for expand in (True, False):
        found = polynomial(term, expand)
        yield built(found), "like terms"
        yield factored(found), "common factors"
    match term:
        case Op("log", (a,)):
            yield from ((after, "logarithm of a product") for after in _log(polynomial(a)))
        case Op("exp", (a,)):
            yield from ((after, "exponential of a logarithm") for after in _exp(polynomial(a)))
        case Op("sqrt", (a,)):
            yield from ((after, "root of a square") for after in _sqrt(polynomial(a)))
        case Op("abs", (a,)):
            yield a, "absolute value"
            yield built(polynomial(Op("neg", (a,)))), "absolute value"
            yield Op("abs", (built(polynomial(Op("neg", (a,)))),)), "absolute value"
        case Op("max" | "min", (a, b)):
            yield from ((after, "the greater or the less") for after in (a, b))
        case Op("select", (Op("lt" | "le", (x, _)), a, b)) if sort_of(x) == "real":
            yield from ((after, "a branch") for after in (a, b))
            yield from ((Op(name, (a, b)), "the greater or the less") for name in ("max", "min"))
            yield from ((Op("abs", (part,)), "absolute value") for part in (a, b))
        case Op("select", (_, a, b)):
            yield from ((after, "a branch") for after in (a, b))
        case Op("div0", (a, b)):
            yield Op("div", (a, b)), "no division by 0"
        case Op("sub0", (a, b)):
            yield Op("sub", (a, b)), "no infinities"


# -- polynomials ----------------------------------------------------------------------------------------------------


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
            return _plus(part(a), part(b), Fraction(1 if name == "add" else -1))
        case Op("neg", (a,)):
            return _plus({}, factor(a), Fraction(-1))
        case Op("mul", (a, b)):
            return _times(factor(a), factor(b), term)
        case Op("div", (a, Op("mul", (b, c)))):  # one after the other, so that the divisor stays a product
            return _quotient(_quotient(factor(a), part(b), term), part(c), term)
        case Op("div", (a, b)):
            return _quotient(factor(a), part(b), term)
        case Op("div0", (a, b)) if a != REAL_ONE:
            return _times(factor(a), {((Op("div0", (REAL_ONE, b)), 1),): Fraction(1)}, term)
        case Op("exp", (a,)):
            return {_monomial({Op("exp", (built(polynomial(a)),)): 1}): Fraction(1)}
        case _:
            return {((term, 1),): Fraction(1)}


def _plus(a: Polynomial, b: Polynomial, sign: Fraction) -> Polynomial:
    out = dict(a)
    for monomial, coefficient in b.items():
        out[monomial] = out.get(monomial, Fraction(0)) + sign * coefficient
    return {monomial: coefficient for monomial, coefficient in out.items() if coefficient}


def _times(a: Polynomial, b: Polynomial, whole: Term) -> Polynomial:
    if len(a) * len(b) > LIMIT:
        return {((whole, 1),): Fraction(1)}
    out: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            powers = dict(left)
            for factor, power in right:
                powers[factor] = powers.get(factor, 0) + power
            out = _plus(out, _squares(powers), x * y)
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
    return _times(a, inverse, whole)


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
        out, rest = _plus(out, piece, Fraction(1)), _plus(rest, _times(piece, b, REAL_ONE), Fraction(-1))
    return None


def _squares(powers: dict[Term, int]) -> Polynomial:
    """Π factor^power, where squares of roots and of absolute values are written out."""
    rest: dict[Term, int] = {}
    more: Polynomial = {(): Fraction(1)}
    for factor, power in powers.items():
        if isinstance(factor, Op) and factor.name in ("sqrt", "abs") and power >= 2:
            a = polynomial(factor.args[0])
            for _ in range((power // 2) * (1 if factor.name == "sqrt" else 2)):
                more = _times(more, a, factor)
            power %= 2
        rest[factor] = rest.get(factor, 0) + power
    out = {_monomial(rest): Fraction(1)}
    return out if more == {(): Fraction(1)} else _times(out, more, REAL_ONE)


def _monomial(powers: dict[Term, int]) -> Monomial:
    """In one order; the exponentials in it as one."""
    exponent: Polynomial = {}
    rest: dict[Term, int] = {}
    for factor, power in powers.items():
        if isinstance(factor, Op) and factor.name == "exp":
            exponent = _plus(exponent, polynomial(factor.args[0]), Fraction(power))
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
            out = _product(monomial, coefficient)
        elif coefficient < 0:
            out = Op("sub", (out, _product(monomial, -coefficient)))
        else:
            out = Op("add", (out, _product(monomial, coefficient)))
    return REAL_ZERO if out is None else out


def _product(monomial: Monomial, coefficient: Fraction) -> Term:
    zeros = [factor for factor, power in monomial if power == 1 and isinstance(factor, Op) and factor.name == "div0"]
    if zeros and children(zeros[0])[0] == REAL_ONE and (len(monomial) > 1 or coefficient != 1):
        rest = tuple(item for item in monomial if item[0] != zeros[0])
        return Op("div0", (_product(rest, coefficient), children(zeros[0])[1]))
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
        return Op("sub", (part, factored(_plus({}, outside, Fraction(-1)))))
    return Op("add", (part, factored(outside)))


# -- functions ------------------------------------------------------------------------------------------------------


def _log(a: Polynomial) -> Iterator[Term]:
    """log(c·exp(s)·m)  ->  s + log(c·m)."""
    if len(a) != 1:
        return
    ((monomial, coefficient),) = a.items()
    for factor, power in monomial:
        if isinstance(factor, Op) and factor.name == "exp" and power == 1:
            rest = tuple(item for item in monomial if item[0] != factor)
            exponent = factor.args[0]
            alone = not rest and coefficient == 1
            yield exponent if alone else Op("add", (exponent, Op("log", (_product(rest, coefficient),))))


def _exp(a: Polynomial) -> Iterator[Term]:
    """exp(r + k·log(y))  ->  exp(r)·y^k, for whole k."""
    powers: dict[Term, int] = {}
    rest: Polynomial = {}
    for monomial, coefficient in a.items():
        match monomial:
            case ((Op("log", (y,)), 1),) if coefficient.denominator == 1 and abs(coefficient) <= 8:
                powers[y] = powers.get(y, 0) + int(coefficient)
            case _:
                rest[monomial] = coefficient
    if powers:
        if rest:
            powers[Op("exp", (built(rest),))] = 1
        yield _product(_monomial(powers), Fraction(1))


def _sqrt(a: Polynomial) -> Iterator[Term]:
    """√(c²·m²)  ->  |c·m|,  √exp(s)  ->  exp(s/2)."""
    if len(a) != 1:
        return
    ((monomial, coefficient),) = a.items()
    match monomial:
        case ((Op("exp", (s,)), 1),) if coefficient == 1:
            yield Op("exp", (built(_times(polynomial(s), {(): Fraction(1, 2)}, s)),))
    root = Fraction(_whole_root(coefficient.numerator), _whole_root(coefficient.denominator))
    if root * root == coefficient and all(power % 2 == 0 for _, power in monomial):
        inner = _product(tuple((factor, power // 2) for factor, power in monomial), root)
        yield inner
        yield Op("abs", (inner,))


def _whole_root(n: int) -> int:
    root = round(max(n, 0) ** 0.5)
    return root if root * root == n else max(n, 1)
