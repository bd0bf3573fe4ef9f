"""Sums of products: matmul, einsum, tensordot, vecdot  ->  out[i, j] = Σ_k a[i, k] · b[k, j], one definition each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tang_verified.errors import ShapeError, UnsupportedError
from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import SORTS
from tang_verified.semantics.terms import ADD, ANY, INT_ADD, ONE, TRUE, ZERO, Axis, Fold, Op, Term, Var
from tang_verified.tracing import pointwise, reductions
from tang_verified.tracing.array import Traced
from tang_verified.tracing.axes import one_axis
from tang_verified.tracing.dtypes import cast, promote
from tang_verified.tracing.sizes import show, show_shape
from tang_verified.tracing.values import array_of, broadcast_shapes, need_array, tracing_of

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def contract(label: str, operands: Sequence[Traced], inputs: Sequence[str], output: str) -> Traced:
    """einsum over letters: out[output] = Σ over the other letters of the product of operands.

    An axis of extent 1 broadcasts against a larger one of the same letter, as NumPy does for einsum and batches.
    """
    tracing = operands[0].tracing
    extents: dict[str, Term] = {}
    for operand, letters in zip(operands, inputs, strict=True):
        for letter, extent in zip(letters, operand.extents, strict=True):
            known = extents.get(letter, ONE)
            if known != ONE and extent != ONE and not tracing.same(known, extent):
                shown = " and ".join(show_shape(part.extents) for part in operands)
                raise ShapeError(
                    f"{label}: shapes {shown} do not fit: {show(known)} and {show(extent)} differ",
                    "transpose one with .T or .mT, or give both sizes one name in their specs if they are the same size",
                )
            if known == ONE:
                extents[letter] = extent
    summed = [letter for letter in extents if letter not in output]
    names = dict(zip(summed, tracing.axes(len(summed), "k"), strict=True))
    dtype, _ = promote([(part.dtype_name, part.weak) for part in operands], tracing.default_float)
    sort = SORTS[dtype]
    monoid, times = {"real": (ADD, "mul"), "int": (INT_ADD, "mul"), "bool": (ANY, "and")}[sort]

    def value(*i: Term) -> Term:
        at: dict[str, Term] = {letter: Var(name) for letter, name in names.items()} | dict(zip(output, i, strict=True))
        body: Term | None = None
        for operand, letters in zip(operands, inputs, strict=True):
            index = (
                ZERO if extent == ONE and extents[letter] != ONE else at[letter]
                for letter, extent in zip(letters, operand.extents, strict=True)
            )  # fmt: skip
            part = cast(operand.at(*index), SORTS[operand.dtype_name], sort)
            body = part if body is None else Op(times, (body, part))
        if body is None:
            raise ShapeError(f"{label}: no operands")
        if not summed:
            return canonical(body) if sort != "real" else body
        return Fold(monoid, tuple(Axis(names[letter], extents[letter]) for letter in summed), TRUE, (body,))

    return tracing.define(label, dtype, tuple(extents[letter] for letter in output), value)


def matmul(x: Any, y: Any) -> Traced:
    a, b = need_array(x, "matmul", (y,)), need_array(y, "matmul", (x,))
    if not a.ndim or not b.ndim:
        raise ShapeError(f"matmul: shapes {show_shape(a.extents)} and {show_shape(b.extents)}: a scalar", "multiply with *")
    inner_a, inner_b = a.extents[-1], b.extents[-2 if b.ndim > 1 else -1]
    if not a.tracing.same(inner_a, inner_b):
        raise ShapeError(
            f"matmul: shapes {show_shape(a.extents)} and {show_shape(b.extents)} do not fit: "
            f"{show(inner_a)} and {show(inner_b)} differ",
            "transpose one with .T or .mT, or give both sizes one name in their specs if they are the same size",
        )
    batch = LETTERS[: max(a.ndim, b.ndim, 2) - 2]
    broadcast_shapes(a.tracing, [a.extents[:-2], b.extents[:-2]], "matmul")
    left = batch[len(batch) - max(a.ndim - 2, 0) :] + ("yk" if a.ndim > 1 else "k")
    right = batch[len(batch) - max(b.ndim - 2, 0) :] + ("kz" if b.ndim > 1 else "k")
    output = batch + ("y" if a.ndim > 1 else "") + ("z" if b.ndim > 1 else "")
    return contract("matmul", [a, b], [left.replace("k", "x"), right.replace("k", "x")], output)


def dot(x: Any, y: Any) -> Traced:
    """NumPy's dot for at most two axes a side."""
    a, b = need_array(x, "dot", (y,)), need_array(y, "dot", (x,))
    if not a.ndim or not b.ndim:
        return a * b  # type: ignore[no-any-return]
    if b.ndim > 2:
        raise UnsupportedError(f"dot with shape {show_shape(b.extents)}", "use matmul, tensordot or einsum")
    return matmul(a, b)


