"""The caller's arrays: whatever speaks DLPack, used where it lies; the result is of the same kind, in the same memory.

    numpy, torch on the CPU      ->   NumPy views            a list or a number counts as NumPy's
    cupy, torch, jax on GPU i    ->   CuPy views on GPU i, in their owner's stream      (backend "cuda" alone)
    numpy beside torch, or GPU 0 beside GPU 1, or a GPU's array for the backend "c"     ->   an error that names both
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tang_verified.errors import CompileError

CPU = 1  # DLPack's device types
CUDA = (2, 13)  # its own memory, and managed memory
WRITABLE = ("numpy", "cupy", "torch")  # an array of another kind never changes (JAX), or says nothing of it


class Memory(Protocol):
    """Where the arrays of one call lie. Inside `with`, kernels run there: the right GPU, the right stream.

    A view has NumPy's `shape`, `dtype`, `ndim` and `flags`, and lies on the array's own memory.
    """

    in_place: bool  # the kernels take the views as they are
    number: int  # of the GPU, -1 for the host

    def __enter__(self) -> Any: ...

    def __exit__(self, *problem: object) -> None: ...

    def view(self, array: Any) -> Any: ...

    def contiguous(self, view: Any) -> Any: ...

    def new(self, shape: tuple[int, ...], dtype: str) -> Any:
        """An array of the caller's kind, or a view's where such an array cannot be written; undefined."""

    def overlap(self, a: Any, b: Any) -> bool:
        """Of contiguous views."""

    def give(self, array: Any) -> Any:
        """What `new` made, as the caller's kind of array."""


class HostMemory:
    """Arrays in the host's memory; `like` is one of them."""

    number = -1

    def __init__(self, like: Any, in_place: bool) -> None:
        self.like, self.in_place = like, in_place

    def __enter__(self) -> HostMemory:
        return self

    def __exit__(self, *problem: object) -> None: ...

    def view(self, array: Any) -> np.ndarray[Any, Any]:
        if kind_of(array) == "torch":
            torch_view: np.ndarray[Any, Any] = array.numpy()  # by DLPack it would be read-only in some versions
            return torch_view
        if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray):
            return np.from_dlpack(array)
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("it is a masked array, and no kernel reads the mask; pass its filled(…), or the mask as an input")
        return np.asarray(array)

    def contiguous(self, view: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.require(view, None, ["C_CONTIGUOUS", "ALIGNED"])

    def new(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        return np.empty(shape, dtype)

    def overlap(self, a: Any, b: Any) -> bool:
        return np.may_share_memory(a, b)

    def give(self, array: np.ndarray[Any, Any]) -> Any:
        return as_kind_of(self.like, array)


def as_kind_of(like: Any, array: Any) -> Any:
    """An array of another library, on the same memory."""
    match kind_of(like):
        case "numpy" | "cupy":
            return array
        case "torch":
            import torch

            return torch.from_numpy(array)
        case _ if hasattr(like, "__array_namespace__"):
            return like.__array_namespace__().from_dlpack(array)
        case _:
            return array  # a library that only hands arrays out


def kind_of(array: Any) -> str:
    """The library that an array comes from."""
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack__"):
        return "numpy"
    return type(array).__module__.partition(".")[0]


def device_of(array: Any) -> tuple[int, int]:
    """DLPack's device: (type, number)."""
    if kind_of(array) == "numpy":
        return (CPU, 0)
    kind, number = array.__dlpack_device__()
    return (CUDA[0] if kind in CUDA else int(kind), int(number))


def memory_of(name: str, backend: Any, labelled: Sequence[tuple[str, Any]]) -> Memory:
    """The memory that all arrays of a call (inputs and `out`, each with its name) lie in, for a kernel of that name."""
    first, like = labelled[0] if labelled else ("", np.empty(0))
    for label, array in labelled:
        if (kind_of(array), device_of(array)) != (kind_of(like), device_of(like)):
            raise CompileError(
                f"{name}: {first} is {_spell(like)} and {label} is {_spell(array)}",
                "give arrays of one library, on one device",
            )
    where, number = device_of(like)
    if where == CPU:
        return HostMemory(like, backend.IN_PLACE)
    if where == CUDA[0] and (made := backend.device_memory(like, number)) is not None:
        found: Memory = made
        return found
    to_host = {"torch": ".cpu()", "cupy": ".get()"}.get(kind_of(like), "numpy.asarray")
    raise CompileError(
        f"{name}: {first} is {_spell(like)}, and this backend takes arrays in the host's memory",
        f"copy it there ({to_host})" + (", or compile with backend='cuda'" if where == CUDA[0] else ""),
    )


def _spell(array: Any) -> str:
    where, number = device_of(array)
    place = "the CPU" if where == CPU else f"GPU {number}" if where == CUDA[0] else f"DLPack device {where}:{number}"
    return f"{kind_of(array)}'s on {place}"
