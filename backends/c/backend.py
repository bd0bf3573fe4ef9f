"""C on the CPU: see `backends/__init__.py` for what a backend is."""

from __future__ import annotations

from typing import Any

from tang_verified.backends.arithmetic import Arithmetic
from tang_verified.backends.c import runtime
from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.printer import print_kernel
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.check import Certified, is_certified

IN_PLACE = True


def arithmetic() -> Arithmetic:
    return CDialect.arithmetic


def target() -> Target:
    lanes = runtime.lanes("float32")
    return Target(lanes=lanes, registers=32 if lanes >= 16 else 16, cores=runtime.threads())


def emit(certified: Certified) -> dict[str, str]:
    """The text of each kernel. A program that the checker did not prove has no text."""
    if not is_certified(certified):
        raise TypeError("only what the checker has certified is printed")
    return {kernel.name: print_kernel(kernel, CDialect()) for kernel in certified.kernels}


def load(certified: Certified, sources: dict[str, str]) -> list[runtime.CFunction]:
    """Compile (or fetch from the cache) and load."""
    return [runtime.load_kernel(kernel, sources[kernel.name]) for kernel in certified.kernels]


def device_memory(like: Any, number: int) -> None:
    """There is none on a GPU."""
