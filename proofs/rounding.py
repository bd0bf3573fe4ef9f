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
from fractions import Fraction
from itertools import pairwise

from tang_verified.proofs.execute import all_folds
from tang_verified.proofs.recurrence import NotLinear, solved
from tang_verified.semantics.build import canonical, conj, linear
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Claim, For, Kernel, Stmt
from tang_verified.semantics.program import BYTES, SORTS, DType
from tang_verified.semantics.rounding import (
    Pair,
    Rounding,
    Rules,
    Sharing,
    choose,
    either,
    infinities,
    larger,
    plus,
    rebuilt,
    support,
)
from tang_verified.semantics.terms import (
    ADD,
    ANY,
    FALSE,
    INT_ADD,
    MAX,
    MIN,
    ONE,
    POS_INF,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Monoid,
    Op,
    Read,
    Sym,
    Term,
    Var,
    children,
    free_vars,
    reads,
    rebuild,
    sort_of,
    substitute,
    tensors,
)

COMPARISONS = ("lt", "le", "eq", "ne")


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


def error_of(name: str) -> str:
    """The array of a definition's errors; no program can name one so."""
    return f"{name}.error"


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
        error: Term = POS_INF if rounding.unsaid else walk.at_index(walk.outputs[name], axes)
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
        fresh = self.at_index([Write(axes, index, guard, error)], names)
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
        names = tuple(f".at{k}" for k in range(len(index)))
        return self.neat(self.at_index(writes, names), dict(zip(names, index, strict=True)))

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

    def at_index(self, writes: Sequence[Write], names: tuple[str, ...]) -> Term:
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
                error = choose(conj(*here), error, REAL_ZERO)
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


