"""Small functions with a derivative, and the programs in which it has been written out by checked steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import tang_verified as tv
from tang_verified.passes.gradient import write_out
from tang_verified.passes.rule import Derivation
from tang_verified.passes.scratch import Scratch
from tang_verified.proofs.steps import Step
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import Gradient, Tangent
from tang_verified.spec import Spec, spec
from tang_verified.tracing.tracer import trace


@dataclass(frozen=True)
class Written:
    """A traced program, the accepted steps, and the program without derivatives that they lead to."""

    traced: Program
    steps: tuple[Step, ...]
    program: Program

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """The outputs, by the reference interpreter in float64."""
        given = dict(zip((tensor.name for tensor in self.traced.inputs), arrays, strict=True))
        with np.errstate(all="ignore"):
            found = evaluate(self.program, given)
        return tuple(found[name] for name in self.program.outputs)


def write(fn: Callable[..., Any], specs: dict[str, Spec | str], empty: Any = "nan") -> Written:
    """Trace a function that holds derivatives and write them out; an `AssertionError` says which steps were refused."""
    traced = trace(fn, {name: s if isinstance(s, Spec) else spec(s, "float64") for name, s in specs.items()}, empty=empty)
    derivation = Derivation(traced, Scratch(traced))
    write_out(derivation)
    pending = [d.tensor.name for d in derivation.program.defs if isinstance(d.value, (Gradient, Tangent))]
    assert not pending, "\n".join([f"{pending} are not written out", *(str(note) for note in derivation.notes)])
    return Written(traced, tuple(derivation.steps), derivation.program)


def fixed(*arrays: Any) -> list[Spec]:
    """The specs of these very shapes."""
    return [Spec(np.shape(a), "bool" if np.asarray(a).dtype == bool else "int64" if np.asarray(a).dtype.kind == "i" else "float64")
            for a in arrays]  # fmt: skip


def gradients(fn: Callable[..., Any], arrays: Sequence[Any], argnums: Any = None, empty: Any = "nan") -> tuple[Any, ...]:
    """∂fn/∂ each of its float arguments (or those named) at arrays, fn being summed where it is no scalar."""
    numbers = argnums if argnums is not None else tuple(n for n, a in enumerate(arrays) if np.asarray(a).dtype.kind == "f")
    names = [f"x{n}" for n in range(len(arrays))]

    def total(*args: Any) -> Any:
        out = fn(*args)
        return out.sum() if out.ndim else out

    return write(named(tv.grad(named(total, names), numbers), names), dict(zip(names, fixed(*arrays), strict=True)), empty)(*arrays)


def named(fn: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The function with parameters of these names: what a trace calls its inputs."""
    scope: dict[str, Any] = {"fn": fn}
    exec(f"def made({', '.join(names)}):\n    return fn({', '.join(names)})", scope)
    return scope["made"]  # type: ignore[no-any-return]


# -- models -----------------------------------------------------------------------------------------------------------


def softmax(x: Any) -> Any:
    xp = x.__array_namespace__()
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def log_sum_exp(x: Any) -> Any:
    xp = x.__array_namespace__()
    m = xp.max(x, axis=-1, keepdims=True)
    return m[:, 0] + xp.log(xp.sum(xp.exp(x - m), axis=-1))


def layer_norm(x: Any, g: Any) -> Any:
    xp = x.__array_namespace__()
    c = x - xp.mean(x, axis=-1, keepdims=True)
    return c * xp.rsqrt(xp.mean(c * c, axis=-1, keepdims=True) + 0.01) * g


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.T * 0.5) @ v


def also_the_maximum(x: Any) -> Any:
    """Softmax times its maximum: the result does depend on it."""
    return softmax(x) * x.__array_namespace__().max(x, axis=-1, keepdims=True)


def window(x: Any, w: Any) -> Any:
    """out[i] = Σ_{k < 3} x[i + k]·w[k]."""
    return tv.comprehension(out="i", reduce="k", body=lambda i, k: x[i + k] * w[k], extents={"i": 9, "k": 3})


