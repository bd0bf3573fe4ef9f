"""A definition that runs along the other axis of a pass is computed in that pass, from the tiles that it has.

    dk[j, c] = Σ_i a(i, j) q[i, c]        rows j, a pass over i for each tile of them
    dq[i, c] = Σ_j a(i, j) k[j, c]        rows i: the same elements a(i, j), summed the other way

    for the axes in front [grid]:
      across[i, c] := 0                                           # all i: as large as their part of dq
      for tiles of j carrying across[i, c] = Σ_{j in the tiles before} a k:
        for tiles of i carrying dk:
          tile[i, j]  := a(i, j)                                  once for both
          dk[j, c]    := dk[j, c] + Σ_i tile q
          share[i, c] := Σ_j tile k
        across[i, c] := across[i, c] + share[i, c]
      dq[i, c] := across[i, c]

The axes in front run in parallel, and not the tiles of j. Where no axis is in front, `PARTS` instances share the tiles of j out
among them, part s the tiles s, s + PARTS, …; what each sums is kept in part_across[s, i, c], and dq is the sum over s. Either
way the order of all sums is fixed: the result is the same on any number of threads. On a machine of more cores than parts, each
definition has a kernel of its own, unless the axes in front are known to be long: tiles of rows keep more threads at work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tang_verified.passes.schedule.analysis import (
    Contraction,
    all_folds,
    contraction,
    has_special,
    inner_folds,
    key,
    renamed,
    row_folds,
)  # fmt: skip
from tang_verified.passes.schedule.contraction import Contractor
from tang_verified.passes.schedule.group import Group, Shape
from tang_verified.passes.schedule.lower import Dim, Lowering, Point, Tiled, alloc
from tang_verified.passes.schedule.rebase import replace_terms
from tang_verified.passes.schedule.target import micro_tile
from tang_verified.passes.schedule.together import apart
from tang_verified.semantics.build import canonical, ceildiv, conj, floordiv, iadd, imul, isub, le, lt, mod
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, For, Loop, Stmt
from tang_verified.semantics.program import Def
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
    Read,
    Term,
    Var,
    substitute,
)  # fmt: skip

if TYPE_CHECKING:
    from tang_verified.passes.schedule.plan import Planner

PARTS = 16


@dataclass(frozen=True)
class Crossing:
    """A definition in the names of a pass: its row is the axis that the pass folds, its fold runs over the pass' rows."""

    d: Def
    fold: Fold
    split: Contraction
    over: Axis  # its row
    front: tuple[str, ...]  # the axes that run in parallel
    extent: Term  # of its column


def crossing(planner: Planner, d: Def) -> Crossing | None:
    """How d is computed across the planner's pass, if it can be: their elements are the same, and so are the axes in front."""
    found, sizes = planner.contraction(), [size.name for size in planner.program.sizes]
    mine = row_folds(d.value, d.axes, sizes)[-1:]  # those inside it come first
    if found is None or not mine or any(len(f.axes) != 1 or f.monoid != ADD for f in (*planner.folds, *mine)):
        return None
    own = contraction(mine[0], list(d.axes))
    if own is None or len(d.axes) != len(planner.axes) or planner.target.threads:
        return None
    over, row = planner.folds[0].axes[0], Axis(found.row, planner.extent[found.row])
    extents = dict(zip(d.axes, d.tensor.shape, strict=True))
    columns = [extents[own.column], *(planner.extent[a] for a in planner.columns(found))]
    if not all(isinstance(e, Const) and int(e.value) <= planner.WIDEST for e in columns):
        return None
    front = [a for a in planner.axes if a not in (found.row, found.column)]
    if not _parallel([planner.extent[a] for a in front], planner.target.cores):
        return None
    pairs = list(zip([a for a in d.axes if a not in (own.row, own.column)], front, strict=True))
    alike = [(extents[own.row], over.extent), (mine[0].axes[0].extent, row.extent)]
    alike += [(extents[a], planner.extent[b]) for a, b in pairs]
    if any(canonical(a) != canonical(b) for a, b in alike):
        return None
    names = {own.row: over.name, own.column: planner.names.fresh(own.column), **dict(pairs)}
    avoid = frozenset((*names.values(), row.name))
    value = substitute(apart(d.value, avoid), {a: Var(b) for a, b in names.items()})
    fold = renamed(row_folds(value, names.values(), sizes)[-1], (row.name,))
    if all_folds(replace_terms(value, {key(fold): REAL_ZERO})):
        return None
    split = contraction(fold, [over.name, names[own.column]])
    aligned = [renamed(f, (over.name,)) for f in planner.folds]
    theirs = [(f, contraction(f, [*planner.axes, *planner.beside])) for f in aligned]
    if split is None or not (inner_folds(Fold(ADD, (over,), TRUE, (split.left,))) or has_special(split.left)):
        return None
    if any(key(f.guard) != key(fold.guard) for f, _ in theirs):
        return None
    if not any(s is not None and s.row == row.name and key(s.left) == key(split.left) for _, s in theirs):
        return None
    renamed_ = Def(d.tensor, tuple(names[a] for a in d.axes), value)
    return Crossing(renamed_, fold, split, over, tuple(front), extents[own.column])


