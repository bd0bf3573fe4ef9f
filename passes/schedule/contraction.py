"""Σ_k x[r, k]·y[k, c] over packed operands: the register-tiled inner loop that everything dense ends in.

    pack   y[cb, k, n] := right(k0 + k, c0 + NR·cb + n)           zero where out of range, so no guard is left inside
    update acc[r, c]   := acc[r, c] + Σ_{k<T} x[r, k]·y[k, c]     r = MR·rb + ru,  c = NR·cb + V·cv + lane

Per k the inner body loads NR/V vectors of y and broadcasts MR elements of x for MR·NR/V multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tang_verified.passes.schedule.analysis import Contraction, all_folds, cheap, contraction, holds, inner_folds, key
from tang_verified.passes.schedule.gpu.tensor import unit_update
from tang_verified.passes.schedule.group import Group, State
from tang_verified.passes.schedule.lower import Dim, Lowering, Names, Point, alloc, assign
from tang_verified.passes.schedule.target import Target, micro_tile
from tang_verified.passes.schedule.whole import laned
from tang_verified.semantics.build import conj, iadd, imul
from tang_verified.semantics.kernel import Kind, Stmt
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import ONE, REAL_ZERO, TRUE, Axis, Const, Fold, Op, Read, Term, Var, children, free_vars


class Contractor:
    """Emits tiles and packed updates for one kernel."""

    def __init__(self, target: Target, lanes: int) -> None:
        self.target, self.lanes = target, lanes
        self.hoisted: list[Stmt] = []  # packs that do not depend on the tile

    # -- tiles of shared terms ----------------------------------------------------------------------------------------

    def tiles(self, group: Group, terms: list[Term]) -> list[Stmt]:
        """A buffer [tile, rows] for each term, zero (or the pad its fold wants) outside the domain."""
        out: list[Stmt] = []
        further = {a.name for state in group.every_state() for a in state.fold.axes if a.name != group.axis.name}
        for term in terms:
            if free_vars(term) & further:
                continue  # a tile has no place for what changes along the folds' other axes
            kinds: dict[str, Kind] = {}
            for inner in inner_folds(Fold(group.folds[0].monoid, (group.axis,), TRUE, (term,))):
                out += self._inner(group, inner, kinds)
            operand = any(s.split is not None and key(s.split.left) == key(term) for s in group.every_state())
            if operand or not (all_folds(term) and all(key(f) in group.low.stored for f in all_folds(term)) and cheap(term)):
                out += self._tile(group, term, kinds)
        return out

    def _pad(self, group: Group, term: Term) -> tuple[Term, Fold]:
        """The identity of the fold whose element the term is; zero for an operand of a product, or a part of elements."""
        for state in group.every_state():
            if key(state.fold.body[0]) == key(term):
                return state.fold.monoid.identity[0], state.fold
        for state in group.every_state():
            if state.split is not None and key(state.split.left) == key(term):
                return REAL_ZERO, state.fold
        folds = [state.fold for state in group.every_state() if holds(state.fold.body[0], term)]
        alike = len({key(fold.guard) for fold in folds}) == 1
        return REAL_ZERO, folds[0] if alike else replace(folds[0], guard=TRUE)

    def _tile(self, group: Group, term: Term, kinds: dict[str, Kind]) -> list[Stmt]:
        low, axis = group.low, group.axis.name
        name = low.names.fresh("tile")
        pad, fold = self._pad(group, term)
        rows = group.shape.plain_rows()
        uses_row = bool(rows) and rows[0] in free_vars(term) | free_vars(fold.guard)
        dims, order = self._tile_dims(group, term, uses_row)
        low_before = low.child()

        def value(p: Point) -> Term:
            return Op("select", (group.inside(fold, p), low_before.lower(term, p), pad))

        if not uses_row:

            def value(p: Point) -> Term:
                here = conj(group.tiled.valid(p[axis]), low.lower(fold.guard, p))
                return Op("select", (here, low_before.lower(term, p), pad))

        statement = assign(name, dims, order, value, kinds=kinds, names=low.names)
        shape = (group.tile, group.shape.rows) if uses_row else (group.tile,)
        low.store(term, name, (lambda p: (p[axis], p[rows[0]])) if uses_row else (lambda p: (p[axis],)))
        group.padded[name] = pad
        return [alloc(name, group.dtype, shape), statement]

    def _tile_dims(self, group: Group, term: Term, uses_row: bool) -> tuple[list[Dim], list[str]]:
        low, axis = group.low, group.axis.name
        c, u = low.names.fresh(f"{axis}_b"), low.names.fresh(f"{axis}_u")
        if uses_row:
            column = Dim(axis, ((c, Const(group.tile), "seq"),))
            row = group.shape.row_dims(low)[0]
            return [column, row], [name for name, _, _ in column.parts] + [name for name, _, _ in row.parts]
        if _computes(low, term):
            return [Dim(axis, ((c, Const(group.tile), "seq"),))], [c]
        lanes = Dim(axis, ((c, Const(group.tile // self.lanes), "seq"), (u, Const(self.lanes), "lane")))
        return [lanes], [c, u]

    # -- a contraction inside the tile: s[c, r] = Σ_d k[c, d] q[d, r] ----------------------------------------------------

    def _inner(self, group: Group, inner: Fold, kinds: dict[str, Kind]) -> list[Stmt]:
        low, axis = group.low, group.axis.name
        if group.shape.row is None and key(inner) not in low.stored and len(inner.body) == 1:
            low.inline[key(inner)] = laned(low, self.lanes, inner, kinds)
        if key(inner) in low.stored or group.shape.row is None:
            return []
        row = group.shape.row
        if row not in free_vars(inner) and len(inner.body) == 1:
            return self._beside(group, inner, kinds)
        split = contraction(inner, [axis, row], [row]) if len(inner.axes) == 1 else None
        if split is None or axis in free_vars(split.right) or axis in free_vars(inner.axes[0].extent):
            return []
        own = inner.axes[0]
        left, right = low.names.fresh("left"), low.names.fresh("right")
        self.hoisted += self._pack_rows(group, split, own, right)
        out = self._copy_tile(group, split, own, left, inner)

        k = low.names.fresh(f"{own.name}_k")

        def value(p: Point) -> Term:
            x = Read(left, (p[axis], Var(k)), "real")
            y = Read(right, (Var(k), p[row]), "real")
            return Fold(inner.monoid, (Axis(k, own.extent),), TRUE, (Op("mul", (x, y)),))

        # No guard around the fold: its operands are padded, so every cell can be computed, and the register tile is whole.
        height = micro_tile(self.target, self.lanes, group.tile, group.shape.rows)[0]
        c, u = low.names.fresh(f"{axis}_b"), low.names.fresh(f"{axis}_u")
        column = Dim(axis, ((c, Const(group.tile // height), "seq"), (u, Const(height), "unroll")))
        line = group.shape.row_dims(low)[0]
        raw = low.names.fresh("raw")
        order = [name for dim in (column, line) for name, _, _ in dim.parts]
        shape = (group.tile, group.shape.rows)
        out += [alloc(raw, group.dtype, shape), assign(raw, [column, line], order, value, names=low.names)]
        low.store(inner, raw, lambda p: (p[axis], p[row]))
        return out

    def _beside(self, group: Group, inner: Fold, kinds: dict[str, Kind]) -> list[Stmt]:
        """d[c] := a fold that depends on the tile's axis alone, once for all rows."""
        low, axis = group.low, group.axis.name
        name, c = low.names.fresh("beside"), low.names.fresh(f"{axis}_b")
        own: dict[str, Kind] = {}
        fold = laned(low.child(), self.lanes, inner, own)

        def value(p: Point) -> Term:
            return Op("select", (group.tiled.valid(p[axis]), fold(p), inner.monoid.identity[0]))

        dims = [Dim(axis, ((c, Const(group.tile), "seq"),))]
        statement = assign(name, dims, [c], value, kinds=own, names=low.names)
        low.store(inner, name, lambda p: (p[axis],))
        return [alloc(name, group.dtype, (group.tile,)), statement]

    def _pack_rows(self, group: Group, split: Contraction, own: Axis, name: str) -> list[Stmt]:
        """right[k, r], lanes along the rows; it does not depend on the tile."""
        low, row = group.low, group.shape.row or ""
        k = low.names.fresh(f"{own.name}_k")
        dims = [Dim("k", ((k, own.extent, "seq"),)), *group.shape.row_dims(low)]

        def value(p: Point) -> Term:
            at = {row: p[row]}
            element = low.lower(_rename(split.right, own.name, p["k"]), at)
            return Op("select", (low.tiled[row].valid(p[row]), element, REAL_ZERO))

        order = [name_ for dim in dims for name_, _, _ in dim.parts]
        return [alloc(name, group.dtype, (own.extent, group.shape.rows)), assign(name, dims, order, value, names=low.names)]

    def _copy_tile(self, group: Group, split: Contraction, own: Axis, name: str, inner: Fold) -> list[Stmt]:
        """left[c, k], lanes along k where its extent allows."""
        low, axis = group.low, group.axis.name
        c = Dim(axis, ((low.names.fresh(f"{axis}_c"), Const(group.tile), "seq"),))
        k = self._line(low.names.fresh, own)

        def value(p: Point) -> Term:
            element = low.lower(_rename(split.left, own.name, p["k"]), {axis: p[axis]})
            return Op("select", (group.tiled.valid(p[axis]), element, REAL_ZERO))

        order = [part for dim in (c, k) for part, _, _ in dim.parts]
        statement = assign(name, [c, k], order, value, names=low.names)
        return [alloc(name, group.dtype, (group.tile, own.extent)), statement]

    def _line(self, fresh: Callable[[str], str], own: Axis) -> Dim:
        if isinstance(own.extent, Const) and int(own.extent.value) % self.lanes == 0:
            parts = ((fresh(f"{own.name}_b"), Const(int(own.extent.value) // self.lanes), "seq"),
                     (fresh(f"{own.name}_l"), Const(self.lanes), "lane"))  # fmt: skip
            return Dim("k", parts)  # type: ignore[arg-type]
        return Dim("k", ((fresh(f"{own.name}_b"), own.extent, "seq"),))

    # -- the packed update ----------------------------------------------------------------------------------------------

    def update(self, group: Group, state: State, scaled: Callable[[Point], Term] | None) -> list[Stmt]:
        """acc[r, c] := H(acc[r, c]) + Σ_{k<T} x[r, k]·y[k, c]; x is stored already or copied first."""
        split, low, axis = state.split, group.low, group.axis.name
        if split is None:
            raise TypeError("no contraction")
        if scaled is None and (made := unit_update(self, group, state)) is not None:
            return made
        out: list[Stmt] = []
        if key(split.left) not in low.stored:
            out += self.copy_left(group, state, split, group.dtype)
        column = low.tiled[split.column]
        rows = low.tiled[split.row].tile
        height, vectors = micro_tile(self.target, self.lanes, rows, column.tile)
        width = vectors * self.lanes
        right = self._right(group, state, split, column.tile // width, vectors, out)
        rb, ru = low.names.fresh(f"{split.row}_b"), low.names.fresh(f"{split.row}_u")
        cb, cv, cl = (low.names.fresh(f"{split.column}_{s}") for s in ("b", "v", "l"))
        row = Dim(split.row, ((rb, Const(rows // height), "seq"), (ru, Const(height), "unroll")))
        col = Dim(split.column, ((cb, Const(column.tile // width), "seq"), (cv, Const(vectors), "unroll"),
                                 (cl, Const(self.lanes), "lane")))  # fmt: skip
        axes = tuple(Axis(low.names.fresh(f"{a.name}_k"), Const(group.tile) if a.name == axis else a.extent)
                     for a in state.fold.axes)  # fmt: skip
        inner = {a.name: Var(k.name) for a, k in zip(state.fold.axes, axes, strict=True)}

        def value(p: Point) -> Term:
            before = scaled(p) if scaled is not None else group.read(state.buffer, state, p)
            x = low.lower(split.left, {**p, **inner})
            y = Read(right, (Var(cb), *inner.values(), Var(cv), Var(cl)), "real")
            return Op("add", (before, Fold(state.fold.monoid, axes, TRUE, (Op("mul", (x, y)),))))

        after = group.limit(iadd(Var(group.loop), ONE))
        order = [cb, rb, ru, cv, cl]
        out.append(assign(state.buffer, [row, col], order, value, names=low.names,
                          claim=lambda p: group.claim(state.fold, after, p)))  # fmt: skip
        return out

    def copy_right(self, group: Group, state: State, split: Contraction, dtype: DType, out: list[Stmt]) -> str:
        """right[k, c] as it lies in memory, zero outside; its name."""
        low, axis = group.low, group.axis.name
        name, column = low.names.fresh("right"), low.tiled[split.column]
        k = low.names.fresh(f"{axis}_b")
        b, lane = low.names.fresh(f"{split.column}_b"), low.names.fresh(f"{split.column}_l")
        parts: tuple[tuple[str, Term, Kind], ...] = (
            (b, Const(column.tile // self.lanes), "seq"), (lane, Const(self.lanes), "lane"),
        )  # fmt: skip
        dims = [Dim(axis, ((k, Const(group.tile), "seq"),)), Dim(split.column, parts)]

        def value(p: Point) -> Term:
            return self.right_element(group, state, split, p)

        out += [alloc(name, dtype, (group.tile, column.tile)), assign(name, dims, [k, b, lane], value, names=low.names)]
        return name

    def right_element(self, group: Group, state: State, split: Contraction, at: Point) -> Term:
        """The right operand at a point of the tile, zero outside."""
        low = group.low
        inside = conj(group.tiled.valid(at[group.axis.name]), low.tiled[split.column].valid(at[split.column]))
        if split.column in free_vars(state.fold.guard):
            inside = conj(inside, low.lower(state.fold.guard, at))
        return Op("select", (inside, low.lower(split.right, at), REAL_ZERO))

    def copy_left(self, group: Group, state: State, split: Contraction, dtype: DType) -> list[Stmt]:
        """left[r, k…] as it lies in memory, zero outside."""
        low, axis = group.low, group.axis.name
        name = low.names.fresh("left")
        row = Dim(split.row, ((low.names.fresh(f"{split.row}_c"), Const(low.tiled[split.row].tile), "seq"),))
        dims = [row, *self._fold_dims(group, state, lanes=True)]

        def value(p: Point) -> Term:
            inside = conj(low.tiled[split.row].valid(p[split.row]), group.tiled.valid(p[axis]))
            if split.row in free_vars(state.fold.guard) or split.column not in free_vars(state.fold.guard):
                inside = conj(inside, low.lower(state.fold.guard, p))
            return Op("select", (inside, low.lower(split.left, p), REAL_ZERO))

        order = [part for dim in dims for part, _, _ in dim.parts]
        shape = (low.tiled[split.row].tile, *(group.tile if a.name == axis else a.extent for a in state.fold.axes))
        statement = assign(name, dims, order, value, names=low.names)
        names = [a.name for a in state.fold.axes]
        low.store(split.left, name, lambda p: (p[split.row], *(p[a] for a in names)))
        return [alloc(name, dtype, shape), statement]

    def _fold_dims(self, group: Group, state: State, *, lanes: bool) -> list[Dim]:
        low, out = group.low, []
        only = len(state.fold.axes) == 1
        for a in state.fold.axes:
            if a.name == group.axis.name and lanes and only and group.tile % self.lanes == 0:
                b, lane = low.names.fresh(f"{a.name}_b"), low.names.fresh(f"{a.name}_l")
                kind: Kind = "lane"
                out.append(Dim(a.name, ((b, Const(group.tile // self.lanes), "seq"), (lane, Const(self.lanes), kind))))
            else:
                extent = Const(group.tile) if a.name == group.axis.name else a.extent
                out.append(Dim(a.name, ((low.names.fresh(f"{a.name}_b"), extent, "seq"),)))
        return out

    def packed(
        self, names: Names, name: str, dtype: DType, column: str, sides: tuple[int, int], extents: tuple[Term, ...],
        inner: Callable[[], list[Dim]], value: Callable[[Point, Term], Term],
    ) -> list[Stmt]:  # fmt: skip
        """name[cb, k…, cv, lane] := value at k… and the local column, for (blocks, vectors) = sides: declared and filled."""
        (blocks, vectors), lanes = sides, self.lanes
        cb, cv, cl = (names.fresh(f"{column}_{s}") for s in ("b", "v", "l"))
        between = inner()
        local = iadd(imul(Var(cb), vectors * lanes), iadd(imul(Var(cv), lanes), Var(cl)))
        dims = [Dim("cb", ((cb, Const(blocks), "seq"),)), *between,
                Dim("cv", ((cv, Const(vectors), "unroll"),)), Dim("cl", ((cl, Const(lanes), "lane"),))]  # fmt: skip
        order = [cb, *(part for dim in between for part, _, _ in dim.parts), cv, cl]
        filled = assign(name, dims, order, lambda p: value(p, local), names=names)
        return [alloc(name, dtype, (blocks, *extents, vectors, lanes)), filled]

    def _right(self, group: Group, state: State, split: Contraction, blocks: int, vectors: int, out: list[Stmt]) -> str:
        """right[cb, k…, cv, lane], packed once a tile and shared by updates that use the same operand."""
        low, axis = group.low, group.axis.name
        tag = key(Op("mul", (split.right, Read("packed", (Const(blocks), Const(vectors)), "real"))))
        if tag in low.stored:
            return low.stored[tag].buffer
        name = low.names.fresh("right")

        def value(p: Point, local: Term) -> Term:
            at = {**{a.name: p[a.name] for a in state.fold.axes}, split.column: local}
            return self.right_element(group, state, split, at)

        extents = tuple(Const(group.tile) if a.name == axis else a.extent for a in state.fold.axes)
        out += self.packed(low.names, name, group.dtype, split.column, (blocks, vectors), extents,
                           lambda: self._fold_dims(group, state, lanes=False), value)  # fmt: skip
        low.stored[tag] = type(next(iter(low.stored.values())))(name, lambda p: (), "real")
        return name


def _computes(low: Lowering, term: Term) -> bool:
    """Whether lowering the term still computes a fold."""
    if key(term) in low.stored:
        return False
    return isinstance(term, Fold) or any(_computes(low, part) for part in children(term))



def _rename(term: Term, axis: str, value: Term) -> Term:
    from tang_verified.semantics.terms import substitute

    return substitute(term, {axis: value})
