"""Which dtype an operation's result has.

NumPy 2's rules with one difference: an int and a float array together give the float array's dtype (the array API
leaves this open; NumPy would widen int64 with float32 to float64). Python scalars, NumPy scalars and sizes are *weak*:
they take the dtype of the arrays they meet. Where a float has to come from ints alone (true division, exp of an int),
it is float32 when all of the program's float inputs are float32 or narrower, and float64 otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tang_verified.errors import DTypeError
from tang_verified.semantics.program import SORTS, DType
from tang_verified.semantics.terms import FALSE, MAX, MIN, REAL_ZERO, ZERO, Const, Monoid, Op, Sort, Sym, Term
from tang_verified.spec import DTYPES

ORDER: tuple[DType, ...] = ("bool", "int32", "int64", "float16", "float32", "float64")


def _int_extreme(name: str) -> Monoid:
    """max or min of exact integers, which have no largest or smallest: (is there any, the extreme of those there are).

    Of two states without any element the second fields add up: only so is (False, 0) an identity for every state.
    """
    (some, x), (other, y) = ((Sym(f"{side}0", "bool"), Sym(f"{side}1", "int")) for side in "ab")
    both = Op("select", (some, Op(name, (x, y)), y))
    neither = Op("select", (some, x, Op("add", (x, y))))
    return Monoid(f"int_{name}", (FALSE, ZERO), (Op("or", (some, other)), Op("select", (other, both, neither))))


INT_EXTREMES = {MAX: _int_extreme("max"), MIN: _int_extreme("min")}  # their fold's body is (True, x), its result field 1


def promote(operands: Sequence[tuple[DType, bool]], default_float: DType) -> tuple[DType, bool]:
    """The common dtype of (dtype, weak) operands, and whether it is weak itself."""
    strong = [dtype for dtype, weak in operands if not weak]
    weak_sorts = {SORTS[dtype] for dtype, weak in operands if weak}
    if not strong:
        return ("bool" if weak_sorts == {"bool"} else "int64" if "real" not in weak_sorts else default_float), True
    base = max(strong, key=ORDER.index)
    if "real" in weak_sorts and SORTS[base] != "real":
        return default_float, False
    if "int" in weak_sorts and base == "bool":
        return "int64", False
    return base, False


def cast(term: Term, source: Sort, target: Sort) -> Term:
    """A term of one sort as another: bool to 0 and 1, real to int towards zero, number to bool as != 0."""
    if source == target:
        return term
    if target == "bool":
        return Op("ne", (term, ZERO if source == "int" else REAL_ZERO))
    if target == "int":
        if source == "bool" and isinstance(term, Const):
            return Const(int(bool(term.value)))
        return Op("int" if source == "bool" else "trunc", (term,))
    number = cast(term, source, "int")
    if isinstance(number, Const) and isinstance(number.value, int):
        return Const(Fraction(number.value))
    return Op("real", (number,))


def as_dtype(dtype: object) -> DType:
    """Our name of a dtype given as a string, a NumPy dtype or type, or a Python type."""
    if isinstance(dtype, type) and dtype in (bool, int, float):
        python: dict[type, DType] = {bool: "bool", int: "int64", float: "float64"}
        return python[dtype]
    for known in DTYPES:
        if known in (str(dtype), getattr(dtype, "__name__", None), getattr(dtype, "name", None)):
            return known
    if getattr(dtype, "__name__", None) == "bool_":
        return "bool"
    raise DTypeError(f"dtype {dtype!r} is not supported", f"use one of {', '.join(DTYPES)}")
