"""Reductions along axes: sum(x, axis=1)  ->  out[i] = Σ_k x[i, k], a fold by a monoid.

mean and var are the textbook formulas: Σ x / N, and Σ (x - mean)² / (N - correction) in two passes.
An axis reduced by max or min without `initial` has size >= 1, as NumPy demands; a symbolic size's range is raised to it.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from typing import Any

from tang_verified.errors import UnsupportedError
from tang_verified.semantics.build import canonical, imul
from tang_verified.semantics.program import SORTS, DType
from tang_verified.semantics.terms import (
    ADD,
    ALL,
    ANY,
    INT_ADD,
    INT_MUL,
    MAX,
    MIN,
    MUL,
    ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Monoid,
    Op,
    Sort,
    Term,
    Var,
    sort_of,
)  # fmt: skip
from tang_verified.tracing.array import Traced
from tang_verified.tracing.axes import one_axis, several_axes
from tang_verified.tracing.dtypes import INT_EXTREMES, as_dtype, cast
from tang_verified.tracing.pointwise import astype, elementwise, op, subtract
from tang_verified.tracing.sizes import show, show_shape
from tang_verified.tracing.values import need_array


def sum(array: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Traced:
    x = need_array(array, "sum")
    out = as_dtype(dtype) if dtype is not None else _wide(x.dtype_name)
    total = fold(x, axis, keepdims, "sum", out, {"real": ADD, "int": INT_ADD, "bool": ANY}[SORTS[out]])
    return total if initial is None else elementwise("sum", "number", op("add"), (total, initial))


def prod(array: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Traced:
    x = need_array(array, "prod")
    out = as_dtype(dtype) if dtype is not None else _wide(x.dtype_name)
    total = fold(x, axis, keepdims, "prod", out, {"real": MUL, "int": INT_MUL, "bool": ALL}[SORTS[out]])
    return total if initial is None else elementwise("prod", "number", op("mul"), (total, initial))


def any(array: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    return fold(need_array(array, "any"), axis, keepdims, "any", "bool", ANY)


def all(array: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    return fold(need_array(array, "all"), axis, keepdims, "all", "bool", ALL)


def count_nonzero(array: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    return sum(astype(need_array(array, "count_nonzero"), "bool"), axis, keepdims=keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Traced:
    return _extreme(x, axis, keepdims, initial, "max", MAX)


def min(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Traced:
    return _extreme(x, axis, keepdims, initial, "min", MIN)


def _extreme(array: Any, axis: Any, keepdims: bool, initial: Any, label: str, monoid: Monoid) -> Traced:
    x = need_array(array, label)
    if x.dtype_name == "bool":
        return fold(x, axis, keepdims, label, "bool", ANY if label == "max" else ALL)
    if initial is None:
        for place in several_axes(x, axis, label):
            extent = x.extents[place]
            x.tracing.require(
                Op("le", (ONE, extent)),
                f"{label} over axis {place} of shape {show_shape(x.extents)}, which may be empty ({show(extent)} = 0)",
            )
        return fold(x, axis, keepdims, label, x.dtype_name, monoid)
    if SORTS[x.dtype_name] == "int":
        raise UnsupportedError(f"{label} of integers with an initial value", "convert with astype(xp.float64) first")
    folded: Traced = elementwise(label, "number", op(label), (fold(x, axis, keepdims, label, x.dtype_name, monoid), initial))
    return folded


def mean(array: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Traced:
    x = need_array(array, "mean")
    out = _float(x, dtype)
    return _over(sum(x, axis, out, keepdims), count(x, axis, "mean"), "mean")


def var(
    array: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, correction: float = 0, ddof: float = 0
) -> Traced:  # fmt: skip
    """Σ (x - mean)² / (N - correction); `ddof` is NumPy's older name of the correction."""
    x = need_array(array, "var")
    out = _float(x, dtype)
    off = subtract(astype(x, out), mean(x, axis, out, True))
    squares = elementwise("square", "real", lambda a: Op("mul", (a, a)), (off,))
    total = sum(squares, axis, out, keepdims)
    less = correction + ddof
    number = count(x, axis, "var")
    if less != int(less) or sort_of(number) == "real":
        number = cast(number, "int", "real") if sort_of(number) == "int" else number
        rest = Op("sub", (number, Const(Fraction(less))))
        return _over(total, Op("max", (rest, REAL_ZERO)) if less > 0 else rest, "var")  # as NumPy, below
    divisor = canonical(Op("sub", (number, Const(int(less)))))
    if not x.tracing.always(Op("le", (ZERO, divisor))):
        divisor = Op("max", (divisor, ZERO))  # as NumPy: fewer elements than the correction give 0 / 0
    return _over(total, divisor, "var")


