"""Index arithmetic stays within 64-bit (or 32-bit) integers: every intermediate of every index, for all declared sizes.

Bounds are intervals of exact integers: each operation's of its arguments', n times an element's for a sum of n. A sum's
interval holds 0 and each part of it, so the order in which a text adds is of no concern. What a buffer holds counts as what
was computed into it; elements of integer arrays, and folds of them, are the user's own. An array offset is computed in
Horner form from in-bounds indices of an array of at most 2^62 elements (checked when it is called), so its intermediates
are below that. A kernel of 32-bit indices is for sizes up to 2^28, and arrays of fewer than
2^31 elements (both checked when it is called).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tang_verified.proofs.ledger import Ledger
from tang_verified.semantics.program import Size
from tang_verified.semantics.terms import Axis, Const, Fold, Op, Read, Sym, Term, Var, children

LIMIT = 2**62
SUMS = 2**63 - 1  # folds and what is computed of them: all that the type holds
NARROW, NARROW_SIZE = 2**31 - 1, 2**28
ANY = (-LIMIT, LIMIT)


Span: TypeAlias = tuple[int, int]  # the least and the largest value


@dataclass(frozen=True)
class Ranges:
    """What each bound variable may be. Sizes are natural numbers."""

    bounds: dict[str, Span]
    most: int = LIMIT

    @staticmethod
    def of(sizes: Sequence[Size], bits: int = 64) -> Ranges:
        most, size = (LIMIT, LIMIT) if bits == 64 else (NARROW, NARROW_SIZE)
        return Ranges({s.name: (min(s.low, size), min(s.high, size)) for s in sizes}, most)

    def over(self, ledger: Ledger, axis: Axis) -> Ranges:
        return Ranges({**self.bounds, axis.name: (0, max(self.span(ledger, axis.extent)[1], 0))}, self.most)

    def all_over(self, ledger: Ledger, axes: Sequence[Axis]) -> Ranges:
        ranges = self
        for axis in axes:
            ranges = ranges.over(ledger, axis)
        return ranges

    def bind(self, names: Sequence[str]) -> Ranges:
        return Ranges({**self.bounds, **{name: self.bounds.get(name, ANY) for name in names}}, self.most)

    def fits_int32(self, ledger: Ledger, value: Term, narrow: set[str]) -> None:
        """A value kept in an int32 buffer: int32 data as they are, or index arithmetic within 31 bits."""
        match value:
            case Read(tensor, _, _) if tensor in narrow:
                return
            case Op("max" | "min", (a, b)) | Op("select", (_, a, b)):
                self.fits_int32(ledger, a, narrow)
                self.fits_int32(ledger, b, narrow)
            case _ if not _arithmetic_alone(value) or _size(self._span(ledger, value)) >= 2**31:
                raise ledger.refuse("width/int32", "an int32 buffer may be given more than 31 bits", "disproved")

    def limit(self, ledger: Ledger, term: Term) -> int:
        """A bound on |term|; refuses a term that, or an int subterm of which, may pass 2^62 (or 2^31 - 1)."""
        return _size(self.span(ledger, term))

    def span(self, ledger: Ledger, term: Term) -> Span:
        """The least and the largest value of the term; refuses as `limit` does."""
        span = self._span(ledger, term)
        bound = _size(span)
        own = isinstance(term, Read) or (isinstance(term, Fold) and not _arithmetic_alone(term))
        most = SUMS if self.most == LIMIT and _folds(term) else self.most
        if bound > most and not own:  # an element of an array fits in its own width; a sum of such is the user's
            bits = 64 if self.most == LIMIT else 32
            raise ledger.refuse(f"width/int{bits}", f"an integer may reach {bound}, beyond {most}", "disproved")
        return span

    def _span(self, ledger: Ledger, term: Term) -> Span:
        match term:
            case Const(value) if isinstance(value, int):
                return int(value), int(value)
            case Var(name):
                return self.bounds.get(name, ANY)
            case Op("add" | "sub" | "mul" | "max" | "min" | "floordiv" | "mod" as name, (left, right)):
                return binary(name, self.span(ledger, left), self.span(ledger, right))
            case Op("neg", (a,)):
                low, high = self.span(ledger, a)
                return -high, -low
            case Op("abs", (a,)):
                return 0, self.limit(ledger, a)
            case Op("select", (_, left, right)):
                return hull(self.span(ledger, left), self.span(ledger, right))
            case Op("int", _):
                return 0, 1
            case Fold() if _arithmetic_alone(term):
                return self._fold_span(ledger, term)
            case Read() | Op() | _:  # integer data: the element's own width; arithmetic on it is the user's
                return -(2**31), 2**31

    def _fold_span(self, ledger: Ledger, fold: Fold) -> Span:
        """Of a sum: elements × an element; of a choice: an element. No loop runs 2^62 times."""
        inner, count = self, 1
        for axis in fold.axes:
            inner = inner.over(ledger, axis)
            count = min(count * inner.bounds[axis.name][1], LIMIT)
        k, combine = fold.component, fold.monoid.combine[fold.component]
        low, high = hull(inner.span(ledger, fold.body[k]), inner.span(ledger, fold.monoid.identity[k]))
        if _chooses(combine):
            return low, high
        if combine == Op("add", (Sym(f"a{k}", "int"), Sym(f"b{k}", "int"))):
            return min(low * count, 0), max(high * count, 0)
        return -SUMS - 1, SUMS + 1


def _size(span: Span) -> int:
    return max(abs(span[0]), abs(span[1]))


def hull(a: Span, b: Span) -> Span:
    return min(a[0], b[0]), max(a[1], b[1])


def binary(name: str, a: Span, b: Span) -> Span:
    match name:
        case "add":
            return min(a[0], 0) + min(b[0], 0), max(a[1], 0) + max(b[1], 0)
        case "sub":
            return binary("add", a, (-b[1], -b[0]))
        case "mul":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "floordiv" if b[0] > 0:
            corners = [x // y for x in a for y in b]
            return min(corners), max(corners)
        case "floordiv":  # by a negative number, or by 0
            return -_size(a) - 1, _size(a) + 1
        case "mod" if b[0] > 0:
            return 0, b[1] - 1
    return -_size(b), _size(b)


def _arithmetic_alone(term: Term) -> bool:
    """The value is made of no data: `_bound` knows its size. Data may decide which of several values it is."""
    match term:
        case Read() | Op("trunc"):
            return False
        case Op("select", (_, a, b)):
            return _arithmetic_alone(a) and _arithmetic_alone(b)
        case Op("int"):
            return True
        case Fold(_, _, _, body, component):
            return _arithmetic_alone(body[component])
        case _:
            return all(_arithmetic_alone(part) for part in children(term))


def _folds(term: Term) -> bool:
    return isinstance(term, Fold) or any(_folds(part) for part in children(term))


def _chooses(combine: Term) -> bool:
    """A monoid's combine that gives one of the two states' numbers."""
    match combine:
        case Sym():
            return True
        case Op("max" | "min", (a, b)) | Op("select", (_, a, b)):
            return _chooses(a) and _chooses(b)
        case _:
            return False
