"""Definitions without folds, element by element, moved as vectors.

    out[…, j] = f(x[…, j], y[…, j])              j < E, a tile of threads·C·V of them a block

    x_row[t, c, v]  := x[…, base + V·(threads·c + t) + v]          for t [thread], c < C [unroll], v < V [lane]
    result[t, c, v] := f(x_row[t, c, v], y_row[t, c, v])
    out[…]          := result[t, c, v]                             whole vectors; where V does not divide E, the first block
    out[…]          := f(x[V·(E // V) + l], …)                     takes the last few one by one
"""

from __future__ import annotations

from tang_verified.passes.schedule.analysis import all_folds, key
from tang_verified.passes.schedule.gpu.rows import Rows, Spread, outside_folds
from tang_verified.passes.schedule.lower import Lowering, Point, Tiled
from tang_verified.passes.schedule.plan import Planner
from tang_verified.semantics.build import canonical, ceildiv, conj, floordiv, iadd, imul, lt
from tang_verified.semantics.kernel import Assign, For, Kernel, Loop, Machine, Stmt
from tang_verified.semantics.program import BYTES
from tang_verified.semantics.terms import TRUE, ZERO, Axis, Const, Op, Term, Var, free_vars

BYTES_EACH = 128  # that a thread has in its registers
CHUNKS = 4


def element_kernel(planner: Planner) -> Kernel:
    """The kernel of definitions without folds. Raises `LookupError` where their elements are no vectors."""
    return _Elements(planner).kernel()


class _Elements(Rows):
    def _axes(self) -> tuple[list[str], str, Term]:
        planner = self.planner
        if any(all_folds(d.value) for d in planner.defs) or not planner.axes or not self.target.own_vectors:
            raise LookupError("folds, or no vectors")
        if planner.beside or any(d.axes != planner.axes for d in planner.defs):
            raise LookupError("outputs of several shapes")
        axis = planner.axes[-1]
        return list(planner.axes[:-1]), axis, canonical(planner.extent[axis])

    def _spread(self, extent: Term) -> Spread:
        tensors = [*dict.fromkeys(r.tensor for r in self.held), *(d.tensor.name for d in self.planner.defs)]
        known = [self.program.tensor(name) for name in tensors]
        vector = max(map(self._width, tensors))
        if isinstance(extent, Const):
            while int(extent.value) % vector:
                vector //= 2
        elif any(len(t.shape) > 1 for t in known):
            raise LookupError("rows that no vector divides")
        bytes_ = {BYTES[t.dtype] for t in known}
        loose = [r for d in self.planner.defs for r in outside_folds(d.value) if key(r) not in map(key, self.held)]
        if vector < 2 or len(bytes_) != 1 or any(self.axis in free_vars(r) for r in loose):
            raise LookupError("elements that are no vectors")
        each = sum(BYTES[t.dtype] for t in known) * vector
        chunks = max(1, min(CHUNKS, BYTES_EACH // each))
        lanes = 32
        subgroups = self.target.threads // lanes
        if isinstance(extent, Const):
            while chunks > 1 and int(extent.value) <= lanes * vector * (chunks // 2) * subgroups:
                chunks //= 2
            while subgroups > 1 and int(extent.value) <= lanes * vector * (subgroups // 2):
                subgroups //= 2
        return Spread(extent, subgroups, lanes, chunks, vector, 1)

    def _base(self) -> Term:
        return self.low.tiled[self.axis].base

    def _inside(self, point: Point) -> Term:
        s = self.spread
        tile = s.chunks * s.threads * s.vector
        if isinstance(s.extent, Const) and int(s.extent.value) % tile == 0:
            return TRUE
        return lt(iadd(iadd(self._base(), point["#first"]), Const(s.vector - 1)), s.extent)

    def kernel(self) -> Kernel:
        s, planner = self.spread, self.planner
        tile, block = s.chunks * s.threads * s.vector, self.names.fresh(f"{self.axis}_t")
        self.low.tiled[self.axis] = Tiled(self.axis, s.extent, imul(Var(block), tile), tile)
        for d, value in zip(planner.defs, self.values, strict=True):
            self._store(d, value)
        if not isinstance(s.extent, Const):
            self.out += [self._rest(number, block) for number in range(len(planner.defs))]
        tiles = ceildiv(s.extent, tile)
        body: tuple[Stmt, ...] = (For(Axis(block, tiles), "grid", tuple(self.out)),)
        for axis in reversed(self.rows):
            body = (For(Axis(axis, planner.extent[axis]), "grid", body),)
        return planner.kernel_of(body, Machine(s.threads, self.target.subgroup, 0, self.target.index_bits))

    def _rest(self, number: int, block: str) -> Assign:
        """What no whole vector holds, by the first block."""
        s, d = self.spread, self.planner.defs[number]
        lane, plain = self.names.fresh("l"), Lowering(self.names)
        first = imul(floordiv(s.extent, s.vector), s.vector)
        plain.tiled[self.axis] = Tiled(self.axis, s.extent, first, s.vector)
        point = {self.axis: Var(lane)}
        index = tuple(plain.full(point).get(a, Var(a)) for a in d.axes)
        guard = conj(Op("eq", (Var(block), ZERO)), lt(iadd(first, Var(lane)), s.extent))
        value = plain.lower(self.values[number], point)
        return Assign((Loop(Axis(lane, Const(s.vector)), "thread"),), d.tensor.name, index, value, guard)
