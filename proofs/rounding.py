"""The rounding bound of a kernel: for each output, a term over its inputs that is at least |computed − exact|.

The kernel's statements are walked once, in order. Each buffer has two contents, terms in its own index: its value over the
reals, which `execute.py` has proved, and a bound on the error of what is computed, by the rules of `semantics/rounding.py`:

    acc[r, c] := 0                                   value 0                            error 0
    for t < E carrying acc = Σ_{k < 256 t} x·w:      value Σ_{k < 256 t} x·w            error e(t), see `recurrence.py`
      acc[r, c] := acc[r, c] + Σ_{k < 256} x·w       value acc + Σ_{k < 256} x·w        error by the rules, with e(t) in it
    out[48 i + r, c] := acc[r, c]                    the error at [i0, i1]: the one at r = i0 % 48, i = i0 // 48

The numbers of the roundings are the kernel's own: a fold runs as the text's reader admits (`readback/folds.py`), so that an
element passes through one addition a step of the sequential axes, one for each doubling of lanes or of threads of a subgroup,
and copies of an axis, joined in pairs or not, through no more than one each.

Statements compute in float64 if anything that they read or write is of that type, else in float32; a store into a narrower
type rounds once more. What is read from another kernel's results carries the error of these, `NAME.error`.

"No bound" is the term ∞, with a reason. An operation without a stated error, a fold that no rule knows, a carried error that
`recurrence.py` cannot solve: each gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tang_verified.proofs.inverse import inverse
from tang_verified.proofs.recurrence import NotLinear, solved
from tang_verified.proofs.rounding_statement import Statement, error_of
from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Claim, For, Kernel, Stmt
from tang_verified.semantics.rounding import (
    Pair,
    Rounding,
    Sharing,
    choose,
    larger,
    rebuilt,
)
from tang_verified.semantics.terms import (
    MAX,
    POS_INF,
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
    children,
    free_vars,
    substitute,
    tensors,
)

__all__ = ["Bound", "Walk", "bounds", "error_of"]


@dataclass(frozen=True)
class Bound:
    """|computed − exact| ≤ value at every index of the output; `reasons` where there is no bound."""

    kernel: str
    output: str
    axes: tuple[str, ...]
    value: Term
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Write:
    """One statement's: which cells, and the error there."""

    axes: tuple[Axis, ...]
    index: tuple[Term, ...]
    guard: Term
    error: Term


@dataclass
class Cell:
    """A buffer's contents. One that is written once has its value from its claim, and its error from all writes."""

    buffer: Buffer
    level: int
    claim: Claim | None
    index: tuple[str, ...] = ()
    value: Term | None = None
    error: Term = REAL_ZERO
    writes: list[Write] = field(default_factory=list)


def carried_error(name: str) -> str:
    return f"{name}.carried"


def bounds(kernel: Kernel, rounding: Rounding) -> tuple[Bound, ...]:
    """The bound of each output, in order."""
    walk = Walk(kernel, rounding)
    if rounding.unsaid:
        walk.reasons[rounding.unsaid] = None
    else:
        walk.block(kernel.body, ())
    out = []
    for name in kernel.outputs:
        axes = kernel.program.definition(name).axes
        error: Term = POS_INF if rounding.unsaid else walk.at(walk.outputs[name], tuple(map(Var, axes)))
        out.append(Bound(kernel.name, name, axes, error, tuple(walk.reasons) if POS_INF == error else ()))
    return tuple(out)


