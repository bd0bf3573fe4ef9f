"""A linear layer with bias and GELU, in one kernel: the epilogue runs on the accumulators' tile."""

import tang_verified as tv


def linear_gelu(x: tv.spec("n k"), w: tv.spec("k m"), b: tv.spec("m")):
    xp = x.__array_namespace__()
    y = x @ w + b
    return 0.5 * y * (1.0 + xp.tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)))
