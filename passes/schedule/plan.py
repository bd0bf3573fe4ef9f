"""From a definition to a kernel: which axes are rows, columns, tiles and lanes.

1. no folds: lanes along the last axis.
2. a sum of products with a row axis and a column axis: a tile of both; with running states (an online fold) the lanes of
   the tile run along the rows, so that maxima and scales need no horizontal step.
3. folds independent of each other whose reads are contiguous along the last output axis: lanes along that axis.
4. otherwise one row an instance, lanes along the folded axis.
"""

from __future__ import annotations

from dataclasses import dataclass

from tang_verified.passes.schedule.analysis import (
    Contraction, all_folds, contraction, depends, inner_folds, key, row_folds,
)  # fmt: skip
from tang_verified.passes.schedule.contraction import Contractor
from tang_verified.passes.schedule.group import Group, Shape
from tang_verified.passes.schedule.lower import Dim, Lowering, Names, Point, Tiled, assign
from tang_verified.passes.schedule.rebase import find_rebase
from tang_verified.passes.schedule.target import Target
from tang_verified.semantics.build import canonical, ceildiv, conj, floordiv, iadd, imul, linear
from tang_verified.semantics.kernel import Assign, For, Kernel, Loop, Stmt
from tang_verified.semantics.program import Def, DType, Program
from tang_verified.semantics.terms import (
    TRUE, Axis, Const, Fold, Op, Read, Term, Var, children, free_vars, reads,
)  # fmt: skip


@dataclass
class Choice:
    """Tile sizes that a search may vary. None: chosen here."""

    rows: int | None = None
    columns: int | None = None
    tile: int | None = None


def compute_dtype(program: Program, d: Def) -> DType:
    types = {program.tensor(r.tensor).dtype for r in reads(d.value)} | {d.tensor.dtype}
    return "float64" if "float64" in types else "float32"


