"""What random programs and hand-written ones once got wrong, shrunk. Each: function, specs, shapes; a comment says the fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tang_verified as tv

from . import dual


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    xp = q.__array_namespace__()
    s = q @ k.mT * 0.25
    if causal:
        s = xp.where(xp.arange(k.shape[-2])[None, :] <= xp.arange(q.shape[-2])[:, None], s, -xp.inf)
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def stretched_sum(x: Any) -> Any:
    xp = x.__array_namespace__()
    return xp.broadcast_to(x, (2, *x.shape)).sum()


def outer_of_sums(x: Any, y: Any) -> Any:
    return x.sum(axis=1)[:, None] * y.sum(axis=0)[None, :]


def mixed_sums(x: Any, y: Any, z: Any) -> Any:
    return x.sum(axis=1)[:, None] * y.sum(axis=0)[None, :] + z.sum()


Case = tuple[Callable[..., Any], dict[str, Any], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {
    # a scalar array became a vector of one element on its way in, and the call failed
    "scalar input": (lambda x, y: x * y, {"x": "", "y": "n"}, ((), (5,))),
    # max of integers was taken in float32
    "integer max": (lambda x: x.max(axis=-1), {"x": tv.spec("n m", "int32")}, ((3, 7),)),
    "integer min": (lambda x: x.min(), {"x": tv.spec("n m", "int64")}, ((3, 7),)),
    # an axis that no index mentions was in nobody's map: the fold in lanes was refused
    "axis without an index": (stretched_sum, {"x": "n"}, ((70,),)),
    "axis without an index, float64": (stretched_sum, {"x": tv.spec("n m", "float64")}, ((5, 67),)),
    # x[i]·x[j] against x[j']·x[i]: the map was j = i; the tiled schedule was refused
    "one array as queries, keys and values": (lambda x: attention(x, x, x, True), {"x": "n 8"}, ((67, 8),)),
    # folds over one key each were thought to share a pass though one varies along the other's columns
    "one key": (attention, {"q": "n 8", "k": "1 8", "v": "1 8"}, ((21, 8), (1, 8), (1, 8))),
    # without a tile of rows, a state of 256 columns was made for any number of them
    "columns beyond a buffer": (outer_of_sums, {"x": "n m", "y": "k p"}, ((5, 7), (3, 700))),
    "columns beyond a buffer, and a scalar": (mixed_sums, {"x": "n m", "y": "k p", "z": "k"}, ((5, 7), (3, 300), (3,))),
    # fields of an integer and a real, the identity no identity for an infinite state
    "argmax": (lambda x: dual.argmax(x), {"x": "n m"}, ((5, 19),)),
    "argmax of one column": (lambda x: dual.argmax(x), {"x": "n 1"}, ((5, 1),)),
}  # fmt: skip
