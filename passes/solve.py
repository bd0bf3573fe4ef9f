"""Σ_{o,r} [2·o + r = k] f(o, r)   ->   Σ_r [(k − r) % 2 = 0 and 0 <= (k − r) // 2 < O] f((k − r) // 2, r).

What a transposed read leaves behind is a sum with equations for its axes. Each equation is solved for one axis: the longest
one, as the sum then runs over the shorter rest. Several at once are first joined, as those of a reshape:

    X // 8 = a and X % 8 = b   ->   X = 8·a + b            8·o + r = k with r < 8   ->   o = k // 8 and r = k % 8

Reshapes with a permutation between leave quotients and remainders as digits of one number. It is taken apart from the top:

    X // 6 + 5·(X % 6) = k with X // 6 < 5   ->   X % 6 = k // 5 and X // 6 = k % 5   ->   X = 6·(k % 5) + k // 5
"""

from __future__ import annotations

from tang_verified.semantics.build import canonical, conjuncts, from_linear, linear
from tang_verified.semantics.program import Def
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.terms import (
    ADD,
    ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Term,
    Var,
    free_vars,
    substitute,
)  # fmt: skip


def solved(term: Term, d: Def) -> Term:
    """The sum with its equations solved; other terms as they are. `d` is where it stands: what its axes say is dropped."""
    if not isinstance(term, Fold) or term.monoid != ADD or term.guard != TRUE:
        return term
    conditions, body = _peeled(term.body[0])
    known: dict[str, Term] = {axis.name: ZERO for axis in term.axes if axis.extent == ONE}
    axes = [axis for axis in term.axes if axis.name not in known]
    conditions = [canonical(substitute(c, known)) for c in conditions]
    equations: list[Term] = [c for c in conditions if isinstance(c, Op) and c.name == "eq" and is_affine(c)]
    others: list[Term] = [c for c in conditions if c not in equations]
    before: list[Term] = []
    while equations != before:  # what is joined may come apart in turn: one pair for each reshape
        before = equations
        equations, bounds = _apart(_joined(equations), axes)
        others += bounds
    while equations:
        names = {axis.name for axis in axes}
        found = next(((e, x) for e in equations if (x := _for_axis(e, axes, names)) is not None), None)
        if found is None:
            break
        equation, (axis, value, extra) = found
        equations.remove(equation)
        axes.remove(axis)
        put = {axis.name: value}
        known = {name: canonical(substitute(v, put)) for name, v in known.items()} | put
        equations = [canonical(substitute(e, put)) for e in equations]
        others = [canonical(substitute(c, put)) for c in others]
        equations += [e for e in extra if free_vars(e) & {x.name for x in axes}]  # of lower digits
        others += [e for e in extra if e not in equations]
        others += [Op("le", (ZERO, value)), Op("lt", (value, axis.extent))]
        axes = [Axis(x.name, canonical(substitute(x.extent, put))) for x in axes]
    body = substitute(body, known)
    inside = _ranges(d)
    for condition in dict.fromkeys((*others, *equations)):
        condition = canonical(condition)
        if condition != TRUE and condition not in inside:
            body = Op("select", (condition, body, REAL_ZERO))
    return Fold(ADD, tuple(axes), TRUE, (body,)) if axes else body


def _ranges(d: Def) -> set[Term]:
    out: set[Term] = set()
    for axis, extent in zip(d.axes, d.tensor.shape, strict=True):
        out |= {canonical(Op("le", (ZERO, Var(axis)))), canonical(Op("lt", (Var(axis), extent)))}
    return out


def _peeled(body: Term) -> tuple[list[Term], Term]:
    """(c ? (d ? x : 0) : 0) as [c, d], x."""
    conditions: list[Term] = []
    while isinstance(body, Op) and body.name == "select" and body.args[2] == REAL_ZERO:
        conditions += conjuncts(body.args[0])
        body = body.args[1]
    return conditions, body


def _apart(equations: list[Term], axes: list[Axis]) -> tuple[list[Term], list[Term]]:
    """Equations of quotients and remainders become one for each digit; and what the values of remainders must be within."""
    names = {axis.name for axis in axes}
    todo, out, bounds = list(equations), [], []  # type: list[Term], list[Term], list[Term]
    while todo:
        equation = todo.pop(0)
        parts, constant = linear(Op("sub", _sides(equation)))
        own = {a: c for a, c in parts.items() if free_vars(a) & names}
        top = max(own, key=lambda atom: own[atom], default=None)
        if top is None or all(isinstance(a, Var) for a in own) or _sides(equation)[0] == top:
            out.append(equation)
            continue
        unit, below = own[top], {a: c for a, c in own.items() if a != top}
        most = _most(below, axes)
        if min(own.values()) <= 0 or most is None or most >= unit:
            out.append(equation)
            continue
        rest = canonical(from_linear({a: -c for a, c in parts.items() if a not in own}, -constant))
        value, remainder = (canonical(Op(name, (rest, Const(unit)))) for name in ("floordiv", "mod"))
        out.append(Op("eq", (top, value)))
        todo.append(Op("eq", (from_linear(below, 0), remainder)))  # with nothing below: what divides
        if isinstance(top, Op) and top.name == "mod":
            bounds += [Op("le", (ZERO, value)), Op("lt", (value, top.args[1]))]
    return out, bounds


