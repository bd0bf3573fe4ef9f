"""How far a machine's arithmetic may be from the reals: one rule an operation, each a term for an upper bound.

    computed x is within e of x:   |fl(x) − x| ≤ e          a pair (x, e), both terms; e is 0, a term, or ∞ ("no bound")

    a + b     p = e_a + e_b                                 what the operands' errors alone may do
    a · b     p = |a|·e_b + |b|·e_a + e_a·e_b
    a / b     p = (e_a + |a / b|·e_b) / (|b| − e_b)         if e_b < |b|, else ∞
    exp a     p = exp(a)·expm1(e_a)
    log a     p = −log1p(−e_a / a)                          if e_a < a, else ∞

and then one rounding of the result, the standard model (Higham 2002, 2.4) with an underflow term:

    e = p + u·(|x| + p) + η           if |x| + e is a number of the format, else ∞ (it may overflow)

u is the unit roundoff, η the most that an underflow loses; a function that is within k units in the last place has 2ku and
2kη for u and η, since a unit in the last place is at most 2u|x|, or 2η below the normal numbers. A sum of terms (x, e),
each of which passes through at most D additions, is within Σe + γ_D·Σ(|x| + e), γ_D = D·u / (1 − D·u).

`a·b + c` rounded once instead of twice has a rounding less, so that the rules hold for it. A condition on reals may come out
otherwise than over the reals where the two sides are nearer than their errors: the bound there is the difference of the
branches.

Infinite values come from identities and masks alone, and are exact: −∞ stays −∞ as long as all errors are finite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from tang_verified.semantics.build import conj
from tang_verified.semantics.terms import (
    FALSE,
    POS_INF,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    Const,
    Fold,
    Op,
    Read,
    Term,
    children,
    once,
    rebuild,
    sort_of,
)  # fmt: skip

Pair: TypeAlias = tuple[Term, Term]  # a value over the reals, and a bound on the error of what is computed
COARSE = Fraction(1, 1 << 1000)  # with room below it for the factors that an error meets
DIGITS = {"float16": 11, "float32": 24, "float64": 53}  # of the significand
SMALLEST = {"float16": -14, "float32": -126, "float64": -1022}  # the exponent of the least normal number


@dataclass(frozen=True, slots=True)
class Rounding:
    """A language's arithmetic in numbers, the part of its table from which bounds follow.

    `neighbours`: a result is one of the two nearest numbers, not the nearest. `flushed`: subnormal numbers may become 0.
    `functions`: units in the last place, by (operation, dtype); what is not there has no bound.
    `units`: the same, for what a matrix unit does. `unsaid`: why the language allows no bound at all.
    """

    functions: Mapping[tuple[str, str], Fraction]
    neighbours: bool = False
    flushed: bool = False
    unsaid: str = ""

    def unit(self, dtype: str) -> Fraction:
        return Fraction(1, 2 ** (DIGITS[dtype] - self.neighbours))

    def tiny(self, dtype: str) -> Fraction:
        """What a result below the normal numbers may lose."""
        least = Fraction(2) ** SMALLEST[dtype]
        lost = least if self.flushed else least * self.unit(dtype)
        return max(lost, COARSE)  # a bound is evaluated in float64, where what is smaller would be 0 itself

    @staticmethod
    def largest(dtype: str) -> Fraction:
        return (2 - Fraction(1, 2 ** (DIGITS[dtype] - 1))) * Fraction(2) ** (1 - SMALLEST[dtype])


class Sharing:
    """Equal terms become one object, so that a bound, in which one value stands many times, is walked and compared once."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], Term] = {}
        self.shared: dict[int, Term] = {}

    def __call__(self, term: Term) -> Term:
        return self._walk(term, {})

    def _walk(self, term: Term, memo: dict[int, Term]) -> Term:
        if id(term) in self.shared:
            return term
        if id(term) not in memo:
            parts = children(term)
            fresh = tuple(self._walk(part, memo) for part in parts)
            node = term if all(a is b for a, b in zip(fresh, parts, strict=True)) else rebuild(term, fresh)
            found = self.known.setdefault((*self._own(node), *map(id, fresh)), node)
            self.shared[id(found)] = memo[id(term)] = found
        return memo[id(term)]

    @staticmethod
    def _own(node: Term) -> tuple[object, ...]:
        match node:
            case Op(name, _):
                return "op", name
            case Read(tensor, _, sort):
                return "read", tensor, sort
            case Fold(monoid, axes, _, _, place):
                return "fold", monoid, tuple(axis.name for axis in axes), place
            case _:
                return "leaf", node