def std(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, correction: float = 0, ddof: float = 0) -> Traced:
    root: Traced = elementwise("sqrt", "real", op("sqrt"), (var(x, axis, dtype, keepdims, correction, ddof),))
    return root


def cumulative_sum(x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Traced:
    """out[i] = Σ_{k <= i} x[k]."""
    return _running(x, axis, dtype, include_initial, "cumsum", (ADD, INT_ADD))


def cumulative_prod(x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Traced:
    """out[i] = Π_{k <= i} x[k]."""
    return _running(x, axis, dtype, include_initial, "cumprod", (MUL, INT_MUL))


def _running(array: Any, axis: Any, dtype: Any, include: bool, label: str, monoids: tuple[Monoid, Monoid]) -> Traced:
    x = need_array(array, label)
    if include:
        raise UnsupportedError(f"{label} with include_initial=True", "join a zero in front with xp.concat")
    if axis is None:
        if x.ndim != 1:
            raise UnsupportedError(f"{label} of an array of shape {show_shape(x.extents)} without an axis", "say axis=-1")
        axis = 0
    place = one_axis(x, axis, label)
    out = as_dtype(dtype) if dtype is not None else _wide(x.dtype_name)
    name = x.tracing.fresh("k0")

    def value(*i: Term) -> Term:
        k = Var(name)
        body = cast(x.at(*i[:place], k, *i[place + 1 :]), SORTS[x.dtype_name], SORTS[out])
        guard = Op("le", (k, i[place]))
        return Fold(monoids[0 if SORTS[out] == "real" else 1], (Axis(name, x.extents[place]),), guard, (body,))

    return x.tracing.define(label, out, x.extents, value)


def fold(x: Traced, axis: Any, keepdims: bool, label: str, out: DType, monoid: Monoid) -> Traced:
    """x folded by a monoid along axes; max and min of integers by their own (`dtypes.INT_EXTREMES`)."""
    places = several_axes(x, axis, label)
    names = dict(zip(places, x.tracing.axes(len(places), "k"), strict=True))
    kept = [place for place in range(x.ndim) if place not in names]
    shape = tuple(
        ONE if place in names else x.extents[place] for place in range(x.ndim) if keepdims or place not in names
    )  # fmt: skip
    sort: Sort = SORTS[out]
    extreme = INT_EXTREMES.get(monoid) if sort == "int" else None

    def value(*i: Term) -> Term:
        outer = dict(zip(range(x.ndim), i, strict=True)) if keepdims else dict(zip(kept, i, strict=True))
        index = [Var(names[place]) if place in names else outer.get(place, ZERO) for place in range(x.ndim)]
        body = cast(x.at(*index), SORTS[x.dtype_name], sort)
        if not places:
            return body
        axes = tuple(Axis(names[place], x.extents[place]) for place in places)
        if extreme is not None:
            return Fold(extreme, axes, TRUE, (TRUE, body), 1)
        return Fold(monoid, axes, TRUE, (body,))

    return x.tracing.define(label, out, shape, value)


def count(x: Traced, axis: Any, label: str) -> Term:
    """The number of elements reduced: a product of sizes, used as a value and never as an index.

    Two sizes at a time are multiplied as integers, which 62 bits hold, and more as reals: of an array without elements, the
    other extents may be anything.
    """
    pairs: list[Term] = [ONE]
    sizes = 0
    for place in several_axes(x, axis, label):
        sizes += not isinstance(x.extents[place], Const)
        if sizes > 2 and not isinstance(x.extents[place], Const):
            pairs.append(ONE)
            sizes = 1
        pairs[-1] = imul(pairs[-1], x.extents[place])
    if len(pairs) == 1:
        return pairs[0]
    return reduce(lambda a, b: Op("mul", (a, b)), (cast(pair, "int", "real") for pair in pairs))


def _over(total: Traced, number: Term, label: str) -> Traced:
    """total / number, a definition named for what it finishes."""
    divisor = cast(number, "int", "real") if sort_of(number) == "int" else number
    tracing = total.tracing
    return tracing.define(
        label, total.dtype_name, total.extents, lambda *i: Op(tracing.div, (total.at(*i), divisor))
    )


def _float(x: Traced, dtype: Any) -> DType:
    out = as_dtype(dtype) if dtype is not None else x.dtype_name
    if SORTS[out] != "real":
        return x.tracing.default_float
    return out


def _wide(dtype: DType) -> DType:
    """NumPy sums ints and bools as int64."""
    return dtype if SORTS[dtype] == "real" else "int64"


def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    raise UnsupportedError("argmax", "compare with the maximum, x == xp.max(x, axis=-1, keepdims=True), or use tv.monoid")


def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Traced:
    raise UnsupportedError("argmin", "compare with the minimum, x == xp.min(x, axis=-1, keepdims=True), or use tv.monoid")
