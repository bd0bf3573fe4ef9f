"""Which definitions one kernel computes: those whose passes would do the same work again.

    L[i]     = m + log l                                  m = max_j s,  l = Σ_j exp(s - m):  row folds that o has anyway
    o[i, e]  = (Σ_j exp(s - m) v[j, e]) / l
    dk[j, c] = Σ_i p (g - D[i]) q[i, c]                   folds over one axis whose elements hold the same p(i, j)
    dv[j, e] = Σ_i p do[i, e]

By structure and cost alone. A definition joins others when

1. neither side needs the other's result, directly or through what another kernel computes;
2. its axes are those of the others, or the first few of them (extents are equal, in order); as columns of a tile of rows,
   short last axes may differ;
3. work is saved. One of these stands in both:
     a row fold
     in folds over equal extents: a fold for each element, or a special function (exp, division, …) of the element
     an element of a tensor that each of the two reads once in all: its index has every axis around it. Where there is no
     such axis left out, as the column of a product, memory is what costs;
4. they are to be scheduled alike (in the simplest of their styles), in a form that computes folds ahead of what is stored.

Products of one matrix with several others (x·a, x·b) stay apart: what they share is copied once a tile, and the products
are the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tang_verified.passes.schedule.analysis import SPECIAL, contraction, inner_folds, key, renamed, row_folds
from tang_verified.passes.schedule.target import Target
from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import Def, Program
from tang_verified.semantics.terms import (
    ADD,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    fresh_name,
    reads,
    rebuild,
    rename_apart,
    substitute,
)  # fmt: skip

if TYPE_CHECKING:
    from tang_verified.passes.schedule.plan import Choice

Refusal = tuple[frozenset[str], str]  # the names of a group, and the style that it was refused in
Together = tuple[Def, ...]  # what one kernel computes, in the program's order


def together(
    program: Program, target: Target, choices: Mapping[str, Choice], refused: Collection[Refusal] = ()
) -> list[Together]:  # fmt: skip
    """The program's definitions in groups, one a kernel, each after what it reads. No two definitions of a group that was
    refused are tried again together in that style."""
    groups: list[Together] = []
    for d in program.defs:
        for place, group in enumerate(groups):
            wider = (*group, d)
            joined = [*groups[:place], wider, *groups[place + 1 :]]
            if saves(program, wider) and in_order(program, joined) and fits(program, wider, target, choices, refused):
                groups = joined
                break
        else:
            groups.append((d,))
    groups = in_order(program, groups) or groups
    crossed = _across(program, groups, target, choices, refused)
    return groups if crossed is None else in_order(program, crossed) or groups


def _across(
    program: Program, groups: list[Together], target: Target, choices: Mapping[str, Choice], refused: Collection[Refusal]
) -> list[Together] | None:  # fmt: skip
    """The groups, a definition that runs across the pass of others joined to these (`across.py`)."""
    able = [group for group in groups if any(_sums_elements(program, d) for d in group)]
    for alone in able:
        for others in able:
            if len(alone) > 1 or alone is others:
                continue
            wider = tuple(d for d in program.defs if d in (*alone, *others))
            joined = [*(group for group in groups if group not in (alone, others)), wider]
            if in_order(program, joined) is None or sides(program, wider) != (others, alone):
                continue
            if fits(program, wider, target, choices, refused):
                return _across(program, joined, target, choices, refused) or joined
    return None


def _sums_elements(program: Program, d: Def) -> bool:
    """Whether it has a sum of products whose elements hold a fold themselves."""
    folds = row_folds(d.value, d.axes, [size.name for size in program.sizes])
    return any(f.monoid == ADD and len(f.axes) == 1 and inner_folds(f) and contraction(f, list(d.axes)) for f in folds)


def sides(program: Program, group: Together) -> tuple[Together, Together]:
    """The definitions of a group that share rows, and the one that runs across these. Raises `LookupError` for others."""
    kinds: list[Together] = []
    for d in group:
        place = next((k for k, kind in enumerate(kinds) if saves(program, (*kind, d))), len(kinds))
        kinds[place : place + 1] = [(*kinds[place], d) if place < len(kinds) else (d,)]
    kinds.sort(key=len, reverse=True)
    if len(kinds) > 2 or any(len(kind) > 1 for kind in kinds[1:]):
        raise LookupError("definitions that share no rows")
    return kinds[0], (kinds[1] if len(kinds) > 1 else ())


def fits(
    program: Program, group: Together, target: Target, choices: Mapping[str, Choice], refused: Collection[Refusal]
) -> bool:  # fmt: skip
    """Whether one schedule serves them all."""
    from tang_verified.passes.schedule.plan import Planner, common_choice

    choice = common_choice(group, choices)
    if choice is None or choice.apart:
        return False
    names = {d.tensor.name for d in group}
    tried = any(style == choice.style and len(names & before) > 1 for before, style in refused)
    return not tried and Planner(program, group, target, choice).shares()


def parted(program: Program, group: Together) -> list[frozenset[str]]:
    """What stays apart when a group is refused: each from each; or where one runs across the others, it from these."""
    own, beyond = sides(program, group)
    sets = [(*beyond, d) for d in own] if beyond else [own]
    return [frozenset(d.tensor.name for d in each) for each in sets]


def in_order(program: Program, groups: list[Together]) -> list[Together] | None:
    """The groups, each after those that it reads; None if two need each other, or one needs itself."""
    out: list[Together] = []
    done = {tensor.name for tensor in program.inputs}
    left = list(groups)
    while left:
        ready = next((g for g in left if all(r.tensor in done for d in g for r in reads(d.value))), None)
        if ready is None:
            return None
        out.append(ready)
        left.remove(ready)
        done |= {d.tensor.name for d in ready}
    return out


def saves(program: Program, group: Together) -> bool:
    """Whether the last definition fits the others' axes and does some of their work."""
    aligned = on_common_axes(group)
    if aligned is None:
        return False
    *others, own = (set(_work(d, [size.name for size in program.sizes])) for d in aligned)
    return not own.isdisjoint(set().union(*others))