# -- terms that are never negative: zeros, ones and infinities are done with at once ------------------------------------


def plus(a: Term, b: Term) -> Term:
    if isinstance(a, Const) and isinstance(b, Const) and POS_INF not in (a, b):
        return Const(Fraction(a.value) + Fraction(b.value))
    return b if a == REAL_ZERO else a if b == REAL_ZERO else POS_INF if POS_INF in (a, b) else Op("add", (a, b))


def times(a: Term, b: Term) -> Term:
    if REAL_ZERO in (a, b):
        return REAL_ZERO  # no error stays none, whatever it is multiplied with
    if isinstance(a, Const) and isinstance(b, Const) and POS_INF not in (a, b):
        return Const(Fraction(a.value) * Fraction(b.value))
    return b if a == REAL_ONE else a if b == REAL_ONE else POS_INF if POS_INF in (a, b) else Op("mul", (a, b))


def larger(a: Term, b: Term) -> Term:
    return b if a == REAL_ZERO or a == b else a if b == REAL_ZERO else POS_INF if POS_INF in (a, b) else Op("max", (a, b))


def choose(condition: Term, a: Term, b: Term) -> Term:
    return a if condition == TRUE or a == b else b if condition == FALSE else Op("select", (condition, a, b))


def either(a: Term, b: Term) -> Term:
    return b if a == FALSE or a == b else a if b == FALSE else TRUE if TRUE in (a, b) else Op("or", (a, b))


def number(value: Fraction | int) -> Const:
    return Const(Fraction(value))


def size(value: Term) -> Term:
    """|x|."""
    if isinstance(value, Const) and isinstance(value.value, Fraction):
        return Const(abs(value.value))
    match value:
        case Op("abs" | "exp" | "sqrt" | "rsqrt" | "cosh"):
            return value
        case Op("neg", (a,)):
            return size(a)
        case Op("mul", (a, b)):
            return times(size(a), size(b))
        case Op("select", (condition, a, b)):
            return choose(condition, size(a), size(b))
        case _:
            return Op("abs", (value,))


def support(value: Term) -> Term:
    """A condition on integers outside which the value, and what is computed for it, is 0."""
    match value:
        case Op("select", (condition, a, Const(Fraction() as zero))) if zero == 0 and _of_integers(condition):
            return conj(condition, support(a))
        case Op("mul", (a, b)):
            return conj(support(a), support(b))
        case _:
            return TRUE


def _of_integers(condition: Term) -> bool:
    """One that reads nothing: it has a value wherever its axes have."""
    return sort_of(condition) != "real" and not isinstance(condition, Read) and all(map(_of_integers, children(condition)))


def rebuilt(term: Term, parts: tuple[Term, ...]) -> Term:
    """A bound's node over other children."""
    match term:
        case Op("add") if sort_of(term) == "real":
            return plus(*parts)
        case Op("mul") if sort_of(term) == "real":
            return times(*parts)
        case Op("max") if sort_of(term) == "real":
            return larger(*parts)
        case _:
            return rebuild(term, parts)


@once("_infinite")
def infinities(term: Term) -> frozenset[str]:
    """Which of +∞ and −∞ a real term may be, at finite inputs; by its form alone, on the safe side."""
    match term:
        case Const("inf"):
            return frozenset("+")
        case Const("-inf"):
            return frozenset("-")
        case Const() | Read():
            return frozenset()
        case Fold(monoid, _, _, body, component):
            return frozenset().union(*map(infinities, body), infinities(monoid.identity[component]))
        case Op("neg", (a,)):
            return _flipped(infinities(a))
        case Op("sub" | "sub0", (a, b)):
            return infinities(a) | _flipped(infinities(b))
        case Op("add" | "max" | "min", (a, b)) | Op("select", (_, a, b)):
            return infinities(a) | infinities(b)
        case Op("mul" | "pow", (a, b)):
            return frozenset("+-") if infinities(a) | infinities(b) else frozenset()
        case Op("div" | "div0", (a, _)):
            return frozenset("+-") if infinities(a) else frozenset()
        case Op("exp" | "expm1" | "sqrt" | "floor" | "ceil" | "round", (a,)):
            return infinities(a) & frozenset("+" if term.name in ("exp", "expm1", "sqrt") else "+-")
        case Op("log" | "log1p", (a,)):
            return frozenset("-") | (infinities(a) & frozenset("+"))
        case Op("rsqrt"):
            return frozenset("+")
        case Op("abs" | "sinh" | "cosh", (a,)):
            return frozenset("+-") if infinities(a) else frozenset()
        case _:  # bounded functions, and what comes from integers
            return frozenset()


