"""The value of one assignment over the reals, and the error of what is computed for it.

    acc[r, c] + Σ_{k < 256} x[r, k]·w[k, c]      value: acc and the others replaced by what they hold
                                                 error: the rules of `semantics/rounding.py`, from the buffers' errors

How often an element of a sum is rounded follows from how the fold runs (`depth`). Whether an integer or a condition that is
computed from reals may come out otherwise is a question of its own (`unsteady`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tang_verified.proofs.execute import all_folds
from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.kernel import Assign
from tang_verified.semantics.program import BYTES, SORTS, DType
from tang_verified.semantics.rounding import (
    Pair,
    Rules,
    choose,
    either,
    infinities,
    larger,
    plus,
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
    children,
    free_vars,
    reads,
    rebuild,
    sort_of,
)

if TYPE_CHECKING:
    from tang_verified.proofs.rounding import Walk

COMPARISONS = ("lt", "le", "eq", "ne")


def error_of(name: str) -> str:
    """The array of a definition's errors; no program can name one so."""
    return f"{name}.error"


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
                error = plus(error, Const(self.walk.rounding.tiny(self.dtype(term.tensor) or self.rules.dtype)))
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
            case Op("and" | "or" as name, (a, b)):  # b counts, and may have a value, only where a does not decide
                second = self.unsteady(b)
                open_ = self.value(a) if name == "and" else canonical(Op("not", (self.value(a),)))
                return either(self.unsteady(a), second if second == FALSE else Op("select", (open_, second, FALSE)))
            case Op("select", (condition, a, b)):
                branches = choose(self.value(condition), self.unsteady(a), self.unsteady(b))
                return either(self.unsteady(condition), branches)
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
