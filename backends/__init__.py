"""Printers and runtimes. They accept certified kernels only.

A backend is an object with these:

    target() -> Target                                   what its schedules should know of the machine
    arithmetic() -> Arithmetic                           what the language says of rounding; certificates carry it
    emit(certified) -> {kernel name: text}               prints; takes nothing but a `Certified`
    load(certified, sources) -> [callable(sizes, arrays)]  one callable a kernel
    IN_PLACE                                             whether kernels take NumPy arrays as they lie; if not:
    put(array), empty(shape, dtype), get(array)          copies there and back, and arrays that stay there
    device_memory(like, number)                          for callers' arrays on GPU `number` (`cuda/memory.py`), or None

One for a GPU is a dialect, a runtime and a line in the registry (`gpu.py` makes the backend of them).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

REGISTRY = {  # name -> where a backend is, or the dialect of a GPU's (its runtime lies beside it)
    "c": "tang_verified.backends.c.backend",
    "opencl": "tang_verified.backends.opencl.dialect:OpenCLDialect",
    "cuda": "tang_verified.backends.cuda.dialect:CudaDialect",
    "cuda-sm90a": "tang_verified.backends.cuda.dialect:HopperDialect",
    "metal": "tang_verified.backends.metal.dialect:MetalDialect",
    "glsl": "tang_verified.backends.glsl.dialect:GlslDialect",
    "wgsl": "tang_verified.backends.wgsl.dialect:WgslDialect",
}
SUFFIX = {"c": "c", "opencl": "cl", "cuda-sm90a": "cu", "cuda": "cu", "metal": "metal", "glsl": "comp", "wgsl": "wgsl"}


def get(name: str) -> Any:
    """The backend of that name; raises `ValueError` with the names there are."""
    if name not in REGISTRY:
        raise ValueError(f"no backend {name!r}; there are {', '.join(sorted(REGISTRY))}")
    module, _, dialect = REGISTRY[name].partition(":")
    if not dialect:
        return import_module(module)
    from tang_verified.backends.gpu import GpuBackend

    return GpuBackend(getattr(import_module(module), dialect), module.removesuffix(".dialect") + ".runtime")