def _flipped(signs: frozenset[str]) -> frozenset[str]:
    return frozenset({"+": "-", "-": "+"}[sign] for sign in signs)


# -- the rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """The rules in one format."""

    rounding: Rounding
    dtype: str

    @property
    def unit(self) -> Const:
        return number(self.rounding.unit(self.dtype))

    def rounded(self, value: Term, p: Term, unit: Fraction | None = None, tiny: Fraction | None = None) -> Term:
        """One rounding of a value that is within p before it."""
        u = self.rounding.unit(self.dtype) if unit is None else unit
        eta = self.rounding.tiny(self.dtype) if tiny is None else tiny
        e = plus(plus(times(number(1 + u), p), times(number(u), size(value))), number(eta))
        return self.within(value, e, p)

    def within(self, value: Term, e: Term, p: Term = POS_INF) -> Term:
        """The bound where no overflow is possible. What is infinite over the reals is so on the machine, if p is finite."""
        if e == POS_INF:
            return POS_INF
        fits = Op("le", (plus(size(value), e), number(self.rounding.largest(self.dtype))))
        beyond: Term = POS_INF
        if infinities(value) and p != POS_INF:
            infinite = Op("eq", (Op("abs", (value,)), POS_INF))
            beyond = choose(conj(infinite, Op("lt", (p, POS_INF))), REAL_ZERO, POS_INF)
        return choose(fits, e, beyond)

    def function(self, name: str, value: Term, p: Term) -> Term:
        """The rounding of a function of k units in the last place."""
        ulps = self.rounding.functions.get((name, self.dtype))
        if ulps is None or p == POS_INF:
            return POS_INF
        unit = Fraction(2, 2 ** DIGITS[self.dtype]) * ulps
        least = Fraction(2) ** SMALLEST[self.dtype]
        tiny = max(unit * least, least if self.rounding.flushed else Fraction(0))
        return self.rounded(value, p, unit, tiny)

    def constant(self, value: Fraction) -> Term:
        """A literal is the nearest number of the format."""
        if abs(value) > self.rounding.largest(self.dtype):
            return POS_INF
        if exact(value, self.dtype):
            return REAL_ZERO
        unit, least = Fraction(1, 2 ** DIGITS[self.dtype]), Fraction(2) ** SMALLEST[self.dtype]
        return number(unit * max(abs(value), least) + (least if self.rounding.flushed else 0))

    def integer(self, value: Term) -> Term:
        """An integer made a real: exact as far as the significand reaches."""
        if isinstance(value, Const) and isinstance(value.value, int):
            return self.constant(Fraction(value.value))
        real = Op("real", (value,))
        return choose(Op("lt", (size(real), number(2 ** DIGITS[self.dtype]))), REAL_ZERO, self.rounded(real, REAL_ZERO))

    def gamma(self, depth: Term) -> Term:
        """γ_D = D·u / (1 − D·u): (1 + u)^D − 1 at most."""
        if isinstance(depth, Const) and isinstance(depth.value, int):
            x = depth.value * self.rounding.unit(self.dtype)
            return number(x / (1 - x)) if x < 1 else POS_INF
        through = times(Op("real", (depth,)), self.unit)
        return choose(Op("lt", (through, REAL_ONE)), Op("div", (through, Op("sub", (REAL_ONE, through)))), POS_INF)

    def total(self, fold: Fold, value: Term, e: Term, depth: Term) -> Term:
        """A sum of terms (value, e) over the fold's domain, each of which passes through at most `depth` additions."""
        if e == POS_INF:
            return POS_INF

        def over(body: Term) -> Term:
            return REAL_ZERO if body == REAL_ZERO else Fold(fold.monoid, fold.axes, fold.guard, (body,))

        if self.rounding.flushed:  # each addition may lose what is below the normal numbers
            e = plus(e, number(2 * self.rounding.tiny(self.dtype)))
        errors, gamma = over(e), self.gamma(depth)
        sizes = plus(over(size(value)), errors)
        most = times(plus(REAL_ONE, gamma), sizes)  # of any part of the sum
        bound = plus(errors, times(gamma, sizes))
        return choose(Op("le", (most, number(self.rounding.largest(self.dtype)))), bound, POS_INF)

    def operation(self, name: str, value: Term, *args: Pair) -> Term:
        """The error of `value`, which is the operation on the arguments' values."""
        if any(e == POS_INF for _, e in args):
            return POS_INF
        rule = RULES.get(name)
        return POS_INF if rule is None else rule(self, value, *args)


