"""Whole functions as users write them: the same code on NumPy arrays and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified.tracing.comprehension as tv
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.program import Program
from tang_verified.spec import spec
from tang_verified.tracing.tracer import trace

RNG = np.random.default_rng(1)


def draw(*shape: int) -> Any:
    return RNG.normal(size=shape)


def agree(fn: Callable[..., Any], specs: dict[str, Any], arrays: dict[str, Any], expected: Any = None) -> Program:
    program = trace(fn, specs)
    with np.errstate(all="ignore"):
        want = fn(**arrays) if expected is None else expected
    got = evaluate(program, arrays)[program.outputs[0]]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, equal_nan=True)
    return program


def softmax(x: Any) -> Any:
    xp = x.__array_namespace__()
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def test_softmax_and_its_names() -> None:
    program = agree(softmax, {"x": "n m"}, {"x": draw(5, 7)})
    assert [size.low for size in program.sizes] == [0, 1]
    assert "e" in [d.tensor.name for d in program.defs]


def causal(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    scores = q @ k.T / xp.sqrt(xp.asarray(q.shape[-1]))
    if isinstance(q, np.ndarray):
        mask = np.arange(q.shape[0])[:, None] >= np.arange(k.shape[0])[None, :]
    else:
        mask = xp.arange(q.shape[0])[:, None] >= xp.arange(k.shape[0])[None, :]
    return softmax(xp.where(mask, scores, -xp.inf)) @ v


def test_causal_attention() -> None:
    arrays = {"q": draw(7, 5), "k": draw(11, 5), "v": draw(11, 3)}
    agree(causal, {"q": "n d", "k": "m d", "v": "m e"}, arrays)


def masked(q: Any, k: Any, v: Any, keep: Any) -> Any:
    s = np.where(keep, q @ k.T, -np.inf)
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return (e / np.sum(e, axis=-1, keepdims=True)) @ v


MASKED = {"q": spec("n d"), "k": spec("m d"), "v": spec("m e"), "keep": spec("n m", "bool")}


def test_fully_masked_row_is_nan_or_zero() -> None:
    keep = RNG.random((5, 7)) < 0.7
    keep[2] = False
    arrays = {"q": draw(5, 3), "k": draw(7, 3), "v": draw(7, 2), "keep": keep}
    agree(masked, MASKED, arrays)
    program = trace(masked, MASKED, empty="zero")
    got = evaluate(program, arrays)[program.outputs[0]]
    with np.errstate(all="ignore"):
        want = np.nan_to_num(masked(**arrays))
    assert np.all(got[2] == 0)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def gqa_repeat(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    k, v = xp.repeat(k, 4, axis=1), xp.repeat(v, 4, axis=1)
    return softmax(xp.einsum("bhnd,bhmd->bhnm", q, k) / 8.0) @ v


def gqa_reshape(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    b, _, n, d = q.shape
    grouped = xp.reshape(q, (b, 2, 4, n, d))
    out = softmax(grouped @ k[:, :, None].mT / 8.0) @ v[:, :, None]
    return xp.reshape(out, (b, 8, n, d))


def test_grouped_queries() -> None:
    specs = {"q": "b 8 n 6", "k": "b 2 m 6", "v": "b 2 m 6"}
    arrays = {"q": draw(3, 8, 5, 6), "k": draw(3, 2, 7, 6), "v": draw(3, 2, 7, 6)}
    want = gqa_repeat(**arrays)
    agree(gqa_repeat, specs, arrays)
    agree(gqa_reshape, specs, arrays, want)


def conv2d(x: Any, w: Any) -> Any:
    """Same padding, 3 x 3, by shifted slices."""
    h, width = x.shape[1], x.shape[2]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    return sum(
        np.einsum("oc,chw->ohw", w[:, :, r, s], padded[:, r : r + h, s : s + width]) for r in range(3) for s in range(3)
    )


def test_conv2d_by_slices() -> None:
    agree(conv2d, {"x": "c height width", "w": "o c 3 3"}, {"x": draw(2, 5, 7), "w": draw(3, 2, 3, 3)})


def test_conv2d_by_comprehension() -> None:
    def conv(x: Any, w: Any) -> Any:
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        return tv.comprehension(
            out="o h w", reduce="c r s", extents={"h": x.shape[1], "w": x.shape[2]},
            body=lambda o, h, wide, c, r, s: padded[c, h + r, wide + s] * w[o, c, r, s],
        )  # fmt: skip

    arrays = {"x": draw(2, 5, 7), "w": draw(3, 2, 3, 3)}
    agree(conv, {"x": "c height width", "w": "o c 3 3"}, arrays, conv2d(**arrays))


def test_rope() -> None:
    def rope(x: Any, cos: Any, sin: Any) -> Any:
        half = x.shape[-1] // 2
        turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
        return x * cos + turned * sin

    agree(rope, {"x": "b n 8", "cos": "n 8", "sin": "n 8"}, {"x": draw(3, 5, 8), "cos": draw(5, 8), "sin": draw(5, 8)})


def test_cross_entropy() -> None:
    labels = np.array([3, 0, 6, 2, 2])
    specs = {"x": spec("n m", "float64"), "labels": spec("n", "int64")}

    def one_hot(x: Any, labels: Any) -> Any:
        xp = x.__array_namespace__()
        logp = x - xp.max(x, axis=1, keepdims=True)
        logp = logp - xp.log(xp.sum(xp.exp(logp), axis=1, keepdims=True))
        hit = labels[:, None] == xp.arange(x.shape[1])[None, :]
        return -xp.mean(xp.sum(xp.where(hit, logp, 0.0), axis=1))

    def along(x: Any, labels: Any) -> Any:
        xp = x.__array_namespace__()
        lse = xp.log(xp.sum(xp.exp(x), axis=1))
        return xp.mean(lse - xp.take_along_axis(x, labels[:, None], axis=1)[:, 0])

    arrays = {"x": draw(5, 7), "labels": labels}
    agree(one_hot, specs, arrays)
    agree(along, specs, arrays)


def test_embedding() -> None:
    def embed(table: Any, ids: Any) -> Any:
        return np.take(table, ids, axis=0) + table[ids]

    arrays = {"table": draw(7, 3), "ids": np.array([[0, 6, 2], [5, 5, 1]])}
    agree(embed, {"table": "v d", "ids": spec("b n", "int32")}, arrays)


def test_layer_norm_with_annotations_and_defaults() -> None:
    def layer_norm(x: spec("n d"), g: spec("d"), eps: float = 1e-5):  # type: ignore[valid-type,no-untyped-def]
        return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) * g

    layer_norm.__annotations__.update({"x": spec("n d"), "g": spec("d")})
    agree(layer_norm, {}, {"x": draw(5, 7), "g": draw(7)})


def test_several_outputs_and_an_input_returned() -> None:
    program = trace(lambda x: (x * 2, x, x.sum()), {"x": "n"})
    x = draw(5)
    results = evaluate(program, {"x": x})
    for name, want in zip(program.outputs, (x * 2, x, x.sum()), strict=True):
        np.testing.assert_allclose(results[name], want, rtol=1e-12)


def test_user_monoid_online_softmax() -> None:
    def join(a: Any, b: Any) -> Any:
        m = np.maximum(a[0], b[0])
        return m, a[1] * np.exp(a[0] - m) + b[1] * np.exp(b[0] - m)

    lse = tv.monoid("log-sum-exp", identity=(-np.inf, 0.0), combine=join)

    def fn(x: Any) -> Any:
        return tv.comprehension(
            out="i", reduce="j", monoid=lse, body=lambda i, j: (x[i, j], 1.0), finish=lambda m, s: m + np.log(s)
        )

    x = draw(5, 7)
    agree(fn, {"x": "n m"}, {"x": x}, np.log(np.exp(x).sum(axis=1)))


def test_comprehension_monoids_and_guards() -> None:
    x, w = draw(5, 7), draw(7, 3)
    ids = RNG.integers(-9, 9, size=(5, 7))

    def run(monoid: str, **extra: Any) -> Any:
        def fn(x: Any) -> Any:
            return tv.comprehension(out="i", reduce="j", monoid=monoid, body=lambda i, j: x[i, j], **extra)

        return fn

    for name, reference in (("add", np.sum), ("mul", np.prod), ("max", np.max), ("min", np.min)):
        agree(run(name), {"x": "n m"}, {"x": x}, reference(x, axis=1))
        agree(run(name), {"x": spec("n m", "int64")}, {"x": ids}, reference(ids, axis=1))
    lower = np.where(np.tri(5, 7, dtype=bool), x, 0).sum(axis=1)
    agree(run("add", where=lambda i, j: j <= i), {"x": "n m"}, {"x": x}, lower)

    def product(a: Any, b: Any) -> Any:
        return tv.comprehension(out="i j", reduce="k", body=lambda i, j, k: a[i, k] * b[k, j])

    program = agree(product, {"a": "n m", "b": "m e"}, {"a": x, "b": w}, x @ w)
    assert program.defs[0].axes == ("i", "j")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_result_dtypes(dtype: str) -> None:
    program = trace(lambda x, i: (x * 2.5, x + i, np.sqrt(i), i / 2, x > 0, i.sum(), x.sum(), i + True),
                    {"x": spec("n", dtype), "i": spec("n", "int32")})  # fmt: skip
    plain = "float64" if dtype == "float64" else "float32"
    got = [program.tensor(name).dtype for name in program.outputs]
    assert got == [dtype, dtype, plain, plain, "bool", "int64", dtype, "int32"]