@dataclass
class Statement:
    """The value of one assignment, and its error, before and after it is stored."""

    walk: Walk
    statement: Assign

    def __post_init__(self) -> None:
        dtypes = [d for r in reads(self.statement.value) if (d := self.dtype(r.tensor)) is not None]
        target = self.dtype(self.statement.target)
        self.rules = Rules(self.walk.rounding, "float64" if "float64" in (*dtypes, target) else "float32")
        self.target: DType = target or "float32"
        self.share = self.walk.share
        self.memo: dict[Term, Pair] = {}
        self.steady: dict[Term, Term] = {}
        outer = all_folds(self.statement.value)
        self.nested = {inner for fold in outer for part in children(fold) for inner in all_folds(part)}  # folds within folds

    def dtype(self, name: str) -> DType | None:
        if name in self.walk.cells:
            return self.walk.cells[name].buffer.dtype
        return self.walk.program.tensor(name).dtype

    def stored(self) -> Pair:
        value, error = self.pair(self.statement.value)
        if SORTS[self.target] != "real":
            return value, choose(self.unsteady(self.statement.value), POS_INF, REAL_ZERO)
        if BYTES[self.target] < BYTES[self.rules.dtype] and not self.fits(self.statement.value):  # type: ignore[index]
            error = Rules(self.walk.rounding, self.target).rounded(value, error)
        return canonical(value), error

    def fits(self, term: Term) -> bool:
        """Whether a value is one of the target's type as it stands."""
        match term:
            case Read(name, _, "real"):
                return BYTES[self.dtype(name) or "float64"] <= BYTES[self.target]
            case Const(number):
                return number == 0 or isinstance(number, str)
            case Op("select", (_, a, b)) | Op("max" | "min", (a, b)):
                return self.fits(a) and self.fits(b)
            case Op("neg" | "abs", (a,)):
                return self.fits(a)
            case _:
                return False

    def value(self, term: Term) -> Term:
        return self.pair(term)[0]

    def pair(self, term: Term) -> Pair:
        """The value over the reals, and the error of what is computed; for integers and conditions, see `unsteady`."""
        if term not in self.memo:
            value, error = self._pair(term)
            self.memo[term] = self.share(value), self.share(error)
        return self.memo[term]

    def _pair(self, term: Term) -> Pair:
        match term:
            case Const(Fraction() as number):
                return term, self.rules.constant(number)
            case Const("nan"):  # no number is within anything of it
                return term, POS_INF
            case Read():
                return self._read(term)
            case Fold():
                return self._fold(term)
            case Op("select", (condition, a, b)) if sort_of(term) == "real":
                return self._select(condition, self.pair(a), self.pair(b))
            case Op(name, args):
                value = rebuild(term, tuple(self.pair(arg)[0] for arg in args))
                if sort_of(term) != "real":
                    return value, REAL_ZERO
                if name == "real":
                    error = self.rules.integer(canonical(value).args[0])  # type: ignore[union-attr]
                    return value, choose(self.unsteady(args[0]), POS_INF, error)
                pairs = [self.pair(arg) for arg in args]
                error = self.rules.operation(name, value, *pairs)
                if error == POS_INF and all(e != POS_INF for _, e in pairs):
                    self.because(f"{name} in {self.rules.dtype} has no stated error")
                return value, error
            case _:
                return term, REAL_ZERO

    def because(self, reason: str) -> None:
        self.walk.reasons[reason] = None

    def _read(self, term: Read) -> Pair:
        index = tuple(canonical(self.value(part)) for part in term.index)
        shaky = self._any(term.index)
        if term.tensor in self.walk.cells:
            value, error = self.walk.content(self.walk.cells[term.tensor], index)
        else:
            value, error = Read(term.tensor, index, term.sort), REAL_ZERO
            if term.sort == "real" and term.tensor not in self.walk.inputs:
                error = Read(error_of(term.tensor), index, "real")
            if term.sort == "real" and self.walk.rounding.flushed:
                error = plus(error, Const(self.walk.rounding.tiny(self.rules.dtype)))
        return value, choose(shaky, POS_INF, error) if term.sort == "real" else REAL_ZERO

    def _select(self, condition: Term, a: Pair, b: Pair) -> Pair:
        """Where the condition may come out otherwise, what is computed is one branch and what is exact may be the other."""
        c, shaky = canonical(self.value(condition)), self.unsteady(condition)
        error = choose(c, a[1], b[1])
        if shaky != FALSE:
            apart = plus(larger(a[1], b[1]), Op("abs", (Op("sub", (a[0], b[0])),)))
            error = choose(shaky, apart, error)
        return choose(c, a[0], b[0]), error

    # -- what may come out otherwise ------------------------------------------------------------------------------------

    def unsteady(self, term: Term) -> Term:
        """When an integer or a condition may be computed to be another one."""
        if term not in self.steady:
            self.steady[term] = self._unsteady(term)
        return self.steady[term]

    def _unsteady(self, term: Term) -> Term:
        match term:
            case Op(name, (a, b)) if name in COMPARISONS and sort_of(a) == "real":
                return self._flips(self.pair(a), self.pair(b))
            case Op("trunc", (a,)):
                error = self.pair(a)[1]
                return FALSE if error == REAL_ZERO else canonical(Op("not", (Op("eq", (error, REAL_ZERO)),)))
            case Fold(_, axes, _, body, _):
                guard = self.value(term.guard)
                parts = either(self._any(body), self.unsteady(term.guard))
                extents = self._any(tuple(axis.extent for axis in axes))
                if parts == FALSE:
                    return extents
                return either(extents, Fold(ANY, self._axes(axes), TRUE, (Op("and", (guard, parts)),)))
            case Read(name, index, sort) if sort != "real" and name in self.walk.cells:
                shaky = self.walk.content(self.walk.cells[name], tuple(map(self.value, index)))[1]
                moved = FALSE if shaky == REAL_ZERO else canonical(Op("not", (Op("eq", (shaky, REAL_ZERO)),)))
                return either(moved, self._any(index))
            case _:
                return self._any(children(term))

    def _any(self, terms: Sequence[Term]) -> Term:
        out: Term = FALSE
        for term in terms:
            out = either(out, self.unsteady(term))
        return out

    @staticmethod
    def _flips(a: Pair, b: Pair) -> Term:
        """The sides are within their errors of each other; not where both are the same infinity, which is exact."""
        error = plus(a[1], b[1])
        if error == REAL_ZERO:
            return FALSE
        apart = Op("lt", (error, Op("abs", (Op("sub", (a[0], b[0])),))))
        stays = either(apart, Op("eq", (error, REAL_ZERO)))
        if infinities(a[0]) & infinities(b[0]):
            same = conj(Op("eq", (a[0], b[0])), Op("eq", (Op("abs", (a[0],)), POS_INF)))
            stays = either(stays, conj(same, Op("lt", (error, POS_INF))))
        return Op("not", (stays,))

    # -- folds ----------------------------------------------------------------------------------------------------------

    def _axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(axis.name, canonical(self.value(axis.extent))) for axis in axes)

    def _fold(self, term: Fold) -> Pair:
        guard, axes = canonical(self.value(term.guard)), self._axes(term.axes)
        body = tuple(canonical(self.value(part)) for part in term.body)
        value = Fold(term.monoid, axes, guard, body, term.component)
        if sort_of(term) != "real":
            return value, REAL_ZERO
        monoid = component(term.monoid, term.component)
        leaf, error = body[term.component], self.pair(term.body[term.component])[1]
        alone = None if monoid is None else Fold(monoid, axes, guard, (leaf,))
        shaky = self._any((*(axis.extent for axis in term.axes), term.guard))
        if self.statement.unit:
            self.because(f"how {self.statement.unit} rounds its sums is not stated")
        elif monoid == ADD and alone is not None:
            found = self.rules.total(alone, leaf, error, self.depth(term, axes, guard, leaf))
            return alone, choose(shaky, POS_INF, found)
        elif monoid in (MAX, MIN) and alone is not None:
            if error == REAL_ZERO:
                return alone, choose(shaky, POS_INF, REAL_ZERO)
            most = Op("max", (Fold(MAX, axes, guard, (error,)), REAL_ZERO))
            return alone, choose(shaky, POS_INF, most)
        else:
            self.because(f"a fold by {term.monoid.name} has no rule")
        return value, POS_INF

    def depth(self, fold: Fold, axes: tuple[Axis, ...], guard: Term, leaf: Term) -> Term:
        """The most additions that an element passes through: the steps of the axes that run one after the other, but the first,
        which adds to 0; and lanes and threads, which are joined in pairs. To add 0, as beyond a ragged end, rounds nothing."""
        kinds, one = dict(self.statement.fold_kinds), self.walk.kernel.machine.threads == 1
        spread = any(loop.kind == "lane" for loop in self.statement.loops)
        joins, steps = 0, []
        for place, axis in enumerate(axes):
            kind = kinds.get(fold.axes[place].name, "seq")
            count = axis.extent.value if isinstance(axis.extent, Const) else None
            lanes = kind == "lane" and one and not spread and fold not in self.nested and place == len(axes) - 1
            if isinstance(count, int) and count > 1 and (kind == "thread" or (lanes and count & (count - 1) == 0)):
                joins += (count - 1).bit_length()
            else:
                steps.append(axis)
        taken = _product(tuple(steps)) if not joins or steps else ONE
        most = canonical(Op("add", (taken, Const(joins - 1))))
        nonzero = support(leaf)
        if nonzero == TRUE:
            return most
        counted = Op("add", (Fold(INT_ADD, axes, guard, (Op("select", (nonzero, ONE, ZERO)),)), Const(-1)))
        return Op("max", (Op("min", (most, counted)), ZERO))