def exact(value: Fraction, dtype: str) -> bool:
    """Whether a rational is a normal number of the format, or 0."""
    if value == 0:
        return True
    top, bottom = abs(value.numerator), value.denominator
    odd = top >> ((top & -top).bit_length() - 1)
    normal = Fraction(2) ** SMALLEST[dtype] <= abs(value) <= Rounding.largest(dtype)
    return normal and bottom & (bottom - 1) == 0 and odd.bit_length() <= DIGITS[dtype]


def _power_of_two(value: Term) -> bool:
    """A factor that is known to round nothing."""
    if not (isinstance(value, Const) and isinstance(value.value, Fraction) and exact(value.value, "float16")):
        return False
    top, bottom = abs(value.value.numerator), value.value.denominator
    return top != 0 and top & (top - 1) == 0 and bottom & (bottom - 1) == 0


def _add(rules: Rules, value: Term, a: Pair, b: Pair) -> Term:
    eta = None if rules.rounding.flushed else Fraction(0)  # a sum below the normal numbers is exact
    return rules.rounded(value, plus(a[1], b[1]), None, eta)


def _mul(rules: Rules, value: Term, a: Pair, b: Pair) -> Term:
    p = plus(plus(times(size(a[0]), b[1]), times(size(b[0]), a[1])), times(a[1], b[1]))
    scales = _power_of_two(a[0]) or _power_of_two(b[0])
    return rules.rounded(value, p, Fraction(0)) if scales else rules.rounded(value, p)


def _div(rules: Rules, value: Term, a: Pair, b: Pair) -> Term:
    if b[1] == REAL_ZERO:
        p: Term = REAL_ZERO if a[1] == REAL_ZERO else Op("div", (a[1], size(b[0])))
    else:
        p = Op("div", (plus(a[1], times(size(value), b[1])), Op("sub", (size(b[0]), b[1]))))
    correct = rules.rounding.functions.get(("div", rules.dtype)) == Fraction(1, 2)
    scales = correct and _power_of_two(b[0]) and not rules.rounding.neighbours
    e = rules.rounded(value, p, Fraction(0)) if scales else rules.function("div", value, p)
    if b[1] == REAL_ZERO:
        return e
    return choose(Op("lt", (b[1], size(b[0]))), e, POS_INF)


def _div0(rules: Rules, value: Term, a: Pair, b: Pair) -> Term:
    """0 where the divisor is 0, and is known to be."""
    zero: Term = Op("eq", (b[0], REAL_ZERO))
    if b[1] != REAL_ZERO:
        zero = conj(zero, Op("eq", (b[1], REAL_ZERO)))
    return choose(zero, REAL_ZERO, _div(rules, value, a, b))


def _exact_of(rules: Rules, value: Term, a: Pair) -> Term:
    return a[1]


def _extreme(rules: Rules, value: Term, a: Pair, b: Pair) -> Term:
    return larger(a[1], b[1])


def _steps(rules: Rules, value: Term, a: Pair) -> Term:
    """floor, ceil, round: |⌊x⌋ − ⌊y⌋| ≤ |x − y| + 1, and nothing is rounded."""
    return choose(Op("eq", (a[1], REAL_ZERO)), REAL_ZERO, plus(a[1], REAL_ONE)) if a[1] != REAL_ZERO else REAL_ZERO


def _smooth(name: str, slope: Fraction | int) -> Callable[[Rules, Term, Pair], Term]:
    """A function whose derivative is at most `slope` in size."""
    return lambda rules, value, a: rules.function(name, value, times(number(slope), a[1]))


def _exp(rules: Rules, value: Term, a: Pair) -> Term:
    return rules.function("exp", value, _rise(a[0], a[1]))


def _rise(a: Term, e: Term) -> Term:
    """exp(a + e) − exp(a), as exp(a + e)·(1 − exp(−e)): exp(a) alone may be too small to be evaluated."""
    if e == REAL_ZERO:
        return REAL_ZERO
    return times(Op("exp", (plus(a, e),)), Op("neg", (Op("expm1", (Op("neg", (e,)),)),)))


def _expm1(rules: Rules, value: Term, a: Pair) -> Term:
    return rules.function("expm1", value, _rise(a[0], a[1]))


def _log(name: str, shift: Term) -> Callable[[Rules, Term, Pair], Term]:
    """log x, and log1p x = log(1 + x)."""

    def rule(rules: Rules, value: Term, a: Pair) -> Term:
        x = plus(shift, a[0]) if shift != REAL_ZERO else a[0]
        if a[1] == REAL_ZERO:  # log 0 is -inf on the machine, too
            e = rules.function(name, value, REAL_ZERO)
            return choose(Op("eq", (x, REAL_ZERO)), REAL_ZERO, e)
        moved = Op("neg", (Op("log1p", (Op("neg", (Op("div", (a[1], x)),)),)),))
        return choose(Op("lt", (a[1], x)), rules.function(name, value, moved), POS_INF)

    return rule


