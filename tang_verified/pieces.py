"""f(g(x, w), u)  ->  each function compiled by itself, forward and backward; between them arrays and a list of what was done.

    layer = Piece(lambda x, w: x @ w, x="n 64", w="64 64")
    gradient = in_pieces(loss)          with loss(run, parameters, *batch), which calls run(layer, x, w) for layer(x, w)

One program for a whole model would be compiled once for each layer; a piece is compiled once for all layers of a kind. A
piece's arguments are kept until its backward program runs, which computes or stores what lies within, as it finds best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any

from tang_verified.errors import UnsupportedError
from tang_verified.optim import Arrays
from tang_verified.spec import Spec, spec


class Piece:
    """A function of arrays with one result, and its derivative with respect to every argument of floats."""

    def __init__(self, fn: Callable[..., Any], *, backend: str = "c", **specs: Spec | str) -> None:
        self.fn, self.backend = fn, backend
        self.specs = {name: spec(given) if isinstance(given, str) else given for name, given in specs.items()}
        self.floats = tuple(n for n, given in enumerate(self.specs.values()) if given.dtype.startswith("float"))

    @cached_property
    def forward(self) -> Any:
        """The function, compiled."""
        from tang_verified.compiler import compile

        return compile(self.fn, backend=self.backend, **self.specs)  # type: ignore[arg-type]

    @cached_property
    def backward(self) -> Any:
        """Compiled: (arguments, cotangent) -> the cotangent of each argument of floats."""
        from tang_verified.compiler import compile
        from tang_verified.tracing.differentiate import vjp

        weight = self._result()
        return compile(vjp(self.fn, self.floats), backend=self.backend, **self.specs, ct=weight)  # type: ignore[arg-type]

    def _result(self) -> Spec:
        """The spec of the result."""
        from tang_verified.semantics.terms import Const, Var

        tensor = self.forward.program.tensor(self.forward.program.outputs[0])
        shape: list[int | str] = []
        for extent in tensor.shape:
            if not isinstance(extent, (Const, Var)):
                raise UnsupportedError(f"the result of {self.forward.name} has a size that is computed", "fix it in the specs")
            shape.append(extent.name if isinstance(extent, Var) else int(extent.value))
        return Spec(tuple(shape), tensor.dtype)


class Tape:
    """What was run, in order, so that it can be gone through backwards."""

    def __init__(self) -> None:
        self.done: list[tuple[Piece, tuple[Any, ...], Any]] = []

    def __call__(self, piece: Piece, *arrays: Any) -> Any:
        result = piece.forward(*arrays)
        self.done.append((piece, arrays, result))
        return result

    def gradients(self, value: Any, parameters: Mapping[str, Any]) -> Arrays:
        """The gradient of a scalar that was computed here with respect to each parameter; zeros where it has no part."""
        found = {id(value): value.__array_namespace__().ones_like(value)}
        for piece, arrays, result in reversed(self.done):
            weight = found.pop(id(result), None)
            if weight is None:
                continue
            shares = piece.backward(*arrays, weight)
            for number, share in zip(piece.floats, shares if isinstance(shares, tuple) else (shares,), strict=True):
                key = id(arrays[number])  # the tape holds the arrays, so no two have one id
                found[key] = _sum(found[key], share) if key in found else share
        zeros = {name: array.__array_namespace__().zeros_like(array) for name, array in parameters.items()}
        return {name: found.get(id(array), zeros[name]) for name, array in parameters.items()}


def in_pieces(loss: Callable[..., Any]) -> Callable[..., tuple[Any, Arrays]]:
    """A function (parameters, *batch) -> (loss, gradients by name), of loss(run, parameters, *batch).

    >>> import numpy as np
    >>> error = Piece(lambda x, w: ((x * w - 1.0) ** 2).sum(), x=spec("n", "float64"), w=spec("n", "float64"))
    >>> step = in_pieces(lambda run, p, x: run(error, x, p["w"]))
    >>> step({"w": np.ones(2)}, np.array([1.0, 2.0]))
    (1.0, {'w': array([0., 4.])})
    """

    def evaluate(parameters: Mapping[str, Any], *batch: Any) -> tuple[Any, Arrays]:
        tape = Tape()
        value = loss(tape, parameters, *batch)
        return value.item(), tape.gradients(value, parameters)

    return evaluate


def plain(piece: Piece, *arrays: Any) -> Any:
    """`run` for a loss without kernels: the functions themselves, on NumPy."""
    return piece.fn(*arrays)


def _sum(a: Any, b: Any) -> Any:
    return _adder(str(a.dtype))(a.reshape(-1), b.reshape(-1)).reshape(a.shape)


@cache
def _adder(dtype: str) -> Any:
    from tang_verified.compiler import compile

    return compile(lambda a, b: a + b, name="add", a=spec("n", dtype), b=spec("n", dtype))
