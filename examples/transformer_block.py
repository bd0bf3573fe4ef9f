"""A transformer block: RMSNorm, rotary positions, grouped-query causal attention, SwiGLU. A short list of kernels."""

import tang_verified as tv


def rmsnorm(x, w):
    xp = x.__array_namespace__()
    return x / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * w


def rotate(x):
    """Rotary embedding of (heads, n, 32): the first half of the features against the second."""
    xp = x.__array_namespace__()
    n = x.shape[-2]
    angle = xp.arange(n)[:, None] * xp.exp(xp.arange(16)[None, :] * (-9.210340371976184 / 16.0))
    c, s = xp.cos(angle), xp.sin(angle)
    a, b = x[..., :16], x[..., 16:]
    return xp.concat([a * c - b * s, a * s + b * c], axis=-1)


def block(
    x: tv.spec("n 256"), norm1: tv.spec("256"), wq: tv.spec("256 256"), wk: tv.spec("256 64"), wv: tv.spec("256 64"),
    wo: tv.spec("256 256"), norm2: tv.spec("256"), gate: tv.spec("256 512"), up: tv.spec("256 512"), down: tv.spec("512 256"),
):  # fmt: skip
    xp = x.__array_namespace__()
    n = x.shape[0]
    y = rmsnorm(x, norm1)
    q = rotate(xp.permute_dims((y @ wq).reshape((n, 8, 32)), (1, 0, 2)))
    k = rotate(xp.permute_dims((y @ wk).reshape((n, 2, 32)), (1, 0, 2)))
    v = xp.permute_dims((y @ wv).reshape((n, 2, 32)), (1, 0, 2))
    k, v = xp.repeat(k, 4, axis=0), xp.repeat(v, 4, axis=0)
    i = xp.arange(n)
    s = xp.where(i[None, :] <= i[:, None], q @ k.mT / 32**0.5, -xp.inf)
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    o = p / p.sum(axis=-1, keepdims=True) @ v
    x = x + xp.permute_dims(o, (1, 0, 2)).reshape((n, 256)) @ wo
    y = rmsnorm(x, norm2)
    g = y @ gate
    return x + (g / (1.0 + xp.exp(-g)) * (y @ up)) @ down
