"""Printers and runtimes. They accept certified kernels only.

A backend is one module with three functions, named here:

    target() -> Target                                   what its schedules should know of the machine
    emit(certified) -> {kernel name: text}               prints; takes nothing but a `Certified`
    load(certified, sources) -> [callable(sizes, arrays)]  one callable a kernel
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

REGISTRY = {"c": "tang_verified.backends.c.backend"}
SUFFIX = {"c": "c"}


def get(name: str) -> Any:
    """The backend module of that name; raises `ValueError` with the names there are."""
    if name not in REGISTRY:
        raise ValueError(f"no backend {name!r}; there are {', '.join(sorted(REGISTRY))}")
    return import_module(REGISTRY[name])
