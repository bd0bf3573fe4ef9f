"""From a definition, or several that share their passes, to a kernel: which axes are rows, columns, tiles and lanes.

1. no folds: lanes along the last axis.
2. a sum of products with a row axis and a column axis: a tile of both; with running states (an online fold) the lanes of
   the tile run along the rows, so that maxima and scales need no horizontal step.
3. folds independent of each other whose reads are contiguous along the last output axis: lanes along that axis.
4. otherwise one row an instance, lanes along the folded axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from tang_verified.passes.schedule.across import crossing, pass_across
from tang_verified.passes.schedule.analysis import (
    Contraction,
    all_folds,
    contraction,
    depends,
    guard_folds,
    holds,
    inner_folds,
    key,
    long_first,
    row_folds,
)  # fmt: skip
from tang_verified.passes.schedule.contraction import Contractor
from tang_verified.passes.schedule.group import Group, Shape, fold_lanes
from tang_verified.passes.schedule.lower import Dim, Lowering, Names, Point, Tiled, alloc, assign
from tang_verified.passes.schedule.rebase import find_rebase
from tang_verified.passes.schedule.target import Target
from tang_verified.passes.schedule.together import Together, on_common_axes, sides, together
from tang_verified.semantics.build import canonical, ceildiv, conj, conjuncts, floordiv, iadd, imul, linear
from tang_verified.semantics.kernel import Assign, Carried, For, Kernel, Kind, Loop, Machine, Stmt
from tang_verified.semantics.program import Def, DType, Program
from tang_verified.semantics.terms import (
    ONE,
    REAL_ONE,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    reads,
    substitute,
)  # fmt: skip

STYLES = ("tiled", "rows", "plain")  # from the fastest to the simplest
ONE_THREAD = Machine()
LONGEST = 40  # letters of a kernel's name


@dataclass(frozen=True)
class Choice:
    """Tile sizes that a search may vary. None: chosen here."""

    style: str = "tiled"  # "tiled", "rows" or "plain": which of the forms below may be used
    rows: int | None = None
    columns: int | None = None
    tile: int | None = None
    apart: int = 0  # 1: a kernel of its own
    keep: int = 0  # 1: a row's elements that two passes need are kept in a buffer of one row
    splits: int = 1  # partial results along the folded axis, computed in parallel and merged


def compute_dtype(program: Program, group: Together) -> DType:
    types = {program.tensor(r.tensor).dtype for d in group for r in reads(d.value)} | {d.tensor.dtype for d in group}
    return "float64" if "float64" in types else "float32"


class Planner:
    """Makes the kernel of one definition, or of a group of them (`together.py`)."""

    WIDEST = 256  # columns of a tile that is as wide as its output

    def __init__(self, program: Program, group: Together, target: Target, choice: Choice) -> None:
        own, beyond = sides(program, group)
        aligned = on_common_axes(own)
        if aligned is None:
            raise LookupError("definitions without common axes")
        if choice.style != "plain":
            aligned, beyond = (
                tuple(Def(d.tensor, d.axes, long_first(guard_folds(d.value))) for d in part) for part in (aligned, beyond)
            )
        self.program, self.defs, self.target, self.choice = program, aligned, target, choice
        most = max(aligned, key=lambda d: len(d.axes))
        self.axes = most.axes
        self.extent = {axis: extent for d in aligned for axis, extent in zip(d.axes, d.tensor.shape, strict=True)}
        self.beside = [a for a in self.extent if a not in self.axes]  # columns of other outputs than the first
        self.dtype = compute_dtype(program, aligned)
        wide = self.dtype == "float64" and not target.threads
        self.lanes = max(1, target.lanes // (2 if wide else 1))
        taken = {s.name for s in program.sizes} | {t.name for t in program.inputs} | {x.tensor.name for x in program.defs}
        bound = {axis.name for d in (*aligned, *beyond) for fold in all_folds(d.value) for axis in fold.axes}
        self.names = Names(taken | set(self.extent) | bound)
        found: dict[Term, Fold] = {}
        for d in aligned:
            for fold in row_folds(d.value, d.axes, (s.name for s in program.sizes)):
                found.setdefault(key(fold), fold)
        self.folds = list(found.values())
        self.outputs = tuple(d.tensor.name for d in group)
        self.reads = {r.tensor for d in (*aligned, *beyond) for r in reads(d.value)}
        self.crossings = tuple(crossing(self, d) for d in beyond)

    def kernel(self) -> Kernel:
        return self.kernel_of(tuple(self._body()))

    def kernel_of(self, body: tuple[Stmt, ...], machine: Machine = ONE_THREAD) -> Kernel:
        """The kernel with this body."""
        used = [t.name for t in (*self.program.inputs, *(x.tensor for x in self.program.defs)) if t.name in self.reads]
        return Kernel(kernel_name(self.program, self.outputs), self.program, tuple(used), self.outputs, body, machine=machine)

    def shares(self) -> bool:
        """Whether one pass serves all the definitions: what folds give is kept before any is stored, or nothing is folded."""
        if self.crossings and (None in self.crossings or self.choice.style != "tiled"):
            return False
        if not self.folds:
            return True
        if self.choice.style == "plain":
            return False
        found = self.contraction() if self.choice.style == "tiled" else None
        if found is not None:
            narrow = not any(self._large(a, self.WIDEST + 1) for a in self.columns(found))
            return all(found.row in d.axes for d in self.defs) and (narrow or not self.beside)
        self.lanes = max(self.lanes, self.target.threads)
        return not self.beside and not self._along_output() and all(set(self._rows()[0]) <= set(d.axes) for d in self.defs)

    def _body(self) -> list[Stmt]:
        if not self.folds or self.choice.style == "plain":
            self.lanes = max(self.lanes, self.target.threads)
            return self._direct()
        found = self.contraction() if self.choice.style == "tiled" else None
        if found is not None:
            return self._tiled(found)
        self.lanes = max(self.lanes, self.target.threads)
        if self._along_output():
            return self._direct()
        return self._by_rows()

    # -- choices ------------------------------------------------------------------------------------------------------

    def _large(self, axis: str, at_least: int) -> bool:
        extent = self.extent[axis]
        return not isinstance(extent, Const) or int(extent.value) >= at_least

    def tiles(self) -> bool:
        """Whether the definition is computed in tiles of rows and columns."""
        return self.contraction() is not None

    def contraction(self) -> Contraction | None:
        for fold in reversed(self.folds):
            extent = fold.axes[0].extent if fold.axes else Const(0)
            short = self.target.threads and isinstance(extent, Const) and int(extent.value) < 16
            if len(fold.body) != 1 or short:  # staging a few elements in shared memory costs more than it saves
                continue
            split = contraction(fold, list(self.axes))
            if split and self._large(split.row, 4) and self._large(split.column, self.lanes // 2):
                return split
        return None

    def _along_output(self) -> bool:
        """Whether lanes along the last output axis read contiguous memory, and no fold needs another's result."""
        if not self.axes or any(depends(a.body[0], b) for a in self.folds for b in self.folds if a is not b):
            return False
        last = self.axes[-1]
        if not self._large(last, self.lanes // 2) or any(last not in free_vars(fold) for fold in self.folds):
            return False
        strides = [linear(r.index[-1])[0].get(Var(last), 0) for f in self.folds for r in reads(f) if r.index]
        return sum(s == 1 for s in strides) * 2 > len(strides)

    # -- 1 and 3: lanes along the last output axis --------------------------------------------------------------------

    def _direct(self) -> list[Stmt]:
        low = Lowering(self.names)
        if len(self.axes) == 1:
            return self._blocks(low, self.axes[0])
        body = self.store(low, list(self.axes[-1:]))
        for axis in reversed(self.axes[:-1]):
            body = [For(Axis(axis, self.extent[axis]), "grid", tuple(body))]
        return body

    def _blocks(self, low: Lowering, axis: str) -> list[Stmt]:
        """One axis in all: blocks of it run in parallel."""
        size = (4 if self.target.threads else 64) * self.lanes
        outer = self.names.fresh(f"{axis}_t")
        tiled = Tiled(axis, self.extent[axis], imul(Var(outer), size), size)
        if isinstance(tiled.extent, Const) and int(tiled.extent.value) <= size:
            return self.store(low, [axis])
        low.tiled[axis] = tiled
        return [For(Axis(outer, ceildiv(self.extent[axis], size)), "grid", tuple(self.store(low, [axis])))]

    def store(self, low: Lowering, axes: list[str]) -> list[Stmt]:
        """out[…] := value over the given axes (the rest is fixed by loops outside), lanes along the last; for each output."""
        return [self._store(d, low.child(), [a for a in axes if a in d.axes]) for d in self.defs]

    def _store(self, d: Def, low: Lowering, axes: list[str]) -> Assign:
        loops: list[Loop] = []
        point: dict[str, Term] = {}
        once, guard = self._once(d, low), conj()
        for axis in axes[:-1]:
            loop = self.names.fresh(f"{axis}_o")
            loops.append(Loop(Axis(loop, self.extent[axis]), "seq"))
            low.tiled[axis] = Tiled(axis, self.extent[axis], Const(0), 1)
            point[axis] = Var(loop)
        for axis in axes[-1:]:
            inner, point[axis], guard = self._line(low, axis)
            loops += inner
        full = low.full(point)
        index = tuple(full.get(a, Var(a)) for a in d.axes)
        value = by_reciprocal(d.value, axes[-1]) if axes else d.value
        return Assign(tuple(loops), d.tensor.name, index, low.lower(value, point), conj(once, guard))

    def _tiles_along(self, axis: str, tile: int) -> Term:
        """How many tiles; one at least for an output that has not this axis, whatever the axis' extent."""
        count = ceildiv(self.extent[axis], tile)
        return count if all(axis in d.axes for d in self.defs) else canonical(Op("max", (ONE, count)))

    def _once(self, d: Def, low: Lowering) -> Term:
        """Of the tiles along an axis that the definition has not, the first one stores it."""
        return conj(*(Op("eq", (t.base, ZERO)) for a, t in low.tiled.items() if a not in d.axes and t.base != ZERO))

    def _line(self, low: Lowering, axis: str) -> tuple[list[Loop], Term, Term]:
        """Loops along one output axis, the local index that they make, and its guard."""
        tiled = low.tiled.get(axis)
        extent: Term = Const(tiled.tile) if tiled is not None else self.extent[axis]
        if not self._large(axis, self.lanes):
            block = self.names.fresh(f"{axis}_b")
            low.tiled.setdefault(axis, Tiled(axis, self.extent[axis], Const(0), 1))
            return [Loop(Axis(block, extent), "seq")], Var(block), TRUE
        copies = 2 if self._large(axis, 4 * self.lanes) else 1
        copies *= 2 if copies > 1 and self.folds_inside(low) else 1
        while tiled is not None and 1 < copies and copies * self.lanes > tiled.tile:
            copies //= 2
        block, copy, lane = (self.names.fresh(f"{axis}_{s}") for s in ("b", "u", "l"))
        width = copies * self.lanes
        local = iadd(imul(Var(block), width), Var(lane))
        loops = [Loop(Axis(block, ceildiv(extent, width)), "seq"), Loop(Axis(lane, Const(self.lanes)), "lane")]
        if copies > 1:
            local = iadd(local, imul(Var(copy), self.lanes))
            loops.insert(1, Loop(Axis(copy, Const(copies)), "unroll"))
        if tiled is None:
            low.tiled[axis] = Tiled(axis, self.extent[axis], Const(0), width)
        return loops, local, low.tiled[axis].valid(local)

    def folds_inside(self, low: Lowering) -> bool:
        """Whether the stored value still computes folds itself."""
        return any(key(f) not in low.stored for f in self.folds)

    # -- 4: one row an instance, lanes along the fold -------------------------------------------------------------------

    def _by_rows(self) -> list[Stmt]:
        rows, column = self._rows()
        low = Lowering(self.names)
        blocks = rows and len(rows) == len(self.axes) and self._independent() and self._large(rows[-1], 64)
        if blocks and len(self.defs) == 1 and not self.target.threads:
            return self._row_blocks(low, rows)
        if self.choice.splits > 1 and self._one_group(rows):
            from tang_verified.passes.schedule.split import split_rows

            return split_rows(self, rows)
        shape = Shape(None, 1, self.lanes)
        for axis in self.axes:
            if axis not in rows:
                tile = self.rounded(self.extent[axis], self.lanes, 256)
                low.tiled[axis] = Tiled(axis, self.extent[axis], Const(0), tile)
        if column is not None:
            grid = self.names.fresh(f"{column}_t")
            low.tiled[column] = Tiled(column, self.extent[column], imul(Var(grid), 256), 256)
        out: list[Stmt] = self._kept_row(low, rows) if self.choice.keep else []
        contractor = Contractor(self.target, self.lanes)
        for folds in self._groups(set(low.tiled)):
            if all(key(f) in low.stored for f in folds):
                continue
            out += self.group(low, shape, folds, contractor, tile=self.choice.tile or 1024)
        rest = [a for a in self.axes if a not in rows]
        for axis in rest:
            if axis != column:
                low.tiled.pop(axis, None)
        body = [*out, *self.store(low, rest)]
        if column is not None:
            body = [For(Axis(grid, self._tiles_along(column, 256)), "grid", tuple(body))]
        for axis in reversed(rows):
            body = [For(Axis(axis, self.extent[axis]), "grid", tuple(body))]
        return body

    def _rows(self) -> tuple[list[str], str | None]:
        """The axes of which each instance has one index, and the last axis if it is taken in tiles."""
        rows = [a for a in self.axes if all(a in free_vars(f) for f in self.folds)]
        some = [a for a in self.axes if a not in rows and any(a in free_vars(f) for f in self.folds) and self._large(a, 257)]
        column = some.pop() if some and some[-1] == self.axes[-1] else None  # what is too long for a buffer: in tiles,
        return [a for a in self.axes if a in rows or a in some], column  # or one by one

    def _independent(self) -> bool:
        return all(len(f.body) == 1 and not inner_folds(f) for f in self.folds) and not any(
            depends(a.body[0], b) for a in self.folds for b in self.folds if a is not b
        )

    def _kept_row(self, low: Lowering, rows: list[str]) -> list[Stmt]:
        """What a sum and the stored value both need of each element is computed once, into a buffer of one row:

            e[j] := exp(x[j] - m),   l := Σ_j e[j],   out[j] := e[j] / l
        """
        rest = [a for a in self.axes if a not in rows]
        if len(rest) != 1 or len(self.folds) != 2 or not self._joins([self.folds[0]], self.folds[1], set()):
            return []
        first, second = self.folds
        axis = second.axes[0]
        shared = substitute(second.body[0], {axis.name: Var(rest[0])})
        kept = depends(shared, first) and any(holds(d.value, shared) for d in self.defs)
        if len(second.axes) != 1 or second.guard != TRUE or not kept:
            return []
        out = self._whole(low, first)
        name, lanes = self.names.fresh("row"), self.lanes
        low.tiled[axis.name] = Tiled(axis.name, axis.extent, Const(0), lanes)
        b, lane = self.names.fresh(f"{axis.name}_b"), self.names.fresh(f"{axis.name}_l")
        dim = Dim(axis.name, ((b, ceildiv(axis.extent, lanes), "seq"), (lane, Const(lanes), "lane")))
        inside = low.tiled[axis.name].valid

        def value(p: Point) -> Term:
            return Op("select", (inside(p[axis.name]), low.lower(second.body[0], p), second.monoid.identity[0]))

        out += [alloc(name, self.dtype, (imul(ceildiv(axis.extent, lanes), lanes),)),
                assign(name, [dim], [b, lane], value, names=self.names)]  # fmt: skip
        low.store(second.body[0], name, lambda p: (p[axis.name],))
        low.store(shared, name, lambda p: (p[rest[0]],))
        lined, local, kinds = fold_lanes(self.names, axis.name, axis.extent, lanes)
        element = Op("select", (inside(local), Read(name, (local,), "real"), second.monoid.identity[0]))
        total = self.names.fresh("state")
        low.tiled.pop(axis.name)
        out += [alloc(total, self.dtype, ()),
                Assign((), total, (), Fold(second.monoid, lined, TRUE, (element,)), TRUE, tuple(kinds.items()))]  # fmt: skip
        low.store(second, total, lambda p: ())
        return out

    def _one_group(self, rows: list[str]) -> bool:
        beside = set(self.axes) - set(rows)
        return len(self._groups(beside)) == 1 and all(len(f.body) == 1 for f in self.folds)

    def _row_blocks(self, low: Lowering, rows: list[str]) -> list[Stmt]:
        """Several rows at once, each a stream of its own: memory answers more requests, and what they share is read once."""
        from tang_verified.passes.schedule.whole import laned

        axis, block = rows[-1], 16
        tile, sub, copy = (self.names.fresh(f"{axis}_{s}") for s in ("t", "b", "u"))
        low.tiled[axis] = Tiled(axis, self.extent[axis], imul(Var(tile), block), block)
        local = iadd(imul(Var(sub), 4), Var(copy))
        kinds: dict[str, Kind] = {}
        for fold in self.folds:
            low.inline[key(fold)] = laned(low, self.lanes, fold, kinds)
        point: Point = {axis: local}
        index = tuple(low.full(point).get(a, Var(a)) for a in self.axes)
        loops = (Loop(Axis(sub, Const(block // 4)), "seq"), Loop(Axis(copy, Const(4)), "unroll"))
        (d,) = self.defs
        value = low.lower(d.value, point)
        body: list[Stmt] = [Assign(loops, d.tensor.name, index, value, low.tiled[axis].valid(local), tuple(kinds.items()))]
        body = [For(Axis(tile, ceildiv(self.extent[axis], block)), "grid", tuple(body))]
        for other in reversed(rows[:-1]):
            body = [For(Axis(other, self.extent[other]), "grid", tuple(body))]
        return body

    def _groups(self, beside: set[str]) -> list[list[Fold]]:
        """Folds over the same extents, in order, as long as each can follow those before it.

        A fold that others follow has one state a row: it may not vary along the axes `beside` the row.
        """
        out: list[list[Fold]] = []
        for fold in self.folds:
            if len(fold.body) == 1 and out and self._joins(out[-1], fold, beside):
                out[-1].append(fold)
            else:
                out.append([fold])
        return out

    @staticmethod
    def _joins(group: list[Fold], fold: Fold, beside: set[str]) -> bool:
        if len(group[0].body) != 1 or len(fold.axes) != len(group[0].axes):
            return False
        if any(canonical(a.extent) != canonical(b.extent) for a, b in zip(fold.axes, group[0].axes, strict=True)):
            return False
        if any(free_vars(a.extent) & {b.name for b in fold.axes} for a in fold.axes):
            return False
        used = [g for g in group if depends(fold.body[0], g)]
        return not used or (not any(free_vars(g) & beside for g in used) and find_rebase(fold, group) is not None)

    def group(
        self, low: Lowering, shape: Shape, folds: list[Fold], contractor: Contractor, *, tile: int,
        beyond: Callable[[Group], tuple[Stmt, tuple[Carried, ...]]] | None = None,
    ) -> list[Stmt]:  # fmt: skip
        """One pass over the folds' axis; a single independent fold needs no running state. `beyond` is done with each
        tile, too."""
        first = folds[0]
        simple = len(folds) == 1 and shape.row is None
        if simple or len(first.body) != 1:
            return self._whole(low, first)
        axis = first.axes[0]
        extent = axis.extent
        if isinstance(extent, Const):
            tile = min(tile, self.rounded(extent, self.lanes, tile))
        group = Group(low, shape, folds, axis, tile, self.dtype)
        tensors = (*self.program.inputs, *(d.tensor for d in self.program.defs))
        group.dtypes = {t.name: t.dtype for t in tensors}
        group.lines = {t.name: t.shape[-1] for t in tensors if t.shape}
        bounds = self._tiles(group, shape)
        group.start_at(bounds[0])
        low.tiled[axis.name] = group.tiled
        before = dict(low.stored)
        columns = [a for a in low.tiled if a not in (axis.name, shape.row) and low.tiled[a].tile > 1]
        further = {a.name: a.extent for state in group.states for a in state.fold.axes[1:]}
        for name, whole in further.items():
            if isinstance(whole, Const):
                low.tiled[name] = Tiled(name, whole, ZERO, int(whole.value))
        for state in group.states:
            if shape.row is not None and state.extra:
                state.split = contraction(state.fold, [shape.row, *columns], state.extra)
            for moment in state.moments:
                moment.extra = state.extra
        body = group.body(contractor.tiles, contractor.update)
        loop = group.loop_statement(bounds[1], body)
        if beyond is not None:
            more, carried = beyond(group)
            loop = replace(loop, body=(*loop.body, more), carried=(*loop.carried, *carried))
        hoisted, contractor.hoisted = contractor.hoisted, []
        for name in (axis.name, *further):
            low.tiled.pop(name, None)
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
            for part in conjuncts(group.folds[0].guard):
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

    def sizes(self, split: Contraction) -> tuple[int, int, int]:
        """Rows and columns of a tile, and the elements of a fold's tile."""
        online = any(inner_folds(f) for f in self.folds) or any(
            depends(a.body[0], b) for a in self.folds for b in self.folds if a is not b
        )
        fold_extent = self.folds[-1].axes[0].extent
        if self.target.threads:
            rows, columns, tile = 32, self.rounded(self.extent[split.column], self.lanes, 128 if online else 64), 16
        elif online:
            rows = 4 * self.lanes if self.lanes >= 16 else 48  # 64 divides 1024; six vectors a row of tiles spill
            columns, tile = self.rounded(self.extent[split.column], self.lanes, 256), 128
        else:
            alone = any(not free_vars(f) & set(self.columns(split)) for f in self.folds)  # their lanes lie along the rows
            step = lcm(6, self.lanes) if alone else 6
            rows = self.rounded(self.extent[split.row], step, 174 // step * step)  # little is wasted at 512, 1024, 2048, …
            columns = self.rounded(self.extent[split.column], 4 * self.lanes, 8 * 4 * self.lanes)
            tile = self.rounded(fold_extent, self.lanes, 256)
        return self.choice.rows or rows, self.choice.columns or columns, self.choice.tile or tile

    def _tiled(self, split: Contraction) -> list[Stmt]:
        for crossed in self.crossings:
            if crossed is None or len(self.crossings) > 1:
                raise LookupError("a definition that does not run across the others")
            return pass_across(self, split, crossed)
        rows, columns, tile = self.sizes(split)
        low = Lowering(self.names)
        row_tile, column_tile = self.names.fresh(f"{split.row}_t"), self.names.fresh(f"{split.column}_t")
        row = Tiled(split.row, self.extent[split.row], imul(Var(row_tile), rows), rows)
        column = Tiled(split.column, self.extent[split.column], imul(Var(column_tile), columns), columns)
        single = isinstance(column.extent, Const) and int(column.extent.value) <= columns
        if single:
            column = Tiled(split.column, column.extent, Const(0), columns)
        low.tiled = {split.row: row, split.column: column, **self.beside_tiles()}
        shape = Shape(split.row, rows, self.lanes)
        contractor = Contractor(self.target, self.lanes)
        body: list[Stmt] = []
        for folds in self._groups(set(self.columns(split))):
            body += self.group(low, shape, folds, contractor, tile=tile)
        body += self.tile_stores(low, row, column)
        if not single:
            body = [For(Axis(column_tile, self._tiles_along(split.column, columns)), "grid", tuple(body))]
        body = [For(Axis(row_tile, ceildiv(row.extent, rows)), "grid", tuple(body))]
        for axis in reversed([a for a in self.axes if a not in (split.row, split.column)]):
            body = [For(Axis(axis, self.extent[axis]), "grid", tuple(body))]
        return body

    def beside_tiles(self) -> dict[str, Tiled]:
        """The columns that only some definitions have, each in one tile."""
        return {a: Tiled(a, self.extent[a], ZERO, self.rounded(self.extent[a], self.lanes, self.WIDEST)) for a in self.beside}

    def tile_stores(self, low: Lowering, row: Tiled, column: Tiled) -> list[Stmt]:
        """A tile of each output."""
        own = [next((low.tiled[a] for a in d.axes if a in self.beside), column) for d in self.defs]
        return [self._tile_store(d, low, row, column) for d, column in zip(self.defs, own, strict=True)]

    def columns(self, split: Contraction) -> list[str]:
        return [split.column, *self.beside]

    def _tile_store(self, d: Def, low: Lowering, row: Tiled, column: Tiled) -> Assign:
        """A tile of one output; of rows alone, lanes along them, if it has no columns."""
        r, b, lane = (self.names.fresh(f"{n}_{s}") for n, s in ((row.name, "o"), (column.name, "o"), (column.name, "w")))
        local = iadd(imul(Var(b), self.lanes), Var(lane))
        point: Point = {row.name: Var(r), column.name: local}
        guard = conj(self._once(d, low), row.valid(Var(r)), column.valid(local))
        rows = Loop(Axis(r, Const(row.tile)), "seq")
        lines = (Loop(Axis(b, Const(column.tile // self.lanes)), "seq"), Loop(Axis(lane, Const(self.lanes)), "lane"))
        loops: tuple[Loop, ...] = (rows, *lines)
        if column.name not in d.axes:
            lanes = self.lanes if row.tile % self.lanes == 0 else 1
            point = {row.name: iadd(imul(Var(b), lanes), Var(lane))}
            guard = conj(self._once(d, low), row.valid(point[row.name]))
            loops = (Loop(Axis(b, Const(row.tile // lanes)), "seq"), Loop(Axis(lane, Const(lanes)), "lane"))
        full = low.full(point)
        index = tuple(full.get(a, Var(a)) for a in d.axes)
        value = by_reciprocal(d.value, column.name)
        return Assign(loops, d.tensor.name, index, low.lower(value, point), guard)

    def rounded(self, extent: Term, step: int, most: int) -> int:
        """The extent rounded up to a multiple of `step`, at most `most` (which it is when the extent is symbolic)."""
        if not isinstance(extent, Const):
            return most
        value = max(1, int(extent.value))
        return min(most, -(-value // step) * step)


def by_reciprocal(term: Term, axis: str) -> Term:
    """a / b -> a·(1 / b) where b is the same all along the axis: one division a row. Equal in the reals, b = 0 included."""
    match term:
        case Op("div", (a, b)) if axis in free_vars(a) and axis not in free_vars(b) and not isinstance(b, Const):
            return Op("mul", (by_reciprocal(a, axis), Op("div", (REAL_ONE, b))))
        case Op(name, args):
            return Op(name, tuple(by_reciprocal(arg, axis) for arg in args))
        case _:
            return term


class Unplanned(LookupError):
    """A group of definitions that no schedule was found for."""

    def __init__(self, kernel: str, problem: LookupError) -> None:
        super().__init__(str(problem))
        self.place = f"kernel {kernel}/schedule"


def kernel_name(program: Program, outputs: tuple[str, ...]) -> str:
    """The outputs' names, joined; the first's alone where that is another definition's already, or long."""
    joined = "_".join(outputs)
    taken = {d.tensor.name for d in program.defs if d.tensor.name not in outputs[:1]}
    return outputs[0] if joined in taken or len(joined) > LONGEST else joined


def plan(
    program: Program, target: Target, choices: Mapping[str, Choice] | None = None, groups: Sequence[Together] | None = None
) -> tuple[Kernel, ...]:  # fmt: skip
    """One kernel a group (`together`'s, unless others are given), in order. Raises `Unplanned`."""
    made = []
    choices = choices or {}
    for group in together(program, target, choices) if groups is None else groups:
        try:
            made.append(_kernel(program, group, target, common_choice(group, choices) or Choice()))
        except LookupError as problem:
            raise Unplanned(kernel_name(program, tuple(d.tensor.name for d in group)), problem) from None
    return tuple(made)


def common_choice(group: Together, choices: Mapping[str, Choice]) -> Choice | None:
    """How a group is scheduled: as all its definitions are, in the simplest style of theirs; None if they differ."""
    own = [choices.get(d.tensor.name, Choice()) for d in group]
    style = max((choice.style for choice in own), key=STYLES.index)
    alike = {replace(choice, style=style) for choice in own}
    return alike.pop() if len(alike) == 1 else None


def _kernel(program: Program, group: Together, target: Target, choice: Choice) -> Kernel:
    if not target.threads:
        return Planner(program, group, target, choice).kernel()
    from tang_verified.passes.schedule.gpu.plan import gpu_kernel

    return gpu_kernel(program, group, target, choice)


__all__ = ["Choice", "Dim", "Planner", "Unplanned", "assign", "children", "plan"]
