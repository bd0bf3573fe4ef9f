"""Arrays put side by side, padded, rolled and repeated: selects on affine conditions, each read within its branch.

    concat:  out[i] = a[i] if i < n else b[i - n]
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tang_verified.errors import ShapeError, UnsupportedError
from tang_verified.semantics.build import canonical, floordiv, iadd, imul, isub, lt, mod
from tang_verified.semantics.program import SORTS
from tang_verified.semantics.terms import TRUE, ZERO, Const, Op, Term
from tang_verified.tracing.array import Traced
from tang_verified.tracing.axes import one_axis
from tang_verified.tracing.dtypes import cast, promote
from tang_verified.tracing.extent import as_term
from tang_verified.tracing.reshape import reshape
from tang_verified.tracing.sizes import show_shape
from tang_verified.tracing.values import array_of, lift, need_array, tracing_of
from tang_verified.tracing.views import expand_dims


def concat(arrays: Any, axis: Any = 0) -> Traced:
    parts = list(arrays)
    tracing = tracing_of(parts, "concat")
    if tracing is None:
        raise ShapeError("concat: none of the arrays is traced")
    operands = [array_of(part, tracing, "concat") for part in parts]
    if axis is None:
        operands, axis = [reshape(part, (-1,)) for part in operands], 0
    first = operands[0]
    place = one_axis(first, axis, "concat")
    starts: list[Term] = []
    total: Term = ZERO
    for operand in operands:
        same = operand.ndim == first.ndim and all(
            number == place or tracing.same(a, b)
            for number, (a, b) in enumerate(zip(operand.extents, first.extents, strict=True))
        )
        if not same:
            shown = ", ".join(show_shape(part.extents) for part in operands)
            raise ShapeError(f"concat: shapes {shown} differ beside axis {place}")
        starts.append(total)
        total = iadd(total, operand.extents[place])
    dtype, weak = promote([(part.dtype_name, part.weak) for part in operands], tracing.default_float)

    def value(*i: Term) -> Term:
        def part(number: int) -> Term:
            at = (*i[:place], isub(i[place], starts[number]), *i[place + 1 :])
            return cast(operands[number].at(*at), SORTS[operands[number].dtype_name], SORTS[dtype])

        out = part(len(operands) - 1)
        for number in range(len(operands) - 2, -1, -1):
            out = Op("select", (lt(i[place], starts[number + 1]), part(number), out))
        return out

    shape = (*first.extents[:place], total, *first.extents[place + 1 :])
    return tracing.define("concat", dtype, shape, value, weak=weak)


def stack(arrays: Any, axis: Any = 0) -> Traced:
    parts = list(arrays)
    tracing = tracing_of(parts, "stack")
    if tracing is None:
        raise ShapeError("stack: none of the arrays is traced")
    operands = [array_of(part, tracing, "stack") for part in parts]
    return concat([expand_dims(part, one_axis(part, axis, "stack", part.ndim + 1)) for part in operands], axis)


def pad(array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Traced:
    """Constant padding, with NumPy's forms of pad_width: k, (before, after), or one pair an axis."""
    x = need_array(array, "pad")
    if mode != "constant":
        raise UnsupportedError(f"pad with mode={mode!r}", "use mode='constant', or join slices with xp.concat")
    widths = _pairs(x, pad_width)
    fill = lift(constant_values, x.tracing, "pad")
    if fill.shape:
        raise UnsupportedError("pad with one value a side", "use one constant value")

    def value(*i: Term) -> Term:
        inside: Term = TRUE
        at = []
        for place, (before, after), extent in zip(i, widths, x.extents, strict=True):
            if before != ZERO:
                inside = canonical(Op("and", (inside, Op("le", (before, place)))))
            if after != ZERO:
                inside = canonical(Op("and", (inside, Op("lt", (place, iadd(before, extent))))))
            at.append(isub(place, before))
        if inside == TRUE:
            return x.at(*at)
        return Op("select", (inside, x.at(*at), cast(fill.at(), fill.sort, SORTS[x.dtype_name])))

    shape = tuple(iadd(iadd(b, e), a) for (b, a), e in zip(widths, x.extents, strict=True))
    return x.tracing.define("pad", x.dtype_name, shape, value)


def _pairs(x: Traced, width: Any) -> list[tuple[Term, Term]]:
    def one(value: Any) -> Term:
        term = as_term(value)
        if term is None or not x.tracing.always(Op("le", (ZERO, term))):
            raise ShapeError(f"pad: width {value!r} is not a size that is at least 0")
        return term

    if not isinstance(width, (tuple, list)):
        return [(one(width), one(width))] * x.ndim
    if not any(isinstance(pair, (tuple, list)) for pair in width):
        width = [tuple(width)]
    pairs = [tuple(pair) if isinstance(pair, (tuple, list)) else (pair, pair) for pair in width]
    pairs = [pair * 2 if len(pair) == 1 else pair for pair in pairs]
    if len(pairs) == 1:
        pairs = pairs * x.ndim
    if len(pairs) != x.ndim or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(f"pad: {width} is not one pair an axis of shape {show_shape(x.extents)}")
    return [(one(before), one(after)) for before, after in pairs]


