"""The backend of a GPU language: its dialect prints, its runtime loads. See `backends/__init__.py` for what a backend is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tang_verified.backends.arithmetic import Arithmetic
from tang_verified.backends.launch import Plan
from tang_verified.backends.simt import SimtDialect, print_simt
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.check import Certified, is_certified
from tang_verified.semantics.kernel import Kernel

THREADS = 256


class GpuBackend:
    """Made from a dialect's class and the module of its runtime (or an object with the same functions)."""

    IN_PLACE = False

    def __init__(self, dialect: type[SimtDialect], runtime: Any) -> None:
        self.dialect, self._runtime = dialect, runtime
        self._printed: dict[Kernel, tuple[str, Plan]] = {}

    @property
    def runtime(self) -> Any:
        return import_module(self._runtime) if isinstance(self._runtime, str) else self._runtime

    def arithmetic(self) -> Arithmetic:
        return self.dialect.arithmetic

    def target(self) -> Target:
        """The same on every machine: whether a device is there, and which, changes no certificate."""
        d = self.dialect
        return Target(
            lanes=16, threads=THREADS, shared_bytes=d.shared_bytes, subgroup=d.subgroup, index_bits=d.bits,
            asynchronous=d.asynchronous, unit=d.unit, units=d.units, stages=d.stages, vector_bytes=d.vector_bytes,
            own_vectors=d.own_vectors,
        )  # fmt: skip

    def emit(self, certified: Certified) -> dict[str, str]:
        """The text of each kernel. A program that the checker did not prove has no text."""
        if not is_certified(certified):
            raise TypeError("only what the checker has certified is printed")
        return {kernel.name: self._print(kernel)[0] for kernel in certified.kernels}

    def load(self, certified: Certified, sources: dict[str, str]) -> list[Any]:
        """One callable a kernel, on the device that the runtime finds."""
        pairs = zip(certified.kernels, self.plans(certified), strict=True)
        return [self.runtime.load(sources[kernel.name], plan) for kernel, plan in pairs]

    def plans(self, certified: Certified) -> list[Plan]:
        """How each kernel's text is started."""
        return [self._print(kernel)[1] for kernel in certified.kernels]

    def _print(self, kernel: Kernel) -> tuple[str, Plan]:
        """The text and its plan come from one printing."""
        if kernel not in self._printed:
            self._printed[kernel] = print_simt(kernel, self.dialect())
        return self._printed[kernel]

    def put(self, array: Any) -> Any:
        return self.runtime.put(array)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.runtime.empty(shape, dtype)

    def get(self, array: Any) -> Any:
        return self.runtime.get(array)

    def device_memory(self, like: Any, number: int) -> Any:
        """For arrays on a GPU, where the runtime uses them as they lie; else None."""
        made = getattr(self.runtime, "device_memory", None)
        return None if made is None else made(like, number)
