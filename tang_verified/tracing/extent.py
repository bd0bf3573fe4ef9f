"""A size that is not known yet: what `x.shape` holds in place of an int.

Extents add, subtract, multiply, and divide by positive ints, and compare where every size in range gives one answer.
With anything else (a float, a power) an extent is a 0-d traced array of its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tang_verified.errors import ControlFlowError
from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import Const, Op, Term
from tang_verified.tracing.sizes import show

if TYPE_CHECKING:
    from tang_verified.tracing.context import Tracing

UFUNCS = {"add": "add", "subtract": "sub", "multiply": "mul", "floor_divide": "floordiv", "remainder": "mod"}


class Extent:
    """A symbolic size expression such as n or 2*n+1."""

    __slots__ = ("term", "tracing")

    def __init__(self, tracing: Tracing, term: Term) -> None:
        self.tracing = tracing
        self.term = term

    def __repr__(self) -> str:
        return show(self.term)

    def __hash__(self) -> int:
        return hash(self.term)

    def _combine(self, name: str, other: Any, swap: bool = False) -> Any:
        term = as_term(other)
        if term is None or (name in ("floordiv", "mod") and not _positive(self.term if swap else term)):
            return _as_array(name, other, self) if swap else _as_array(name, self, other)
        return from_term(self.tracing, Op(name, (term, self.term) if swap else (self.term, term)))

    def __add__(self, other: Any) -> Any:
        return self._combine("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._combine("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._combine("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._combine("sub", other, True)

    def __mul__(self, other: Any) -> Any:
        return self._combine("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self._combine("mul", other, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._combine("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._combine("floordiv", other, True)

    def __mod__(self, other: Any) -> Any:
        return self._combine("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._combine("mod", other, True)

    def __neg__(self) -> Any:
        return from_term(self.tracing, Op("neg", (self.term,)))

    def __truediv__(self, other: Any) -> Any:
        return _as_array("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _as_array("divide", other, self)

    def __pow__(self, other: Any) -> Any:
        return _as_array("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _as_array("pow", other, self)

    def _decide(self, name: str, other: Any, swap: bool = False) -> Any:
        term = as_term(other)
        if term is None:
            return NotImplemented
        condition = canonical(Op(name, (term, self.term) if swap else (self.term, term)))
        if self.tracing.always(condition):
            return True
        if self.tracing.never(condition):
            return False
        shown = {"lt": "<", "le": "<=", "eq": "=="}[name]
        left, right = (other, self) if swap else (self, other)
        raise ControlFlowError(
            f"{left} {shown} {right} is true for some sizes and false for others",
            "fix the size or declare its range, as in spec('n>=1'); for a mask compare xp.arange(n) instead",
        )

    def __eq__(self, other: object) -> Any:
        return self._decide("eq", other)

    def __ne__(self, other: object) -> Any:
        same = self._decide("eq", other)
        return same if same is NotImplemented else not same

    def __lt__(self, other: Any) -> Any:
        return self._decide("lt", other)

    def __le__(self, other: Any) -> Any:
        return self._decide("le", other)

    def __gt__(self, other: Any) -> Any:
        return self._decide("lt", other, True)

    def __ge__(self, other: Any) -> Any:
        return self._decide("le", other, True)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def _refuse(self, wanted: str) -> ControlFlowError:
        return ControlFlowError(
            f"{wanted} of the symbolic size {self}: it has no value while tracing",
            "use the size in array code as it is (shapes, xp.arange(n), x * n, xp.sqrt(n)); make functions of a size "
            "with xp = x.__array_namespace__(), since np.zeros and np.arange demand ints; or fix the size in the spec",
        )

    def __index__(self) -> int:
        raise self._refuse("int")

    def __int__(self) -> int:
        raise self._refuse("int")

    def __float__(self) -> float:
        raise self._refuse("float")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._refuse("asarray")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [a.item() if isinstance(a, np.generic) else a for a in inputs]
        if method == "__call__" and ufunc.__name__ in UFUNCS and all(as_term(a) is not None for a in plain):
            return from_term(self.tracing, Op(UFUNCS[ufunc.__name__], tuple(as_term(a) for a in plain)))  # type: ignore[misc]
        from tang_verified.tracing.numpy_protocol import call_ufunc

        return call_ufunc(ufunc, method, plain, kwargs)


Size = int | Extent


def as_term(value: object) -> Term | None:
    """The int term of an int or an extent; None for anything else."""
    if isinstance(value, Extent):
        return value.term
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return Const(int(value))
    return None


def from_term(tracing: Tracing, term: Term) -> Any:
    """An int where the term is constant, an extent otherwise."""
    term = canonical(term)
    if isinstance(term, Const) and isinstance(term.value, int):
        return term.value
    return Extent(tracing, term)


def _positive(term: Term) -> bool:
    return isinstance(term, Const) and isinstance(term.value, int) and term.value > 0


def _as_array(name: str, left: Any, right: Any) -> Any:
    from tang_verified.tracing import pointwise

    functions: dict[str, Callable[..., Any]] = {
        "add": pointwise.add, "sub": pointwise.subtract, "mul": pointwise.multiply, "divide": pointwise.divide,
        "pow": pointwise.pow, "floordiv": pointwise.floor_divide, "mod": pointwise.remainder,
    }  # fmt: skip
    known = (int, float, np.generic, Extent)
    if not (isinstance(left, known) and isinstance(right, known)):
        return NotImplemented
    return functions[name](left, right)
