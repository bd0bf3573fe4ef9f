"""What a definition's value is made of: its row folds, what they depend on, and how a product splits into two operands.

For attention, out[i, e] = N / L, the row folds are M = max_j s(i, j), L = Σ_j exp(s - M), N = Σ_j exp(s - M) v[j, e]; the
fold s = Σ_d q k lies inside them and depends on their axis j, so it belongs to the tile of j, not to the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.terms import (
    ADD,
    REAL_ONE,
    REAL_ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    alpha,
    children,
    free_vars,
    reads,
    rebuild,
    substitute,
)  # fmt: skip

SPECIAL = frozenset({"exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "erf", "pow",
                     "asin", "acos", "atan", "div", "div0"})  # fmt: skip


def key(term: Term) -> Term:
    """Equal for terms that differ in the names of bound axes and the writing of indices only."""
    return alpha(canonical(term))


def all_folds(term: Term) -> list[Fold]:
    """Every fold in the term, inner ones first, each once up to bound names."""
    found: dict[Term, Fold] = {}
    seen: set[Term] = set()

    def walk(node: Term) -> None:
        if node in seen:
            return
        seen.add(node)
        for part in children(node):
            walk(part)
        if isinstance(node, Fold):
            found.setdefault(key(node), node)

    walk(term)
    return list(found.values())


def row_folds(value: Term, axes: Iterable[str], sizes: Iterable[str]) -> list[Fold]:
    """The folds that depend on output axes and sizes alone, inner ones first."""
    outside = frozenset(axes) | frozenset(sizes)
    return [fold for fold in all_folds(value) if free_vars(fold) <= outside]


def guard_folds(term: Term, conditions: tuple[Term, ...] = (), bound: frozenset[str] = frozenset()) -> Term:
    """c ? … Σ f … : z   ->   c ? … Σ (c ? f : id) … : z   for affine c, so that the fold may be computed ahead of the test.

    So are the folds inside f: a mean within a variance is computed ahead as well. A condition on an axis of a fold stays
    where it is: what depends on that axis is computed under it, and what does not must not come to depend on it.
    """
    match term:
        case Op("select", (c, a, b)):
            yes, no = ((c,), (Op("not", (c,)),)) if is_affine(c) and not free_vars(c) & bound else ((), ())
            return Op("select", (c, guard_folds(a, conditions + yes, bound), guard_folds(b, conditions + no, bound)))
        case Fold(monoid, axes, guard, body, component):
            inner = bound | {axis.name for axis in axes}
            parts = tuple(guard_folds(part, conditions, inner) for part in body)
            if conditions and len(parts) == 1:
                parts = (Op("select", (conj(*conditions), parts[0], monoid.identity[0])),)
            return Fold(monoid, axes, guard, parts, component)
        case Op(name, args):
            return Op(name, tuple(guard_folds(arg, conditions, bound) for arg in args))
        case _:
            return term


def long_first(term: Term) -> Term:
    """Σ_{h<8, i<n} Σ_d f   ->   Σ_{i<n, h<8} Σ_d f: what holds a fold is computed into tiles along its first axis, and the
    others are as long as they are."""
    parts = tuple(map(long_first, children(term)))
    term = rebuild(term, parts) if parts else term
    if not isinstance(term, Fold) or not term.monoid.commutative or not inner_folds(term):
        return term
    if any(free_vars(axis.extent) & {other.name for other in term.axes} for axis in term.axes):
        return term
    axes = sorted(term.axes, key=lambda axis: isinstance(axis.extent, Const))
    return Fold(term.monoid, tuple(axes), term.guard, term.body, term.component)


def inner_folds(fold: Fold) -> list[Fold]:
    """Folds inside a fold's bodies that depend on its own axes."""
    own = {axis.name for axis in fold.axes}
    out: dict[Term, Fold] = {}
    for body in fold.body:
        for inner in all_folds(body):
            if free_vars(inner) & own:
                out.setdefault(key(inner), inner)
    return list(out.values())