class Planner:
    """Makes the kernel of one definition."""

    def __init__(self, program: Program, d: Def, target: Target, choice: Choice) -> None:
        self.program, self.d, self.target, self.choice = program, d, target, choice
        self.dtype = compute_dtype(program, d)
        self.lanes = max(1, target.lanes // (2 if self.dtype == "float64" else 1))
        taken = {s.name for s in program.sizes} | {t.name for t in program.inputs} | {x.tensor.name for x in program.defs}
        bound = {axis.name for fold in all_folds(d.value) for axis in fold.axes}
        self.names = Names(taken | set(d.axes) | bound)
        self.extent = dict(zip(d.axes, d.tensor.shape, strict=True))
        self.folds = row_folds(d.value, d.axes, (s.name for s in program.sizes))

    def kernel(self) -> Kernel:
        body = self._body()
        used = [t.name for t in (*self.program.inputs, *(x.tensor for x in self.program.defs))
                if any(r.tensor == t.name for r in reads(self.d.value))]  # fmt: skip
        return Kernel(self.d.tensor.name, self.program, tuple(used), (self.d.tensor.name,), tuple(body))

    def _body(self) -> list[Stmt]:
        if not self.folds:
            return self._direct()
        found = self._contraction()
        if found is not None:
            return self._tiled(found)
        if self._along_output():
            return self._direct()
        return self._by_rows()

    # -- choices ------------------------------------------------------------------------------------------------------

    def _large(self, axis: str, at_least: int) -> bool:
        extent = self.extent[axis]
        return not isinstance(extent, Const) or int(extent.value) >= at_least  # type: ignore[arg-type]

    def _contraction(self) -> Contraction | None:
        for fold in reversed(self.folds):
            if len(fold.body) != 1:
                continue
            split = contraction(fold, list(self.d.axes))
            if split and self._large(split.row, 4) and self._large(split.column, self.lanes // 2):
                return split
        return None

    def _along_output(self) -> bool:
        """Whether lanes along the last output axis read contiguous memory, and no fold needs another's result."""
        if not self.d.axes or any(depends(a.body[0], b) for a in self.folds for b in self.folds if a is not b):
            return False
        last = self.d.axes[-1]
        if not self._large(last, self.lanes // 2) or any(last not in free_vars(fold) for fold in self.folds):
            return False
        strides = [linear(r.index[-1])[0].get(Var(last), 0) for f in self.folds for r in _reads(f) if r.index]
        return sum(s == 1 for s in strides) * 2 > len(strides)

    # -- 1 and 3: lanes along the last output axis --------------------------------------------------------------------

    def _direct(self) -> list[Stmt]:
        low = Lowering(self.names)
        return self._store(low, list(self.d.axes), [])

    def _store(self, low: Lowering, axes: list[str], loops: list[Loop], point: dict[str, Term] | None = None) -> list[Stmt]:
        """out[…] := value over the given axes (the rest is fixed by loops outside), lanes along the last."""
        point = dict(point or {})
        name = self.d.tensor.name
        if not axes:
            index = tuple(point.get(a, Var(a)) for a in self.d.axes)
            return [Assign(tuple(loops), name, index, low.lower(self.d.value, point), TRUE, self._kinds())]
        last = axes[-1]
        grid = axes[:-1]
        low = low.child()
        wide = self._large(last, self.lanes)
        block, lane = self.names.fresh(f"{last}_b"), self.names.fresh(f"{last}_l")
        width = self.lanes if wide else 1
        low.tiled[last] = Tiled(last, self.extent[last], Const(0), width)
        local = iadd(imul(Var(block), width), Var(lane)) if wide else Var(block)
        here = {**point, last: local}
        guard = low.tiled[last].valid(local) if wide else TRUE
        inner = [Loop(Axis(block, ceildiv(self.extent[last], width) if wide else self.extent[last]), "seq")]
        if wide:
            inner.append(Loop(Axis(lane, Const(width)), "lane"))
        index = tuple(canonical(low.full(here)[a]) if a in low.tiled and a in here else Var(a) for a in self.d.axes)
        statement = Assign((*loops, *inner), name, index, low.lower(self.d.value, here), guard, self._kinds())
        out: list[Stmt] = [statement]
        if not grid and not loops and not point:  # one axis in all: blocks of it run in parallel
            return self._blocks(low, last)
        for axis in reversed(grid):
            out = [For(Axis(axis, self.extent[axis]), "grid", tuple(out))]
        return out

    def _blocks(self, low: Lowering, axis: str) -> list[Stmt]:
        size = 256 * self.lanes
        outer, block, lane = (self.names.fresh(f"{axis}_{s}") for s in ("t", "b", "l"))
        low.tiled[axis] = Tiled(axis, self.extent[axis], imul(Var(outer), size), size)
        local = iadd(imul(Var(block), self.lanes), Var(lane))
        loops = (Loop(Axis(block, Const(256)), "seq"), Loop(Axis(lane, Const(self.lanes)), "lane"))
        value = low.lower(self.d.value, {axis: local})
        index = (low.full({axis: local})[axis],)
        statement = Assign(loops, self.d.tensor.name, index, value, low.tiled[axis].valid(local), self._kinds())
        return [For(Axis(outer, ceildiv(self.extent[axis], size)), "grid", (statement,))]

    def _kinds(self) -> tuple[tuple[str, str], ...]:
        return ()

    # -- 4: one row an instance, lanes along the fold -------------------------------------------------------------------

    def _by_rows(self) -> list[Stmt]:
        rows = [a for a in self.d.axes if all(a in free_vars(f) for f in self.folds)]
        low = Lowering(self.names)
        shape = Shape(None, 1, self.lanes)
        for axis in self.d.axes:
            if axis not in rows:
                tile = self._round(self.extent[axis], self.lanes, 256)
                low.tiled[axis] = Tiled(axis, self.extent[axis], Const(0), tile)
        out: list[Stmt] = []
        contractor = Contractor(self.target, self.lanes)
        for folds in self._groups():
            out += self._group(low, shape, folds, contractor, tile=self.choice.tile or 1024)
        rest = [a for a in self.d.axes if a not in rows]
        for axis in rest:
            low.tiled.pop(axis, None)
        tail = self._store_rest(low, rest)
        body = [*out, *tail]
        for axis in reversed(rows):
            body = [For(Axis(axis, self.extent[axis]), "grid", tuple(body))]
        return body

    def _store_rest(self, low: Lowering, rest: list[str]) -> list[Stmt]:
        loops = [Loop(Axis(self.names.fresh(f"{a}_o"), self.extent[a]), "seq") for a in rest[:-1]]
        point: dict[str, Term] = {}
        for axis, loop in zip(rest[:-1], loops, strict=True):
            low.tiled[axis] = Tiled(axis, self.extent[axis], Const(0), 1)
            point[axis] = Var(loop.axis.name)
        statements = self._store_inner(low, rest[-1:], loops, point)
        return statements

    def _store_inner(self, low: Lowering, last: list[str], loops: list[Loop], point: dict[str, Term]) -> list[Stmt]:
        name = self.d.tensor.name
        if not last:
            index = tuple(low.full(point).get(a, Var(a)) for a in self.d.axes)
            return [Assign(tuple(loops), name, index, low.lower(self.d.value, point), TRUE)]
        axis = last[0]
        wide = self._large(axis, self.lanes)
        width = self.lanes if wide else 1
        block, lane = self.names.fresh(f"{axis}_b"), self.names.fresh(f"{axis}_l")
        low.tiled[axis] = Tiled(axis, self.extent[axis], Const(0), width)
        local = iadd(imul(Var(block), width), Var(lane)) if wide else Var(block)
        here = {**point, axis: local}
        inner = [Loop(Axis(block, ceildiv(self.extent[axis], width)), "seq")]
        if wide:
            inner.append(Loop(Axis(lane, Const(width)), "lane"))
        index = tuple(low.full(here).get(a, Var(a)) for a in self.d.axes)
        return [Assign((*loops, *inner), name, index, low.lower(self.d.value, here), low.tiled[axis].valid(local))]

    def _groups(self) -> list[list[Fold]]:
        """Folds over the same extents, in order, as long as each can follow those before it."""
        out: list[list[Fold]] = []
        for fold in self.folds:
            if len(fold.body) == 1 and out and self._joins(out[-1], fold):
                out[-1].append(fold)
            else:
                out.append([fold])
        return out

    @staticmethod
    def _joins(group: list[Fold], fold: Fold) -> bool:
        if len(group[0].body) != 1 or len(fold.axes) != len(group[0].axes):
            return False
        if any(canonical(a.extent) != canonical(b.extent) for a, b in zip(fold.axes, group[0].axes, strict=True)):
            return False
        if any(free_vars(a.extent) & {b.name for b in fold.axes} for a in fold.axes):
            return False
        used = [g for g in group if depends(fold.body[0], g)]
        return not used or find_rebase(fold, group) is not None

    def _group(self, low: Lowering, shape: Shape, folds: list[Fold], contractor: Contractor, *, tile: int) -> list[Stmt]:
        """One pass over the folds' axis; a single independent fold needs no running state."""
        first = folds[0]
        simple = len(folds) == 1 and shape.row is None
        if simple or len(first.body) != 1:
            return self._whole(low, first)
        axis = first.axes[0]
        extent = axis.extent
        if isinstance(extent, Const):
            tile = min(tile, self._round(extent, self.lanes, tile))
        group = Group(low, shape, folds, axis, tile, self.dtype)
        bounds = self._tiles(group, shape)
        group.start_at(bounds[0])
        low.tiled[axis.name] = group.tiled
        before = dict(low.stored)
        columns = [a for a in low.tiled if a not in (axis.name, shape.row) and low.tiled[a].tile > 1]
        for state in group.states:
            if shape.row is not None and state.extra:
                state.split = contraction(state.fold, [shape.row, *columns], state.extra)
            for moment in state.moments:
                moment.extra = state.extra
        body = group.body(contractor.tiles, contractor.update)
        loop = group.loop_statement(bounds[1], body)
        hoisted, contractor.hoisted = contractor.hoisted, []
        low.tiled.pop(axis.name)
        out = [*hoisted, *group.prologue(), loop]
        low.stored = before  # buffers of the tile end with it
        group.finish(low)
        return out

    def _tiles(self, group: Group, shape: Shape) -> tuple[Term, Term]:
        """(first tile, number of tiles): those that a mask leaves out for every row of the tile are skipped."""
        low, axis, tile = group.low, group.axis, group.tile
        upper: list[Term] = [axis.extent]
        lower: list[Term] = []
        guards = {key(f.guard) for f in group.folds}
        if len(guards) == 1:
            for part in _conjuncts(group.folds[0].guard):
                bound = self._bound(part, axis.name, low, shape)
                if bound is not None:
                    (upper if bound[0] else lower).append(bound[1])
        top = upper[0]
        for other in upper[1:]:
            top = Op("min", (top, other))
        first: Term = Const(0)
        if lower:
            start = lower[0]
            for other in lower[1:]:
                start = Op("max", (start, other))
            first = canonical(Op("max", (Const(0), floordiv(start, tile))))
        tiles = ceildiv(top, tile)
        if lower or len(upper) > 1:
            tiles = canonical(Op("max", (Const(0), Op("sub", (tiles, first)))))
        return first, tiles

    def _bound(self, part: Term, axis: str, low: Lowering, shape: Shape) -> tuple[bool, Term] | None:
        """An exclusive upper (True) or inclusive lower bound that a conjunct sets on the axis, over the whole row tile."""
        if not (isinstance(part, Op) and part.name in ("lt", "le")):
            return None
        parts, constant = linear(Op("sub", part.args))  # parts + constant < 0 (or <= 0)
        c = parts.pop(Var(axis), 0)
        if c not in (1, -1) or any(axis in free_vars(t) for t in parts):
            return None
        strict = part.name == "lt"
        # c = 1: axis < -rest (+1 unless strict); c = -1: axis > rest, hence >= rest (+1 if strict)
        total: Term = Const((-constant + (0 if strict else 1)) if c == 1 else (constant + (1 if strict else 0)))
        for term, k in parts.items():
            k = -k if c == 1 else k
            value = term
            if isinstance(term, Var) and term.name in low.tiled:
                t = low.tiled[term.name]
                edge = t.tile - 1 if (k > 0) == (c == 1) else 0
                value = iadd(t.base, Const(edge))
            elif free_vars(term) & set(low.tiled):
                return None
            total = iadd(total, imul(value, k))
        return c == 1, total

    def _whole(self, low: Lowering, fold: Fold) -> list[Stmt]:
        """A fold that needs nothing else: one statement, lanes along its first axis."""
        from tang_verified.passes.schedule.whole import whole_fold

        return whole_fold(self, low, fold)

    # -- 2: a tile of rows and columns -----------------------------------------------------------------------------------

    def _tiled(self, split: Contraction) -> list[Stmt]:
        online = any(inner_folds(f) for f in self.folds) or any(
            depends(a.body[0], b) for a in self.folds for b in self.folds if a is not b
        )
        fold_extent = self.folds[-1].axes[0].extent
        if online:
            rows, columns, tile = 48, self._round(self.extent[split.column], self.lanes, 256), 128
        else:
            rows = self._round(self.extent[split.row], 24, 240)
            columns = self._round(self.extent[split.column], 4 * self.lanes, 8 * 4 * self.lanes)
            tile = self._round(fold_extent, self.lanes, 256)
        rows, columns = self.choice.rows or rows, self.choice.columns or columns
        tile = self.choice.tile or tile
        low = Lowering(self.names)
        row_tile, column_tile = self.names.fresh(f"{split.row}_t"), self.names.fresh(f"{split.column}_t")
        row = Tiled(split.row, self.extent[split.row], imul(Var(row_tile), rows), rows)
        column = Tiled(split.column, self.extent[split.column], imul(Var(column_tile), columns), columns)
        single = isinstance(column.extent, Const) and int(column.extent.value) <= columns  # type: ignore[arg-type]
        if single:
            column = Tiled(split.column, column.extent, Const(0), columns)
        low.tiled = {split.row: row, split.column: column}
        shape = Shape(split.row, rows, self.lanes)
        contractor = Contractor(self.target, self.lanes)
        body: list[Stmt] = []
        for folds in self._groups():
            body += self._group(low, shape, folds, contractor, tile=tile)
        body += self._tile_store(low, row, column)
        if not single:
            body = [For(Axis(column_tile, ceildiv(column.extent, columns)), "grid", tuple(body))]
        body = [For(Axis(row_tile, ceildiv(row.extent, rows)), "grid", tuple(body))]
        for axis in reversed([a for a in self.d.axes if a not in (split.row, split.column)]):
            body = [For(Axis(axis, self.extent[axis]), "grid", tuple(body))]
        return body

    def _tile_store(self, low: Lowering, row: Tiled, column: Tiled) -> list[Stmt]:
        r, b, lane = (self.names.fresh(f"{n}_{s}") for n, s in ((row.name, "o"), (column.name, "o"), (column.name, "w")))
        local = iadd(imul(Var(b), self.lanes), Var(lane))
        point: Point = {row.name: Var(r), column.name: local}
        full = low.full(point)
        index = tuple(full.get(a, Var(a)) for a in self.d.axes)
        guard = conj(row.valid(Var(r)), column.valid(local))
        loops = (Loop(Axis(r, Const(row.tile)), "seq"), Loop(Axis(b, Const(column.tile // self.lanes)), "seq"),
                 Loop(Axis(lane, Const(self.lanes)), "lane"))  # fmt: skip
        return [Assign(loops, self.d.tensor.name, index, low.lower(self.d.value, point), guard)]

    def _round(self, extent: Term, step: int, most: int) -> int:
        """The extent rounded up to a multiple of `step`, at most `most` (which it is when the extent is symbolic)."""
        if not isinstance(extent, Const):
            return most
        value = max(1, int(extent.value))  # type: ignore[arg-type]
        return min(most, -(-value // step) * step)


def _reads(fold: Fold) -> tuple[Read, ...]:
    return reads(fold)


def _conjuncts(term: Term) -> list[Term]:
    if isinstance(term, Op) and term.name == "and":
        return _conjuncts(term.args[0]) + _conjuncts(term.args[1])
    return [term]


def plan(program: Program, target: Target, choices: dict[str, Choice] | None = None) -> tuple[Kernel, ...]:
    """One kernel a definition, in order."""
    made = []
    for d in program.defs:
        made.append(Planner(program, d, target, (choices or {}).get(d.tensor.name, Choice())).kernel())
    return tuple(made)


__all__ = ["Choice", "Dim", "Planner", "assign", "children", "plan"]