def _joined(equations: list[Term]) -> list[Term]:
    """Equations for X // c and X % c become one for X."""
    pairs = [_sides(e) for e in equations]
    while True:
        for low in pairs:
            match low[0]:
                case Op("mod", (x, Const(int(c)))):
                    for high in pairs:
                        if high[0] in _quotients(x, c):
                            whole = canonical(Op("add", (Op("mul", (Const(c), high[1])), low[1])))
                            pairs = [p for p in pairs if p not in (low, high)] + [(x, whole)]
                            break
                    else:
                        continue
                    break
        else:
            return [Op("eq", pair) for pair in pairs]


def _quotients(x: Term, c: int) -> list[Term]:
    out = [canonical(Op("floordiv", (x, Const(c))))]
    match x:
        case Op("floordiv", (y, Const(int(b)))):
            out.append(canonical(Op("floordiv", (y, Const(b * c)))))
    return out


def _sides(equation: Term) -> tuple[Term, Term]:
    """The side with axes of the sum first: `contribution` writes it so."""
    return equation.args  # type: ignore[union-attr, return-value]


def _for_axis(equation: Term, axes: list[Axis], names: set[str]) -> tuple[Axis, Term, list[Term]] | None:
    """An axis, its value, and what must hold besides for the equation to have that solution."""
    left, right = _sides(equation)
    if isinstance(left, Op) and left.name == "floordiv" and isinstance(left.args[1], Const):
        return None  # one of its many elements: left as a condition
    parts, constant = linear(Op("sub", (left, right)))
    own: dict[Term, int] = {a: c for a, c in parts.items() if isinstance(a, Var) and a.name in names}
    if not own or any(free_vars(atom) & names for atom in parts if atom not in own):
        return None
    if digits := _digit(own, axes):
        axis, unit, below = digits
        rest = canonical(from_linear({a: -c for a, c in parts.items() if a not in own}, -constant))
        value = canonical(Op("floordiv", (rest, Const(unit))))
        remainder = canonical(Op("mod", (rest, Const(unit))))
        return axis, value, [Op("eq", (from_linear(dict(below), 0), remainder))]
    axis = max((x for x in axes if Var(x.name) in own), key=_length)
    c = own[Var(axis.name)]
    sign = -1 if c > 0 else 1
    rest = canonical(from_linear({a: sign * k for a, k in parts.items() if a != Var(axis.name)}, sign * constant))
    if abs(c) == 1:
        return axis, rest, []
    divides = Op("eq", (Op("mod", (rest, Const(abs(c)))), ZERO))
    return axis, canonical(Op("floordiv", (rest, Const(abs(c))))), [canonical(divides)]


def _digit(own: dict[Term, int], axes: list[Axis]) -> tuple[Axis, int, dict[Term, int]] | None:
    """The axis with the largest coefficient, if the others together stay below it: they are its lower digits."""
    if len(own) < 2 or any(c <= 0 for c in own.values()):
        return None
    top = max(own, key=lambda atom: own[atom])
    below = {atom: c for atom, c in own.items() if atom != top}
    most = _most(below, axes)
    if most is None or most >= own[top]:
        return None
    return next(axis for axis in axes if Var(axis.name) == top), own[top], below


def _most(parts: dict[Term, int], axes: list[Axis]) -> int | None:
    """The largest value of Σ c·atom, c > 0, over axes of known extents; None where it is not known."""
    extents = {axis.name: axis.extent for axis in axes}
    total = 0
    for atom, c in parts.items():
        match atom:
            case Var(name) if isinstance(extents.get(name), Const):
                most: int | None = int(extents[name].value) - 1  # type: ignore[union-attr]
            case Op("mod", (_, Const(int(d)))):
                most = d - 1
            case Op("floordiv", (x, Const(int(d)))):
                inner, constant = linear(x)
                whole = _most(inner, axes) if min(inner.values(), default=1) > 0 else None
                most = None if whole is None else (whole + constant) // d
            case _:
                most = None
        if most is None:
            return None
        total += c * most
    return total


def _length(axis: Axis) -> int:
    return int(axis.extent.value) if isinstance(axis.extent, Const) else 1 << 40
