"""Index arithmetic stays within 64-bit (or 32-bit) integers: every intermediate of every index, for all declared sizes.

Bounds are exact integers: |c·x| <= |c|·max|x|, |x + y| <= max|x| + max|y|, |Σ_{j<n} x| <= n·max|x|. What a buffer holds
counts as what was computed into it; elements of integer arrays, and folds of them, are the user's own. An array offset is
computed in Horner form from in-bounds indices of an array of at most 2^62 elements (checked when it is called), so its
intermediates are below that. A kernel of 32-bit indices is for sizes up to 2^28, so that seven may be added, and arrays of
fewer than 2^31 elements (both checked when it is called).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tang_verified.proofs.ledger import Ledger
from tang_verified.semantics.program import Size
from tang_verified.semantics.terms import Axis, Const, Fold, Op, Read, Sym, Term, Var, children

LIMIT = 2**62
SUMS = 2**63 - 1  # folds and what is computed of them: all that the type holds
NARROW, NARROW_SIZE = 2**31 - 1, 2**28


@dataclass(frozen=True)
class Ranges:
    """The largest absolute value of each bound variable."""

    bounds: dict[str, int]
    most: int = LIMIT

    @staticmethod
    def of(sizes: Sequence[Size], bits: int = 64) -> Ranges:
        most, size = (LIMIT, LIMIT) if bits == 64 else (NARROW, NARROW_SIZE)
        return Ranges({s.name: min(s.high, size) for s in sizes}, most)

    def over(self, ledger: Ledger, axis: Axis) -> Ranges:
        return Ranges({**self.bounds, axis.name: self.limit(ledger, axis.extent)}, self.most)

    def all_over(self, ledger: Ledger, axes: Sequence[Axis]) -> Ranges:
        ranges = self
        for axis in axes:
            ranges = ranges.over(ledger, axis)
        return ranges

    def bind(self, names: Sequence[str]) -> Ranges:
        return Ranges({**self.bounds, **{name: self.bounds.get(name, LIMIT) for name in names}}, self.most)

    def fits_int32(self, ledger: Ledger, value: Term, narrow: set[str]) -> None:
        """A value kept in an int32 buffer: int32 data as they are, or index arithmetic within 31 bits."""
        match value:
            case Read(tensor, _, _) if tensor in narrow:
                return
            case Op("max" | "min", (a, b)) | Op("select", (_, a, b)):
                self.fits_int32(ledger, a, narrow)
                self.fits_int32(ledger, b, narrow)
            case _ if not _arithmetic_alone(value) or self._bound(ledger, value) >= 2**31:
                raise ledger.refuse("width/int32", "an int32 buffer may be given more than 31 bits", "disproved")

    def limit(self, ledger: Ledger, term: Term) -> int:
        """A bound on |term| and on all its int subterms; refuses what may pass 2^62 (or 2^31 - 1)."""
        bound = self._bound(ledger, term)
        own = isinstance(term, Read) or (isinstance(term, Fold) and not _arithmetic_alone(term))
        most = SUMS if self.most == LIMIT and _folds(term) else self.most
        if bound > most and not own:  # an element of an array fits in its own width; a sum of such is the user's
            bits = 64 if self.most == LIMIT else 32
            raise ledger.refuse(f"width/int{bits}", f"an integer may reach {bound}, beyond {most}", "disproved")
        return bound

    def _bound(self, ledger: Ledger, term: Term) -> int:
        match term:
            case Const(value) if isinstance(value, int):
                return abs(int(value))
            case Var(name):
                return self.bounds.get(name, LIMIT)
            case Op("add" | "sub", (a, b)):
                return self.limit(ledger, a) + self.limit(ledger, b)
            case Op("mul", (a, b)):
                return self.limit(ledger, a) * self.limit(ledger, b)
            case Op("neg" | "abs", (a,)):
                return self.limit(ledger, a)
            case Op("floordiv", (a, Const(c))) if isinstance(c, int) and c > 0:
                return self.limit(ledger, a) // c + 1
            case Op("floordiv", (a, b)):
                return max(self.limit(ledger, a) + 1, 0 * self.limit(ledger, b))
            case Op("mod", (a, b)):
                return max(self.limit(ledger, b), 0 * self.limit(ledger, a))
            case Op("max" | "min", (a, b)) | Op("select", (_, a, b)):
                return max(self.limit(ledger, a), self.limit(ledger, b))
            case Op("int", _):
                return 1
            case Fold() if _arithmetic_alone(term):
                return self._fold_bound(ledger, term)
            case Read() | Op() | _:  # integer data: the element's own width; arithmetic on it is the user's
                return 2**31

    def _fold_bound(self, ledger: Ledger, fold: Fold) -> int:
        """Of a sum: elements × an element's bound; of a choice: an element's bound. No loop runs 2^62 times."""
        inner, count = self, 1
        for axis in fold.axes:
            inner = inner.over(ledger, axis)
            count = min(count * inner.bounds[axis.name], LIMIT)
        k, combine = fold.component, fold.monoid.combine[fold.component]
        element = max(inner.limit(ledger, fold.body[k]), inner.limit(ledger, fold.monoid.identity[k]))
        if _chooses(combine):
            return element
        return element * count if combine == Op("add", (Sym(f"a{k}", "int"), Sym(f"b{k}", "int"))) else SUMS + 1


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
