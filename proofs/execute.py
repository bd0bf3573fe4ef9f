"""A kernel computes its definitions: symbolic execution, statement by statement, for all sizes.

Each buffer's content is a term in its own index, over the program's tensors and the surrounding loop axes:

    acc[r, c] := 0                                     content(acc)[r, c] = 0
    for t < E carrying acc[r, c] = P(t):               shown: content = P(0); then, from P(t), the body gives P(t + 1)
      acc[r, c] := acc[r, c] + Σ_k x[r, k] y[k, c]     content = P(t) + Σ_k …            (reads are replaced by contents)
    out[4 i + r, c] := acc[r, c]                       shown: P(E) = the definition of out at [4 i + r, c]

Obligations, by name: `reachable/…` a loop is entered, a statement runs, for some sizes and data; `stage/…` a buffer is
read where it is defined; `in-bounds/…`; `carried/…` loop invariants; `value/…` what is written is what the definition (or
the buffer's claim) says; `cover/…` every cell is written; `no-race/…` no two iterations, of any loop, write one cell
(buffers of parallel instances are their own, so this is all that instances share); a thread's own cells are touched by it
alone, and what threads share is ordered (`races.py`); `capacity/…` what is asked of the machine; `width/…` index
arithmetic stays within its bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import get_args

from tang_verified.proofs.equality import Equality, Scope, domain_facts
from tang_verified.proofs.ledger import Ledger, Refused, show
from tang_verified.proofs.monoids import Laws
from tang_verified.proofs.races import Item, Repeat
from tang_verified.proofs.threads import Threads, owners
from tang_verified.proofs.width import Ranges
from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.kernel import (
    Alloc,
    Assign,
    Barrier,
    Buffer,
    Claim,
    Commit,
    For,
    Kernel,
    Kind,
    Stmt,
    Wait,
    shared_bytes,
)
from tang_verified.semantics.kernel import Scope as BufferScope
from tang_verified.semantics.program import BYTES, SORTS, Tensor, check_read
from tang_verified.semantics.sets import is_affine, usable
from tang_verified.semantics.terms import (
    ONE,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    IllFormed,
    Op,
    Read,
    Sort,
    Term,
    Var,
    children,
    free_vars,
    reads,
    rebuild,
    sort_of,
    substitute,
)  # fmt: skip
from tang_verified.semantics.wellformed import check_extent, check_names, check_term

PARALLEL = ("grid", "thread")
REGISTER_BYTES = 1 << 16  # what a printer may be asked to keep in named variables, in one kernel
BUFFER_BYTES = 1 << 62


@dataclass(frozen=True)
class Write:
    """One statement's writes to an output or a single-assignment buffer."""

    axes: tuple[Axis, ...]
    facts: tuple[Term, ...]
    index: tuple[Term, ...]


@dataclass
class Cell:
    """What is known of a buffer. `content` is None while it is undefined."""

    buffer: Buffer
    level: int  # the number of loops around its declaration
    claim: Claim | None
    content: Claim | None = None
    writes: list[Write] = field(default_factory=list)


@dataclass(frozen=True)
class Frame:
    """Where a statement stands: the loops around it, what holds there, index ranges; and the thread that is at work."""

    loops: tuple[For, ...]
    scope: Scope
    ranges: Ranges
    thread: Term | None = ZERO  # none: a unit's, all lanes together


