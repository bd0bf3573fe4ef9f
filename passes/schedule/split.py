"""A pass split over parts of the folded axis, the partial states merged.

    for rows, for s < S [grid]:   m, l, acc over the tiles s, s + S, s + 2S, …      ->  part_m[row, s], part_l[row, s], …
    for rows [grid]:
      for s < S carrying m, l, acc over the parts before s:
        next  := max(m, part_m[s])
        l     := l·exp(m - next) + part_l[s]·exp(part_m[s] - next)                   an empty part contributes nothing

The claims are the folds over {j : (j // T) % S = s} and over {j : (j // T) % S < s}; the lemma that re-bases a running
state proves the merge too. What runs in parallel shares nothing but cells that one iteration writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tang_verified.passes.schedule.analysis import all_folds, key
from tang_verified.passes.schedule.contraction import Contractor
from tang_verified.passes.schedule.group import Group, Shape, State
from tang_verified.passes.schedule.lower import Lowering, Point, Tiled, assign
from tang_verified.passes.schedule.rebase import factor_between, replace_terms
from tang_verified.semantics.build import canonical, ceildiv, conj, floordiv, iadd, mod
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, For, Loop, Stmt
from tang_verified.semantics.terms import ONE, Axis, Const, Fold, Op, Read, Term, Var, sort_of, substitute

if TYPE_CHECKING:
    from tang_verified.passes.schedule.plan import Planner


def split_rows(planner: Planner, rows: list[str]) -> list[Stmt]:
    """The two phases for a definition whose row folds form one group."""
    return _Split(planner, rows, planner.choice.splits).statements()


class _Split:
    def __init__(self, planner: Planner, rows: list[str], splits: int) -> None:
        self.planner, self.rows, self.splits = planner, rows, splits
        self.names = planner.names
        self.part = self.names.fresh("part")
        self.low = Lowering(self.names)
        rest = [a for a in planner.axes if a not in rows]
        for name in rest:
            tile = planner.rounded(planner.extent[name], planner.lanes, 256)
            self.low.tiled[name] = Tiled(name, planner.extent[name], Const(0), tile)
        axis, shape = planner.folds[0].axes[0], Shape(None, 1, planner.lanes)
        self.group = Group(self.low, shape, planner.folds, axis, planner.choice.tile or 256, planner.dtype)
        self.group.take_part(Var(self.part), splits)
        self.buffers = {id(state): self.names.fresh("part_state") for state in self.group.every_state()}

    def statements(self) -> list[Stmt]:
        out: list[Stmt] = [self._declare(state) for state in self.group.every_state()]
        first: list[Stmt] = [For(Axis(self.part, Const(self.splits)), "grid", tuple(self._partial()))]
        second = self._merge()
        for axis in reversed(self.rows):
            first = [For(Axis(axis, self.planner.extent[axis]), "grid", tuple(first))]
            second = [For(Axis(axis, self.planner.extent[axis]), "grid", tuple(second))]
        return [*out, *first, *second]

    def _declare(self, state: State) -> Alloc:
        """part_state[rows, part, extra], with the fold over that part as its claim."""
        index = {a: self.names.fresh("x") for a in (*self.rows, self.part, *state.extra)}
        point: dict[str, Term] = {a: Var(index[a]) for a in state.extra}
        said = canonical(substitute(self._whole(state, self.group.part, point),
                                    {a: Var(index[a]) for a in (*self.rows, self.part)}))  # fmt: skip
        extents = (*(self.planner.extent[a] for a in self.rows), Const(self.splits),
                   *(Const(self.low.tiled[a].tile) for a in state.extra))  # fmt: skip
        buffer = Buffer(self.buffers[id(state)], self.planner.dtype, extents, "global")
        return Alloc(buffer, Claim(tuple(index.values()), said))

    def _whole(self, state: State, part: Term, point: Point) -> Term:
        """The state's fold over the part, everything it depends on likewise."""
        said = self.low.spec(self._over(state.fold, part), point)
        if not isinstance(said, Fold):
            raise TypeError("a state is a fold")
        return Fold(said.monoid, said.axes, conj(self.group.rows_valid(point), said.guard), said.body)

    def _over(self, fold: Fold, part: Term) -> Fold:
        table: dict[Term, Term] = {}
        for state in self.group.states:
            if key(state.fold) != key(fold) and any(key(f) == key(state.fold) for f in all_folds(fold.body[0])):
                table[key(state.fold)] = self._over(state.fold, part)
        body = replace_terms(fold.body[0], table) if table else fold.body[0]
        return Fold(fold.monoid, fold.axes, conj(fold.guard, part), (body,))

    def _partial(self) -> list[Stmt]:
        group, low = self.group, self.low
        for state in group.states:
            if state.rebase is not None and not state.rebase.exponential:
                raise LookupError("a pass with moments is not split: its centre would be that of the part")
        low.tiled[group.axis.name] = group.tiled
        contractor = Contractor(self.planner.target, self.planner.lanes)
        before = dict(low.stored)
        body = group.body(contractor.tiles, contractor.update)
        tiles = ceildiv(ceildiv(group.axis.extent, group.tile), self.splits)
        loop = group.loop_statement(tiles, body)
        low.tiled.pop(group.axis.name)
        low.stored = before
        return [*contractor.hoisted, *group.prologue(), loop, *(self._keep(state) for state in group.every_state())]

    def _keep(self, state: State) -> Assign:
        loops = tuple(Loop(Axis(self.names.fresh(f"{a}_k"), Const(self.low.tiled[a].tile)), "seq") for a in state.extra)
        inner = tuple(Var(loop.axis.name) for loop in loops)
        index = (*(Var(a) for a in self.rows), Var(self.part), *inner)
        return Assign(loops, self.buffers[id(state)], index, Read(state.buffer, inner, sort_of(state.fold)))

    # -- merging --------------------------------------------------------------------------------------------------------

    def _merge(self) -> list[Stmt]:
        group, low = self.group, self.low
        step = self.names.fresh("part")
        number = mod(floordiv(Var(group.axis.name), group.tile), self.splits)

        def before(parts: Term) -> Term:
            return Op("lt", (number, parts))

        after = before(iadd(Var(step), ONE))
        group.low = low
        carried = []
        for state in group.states:
            point: dict[str, Term] = {a: Var(self.names.fresh("x")) for a in state.extra}
            index = tuple(v.name for v in point.values())  # type: ignore[union-attr]
            carried.append(Carried(state.buffer, Claim(index, self._whole(state, before(Var(step)), point))))
        body: list[Stmt] = []
        scales: dict[Term, tuple[str, str]] = {}
        commits: list[Stmt] = []
        for state in group.states:
            if state.rebase is None:
                fresh = self.names.fresh("next")
                body.append(Alloc(Buffer(fresh, self.planner.dtype, self._shape(state), "thread")))
                body.append(self._combine(state, fresh, None, after, step))
                commits.append(self._set(state, state.buffer, lambda p, s=state, f=fresh: self._cell(s, f, p), after))
                if any(s.rebase and key(s.rebase.driver) == key(state.fold) for s in group.states):
                    scales[key(state.fold)] = self._scales(state, fresh, body, step)
            else:
                body.append(self._combine(state, state.buffer, scales[key(state.rebase.driver)], after, step))
        loop = For(Axis(step, Const(self.splits)), "seq", (*body, *commits), tuple(carried))
        prologue = [s for s in group.prologue() if _target(s) in {state.buffer for state in group.states}]
        group.finish(low)
        rest = [a for a in self.planner.axes if a not in self.rows]
        for axis in rest:
            low.tiled.pop(axis, None)
        return [*prologue, loop, *self.planner.store(low, rest)]

    def _shape(self, state: State) -> tuple[Term, ...]:
        return tuple(Const(self.low.tiled[a].tile) for a in state.extra)

    def _cell(self, state: State, buffer: str, point: Point) -> Term:
        return Read(buffer, tuple(point[a] for a in state.extra), sort_of(state.fold))

    def _piece(self, state: State, step: str, point: Point) -> Term:
        index = (*(Var(a) for a in self.rows), Var(step), *(point[a] for a in state.extra))
        return Read(self.buffers[id(state)], index, sort_of(state.fold))

    def _set(self, state: State, target: str, value: object, part: Term) -> Assign:
        order: list[str] = []
        dims = self.group.dims(state, order)
        return assign(target, dims, order, value, names=self.names, claim=lambda p: self._whole(state, part, p))  # type: ignore[arg-type]

    def _combine(self, state: State, target: str, scale: tuple[str, str] | None, part: Term, step: str) -> Assign:
        combine = state.fold.monoid.combine[0]
        name = combine.name if isinstance(combine, Op) else ""

        def value(p: Point) -> Term:
            old, new = self._cell(state, state.buffer, p), self._piece(state, step, p)
            if scale is not None:
                old = Op("mul", (old, Read(scale[0], (), "real")))
                new = Op("mul", (new, Read(scale[1], (), "real")))
            return Op(name, (old, new))

        return self._set(state, target, value, part)

    def _scales(self, driver: State, fresh: str, body: list[Stmt], step: str) -> tuple[str, str]:
        """exp(m - next) and exp(part_m - next), 0 where nothing was seen."""
        rebase = next(s.rebase for s in self.group.states if s.rebase and key(s.rebase.driver) == key(driver.fold))
        made = []
        for old in (self._cell(driver, driver.buffer, {}), self._piece(driver, step, {})):
            name = self.names.fresh("scale")
            ends = [replace_terms(rebase.centre, {key(driver.fold): value}) for value in (old, self._cell(driver, fresh, {}))]
            body.append(Alloc(Buffer(name, self.planner.dtype, (), "thread")))
            body.append(Assign((), name, (), factor_between(rebase, ends[0], ends[1], old)))
            made.append(name)
        return made[0], made[1]



def _target(statement: Stmt) -> str:
    return statement.buffer.name if isinstance(statement, Alloc) else statement.target if isinstance(statement, Assign) else ""