def outer(x: Any, y: Any) -> Traced:
    a, b = need_array(x, "outer", (y,)), need_array(y, "outer", (x,))
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: shapes {show_shape(a.extents)} and {show_shape(b.extents)} are not one axis each")
    return contract("outer", [a, b], ["i", "j"], "ij")


def vecdot(x: Any, y: Any, axis: Any = -1) -> Traced:
    """Σ_k x[…, k] · y[…, k], the other axes broadcast."""
    a, b = need_array(x, "vecdot", (y,)), need_array(y, "vecdot", (x,))
    letters = []
    rank = max(a.ndim, b.ndim)
    for part in (a, b):
        place = one_axis(part, axis, "vecdot")
        own = list(LETTERS[rank - part.ndim : rank - 1])
        own.insert(place, "z")
        letters.append("".join(own))
    return contract("vecdot", [a, b], letters, LETTERS[: rank - 1])


def tensordot(x: Any, y: Any, axes: Any = 2) -> Traced:
    a, b = need_array(x, "tensordot", (y,)), need_array(y, "tensordot", (x,))
    if isinstance(axes, int):
        pairs = [(a.ndim - axes + number, number) for number in range(axes)]
        if axes > min(a.ndim, b.ndim):
            raise ShapeError(f"tensordot over {axes} axes of shapes {show_shape(a.extents)} and {show_shape(b.extents)}")
    else:
        left, right = (part if isinstance(part, (tuple, list)) else (part,) for part in axes)
        if len(left) != len(right):
            raise ShapeError(f"tensordot: axes {axes} do not pair")
        pairs = [(one_axis(a, p, "tensordot"), one_axis(b, q, "tensordot")) for p, q in zip(left, right, strict=True)]
    first, second = list(LETTERS[: a.ndim]), list(LETTERS[a.ndim : a.ndim + b.ndim])
    for p, q in pairs:
        if not a.tracing.same(a.extents[p], b.extents[q]):
            raise ShapeError(
                f"tensordot: shapes {show_shape(a.extents)} and {show_shape(b.extents)} do not fit: "
                f"{show(a.extents[p])} and {show(b.extents[q])} differ"
            )
        second[q] = first[p]
    gone = {first[p] for p, _ in pairs}
    output = [letter for letter in (*first, *second) if letter not in gone]
    return contract("tensordot", [a, b], ["".join(first), "".join(second)], "".join(output))


def einsum(subscripts: str, *operands: Any, optimize: Any = None) -> Traced:
    """NumPy's einsum, the ellipsis included."""
    if not isinstance(subscripts, str):
        raise UnsupportedError("einsum with lists of axes", "write the subscripts as a string, as in 'ij,jk->ik'")
    tracing = tracing_of(operands, "einsum")
    if tracing is None:
        raise UnsupportedError("einsum: none of the operands is traced")
    arrays = [array_of(part, tracing, "einsum") for part in operands]
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(arrays):
        raise ShapeError(f"einsum: {len(inputs)} subscripts in {subscripts!r} for {len(arrays)} operands")
    spare = [letter for letter in map(chr, range(0x3B1, 0x3CA)) if letter not in text]
    widest = max((a.ndim - len(s.replace("...", "")) for a, s in zip(arrays, inputs, strict=True) if "..." in s), default=0)
    batch = "".join(spare[: max(widest, 0)])
    plain = []
    for array, part in zip(arrays, inputs, strict=True):
        own = array.ndim - len(part.replace("...", ""))
        if own < 0 or (own and "..." not in part):
            raise ShapeError(f"einsum: subscript {part!r} for an operand of shape {show_shape(array.extents)}")
        plain.append(part.replace("...", batch[len(batch) - own :]))
    if not arrow:
        letters = sorted(letter for letter in set("".join(plain)) - set(batch) if "".join(plain).count(letter) == 1)
        output = ("..." if batch else "") + "".join(letters)
    output = output.replace("...", batch)
    unknown = set(output) - set("".join(plain))
    if unknown or len(set(output)) != len(output):
        raise ShapeError(f"einsum: output {output!r} of {subscripts!r} repeats a letter or uses one that no operand has")
    return contract("einsum", arrays, plain, output)


def vector_norm(array: Any, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Traced:
    """(Σ |x|^p)^(1/p) for p = 1, 2 and inf."""
    x = need_array(array, "vector_norm")
    if ord == 2:
        return pointwise.function("sqrt")(reductions.sum(pointwise.square(x), axis, keepdims=keepdims))  # type: ignore[no-any-return]
    size = pointwise.function("abs")(x)
    if ord == 1:
        return reductions.sum(size, axis, keepdims=keepdims)
    if ord == np.inf:
        return reductions.max(size, axis, keepdims=keepdims)
    raise UnsupportedError(f"vector_norm with ord={ord}", "use ord 1, 2 or inf")
