"""What an operation is given, seen alike: a dtype, a shape, and the element at an index.

Traced arrays, scalars of a comprehension, symbolic sizes, Python and NumPy scalars, and small concrete arrays all
`lift` to this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tang_verified.errors import DTypeError, ShapeError, TraceError
from tang_verified.semantics.build import real
from tang_verified.semantics.program import SORTS, DType
from tang_verified.semantics.terms import ONE, ZERO, Const, Sort, Term
from tang_verified.tracing.array import Scalar, Traced
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.dtypes import cast
from tang_verified.tracing.extent import Extent
from tang_verified.tracing.sizes import show, show_shape


@dataclass(frozen=True, slots=True)
class Lifted:
    """An operand. `at` takes one index term an axis."""

    dtype: DType
    weak: bool
    shape: tuple[Term, ...]
    at: Callable[..., Term]

    @property
    def sort(self) -> Sort:
        return SORTS[self.dtype]

    def broadcast(self, index: Sequence[Term], sort: Sort) -> Term:
        """The element that this operand shows at an index of the broadcast shape, as the wanted sort."""
        own = index[len(index) - len(self.shape) :]
        at = (ZERO if extent == ONE else i for extent, i in zip(self.shape, own, strict=True))
        return cast(self.at(*at), self.sort, sort)


def tracing_of(operands: Sequence[Any], label: str) -> Tracing | None:
    """The trace that the operands belong to; None for scalars of a monoid, which belong to none."""
    found: Tracing | None = None
    for operand in operands:
        mine = getattr(operand, "tracing", None) if isinstance(operand, (Traced, Scalar, Extent)) else None
        if mine is not None and found is not None and mine is not found:
            raise TraceError(f"{label}: arrays of two different traces meet", "do not keep traced arrays beyond the function")
        found = mine or found
    return found


def lift(operand: Any, tracing: Tracing | None, label: str) -> Lifted:
    """An operand of any kind that an operation takes."""
    match operand:
        case Traced():
            return Lifted(operand.dtype_name, operand.weak, operand.extents, operand.at)
        case Scalar():
            return Lifted(operand.dtype_name, operand.weak, (), lambda: operand.term)
        case Extent():
            return Lifted("int64", True, (), lambda: operand.term)
        case np.generic():
            return lift(operand.item(), tracing, label)
        case bool():
            return Lifted("bool", True, (), lambda: Const(operand))
        case int():
            return Lifted("int64", True, (), lambda: Const(operand))
        case float():
            return Lifted("float64", True, (), lambda: real(operand))
        case list() | tuple() | np.ndarray() if tracing is not None:
            return lift(array_of(operand, tracing, label), tracing, label)
        case _:
            raise DTypeError(
                f"{label}: an operand of type {type(operand).__name__} is not an array or a real scalar",
                "use traced arrays, Python scalars or small NumPy arrays",
            )


def array_of(operand: Any, tracing: Tracing, label: str) -> Traced:
    """An operand as a traced array, by a definition of its own where it is not one."""
    if isinstance(operand, Traced):
        return operand
    if isinstance(operand, (list, tuple)):
        if any(isinstance(item, (Traced, Extent, Scalar)) for item in operand):
            raise DTypeError(f"{label}: a {type(operand).__name__} of traced values is not an array", "join them with xp.stack")
        operand = np.asarray(operand)
    if isinstance(operand, np.ndarray):
        return tracing.constant(operand)
    if isinstance(operand, Scalar):
        raise DTypeError(f"{label}: a scalar of a comprehension is not an array", "read elements, as in a[i, k]")
    lifted = lift(operand, tracing, label)
    return tracing.define("scalar", lifted.dtype, (), lifted.at, weak=lifted.weak)


def need_array(operand: Any, label: str, others: Sequence[Any] = ()) -> Traced:
    """An operand that has to be an array, in the trace of the operands."""
    tracing = tracing_of((operand, *others), label)
    if tracing is None:
        raise DTypeError(f"{label}: takes a traced array, got {type(operand).__name__}")
    return array_of(operand, tracing, label)


def broadcast_shapes(tracing: Tracing, shapes: Sequence[tuple[Term, ...]], label: str) -> tuple[Term, ...]:
    """NumPy's rule, with symbolic sizes equal only where they are the same for all values."""
    out: list[Term] = []
    for place in range(max((len(shape) for shape in shapes), default=0)):
        kept: Term = ONE
        for shape in shapes:
            extent = shape[-1 - place] if place < len(shape) else ONE
            if extent == ONE or tracing.same(extent, kept):
                continue
            if kept != ONE:
                shown = " and ".join(show_shape(s) for s in shapes)
                raise ShapeError(
                    f"{label}: shapes {shown} do not broadcast: {show(kept)} and {show(extent)} differ",
                    "insert an axis with x[:, None], or give both sizes one name in their specs if they are the same size",
                )
            kept = extent
        out.append(kept)
    return tuple(reversed(out))
