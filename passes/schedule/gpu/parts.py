"""A fold over lanes becomes partial folds, one a thread, and a fold of those.

    s := max(m, max_{c, v < 256 [lane]} x[256 c + v])

    part[v]  := max_c x[256 c + v]                  for v < 256 [thread], into a shared buffer
    part2[y] := max_{k < 16} part[16 y + k]         for y < 16 [thread]
    s        := max(m, max_{k < 16} part2[k])

    with subgroups, the second step is shuffles, after which every lane has the result:
    part[y, l]  := max_c x[256 c + 32 y + l]        for y < 8, l < 32 [thread], in a thread's own register
    part2[y, l] := max_{k < 32 [thread]} part[y, k]
    s           := max(m, max_{k < 8} part2[k, 0])

Only where the statement has too few iterations to give every thread one; else each thread folds for itself.
"""

from __future__ import annotations

from math import prod

from tang_verified.passes.schedule.analysis import all_folds, key
from tang_verified.passes.schedule.lower import Names, binds
from tang_verified.passes.schedule.rebase import replace_terms
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.threads import constant
from tang_verified.semantics.build import iadd, imul
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Kind, Loop, Stmt
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import (
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Sort,
    Term,
    Var,
    children,
    sort_of,
    substitute,
)


def in_parts(statement: Assign, target: Target, names: Names, dtype: DType) -> list[Stmt]:
    """The statement, behind those that compute its folds in parts; itself alone where that does not pay."""
    kinds = dict(statement.fold_kinds)
    extents = [constant(loop.axis.extent) for loop in statement.loops]
    own = prod(e or target.threads for e in extents)
    folds = [f for f in all_folds(statement.value) if _lane(f, kinds) and _outside(f, statement.value)]
    if not folds or None in extents or own * 2 > target.threads:
        return [statement]
    out: list[Stmt] = []
    table: dict[Term, Term] = {}
    done: dict[Fold, Fold] = {}
    for fold in folds:
        bare = Fold(fold.monoid, fold.axes, fold.guard, fold.body, 0)
        if bare not in done:
            made, done[bare] = _parts(statement, fold, kinds, target, names, dtype)
            out += made
        whole = done[bare]
        table[key(fold)] = Fold(whole.monoid, whole.axes, whole.guard, whole.body, fold.component)
    value = replace_terms(statement.value, table)
    used = tuple((name, kind) for name, kind in statement.fold_kinds if binds(value, name))
    return [*out, Assign(statement.loops, statement.target, statement.index, value, statement.guard, used, statement.claim)]


def _lane(fold: Fold, kinds: dict[str, Kind]) -> bool:
    size = constant(fold.axes[-1].extent) if fold.axes else None
    last = bool(fold.axes) and kinds.get(fold.axes[-1].name) == "lane" and size is not None and size > 1
    return last and fold.monoid.commutative


def _outside(fold: Fold, term: Term) -> bool:
    """Whether the fold stands in no other fold and below no condition."""
    if term == fold:
        return True
    if isinstance(term, Fold):
        return False
    parts = children(term)[:1] if isinstance(term, Op) and term.name in ("select", "and", "or") else children(term)
    return any(_outside(fold, part) for part in parts)


