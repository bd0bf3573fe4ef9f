"""What a C-like language must be able to spell. The printer decides where text goes; a dialect decides nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tang_verified.backends.arithmetic import Arithmetic
from tang_verified.backends.scopes import Type
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import Const


class Unsupported(NotImplementedError):
    """A kernel that this printer or dialect cannot spell; the message says which form would do."""


class Dialect(Protocol):
    """Spellings of one language. A dialect notes which helper functions its spellings use and defines them in `source`."""

    name: str
    bits: int  # of its index arithmetic
    arithmetic: Arithmetic  # what the language says of rounding
    reserved: frozenset[str]  # words that no variable may bear

    def reset(self) -> None:
        """Forget the helpers noted so far."""

    def type(self, kind: Type) -> str:
        """A variable's type."""

    def declare(self, kind: Type, name: str, value: str | None, constant: bool = False) -> str:
        """A variable's declaration (a statement)."""

    def choose(self, condition: str, a: str, b: str) -> str:
        """a if a scalar condition holds, else b; neither has an effect."""

    def constant(self, value: Const, kind: Type) -> str:
        """A scalar constant, exactly, as an operand."""

    def splat(self, text: str, kind: Type) -> str:
        """A scalar copied to every lane."""

    def iota(self, kind: Type) -> str:
        """The lane numbers."""

    def convert(self, text: str, have: Type, want: Type) -> str:
        """Between the number types, as the operations `real`, `trunc` and `int` do."""

    def operation(self, name: str, args: Sequence[str], have: Type, want: Type) -> str:
        """One operation of `terms.SIGNATURES` on arguments of type `have` (of select: its branches) with result `want`."""

    def lane_mask(self, relation: str, bound: str, kind: Type) -> str:
        """The lanes l with l < bound ("below"), l >= bound ("from") or l == bound ("equal"); bound is an int64 scalar."""

    def any_lane(self, mask: str, kind: Type) -> str:
        """A scalar condition: the mask holds in some lane."""

    def shift_lanes(self, text: str, by: int, kind: Type) -> str:
        """Lane l of the result is lane l + by; what comes into the upper lanes does not matter."""

    def exchange(self, text: str, step: int, kind: Type) -> str:
        """The value of the thread whose number in the subgroup differs by the bit `step`."""

    def lane_of(self, text: str, lane: str, kind: Type) -> str:
        """One lane of a vector, as a scalar."""

    def load(self, dtype: DType, array: str, offset: str, kind: Type) -> str:
        """One element as a scalar."""

    def load_vector(self, dtype: DType, array: str, offset: str, stride: str, mask: str | None, kind: Type) -> str:
        """Elements offset + l·stride. Lanes outside the mask touch no memory and are zero."""

    def store(self, dtype: DType, array: str, offset: str, value: str, kind: Type) -> str:
        """One element (a statement)."""

    def store_vector(self, dtype: DType, array: str, offset: str, stride: str, mask: str | None, value: str, kind: Type) -> str:
        """Elements offset + l·stride (a statement). Lanes outside the mask touch no memory."""

    def loop(self, axis: str, extent: str, unroll: bool = False) -> str:
        """The head of a loop 0 <= axis < extent."""

    def grid(self, extents: Sequence[str]) -> list[str]:
        """What stands in front of a nest of loops whose iterations may run at once, inside a `region`."""

    def region(self) -> list[str]:
        """The head of the block that parallel workers run, up to its opening brace."""

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        """A small array of constant size, local to a block."""

    def heap_array(self, dtype: DType, name: str, extents: Sequence[str]) -> str:
        """An array of computed size; a null pointer if there is no memory."""

    def release(self, name: str) -> str:
        """Give back what `heap_array` took; null is fine."""

    def fail(self, parallel: bool) -> list[str]:
        """Note that memory ran out."""

    def source(
        self, kernel: Kernel, arrays: Sequence[tuple[str, DType, bool]], sizes: Sequence[str], body: Sequence[str]
    ) -> str:
        """The whole text: helpers, then the function. An array is (variable, dtype, written)."""