def _sqrt(rules: Rules, value: Term, a: Pair) -> Term:
    if a[1] == REAL_ZERO:
        return rules.function("sqrt", value, REAL_ZERO)
    lower = Op("sqrt", (Op("sub", (a[0], a[1])),))
    moved = Op("div", (a[1], plus(value, lower)))
    exactly = conj(Op("eq", (a[1], REAL_ZERO)), Op("eq", (a[0], REAL_ZERO)))
    return choose(exactly, REAL_ZERO, choose(Op("le", (a[1], a[0])), rules.function("sqrt", value, moved), POS_INF))


def _rsqrt(rules: Rules, value: Term, a: Pair) -> Term:
    moved = REAL_ZERO if a[1] == REAL_ZERO else Op("sub", (Op("rsqrt", (Op("sub", a),)), value))
    return choose(Op("lt", (a[1], a[0])), rules.function("rsqrt", value, moved), POS_INF)


def _tan(rules: Rules, value: Term, a: Pair) -> Term:
    """tan(x + d) − tan x = sin d / (cos x·cos(x + d))."""
    if a[1] == REAL_ZERO:
        return rules.function("tan", value, REAL_ZERO)
    cos = Op("abs", (Op("cos", (a[0],)),))
    moved = Op("div", (a[1], times(cos, Op("sub", (cos, a[1])))))
    return choose(Op("lt", (a[1], cos)), rules.function("tan", value, moved), POS_INF)


def _hyperbolic(name: str) -> Callable[[Rules, Term, Pair], Term]:
    def rule(rules: Rules, value: Term, a: Pair) -> Term:
        moved = times(a[1], Op("cosh", (plus(size(a[0]), a[1]),)))
        return rules.function(name, value, moved)

    return rule


def _arc(name: str) -> Callable[[Rules, Term, Pair], Term]:
    """asin, acos: the derivative is 1 / sqrt(1 − x²) at most where |x| is largest."""

    def rule(rules: Rules, value: Term, a: Pair) -> Term:
        if a[1] == REAL_ZERO:
            return rules.function(name, value, REAL_ZERO)
        most = plus(size(a[0]), a[1])
        root = Op("sqrt", (Op("sub", (REAL_ONE, times(most, most))),))
        return choose(Op("lt", (most, REAL_ONE)), rules.function(name, value, Op("div", (a[1], root))), POS_INF)

    return rule


def _pow(rules: Rules, value: Term, a: Pair, b: Pair) -> Term:
    """a^b = exp(b·log a) where a > 0; at exact arguments, as the function states."""
    if a[1] == b[1] == REAL_ZERO:
        return rules.function("pow", value, REAL_ZERO)
    log = Op("abs", (Op("log", (a[0],)),))
    moved = REAL_ZERO if a[1] == REAL_ZERO else Op("neg", (Op("log1p", (Op("neg", (Op("div", (a[1], a[0])),)),)),))
    change = plus(times(plus(size(b[0]), b[1]), moved), times(b[1], log))
    e = rules.function("pow", value, _rise(times(b[0], Op("log", (a[0],))), change))
    known = conj(Op("eq", (a[1], REAL_ZERO)), Op("eq", (b[1], REAL_ZERO)))
    return choose(known, rules.function("pow", value, REAL_ZERO), choose(Op("lt", (a[1], a[0])), e, POS_INF))


RULES: dict[str, Callable[..., Term]] = {
    "add": _add, "sub": _add, "sub0": _add, "mul": _mul, "div": _div, "div0": _div0,
    "neg": _exact_of, "abs": _exact_of, "max": _extreme, "min": _extreme,
    "floor": _steps, "ceil": _steps, "round": _steps,
    "exp": _exp, "expm1": _expm1, "log": _log("log", REAL_ZERO), "log1p": _log("log1p", REAL_ONE),
    "sqrt": _sqrt, "rsqrt": _rsqrt, "tan": _tan, "pow": _pow,
    "sinh": _hyperbolic("sinh"), "cosh": _hyperbolic("cosh"), "asin": _arc("asin"), "acos": _arc("acos"),
    "sin": _smooth("sin", 1), "cos": _smooth("cos", 1), "tanh": _smooth("tanh", 1), "atan": _smooth("atan", 1),
    "erf": _smooth("erf", Fraction(1128380, 1000000)),  # 2 / sqrt(pi) = 1.1283791…
}  # fmt: skip