def _product(axes: tuple[Axis, ...]) -> Term:
    """The number of elements of a box, at least 1."""
    if any(free_vars(axis.extent) & {other.name for other in axes} for axis in axes):
        return Op("max", (Fold(INT_ADD, axes, TRUE, (ONE,)), ONE))
    total: Term = ONE
    for axis in axes:
        total = Op("mul", (total, axis.extent if isinstance(axis.extent, Const) else Op("max", (axis.extent, ONE))))
    return canonical(total)


def component(monoid: Monoid, place: int) -> Monoid | None:
    """A field that is combined with itself alone, as a monoid that the rules know."""
    for known in (ADD, MAX, MIN):
        own = {f"{side}0": f"{side}{place}" for side in "ab"}
        match known.combine[0]:
            case Op(name, (Sym(left, _), Sym(right, _))):
                want = Op(name, (Sym(own[left], "real"), Sym(own[right], "real")))
                if monoid.combine[place] == want and monoid.identity[place] == known.identity[0]:
                    return known
    return None


# -- carried errors, and errors at an index ---------------------------------------------------------------------------------


def _placeholder(name: str, index: tuple[str, ...]) -> Read:
    return Read(carried_error(name), tuple(map(Var, index)), "real")


def _carried(term: Term) -> set[str]:
    return {name.removesuffix(".carried") for name in tensors(term) if name.endswith(".carried")}


def inverse(index: tuple[Term, ...], axes: tuple[Axis, ...], names: tuple[str, ...]) -> tuple[dict[str, Term], list[Axis]]:
    """The axes' values where index(axes) = names, as far as digits show them; and the axes that are left.

    48 i + r = x, r < 48:   i = x // 48, r = x − 48 i
    """
    extents = {axis.name: axis.extent for axis in axes}
    places: dict[str, Term] = {}
    for part, name in zip(index, names, strict=True):
        atoms, constant = linear(part)
        digits = sorted((c, a.name) for a, c in atoms.items() if isinstance(a, Var) and a.name in extents)
        if not digits or any(free_vars(a) & extents.keys() and not isinstance(a, Var) for a in atoms):
            continue
        rest: Term = Op("sub", (Var(name), Const(constant)))
        for atom, c in atoms.items():
            if not (isinstance(atom, Var) and atom.name in extents):
                rest = Op("sub", (rest, Op("mul", (Const(c), atom))))
        if any(n in places for _, n in digits) or not _mixed_radix(digits, extents):
            continue
        for place, (c, n) in reversed(list(enumerate(digits))):
            if place == 0 and c == 1:
                taken = rest
                for above, m in digits[1:]:
                    taken = Op("sub", (taken, Op("mul", (Const(above), places[m]))))
                places[n] = canonical(taken)
            elif c == -1:
                places[n] = canonical(Op("neg", (rest,)))
            else:
                digit: Term = canonical(Op("floordiv", (rest, Const(c))))
                if place + 1 < len(digits):
                    digit = canonical(Op("mod", (digit, Const(digits[place + 1][0] // c))))
                places[n] = digit
    return places, [axis for axis in axes if axis.name not in places]


def _mixed_radix(digits: list[tuple[int, str]], extents: Mapping[str, Term]) -> bool:
    if len(digits) == 1 and digits[0][0] == -1:
        return True
    if digits[0][0] < 1:
        return False
    for (c, n), (above, _) in pairwise(digits):
        extent = extents[n]
        if not isinstance(extent, Const) or not isinstance(extent.value, int) or above % c or above < c * extent.value:
            return False
    return True
