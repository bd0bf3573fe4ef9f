"""Row folds over one axis, computed together in one pass over tiles of that axis.

    for t < E carrying m[r] = max_{j < tT} a, l[r] = Σ_{j < tT} exp(a - m_t), acc[r, e] = Σ_{j < tT} exp(a - m_t) v:
        s[c, r]    := a(tT + c)                       what the tile's elements have in common
        new m      := max(m, max_c s)
        scale[r]   := exp(m - new m)                  (0 while m is -inf)
        p[c, r]    := exp(s - new m)
        l, acc     := l·scale + Σ_c p,  acc·scale + Σ_c p v

A fold that depends on no other of the group is only extended; one that does is re-based (`rebase.py`). The claims are the
folds themselves over the prefix of the tiles done so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tang_verified.passes.schedule.analysis import Contraction, all_folds, depends, has_special, key, renamed
from tang_verified.passes.schedule.lower import Dim, Lowering, Names, Point, Tiled, alloc, assign
from tang_verified.passes.schedule.rebase import Rebase, factor_between, find_rebase, replace_terms, running
from tang_verified.semantics.build import canonical, ceildiv, conj, floordiv, iadd, imul, lt, mod
from tang_verified.semantics.kernel import Alloc, Assign, Carried, Claim, For, Kind, Stmt
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import ONE, TRUE, Axis, Const, Fold, Op, Read, Term, Var, children, free_vars, sort_of

COPIES = 4  # partial states of a vectorised fold: enough to hide the latency of one addition


def fold_lanes(names: Names, axis: str, extent: Term, lanes: int) -> tuple[tuple[Axis, ...], Term, dict[str, Kind]]:
    """Axes (block, copy, lane) for a fold over `extent` elements, the index they make, and their kinds."""
    short = isinstance(extent, Const) and int(extent.value) % (COPIES * lanes) != 0
    copies = 1 if short else COPIES
    block, copy, lane = (names.fresh(f"{axis}_{s}") for s in ("c", "u", "v"))
    local = iadd(imul(Var(block), copies * lanes), Var(lane))
    axes = [Axis(block, ceildiv(extent, copies * lanes)), Axis(lane, Const(lanes))]
    kinds: dict[str, Kind] = {block: "seq", lane: "lane"}
    if copies > 1:
        local = iadd(local, imul(Var(copy), lanes))
        axes.insert(1, Axis(copy, Const(copies)))
        kinds[copy] = "unroll"
    return tuple(axes), local, kinds


@dataclass
class State:
    """A running fold: its buffer, and how it follows the others."""

    fold: Fold
    buffer: str
    rebase: Rebase | None
    extra: list[str]  # output axes that it has besides the row
    split: Contraction | None = None
    moments: list[State] = field(default_factory=list)


@dataclass
class Shape:
    """How a tile is laid over rows and lanes; the two instances are `ByRow` and `ByFold` in `tiles.py`."""

    row: str | None  # the tiled row axis, or None when each kernel instance has one row
    rows: int
    lanes: int

    def row_dims(self, low: Lowering) -> list[Dim]:
        if self.row is None:
            return []
        b, lane = low.names.fresh(f"{self.row}_b"), low.names.fresh(f"{self.row}_l")
        parts = ((b, Const(self.rows // self.lanes), "unroll"), (lane, Const(self.lanes), "lane"))
        return [Dim(self.row, parts)]  # type: ignore[arg-type]

    def plain_rows(self) -> list[str]:
        return [] if self.row is None else [self.row]


class Group:
    """Emits one pass for folds that share an axis."""

    def __init__(self, low: Lowering, shape: Shape, folds: list[Fold], axis: Axis, tile: int, dtype: DType) -> None:
        self.low, self.shape, self.dtype = low, shape, dtype
        self.axis, self.tile = axis, tile
        self.loop = low.names.fresh(f"{axis.name}_t")
        self.tiled = Tiled(axis.name, axis.extent, imul(Var(self.loop), tile), tile)
        self.folds = [renamed(f, (axis.name, *(a.name for a in f.axes[1:]))) for f in folds]
        self.states = [self._state(f, k) for k, f in enumerate(self.folds)]
        self.first: Term = Const(0)  # tiles skipped at the start
        self.part: Term = TRUE  # which elements of the axis this pass takes
        self.step = 1  # it takes every step-th tile
        self.current: dict[Term, str] = {}
        self.padded: dict[str, Term] = {}  # tile buffers that hold this value outside the fold's domain
        self.dtypes: Mapping[str, DType] = {}  # of the program's tensors,
        self.lines: Mapping[str, Term] = {}  # and the extents of their last axes
        self.scales: dict[Term, str] = {}  # driver -> the buffer of its factor or difference

    def start_at(self, first: Term) -> None:
        """Skip tiles at the start."""
        self.first = first
        self.tiled = Tiled(self.axis.name, self.axis.extent, self.limit(Var(self.loop)), self.tile)

    def take_part(self, part: Term, parts: int) -> None:
        """Take tiles part, part + parts, part + 2·parts, …: the elements j with (j // tile) % parts = part."""
        number = mod(floordiv(Var(self.axis.name), self.tile), parts)
        self.part, self.step = Op("eq", (number, part)), parts
        base = iadd(imul(Var(self.loop), self.tile * parts), imul(part, self.tile))
        self.tiled = Tiled(self.axis.name, self.axis.extent, base, self.tile)

    def _state(self, fold: Fold, k: int) -> State:
        drivers = self.folds[:k]
        rebase = find_rebase(fold, drivers) if any(depends(fold.body[0], d) for d in drivers) else None
        extra = [a for a in self.low.tiled if a in free_vars(fold) and a not in self.shape.plain_rows() and self._is_tile(a)]
        state = State(fold, self.low.names.fresh("state"), rebase, extra)
        if rebase is not None:
            state.moments = [State(f, self.low.names.fresh("moment"), None, extra) for f in rebase.lower]
        return state

    def _is_tile(self, axis: str) -> bool:
        return self.low.tiled[axis].tile > 1

    # -- claims -----------------------------------------------------------------------------------------------------

    def prefix(self, fold: Fold, limit: Term) -> Fold:
        """The fold over the elements before `limit`, everything it depends on likewise, for valid rows only."""
        table: dict[Term, Term] = {}
        for state in self.states:
            if key(state.fold) == key(fold):
                break
            if depends(fold.body[0], state.fold):
                table[key(state.fold)] = self.prefix(state.fold, limit)
        body = fold.body[0]
        for state in self.states:
            r = state.rebase
            if r is not None and not r.exponential and depends(body, r.driver):
                body = replace_terms(body, {key(r.centre): running(r.centre, r.driver, limit)})
                break
        body = replace_terms(body, table) if table else body
        before = Op("lt", (Var(self.axis.name), limit))
        return Fold(fold.monoid, fold.axes, conj(fold.guard, self.part, before), (body,))

    def rows_valid(self, point: Point) -> Term:
        return conj(*(self.low.tiled[name].valid(local) for name, local in point.items() if name != self.axis.name))

    def claim(self, fold: Fold, limit: Term, point: Point) -> Term:
        """The running value in kernel terms."""
        said = self.low.spec(self.prefix(fold, limit), point)
        if not isinstance(said, Fold):
            raise TypeError("a running value is a fold")
        return canonical(Fold(said.monoid, said.axes, conj(self.rows_valid(point), said.guard), said.body))

    def limit(self, tiles: Term) -> Term:
        return imul(iadd(self.first, tiles), self.tile * self.step)

    # -- statements -------------------------------------------------------------------------------------------------

    def every_state(self) -> list[State]:
        return [s for state in self.states for s in (*state.moments, state)]

    def dims(self, state: State, order: list[str]) -> list[Dim]:
        """Row dims, then the extra output axes; lanes along the last of these, or along the row when there is none."""
        dims = self.shape.row_dims(self.low)
        if state.extra and self.shape.row is not None:
            name = self.low.names.fresh(f"{self.shape.row}_b")
            dims = [Dim(self.shape.row, ((name, Const(self.shape.rows), "seq"),))]
        for axis in state.extra:
            tiled = self.low.tiled[axis]
            names = [self.low.names.fresh(f"{axis}_{s}") for s in ("b", "l")]
            lanes = self.shape.lanes if tiled.tile % self.shape.lanes == 0 else 1
            last = axis == state.extra[-1]
            kind: Kind = "lane" if last and lanes > 1 else "seq"
            if lanes > 1 and last:
                dims.append(Dim(axis, ((names[0], Const(tiled.tile // lanes), "seq"), (names[1], Const(lanes), kind))))
            else:
                dims.append(Dim(axis, ((names[0], Const(tiled.tile), "seq"),)))
        order += _order(dims)
        return dims

    def prologue(self) -> list[Stmt]:
        out: list[Stmt] = []
        for state in self.every_state():
            shape = [self.shape.rows] * (self.shape.row is not None) + [self.low.tiled[a].tile for a in state.extra]
            out.append(alloc(state.buffer, self.dtype, tuple(shape)))
            identity = state.fold.monoid.identity[0]
            order: list[str] = []
            dims = self.dims(state, order)
            out.append(assign(state.buffer, dims, order, lambda p, identity=identity: identity, names=self.low.names))  # type: ignore[misc]
        return out

    def carried(self) -> tuple[Carried, ...]:
        out = []
        for state in self.every_state():
            point: dict[str, Term] = {a: Var(self.low.names.fresh("x")) for a in [*self.shape.plain_rows(), *state.extra]}
            index = tuple(v.name for v in point.values())  # type: ignore[union-attr]
            out.append(Carried(state.buffer, Claim(index, self.claim(state.fold, self.limit(Var(self.loop)), point))))
        return tuple(out)

    def read(self, buffer: str, state: State, point: Point) -> Term:
        index = tuple(point[a] for a in [*self.shape.plain_rows(), *state.extra])
        return Read(buffer, index, sort_of(state.fold))

    def inside(self, fold: Fold, point: Point) -> Term:
        """Whether an element of the tile belongs to the fold."""
        return conj(self.rows_valid(point), self.tiled.valid(point[self.axis.name]), self.low.lower(fold.guard, point))

    def fold_axes(self, *, lanes: bool) -> tuple[tuple[Axis, ...], Term, dict[str, Kind]]:
        """Axes of a fold over the tile, the local index they make, and their kinds."""
        if not lanes or self.tile % self.shape.lanes:
            name = self.low.names.fresh(f"{self.axis.name}_c")
            return (Axis(name, Const(self.tile)),), Var(name), {name: "seq"}
        return fold_lanes(self.low.names, self.axis.name, Const(self.tile), self.shape.lanes)

    def tile_fold(self, state: State, point: Point) -> tuple[Callable[[Point], Term], dict[str, Kind]]:
        """Σ over the tile of the fold's body, outside elements padded with the identity."""
        lanes = self.shape.row is None and not state.extra
        axes, local, kinds = self.fold_axes(lanes=lanes)
        fold = state.fold

        def value(at: Point) -> Term:
            here = {**at, self.axis.name: local}
            element = self.low.lower(fold.body[0], here)
            stored = self.low.stored.get(key(fold.body[0]))
            if stored is None or stored.buffer not in self.padded or self.padded[stored.buffer] != fold.monoid.identity[0]:
                inside = self.inside(fold, here)
                if self.axis.name not in free_vars(fold.body[0]):  # a count: the bound says of what, in whole tiles too
                    inside = conj(lt(iadd(self.tiled.base, local), self.axis.extent), inside)
                element = Op("select", (inside, element, fold.monoid.identity[0]))
            return Fold(fold.monoid, (*axes, *fold.axes[1:]), TRUE, (element,))

        return value, kinds

    def body(self, make_tiles: Callable[[Group, list[Term]], list[Stmt]], contract: Callable[..., list[Stmt]]) -> list[Stmt]:
        """The statements of one tile. `make_tiles` stores shared terms; `contract` emits a packed update."""
        self.padded = {}
        out: list[Stmt] = []
        out += make_tiles(self, self._shared_before())
        independent = [s for s in self.states if s.rebase is None]
        dependent = [s for s in self.states if s.rebase is not None]
        drivers = [s for s in independent if any(d.rebase and key(d.rebase.driver) == key(s.fold) for d in dependent)]
        for state in independent:
            if state in drivers:
                out += self._advance_driver(state)
            elif state.split is not None:
                out += contract(self, state, None)
            else:
                out += self._extend(state)
        for driver in drivers:
            out += self._deltas(driver, [d for d in dependent if d.rebase and key(d.rebase.driver) == key(driver.fold)])
        out += make_tiles(self, self._shared_after(dependent))
        for state in dependent:
            out += self._follow(state, contract)
        for driver in drivers:
            out.append(self._commit(driver))
        return out

    def _shared_before(self) -> list[Term]:
        """Of independent folds: bodies and left operands that hold inner folds, after what several of them have in common."""
        alone = [s for s in self.states if s.rebase is None]
        elements = [s.fold.body[0] if s.split is None else s.split.left for s in alone]
        elements = [e for e in elements if any(self.axis.name in free_vars(inner) for inner in all_folds(e))]
        out = {key(part): part for part in (*self._common(elements), *elements)}
        return list(out.values())

    def _common(self, elements: list[Term]) -> list[Term]:
        """The largest costly parts of an element that stand in another one too."""
        times = Counter(part for e in {key(e): e for e in elements}.values() for part in {key(p) for p in costly_parts(e)})

        def largest(term: Term) -> list[Term]:
            if isinstance(term, Op) and has_special(term) and self.axis.name in free_vars(term) and times[key(term)] > 1:
                return [term]
            return [] if isinstance(term, Fold) else [part for inner in children(term) for part in largest(inner)]

        return [part for e in elements for part in largest(e)]

    def _shared_after(self, dependent: list[State]) -> list[Term]:
        """The left operands of contractions and bodies used again."""
        out: dict[Term, Term] = {}
        for state in dependent:
            if state.split is not None:
                out.setdefault(key(state.split.left), state.split.left)
            elif has_special(state.fold.body[0]) and not state.extra and any(s.split or s.extra for s in dependent):
                out.setdefault(key(state.fold.body[0]), state.fold.body[0])
        return list(out.values())

    def _advance_driver(self, state: State) -> list[Stmt]:
        fresh = self.low.names.fresh("next")
        self.current[key(state.fold)] = fresh
        shape = [self.shape.rows] * (self.shape.row is not None)
        order: list[str] = []
        dims = self.dims(state, order)
        tile, kinds = self.tile_fold(state, {})
        combine = state.fold.monoid.combine[0]
        name = combine.name if isinstance(combine, Op) else ""

        def value(p: Point) -> Term:
            return Op(name, (self.read(state.buffer, state, p), tile(p)))

        after = self.limit(iadd(Var(self.loop), ONE))
        statement = assign(fresh, dims, order, value, kinds=kinds, names=self.low.names,
                           claim=lambda p: self.claim(state.fold, after, p))  # fmt: skip
        rows = self.shape.plain_rows()
        self.low.store(state.fold, fresh, lambda p: tuple(p[a] for a in rows))
        return [alloc(fresh, self.dtype, tuple(shape)), statement]

    def _extend(self, state: State, scaled: Callable[[Point], Term] | None = None) -> list[Stmt]:
        order: list[str] = []
        dims = self.dims(state, order)
        tile, kinds = self.tile_fold(state, {})
        combine = state.fold.monoid.combine[0]
        name = combine.name if isinstance(combine, Op) else ""

        def value(p: Point) -> Term:
            before = scaled(p) if scaled is not None else self.read(state.buffer, state, p)
            return Op(name, (before, tile(p)))

        after = self.limit(iadd(Var(self.loop), ONE))
        return [assign(state.buffer, dims, order, value, kinds=kinds, names=self.low.names,
                       claim=lambda p: self.claim(state.fold, after, p))]  # fmt: skip

    def _deltas(self, driver: State, followers: list[State]) -> list[Stmt]:
        """scale[r] or delta[r], from the centre before and after the tile."""
        rebase = followers[0].rebase
        if rebase is None:
            raise TypeError("a follower has a rebase")
        name = self.low.names.fresh("scale" if rebase.exponential else "delta")
        order: list[str] = []
        dims = self.dims(driver, order)

        def centre(p: Point, limit: Term, buffer: str) -> Term:
            low = self.low.child()
            rows = self.shape.plain_rows()
            low.store(driver.fold, buffer, lambda q: tuple(q[a] for a in rows))
            return low.lower(running(rebase.centre, rebase.driver, limit), p)

        def value(p: Point) -> Term:
            old = centre(p, self.limit(Var(self.loop)), driver.buffer)
            new = centre(p, self.limit(iadd(Var(self.loop), ONE)), self.current[key(driver.fold)])
            return factor_between(rebase, old, new, self.read(driver.buffer, driver, p))

        self.scales[key(driver.fold)] = name
        shape = [self.shape.rows] * (self.shape.row is not None)
        out: list[Stmt] = [alloc(name, self.dtype, tuple(shape)), assign(name, dims, order, value, names=self.low.names)]
        if not rebase.exponential:  # bodies then see the running centre, not the spec's
            centre_name = self.low.names.fresh("centre")
            order = []
            dims = self.dims(driver, order)
            after = self.limit(iadd(Var(self.loop), ONE))
            out += [alloc(centre_name, self.dtype, tuple(shape)),
                    assign(centre_name, dims, order, lambda p: centre(p, after, self.current[key(driver.fold)]),
                           names=self.low.names)]  # fmt: skip
            rows = self.shape.plain_rows()
            self.low.store(rebase.centre, centre_name, lambda p: tuple(p[a] for a in rows))
        return out

    def _follow(self, state: State, contract: Callable[..., list[Stmt]]) -> list[Stmt]:
        rebase, rows = state.rebase, self.shape.plain_rows()
        if rebase is None:
            raise TypeError("a follower has a rebase")
        scale = self.scales[key(rebase.driver)]
        chain = [*state.moments, state]
        out: list[Stmt] = []
        for k in range(len(chain) - 1, -1, -1):  # highest moment first: it needs the old lower ones

            def scaled(p: Point, k: int = k) -> Term:
                states = [self.read(s.buffer, s, p) for s in chain]
                return rebase.update(states, Read(scale, tuple(p[a] for a in rows), "real"))[k]

            if chain[k].split is not None:
                out += contract(self, chain[k], scaled)
            else:
                out += self._extend(chain[k], scaled)
        return out

    def _commit(self, driver: State) -> Assign:
        order: list[str] = []
        dims = self.dims(driver, order)
        fresh, rows = self.current[key(driver.fold)], self.shape.plain_rows()
        after = self.limit(iadd(Var(self.loop), ONE))
        return assign(driver.buffer, dims, order, lambda p: Read(fresh, tuple(p[a] for a in rows), sort_of(driver.fold)),
                      names=self.low.names, claim=lambda p: self.claim(driver.fold, after, p))  # fmt: skip

    def loop_statement(self, extent: Term, body: list[Stmt]) -> For:
        return For(Axis(self.loop, extent), "seq", tuple(body), self.carried())

    def finish(self, low: Lowering) -> None:
        """After the loop the states hold the folds themselves."""
        for state in self.states:
            axes = [*self.shape.plain_rows(), *state.extra]
            low.store(state.fold, state.buffer, lambda p, axes=axes: tuple(p[a] for a in axes))  # type: ignore[misc]


def costly_parts(term: Term) -> list[Term]:
    """The subterms that hold a special function outside folds."""
    if isinstance(term, Fold):
        return []
    return [term] * (isinstance(term, Op) and has_special(term)) + [p for inner in children(term) for p in costly_parts(inner)]


def _order(dims: list[Dim]) -> list[str]:
    """Sequential loops first, then unrolled, then lanes."""
    parts = [part for dim in dims for part in dim.parts]
    rank = {"seq": 0, "unroll": 1, "lane": 2}
    return [name for name, _, kind in sorted(parts, key=lambda part: rank[part[2]])]


__all__ = ["Alloc", "Group", "Shape", "State"]
