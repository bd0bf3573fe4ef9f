"""Scalar terms as Python functions: an operation's value and its partial slopes at given numbers, compiled once.

    differentiated("mul", (True, False), "float")(a, b)   ->   (a·b, b)
    function(x·exp(y), ("x", "y"))(x, y)                  ->   the value alone

The slopes are those of `semantics/derivative.py`; there is no other table of them. The text of the Python function is made
from the term, a shared part computed once, for three kinds of numbers: "float" (Python's own; where Python raises, as
1.0 / 0.0 does, the caller takes the next kind), "array" (by the tables of `scalar_tables.py`), "nested" (Duals among them).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy as np

from tang_verified.semantics.derivative import scalar_slope
from tang_verified.semantics.scalar_tables import TABLE
from tang_verified.semantics.terms import REAL_ONE, REAL_ZERO, SIGNATURES, Const, IllFormed, Op, Sym, Term

Kind = Literal["float", "array", "nested"]


def _greater(a: float, b: float) -> float:
    return a if a > b or a != a else b  # nan is passed on


def _smaller(a: float, b: float) -> float:
    return a if a < b or a != a else b


def _div0(a: float, b: float) -> float:
    return a / b if b else 0.0


def _sub0(a: float, b: float) -> float:
    return -math.inf if a == b == -math.inf else a - b


def _finite(function: Callable[[float], float]) -> Callable[[float], float]:
    """Rounding to a whole float; Python's own makes an int, whose sign of zero and infinities are lost."""
    return lambda a: float(function(a))


# How Python spells an operation on floats: an operator, or a function.
SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "and", "or": "or",
}  # fmt: skip
FLOATS: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in (
        "exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "erf",
        "pow",
    )},
    "abs": abs, "max": _greater, "min": _smaller, "div0": _div0, "sub0": _sub0, "rsqrt": lambda a: 1.0 / math.sqrt(a),
    "floor": _finite(math.floor), "ceil": _finite(math.ceil), "round": _finite(round), "real": float,
}  # fmt: skip
ARRAYS: dict[str, Callable[..., Any]] = {**TABLE, "select": np.where}


def _nested(name: str) -> Callable[..., Any]:
    def operation(*args: Any) -> Any:
        from tang_verified.dual import operate

        return operate(name, *args)

    return operation


SPACES = {"float": FLOATS, "array": ARRAYS, "nested": {name: _nested(name) for name in ARRAYS}}


@cache
def body(name: str, count: int) -> tuple[Term, tuple[Sym, ...]]:
    """An operation, or an elementwise function of the array API, as a term over `count` placeholders."""
    symbols = tuple(Sym(f"x{number}", "real") for number in range(count))
    if name in SIGNATURES:
        return Op(name, symbols), symbols
    from tang_verified.tracing.array import Scalar
    from tang_verified.tracing.namespace import FUNCTIONS

    return FUNCTIONS[name](*(Scalar(symbol, "float64", None) for symbol in symbols)).term, symbols


def slope_in(term: Term, symbol: Sym) -> Term:
    """The slope of a scalar term as one placeholder moves at the rate 1."""
    return scalar_slope(term, lambda part: REAL_ONE if part == symbol else REAL_ZERO)


@cache
def differentiated(name: str, active: tuple[bool, ...], kind: Kind) -> Callable[..., Any]:
    """(value, partial in the first active argument, …) of an operation, as a function of all its arguments."""
    term, symbols = body(name, len(active))
    terms = [term]
    for symbol, on in zip(symbols, active, strict=True):
        if on:
            terms.append(slope_in(term, symbol))
    return function(terms, [symbol.name for symbol in symbols], kind)


def function(terms: Term | Sequence[Term], names: Sequence[str], kind: Kind = "array") -> Callable[..., Any]:
    """Scalar terms over placeholders of those names as one Python function of them; several give a tuple."""
    writer = _Writer(kind, dict(zip(names, (f"v{number}" for number in range(len(names))), strict=True)))
    many = not isinstance(terms, (Const, Op, Sym))
    results = [writer.named(term) for term in terms] if many else [writer.named(terms)]  # type: ignore[union-attr,arg-type]
    result = f"({', '.join(results)},)" if many else results[0]
    lines = [f"def function({', '.join(writer.names.values())}):", *writer.lines, f"    return {result}"]
    space: dict[str, Any] = {"inf": math.inf, "nan": math.nan}
    space |= {f"do_{name}": made for name, made in SPACES[kind].items()}
    exec("\n".join(lines), space)
    return space["function"]  # type: ignore[no-any-return]


class _Writer:
    """Statements that compute terms, one a shared part. Branches of a choice are written within it: only one is computed."""

    def __init__(self, kind: Kind, names: dict[str, str]) -> None:
        self.kind, self.names = kind, names
        self.known: dict[Term, str] = {}
        self.lines: list[str] = []

    def named(self, term: Term) -> str:
        """The variable that holds a term, assigned before it is first used."""
        if isinstance(term, (Const, Sym)):
            return self.text(term, self.named)
        if term not in self.known:
            text = self.text(term, self.named)
            self.known[term] = f"t{len(self.known)}"
            self.lines.append(f"    {self.known[term]} = {text}")
        return self.known[term]

    def inner(self, term: Term) -> str:
        return self.known[term] if term in self.known else self.text(term, self.inner)

    def text(self, term: Term, part: Callable[[Term], str]) -> str:
        """The expression of a term; `part` gives those of its arguments."""
        match term:
            case Sym(name):
                return self.names[name]
            case Const(value):
                return _constant(value)
            case Op("select", (c, a, b)) if self.kind == "float":
                return f"({self.inner(a)} if {self.inner(c)} else {self.inner(b)})"
            case Op("neg", (a,)) if self.kind == "float":
                return f"(-{part(a)})"
            case Op("not", (a,)) if self.kind == "float":
                return f"(not {part(a)})"
            case Op(name, (a, b)) if self.kind == "float" and name in SIGNS:
                return f"({part(a)} {SIGNS[name]} {part(b)})"
            case Op(name, args):
                return f"do_{name}({', '.join(map(part, args))})"
            case _:
                raise IllFormed(f"{type(term).__name__} in a scalar expression")


def _constant(value: int | bool | Fraction | str) -> str:
    text = value if isinstance(value, str) else repr(float(value) if isinstance(value, Fraction) else value)
    return f"({text})" if text.startswith("-") else text