class Execution:
    """Checks one kernel against its program, into a ledger."""

    def __init__(self, ledger: Ledger, kernel: Kernel) -> None:
        self.ledger, self.kernel, self.program = ledger, kernel, kernel.program
        self.equality = Equality(ledger)
        self.cells: dict[str, Cell] = {}
        self.outputs: dict[str, list[Write]] = {name: [] for name in kernel.outputs}
        self.tensors: dict[str, Tensor] = {name: self.program.tensor(name) for name in kernel.reads}
        self.threads = Threads(ledger, kernel)
        self.register_bytes = self.shared_bytes = self.widest = 0
        self.idle = False  # an output has no element, whatever the sizes: then statements need not run

    def run(self) -> None:
        """Discharge every obligation of the kernel or raise `Refused` (`IllFormed` for what is no kernel at all)."""
        arrays = (*self.kernel.reads, *self.kernel.outputs)  # the text's parameters, in this order
        if len(set(arrays)) != len(arrays) or not self.kernel.outputs:
            raise IllFormed("a kernel needs outputs, may not read them, and names each array once")
        check_names((self.kernel.name, *arrays), "kernel")
        for name in self.kernel.outputs:
            self.program.definition(name)  # an input is no output
            self.idle |= self._never(name)
        self.ledger.place = f"kernel {self.kernel.name}/machine"
        self.threads.check_machine()
        scope = Scope(self.ledger.base)
        self.block(self.kernel.body, Frame((), scope, Ranges.of(self.program.sizes, self.kernel.machine.index_bits)))
        self.ledger.place = f"kernel {self.kernel.name}/threads"
        self.threads.check_order()
        for name, writes in self.outputs.items():
            self.ledger.place = f"kernel {self.kernel.name}/{name}"
            tensor = self.program.tensor(name)
            self._covered(name, tensor.shape, writes, scope)

    def _never(self, name: str) -> bool:
        """Whether the output is shown to have no element, as x[5:] of a fixed size 3 has none."""
        self.ledger.place = f"kernel {self.kernel.name}/{name}"
        cells = tuple(Axis(self.ledger.fresh("x"), extent) for extent in self.program.tensor(name).shape)
        try:
            with self.ledger.trial():
                self.ledger.holds(f"empty/{name}", self.ledger.base, Op("not", (conj(*domain_facts(cells)),)))
            return True
        except Refused:
            return False

    # -- statements -------------------------------------------------------------------------------------------------

    def block(self, body: Iterable[Stmt], frame: Frame) -> None:
        declared: list[str] = []
        for number, statement in enumerate(body):
            match statement:
                case Alloc():
                    self._at(statement.buffer.name, number)
                    self._declare(statement, frame)
                    declared.append(statement.buffer.name)
                case For():
                    self._loop(statement, frame)
                case Assign():
                    self._at(statement.target, number)
                    self._assign(statement, frame)
                case Barrier() | Commit():
                    self.threads.order.append(statement)
                case Wait(keep) if keep >= 0:
                    self.threads.order.append(statement)
                case _:
                    raise IllFormed(f"not a statement: {type(statement).__name__}")
            for name in declared:
                self._complete(self.cells[name], frame)
        for name in declared:
            del self.cells[name]

    def _at(self, target: str, number: int) -> None:
        self.ledger.place = f"kernel {self.kernel.name}/{target}:{number}"

    def _declare(self, statement: Alloc, frame: Frame) -> None:
        buffer = statement.buffer
        taken = set(self.cells) | {s.name for s in self.program.sizes} | {t.name for t in self.program.inputs}
        taken |= {
            d.tensor.name for d in self.program.defs
        }  # also those not read here: what is known of them holds of no buffer
        if buffer.name in taken:
            raise IllFormed(f"buffer {buffer.name!r} is declared twice")
        check_names((buffer.name,), "buffer")
        if buffer.dtype not in SORTS or buffer.scope not in get_args(BufferScope):
            raise IllFormed(f"buffer {buffer.name}: {buffer.dtype} {buffer.scope}")
        arrays = (*self.tensors.values(), *map(self.program.tensor, self.outputs))
        self.widest = max((BYTES[t.dtype] for t in arrays if SORTS[t.dtype] == "real"), default=0)
        self.threads.check_owners(buffer)
        self.threads.check_place(buffer, bool(frame.loops))
        bound = 1
        for extent in buffer.shape:
            self._extent(extent, frame, ())
            self.ledger.holds("capacity/extent", frame.scope.facts, Op("le", (Const(0), extent)))
            bound *= frame.ranges.limit(self.ledger, extent)
        scope, size, limit = buffer.scope, bound * BYTES[buffer.dtype], BUFFER_BYTES
        near = scope == "register" or (scope == "shared" and self.kernel.machine.threads > 1)
        if near and not all(isinstance(e, Const) for e in buffer.shape):
            raise self.ledger.refuse(f"capacity/{scope}", f"{buffer.name} has an extent that is no constant", "disproved")
        if scope == "register":
            self.register_bytes += size // owners(buffer)  # of all such buffers: where one ends is the text's business
            size, limit = self.register_bytes, REGISTER_BYTES
        elif near:
            self.shared_bytes += shared_bytes(buffer.dtype, bound)  # over all launches: never fewer than those of one
            size, limit = self.shared_bytes, self.kernel.machine.shared_bytes
        if size > limit:
            raise self.ledger.refuse(f"capacity/{scope}", f"{buffer.name} may exceed {limit} bytes", "disproved")
        if statement.claim is not None:
            self._claim_names(statement.claim, buffer, frame, ())
            if statement.claim.where != TRUE:
                raise IllFormed(f"{buffer.name}: a single-assignment buffer is written whole; its claim has no `where`")
        self.cells[buffer.name] = Cell(buffer, len(frame.loops), statement.claim)

    def _loop(self, loop: For, frame: Frame) -> None:
        self._new_name(loop.axis.name, frame, ())
        self._extent(loop.axis.extent, frame, ())
        if loop.kind in ("lane", "thread") or loop.kind not in get_args(Kind):
            raise IllFormed(f"a loop of kind {loop.kind}; lanes and threads are axes of an assignment")
        if loop.carried and loop.kind != "seq" and loop.kind != "unroll":
            raise self.ledger.refuse("no-race/carried", f"parallel loop {loop.axis.name} carries a buffer", "disproved")
        place = f"kernel {self.kernel.name}/for {loop.axis.name}"
        self.ledger.place = place
        self.ledger.holds("carried/extent", frame.scope.facts, Op("le", (Const(0), loop.axis.extent)))
        for carried in loop.carried:
            cell = self._mutable(carried.buffer, frame.loops)
            self._claim_names(carried.claim, cell.buffer, frame, (loop.axis.name,))
            if cell.content is None:
                raise self.ledger.refuse("stage/defined", f"{carried.buffer} is carried but never set", "disproved")
            self._same_content("carried/entry", cell, cell.content, at(carried.claim, loop.axis.name, Const(0)), frame.scope)
        inner = Frame((*frame.loops, loop), frame.scope.over((loop.axis,)), frame.ranges.over(self.ledger, loop.axis))
        if not self.idle:
            self.equality.reachable(f"reachable/{loop.axis.name}", inner.scope)
        for carried in loop.carried:
            self.cells[carried.buffer].content = carried.claim
        around: list[Item] = self.threads.order
        self.threads.order = []
        self.block(loop.body, inner)
        around.append(Repeat(loop.axis, self.threads.order, self._launches(loop, frame)))
        self.threads.order = around
        self.ledger.place = place
        following = canonical(Op("add", (Var(loop.axis.name), Const(1))))
        for carried in loop.carried:
            cell = self.cells[carried.buffer]
            if cell.content is None:
                raise self.ledger.refuse("stage/defined", f"{carried.buffer} is lost in the loop", "disproved")
            self._same_content("carried/step", cell, cell.content, at(carried.claim, loop.axis.name, following), inner.scope)
        for carried in loop.carried:
            self.cells[carried.buffer].content = at(carried.claim, loop.axis.name, loop.axis.extent)

    @staticmethod
    def _launches(loop: For, frame: Frame) -> bool:
        """Whether a loop is an axis of the grid: outermost, or all that the grid loop around it holds, its extent fixed."""
        axes = {outer.axis.name for outer in frame.loops}
        alone = all(outer.kind == "grid" and len(outer.body) == 1 for outer in frame.loops)
        return loop.kind == "grid" and alone and not free_vars(loop.axis.extent) & axes

    def _same_content(self, name: str, cell: Cell, have: Claim, want: Claim, scope: Scope, *beyond: Term) -> None:
        """Every cell that the second description speaks of is so by the first (of those that satisfy `beyond`, over the
        second's index names)."""
        index = tuple(Axis(self.ledger.fresh(n), e) for n, e in zip(have.index, cell.buffer.shape, strict=True))
        here = tuple(Var(axis.name) for axis in index)
        names = dict(zip(want.index, here, strict=True))
        spoken = tuple(canonical(substitute(f, dict(names))) for f in (*beyond, want.where))
        inside = scope.given(*domain_facts(index), *spoken)
        if have.where != TRUE:
            known = canonical(substitute(have.where, dict(zip(have.index, here, strict=True))))
            self.ledger.holds(f"{name}/{cell.buffer.name}/where", inside.facts, known)
        self.equality.equal(f"{name}/{cell.buffer.name}", apply(have, here), apply(want, here), inside)

    def _assign(self, statement: Assign, frame: Frame) -> None:
        for loop in statement.loops:
            self._new_name(loop.axis.name, frame, ())
        axes = tuple(loop.axis for loop in statement.loops)
        if len({axis.name for axis in axes}) != len(axes):
            raise IllFormed(f"an axis of the assignment to {statement.target} is bound twice")
        names = tuple(axis.name for axis in axes)
        for number, axis in enumerate(axes):
            self._extent(axis.extent, frame, names[:number])
        for place in statement.index:
            self._bound_names(place, frame, names, "int")
        self._bound_names(statement.guard, frame, names, "bool")
        self._bound_names(statement.value, frame, names)
        self._kinds(statement)
        buffer = self.cells[statement.target].buffer if statement.target in self.cells else None
        self.threads.check_copy(statement, buffer, self.tensors)
        if buffer is not None or statement.target in self.outputs:
            known: dict[str, Buffer | Tensor] = {**self.tensors, **{name: cell.buffer for name, cell in self.cells.items()}}
            self.threads.check_vector(statement, buffer or self.program.tensor(statement.target), known)
        self.threads.check_unit(statement, {name: cell.buffer for name, cell in self.cells.items()})
        ranges = frame.ranges.all_over(self.ledger, axes)
        inner = replace(frame, scope=frame.scope.over(axes), ranges=ranges, thread=self.threads.number(statement))
        guard = self.resolve(statement.guard, inner, statement)
        inner = replace(inner, scope=inner.scope.given(guard))
        if not self.idle:
            self.equality.reachable(f"reachable/{statement.target}", inner.scope)
        value = self.resolve(statement.value, inner, statement)
        index = tuple(canonical(self.resolve(i, inner, statement)) for i in statement.index)
        write = Write(
            tuple(f.axis for f in frame.loops) + axes,
            tuple(x for f in frame.loops for x in domain_facts((f.axis,))) + domain_facts(axes, guard), index,
        )  # fmt: skip
        if statement.target in self.outputs:
            self._write_output(statement, write, value, inner)
        elif statement.target in self.cells:
            self._write_buffer(statement, write, value, guard, index, inner)
        else:
            raise IllFormed(f"assignment to unknown {statement.target!r}")

    def _write_output(self, statement: Assign, write: Write, value: Term, frame: Frame) -> None:
        d = self.program.definition(statement.target)
        self._in_box(statement.target, d.tensor.shape, write.index, frame)
        want = substitute(d.value, dict(zip(d.axes, write.index, strict=True)))
        self.equality.equal(f"value/{statement.target}", value, want, frame.scope)
        self.outputs[statement.target].append(write)

    def _write_buffer(
        self, statement: Assign, write: Write, value: Term, guard: Term, index: tuple[Term, ...], frame: Frame
    ) -> None:
        cell = self.cells[statement.target]
        if SORTS[cell.buffer.dtype] != sort_of(value):
            raise IllFormed(f"{statement.target} holds {cell.buffer.dtype}, the value is {sort_of(value)}")
        bytes_ = BYTES[cell.buffer.dtype]
        if SORTS[cell.buffer.dtype] == "real" and bytes_ < self.widest and not self._exact(statement.value, bytes_):
            why = f"{statement.target} is narrower than the arrays of the kernel, and given more than their elements"
            raise self.ledger.refuse("width/real", why, "disproved")
        if cell.buffer.dtype == "int32":
            frame.ranges.fits_int32(self.ledger, value, {t.name for t in self.tensors.values() if t.dtype == "int32"})
        self._in_box(statement.target, cell.buffer.shape, index, frame)
        self._touch(cell, index, frame, statement)
        if cell.claim is not None:
            if cell.content is not None:
                raise self.ledger.refuse("stage/single-assignment", f"{statement.target} is complete already", "disproved")
            if cell.buffer.scope in ("register", "thread") and any(f.kind in PARALLEL for f in frame.loops[cell.level :]):
                why = f"{statement.target} is private to an instance, and is filled by the instances of a loop inside"
                raise self.ledger.refuse("no-race/scope", why, "disproved")
            self.equality.equal(f"value/{statement.target}", value, apply(cell.claim, index), frame.scope)
            own = tuple(f.axis for f in frame.loops[cell.level :]) + tuple(loop.axis for loop in statement.loops)
            cell.writes.append(Write(own, domain_facts(own, guard), index))
            return
        self._mutable(statement.target, frame.loops)
        if guard != TRUE:
            raise self.ledger.refuse("cover/whole", f"{statement.target} is assigned under a guard", "disproved")
        own = tuple(loop.axis for loop in statement.loops)
        outside = self._outside(frame)
        fixed = [k for k, i in enumerate(index) if not free_vars(i) & {axis.name for axis in own}]
        at = tuple(index[k] if k in fixed else None for k in range(len(index)))
        self._covered(statement.target, cell.buffer.shape, [Write(own, domain_facts(own), index)], outside, at)
        if statement.claim is not None:  # it may name buffers, and is never run: only its buffer reads are resolved
            outer = {n: bound for n, bound in frame.ranges.bounds.items() if n not in {axis.name for axis in own}}
            apart = replace(frame, ranges=replace(frame.ranges, bounds=outer))
            self._claim_names(statement.claim, cell.buffer, apart, (), buffers=True)
            box = tuple(Axis(n, e) for n, e in zip(statement.claim.index, cell.buffer.shape, strict=True))
            within_box = self._outside(frame).given(*domain_facts(box))
            around = Frame(frame.loops, within_box, replace(frame.ranges, bounds=outer).all_over(self.ledger, box))
            said = self.resolve(statement.claim.value, around, statement, executed=False)
            claim = Claim(statement.claim.index, said, statement.claim.where)
            here = canonical(substitute(claim.where, dict(zip(claim.index, index, strict=True))))
            self.equality.equal(f"value/{statement.target}", value, apply(claim, index), frame.scope.given(here))
            self._rest_stays(cell, claim, index, fixed, outside)
            cell.content = claim
            return
        if any(cell.buffer.shape[k] != ONE for k in fixed):
            raise self.ledger.refuse("cover/whole", f"{statement.target} is assigned in part, and no claim says what it holds")
        plain = tuple(i.name for i in index if isinstance(i, Var))
        if len(plain) != len(index) or set(plain) != {axis.name for axis in own}:
            raise IllFormed(f"{statement.target}: an index that is not its own axes needs a claim")
        fresh = {name: Var(self.ledger.fresh(name)) for name in plain}
        cell.content = Claim(tuple(fresh[name].name for name in plain), substitute(value, dict(fresh)))

    def _exact(self, value: Term, width: int) -> bool:
        """Whether a value is an element of an array or buffer of at most this width, or zero, or an infinity."""
        match value:
            case Read(name, _, "real"):
                dtype = self.cells[name].buffer.dtype if name in self.cells else self.tensors[name].dtype
                return BYTES[dtype] <= width
            case Const(number):
                return number == 0 or isinstance(number, str)
            case Op("select", (_, a, b)) | Op("max" | "min", (a, b)):
                return self._exact(a, width) and self._exact(b, width)
            case _:
                return False

    def _rest_stays(self, cell: Cell, claim: Claim, index: tuple[Term, ...], fixed: list[int], scope: Scope) -> None:
        """Where the statement fixes a place of the index, other cells keep what they hold."""
        if not fixed:
            return
        names = tuple(Var(name) for name in claim.index)
        other = canonical(Op("not", (conj(*(Op("eq", (names[k], index[k])) for k in fixed)),)))
        box = tuple(Axis(name, e) for name, e in zip(claim.index, cell.buffer.shape, strict=True))
        if cell.content is None:
            unsaid = canonical(Op("not", (claim.where,)))
            self.ledger.holds(f"stage/defined/{cell.buffer.name}", (*scope.facts, *domain_facts(box), other), unsaid)
        else:
            self._same_content("stage/keeps", cell, cell.content, claim, scope, other)

    def _outside(self, frame: Frame) -> Scope:
        scope = Scope(self.ledger.base)
        for loop in frame.loops:
            scope = scope.over((loop.axis,))
        return scope

    # -- buffers ----------------------------------------------------------------------------------------------------

    def _mutable(self, name: str, loops: tuple[For, ...]) -> Cell:
        """A buffer that may be assigned here: every loop between it and here carries it."""
        if name not in self.cells or self.cells[name].claim is not None:
            raise IllFormed(f"{name!r} is not a mutable buffer here")
        cell = self.cells[name]
        for loop in loops[cell.level :]:
            if name not in [c.buffer for c in loop.carried]:
                kind = "parallel " if loop.kind in PARALLEL else ""
                raise self.ledger.refuse(
                    "no-race/shared", f"{name} is assigned in {kind}loop {loop.axis.name}, which does not carry it", "disproved"
                )
        return cell

    def _complete(self, cell: Cell, frame: Frame) -> None:
        """A single-assignment buffer becomes readable once its writes cover it."""
        if cell.claim is None or cell.content is not None or not cell.writes:
            return
        self._covered(cell.buffer.name, cell.buffer.shape, cell.writes, frame.scope)
        cell.content = cell.claim

    def _covered(
        self, name: str, shape: tuple[Term, ...], writes: list[Write], scope: Scope, at: tuple[Term | None, ...] = ()
    ) -> None:
        """Every cell is written, by one iteration of one statement. `at`: places of the index that are given."""
        cells = tuple(Axis(self.ledger.fresh("x"), extent) for extent in shape)
        scope = scope.given(*(Op("eq", (Var(c.name), i)) for c, i in zip(cells, at, strict=False) if i is not None))
        parts = []
        for write in writes:
            hits = tuple(Op("eq", (Var(c.name), i)) for c, i in zip(cells, write.index, strict=True))
            parts.append((tuple(axis.name for axis in write.axes), (*write.facts, *hits)))
        given = [f for f in (*scope.facts, *domain_facts(cells)) if is_affine(f)]
        self.ledger.covers(f"cover/{name}", given, parts)
        for k, first in enumerate(writes):
            for second in writes[: k + 1]:
                twin = {axis.name: Var(self.ledger.fresh(axis.name)) for axis in second.axes}
                there = tuple(substitute(f, dict(twin)) for f in second.facts)
                meet = tuple(Op("eq", (i, substitute(m, dict(twin)))) for i, m in zip(first.index, second.index, strict=True))
                both = (*first.facts, *there, *meet)
                if first is second:
                    same = conj(*(Op("eq", (Var(a.name), twin[a.name])) for a in first.axes))
                    self.ledger.holds(f"no-race/{name}", (*scope.facts, *both), same)
                else:
                    self.ledger.holds(f"no-race/{name}", scope.facts, Op("not", (conj(*usable(both)),)))

    def _in_box(self, name: str, shape: tuple[Term, ...], index: tuple[Term, ...], frame: Frame) -> None:
        if len(index) != len(shape):
            raise IllFormed(f"{name} has {len(shape)} axes, the index {len(index)}")
        for i, extent in zip(index, shape, strict=True):
            frame.ranges.limit(self.ledger, i)
            inside = conj(Op("le", (Const(0), i)), Op("lt", (i, extent)))
            self.ledger.holds(f"in-bounds/{name}", frame.scope.facts, inside)

    # -- terms ------------------------------------------------------------------------------------------------------

    def resolve(self, term: Term, frame: Frame, statement: Assign, *, executed: bool = True) -> Term:
        """The term with every read of a buffer replaced by the buffer's content; every read is shown to be in bounds.

        A claim is not executed: its reads of tensors are mathematics only, and need no bounds.
        """
        if not executed and not any(r.tensor in self.cells for r in reads(term)):
            return term
        match term:
            case Read():
                return self._read(term, frame, statement, executed)
            case Fold():
                for axis in term.axes:
                    self._new_name(axis.name, frame, tuple(loop.axis.name for loop in statement.loops))
                inner = replace(frame, thread=self.threads.lane(term, statement, frame.thread)) if executed else frame
                axes = []
                for axis in term.axes:
                    inner = replace(inner, ranges=inner.ranges.over(self.ledger, axis))
                    axes.append(Axis(axis.name, self.resolve(axis.extent, frame, statement, executed=executed)))
                inner = replace(inner, scope=inner.scope.over(axes))
                guard = self.resolve(term.guard, inner, statement, executed=executed)
                inner = replace(inner, scope=inner.scope.given(guard))
                if axes:  # names bound here may not be bound again inside
                    inner = replace(inner, ranges=inner.ranges.bind(tuple(axis.name for axis in axes)))
                body = tuple(self.resolve(b, inner, statement, executed=executed) for b in term.body)
                return self._within(Fold(term.monoid, tuple(axes), guard, body, term.component), frame)
            case Op("select", (c, a, b)):
                condition = self.resolve(c, frame, statement, executed=executed)
                yes = replace(frame, scope=frame.scope.given(condition))
                no = replace(frame, scope=frame.scope.given(canonical(Op("not", (condition,)))))
                a, b = (self.resolve(x, f, statement, executed=executed) for x, f in ((a, yes), (b, no)))
                return Op("select", (condition, a, b))
            case _:
                parts = tuple(self.resolve(part, frame, statement, executed=executed) for part in children(term))
                return self._within(rebuild(term, parts) if parts else term, frame)

    def _within(self, term: Term, frame: Frame) -> Term:
        """A term over tensors alone, so that nothing hides in a buffer, whose integers stay within their bits."""
        if sort_of(term) == "int":
            frame.ranges.limit(self.ledger, term)
        return term

    def _read(self, term: Read, frame: Frame, statement: Assign, executed: bool) -> Term:
        index = tuple(self.resolve(i, frame, statement, executed=executed) for i in term.index)
        if term.tensor in self.tensors:
            check_read(term, self.tensors, statement.target)
            if executed:
                self._in_box(term.tensor, self.tensors[term.tensor].shape, index, frame)
            return Read(term.tensor, index, term.sort)
        if term.tensor not in self.cells:
            raise IllFormed(f"{statement.target}: reads unknown {term.tensor!r}")
        cell = self.cells[term.tensor]
        if SORTS[cell.buffer.dtype] != term.sort:
            raise IllFormed(f"{statement.target}: reads {term.tensor} as {term.sort}")
        if cell.content is None:
            raise self.ledger.refuse("stage/defined", f"{term.tensor} is read before it is written whole", "disproved")
        elsewhere = tuple(map(canonical, term.index)) != tuple(map(canonical, statement.index))
        if executed and term.tensor == statement.target and elsewhere:
            raise self.ledger.refuse("stage/own-cell", f"{term.tensor} reads a cell that it writes elsewhere", "disproved")
        self._in_box(term.tensor, cell.buffer.shape, index, frame)
        if cell.content.where != TRUE:
            where = canonical(substitute(cell.content.where, dict(zip(cell.content.index, index, strict=True))))
            self.ledger.holds(f"stage/defined/{term.tensor}", frame.scope.facts, where)
        if executed:
            self._touch(cell, index, frame, None)
        return apply(cell.content, index)

    def _touch(self, cell: Cell, index: tuple[Term, ...], frame: Frame, writer: Assign | None) -> None:
        inside = any(loop.kind == "grid" for loop in frame.loops[cell.level :])
        self.threads.touch(cell.buffer, index, frame.thread, frame.scope.facts, writer, inside)

    # -- names ------------------------------------------------------------------------------------------------------

    def _new_name(self, name: str, frame: Frame, more: tuple[str, ...]) -> None:
        check_names((name,), "axis")
        if name in frame.ranges.bounds or name in more:
            raise IllFormed(f"{self.ledger.place}: axis {name!r} is bound twice")

    def _bound_names(self, term: Term, frame: Frame, more: tuple[str, ...], sort: Sort | None = None) -> None:
        check_term(term, self.ledger.place, sort)
        loose = free_vars(term) - set(frame.ranges.bounds) - set(more)
        if loose:
            raise IllFormed(f"{self.ledger.place}: unbound {sorted(loose)} in {show(term)}")

    def _extent(self, extent: Term, frame: Frame, more: tuple[str, ...]) -> None:
        check_extent(extent, self.ledger.place)
        self._bound_names(extent, frame, more)

    def _laws(self, fold: Fold) -> Laws:
        """The monoid's laws for all states; or for the identity and finite states, where every element is finite."""
        monoids = self.equality.monoids
        try:
            return monoids.laws(fold.monoid)
        except Refused as refusal:
            monoids.meaningful(fold.monoid)
            if not all(self.equality.finite("element/finite", part, Scope(())) for part in fold.body):
                raise refusal from None
            return Laws(fold.monoid.commutative)

    def _kinds(self, statement: Assign) -> None:
        """Kinds of the loops and fold axes. A fold axis spread over lanes reorders the fold: its monoid must allow it."""
        kinds = dict(statement.fold_kinds)
        if len(kinds) != len(statement.fold_kinds) or any(loop.kind not in get_args(Kind) for loop in statement.loops):
            raise IllFormed(f"{statement.target}: an axis has two kinds, or an unknown one")
        for fold in (f for term in (*statement.index, statement.guard, statement.value) for f in all_folds(term)):
            laws = self._laws(fold)  # a printer may group by them, and reorder if commutative is claimed
            for axis in fold.axes:
                kind = kinds.get(axis.name, "seq")
                if kind == "grid":
                    raise IllFormed(f"{statement.target}: fold axis {axis.name} of kind {kind}")
                if kind in ("lane", "thread") and not laws.commutative:
                    why = f"fold axis {axis.name} runs on lanes, but {fold.monoid.name} is not commutative"
                    raise self.ledger.refuse("parallelise/commutative", why, "disproved")

    def _claim_names(self, claim: Claim, buffer: Buffer, frame: Frame, more: tuple[str, ...], *, buffers: bool = False) -> None:
        if len(claim.index) != len(buffer.shape) or len(set(claim.index)) != len(claim.index):
            raise IllFormed(f"claim on {buffer.name}: {len(claim.index)} index names for rank {len(buffer.shape)}")
        if set(claim.index) & (set(frame.ranges.bounds) | set(more)):
            raise IllFormed(f"claim on {buffer.name}: an index bears the name of a loop or size")
        check_names(claim.index, f"claim on {buffer.name}")
        self._bound_names(claim.value, frame, (*more, *claim.index), SORTS[buffer.dtype])
        self._bound_names(claim.where, frame, (*more, *claim.index), "bool")
        if not is_affine(claim.where):
            raise IllFormed(f"claim on {buffer.name}: `where` is no affine condition")
        for read in reads(claim.value):
            if read.tensor not in self.cells or not buffers:
                check_read(read, self.tensors, f"claim on {buffer.name}")


def all_folds(term: Term) -> list[Fold]:
    """Every fold in a term, nested ones too."""
    out: dict[Fold, None] = {}
    seen: set[Term] = set()
    stack = [term]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if isinstance(node, Fold):
                out[node] = None
            stack += children(node)
    return list(out)


def apply(claim: Claim, index: tuple[Term, ...]) -> Term:
    return canonical(substitute(claim.value, dict(zip(claim.index, index, strict=True))))


def at(claim: Claim, axis: str, value: Term) -> Claim:
    said, where = (canonical(substitute(part, {axis: value})) for part in (claim.value, claim.where))
    return Claim(claim.index, said, where)
