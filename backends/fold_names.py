"""Name the axes of folds so that equal folds are equal terms, wherever they stand, and carry how they run.

    Σ_{j<m} exp(x[j] - max_{k<m} x[k])   ->   Σ_{.1seq<m} exp(x[.1seq] - max_{.0seq<m} x[.0seq])

The number of an axis is counted from the inside out, so that it depends on the fold alone: the inner maximum here is
the same term as a maximum that stands outside the sum. An outer axis has the larger number, hence no capture.
"""

from __future__ import annotations

from tang_verified.semantics.kernel import Kind
from tang_verified.semantics.terms import Axis, Fold, Term, Var, children, rebuild, substitute


def name_folds(term: Term, kinds: dict[str, Kind]) -> Term:
    """The same term with fold axes named `.number` + kind."""
    return _named(term, kinds, {})[0]


def kind_of(axis: Axis) -> str:
    """How an axis named by `name_folds` runs."""
    return axis.name.lstrip(".0123456789")


def _named(term: Term, kinds: dict[str, Kind], memo: dict[Term, tuple[Term, int]]) -> tuple[Term, int]:
    if term in memo:
        return memo[term]
    done = [_named(part, kinds, memo) for part in children(term)]
    height = max((level for _, level in done), default=0)
    parts = tuple(part for part, _ in done)
    fresh = term if all(a is b for a, b in zip(parts, children(term), strict=True)) else rebuild(term, parts)
    if isinstance(fresh, Fold):
        count = len(fresh.axes)
        names: dict[str, Term] = {}
        axes = []
        for place, axis in enumerate(fresh.axes):
            name = f".{height + count - 1 - place}{kinds.get(axis.name, 'seq')}"
            axes.append(Axis(name, substitute(axis.extent, names)))
            names[axis.name] = Var(name)
        guard, body = substitute(fresh.guard, names), tuple(substitute(part, names) for part in fresh.body)
        fresh = Fold(fresh.monoid, tuple(axes), guard, body, fresh.component)
        height += count
    memo[term] = (fresh, height)
    return memo[term]
