"""Index arithmetic stays within 64-bit (or 32-bit) integers: every intermediate of every index, for all declared sizes.

Bounds are exact integers: |c·x| <= |c|·max|x|, |x + y| <= max|x| + max|y|. An array offset is computed in Horner form from
in-bounds indices of an array of at most 2^62 elements (checked when it is called), so its intermediates are below that.
A kernel of 32-bit indices is for sizes up to 2^28, so that seven may be added, and arrays of fewer than 2^31 elements
(both checked when it is called).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tang_verified.proofs.ledger import Ledger
from tang_verified.semantics.program import Size
from tang_verified.semantics.terms import Axis, Const, Fold, Op, Read, Term, Var, children

LIMIT = 2**62
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
        if bound > self.most and not isinstance(term, Read):  # an element of an array fits in its own width
            bits = 64 if self.most == LIMIT else 32
            raise ledger.refuse(f"width/int{bits}", f"an index may reach {bound}, beyond {self.most}", "disproved")
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
            case Read() | Op() | _:  # integer data: the element's own width; arithmetic on it is the user's
                return 2**31


def _arithmetic_alone(term: Term) -> bool:
    """No data and no fold: `_bound` knows the value's size."""
    if isinstance(term, (Read, Fold)) or (isinstance(term, Op) and term.name == "trunc"):
        return False
    return all(_arithmetic_alone(part) for part in children(term))
