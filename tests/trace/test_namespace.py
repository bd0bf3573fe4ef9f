"""Every function of the namespace on prime sizes against NumPy, through the reference interpreter.

Each case is one function of xp and arrays, run twice: on NumPy arrays as it is, and traced.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import numpy as np
import pytest
import scipy.special

from tang_verified.semantics.evaluate import evaluate
from tang_verified.tracing.tracer import trace

RNG = np.random.default_rng(0)
ARRAYS: dict[str, tuple[str, str, Any]] = {
    "x": ("n m", "float64", RNG.normal(size=(5, 7))),
    "y": ("n m", "float64", RNG.normal(size=(5, 7))),
    "p": ("n m", "float64", RNG.uniform(0.1, 0.9, size=(5, 7))),
    "v": ("m", "float64", RNG.normal(size=7)),
    "w": ("m k", "float64", RNG.normal(size=(7, 3))),
    "t": ("b n 4", "float64", RNG.normal(size=(2, 5, 4))),
    "u": ("b 4 n", "float64", RNG.normal(size=(2, 4, 5))),
    "f": ("3 8", "float64", RNG.normal(size=(3, 8))),
    "i": ("n m", "int64", RNG.integers(-9, 10, size=(5, 7))),
    "j": ("n m", "int64", RNG.integers(1, 6, size=(5, 7))),
    "c": ("n m", "bool", RNG.random((5, 7)) < 0.5),
    "d": ("n m", "bool", RNG.random((5, 7)) < 0.5),
    "ids": ("q", "int64", np.array([3, 0, 4, 4, 1, 2, 0, 3, 1, 2, 4])),
    "labels": ("n", "int64", np.array([6, 0, 3, 3, 1])),
}


def check(fn: Callable[..., Any], *names: str, empty: Any = "nan", atol: float = 1e-12) -> None:
    """fn(xp, **arrays) traced equals fn(np, **arrays)."""
    def call(**arrays: Any) -> Any:
        return fn(arrays[names[0]].__array_namespace__(), *arrays.values())

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY) for name in names]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    program = trace(call, {name: _spec(name) for name in names}, empty=empty)
    arrays = {name: ARRAYS[name][2] for name in names}
    results = evaluate(program, arrays)
    with np.errstate(all="ignore"):
        expected = call(**arrays)
    wanted = expected if isinstance(expected, (tuple, list)) else (expected,)
    assert len(wanted) == len(program.outputs)
    for name, want in zip(program.outputs, wanted, strict=True):
        want = np.asarray(want)
        assert results[name].shape == want.shape
        assert results[name].dtype.kind == want.dtype.kind
        np.testing.assert_allclose(results[name], want, rtol=1e-12, atol=atol, equal_nan=True)


def _spec(name: str) -> Any:
    from tang_verified.spec import spec

    return spec(*ARRAYS[name][:2])


UNARY = (
    "exp log log1p expm1 sqrt sin cos tan tanh sinh cosh asin acos atan abs sign floor ceil round trunc square negative "
    "isnan isinf isfinite exp2 log2 log10 positive"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    check(lambda xp, p: getattr(xp, name)(p), "p")


@pytest.mark.parametrize("name", ["abs", "sign", "floor", "ceil", "round", "trunc", "negative", "square", "tanh", "sin"])
def test_unary_of_signed(name: str) -> None:
    check(lambda xp, x: getattr(xp, name)(x * 3), "x")


BINARY = "add subtract multiply divide maximum minimum less less_equal greater greater_equal equal not_equal logaddexp".split()


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    check(lambda xp, x, y: getattr(xp, name)(x, y), "x", "y")
    check(lambda xp, x, v: getattr(xp, name)(v, x), "x", "v")


@pytest.mark.parametrize("name", "add subtract multiply divide floor_divide remainder maximum less equal".split())
def test_binary_of_ints(name: str) -> None:
    check(lambda xp, i, j: getattr(xp, name)(i, j), "i", "j")


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", "equal", "not_equal", "maximum"])
def test_binary_of_bools(name: str) -> None:
    check(lambda xp, c, d: getattr(xp, name)(c, d), "c", "d")


def norm(xp: Any, x: Any) -> Any:
    return xp.linalg.vector_norm(x, axis=-1)


CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "operators": (lambda xp, x, y: (-x + 2 * y - 1) / (3 + x * x) - 1 / (2 - y), ("x", "y")),
    "floor operators": (lambda xp, x, y: (x // 0.3, x % 0.7, 5 % (x + 9), 5 // (y + 9)), ("x", "y")),
    "int operators": (lambda xp, i, j: (i // j, i % j, i // 3, i % 3, -i, abs(i), i / j, 2 * i + 1, i**3), ("i", "j")),
    "powers": (lambda xp, p: (p**2, p**3, p**0, p**1, p**2.0, p**-2, p**0.5, p**-0.5, p**1.7, 2.0**p), ("p",)),
    "power of arrays": (lambda xp, p, x: xp.pow(p, x), ("p", "x")),
    "masks": (lambda xp, x, y: (~(x > 0) | (y < 0)) ^ ((x <= y) & (x != y)), ("x", "y")),
    "reflected comparison": (lambda xp, x: (0 < x, 0.5 >= x, 1 == x), ("x",)),
    "where": (lambda xp, x, c: (xp.where(c, x, -xp.inf), xp.where(c, 1.0, x), xp.where(x[:, :1] > 0, x, 0)), ("x", "c")),
    "clip": (lambda xp, x: (xp.clip(x, -0.5, 0.5), xp.clip(x, None, 0.3)), ("x",)),
    "sum": (lambda xp, x: (xp.sum(x), xp.sum(x, axis=0), x.sum(axis=-1, keepdims=True), x.sum((0, 1))), ("x",)),
    "max min": (lambda xp, x: (xp.max(x, axis=1), x.min(axis=0, keepdims=True), x.max(), x.min()), ("x",)),
    "prod": (lambda xp, p: (xp.prod(p, axis=1), p.prod()), ("p",)),
    "mean var std": (lambda xp, x: (xp.mean(x, axis=1), x.var(axis=0), xp.std(x, axis=1, correction=1), x.mean()), ("x",)),
    "int reductions": (lambda xp, i: (i.sum(axis=0), i.max(axis=1), i.min(), i.mean(axis=0)), ("i",)),
    "bool reductions": (lambda xp, c: (c.any(axis=0), c.all(axis=1), xp.any(c), c.sum(axis=1)), ("c",)),
    "max initial": (lambda xp, x: np.max(x, axis=1, initial=0.5), ("x",)),
    "cumulative_sum": (lambda xp, x, i: (xp.cumulative_sum(x, axis=1), xp.cumulative_sum(i, axis=0)), ("x", "i")),
    "matmul": (lambda xp, x, w, v: (x @ w, x @ v, v @ w, v @ v), ("x", "w", "v")),
    "matmul batch": (lambda xp, t, u: (t @ u, u @ t, t @ u[0], xp.matmul(t[0], u)), ("t", "u")),
    "tensordot": (lambda xp, t, u: (xp.tensordot(t, u, axes=((2,), (1,))), xp.tensordot(t, t, axes=3)), ("t", "u")),
    "tensordot 1": (lambda xp, x, w: xp.tensordot(x, w, axes=1), ("x", "w")),
    "vecdot": (lambda xp, x, y, v: (xp.vecdot(x, y), xp.vecdot(x, v), xp.vecdot(x, y, axis=0)), ("x", "y", "v")),
    "einsum": (lambda xp, x, w, t: (np.einsum("ij,jk->ki", x, w), np.einsum("bnd,bmd->bnm", t, t), np.einsum("ij->", x)),
               ("x", "w", "t")),
    "einsum dots": (lambda xp, t, f: (np.einsum("...nd,nd->...d", t, t[0]), np.einsum("ij,ij", f, f)), ("t", "f")),
    "concat": (lambda xp, x, y, v: (xp.concat([x, y], axis=0), xp.concat((x, y, x), axis=1), xp.concat([v, v[:2]])),
               ("x", "y", "v")),
    "concat mixed": (lambda xp, x, i: xp.concat([x, i], axis=0), ("x", "i")),
    "stack": (lambda xp, x, y: (xp.stack([x, y]), xp.stack([x, y, x], axis=-1)), ("x", "y")),
    "dims": (lambda xp, t: (xp.expand_dims(t, axis=1), xp.squeeze(t[:1], axis=0), t[:, None, ..., None]), ("t",)),
    "permute": (lambda xp, t: (xp.permute_dims(t, (2, 0, 1)), t.T, t.mT, xp.moveaxis(t, 0, -1), t.transpose(1, 0, 2)), ("t",)),
    "reshape": (lambda xp, t: (xp.reshape(t, (-1, t.shape[1], 2, 2)), t.reshape(t.shape[0], -1), t[0].reshape(-1)), ("t",)),
    "reshape fixed": (lambda xp, f: (f.reshape(4, 6), f.reshape(-1), f.reshape(2, 3, 4), xp.reshape(f, (24, 1))), ("f",)),
    "flip roll": (lambda xp, x: (xp.flip(x), xp.flip(x, axis=1), xp.roll(x, 2, axis=1), xp.roll(x, -1, axis=0)), ("x",)),
    "roll fixed": (lambda xp, f: (xp.roll(f, 13, axis=1), xp.roll(f, -3, axis=0), xp.roll(f, 5)), ("f",)),
    "broadcast_to": (lambda xp, v, x: xp.broadcast_to(v, x.shape), ("v", "x")),
    "take": (lambda xp, x, ids: (xp.take(x, ids, axis=0), x[ids], xp.take(x.T, ids, axis=1)), ("x", "ids")),
    "take ints": (lambda xp, i, c, ids: (i[ids], c[ids], x_rows(xp, i)), ("i", "c", "ids")),
    "take columns": (lambda xp, x, labels: (x[:, labels], x[xp.arange(x.shape[0]), labels]), ("x", "labels")),
    "take_along_axis": (lambda xp, x, labels: xp.take_along_axis(x, labels[:, None], axis=1), ("x", "labels")),
    "repeat tile": (lambda xp, x: (xp.repeat(x, 3, axis=0), x.repeat(2, axis=1), xp.tile(x, (2, 3)), xp.tile(x[0], 2)), ("x",)),
    "tile fixed": (lambda xp, f: (xp.tile(f, 2), xp.tile(f, (2, 1, 3)), xp.repeat(f, 2)), ("f",)),
    "pad": (lambda xp, x: (np.pad(x, 1), np.pad(x, ((0, 2), (3, 0)), constant_values=-1.0), np.pad(x, (1, 2))), ("x",)),
    "arange": (lambda xp, x: (xp.arange(x.shape[0]), xp.arange(1, x.shape[1]), xp.arange(10, 0, -3), xp.arange(5)), ("x",)),
    "constants": (lambda xp, f: (f + xp.zeros(f.shape), f * xp.ones((8,)), f + xp.full(f.shape, 2.5), f / xp.pi), ("f",)),
    "likes": (lambda xp, x, i: (xp.zeros_like(x), xp.ones_like(i), xp.full_like(x, 3.5)), ("x", "i")),
    "eye": (lambda xp, x: (xp.eye(x.shape[0]), xp.eye(3, 5, k=1), xp.eye(4, k=-2)), ("x",)),
    "tril triu": (lambda xp, x: (xp.tril(x), xp.triu(x, k=1), xp.tril(xp.ones(x.shape), k=-1)), ("x",)),
    "astype": (lambda xp, x, c: (xp.astype(x * 5, xp.int64), c.astype(xp.float64), xp.astype(x, xp.bool)),
               ("x", "c")),
    "asarray": (lambda xp, f: (f + xp.asarray(2.0), f * np.linspace(0, 1, 8), f + np.cos(np.arange(24.0)).reshape(3, 8)),
                ("f",)),
    "regular constants": (lambda xp, f: (f[:1, :1] * np.arange(500) + np.zeros((2, 500)), f[0, 0] > np.arange(300.0)[:, None]),
                          ("f",)),
    "norm": (norm, ("x",)),
    "split": (lambda xp, f: (*np.split(f, 2, axis=1), *np.split(f, [1, 2])), ("f",)),
    "iterate": (lambda xp, f: sum(row * (number + 1) for number, row in enumerate(f)), ("f",)),
    "known numbers": (lambda xp, x: x * xp.sqrt(16.0) / xp.exp(1.0), ("x",)),
    "size as number": (lambda xp, x: (x / x.shape[1], x * x.shape[0] ** 0.5, x + 1 / x.shape[0]), ("x",)),
    "root of a size": (lambda xp, x: (x / xp.sqrt(xp.asarray(x.shape[1])), x / np.sqrt(x.shape[0])), ("x",)),
}  # fmt: skip


def x_rows(xp: Any, x: Any) -> Any:
    return x[0] + x[-1]


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    fn, names = CASES[name]
    check(fn, *names)


def test_extras_without_numpy_names() -> None:
    program = trace(lambda p: (p.__array_namespace__().rsqrt(p), p.__array_namespace__().erf(p)), {"p": _spec("p")})
    results = list(evaluate(program, {"p": ARRAYS["p"][2]}).values())
    np.testing.assert_allclose(results[0], ARRAYS["p"][2] ** -0.5, rtol=1e-12)
    np.testing.assert_allclose(results[1], scipy.special.erf(ARRAYS["p"][2]), rtol=1e-12)


NUMPY = {
    "exp": lambda x: np.exp(x),
    "where": lambda x: np.where(x > 0, x, 0.0),
    "sum": lambda x: np.sum(x, axis=1),
    "max": lambda x: np.max(x, axis=0, keepdims=True),
    "amax": lambda x: np.amax(x, axis=-1),
    "matmul": lambda x: np.matmul(x, x.T),
    "maximum": lambda x: np.maximum(0.0, x),
    "concatenate": lambda x: np.concatenate([x, -x], axis=1),
    "stack": lambda x: np.stack([x, x * 2], axis=1),
    "dot": lambda x: np.dot(x, x.T),
    "transpose": lambda x: np.transpose(x, (1, 0)),
    "mean": lambda x: np.mean(x, axis=0),
    "var": lambda x: np.var(x, axis=0, ddof=1),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "reduce": lambda x: np.add.reduce(x, axis=1),
    "scalar left": lambda x: np.float64(2.0) * x + np.float32(0.5),
    "outer": lambda x: np.outer(x[0], x[:, 0]),
    "arcsin": lambda x: np.arcsin(np.sin(x)),
    "expand": lambda x: np.expand_dims(x, 0) + np.squeeze(x[None], 0),
    "where mask": lambda x: np.sum(np.where(x > 0, x, 0)),
}


@pytest.mark.parametrize("name", NUMPY)
def test_plain_numpy(name: str) -> None:
    fn = NUMPY[name]
    x = ARRAYS["x"][2]
    program = trace(fn, {"x": _spec("x")})
    np.testing.assert_allclose(evaluate(program, {"x": x})[program.outputs[0]], fn(x), rtol=1e-12)