def in_one_pass(program: Program, names: Iterable[str]) -> bool:
    """Whether a group of these definitions would compute nothing again: each fold is one of a row, or of an element of a
    row's fold (which differs from row to row, if not from column to column)."""
    group = tuple(d for d in program.defs if d.tensor.name in names)
    rest = [(d,) for d in program.defs if d not in group]
    pairs = all(saves(program, group[: k + 1]) for k in range(1, len(group)))
    return pairs and in_order(program, [group, *rest]) is not None and all(_once_a_row(program, d) for d in group)


def _once_a_row(program: Program, d: Def) -> bool:
    for fold in row_folds(d.value, d.axes, [size.name for size in program.sizes]):
        split = contraction(fold, list(d.axes))
        rows = free_vars(fold) & set(d.axes) - ({split.column} if split else set())
        if any(not rows <= free_vars(inner) for inner in inner_folds(fold)):
            return False
    return True


def on_common_axes(group: Together) -> Together | None:
    """The definitions over the axes of the one that has most: the others have these, or the first few of them; the last one
    may be of another extent, and is then an axis of its own."""
    if len(group) == 1:
        return group
    most = max(group, key=lambda d: len(d.axes))
    taken = set(most.axes)
    out = []
    for d in group:
        pairs = list(zip(d.tensor.shape, most.tensor.shape, strict=False))
        differ = [place for place, (a, b) in enumerate(pairs) if canonical(a) != canonical(b)]
        axes = most.axes[: len(d.axes)]
        if differ and differ != [len(most.axes) - 1]:
            return None
        if differ:
            axes = (*axes[:-1], fresh_name(d.axes[-1], taken))
            taken.add(axes[-1])
        if d is not most:
            at: dict[str, Term] = {old: Var(new) for old, new in zip(d.axes, axes, strict=True)}
            d = Def(d.tensor, axes, substitute(apart(d.value, frozenset(taken)), at))
        out.append(d)
    return tuple(out)


def apart(term: Term, avoid: frozenset[str]) -> Term:
    """The term, none of its folds binding a name that is to be avoided."""
    if isinstance(term, Fold):
        term = rename_apart(term, avoid)
    parts = children(term)
    return rebuild(term, tuple(apart(part, avoid) for part in parts)) if parts else term


def _work(d: Def, sizes: list[str]) -> Iterator[tuple[object, ...]]:
    """What a kernel of the definition would do that another could spare: see 3 above."""
    folds = row_folds(d.value, d.axes, sizes)
    for fold in folds:
        yield ("row fold", key(fold))
        fold = renamed(fold, tuple(f"^{k}" for k in range(len(fold.axes))))
        own = {axis.name for axis in fold.axes}
        over = tuple(canonical(axis.extent) for axis in fold.axes)
        around = (free_vars(fold) & set(d.axes)) | own
        for part in (part for body in fold.body for part in _parts(body)):
            if (isinstance(part, Read) and _indices(part) >= around) or (_costly(part) and free_vars(part) & own):
                yield ("element", over, key(part))
    if not folds:
        yield from (("element", key(r)) for r in reads(d.value) if _indices(r) >= set(d.axes))


def _costly(part: Term) -> bool:
    if isinstance(part, Op) and part.name == "div" and isinstance(part.args[1], Const):
        return False
    return isinstance(part, Fold) or (isinstance(part, Op) and part.name in SPECIAL)


def _indices(read: Read) -> frozenset[str]:
    return frozenset().union(*(free_vars(i) for i in read.index))


def _parts(term: Term) -> Iterator[Term]:
    """Every subterm that is computed once an element: what lies in a fold inside is not."""
    yield term
    if not isinstance(term, Fold):
        for part in children(term):
            yield from _parts(part)