def _parallel(front: list[Term], cores: int) -> bool:
    """Whether the axes in front, or the parts, are enough for the machine's cores."""
    return cores <= PARTS or (bool(front) and all(isinstance(e, Const) for e in front) and
                              prod(int(e.value) for e in front if isinstance(e, Const)) >= 2 * cores)  # fmt: skip


class Across:
    """Emits what a pass computes across itself."""

    def __init__(self, planner: Planner, crossing: Crossing, rows: int, tile: int) -> None:
        self.planner, self.crossing, self.names, self.rows, self.tile = planner, crossing, planner.names, rows, tile
        self.parts = 1 if crossing.front else planner.choice.splits if planner.choice.splits > 1 else PARTS
        self.part, self.share, self.buffer, self.whole = map(self.names.fresh, ("part", "share", "across", "part_across"))
        width = planner.rounded(crossing.extent, planner.lanes, planner.WIDEST)
        self.column = Tiled(crossing.split.column, crossing.extent, ZERO, width)
        self.shape = (ceildiv(crossing.over.extent, tile), Const(tile), Const(width))

    # -- what is said of the sums ---------------------------------------------------------------------------------------

    def _sum(self, place: tuple[Term, Term, Term], which: Callable[[Term], Term]) -> Term:
        """The fold at (tile, local row, column), over the pass' rows `which`."""
        fold = renamed(self.crossing.fold, (self.names.fresh(self.crossing.fold.axes[0].name),))
        i = iadd(imul(place[0], self.tile), place[1])
        over = Tiled(self.crossing.over.name, self.crossing.over.extent, ZERO, self.tile)
        at = {self.crossing.over.name: i, self.column.name: place[2]}
        valid = conj(over.valid(i), self.column.valid(place[2]))
        guard, body = (substitute(x, at) for x in (fold.guard, fold.body[0]))
        return canonical(Fold(fold.monoid, fold.axes, conj(valid, guard, which(Var(fold.axes[0].name))), (body,)))

    def _claim(self, which: Callable[[Term], Term], done: Term | None = None) -> Claim:
        """... for all tiles of the pass, or for those before `done` (0 for the others)."""
        x, r, c = (Var(self.names.fresh("x")) for _ in range(3))
        reached = TRUE if done is None else lt(x, done)
        return Claim((x.name, r.name, c.name), self._sum((x, r, c), lambda j: conj(reached, which(j))))

    def _of_part(self, part: Term) -> Callable[[Term], Term]:
        """The rows that a part takes."""
        return lambda j: Op("eq", (mod(floordiv(j, self.rows), self.parts), part)) if self.parts > 1 else TRUE

    def _before(self, tiles: Term) -> Callable[[Term], Term]:
        """Of the instance's rows, those of its first tiles."""
        mine = self._of_part(Var(self.part))
        return lambda j: conj(mine(j), lt(j, imul(tiles, self.rows * self.parts)))

    def _number(self, row_tile: Term) -> Term:
        return iadd(imul(row_tile, self.parts), Var(self.part)) if self.parts > 1 else row_tile

    def _of_tile(self, row_tile: Term) -> Callable[[Term], Term]:
        first = imul(self._number(row_tile), self.rows)
        return lambda j: conj(le(first, j), lt(j, iadd(first, Const(self.rows))))

    # -- statements -----------------------------------------------------------------------------------------------------

    def update(self, group: Group, contractor: Contractor, row_tile: str) -> tuple[Assign, tuple[Carried, ...]]:
        """share[i, c] := Σ_{r<rows} tile[i, r]·right[r, c] for the pass' tile of i; for tiles that it skips, 0."""
        low, split, lanes = group.low, self.crossing.split, self.planner.lanes
        row, over, column = group.shape.row or "", self.crossing.over.name, self.column
        height, vectors = micro_tile(self.planner.target, lanes, self.tile, column.tile)
        width = vectors * lanes
        right = self._pack(low, contractor, row, column.tile // width, vectors)
        ib, iu = self.names.fresh(f"{over}_b"), self.names.fresh(f"{over}_u")
        cb, cv, cl = (self.names.fresh(f"{column.name}_{s}") for s in ("b", "v", "l"))
        k = Axis(self.names.fresh(f"{row}_k"), Const(self.rows))
        i = Dim(over, ((ib, Const(self.tile // height), "seq"), (iu, Const(height), "unroll")))
        c = Dim(column.name, ((cb, Const(column.tile // width), "seq"), (cv, Const(vectors), "unroll"),
                              (cl, Const(lanes), "lane")))  # fmt: skip
        here = iadd(group.first, Var(group.loop))
        x = low.lower(split.left, {over: i.local, row: Var(k.name)})
        y = Read(right, (Var(cb), Var(k.name), Var(cv), Var(cl)), "real")
        value = Fold(ADD, (k,), TRUE, (Op("mul", (x, y)),))
        loops = {name: Loop(Axis(name, extent), kind) for dim in (i, c) for name, extent, kind in dim.parts}
        own, order = self._of_tile(Var(row_tile)), tuple(loops[n] for n in (cb, ib, iu, cv, cl))
        if group.first == ZERO:  # every cell is written once
            contractor.hoisted.append(Alloc(Buffer(self.share, self.planner.dtype, self.shape, "thread"), self._claim(own)))
            return Assign(order, self.share, (here, i.local, c.local), value), ()
        zero, lines, local = self._lines()
        cell = (Var(zero.axis.name), *local)
        start = Assign((zero, *lines), self.share, cell, REAL_ZERO, claim=self._claim(own, group.first))
        contractor.hoisted += [alloc(self.share, self.planner.dtype, self.shape), start]
        update = Assign(order, self.share, (here, i.local, c.local), value, claim=self._claim(own, iadd(here, ONE)))
        return update, (Carried(self.share, self._claim(own, here)),)

    def _pack(self, low: Lowering, contractor: Contractor, row: str, blocks: int, vectors: int) -> str:
        """right[cb, r, cv, lane], once for each tile of rows."""
        name, column = self.names.fresh("right"), self.column

        def value(p: Point, local: Term) -> Term:
            inside = conj(low.tiled[row].valid(p[row]), column.valid(local))
            element = low.lower(self.crossing.split.right, {row: p[row], column.name: local})
            return Op("select", (inside, element, REAL_ZERO))

        def lines() -> list[Dim]:
            return [Dim(row, ((self.names.fresh(f"{row}_b"), Const(self.rows), "seq"),))]

        contractor.hoisted += contractor.packed(
            self.names, name, self.planner.dtype, column.name, (blocks, vectors), (Const(self.rows),), lines, value
        )
        return name

    def row(self, axis: str, row_tile: str) -> Tiled:
        """The tiles of rows that an instance takes."""
        return Tiled(axis, self.planner.extent[axis], imul(self._number(Var(row_tile)), self.rows), self.rows)

    def over_rows(self, axis: str, row_tile: str, body: list[Stmt]) -> list[Stmt]:
        """for the instance's tiles of rows: body, and the tile's share is added"""
        count = ceildiv(self.planner.extent[axis], self.rows)
        if self.parts > 1:
            count = ceildiv(isub(count, Var(self.part)), self.parts)

        def whole(value: Callable[[tuple[Term, ...]], Term], tiles: Term) -> Assign:
            x, lines, local = self._lines()
            cell = (Var(x.axis.name), *local)
            return Assign((x, *lines), self.buffer, cell, value(cell), claim=self._claim(self._before(tiles)))

        add = whole(lambda cell: Op("add", (Read(self.buffer, cell, "real"), Read(self.share, cell, "real"))),
                    iadd(Var(row_tile), ONE))  # fmt: skip
        carried = Carried(self.buffer, self._claim(self._before(Var(row_tile))))
        loop = For(Axis(row_tile, count), "seq", (*body, add), (carried,))
        return [alloc(self.buffer, self.planner.dtype, self.shape), whole(lambda cell: REAL_ZERO, ZERO), loop]

    def kernel(self, body: list[Stmt]) -> list[Stmt]:
        """All instances, and what becomes of their sums."""
        x, loops, local = self._lines()
        cell = (Var(x.axis.name), *local)
        if self.parts == 1:
            return self._grid([*body, self._store(x, (x, *loops), local, Read(self.buffer, cell, "real"))])
        keep = Assign((x, *loops), self.whole, (Var(self.part), *cell), Read(self.buffer, cell, "real"))
        parts = For(Axis(self.part, Const(self.parts)), "grid", (*body, keep))
        part = Axis(self.names.fresh("part"), Const(self.parts))
        x, loops, local = self._lines()
        total = Fold(ADD, (part,), TRUE, (Read(self.whole, (Var(part.name), Var(x.axis.name), *local), "real"),))
        merged = For(x.axis, "grid", (self._store(x, loops, local, total),))
        return [self._declare(), *self._grid([parts]), *self._grid([merged])]

    def _grid(self, body: list[Stmt]) -> list[Stmt]:
        for axis in reversed(self.crossing.front):
            body = [For(Axis(axis, self.planner.extent[axis]), "grid", tuple(body))]
        return body

    def _store(self, x: Loop, loops: tuple[Loop, ...], local: tuple[Term, Term], total: Term) -> Assign:
        """The definition, given its fold."""
        d, over, low = self.crossing.d, self.crossing.over, Lowering(self.names)
        low.inline[key(self.crossing.fold)] = lambda p: total
        rows = Tiled(over.name, over.extent, imul(Var(x.axis.name), self.tile), self.tile)
        low.tiled = {over.name: rows, self.column.name: self.column}
        point = {over.name: local[0], self.column.name: local[1]}
        full = low.full(point)
        index = tuple(full.get(a, Var(a)) for a in d.axes)
        guard = conj(rows.valid(local[0]), self.column.valid(local[1]))
        return Assign(loops, d.tensor.name, index, low.lower(d.value, point), guard)

    def _declare(self) -> Alloc:
        """part_across[part, i, c], with what each part holds as its claim."""
        part, x, r, c = (self.names.fresh("x") for _ in range(4))
        said = self._sum((Var(x), Var(r), Var(c)), self._of_part(Var(part)))
        shape = (Const(self.parts), *self.shape)
        return Alloc(Buffer(self.whole, self.planner.dtype, shape, "global"), Claim((part, x, r, c), said))

    def _lines(self) -> tuple[Loop, tuple[Loop, ...], tuple[Term, Term]]:
        """Loops over all cells, lanes along the columns: that over tiles, the others, and the place in a tile they make."""
        x, r, b, lane = (self.names.fresh(n) for n in ("x_t", "x_r", f"{self.column.name}_o", f"{self.column.name}_w"))
        lines = (Loop(Axis(b, Const(self.column.tile // self.planner.lanes)), "seq"),
                 Loop(Axis(lane, Const(self.planner.lanes)), "lane"))  # fmt: skip
        local = iadd(imul(Var(b), self.planner.lanes), Var(lane))
        over = Loop(Axis(x, self.shape[0]), "seq")
        return over, (Loop(Axis(r, Const(self.tile)), "seq"), *lines), (Var(r), local)


def pass_across(planner: Planner, split: Contraction, crossing: Crossing) -> list[Stmt]:
    """The kernel of the planner's definitions and of one across them."""
    rows, columns, tile = planner.sizes(split)
    low, row_tile = Lowering(planner.names), planner.names.fresh(f"{split.row}_t")
    across = Across(planner, crossing, rows, tile)
    row = across.row(split.row, row_tile)
    column = Tiled(split.column, planner.extent[split.column], ZERO, columns)
    low.tiled = {split.row: row, split.column: column, across.column.name: across.column, **planner.beside_tiles()}
    contractor = Contractor(planner.target, planner.lanes)
    made = planner.group(low, Shape(split.row, rows, planner.lanes), planner.folds, contractor, tile=tile,
                         beyond=lambda group: across.update(group, contractor, row_tile))  # fmt: skip
    stores = planner.tile_stores(low, row, column)
    return across.kernel(across.over_rows(split.row, row_tile, [*made, *stores]))


__all__ = ["Across", "Crossing", "crossing", "pass_across"]
