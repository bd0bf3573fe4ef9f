"""SwiGLU: two projections of one input, the first through SiLU, multiplied; one kernel, the input read once a tile."""

import tang_verified as tv


def swiglu(x: tv.spec("n k"), gate: tv.spec("k m"), up: tv.spec("k m")):
    xp = x.__array_namespace__()
    g = x @ gate
    return g / (1.0 + xp.exp(-g)) * (x @ up)