def strided(x: Any, w: Any) -> Any:
    """out[i] = Σ_{k < 3} x[2·i + k]·w[k]: windows that overlap in one element."""
    return tv.comprehension(out="i", reduce="k", body=lambda i, k: x[2 * i + k] * w[k], extents={"i": 5, "k": 3})


def pool(x: Any) -> Any:
    """out[i] = max_{k < 3} x[i + k]: windows that overlap in two elements."""
    return tv.comprehension(out="i", reduce="k", monoid="max", body=lambda i, k: x[i + k], extents={"i": 9, "k": 3})


def triangle(x: Any) -> Any:
    """Σ_{k <= i} x[i, k]²."""
    return tv.comprehension(out="i", reduce="k", body=lambda i, k: x[i, k] * x[i, k], where=lambda i, k: k <= i)


AFFINE = tv.monoid("affine", identity=(1.0, 0.0), combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), commutative=False)


def recurrence(x: Any, y: Any) -> Any:
    """s := s·x + y along a vector, from 0: a fold that does not commute."""
    return tv.comprehension(out="", reduce="k", monoid=AFFINE, body=lambda k: (x[k], y[k]))[1]


def elementwise(text: str) -> Callable[..., Any]:
    """A function of x and y, in the namespace xp."""

    def fn(x: Any, y: Any) -> Any:
        return eval(text, {"x": x, "y": y, "xp": x.__array_namespace__()})

    return fn


def unary(text: str) -> Callable[..., Any]:
    def fn(x: Any) -> Any:
        return eval(text, {"x": x, "xp": x.__array_namespace__()})

    return fn


