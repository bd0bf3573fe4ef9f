"""The meaning of terms in SMT: integers, booleans, and extended reals as (nan, +inf, -inf, value).

At most one of the three flags holds; `value` counts only when none does. The tables are those of IEEE 754 without signed
zeros, and x / 0 is nan (docs/architecture.md). Reads and folds are uninterpreted functions of their variables: a claim
proved here holds whatever they are. Special functions are uninterpreted too, constrained by the axioms below, each
instantiated for the arguments that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, permutations
from typing import Any

import z3

from tang_verified.semantics.build import canonical
from tang_verified.semantics.derivative import SLOPES
from tang_verified.semantics.polynomial import Normal
from tang_verified.semantics.smtlib import declaration
from tang_verified.semantics.terms import Const, Fold, Op, Read, Sort, Sym, Term, Var, alpha, free_vars, sort_of

Bool = Any  # a Python bool where it is known, else z3.BoolRef; likewise below
Kind = tuple[bool, bool, bool, bool, bool]  # never nan, never +inf, never -inf, never negative, never zero
FINITE: Kind = (True, True, True, False, False)
AXIOMS: dict[str, str] = {
    "exp/positive": "exp(x) > 0",
    "exp/zero": "exp(0) = 1",
    "exp/sum": "x + y = z implies exp(x) exp(y) = exp(z)",
    "exp/monotone": "x < y implies exp(x) < exp(y)",
    "log/inverse": "y > 0 implies exp(log(y)) = y and log(exp(x)) = x",
    "log/product": "y > 0 and y exp(x) = z implies log(z) = log(y) + x",
    "sqrt/square": "x >= 0 implies sqrt(x) >= 0 and sqrt(x)^2 = x",
    "rsqrt/square": "x > 0 implies rsqrt(x) > 0 and x rsqrt(x)^2 = 1",
    "inverse/product": "y != 0 implies y inverse(y) = 1, where x / y is x inverse(y)",
    "tanh/range": "-1 < tanh(x) < 1 and tanh(-x) = -tanh(x)",
    "erf/range": "-1 < erf(x) < 1 and erf(-x) = -erf(x)",
    **SLOPES,
}


def all_of(*terms: Bool) -> Bool:
    rest = [t for t in terms if t is not True]
    if any(t is False for t in rest):
        return False
    return True if not rest else rest[0] if len(rest) == 1 else z3.And(*rest)


def any_of(*terms: Bool) -> Bool:
    rest = [t for t in terms if t is not False]
    if any(t is True for t in rest):
        return True
    return False if not rest else rest[0] if len(rest) == 1 else z3.Or(*rest)


def negate(term: Bool) -> Bool:
    return (not term) if isinstance(term, bool) else z3.Not(term)


def choose(condition: Bool, a: Any, b: Any) -> Any:
    if isinstance(condition, bool):
        return a if condition else b
    if isinstance(a, bool) and isinstance(b, bool):
        return a if a == b else (condition if a else z3.Not(condition))
    if isinstance(a, bool):
        a = z3.BoolVal(a)
    if isinstance(b, bool):
        b = z3.BoolVal(b)
    return a if z3.is_expr(a) and z3.is_expr(b) and a.eq(b) else z3.If(condition, a, b)


@dataclass(frozen=True)
class Extended:
    """An extended real. `value` is a z3 Real."""

    nan: Bool
    top: Bool
    bottom: Bool
    value: Any

    @property
    def finite(self) -> Bool:
        return all_of(negate(self.nan), negate(self.top), negate(self.bottom))


ZERO = z3.RealVal(0)
NAN = Extended(True, False, False, ZERO)
TOP = Extended(False, True, False, ZERO)
BOTTOM = Extended(False, False, True, ZERO)


def number(value: Any) -> Extended:
    return Extended(False, False, False, value)


def pick(condition: Bool, a: Extended, b: Extended) -> Extended:
    return Extended(
        choose(condition, a.nan, b.nan), choose(condition, a.top, b.top), choose(condition, a.bottom, b.bottom),
        choose(condition, a.value, b.value),
    )  # fmt: skip


def same(a: Extended, b: Extended) -> Bool:
    """The same extended real (nan is the same as nan)."""

    def agree(x: Bool, y: Bool) -> Bool:
        if isinstance(x, bool) and isinstance(y, bool):
            return x == y
        return (y if x else negate(y)) if isinstance(x, bool) else (x if y else negate(x)) if isinstance(y, bool) else x == y

    values = True if a.value.eq(b.value) else a.value == b.value
    return all_of(agree(a.nan, b.nan), agree(a.top, b.top), agree(a.bottom, b.bottom), any_of(negate(a.finite), values))


def add(a: Extended, b: Extended) -> Extended:
    nan = any_of(a.nan, b.nan, all_of(a.top, b.bottom), all_of(a.bottom, b.top))
    top = all_of(negate(nan), any_of(a.top, b.top))
    return Extended(nan, top, all_of(negate(nan), any_of(a.bottom, b.bottom)), a.value + b.value)


def minus(a: Extended) -> Extended:
    return Extended(a.nan, a.bottom, a.top, -a.value)


def mul(a: Extended, b: Extended) -> Extended:
    infinite = any_of(a.top, a.bottom, b.top, b.bottom)
    if infinite is False:
        return Extended(any_of(a.nan, b.nan), False, False, a.value * b.value)
    zero = any_of(all_of(a.finite, a.value == ZERO), all_of(b.finite, b.value == ZERO))
    negative_a = any_of(a.bottom, all_of(a.finite, a.value < ZERO))
    negative_b = any_of(b.bottom, all_of(b.finite, b.value < ZERO))
    nan = any_of(a.nan, b.nan, all_of(infinite, zero))
    opposite = any_of(all_of(negative_a, negate(negative_b)), all_of(negate(negative_a), negative_b))
    huge = all_of(infinite, negate(nan))
    return Extended(nan, all_of(huge, negate(opposite)), all_of(huge, opposite), a.value * b.value)


def div(a: Extended, b: Extended, inverse: Any) -> Extended:
    """x / 0 is nan, x / inf is 0 for finite x, inf / inf is nan. `inverse` is 1 / b where b is finite and not 0."""
    b_infinite = any_of(b.top, b.bottom)
    a_infinite = any_of(a.top, a.bottom)
    zero = all_of(b.finite, b.value == ZERO)
    nan = any_of(a.nan, b.nan, zero, all_of(a_infinite, b_infinite))
    negative_a = any_of(a.bottom, all_of(a.finite, a.value < ZERO))
    huge = all_of(a_infinite, negate(nan))
    opposite = any_of(all_of(negative_a, negate(b.value < ZERO)), all_of(negate(negative_a), b.value < ZERO))
    quotient = choose(b_infinite, ZERO, a.value * inverse)
    return Extended(nan, all_of(huge, negate(opposite)), all_of(huge, opposite), quotient)


def less(a: Extended, b: Extended, *, strict: bool) -> Bool:
    known = all_of(negate(a.nan), negate(b.nan))
    finite = all_of(a.finite, b.finite, a.value < b.value if strict else a.value <= b.value)
    ends = any_of(
        all_of(a.bottom, negate(b.bottom) if strict else True), all_of(b.top, negate(a.top) if strict else True)
    )
    return all_of(known, any_of(ends, finite))


def larger(a: Extended, b: Extended) -> Extended:
    nan = any_of(a.nan, b.nan)
    chosen = pick(less(a, b, strict=False), b, a)
    return pick(nan, NAN, chosen)


@dataclass
class Encoder:
    """Encodes terms into one solver problem. `known(fold)` may say what a fold never is."""

    known: Callable[[Fold], Kind] = lambda fold: (False,) * 5
    never: Mapping[str, Kind] = field(default_factory=dict)  # what elements of a tensor are known never to be
    axioms_used: dict[str, None] = field(default_factory=dict)
    calls: dict[str, dict[int, Any]] = field(default_factory=dict)  # function name -> Z3's number of an argument -> it
    polynomials: Normal = field(default_factory=Normal)
    folds: dict[Term, str] = field(default_factory=dict)
    memo: dict[Term, Any] = field(default_factory=dict)
    shape: list[Any] = field(default_factory=list)  # what holds of uninterpreted extended reals: one flag at most
    symbols: dict[str, str] = field(default_factory=dict)  # name -> its declaration in SMT-LIB

    def symbol(self, name: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
        """The uninterpreted constant, or function applied to `arguments`, of that name."""
        sorts = tuple(argument.sort() for argument in arguments)
        if name not in self.symbols:
            self.symbols[name] = declaration(name, sorts, result)
        return z3.Function(name, *sorts, result)(*arguments) if sorts else z3.Const(name, result)

    def encode(self, term: Term) -> Any:
        """A z3 expression or Python constant (int, bool), or an `Extended`."""
        if term not in self.memo:
            shared = _arithmetic(term)
            if shared is None:
                self.memo[term] = self._encode(term)
            else:
                self.memo[term], symbols = shared
                for name, text in symbols:
                    self.symbols.setdefault(name, text)
        return self.memo[term]

    def boolean(self, term: Term) -> Any:
        value = self.encode(term)
        return z3.BoolVal(value) if isinstance(value, bool) else value

    def _encode(self, term: Term) -> Any:
        match term:
            case Var(name):
                return self.symbol(f"i.{name}", z3.IntSort())
            case Sym(name, sort):
                return self._unknown(f"s.{name}", sort, (), (False,) * 5)
            case Const(value):
                return self._constant(value)
            case Read(tensor, index, sort):
                never = self.never.get(tensor, (False,) * 5)
                return self._unknown(f"r.{tensor}", sort, tuple(self.encode(i) for i in index), never)
            case Fold():
                return self._fold(term)
            case Op(name, args):
                return self._operation(name, tuple(self.encode(a) for a in args), sort_of(args[0]))
            case _:
                raise TypeError(f"no meaning for {type(term).__name__}")

    def _constant(self, value: int | bool | Fraction | str) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return z3.IntVal(value)
        if isinstance(value, Fraction):
            return number(z3.RealVal(f"{value.numerator}/{value.denominator}"))
        return {"nan": NAN, "inf": TOP, "-inf": BOTTOM}[value]

    def _fold(self, fold: Fold) -> Any:
        key = alpha(canonical(fold))
        name = self.folds.setdefault(key, f"f.{len(self.folds)}")
        arguments = tuple(self.encode(Var(v)) for v in sorted(free_vars(fold)))
        return self._unknown(name, sort_of(fold), arguments, self.known(fold))

    def _unknown(self, name: str, sort: Sort, arguments: tuple[Any, ...], never: Kind) -> Any:
        def symbol(suffix: str, range_: Any) -> Any:
            return self.symbol(name + suffix, range_, arguments)

        if sort == "int":
            return symbol("", z3.IntSort())
        if sort == "bool":
            return symbol("", z3.BoolSort())
        flags = [False if never[k] else symbol(suffix, z3.BoolSort()) for k, suffix in enumerate((".nan", ".top", ".bot"))]
        for k in range(3):
            for m in range(k):
                if flags[k] is not False and flags[m] is not False:
                    self.shape.append(z3.Not(z3.And(flags[k], flags[m])))
        value = symbol("", z3.RealSort())
        if never[3]:
            self.shape.append(value >= 0)
            flags[2] = False
        if never[4]:
            self.shape.append(value != 0)
        nan, top, bottom = flags
        return Extended(nan, top, bottom, value)

    def _operation(self, name: str, a: tuple[Any, ...], sort: Sort) -> Any:
        match name:
            case "and":
                return all_of(*a)
            case "or":
                return any_of(*a)
            case "not":
                return negate(a[0])
            case "select":
                return pick(*a) if isinstance(a[1], Extended) else choose(*a)
            case "int":
                return choose(a[0], z3.IntVal(1), z3.IntVal(0))
            case "real":
                return number(z3.ToReal(a[0]))
        if sort == "int":
            return self._integer(name, a)
        if sort == "bool":
            return (a[0] == a[1]) if name == "eq" else negate(a[0] == a[1])
        return self._real(name, a)

    def _integer(self, name: str, a: tuple[Any, ...]) -> Any:
        match name:
            case "add":
                return a[0] + a[1]
            case "sub":
                return a[0] - a[1]
            case "mul":
                return a[0] * a[1]
            case "neg":
                return -a[0]
            case "abs":
                return z3.If(a[0] < 0, -a[0], a[0])
            case "max":
                return z3.If(a[0] < a[1], a[1], a[0])
            case "min":
                return z3.If(a[0] < a[1], a[0], a[1])
            case "floordiv" | "mod" if z3.is_int_value(a[1]) and a[1].as_long() > 0:
                return a[0] / a[1] if name == "floordiv" else a[0] % a[1]
            case "floordiv":  # z3 divides as Euclid does; Python's floor differs when the divisor is negative
                return z3.If(a[1] < 0, (-a[0]) / (-a[1]), a[0] / a[1])
            case "mod":
                return z3.If(a[1] < 0, -((-a[0]) % (-a[1])), a[0] % a[1])
            case "lt":
                return a[0] < a[1]
            case "le":
                return a[0] <= a[1]
            case "eq":
                return a[0] == a[1]
            case "ne":
                return a[0] != a[1]
            case _:
                raise TypeError(f"no integer meaning for {name}")

    def _real(self, name: str, a: tuple[Extended, ...]) -> Any:
        match name:
            case "add":
                return add(*a)
            case "sub":
                return add(a[0], minus(a[1]))
            case "sub0":
                return pick(all_of(a[0].bottom, a[1].bottom), BOTTOM, add(a[0], minus(a[1])))
            case "mul":
                return mul(*a)
            case "div":
                return div(a[0], a[1], self.inverse(a[1].value))
            case "div0":
                quotient = div(a[0], a[1], self.inverse(a[1].value))
                return pick(all_of(a[1].finite, a[1].value == ZERO), number(ZERO), quotient)
            case "neg":
                return minus(a[0])
            case "abs":
                negative = any_of(a[0].bottom, all_of(a[0].finite, a[0].value < ZERO))
                return pick(negative, minus(a[0]), a[0])
            case "max":
                return larger(*a)
            case "min":
                return minus(larger(minus(a[0]), minus(a[1])))
            case "lt" | "le":
                return less(*a, strict=name == "lt")
            case "eq" | "ne":
                equal = all_of(negate(a[0].nan), negate(a[1].nan), same(*a))
                return equal if name == "eq" else negate(equal)
            case "trunc":
                x = a[0].value
                whole = z3.If(x >= 0, z3.ToInt(x), -z3.ToInt(-x))
                bits = tuple(z3.BoolVal(f) if isinstance(f, bool) else f for f in (a[0].nan, a[0].top, a[0].bottom))
                return choose(a[0].finite, whole, self.symbol("fn.trunc", z3.IntSort(), bits))  # nan and inf: some integer
            case _:
                return self._special(name, a)

    def inverse(self, value: Any) -> Any:
        """1 / value: a function with one axiom, which both solvers take to better than to their own division."""
        value = self.polynomials.expression(value)
        if z3.is_rational_value(value) and value.as_fraction() != 0:
            return z3.RealVal(1 / value.as_fraction())
        return self._call("inverse", (value,))

    def _special(self, name: str, a: tuple[Extended, ...]) -> Extended:
        x = a[0]
        value = self._call(name, tuple(part.value for part in a))
        match name:
            case "exp":
                result = Extended(False, False, False, value)
                ends = pick(x.top, TOP, pick(x.bottom, number(ZERO), result))
            case "log":
                ends = pick(x.top, TOP, pick(x.value == ZERO, BOTTOM, pick(x.value < ZERO, NAN, number(value))))
                ends = pick(x.bottom, NAN, ends)
            case "sqrt":
                ends = pick(x.top, TOP, pick(any_of(x.bottom, x.value < ZERO), NAN, number(value)))
            case "rsqrt":
                ends = pick(x.value == ZERO, TOP, pick(x.value < ZERO, NAN, number(value)))
                ends = pick(x.top, number(ZERO), pick(x.bottom, NAN, ends))
            case "tanh" | "erf":
                ends = pick(x.top, number(z3.RealVal(1)), pick(x.bottom, number(z3.RealVal(-1)), number(value)))
            case "sin" | "cos":
                ends = pick(any_of(x.top, x.bottom), NAN, number(value))
            case _:  # known to be a function, and nothing else
                flags = [flag for part in a for flag in (part.nan, part.top, part.bottom)]
                bits = tuple(z3.BoolVal(f) if isinstance(f, bool) else f for f in flags)
                whole = (*bits, *(part.value for part in a))
                kinds = [self.symbol(f"fn.{name}.{suffix}", z3.BoolSort(), whole) for suffix in ("nan", "top", "bot")]
                return Extended(kinds[0], all_of(z3.Not(kinds[0]), kinds[1]),
                                all_of(z3.Not(kinds[0]), z3.Not(kinds[1]), kinds[2]), value)  # fmt: skip
        return pick(x.nan, NAN, ends)

    def _call(self, name: str, values: Sequence[Any]) -> Any:
        values = [self.polynomials.expression(v) for v in values]
        if len(values) == 1:
            self.calls.setdefault(name, {})[values[0].get_id()] = values[0]
        return self.symbol(f"fn.{name}", z3.RealSort(), values)  # `exp` alone is a theory symbol of cvc5

    def axioms(self) -> list[Any]:
        """Instances of `AXIOMS` for the arguments that occur."""
        out: list[Any] = []

        def use(name: str, *instances: Any) -> None:
            self.axioms_used[name] = None
            out.extend(instances)

        def function(name: str) -> Any:
            return lambda x: self.symbol(f"fn.{name}", z3.RealSort(), (x,))

        exp, log, calls = function("exp"), function("log"), self.calls
        points = list(calls.get("exp", {}).values())
        for y in calls.get("log", {}).values():
            use("log/inverse", z3.Implies(y > 0, exp(log(y)) == y))
            points.append(log(y))
        if "log" in calls:
            for x in points:
                use("log/inverse", log(exp(x)) == x)
        for y, z in permutations(calls.get("log", {}).values(), 2):
            for x in calls.get("exp", {}).values():
                use("log/product", z3.Implies(z3.And(y > 0, y * exp(x) == z), log(z) == log(y) + x))
        for x in points:
            use("exp/positive", exp(x) > 0)
            use("exp/zero", z3.Implies(x == 0, exp(x) == 1))
        for x, y in combinations_with_replacement(points, 2):
            if not x.eq(y):
                use("exp/monotone", z3.Implies(x < y, exp(x) < exp(y)), z3.Implies(y < x, exp(y) < exp(x)))
            use("exp/sum", z3.Implies(x + y == 0, exp(x) * exp(y) == 1))
            for z in points:
                if self.polynomials.difference_size(x + y, z) <= 3:  # written out, one comparison of values, or zero
                    use("exp/sum", z3.Implies(x + y == z, exp(x) * exp(y) == exp(z)))
        for x in calls.get("sqrt", {}).values():
            root = function("sqrt")(x)
            use("sqrt/square", z3.Implies(x >= 0, z3.And(root >= 0, root * root == x)))
        for x in calls.get("rsqrt", {}).values():
            root = function("rsqrt")(x)
            use("rsqrt/square", z3.Implies(x > 0, z3.And(root > 0, root * root * x == 1)))
        for x in calls.get("inverse", {}).values():
            use("inverse/product", z3.Implies(x != 0, x * function("inverse")(x) == 1))
        for name in ("tanh", "erf"):
            f = function(name)
            for x in calls.get(name, {}).values():
                use(f"{name}/range", f(x) > -1, f(x) < 1, f(-x) == -f(x))
        return out


@lru_cache(maxsize=1 << 14)
def _arithmetic(term: Term) -> tuple[Any, tuple[tuple[str, str], ...]] | None:
    """What an integer or a condition of variables alone means, and its declarations: in every problem the same; else None."""
    match term:
        case Var():
            pass
        case Const(value) if isinstance(value, int):
            pass
        case Op(_, args) if sort_of(term) != "real" and all(_arithmetic(part) is not None for part in args):
            pass
        case _:
            return None
    alone = Encoder()
    return alone._encode(term), tuple(alone.symbols.items())
