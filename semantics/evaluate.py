"""The reference interpreter: what a program means, on float64, int64 and bool arrays, with no rounding to its dtypes.

A definition out[i, j] = value is `evaluate_term` of its value for all (i, j) at once, or box by box where the
intermediates would be large.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tang_verified.semantics.evaluate_term import Array, Evaluator, Faults, Scope, evaluate_term, integer_at
from tang_verified.semantics.program import SORTS, Def, Program, Tensor
from tang_verified.semantics.terms import Axis, Fold, Term, Var, children, free_vars

__all__ = ["define", "evaluate", "evaluate_term", "tensor_shape"]

STORAGE: dict[str, Any] = {"real": np.float64, "int": np.int64, "bool": np.bool_}
CHUNK = 2**24  # the most elements that one intermediate array should have


def evaluate(program: Program, arrays: dict[str, Any], sizes: dict[str, int] | None = None) -> dict[str, Array]:
    """Every definition's array. Sizes are read off the inputs' shapes; `sizes` adds those that no input shows."""
    known = {}
    for tensor in program.inputs:
        if tensor.name not in arrays:
            inputs = ", ".join(t.name for t in program.inputs)
            raise ValueError(f"{program.name}: no array for input {tensor.name!r}; inputs are {inputs}")
        known[tensor.name] = np.asarray(arrays[tensor.name]).astype(STORAGE[SORTS[tensor.dtype]])
    env = _sizes(program, known, dict(sizes or {}))
    results: dict[str, Array] = {}
    for d in program.defs:
        results[d.tensor.name] = known[d.tensor.name] = define(d, env, known)
    return results


def define(d: Def, sizes: dict[str, int], arrays: dict[str, Array]) -> Array:
    """The array of one definition, in boxes of output elements small enough to keep intermediates under CHUNK."""
    env = {name: np.asarray(value, dtype=np.int64) for name, value in sizes.items()}
    shape = tensor_shape(d.tensor, sizes)
    out = np.zeros(shape, dtype=STORAGE[SORTS[d.tensor.dtype]])
    pending: list[tuple[tuple[int, int], ...]] = [tuple((0, extent) for extent in shape)]
    while pending:
        box = pending.pop()
        widths = [stop - start for start, stop in box]
        if 0 in widths:
            continue
        if max(widths, default=1) > 1 and _cost(d.value, dict(zip(d.axes, widths, strict=True)), env) > CHUNK:
            split = widths.index(max(widths))
            start, stop = box[split]
            for half in ((start, (start + stop) // 2), ((start + stop) // 2, stop)):
                pending.append((*box[:split], half, *box[split + 1 :]))
            continue
        scope = Scope(dict(env), len(shape))
        for number, (name, (start, stop)) in enumerate(zip(d.axes, box, strict=True)):
            scope.env[name] = np.arange(start, stop, dtype=np.int64).reshape((-1,) + (1,) * (len(shape) - 1 - number))
        faults = Faults()
        value = Evaluator(arrays, faults).value(d.value, scope)
        if value.fault is not None:
            faults.raise_any(value.fault, d.tensor.name)
        out[tuple(slice(start, stop) for start, stop in box)] = value.data
    return out


def _cost(term: Term, widths: dict[str, int], env: dict[str, Array]) -> int:
    """The elements of the largest intermediate: for a fold, the product over the axes that it and its body depend on."""
    largest = prod(widths.values())
    seen: set[Term] = set()

    def walk(node: Term, inside: dict[str, int]) -> None:
        nonlocal largest
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, Fold):
            inside = dict(inside)
            for axis in node.axes:
                inside[axis.name] = _largest_extent(axis, inside, env)
            used = frozenset().union(*(free_vars(part) for part in (node.guard, *node.body)))
            names = used & inside.keys() | {axis.name for axis in node.axes}
            largest = max(largest, prod(inside[name] for name in names))
        for part in children(node):
            walk(part, inside)

    walk(term, widths)
    return largest


def _largest_extent(axis: Axis, inside: dict[str, int], env: dict[str, Array]) -> int:
    """The extent at the first and the last point of the axes around it; an estimate is enough here."""
    corners = ({**env, **{name: at(width) for name, width in inside.items()}} for at in (lambda w: 0, lambda w: max(w - 1, 0)))
    return max(0, *(int(evaluate_term(axis.extent, corner, {})) for corner in corners))


def tensor_shape(tensor: Tensor, sizes: dict[str, int]) -> tuple[int, ...]:
    """The extents of a tensor at given sizes."""
    shape = tuple(integer_at(extent, sizes) for extent in tensor.shape)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"{tensor.name}: shape {shape} at {sizes} has a negative extent")
    return shape


def _sizes(program: Program, arrays: dict[str, Array], given: dict[str, int]) -> dict[str, int]:
    """Each size's value, read off the inputs' shapes, checked against all of them and against its declared range."""
    sizes = dict(given)
    for tensor in program.inputs:
        shape = arrays[tensor.name].shape
        if len(shape) != len(tensor.shape):
            raise ValueError(f"{program.name}: {tensor.name} has rank {len(shape)}, expected {len(tensor.shape)}")
        for extent, actual in zip(tensor.shape, shape, strict=True):
            if isinstance(extent, Var):
                sizes.setdefault(extent.name, actual)
    for size in program.sizes:
        if size.name not in sizes:
            raise ValueError(f"{program.name}: size {size.name!r} is in no input's shape; pass sizes={{{size.name!r}: …}}")
        if not size.low <= sizes[size.name] <= size.high:
            raise ValueError(f"{program.name}: {size.name} = {sizes[size.name]} is not in its range {size.low}..{size.high}")
    for tensor in program.inputs:
        expected, actual_shape = tensor_shape(tensor, sizes), arrays[tensor.name].shape
        if actual_shape != expected:
            raise ValueError(f"{program.name}: {tensor.name} has shape {actual_shape}, expected {expected} at {sizes}")
    return {size.name: sizes[size.name] for size in program.sizes}
