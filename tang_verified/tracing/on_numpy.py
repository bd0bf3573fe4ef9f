"""A comprehension over NumPy arrays:  a[i, k] with an ndarray a  ->  an input of a program of its own, evaluated at once.

NumPy would ask an index for its number, which it does not have. So the body is called again, its code over the same names
with each array that it can name (in its closure, its module, the module's functions that it names) put in as an input. The
reference interpreter gives the values, in float64; the result has the dtype that a compiled kernel would give it.
In a traced function the concrete arrays among the traced ones become constants of its program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.program import Tensor
from tang_verified.semantics.terms import Const, fresh_name
from tang_verified.semantics.wellformed import NAME
from tang_verified.tracing.array import Traced
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.dtypes import as_dtype
from tang_verified.tracing.finish import finish
from tang_verified.tracing.values import array_of, tracing_of

Function = Callable[..., Any]
Stated = Callable[[Function, Function | None], Any]


def on_numpy(stated: Stated, body: Function, where: Function | None) -> Any:
    """What `stated` gives for body and where, the arrays that they name taken as inputs; None where they name none."""
    seen: dict[int, tuple[str, Any]] = {}
    for function in (body, where):
        rebound(function, lambda name, value: seen.setdefault(id(value), (name, value)))
    arrays = {key: found for key, found in seen.items() if isinstance(found[1], np.ndarray)}
    if not arrays:
        return None
    tracing = tracing_of([value for _, value in seen.values()], "comprehension")
    if tracing is not None:
        here = {key: array_of(array, tracing, name) for key, (name, array) in arrays.items()}
    else:
        here = _inputs(arrays)
    put: Callable[[str, Any], Any] = lambda _, value: here.get(id(value), value)  # noqa: E731
    result = stated(rebound(body, put), rebound(where, put))
    return result if tracing is not None else _values(result, {here[key].tensor.name: a for key, (_, a) in arrays.items()})


def _inputs(arrays: dict[int, tuple[str, Any]]) -> dict[int, Traced]:
    """Each array as an input of a trace of its own, under the user's name where it can bear it."""
    tensors: dict[int, Tensor] = {}
    for key, (name, array) in arrays.items():
        taken = {tensor.name for tensor in tensors.values()}
        name = name if NAME.fullmatch(name) else "array"
        name = fresh_name(name, taken) if name in taken else name
        tensors[key] = Tensor(name, as_dtype(array.dtype), tuple(Const(extent) for extent in array.shape))
    tracing = Tracing({}, tuple(tensors.values()), "nan")
    return {key: Traced(tracing, tensor) for key, tensor in tensors.items()}


def _values(result: Any, arrays: dict[str, Any]) -> Any:
    """The arrays that the traced results stand for."""
    parts: tuple[Traced, ...] = result if isinstance(result, tuple) else (result,)
    program = finish(parts[0].tracing, "comprehension", [part.tensor.name for part in parts])
    with np.errstate(all="ignore"):
        values = evaluate(program, arrays)
        made = [values[name].astype(program.tensor(name).dtype)[()] for name in program.outputs]
    return tuple(made) if isinstance(result, tuple) else made[0]


def rebound(function: Any, put: Callable[[str, Any], Any]) -> Any:
    """A function over the same code, each array that it names replaced by what `put` gives; other values as they are."""
    done: dict[int, Any] = {}
    home = getattr(function, "__globals__", None)

    def walk(value: Any, name: str) -> Any:
        if isinstance(value, Traced) or (isinstance(value, np.ndarray) and value.ndim):
            return put(name, value)
        if type(value) in (list, tuple):
            return type(value)(walk(part, name) for part in value)
        if not isinstance(value, FunctionType) or value.__globals__ is not home:
            return value
        return done[id(value)] if id(value) in done else copy(value)

    def copy(old: FunctionType) -> FunctionType:
        scope, cells = dict(old.__globals__), tuple(CellType() for _ in old.__closure__ or ())
        new = done[id(old)] = FunctionType(old.__code__, scope, old.__name__, None, cells)
        new.__defaults__ = walk(old.__defaults__, "array")
        new.__kwdefaults__ = {key: walk(part, key) for key, part in (old.__kwdefaults__ or {}).items()}
        for key, cell, own in zip(old.__code__.co_freevars, old.__closure__ or (), cells, strict=True):
            try:
                own.cell_contents = walk(cell.cell_contents, key)
            except ValueError:  # not assigned yet
                continue
        scope.update({key: walk(scope[key], key) for key in _names(old.__code__) if key in scope})
        return new

    return walk(function, "")


def _names(code: CodeType) -> Iterator[str]:
    """Global names (and attributes) that the code and the code inside it mention."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
