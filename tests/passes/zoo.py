"""Small models with their specs and random arrays of prime sizes, shared by the tests of passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tang_verified.semantics.program import Program
from tang_verified.spec import spec
from tang_verified.tracing.tracer import trace

PRIMES = {"n": 5, "m": 7, "d": 3, "e": 2, "b": 2, "h": 3, "v": 11}


def softmax(x: Any) -> Any:
    xp = x.__array_namespace__()
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.mT / 8.0) @ v


def before(q: Any, k: Any) -> Any:
    """j <= i, for scores of q and k."""
    xp = q.__array_namespace__()
    return xp.arange(k.shape[-2])[None, :] <= xp.arange(q.shape[-2])[:, None]


def causal(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    return softmax(xp.where(before(q, k), q @ k.mT / 8.0, -xp.inf)) @ v


def window(q: Any, k: Any, v: Any) -> Any:
    """Rows beyond the keys' end are empty."""
    xp = q.__array_namespace__()
    i, j = xp.arange(q.shape[0])[:, None], xp.arange(k.shape[0])[None, :]
    return softmax(xp.where((i + 2 <= j) & (j < i + 4), q @ k.mT / 8.0, -xp.inf)) @ v


def masked(q: Any, k: Any, v: Any, keep: Any) -> Any:
    xp = q.__array_namespace__()
    return softmax(xp.where(keep, q @ k.mT / 8.0, -xp.inf)) @ v


def additive(q: Any, k: Any, v: Any, keep: Any) -> Any:
    xp = q.__array_namespace__()
    return softmax(q @ k.mT / 8.0 + xp.where(keep, 0.0, -xp.inf)) @ v


def twice_masked(q: Any, k: Any, v: Any, keep: Any) -> Any:
    xp = q.__array_namespace__()
    s = xp.where(keep, q @ k.mT / 8.0, -xp.inf)
    return softmax(xp.where(before(q, k), s, -xp.inf)) @ v


def alibi(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    i, j = xp.arange(q.shape[0])[:, None], xp.arange(k.shape[0])[None, :]
    return softmax(q @ k.mT / 8.0 - 0.5 * (i - j)) @ v


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    xp = x.__array_namespace__()
    c = xp.mean(x, axis=-1, keepdims=True)
    return (x - c) / xp.sqrt(xp.var(x, axis=-1, keepdims=True) + 1e-5) * g + b


def rms_norm(x: Any, g: Any) -> Any:
    xp = x.__array_namespace__()
    return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * g


def log_sum_exp(x: Any) -> Any:
    xp = x.__array_namespace__()
    top = xp.max(x, axis=-1, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - top), axis=-1)) + top[..., 0]


def cross_entropy(x: Any, label: Any) -> Any:
    xp = x.__array_namespace__()
    hit = xp.arange(x.shape[1])[None, :] == label[:, None]
    return log_sum_exp(x) - xp.sum(xp.where(hit, x, 0.0), axis=-1)


def one_hot_loss(x: Any, label: Any) -> Any:
    xp = x.__array_namespace__()
    hit = (xp.arange(x.shape[1])[None, :] == label[:, None]).astype(xp.float64)
    return xp.mean(log_sum_exp(x) - xp.sum(hit * x, axis=-1))


def embedding(x: Any, label: Any) -> Any:
    return x[label]


def cosine(x: Any, y: Any) -> Any:
    xp = x.__array_namespace__()
    a = x / xp.sqrt(xp.sum(x * x, axis=-1, keepdims=True) + 1e-6)
    b = y / xp.sqrt(xp.sum(y * y, axis=-1, keepdims=True) + 1e-6)
    return a @ b.mT


def matmul_epilogue(x: Any, w: Any, b: Any) -> Any:
    xp = x.__array_namespace__()
    return xp.maximum(x @ w + b, 0.0)


def dequantised(x: Any, w: Any, s: Any) -> Any:
    return (x * 0.125) @ (w * s[None, :])


def mlp(x: Any, w: Any, u: Any) -> Any:
    xp = x.__array_namespace__()
    return xp.tanh(x @ w) @ u


def max_pool(x: Any) -> Any:
    xp = x.__array_namespace__()
    rows = [x[:, r : x.shape[1] - 1 + r] for r in range(2)]
    return xp.maximum(rows[0], rows[1])


def grouped(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    b, _, n, d = q.shape
    out = softmax(xp.reshape(q, (b, 2, 3, n, d)) @ k[:, :, None].mT / 8.0) @ v[:, :, None]
    return xp.reshape(out, (b, 6, n, d))


@dataclass(frozen=True)
class Model:
    fn: Callable[..., Any]
    specs: dict[str, Any]
    defs: int = 1
    empty: Any = "nan"
    options: dict[str, Any] = field(default_factory=dict)

    def program(self) -> Program:
        specs = {key: spec(*text.split("|")) if isinstance(text, str) else text for key, text in self.specs.items()}
        return trace(self.fn, specs, empty=self.empty)

    def arrays(self, seed: int = 0) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        out: dict[str, Any] = {}
        for key, text in self.specs.items():
            words, _, dtype = text.partition("|")
            shape = tuple(int(w) if w.isdigit() else PRIMES[w] for w in words.split())
            if dtype == "bool":
                out[key] = rng.random(shape) < 0.6
                if out[key].ndim == 2:
                    out[key][1] = False  # a row that is masked throughout
            elif dtype.startswith("int"):
                out[key] = rng.integers(0, 3, size=shape)
            else:
                out[key] = rng.normal(size=shape)
        return out


QKV = {"q": "n 3", "k": "m 3", "v": "m 2"}
MASKED = {**QKV, "keep": "n m|bool"}
MODELS = {
    "softmax": Model(softmax, {"x": "n m"}),
    "attention": Model(attention, QKV),
    "attention, symbolic widths": Model(attention, {"q": "n d", "k": "m d", "v": "m e"}),
    "causal": Model(causal, QKV),
    "causal, zero": Model(causal, QKV, empty="zero"),
    "causal, batched": Model(causal, {"q": "b h n 3", "k": "b h n 3", "v": "b h n 2"}),
    "window": Model(window, QKV),
    "window, zero": Model(window, QKV, empty="zero"),
    "masked": Model(masked, MASKED),
    "masked, zero": Model(masked, MASKED, empty="zero"),
    "additive": Model(additive, MASKED),
    "twice masked": Model(twice_masked, MASKED),
    "alibi": Model(alibi, QKV),
    "grouped": Model(grouped, {"q": "b 6 n 3", "k": "b 2 m 3", "v": "b 2 m 3"}),
    "layer norm": Model(layer_norm, {"x": "n d", "g": "d", "b": "d"}),
    "rms norm": Model(rms_norm, {"x": "n d", "g": "d"}),
    "log-sum-exp": Model(log_sum_exp, {"x": "n m"}),
    "cross entropy": Model(cross_entropy, {"x": "n m", "label": "n|int32"}),
    "one-hot loss": Model(one_hot_loss, {"x": "n m", "label": "n|int32"}),
    "embedding": Model(embedding, {"x": "v d", "label": "n|int64"}),
    "cosine": Model(cosine, {"x": "n d", "y": "m d"}),
    "matmul, epilogue": Model(matmul_epilogue, {"x": "n d", "w": "d m", "b": "m"}),
    "dequantised": Model(dequantised, {"x": "n d", "w": "d m", "s": "m"}),
    "mlp": Model(mlp, {"x": "n 509", "w": "509 521", "u": "521 2"}, defs=2),
    "max pool": Model(max_pool, {"x": "n m"}),
}


@cache
def traced(name: str) -> Program:
    return MODELS[name].program()