def _parts(
    statement: Assign, fold: Fold, kinds: dict[str, Kind], target: Target, names: Names, dtype: DType
) -> tuple[list[Stmt], Fold]:
    """Statements that leave partial states in a shared buffer, and the fold of those."""
    lane = fold.axes[-1]
    lanes = constant(lane.extent) or 1
    loops, index = _fresh(statement, names)
    first = names.fresh("part")
    group = target.subgroup if target.subgroup and lanes == target.threads and lanes > target.subgroup else 0
    extents = (lanes // group, group) if group else (lanes,)
    own = [(names.fresh(lane.name), extent) for extent in extents]
    number: Term = ZERO
    for name, extent in own:
        number = iadd(imul(number, extent), Var(name))
    put: dict[str, Term] = {**index, lane.name: number}
    out: list[Stmt] = []
    for k, _ in enumerate(fold.body):
        renamed = _renamed(Fold(fold.monoid, fold.axes[:-1], fold.guard, fold.body, k), put, names)
        inner_kinds = tuple((new.name, "seq" if kinds.get(old.name) == "lane" else kinds.get(old.name, "seq"))
                            for old, new in zip(fold.axes[:-1], renamed.axes, strict=True))  # fmt: skip
        value: Term = renamed if renamed.axes else _bare(renamed)
        rest = tuple(loop.axis.extent for loop in loops)
        shape = (*(Const(extent) for _, extent in own), *rest) if group else (*rest, Const(lanes))
        buffer = Buffer(_name(first, k), _held(fold, k, dtype), shape, "register" if group else "thread", 2 if group else 0)
        threads, around = tuple(Var(name) for name, _ in own), tuple(Var(loop.axis.name) for loop in loops)
        place = (*threads, *around) if group else (*around, *threads)
        spread = (*loops, *(Loop(Axis(name, Const(extent)), "thread") for name, extent in own))
        out += [Alloc(buffer), Assign(spread, buffer.name, place, value, TRUE, inner_kinds)]
    around = tuple(Var(loop.axis.name) for loop in statement.loops)
    if group:
        return _shuffled(statement, fold, first, lanes // group, group, names, dtype, out)
    return _joined(statement, fold, first, lanes, around, names, dtype, out)


def _shuffled(
    statement: Assign, fold: Fold, first: str, groups: int, size: int, names: Names, dtype: DType, out: list[Stmt]
) -> tuple[list[Stmt], Fold]:
    """Each subgroup folds its lanes' registers; then the fold over subgroups, from shared memory."""
    loops, _ = _fresh(statement, names)
    second, y, lane, inner = names.fresh("part"), names.fresh("y"), names.fresh("l"), names.fresh("k")
    around = tuple(Var(loop.axis.name) for loop in loops)
    sorts = [sort_of(identity) for identity in fold.monoid.identity]
    for k, _ in enumerate(fold.body):
        bodies = tuple(Read(_name(first, j), (Var(y), Var(inner), *around), sort) for j, sort in enumerate(sorts))
        value = Fold(fold.monoid, (Axis(inner, Const(size)),), TRUE, bodies, k)
        shape = (*(loop.axis.extent for loop in loops), Const(groups), Const(size))
        buffer = Buffer(_name(second, k), _held(fold, k, dtype), shape, "thread")
        spread = (*loops, Loop(Axis(y, Const(groups)), "thread"), Loop(Axis(lane, Const(size)), "thread"))
        place = (*around, Var(y), Var(lane))
        out += [Alloc(buffer), Assign(spread, buffer.name, place, value, TRUE, ((inner, "thread"),))]
    last = names.fresh("k")
    here = tuple(Var(loop.axis.name) for loop in statement.loops)
    bodies = tuple(Read(_name(second, j), (*here, Var(last), ZERO), sort) for j, sort in enumerate(sorts))
    return out, Fold(fold.monoid, (Axis(last, Const(groups)),), TRUE, bodies, 0)


def _joined(
    statement: Assign, fold: Fold, first: str, lanes: int, around: tuple[Term, ...], names: Names, dtype: DType,
    out: list[Stmt],
) -> tuple[list[Stmt], Fold]:  # fmt: skip
    """A second step over groups of threads, if there are many; then the fold of what is left."""
    group = 1 << ((lanes.bit_length() - 1) // 2) if lanes > 16 else 1
    while group * group < lanes and group > 1:
        group *= 2
    if group > 1:
        loops, _ = _fresh(statement, names)
        second, outer, inner = names.fresh("part"), names.fresh("y"), names.fresh("k")
        for k, _ in enumerate(fold.body):
            place = tuple(Var(loop.axis.name) for loop in loops)
            cell = (*place, iadd(imul(Var(outer), group), Var(inner)))
            bodies = tuple(Read(_name(first, j), cell, sort_of(fold.monoid.identity[j])) for j in range(len(fold.body)))
            value = Fold(fold.monoid, (Axis(inner, Const(group)),), TRUE, bodies, k)
            shape = (*(loop.axis.extent for loop in loops), Const(lanes // group))
            buffer = Buffer(_name(second, k), _held(fold, k, dtype), shape, "thread")
            spread = (*loops, Loop(Axis(outer, Const(lanes // group)), "thread"))
            out += [Alloc(buffer), Assign(spread, buffer.name, (*place, Var(outer)), value)]
        first, lanes = second, lanes // group
    last = names.fresh("k")
    bodies = tuple(Read(_name(first, j), (*around, Var(last)), sort_of(fold.monoid.identity[j])) for j in range(len(fold.body)))
    return out, Fold(fold.monoid, (Axis(last, Const(lanes)),), TRUE, bodies, 0)


def _fresh(statement: Assign, names: Names) -> tuple[tuple[Loop, ...], dict[str, Term]]:
    """The statement's loops under other names."""
    new = {loop.axis.name: names.fresh(loop.axis.name) for loop in statement.loops}
    put: dict[str, Term] = {old: Var(name) for old, name in new.items()}
    loops = tuple(Loop(Axis(new[loop.axis.name], loop.axis.extent), "seq") for loop in statement.loops)
    return loops, put


def _renamed(fold: Fold, put: dict[str, Term], names: Names) -> Fold:
    """The fold with axes of new names, and other variables replaced."""
    axes: list[Axis] = []
    for axis in fold.axes:
        fresh = names.fresh(axis.name)
        axes.append(Axis(fresh, substitute(axis.extent, put)))
        put = {**put, axis.name: Var(fresh)}
    body = tuple(substitute(part, put) for part in fold.body)
    return Fold(fold.monoid, tuple(axes), substitute(fold.guard, put), body, fold.component)


def _bare(fold: Fold) -> Term:
    """A fold over no axes: its element, or the identity."""
    element = fold.body[fold.component]
    return element if fold.guard == TRUE else Op("select", (fold.guard, element, fold.monoid.identity[fold.component]))


def _held(fold: Fold, k: int, dtype: DType) -> DType:
    held: dict[Sort, DType] = {"real": dtype, "int": "int64", "bool": "bool"}
    return held[sort_of(fold.monoid.identity[k])]


def _name(stem: str, k: int) -> str:
    return stem if k == 0 else f"{stem}_{k}"