def depends(term: Term, on: Fold) -> bool:
    """Whether the value of another fold occurs in the term."""
    wanted = key(on)
    return any(key(fold) == wanted for fold in all_folds(term))


def holds(term: Term, part: Term) -> bool:
    """Whether the part stands somewhere in the term."""
    wanted = key(part)
    return key(term) == wanted or any(holds(inner, part) for inner in children(term))


def has_special(term: Term) -> bool:
    """Whether a term costs more than a few additions and products (what its folds cost is counted elsewhere)."""
    if isinstance(term, Fold):
        return False
    if isinstance(term, Op) and term.name in SPECIAL and not (term.name == "div" and isinstance(term.args[1], Const)):
        return True
    return any(has_special(part) for part in children(term))


def cheap(term: Term) -> bool:
    """A few arithmetic operations on constants and folds: not worth a buffer."""
    if isinstance(term, Read):
        return False
    return not has_special(term) and all(cheap(part) for part in children(term) if not isinstance(part, Fold))


def factors(term: Term) -> list[Term]:
    """The factors of a product: (a·b)·c gives a, b, c."""
    match term:
        case Op("mul", (a, b)):
            return factors(a) + factors(b)
        case _:
            return [term]


def product(terms: list[Term]) -> Term:
    out: Term | None = None
    for term in terms:
        out = term if out is None else Op("mul", (out, term))
    return REAL_ONE if out is None else out


@dataclass(frozen=True)
class Contraction:
    """body = left · right under a condition; `left` is free of the column axis, `right` of the row axis."""

    row: str
    column: str
    left: Term
    right: Term


def contraction(fold: Fold, candidates: list[str], columns: list[str] | None = None) -> Contraction | None:
    """Split a sum of products over a row axis and a column axis among `candidates` (output axes in order).

    The column axis is the last one that some factor has without the row axis: the lanes run along it.
    """
    if fold.monoid != ADD:
        return None
    condition: list[Term] = []
    body = fold.body[0]
    while isinstance(body, Op) and body.name == "select" and body.args[2] == REAL_ZERO:
        condition.append(body.args[0])
        body = body.args[1]
    parts = factors(body)
    own = {axis.name for axis in fold.axes}
    if not all(isinstance(t, (Op, Read, Fold)) or isinstance(t, Const) for t in parts):
        return None
    for column in reversed(candidates if columns is None else columns):
        right = [t for t in parts if column in free_vars(t)]
        if not right or not any(free_vars(t) & own for t in right):
            continue
        for row in reversed(candidates):
            left = [t for t in parts if row in free_vars(t)]
            if row == column or not left or any(column in free_vars(t) for t in left):
                continue
            if any(row in free_vars(t) for t in right) or not any(free_vars(t) & own for t in left):
                continue
            rest = [t for t in parts if t not in left and t not in right]
            x, y = product(left + rest), product(right)
            good = True
            for c in condition:
                if column not in free_vars(c):
                    x = Op("select", (c, x, REAL_ZERO))
                elif row not in free_vars(c):
                    y = Op("select", (c, y, REAL_ZERO))
                else:
                    good = False
            if column in free_vars(fold.guard) and row in free_vars(fold.guard):
                good = False
            if good:
                return Contraction(row, column, x, y)
    return None


def renamed(fold: Fold, names: tuple[str, ...]) -> Fold:
    """The fold with its axes called `names`."""
    values: dict[str, Term] = {axis.name: Var(name) for axis, name in zip(fold.axes, names, strict=True)}
    axes = []
    for axis, name in zip(fold.axes, names, strict=True):
        axes.append(Axis(name, substitute(axis.extent, values)))
    return Fold(fold.monoid, tuple(axes), substitute(fold.guard, values),
                tuple(substitute(b, values) for b in fold.body), fold.component)  # fmt: skip


def tensors(term: Term) -> tuple[str, ...]:
    return tuple(dict.fromkeys(r.tensor for r in reads(term)))