class Walk:
    """Walks one kernel."""

    def __init__(self, kernel: Kernel, rounding: Rounding) -> None:
        self.kernel, self.program, self.rounding = kernel, kernel.program, rounding
        self.inputs = {tensor.name for tensor in self.program.inputs}
        self.cells: dict[str, Cell] = {}
        self.outputs: dict[str, list[Write]] = {name: [] for name in kernel.outputs}
        self.reasons: dict[str, None] = {}
        self.share = Sharing()

    # -- statements -----------------------------------------------------------------------------------------------------

    def block(self, body: Iterable[Stmt], loops: tuple[For, ...]) -> None:
        declared = []
        for statement in body:
            match statement:
                case Alloc(buffer, claim):
                    self.cells[buffer.name] = Cell(buffer, len(loops), claim)
                    declared.append(buffer.name)
                case For():
                    self.loop(statement, loops)
                case Assign():
                    self.assign(statement, loops)
        for name in declared:
            del self.cells[name]

    def assign(self, statement: Assign, loops: tuple[For, ...]) -> None:
        value, error = Statement(self, statement).stored()
        axes = tuple(loop.axis for loop in statement.loops)
        plain = {loop.axis.name for loop in loops} | {axis.name for axis in axes}
        index = tuple(self.values(part, statement) for part in statement.index)
        guard = self.values(statement.guard, statement)
        if any(free_vars(part) - plain - {s.name for s in self.program.sizes} for part in index):
            error = POS_INF
        if statement.target in self.outputs:
            around = tuple(loop.axis for loop in loops)
            self.outputs[statement.target].append(Write(around + axes, index, guard, error))
            return
        cell = self.cells[statement.target]
        around = tuple(loop.axis for loop in loops[cell.level :])
        if cell.claim is not None:
            cell.writes.append(Write(around + axes, index, guard, error))
            return
        own = tuple(f"{cell.buffer.name}.{k}" for k in range(len(index)))
        names = own if statement.claim is None else statement.claim.index
        fixed = [k for k, part in enumerate(index) if not free_vars(part) & {axis.name for axis in axes}]
        fresh = self.at([Write(axes, index, guard, error)], tuple(map(Var, names)))
        if statement.claim is not None:
            new = self.values(statement.claim.value, statement)
            here = conj(*(Op("eq", (Var(names[k]), index[k])) for k in fixed if cell.buffer.shape[k] != Const(1)))
            kept = self.content(cell, tuple(map(Var, names)))[1] if here != TRUE and cell.value is not None else REAL_ZERO
            cell.value, cell.error = new, choose(here, fresh, kept)
        else:
            there = {part.name: Var(name) for part, name in zip(index, names, strict=True) if isinstance(part, Var)}
            cell.value, cell.error = self.neat(value, there), fresh
        cell.index = names

    def values(self, term: Term, statement: Assign) -> Term:
        return self.neat(Statement(self, statement).value(term))

    def neat(self, term: Term, values: Mapping[str, Term] | None = None) -> Term:
        """The term at other values, its integers in canonical form, shared."""
        moved = substitute(term, dict(values)) if values else term
        return self.share(canonical(self.share(moved)))

    def content(self, cell: Cell, index: tuple[Term, ...]) -> Pair:
        """Value and error at an index."""
        if cell.claim is not None:
            there = dict(zip(cell.claim.index, index, strict=True))
            return self.neat(cell.claim.value, there), self.at(cell.writes, index)
        there = dict(zip(cell.index, index, strict=True))
        value = cell.value if cell.value is not None else POS_INF
        return self.neat(value, there), self.neat(cell.error, there)

    def at(self, writes: list[Write], index: tuple[Term, ...]) -> Term:
        """The error at an index; found for names of its own, which no axis bears."""
        names = tuple(f".at{k}" for k in range(len(index)))
        return self.neat(self._at_names(writes, names), dict(zip(names, index, strict=True)))

    def put(self, term: Term, found: Mapping[str, tuple[tuple[str, ...], Term]]) -> Term:
        """The term with the solved errors in place of the carried ones; zeros and infinities are done with again."""
        known = {carried_error(name): entry for name, entry in found.items()}
        memo: dict[int, Term] = {}

        def walk(node: Term) -> Term:
            if id(node) not in memo:
                memo[id(node)] = anew(node)
            return memo[id(node)]

        def anew(node: Term) -> Term:
            if tensors(node).isdisjoint(known):
                return node
            if isinstance(node, Read) and node.tensor in known:
                names, error = known[node.tensor]
                return self.neat(error, dict(zip(names, node.index, strict=True)))
            return rebuilt(node, tuple(walk(part) for part in children(node)))

        return self.share(walk(term))

    def _at_names(self, writes: Sequence[Write], names: tuple[str, ...]) -> Term:
        """The error at the index `names`: of the write that reaches it."""
        out: Term = REAL_ZERO
        for write in writes:
            places, left = inverse(write.index, write.axes, names)
            error = write.error
            if error not in (REAL_ZERO, POS_INF):
                error = self.neat(error, places)
            here = [canonical(substitute(write.guard, places))]
            for axis in write.axes if len(writes) > 1 else ():
                if axis.name in places:
                    place, extent = places[axis.name], substitute(axis.extent, places)
                    here.append(conj(canonical(Op("le", (ZERO, place))), canonical(Op("lt", (place, extent)))))
            met = (Op("eq", (Var(name), substitute(part, places))) for name, part in zip(names, write.index, strict=True))
            hits = tuple(hit for hit in map(canonical, met) if hit != TRUE)
            if left and error not in (REAL_ZERO, POS_INF):
                axes = tuple(Axis(a.name, canonical(substitute(a.extent, places))) for a in left)
                error = larger(Op("max", (Fold(MAX, axes, conj(*here, *hits), (error,)), REAL_ZERO)), REAL_ZERO)
            elif len(writes) > 1 and error != REAL_ZERO:
                error = choose(conj(*here, *hits), error, REAL_ZERO)
            out = larger(out, error)
        return self.share(out)

    def loop(self, loop: For, loops: tuple[For, ...]) -> None:
        """The body again and again, until it is known which carried buffers have errors at all; then these are solved."""
        entry = {c.buffer: self._named(self.cells[c.buffer], c.claim) for c in loop.carried}
        exact = {name for name, error in entry.items() if error == REAL_ZERO}
        counts = {name: len(cell.writes) for name, cell in self.cells.items()}
        wrote = {name: len(writes) for name, writes in self.outputs.items()}
        while True:
            for carried in loop.carried:
                cell, claim = self.cells[carried.buffer], carried.claim
                cell.index, cell.value = claim.index, claim.value
                cell.error = REAL_ZERO if carried.buffer in exact else _placeholder(carried.buffer, claim.index)
            self.block(loop.body, (*loops, loop))
            after = {c.buffer: self._named(self.cells[c.buffer], c.claim) for c in loop.carried}
            wrong = {name for name in exact if after[name] != REAL_ZERO}
            if not wrong:
                break
            exact -= wrong
            for name, cell in self.cells.items():
                del cell.writes[counts[name] :]
            for name, writes in self.outputs.items():
                del writes[wrote[name] :]
        found = self._solve(loop, entry, {name: error for name, error in after.items() if name not in exact})
        for name, cell in self.cells.items():
            cell.writes[counts[name] :] = [replace(w, error=self.put(w.error, found)) for w in cell.writes[counts[name] :]]
        for name, writes in self.outputs.items():
            writes[wrote[name] :] = [replace(w, error=self.put(w.error, found)) for w in writes[wrote[name] :]]
        for carried in loop.carried:
            cell, claim = self.cells[carried.buffer], carried.claim
            end = {loop.axis.name: loop.axis.extent}
            _, error = found.get(carried.buffer, (claim.index, REAL_ZERO))
            cell.index = claim.index
            cell.value, cell.error = self.neat(claim.value, end), self.neat(error, end)

    def _named(self, cell: Cell, claim: Claim) -> Term:
        """The error in the claim's own index names."""
        return self.content(cell, tuple(map(Var, claim.index)))[1]

    def _solve(self, loop: For, entry: Mapping[str, Term], after: dict[str, Term]) -> dict[str, tuple[tuple[str, ...], Term]]:
        """The error of each carried buffer at the head of an iteration, those first that need no other."""
        found: dict[str, tuple[tuple[str, ...], Term]] = {}
        index = {c.buffer: c.claim.index for c in loop.carried}
        waiting = dict(after)
        while waiting:
            ready = [n for n, e in waiting.items() if not _carried(e) & (waiting.keys() - {n})]
            for name in ready or list(waiting):
                error = self.put(waiting.pop(name), found)
                try:
                    if not ready:
                        raise NotLinear
                    step = f"{loop.axis.name}.{name}"
                    closed = self.share(solved(error, _placeholder(name, index[name]), loop.axis.name, entry[name], step))
                except NotLinear:
                    self.reasons[f"the error that {name} carries through loop {loop.axis.name} is not solved"] = None
                    closed = POS_INF
                found[name] = (index[name], closed)
        return found


# -- carried errors, and errors at an index ---------------------------------------------------------------------------------


def _placeholder(name: str, index: tuple[str, ...]) -> Read:
    return Read(carried_error(name), tuple(map(Var, index)), "real")


def _carried(term: Term) -> set[str]:
    return {name.removesuffix(".carried") for name in tensors(term) if name.endswith(".carried")}
