"""A contraction on a matrix unit (`semantics/units.py`), over tiles in shared memory.

    for ks < T/16 carrying acc = Σ over the elements before 16 ks of this tile, too:
      A[wm, wn, g, t, mi, u, h, q] := left[16 M wm + 16 mi + 8 h + g, 16 ks + 8 u + 2 t + q]
      B[wm, wn, g, t, ni, u, q]    := right[16 ks + 8 u + 2 t + q, 8 N wn + 8 ni + g]
      acc[16 M wm + 16 mi + 8 h + g, 8 N wn + 8 ni + 2 t + p] += Σ_{u, s, q} A[…, g, s, …] · B[…, 2 t + p, s, …]     by the unit

The block's warps lie wm × wn over the tile. The accumulator's layout follows from the last statement (`threads.py`).

A unit that takes its operands from shared memory needs no fragments of them, but their tiles in rows of 64, swizzled:

    left[r, k], right[e, k, c] (or [c, k], as it lies in memory)
    acc[64 M v + 64 m + 16 w + 8 h + g, 64 e + 8 j + 2 t + p] += Σ_{k < 64} left[…, k] · right[e, k, 8 j + 2 t + p]

The block's groups of four warps lie one below the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tang_verified.passes.schedule.analysis import key
from tang_verified.passes.schedule.lower import Dim, Point, assign
from tang_verified.semantics.build import canonical, iadd, imul, linear
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, For, Kind, Loop, Stmt
from tang_verified.semantics.terms import TRUE, Axis, Const, Op, Read, Term, Var, free_vars
from tang_verified.semantics.units import ROW, UNITS, Operand, Rows, Unit, product, shared_product

if TYPE_CHECKING:
    from tang_verified.passes.schedule.contraction import Contractor
    from tang_verified.passes.schedule.group import Group, State

MOST_ACCUMULATORS = 96  # of a thread, for all running contractions together


def warps(threads: int, rows: int, columns: int, unit: Unit, running: int = 1) -> tuple[int, int] | None:
    """How the block's subgroups lie over the tile of each of `running` accumulators: as square a part as divides it."""
    count = threads // unit.lanes
    best: tuple[int, int] | None = None
    for down in range(1, count + 1):
        across = count // down
        fits = down * across == count and rows % (unit.rows * down) == 0 and columns % (unit.columns * across) == 0
        if not fits or running * rows * columns // threads > MOST_ACCUMULATORS:
            continue
        if best is None or abs(rows // down - columns // across) < abs(rows // best[0] - columns // best[1]):
            best = (down, across)
    return best


def unit_update(contractor: Contractor, group: Group, state: State) -> list[Stmt] | None:
    """The update of a running contraction by the target's unit, or None where the unit does not fit."""
    split, low, target = state.split, group.low, contractor.target
    if split is None or not target.unit or len(state.fold.axes) != 1:
        return None
    unit = UNITS[target.unit]
    if unit.shared:
        return _from_shared(contractor, group, state, unit)
    operands = (split.left, split.right)
    if not all(isinstance(o, Read) and group.dtypes.get(o.tensor) == unit.operand for o in operands):
        return None
    row, column = low.tiled[split.row], low.tiled[split.column]
    running = sum(s.split is not None for s in group.every_state())
    laid = warps(target.threads, row.tile, column.tile, unit, running)
    if laid is None or group.tile % unit.depth:
        return None
    out: list[Stmt] = contractor.copy_left(group, state, split, unit.operand)
    right = contractor.copy_right(group, state, split, unit.operand, out)
    return [*out, _steps(group, state, unit, laid, split.left, right, (row.tile, column.tile))]


def _steps(
    group: Group, state: State, unit: Unit, laid: tuple[int, int], left: Term, right: str, tile: tuple[int, int]
) -> For:
    low, names = group.low, group.low.names
    down, across = laid
    many, wide = tile[0] // (unit.rows * down), tile[1] // (unit.columns * across)
    step = names.fresh("ks")
    start = iadd(group.limit(Var(group.loop)), imul(Var(step), unit.depth))
    extents = {"wm": down, "wn": across, "g": 8, "t": 4}

    def threads() -> dict[str, str]:
        return {digit: names.fresh(digit) for digit in extents}

    def loops(own: dict[str, str], slots: dict[str, int]) -> tuple[Loop, ...]:
        kinds: dict[str, Kind] = {digit: "thread" if digit in extents else "unroll" for digit in own}
        return tuple(Loop(Axis(name, Const({**extents, **slots}[d])), kinds[d]) for d, name in own.items())

    def number(own: dict[str, str], parts: tuple[tuple[str, int], ...]) -> Term:
        total: Term = Const(0)
        for digit, stride in parts:
            total = iadd(total, imul(Var(own[digit]), stride))
        return total

    # the fragments
    a_name, b_name = names.fresh("a"), names.fresh("b")
    own = threads() | {d: names.fresh(d) for d in ("mi", "u", "h", "q")}
    depth = iadd(number(own, (("u", 8), ("t", 2), ("q", 1))), imul(Var(step), unit.depth))
    line = number(own, (("wm", unit.rows * many), ("mi", unit.rows), ("h", 8), ("g", 1)))
    at: Point = {state.split.row: line, group.axis.name: depth}  # type: ignore[union-attr]
    a_slots = {"mi": many, "u": 2, "h": 2, "q": 2}
    load_a = Assign(loops(own, a_slots), a_name, tuple(Var(n) for n in own.values()), low.lower(left, at))
    other = threads() | {d: names.fresh(d) for d in ("ni", "u", "q")}
    depth = iadd(number(other, (("u", 8), ("t", 2), ("q", 1))), imul(Var(step), unit.depth))
    place = number(other, (("wn", unit.columns * wide), ("ni", unit.columns), ("g", 1)))
    b_slots = {"ni": wide, "u": 2, "q": 2}
    load_b = Assign(loops(other, b_slots), b_name, tuple(Var(n) for n in other.values()), Read(right, (depth, place), "real"))

    # the product
    mine = threads() | {d: names.fresh(d) for d in ("mi", "ni", "h", "p")}
    c_slots = {"mi": many, "ni": wide, "h": 2, "p": 2}
    lanes = (Var(mine["wm"]), Var(mine["wn"]))
    axes = tuple(names.fresh(d) for d in ("u", "s", "q"))
    digits = (mine["g"], mine["t"], mine["h"], mine["p"])
    index = (number(mine, (("wm", unit.rows * many), ("mi", unit.rows), ("h", 8), ("g", 1))),
             number(mine, (("wn", unit.columns * wide), ("ni", unit.columns), ("t", 2), ("p", 1))))  # fmt: skip
    fragments = product(
        unit, Operand(state.buffer, (), ()), Operand(a_name, lanes, (Var(mine["mi"]),)),
        Operand(b_name, lanes, (Var(mine["ni"]),)), digits, axes,
    )  # fmt: skip
    assert isinstance(fragments, Op)
    value = Op("add", (Read(state.buffer, index, "real"), fragments.args[1]))
    order = [state.split.row, state.split.column]  # type: ignore[union-attr]

    def claim(limit: Term) -> Claim:
        point = {axis: Var(names.fresh("x")) for axis in order}
        return Claim(tuple(v.name for v in point.values()), group.claim(state.fold, limit, point))

    after = canonical(iadd(start, Const(unit.depth)))
    multiply = Assign(loops(mine, c_slots), state.buffer, index, value, TRUE, (), claim(after), unit=unit.name)
    shapes = [(a_name, a_slots), (b_name, b_slots)]
    declared: list[Stmt] = [
        Alloc(Buffer(name, unit.operand, tuple(map(Const, (*extents.values(), *slots.values()))), "register", len(extents)))
        for name, slots in shapes
    ]
    body = (*declared, load_a, load_b, multiply)
    return For(Axis(step, Const(group.tile // unit.depth)), "seq", body, (Carried(state.buffer, claim(start)),))


def _from_shared(contractor: Contractor, group: Group, state: State, unit: Unit) -> list[Stmt] | None:
    """The update by a unit that reads its operands' tiles where they lie; None where it does not fit."""
    low, names, split = group.low, group.low.names, state.split
    assert split is not None
    left, right = split.left, split.right
    if not isinstance(left, Read) or not isinstance(right, Read):
        return None
    row, column, axis = low.tiled[split.row], low.tiled[split.column], group.axis.name
    groups = contractor.target.threads // unit.lanes
    many = row.tile // (unit.rows * groups) if groups else 0
    running = sum(s.split is not None for s in group.every_state())
    fits = many > 0 and row.tile == many * groups * unit.rows and column.tile == unit.columns and group.tile == ROW
    if isinstance(column.extent, Const) and int(column.extent.value) < unit.columns:
        return None  # half of it would be computed for nothing
    if not fits or running * row.tile * column.tile // contractor.target.threads > MOST_ACCUMULATORS:
        return None
    across = axis in free_vars(right.index[-1])
    given = all(group.dtypes.get(o.tensor) == unit.operand for o in (left, right))
    whole = _in_vectors(group, left, axis) and _in_vectors(group, right, axis if across else split.column)
    if not given or not whole:
        return None
    out = [_swizzled(s) for s in contractor.copy_left(group, state, split, unit.operand)]
    a_name = low.stored[key(left)].buffer
    b_name = _copy_rows(contractor, group, state, unit, across, out)

    digits = {"v": groups, "w": 4, "g": 8, "t": 4, "m": many, "e": unit.columns // ROW, "j": 8, "h": 2, "p": 2}
    own = {digit: names.fresh(digit) for digit, extent in digits.items() if extent > 1 or digit == "e"}
    kinds: dict[str, Kind] = {digit: "thread" if digit in "vwgt" else "unroll" for digit in digits}
    loops = tuple(Loop(Axis(name, Const(digits[d])), kinds[d]) for d, name in own.items())

    def number(*parts: tuple[str, int]) -> Term:
        total: Term = Const(0)
        for digit, stride in (part for part in parts if part[0] in own):
            total = iadd(total, imul(Var(own[digit]), stride))
        return total

    first = number(("v", unit.rows * many), ("m", unit.rows))
    index = (canonical(iadd(first, number(("w", 16), ("h", 8), ("g", 1)))), number(("e", ROW), ("j", 8), ("t", 2), ("p", 1)))
    k = names.fresh(f"{axis}_k")
    rows = Rows(a_name, (), first, across=True)
    columns = Rows(b_name, () if across else (Var(own["e"]),), Const(0), across)
    made = shared_product(
        Operand(state.buffer, (), ()), rows, columns, tuple(own[d] for d in "wgtjhp"), Var(own["e"]), k
    )
    assert isinstance(made, Op)
    value = Op("add", (Read(state.buffer, index, "real"), made.args[1]))
    after = group.limit(iadd(Var(group.loop), Const(1)))
    point: Point = {name: Var(names.fresh("x")) for name in (split.row, split.column)}
    claim = Claim(tuple(v.name for v in point.values() if isinstance(v, Var)), group.claim(state.fold, after, point))
    return [*out, Assign(loops, state.buffer, index, value, TRUE, (), claim, unit=unit.name)]


def _in_vectors(group: Group, read: Read, along: str) -> bool:
    """Whether neighbours along the axis lie side by side, and every eighth begins a vector of 16 bytes."""
    line = group.lines[read.tensor]
    parts, offset = linear(read.index[-1])
    return (
        parts.pop(Var(along), 0) == 1 and all(factor % 8 == 0 for factor in (*parts.values(), offset))
        and isinstance(line, Const) and int(line.value) % 8 == 0
    )  # fmt: skip


def _swizzled(statement: Stmt) -> Stmt:
    return replace(statement, buffer=replace(statement.buffer, swizzled=True)) if isinstance(statement, Alloc) else statement


def _copy_rows(
    contractor: Contractor, group: Group, state: State, unit: Unit, across: bool, out: list[Stmt]
) -> str:
    """The right operand's tile in rows of 64 as it lies in memory, zero outside: right[e, k, c], or right[c, k]."""
    names, split, axis, lanes = group.low.names, state.split, group.axis.name, contractor.lanes
    assert split is not None
    name = names.fresh("right")
    inner = Dim("row", ((names.fresh("b"), Const(ROW // lanes), "seq"), (names.fresh("l"), Const(lanes), "lane")))
    line = names.fresh("line")
    outer: list[Dim]
    shape: tuple[int, ...]
    if across:
        outer, shape = [Dim("line", ((line, Const(unit.columns), "seq"),))], (unit.columns, ROW)
    else:
        outer = [Dim("e", ((names.fresh("e"), Const(unit.columns // ROW), "seq"),)), Dim("line", ((line, Const(ROW), "seq"),))]
        shape = (unit.columns // ROW, ROW, ROW)

    def value(p: Point) -> Term:
        at = {axis: p["row"], split.column: p["line"]}
        if not across:
            at = {axis: p["line"], split.column: iadd(imul(p["e"], ROW), p["row"])}
        return contractor.right_element(group, state, split, at)

    dims = [*outer, inner]
    order = [part for dim in dims for part, _, _ in dim.parts]
    buffer = Buffer(name, unit.operand, tuple(map(Const, shape)), "thread", swizzled=True)
    out += [Alloc(buffer), assign(name, dims, order, value, names=names)]
    return name
