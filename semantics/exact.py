"""The hypotheses of a statement, evaluated exactly at a model: no solver, no floats.

    (declare-fun i.n () Int) (assert (<= 1 i.n)) (assert (not (< 0 i.n)))     at {"i.n": 3}:     1 <= 3 holds

The hypotheses are all assertions but the last, the negated goal. A model gives each declared name a value of its sort (an
int, a bool, a `Fraction` or sum of square roots), or a finite table with a value for everything else. The instances of
axioms are hypotheses like others. A division by 0 is 0, as a model of SMT-LIB's total functions may have it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import floor
from typing import Any, TypeAlias

from tang_verified.semantics.surds import Surd

Value: TypeAlias = int | bool | Fraction | Surd
Form: TypeAlias = Any  # a token, or a tuple of forms
TOKEN = re.compile(r"[()]|[^\s()]+")
NUMERAL = re.compile(r"[0-9]+(\.[0-9]+)?")
SORTS: dict[str, tuple[type, ...]] = {"Int": (int,), "Real": (Fraction, Surd), "Bool": (bool,)}
BITS = 1 << 16  # of a numerator or denominator: a product of products may not fill the memory
ROOTS = 64  # that are added up in one number


@dataclass(frozen=True)
class Table:
    """A function: its value at the points listed, and elsewhere."""

    at: Mapping[tuple[Value, ...], Value]
    otherwise: Value


Model: TypeAlias = Mapping[str, Value | Table]


class NoModel(ValueError):
    """What is called a model is none."""


@dataclass(frozen=True)
class Hypotheses:
    """A statement without its negated goal: the assertions, and the declarations of the names in them."""

    declarations: tuple[str, ...]
    assertions: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join((*self.declarations, *self.assertions, ""))


def hypotheses(statement: str) -> Hypotheses:
    lines = statement.splitlines()
    assertions = tuple(line for line in lines if line.startswith("(assert "))[:-1]
    names = frozenset(token for line in assertions for token in TOKEN.findall(line))
    declarations = (line for line in lines if line.startswith("(declare-fun ") and line.split(" ", 2)[1] in names)
    return Hypotheses(tuple(declarations), assertions)


class Exact:
    """Evaluates lines at models, and remembers: many statements share their lines."""

    def __init__(self) -> None:
        self.parsed: dict[str, Form] = {}
        self.fine: dict[str, set[str]] = {}  # model's digest -> lines that it fits or satisfies
        self.wrong: dict[str, set[str]] = {}  # model's digest -> lines that it does not

    def check(self, given: Hypotheses, model: Model, digest: str) -> None:
        """Raise `NoModel` unless the model gives every name a value of its sort and makes every assertion true."""
        fine = self.fine.setdefault(digest, set())
        for line in (*given.declarations, *given.assertions):
            if line not in fine:
                self._check(line, model)
                fine.add(line)

    def holds(self, given: Hypotheses, model: Model, digest: str) -> bool:
        """Whether `check` passes; what the model does not fit or satisfy is remembered as well."""
        wrong, fine = self.wrong.setdefault(digest, set()), self.fine.setdefault(digest, set())
        lines = (*given.declarations, *given.assertions)
        for line in lines if wrong.isdisjoint(lines) else ():
            try:
                if line not in fine:
                    self._check(line, model)
                fine.add(line)
            except NoModel:
                wrong.add(line)
        return wrong.isdisjoint(lines)

    def _check(self, line: str, model: Model) -> None:
        form = self._parse(line)
        if form[0] != "assert":
            return _fits(form, model)
        try:
            holds = evaluate(form[1], model, {})
        except RecursionError:
            raise NoModel(f"too deep to be evaluated: {line[:200]}") from None
        if holds is not True:
            raise NoModel(f"it falsifies {line[:200]}")

    def _parse(self, line: str) -> Form:
        if line not in self.parsed:
            self.parsed[line] = parse(line)
        return self.parsed[line]


def parse(line: str) -> Form:
    """One form, as nested tuples."""
    stack: list[list[Form]] = [[]]
    for token in TOKEN.findall(line):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = tuple(stack.pop())
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0][0]


def _fits(declaration: Form, model: Model) -> None:
    """The model gives the declared name a value, or a table, of the declared sorts."""
    _, name, domain, result = declaration
    found, kinds = model.get(str(name)), [SORTS[str(sort)] for sort in (*domain, result)]
    if isinstance(found, Table):
        rows = [(*point, value) for point, value in found.at.items()]
        fit = all(len(row) == len(kinds) and all(type(v) in kind for v, kind in zip(row, kinds, strict=True)) for row in rows)
        good = bool(domain) and fit and type(found.otherwise) in kinds[-1]
    else:
        good = not domain and type(found) in kinds[-1]
    if not good:
        raise NoModel(f"it gives {name} no value of sort {result}")


def evaluate(form: Form, model: Model, local: Mapping[str, Value]) -> Value:
    if isinstance(form, str):
        if form in local:
            return local[form]
        if NUMERAL.fullmatch(form):  # before the model: no model says what 1.0 is, or what + does
            return Fraction(form) if "." in form else int(form)
        if form in ("true", "false"):
            return form == "true"
        found = model.get(form)
        if found is None or isinstance(found, Table):
            raise NoModel(f"it gives {form} no value")
        return found
    head, *rest = form
    match head:
        case "let":
            inner = {str(name): evaluate(value, model, local) for name, value in rest[0]}
            return evaluate(rest[1], model, {**local, **inner})
        case "ite":
            return evaluate(rest[1] if evaluate(rest[0], model, local) else rest[2], model, local)
        case "and":
            return all(evaluate(part, model, local) for part in rest)
        case "or":
            return any(evaluate(part, model, local) for part in rest)
        case "=>":
            return not evaluate(rest[0], model, local) or evaluate(rest[1], model, local)
    if not isinstance(head, str) or not rest:
        raise NoModel(f"no exact meaning for {str(form)[:60]}")
    return _operation(head, [evaluate(part, model, local) for part in rest], model)


def _operation(head: str, values: Sequence[Any], model: Model) -> Value:
    a, b = values[0], values[-1]
    match head:
        case "not":
            return not a
        case "=" if len(values) == 2:
            return bool(a == b)
        case "distinct" if len(values) == 2:
            return bool(a != b)
        case "<" | "<=" | ">" | ">=" if len(values) == 2:
            return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[head])
        case "+":
            return _small(sum(values[1:], a))
        case "-":
            return -a if len(values) == 1 else _small(a - sum(values[2:], values[1]))
        case "*":
            product: Value = reduce(lambda x, y: _small(x * y), values)
            return product
        case "/" if len(values) == 2 and isinstance(b, Fraction):
            return _small(a * (1 / b)) if b else Fraction(0)
        case "div" if len(values) == 2:  # as SMT-LIB: 0 <= a - b (a div b) < |b|
            return (a // b if b > 0 else -(a // -b)) if b else 0
        case "mod" if len(values) == 2:
            return a % abs(b) if b else 0
        case "to_real":
            return Fraction(a)
        case "to_int" if isinstance(a, Fraction):
            return floor(a)
    table = model.get(head)
    if isinstance(table, Table):
        return table.at.get(tuple(values), table.otherwise)
    raise NoModel(f"no exact meaning for {head[:60]} of {len(values)}")


def _small(value: Any) -> Value:
    numbers = [c for _, c in value.parts] if isinstance(value, Surd) else [value]
    if len(numbers) > ROOTS or any(c.numerator.bit_length() > BITS or c.denominator.bit_length() > BITS for c in numbers):
        raise NoModel(f"a number of more than {BITS} bits, or {ROOTS} roots")
    small: Value = value
    return small
