"""Arrays on an NVIDIA GPU, from CuPy, PyTorch, JAX or another library that speaks DLPack: used where they lie.

A call makes its arrays and puts its launches into the stream that their owner works in, and returns before the work is
done. The result is made by PyTorch if the arrays are PyTorch's, else by CuPy, and handed over by DLPack.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from tang_verified.backends.cuda import runtime


class DeviceMemory:
    """The memory of one GPU; `like` is an array there. See `tang_verified.arrays.Memory`."""

    in_place = True

    def __init__(self, like: Any, number: int) -> None:
        self.like, self.number = like, number
        self._entered = ExitStack()

    def __enter__(self) -> DeviceMemory:
        self._entered.enter_context(runtime.cupy().cuda.Device(self.number))
        self._entered.enter_context(runtime.stream_of([self.like]))
        return self

    def __exit__(self, *problem: object) -> None:
        self._entered.close()

    def view(self, array: Any) -> Any:
        return runtime.on_device(array)

    def contiguous(self, view: Any) -> Any:
        return runtime.cupy().ascontiguousarray(view)

    def new(self, shape: tuple[int, ...], dtype: str) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(self.like, torch.Tensor):
            return torch.empty(shape, dtype=getattr(torch, dtype), device=self.like.device)
        return runtime.cupy().empty(shape, dtype)

    def overlap(self, a: Any, b: Any) -> bool:
        return bool(a.data.ptr < b.data.ptr + b.nbytes and b.data.ptr < a.data.ptr + a.nbytes)

    def give(self, array: Any) -> Any:
        from tang_verified.arrays import as_kind_of, kind_of

        return array if kind_of(array) == kind_of(self.like) else as_kind_of(self.like, array)
