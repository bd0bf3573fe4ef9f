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
from typing import Any

import z3

from tang_verified.passes.laws import normal
from tang_verified.passes.monomials import Polynomial, built, factored, monomial_of, polynomial, product, times
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.proofs.ask import Asker
from tang_verified.semantics.meaning import Encoder, negate
from tang_verified.semantics.show import show
from tang_verified.semantics.smtlib import statement
from tang_verified.semantics.terms import Const, Op, Term, children, rebuild, sort_of

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


MOST = 200  # steps
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
    """The term with every `before` in it replaced."""
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
            yield exponent if alone else Op("add", (exponent, Op("log", (product(rest, coefficient),))))


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
        yield product(monomial_of(powers), Fraction(1))


def _sqrt(a: Polynomial) -> Iterator[Term]:
    """√(c²·m²)  ->  |c·m|,  √exp(s)  ->  exp(s/2)."""
    if len(a) != 1:
        return
    ((monomial, coefficient),) = a.items()
    match monomial:
        case ((Op("exp", (s,)), 1),) if coefficient == 1:
            yield Op("exp", (built(times(polynomial(s), {(): Fraction(1, 2)}, s)),))
    root = Fraction(_whole_root(coefficient.numerator), _whole_root(coefficient.denominator))
    if root * root == coefficient and all(power % 2 == 0 for _, power in monomial):
        inner = product(tuple((factor, power // 2) for factor, power in monomial), root)
        yield inner
        yield Op("abs", (inner,))


def _whole_root(n: int) -> int:
    root = round(max(n, 0) ** 0.5)
    return root if root * root == n else max(n, 1)