def total(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of fn's elements, with fn's parameters."""
    import inspect

    names = list(inspect.signature(fn).parameters)
    return named(lambda *args: fn(*args).sum(), names)


VECTORS: dict[str, Spec | str] = {"x": "n", "y": "n"}
ROWS: dict[str, Spec | str] = {"x": "n m>=1"}

# name -> (a function with a derivative, specs)
MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "product": (tv.vjp(elementwise("x * y")), {**VECTORS, "ct": "n"}),
    "quotient": (tv.vjp(elementwise("x / y")), {**VECTORS, "ct": "n"}),
    "larger": (tv.vjp(elementwise("xp.maximum(x, y)")), {**VECTORS, "ct": "n"}),
    "power": (tv.vjp(elementwise("x ** y")), {**VECTORS, "ct": "n"}),
    "log-add-exp": (tv.vjp(elementwise("xp.logaddexp(x, y)")), {**VECTORS, "ct": "n"}),
    "branches": (tv.vjp(elementwise("xp.where(x > y, x * x, y)")), {**VECTORS, "ct": "n"}),
    "relu": (tv.vjp(unary("xp.maximum(x, 0.0)")), {"x": "n", "ct": "n"}),
    "absolute": (tv.vjp(unary("xp.abs(x)")), {"x": "n", "ct": "n"}),
    "chain": (tv.vjp(unary("xp.sin(xp.exp(x) * x)")), {"x": "n", "ct": "n"}),
    "square root": (tv.vjp(unary("xp.sqrt(x)")), {"x": "n", "ct": "n"}),
    "cosine": (tv.vjp(unary("xp.cos(x)")), {"x": "n", "ct": "n"}),
    "tanh": (tv.vjp(unary("xp.tanh(x)")), {"x": "n", "ct": "n"}),
    "error function": (tv.vjp(unary("xp.erf(x)")), {"x": "n", "ct": "n"}),
    "logarithm": (tv.vjp(unary("xp.log(x)")), {"x": "n", "ct": "n"}),
    "with its mirror": (tv.vjp(unary("x * x[::-1]")), {"x": "7", "ct": "7"}),
    "gram": (tv.vjp(unary("x @ x.T")), {"x": "n d", "ct": "n n"}),
    "matmul": (tv.vjp(elementwise("x @ y")), {"x": "n d", "y": "d m", "ct": "n m"}),
    "square matmul": (tv.vjp(elementwise("x @ y")), {"x": "n n", "y": "n n", "ct": "n n"}),
    "transposed": (tv.vjp(unary("x.T")), {"x": "n n", "ct": "n n"}),
    "row sums": (tv.vjp(unary("x.sum(axis=1)")), {"x": "n m", "ct": "n"}),
    "broadcast": (tv.vjp(elementwise("x[:, None] * y")), {"x": "n", "y": "n m", "ct": "n m"}),
    "every other": (tv.vjp(unary("x[::2]")), {"x": "9", "ct": "5"}),
    "padded": (tv.vjp(unary("xp.pad(x, ((1, 2),))")), {"x": "6", "ct": "9"}),
    "reshaped": (tv.vjp(unary("x.reshape((4, 6))")), {"x": "24", "ct": "4 6"}),
    "reshaped twice": (tv.vjp(unary("x.reshape((6, 5)).T.reshape((2, 15))")), {"x": "30", "ct": "2 15"}),
    "a part of a reshape": (tv.vjp(unary("x.reshape((6, 5)).T.reshape((30,))[4:17]")), {"x": "30", "ct": "13"}),
    "gathered": (tv.vjp(lambda x, i: x.__array_namespace__().take(x, i, axis=0), argnums=0), {"x": "v d", "i": Spec(("n",), "int64"), "ct": "n d"}),
    "row maxima": (tv.vjp(unary("xp.max(x, axis=1)")), {**ROWS, "ct": "n"}),
    "row minima": (tv.vjp(unary("xp.min(x, axis=1)")), {**ROWS, "ct": "n"}),
    "row products": (tv.vjp(unary("xp.prod(x, axis=1)")), {"x": "n m", "ct": "n"}),
    "window": (tv.vjp(window), {"x": "11", "w": "3", "ct": "9"}),
    "strided": (tv.vjp(strided), {"x": "11", "w": "3", "ct": "5"}),
    "pool": (tv.vjp(pool), {"x": "11", "ct": "9"}),
    "triangle": (tv.vjp(triangle), {"x": "n n", "ct": "n"}),
    "recurrence": (tv.vjp(recurrence), {"x": "5", "y": "5", "ct": ""}),
    "softmax": (tv.vjp(softmax), {**ROWS, "ct": "n m"}),
    "also the maximum": (tv.vjp(also_the_maximum), {**ROWS, "ct": "n m"}),
    "log-sum-exp": (tv.vjp(log_sum_exp), {**ROWS, "ct": "n"}),
    "layer norm": (tv.vjp(layer_norm), {"x": "n m>=1", "g": "m", "ct": "n m"}),
    "two outputs": (tv.vjp(lambda x, y: (x * y, x + y * y), weights=("u", "v")), {**VECTORS, "u": "n", "v": "n"}),
    "tangent of a product": (tv.jvp(elementwise("x * y")), {**VECTORS, "d_x": "n", "d_y": "n"}),
    "tangent of a matmul": (tv.jvp(elementwise("xp.tanh(x @ y)")), {"x": "n n", "y": "n n", "d_x": "n n", "d_y": "n n"}),
    "tangent of maxima": (tv.jvp(unary("xp.max(x, axis=1)")), {**ROWS, "d_x": "n m"}),
    "tangent of a softmax": (tv.jvp(softmax), {**ROWS, "d_x": "n m"}),
    "tangent of a log-sum-exp": (tv.jvp(log_sum_exp), {**ROWS, "d_x": "n m"}),
    "tangent, also of the maximum": (tv.jvp(also_the_maximum), {**ROWS, "d_x": "n m"}),
    "gradient of a gradient": (tv.grad(total(tv.grad(total(unary("x * x * x"))))), {"x": "n"}),
    "gradient of a tangent": (tv.grad(named(lambda x, d: tv.jvp(unary("x * x"))(x, d)[1].sum(), ("x", "d"))), {"x": "n", "d": "n"}),
    "closure": (tv.grad(lambda x: tv.grad(lambda z: (z * x).sum())(x).sum()), {"x": "n"}),
    "branch at a pole": (tv.grad(elementwise("xp.where(xp.log(x) == -xp.inf, x * y, y).sum()")), VECTORS),
    "branch at a point": (tv.grad(elementwise("xp.where(x == 1.0, x * y, y).sum()")), VECTORS),
}  # fmt: skip


@cache
def model(name: str) -> Written:
    fn, specs = MODELS[name]
    return write(fn, specs)
