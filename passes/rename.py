"""Σ_{k0<m} f(k0, max_{k0<m} g(k0))  ->  Σ_{j<m} f(j, max_{j1<m} g(j1)).

Every bound axis gets a short name that no other fold of the definition uses; folds that are the same term keep the same
names, so that they stay the same term (a scheduler computes them once). Integer terms are put in canonical form on the
way. Nothing else changes: both sides are equal as soon as bound names are forgotten.
"""

from __future__ import annotations

from itertools import count

from tang_verified.passes.rule import Derivation
from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import Axis, Fold, Term, Var, alpha, children, rebuild, substitute


def rename(derivation: Derivation, tensor: str) -> None:
    """Name the axes of one definition."""
    d = derivation.program.definition(tensor)
    taken = {size.name for size in derivation.program.sizes} | set(d.axes)
    after = tidy(d.value, taken)
    if after != d.value:
        derivation.rewrite("rename", tensor, (), after, "rename")


def tidy(term: Term, taken: set[str] | frozenset[str]) -> Term:
    """The term in canonical form, its bound axes named j, j1, j2, … in order of appearance, none of them in `taken`."""
    names = (name for name in ("j" if n == 0 else f"j{n}" for n in count()) if name not in taken)
    given: dict[Term, tuple[str, ...]] = {}
    memo: dict[Term, Term] = {}

    def walk(node: Term) -> Term:
        if node not in memo:
            memo[node] = bind(node) if isinstance(node, Fold) else rebuild_over(node)
        return memo[node]

    def rebuild_over(node: Term) -> Term:
        parts = children(node)
        fresh = tuple(walk(part) for part in parts)
        return node if all(a is b for a, b in zip(fresh, parts, strict=True)) else rebuild(node, fresh)

    def bind(fold: Fold) -> Fold:
        key = alpha(fold)
        if key not in given:
            given[key] = tuple(next(names) for _ in fold.axes)
        fold = named(fold, given[key])
        axes = tuple(Axis(axis.name, walk(axis.extent)) for axis in fold.axes)
        return Fold(fold.monoid, axes, walk(fold.guard), tuple(walk(part) for part in fold.body), fold.component)

    return canonical(walk(canonical(term)))


def named(fold: Fold, names: tuple[str, ...]) -> Fold:
    """The same fold with its axes called `names`, which occur nowhere in it."""
    values: dict[str, Term] = {}
    axes: list[Axis] = []
    for axis, name in zip(fold.axes, names, strict=True):
        axes.append(Axis(name, substitute(axis.extent, values)))
        values[axis.name] = Var(name)
    body = tuple(substitute(part, values) for part in fold.body)
    return Fold(fold.monoid, tuple(axes), substitute(fold.guard, values), body, fold.component)
