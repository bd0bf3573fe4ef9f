"""Print a tile assignment: loops, cells, guards, stores.

    out[4 i + r, 16 v + l] := value   for r < 4 [unroll], l < 16 [lane]   if 4 i + r < n and 16 v + l < m

becomes, if the guard holds for the whole tile, four vector values and stores without any test; otherwise each row with
its own test, and masked loads and stores. A value that reads its own target reads the same cell.
"""

from __future__ import annotations

from itertools import product

from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.fold_names import name_folds
from tang_verified.backends.folds import Folds
from tang_verified.backends.lanes import split_condition
from tang_verified.backends.scopes import Context, Lane, Scope, Value
from tang_verified.backends.storage import Memory, Variables
from tang_verified.backends.whole import find_whole
from tang_verified.semantics.build import canonical
from tang_verified.semantics.kernel import Assign, Loop
from tang_verified.semantics.program import SORTS, DType
from tang_verified.semantics.terms import FALSE, TRUE, Const, Fold, Term, Var, children, reads, substitute

Cell = tuple[tuple[Term, ...], Term, Term]  # index, value, guard


class Assigns(Folds):
    """Prints one Assign after the other; each starts with nothing computed."""

    def assign(self, stmt: Assign, names: dict[str, Term], mutable: frozenset[str]) -> Scope:
        """The statement's text. `names`: what surrounding axes and sizes are called here."""
        self._safe = {}
        named = name_folds(stmt.value, dict(stmt.fold_kinds))
        self.real, self.mask_bits = self._precision(stmt, named)
        if stmt.target in mutable and any(r.tensor == stmt.target and r.index != stmt.index for r in reads(named)):
            raise Unsupported(f"{stmt.target!r} reads other cells of itself: assign to a second buffer")
        root = Scope()
        self._loops(list(stmt.loops), stmt, named, dict(names), Context(root))
        return root

    def _precision(self, stmt: Assign, value: Term) -> tuple[str, int]:
        """Double if the target or any real read is; masks have the size of the numbers that they select."""
        types: list[DType] = [self.storage[r.tensor].dtype for r in reads(value) if r.tensor in self.storage]
        types.append(self.storage[stmt.target].dtype)
        if "float64" in types:
            return "f64", 64
        real = any(SORTS[t] == "real" for t in types)
        return "f32", 32 if real else 64

    def _loops(self, loops: list[Loop], stmt: Assign, value: Term, names: dict[str, Term], context: Context) -> None:
        """Sequential axes outermost; then the lane axis and the copies."""
        lanes = [k for k in loops if k.kind == "lane" and _spreads(k.axis.extent)]
        lane_axis = lanes[-1] if lanes else None
        outer = [k for k in loops if k.kind != "unroll" and k is not lane_axis]
        if outer:
            first = outer[0]
            rest = [k for k in loops if k is not first]
            extent = canonical(substitute(first.axis.extent, names))
            hidden = {**names, **{k.axis.name: Var(".") for k in outer}}
            inner = [canonical(substitute(k.axis.extent, hidden)) for k in outer[1:]]
            with self.loop(extent, first.axis.name, context, inner) as (variable, there):
                self._loops(rest, stmt, value, {**names, first.axis.name: Var(variable)}, there)
            return
        if lane_axis is not None:
            lane = Lane(self.names.take("lane"), _constant(lane_axis.axis.extent, lane_axis.axis.name))
            self.reach[lane.name] = lane.width
            names = {**names, lane_axis.axis.name: Var(lane.name)}
            context = context._replace(lane=lane)
        cells: list[Cell] = []
        for copy in _copies([k for k in loops if k is not lane_axis], names):
            index = tuple(canonical(substitute(part, copy)) for part in stmt.index)
            cells.append((index, canonical(substitute(value, copy)), canonical(substitute(stmt.guard, copy))))
        self._cells(stmt.target, [cell for cell in cells if cell[2] != FALSE], context)

    def _cells(self, target: str, cells: list[Cell], context: Context) -> None:
        if not cells:
            return
        guards, values = [guard for _, _, guard in cells], [value for _, value, _ in cells]
        unguarded = all(guard == TRUE for guard in guards)
        separate = self._joint if unguarded else self._each
        folds = not unguarded and len(cells) > 1 and any(_has_fold(value) for value in values)
        whole = find_whole(guards, values, context.lane, self.uses, self.safe) if context.lane or folds else None
        if whole is None:
            separate(target, cells, context)
            return
        within: list[Cell] = [(index, whole.within(value), TRUE) for index, value, _ in cells]
        with context.scope.block(f"if ({self.value(whole.test, context._replace(lane=None)).text})", conditional=True) as inner:
            self._joint(target, within, context._replace(scope=inner))
        with context.scope.block("else", conditional=True) as inner:
            separate(target, cells, context._replace(scope=inner))

    def _joint(self, target: str, cells: list[Cell], context: Context) -> None:
        """All cells at once, unguarded."""
        self.prepare([value for _, value, _ in cells], context)
        for index, value, _ in cells:
            self._store(target, index, self.value(value, context), context, None)

    def _each(self, target: str, cells: list[Cell], context: Context) -> None:
        """Each cell under its own guard: a block for the part without the lane, a mask for the rest."""
        for index, value, guard in cells:
            fixed: Term = guard
            varying: Term = TRUE
            if context.lane:
                fixed, varying = split_condition(guard, context.lane.name, self.uses, self.safe)
            if fixed == TRUE:
                self._masked(target, index, value, varying, context)
                continue
            with context.scope.block(f"if ({self.value(fixed, context).text})", conditional=True) as inner:
                self._masked(target, index, value, varying, context._replace(scope=inner))

    def _masked(self, target: str, index: tuple[Term, ...], value: Term, guard: Term, context: Context) -> None:
        if guard == TRUE:
            self.prepare([value], context)
            self._store(target, index, self.value(value, context), context, None)
            return
        inside = context._replace(conditions=(guard,))
        self.prepare([value], inside)
        self._store(target, index, self.value(value, inside), inside, self.mask(inside))

    # Stores

    def _store(self, target: str, index: tuple[Term, ...], value: Value, context: Context, mask: str | None) -> None:
        place = self.storage[target]
        if isinstance(place, Variables):
            self._set_register(place, target, index, value, context, mask)
            return
        lane = context.lane
        if lane is None or all(lane.name not in self.uses(part) for part in index):
            if value.type.width > 1 or mask is not None:
                raise Unsupported(f"{target!r}: the lane axis is not in the target's index")
            offset = self.integer(place.offset(index), context)
            context.scope.add(self.dialect.store(place.dtype, place.variable, offset, value.text, value.type))
            return
        wide = self.widen(value, lane.width)
        found = self.address(place, index, context)
        if found is None:
            self._scatter(place, index, self.name(context.scope, wide), context)
            return
        offset, stride = found
        context.scope.add(self.dialect.store_vector(place.dtype, place.variable, offset, stride, mask, wide.text, wide.type))

    def _scatter(self, place: Memory, index: tuple[Term, ...], value: Value, context: Context) -> None:
        """One lane after the other."""

        def one(scalar: tuple[Term, ...], lane: str, there: Context) -> None:
            offset = self.integer(place.offset(scalar), there)
            text = self.dialect.lane_of(value.text, lane, value.type)
            there.scope.add(self.dialect.store(place.dtype, place.variable, offset, text, value.type._replace(width=1)))

        self.per_lane(index, context, one)

    def _set_register(
        self, place: Variables, target: str, index: tuple[Term, ...], value: Value, context: Context, mask: str | None
    ) -> None:
        width, number, lane = self.registers.find(target, index, context.lane)
        variable = place.variable(number, self.dialect)
        have = place.type(width if lane is None else 1)
        if lane is None:
            wide = self.widen(value, width)
            if mask is not None and width > 1:
                old = Value(self.dialect.convert(variable, have, wide.type), wide.type)
                wide = self.choose(Value(mask, self.type_of("bool", width)), wide, old)
            context.scope.add(f"{variable} = {self.dialect.convert(wide.text, wide.type, have)};")
        else:
            text = self.dialect.convert(value.text, value.type, have)
            self.set_lane(context.scope, variable, str(lane), Value(text, have))


def _spreads(extent: Term) -> bool:
    """Whether an axis can run over lanes: a constant power of two above one. Others run as loops."""
    value = extent.value if isinstance(extent, Const) else 0
    return isinstance(value, int) and value > 1 and value & (value - 1) == 0


def _copies(loops: list[Loop], names: dict[str, Term]) -> list[dict[str, Term]]:
    ranges = []
    for loop in loops:
        ranges.append(range(_constant(canonical(substitute(loop.axis.extent, names)), loop.axis.name)))
    return [{**names, **{k.axis.name: Const(n) for k, n in zip(loops, numbers, strict=True)}} for numbers in product(*ranges)]


def _constant(extent: Term, name: str) -> int:
    if not isinstance(extent, Const) or not isinstance(extent.value, int):
        raise Unsupported(f"axis {name!r} is copied out or spread over lanes: its extent must be a constant")
    return extent.value


def _has_fold(term: Term) -> bool:
    return isinstance(term, Fold) or any(_has_fold(part) for part in children(term))
