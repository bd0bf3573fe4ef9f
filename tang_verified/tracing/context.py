"""One trace in progress: its sizes, inputs and definitions so far, and the names it has given.

Sizes start with their declared range. An operation that only makes sense from some size on (max over an axis, x[0],
x[1:]) raises the size's lower end: `require`. A range never widens, so an answer given earlier stays true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tang_verified.errors import BoundsError, Place, user_place
from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import SORTS, Def, DType, Size, Tensor
from tang_verified.semantics.terms import Const, Op, Term, Var, fresh_name
from tang_verified.tracing.concrete import CONSTANT_LIMIT, element_of
from tang_verified.tracing.dtypes import as_dtype
from tang_verified.tracing.sizes import always, least_size, never

if TYPE_CHECKING:
    from tang_verified.tracing.array import Traced


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Why a size begins at `low` although a smaller one was declared: what goes wrong below it, and the user's line."""

    low: int
    why: str
    place: Place | None


class Tracing:
    """The mutable state of one call of `trace`."""

    def __init__(self, sizes: dict[str, Size], inputs: tuple[Tensor, ...], empty: str) -> None:
        self.sizes = sizes
        self.inputs = inputs
        self.defs: list[Def] = []
        self.places: dict[str, Place | None] = {}
        self.narrowed: dict[str, Narrowed] = {}
        self.taken = frozenset(sizes) | {tensor.name for tensor in inputs}
        self.sub = "sub0" if empty == "zero" else "sub"
        self.div = "div0" if empty == "zero" else "div"
        floats = {tensor.dtype for tensor in inputs if SORTS[tensor.dtype] == "real"}
        self.default_float: DType = "float32" if floats and "float64" not in floats else "float64"

    def fresh(self, base: str) -> str:
        """A name that is neither a size nor an input."""
        return fresh_name(base, self.taken) if base in self.taken else base

    def axes(self, rank: int, letter: str = "i") -> tuple[str, ...]:
        return tuple(self.fresh(f"{letter}{number}") for number in range(rank))

    def define(
        self, hint: str, dtype: DType, shape: tuple[Term, ...], value: Callable[..., Term], *, weak: bool = False,
        axes: tuple[str, ...] | None = None,
    ) -> Traced:  # fmt: skip
        """A new definition; `value` gives its element at the axes' variables."""
        from tang_verified.tracing.array import Traced

        names = self.axes(len(shape)) if axes is None else axes
        name = self.fresh(f"t{len(self.defs)}_{hint}")
        tensor = Tensor(name, dtype, tuple(canonical(extent) for extent in shape))
        self.defs.append(Def(tensor, names, value(*(Var(axis) for axis in names))))
        self.places[name] = user_place()
        return Traced(self, tensor, weak)

    def constant(self, array: np.ndarray[Any, Any]) -> Traced:
        """A concrete array as a definition."""
        dtype = as_dtype(array.dtype)
        element = element_of(array)
        if element is None:
            raise BoundsError(
                f"a concrete array of shape {array.shape} in traced code; more than {CONSTANT_LIMIT} elements would be text",
                "pass it as an argument of the function, with a spec of its own; or build it with xp.arange and xp.tril",
            )
        return self.define("constant", dtype, tuple(Const(e) for e in array.shape), lambda *index: element(index))

    def always(self, condition: Term) -> bool:
        return always(condition, self.sizes)

    def always_over(self, condition: Term, axes: dict[str, Term]) -> bool:
        """Whether a condition on axes holds wherever they are within their extents."""
        return always(condition, self.sizes, axes)

    def never(self, condition: Term) -> bool:
        return never(condition, self.sizes)

    def same(self, a: Term, b: Term) -> bool:
        """Whether two extents are the same size for all sizes in range."""
        a, b = canonical(a), canonical(b)
        return a == b or self.always(Op("eq", (a, b)))

    def require(self, condition: Term, why: str) -> None:
        """Make an affine condition true by raising a size's lower end, or say why that cannot be."""
        if self.always(condition):
            return
        found = least_size(canonical(condition), self.sizes)
        if found is None:
            ranges = ", ".join(f"{s.low} <= {s.name} <= {s.high}" for s in self.sizes.values())
            stated = f" with {ranges}" if ranges else ""
            raise BoundsError(f"{why}{stated}", "check the index, or declare the range in the spec, as in spec('n>=1')")
        name, low = found
        self.sizes[name] = Size(name, low, self.sizes[name].high)
        self.narrowed[name] = Narrowed(low, why, user_place())

    def least(self, a: Term, b: Term, why: str) -> Term:
        """min(a, b) where it can be told which it is; else a, and sizes are raised until that is the minimum."""
        if self.always(Op("le", (a, b))):
            return a
        if self.never(Op("lt", (a, b))):
            return b
        self.require(Op("le", (a, b)), why)
        return a


