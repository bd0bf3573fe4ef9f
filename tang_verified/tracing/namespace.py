"""The array-API namespace of a trace: what `xp = x.__array_namespace__()` gives.

`FUNCTIONS` know their trace from their operands; `CREATION` functions have none, so a `Namespace` lends them its own.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tang_verified.errors import UnsupportedError
from tang_verified.spec import DTYPES
from tang_verified.tracing import creation, gather, joins, pointwise, products, reductions, reshape, views
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.dtypes import as_dtype, promote
from tang_verified.tracing.extent import from_term
from tang_verified.tracing.values import broadcast_shapes, need_array


class NoSuchFunction(UnsupportedError, AttributeError):
    """A name that the namespace does not have."""


def result_type(*operands: Any) -> Any:
    """The dtype that arrays and dtypes have together."""
    strong = [getattr(operand, "dtype_name", None) or as_dtype(operand) for operand in operands]
    return np.dtype(promote([(dtype, False) for dtype in strong], "float32")[0])


def broadcast_arrays(*arrays: Any) -> list[Any]:
    parts = [need_array(part, "broadcast_arrays", arrays) for part in arrays]
    shape = broadcast_shapes(parts[0].tracing, [part.extents for part in parts], "broadcast_arrays")
    sizes = tuple(from_term(parts[0].tracing, extent) for extent in shape)
    return [views.broadcast_to(part, sizes) for part in parts]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: pointwise.function(name) for name in pointwise.TABLE},
    **{
        function.__name__: function
        for module, names in (
            (pointwise, "add subtract multiply divide floor_divide remainder pow square sign where astype clip round floor "
             "ceil trunc logaddexp"),
            (reductions, "sum prod any all count_nonzero max min mean var std cumulative_sum cumulative_prod argmax argmin"),
            (products, "matmul dot outer vecdot tensordot einsum"),
            (views, "permute_dims matrix_transpose swapaxes moveaxis expand_dims squeeze broadcast_to flip"),
            (reshape, "reshape"),
            (joins, "concat stack pad roll repeat tile unstack split"),
            (gather, "take take_along_axis"),
            (creation, "full_like zeros_like ones_like tril triu meshgrid"),
        )
        for function in (getattr(module, name) for name in names.split())
    },
    "result_type": result_type,
    "broadcast_arrays": broadcast_arrays,
}  # fmt: skip

CREATION: dict[str, Callable[..., Any]] = {
    name: getattr(creation, name) for name in ("full", "zeros", "ones", "arange", "eye", "linspace", "asarray")
}

CONSTANTS: dict[str, Any] = {
    **{name: np.dtype(name).type for name in DTYPES},
    "inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e, "newaxis": None,
}  # fmt: skip

LINALG = SimpleNamespace(
    vector_norm=products.vector_norm, matmul=products.matmul, vecdot=products.vecdot, tensordot=products.tensordot,
    outer=products.outer, matrix_transpose=views.matrix_transpose,
)  # fmt: skip


class Namespace:
    """The functions, dtypes and constants of the array API, for one trace."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def __getattr__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        if name in CREATION:
            return partial(CREATION[name], self._tracing)
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name == "linalg":
            return LINALG
        if name.startswith("__"):
            raise AttributeError(name)
        raise no_such(name)

    def __dir__(self) -> list[str]:
        return sorted({*FUNCTIONS, *CREATION, *CONSTANTS, "linalg"})

    def __repr__(self) -> str:
        return "<the array-API namespace of a trace>"


def no_such(name: str) -> NoSuchFunction:
    """The error for a name that is not offered, with the nearest ones that are."""
    near = difflib.get_close_matches(name, [*FUNCTIONS, *CREATION], n=3, cutoff=0.5)
    advice = f"the nearest supported: {', '.join(near)}" if near else "write it with supported operations"
    return NoSuchFunction(f"{name} is not supported in traced code", f"{advice}; or state it with tv.comprehension")