def roll(array: Any, shift: Any, axis: Any = None) -> Traced:
    """out[i] = x[(i - shift) mod n], as a select between the two stretches."""
    x = need_array(array, "roll")
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, 0), x.shape)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(places)
    for number, by in zip(places, shifts, strict=True):
        x = _roll(x, by, one_axis(x, number, "roll"))
    return x


def _roll(x: Traced, shift: Any, place: int) -> Traced:
    extent = x.extents[place]
    by = as_term(shift)
    if by is None:
        raise ShapeError(f"roll: shift {shift!r} is not an int or a size")
    if isinstance(extent, Const) and isinstance(by, Const):
        by = Const(int(by.value) % max(int(extent.value), 1))
    elif x.tracing.always(Op("lt", (by, ZERO))):
        by = iadd(extent, by)  # a shift to the left by k is one to the right by n - k
    x.tracing.require(
        Op("and", (Op("le", (ZERO, by)), Op("le", (by, extent)))), f"roll by {shift} is more than once around the axis"
    )

    def value(*i: Term) -> Term:
        def at(index: Term) -> Term:
            return x.at(*i[:place], index, *i[place + 1 :])

        straight = isub(i[place], by)
        return Op("select", (lt(i[place], by), at(iadd(straight, extent)), at(straight)))

    return x.tracing.define("roll", x.dtype_name, x.extents, value)


def repeat(array: Any, repeats: Any, axis: Any = None) -> Traced:
    """Each element `repeats` times in a row: out[i] = x[i // repeats]."""
    x = need_array(array, "repeat")
    if not isinstance(repeats, int) or repeats < 1:
        raise UnsupportedError(f"repeat {repeats!r} times", "use a positive int, the same for every element")
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    place = one_axis(x, axis, "repeat")
    shape = (*x.extents[:place], imul(x.extents[place], repeats), *x.extents[place + 1 :])
    return x.tracing.define(
        "repeat", x.dtype_name, shape, lambda *i: x.at(*i[:place], floordiv(i[place], repeats), *i[place + 1 :])
    )


def tile(array: Any, repetitions: Any) -> Traced:
    """The whole array several times along each axis: a mod where the axis is fixed, a join where it is not."""
    x = need_array(array, "tile")
    times = tuple(repetitions) if isinstance(repetitions, (tuple, list)) else (repetitions,)
    if not all(isinstance(count, int) and count >= 1 for count in times):
        raise UnsupportedError(f"tile {repetitions!r} times", "use positive ints")
    if len(times) > x.ndim:
        x = expand_dims(x, tuple(range(len(times) - x.ndim)))
    times = (1,) * (x.ndim - len(times)) + times
    for place, count in enumerate(times):
        if count > 1 and not isinstance(x.extents[place], Const):
            x = concat([x] * count, place)
    fixed = [count if isinstance(e, Const) else 1 for count, e in zip(times, x.extents, strict=True)]
    old = x

    def value(*i: Term) -> Term:
        pairs = zip(i, old.extents, fixed, strict=True)
        return old.at(*(mod(at, int(e.value)) if c > 1 and isinstance(e, Const) else at for at, e, c in pairs))

    shape = tuple(imul(e, c) for e, c in zip(old.extents, fixed, strict=True))
    return old.tracing.define("tile", old.dtype_name, shape, value)


def unstack(array: Any, axis: Any = 0) -> tuple[Traced, ...]:
    """The slices of a fixed axis."""
    x = need_array(array, "unstack")
    place = one_axis(x, axis, "unstack")
    count = x.shape[place]
    if not isinstance(count, int):
        raise ShapeError(f"unstack along axis {place} of shape {show_shape(x.extents)}: its size is symbolic")
    return tuple(x[(slice(None),) * place + (number,)] for number in range(count))


def split(array: Any, sections: Any, axis: Any = 0) -> list[Traced]:
    """Equal parts of a fixed axis, or parts that end at given positions."""
    x = need_array(array, "split")
    place = one_axis(x, axis, "split")
    if isinstance(sections, int):
        extent = x.shape[place]
        if not isinstance(extent, int) or extent % sections:
            raise ShapeError(f"split: axis {place} of shape {show_shape(x.extents)} does not fall into {sections} equal parts")
        ends: list[Any] = [extent // sections * number for number in range(sections + 1)]
    else:
        ends = [0, *sections, x.shape[place]]
    lead = (slice(None),) * place
    return [x[(*lead, slice(start, stop))] for start, stop in pairwise(ends)]

