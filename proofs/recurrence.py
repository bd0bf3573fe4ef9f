"""Errors that a loop carries: a linear recurrence, solved as a fold over its iterations.

    acc := acc·r_t + Σ_tile …          e' = max(α_t·e + β_t, γ_t),  as long as  max(a_t·e + b_t, g_t) ≤ 1

What one iteration makes of a carried buffer's error e is a term with e in it. `linear` reads α, β, γ off that term: sums,
products with what does not depend on e, and maxima keep the form, or something above it (a maximum is at most a sum).
The conditions of the rules ("no overflow at this size") that e occurs in are kept as a, b, g, scaled so that 1 is the limit.
`solved` is the error at the head of iteration t, a fold over s < t that starts from the error before the loop:

    e(t) = Fold(RECURRENCE, s < t, (α_s, β_s, γ_s, a_s, b_s, g_s))        in the order of s

so that a running sum gets Σ_t β_t, a running maximum max_t γ_t, and an accumulator that is rescaled by r_t (online softmax,
one-pass variance) Σ_t β_t·Π_{s>t} α_s: each tile's error, rescaled as often as the tile itself is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tang_verified.semantics.rounding import choose, larger, number, plus, times
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    ONE,
    POS_INF,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Monoid,
    Op,
    Read,
    Sym,
    Term,
    Var,
    free_vars,
    substitute,
    tensors,
)


def _symbol(name: str) -> Sym:
    return Sym(name, "real")


def _line(slope: int, shift: int, floor: int) -> Term:
    moved = Op("add", (Op("mul", (_symbol(f"b{slope}"), _symbol("a0"))), _symbol(f"b{shift}")))
    return Op("max", (moved, _symbol(f"b{floor}")))


# A recurrence: the state is its first field, an element all six.
RECURRENCE = Monoid(
    "recurrence",
    (REAL_ZERO,) * 6,
    (Op("select", (Op("le", (_line(3, 4, 5), REAL_ONE)), _line(0, 1, 2), POS_INF)), *(_symbol(f"b{k}") for k in range(1, 6))),
    commutative=False,
)


class Line(NamedTuple):
    """max(slope·e + shift, floor)."""

    slope: Term
    shift: Term
    floor: Term

    def plus(self, other: Line) -> Line:
        """Where both have floors, something above the sum."""
        slope, shift = plus(self.slope, other.slope), plus(self.shift, other.shift)
        if other.slope == REAL_ZERO and other.floor == REAL_ZERO:
            floor = REAL_ZERO if self.floor == REAL_ZERO else plus(self.floor, other.shift)
            return Line(slope, shift, floor)
        if self.slope == REAL_ZERO and self.floor == REAL_ZERO:
            return other.plus(self)
        return Line(slope, plus(shift, plus(self.floor, other.floor)), REAL_ZERO)

    def times(self, factor: Term) -> Line:
        return Line(*(times(part, factor) for part in self))

    def most(self, other: Line) -> Line:
        """Something above the larger one."""
        if other.slope == REAL_ZERO:
            return Line(self.slope, self.shift, larger(self.floor, larger(other.shift, other.floor)))
        if self.slope == REAL_ZERO:
            return other.most(self)
        return Line(*(larger(a, b) for a, b in zip(self, other, strict=True)))

    def chosen(self, condition: Term, other: Line) -> Line:
        return Line(*(choose(condition, a, b) for a, b in zip(self, other, strict=True)))


def constant(term: Term) -> Line:
    return Line(REAL_ZERO, term, REAL_ZERO)


class NotLinear(ValueError):
    """The error is carried in a way that `linear` does not know."""


def linear(term: Term, carried: Read, limits: list[Line]) -> Line:
    """The term in terms of the carried error; conditions that it occurs in go to `limits`: each must stay within 1."""
    memo: dict[Term, Line] = {}

    def walk(node: Term) -> Line:
        if node not in memo:
            memo[node] = anew(node)
        return memo[node]

    def anew(node: Term) -> Line:
        if node == carried:
            return Line(REAL_ONE, REAL_ZERO, REAL_ZERO)
        if carried.tensor not in tensors(node):
            return constant(node)
        match node:
            case Op("add", (a, b)):
                return walk(a).plus(walk(b))
            case Op("max", (a, b)):
                return walk(a).most(walk(b))
            case Op("mul", (a, b)) if carried.tensor not in tensors(b):
                return walk(a).times(b)
            case Op("mul", (a, b)) if carried.tensor not in tensors(a):
                return walk(b).times(a)
            case Op("div", (a, b)) if carried.tensor not in tensors(b):
                return Line(*(part if part == REAL_ZERO else Op("div", (part, b)) for part in walk(a)))
            case Op("select", (condition, a, b)) if carried.tensor not in tensors(condition):
                return walk(a).chosen(condition, walk(b))
            case Op("select", (Op("le", (most, Const(Fraction() as limit))), a, _)):
                # Where the condition fails the recurrence gives infinity, which is above the other branch.
                limits.append(walk(most).times(number(1 / limit)))
                return walk(a)
            case Fold(monoid, _, _, (body,)) if monoid in (ADD, MAX) and not _within(node, carried):
                return _folded(node, walk(body))
            case _:
                raise NotLinear

    return walk(term)


def _within(fold: Fold, carried: Read) -> bool:
    """Whether the carried error stands where the fold's axes hide a name of it, or in the domain."""
    bound = {axis.name for axis in fold.axes}
    outside = (*(axis.extent for axis in fold.axes), fold.guard)
    return bool(bound & free_vars(carried)) or any(carried.tensor in tensors(part) for part in outside)


def _folded(fold: Fold, line: Line) -> Line:
    def over(part: Term) -> Term:
        if part == REAL_ZERO:
            return part
        whole: Term = Fold(fold.monoid, fold.axes, fold.guard, (part,))
        return larger(whole, REAL_ZERO) if fold.monoid == ADD else Op("max", (whole, REAL_ZERO))

    if fold.monoid == MAX:
        return Line(*map(over, line))
    return Line(over(line.slope), plus(over(line.shift), over(line.floor)), REAL_ZERO)


def solved(term: Term, carried: Read, loop: str, first: Term, step: str) -> Term:
    """The error at the head of iteration `loop`: `term` is what an iteration makes of `carried`, which is `first` at first."""
    limits: list[Line] = []
    line = linear(term, carried, limits)
    most = constant(REAL_ZERO)
    for limit in limits:
        most = limit if most == constant(REAL_ZERO) else most.most(limit)
    fields, extent = (*line, *most), Var(loop)
    if POS_INF in line:
        raise NotLinear
    if first == REAL_ZERO:
        body = tuple(substitute(part, {loop: Var(step)}) for part in fields)
        return Fold(RECURRENCE, (Axis(step, extent),), TRUE, body)
    before = (REAL_ZERO, first, REAL_ZERO, REAL_ZERO, REAL_ZERO, REAL_ZERO)  # one iteration more, which sets the error
    previous = Op("add", (Var(step), Const(-1)))
    shifted = (substitute(part, {loop: previous}) for part in fields)
    start = Op("eq", (Var(step), ZERO))
    body = tuple(choose(start, a, b) for a, b in zip(before, shifted, strict=True))
    return Fold(RECURRENCE, (Axis(step, Op("add", (extent, ONE))),), TRUE, body)
