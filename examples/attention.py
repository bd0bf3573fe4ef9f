"""Attention in its variants, each as a textbook writes it: scores, mask, softmax, weighted sum. No flash attention here;
the compiler derives it."""

import tang_verified as tv


def weights(s):
    xp = s.__array_namespace__()
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def positions(q, k):
    """Query and key positions, the last query level with the last key."""
    xp = q.__array_namespace__()
    n, m = q.shape[-2], k.shape[-2]
    return (xp.arange(n) + (m - n))[:, None], xp.arange(m)[None, :]


def plain(q: tv.spec("n d>=1"), k: tv.spec("m d>=1"), v: tv.spec("m e")):
    return weights(q @ k.T / q.shape[-1] ** 0.5) @ v


def heads(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64")):
    return weights(q @ k.mT / 8.0) @ v


def causal(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64")):
    xp = q.__array_namespace__()
    i, j = positions(q, k)
    return weights(xp.where(j <= i, q @ k.mT / 8.0, -xp.inf)) @ v


def sliding_window(q: tv.spec("n 64"), k: tv.spec("m 64"), v: tv.spec("m 64")):
    xp = q.__array_namespace__()
    i, j = positions(q, k)
    return weights(xp.where((j <= i) & (i < j + 128), q @ k.T / 8.0, -xp.inf)) @ v


def grouped_query(q: tv.spec("8 n 64"), k: tv.spec("2 m 64"), v: tv.spec("2 m 64")):
    xp = q.__array_namespace__()
    k, v = xp.repeat(k, 4, axis=0), xp.repeat(v, 4, axis=0)
    return weights(q @ k.mT / 8.0) @ v


def alibi(q: tv.spec("h n 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64"), slope: tv.spec("h")):
    i, j = positions(q, k)
    return weights(q @ k.mT / 8.0 + slope[:, None, None] * (j - i)) @ v


def soft_capped(q: tv.spec("n 64"), k: tv.spec("m 64"), v: tv.spec("m 64")):
    xp = q.__array_namespace__()
    return weights(30.0 * xp.tanh(q @ k.T / 8.0 / 30.0)) @ v


def with_sink(q: tv.spec("n 64"), k: tv.spec("m 64"), v: tv.spec("m 64"), sink: tv.spec("1")):
    """A learned logit that takes weight and gives no value."""
    xp = q.__array_namespace__()
    s = q @ k.T / 8.0
    m = s.max(axis=-1, keepdims=True)
    p = xp.exp(s - m)
    return p @ v / (p.sum(axis=-1, keepdims=True) + xp.exp(sink[0] - m))


def masked(q: tv.spec("n 64"), k: tv.spec("m 64"), v: tv.spec("m 64"), keep: tv.spec("n m", "bool")):
    """Any mask, given as data: rows may be masked as a whole."""
    xp = q.__array_namespace__()
    return weights(xp.where(keep, q @ k.T / 8.0, -xp.inf)) @ v


def decode(q: tv.spec("h 1 64"), k: tv.spec("h m 64"), v: tv.spec("h m 64")):
    return weights(q @ k.mT / 8.0) @ v


def sigmoid(q: tv.spec("n 64"), k: tv.spec("m 64"), v: tv.spec("m 64")):
    xp = q.__array_namespace__()
    s = q @ k.T / 8.0
    return (1.0 / (1.0 + xp.exp(-s))) @ v
