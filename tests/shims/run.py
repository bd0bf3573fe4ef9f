"""CUDA and Metal texts on the CPU: the signature of a runtime, so that a conformance suite can take it for one.

    cuda.load(text, plan)(sizes, arrays)         order=0: threads, warps and blocks in order; 1: in reverse; else shuffled

A text becomes a C++ library through the headers beside this file: compiled once by g++, kept by its content. Scratch and
shared memory begin as 0xff (nan); arrays lie between 0xff, which is checked to be still there. Rows of blocks are
short, so that folding a row into two dimensions is always on trial.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tang_verified.backends.c import cache
from tang_verified.backends.device import Checked, Limits, told
from tang_verified.backends.launch import Plan
from tests.shims.texts import DIALECTS, ShimError, to_cpp

HERE = Path(__file__).parent
SHORT_ROW = 64
PAD = 256  # bytes of 0xff before and after each array
FLAGS = (
    "-std=c++20", "-O1", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-gnu-unique", "-fvisibility=hidden", "-w",
    "-fsanitize=bounds,signed-integer-overflow,integer-divide-by-zero", "-fno-exceptions", "-fno-asynchronous-unwind-tables",
)  # fmt: skip


@lru_cache(maxsize=1)
def _headers() -> str:
    return "\0".join(path.read_text() for path in sorted(HERE.rglob("*")) if path.suffix in (".h", "") and path.is_file())


def _library(text: str) -> ctypes.CDLL:
    def build(target: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="tang_shim-") as folder:
            # linked in a second step, without -fsanitize, whose library would take the place of simt.h's handlers
            for command in (
                [
                    "g++",
                    *FLAGS,
                    f"-I{HERE}",
                    f"-I{HERE / 'cuda'}",
                    f"-I{HERE / 'metal'}",
                    "-xc++",
                    "-c",
                    "-",
                    "-o",
                    f"{folder}/o",
                ],
                ["g++", "-shared", f"{folder}/o", "-o", str(target)],
            ):
                done = subprocess.run(command, input=text, capture_output=True, text=True)
                if done.returncode != 0:
                    raise ShimError(f"g++ refuses the text: {done.stderr[:4000]}")

    path = cache.fetch(cache.key_of(text, "\0".join(FLAGS), _headers()), build)
    library = ctypes.CDLL(str(path))
    library.simt_run.restype = ctypes.c_char_p
    library.simt_run.argtypes = [ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_uint] * 5]
    return library


class ShimFunction:
    """A text as a CPU library, with a runtime's way to be called."""

    def __init__(self, checked: Checked, library: ctypes.CDLL, order: int) -> None:
        self.name, self._checked, self._library, self._order = checked.plan.name, checked, library, order

    def __call__(self, sizes: Sequence[int], arrays: Sequence[Any]) -> None:
        call, plan = self._checked.at(tuple(map(int, sizes))), self._checked.plan
        self._checked.arrays(call, arrays)
        passed, padded = iter(arrays), []
        for binding, shape in zip(plan.bindings, call.shapes, strict=True):
            memory = np.full(prod(shape) * np.dtype(binding.dtype).itemsize + 2 * PAD, 0xFF, np.uint8)
            if not binding.scratch:
                memory[PAD:-PAD] = np.frombuffer(next(passed).tobytes(), np.uint8)
            padded.append(memory)
        kept = [memory.copy() for memory in padded]
        pointers = (ctypes.c_void_p * max(len(padded), 1))(*(memory.ctypes.data + PAD for memory in padded))
        numbers = (ctypes.c_int64 * max(len(call.sizes), 1))(*call.sizes)
        for number, (launch, grid) in enumerate(zip(plan.launches, call.grids, strict=True)):
            if grid is None:
                continue
            problem = self._library.simt_run(number, pointers, numbers, *grid, launch.threads, launch.shared_bytes, self._order)
            if problem:
                raise ShimError(f"{launch.entry}: {problem.decode()}")
        for binding, memory, before in zip(plan.bindings, padded, kept, strict=True):
            if (memory[:PAD] != 0xFF).any() or (memory[-PAD:] != 0xFF).any():
                raise ShimError(f"{self.name}: a write outside {binding.name}")
            if not (binding.written or binding.scratch) and (memory != before).any():
                raise ShimError(f"{self.name}: a write to {binding.name}, which is only read")
        outputs = (memory for binding, memory in zip(plan.bindings, padded, strict=True) if not binding.scratch)
        for binding, array, memory in zip(self._checked.passed, arrays, outputs, strict=True):
            if binding.written:
                array[...] = np.frombuffer(memory[PAD:-PAD].tobytes(), array.dtype).reshape(array.shape)


@dataclass(frozen=True)
class Shim:
    """A backend whose device is the host: the functions of a runtime module."""

    dialect: str
    order: int = 0

    def limits(self) -> Limits:
        return Limits(
            device=f"{self.dialect} on the host shim", threads=1024, shared_bytes=32768 if self.dialect == "metal" else 227 * 1024,
            subgroup=32, dtypes=frozenset(DIALECTS[self.dialect].types), binding_bytes=2**40, blocks=SHORT_ROW, blocks_y=2**31 - 1,
        )  # fmt: skip

    def load(self, text: str, plan: Plan) -> ShimFunction:
        checked = Checked(plan, self.limits())
        return ShimFunction(checked, _library(to_cpp(DIALECTS[self.dialect], text, plan)), self.order)

    def describe(self) -> dict[str, str]:
        return told(self.dialect, self.limits())

    def put(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.copy()

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        """Poisoned: every byte 0xff, which is nan."""
        return np.full(prod(shape) * np.dtype(dtype).itemsize, 0xFF, np.uint8).view(dtype).reshape(shape)

    def get(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.copy()

    def finish(self) -> None:
        """Work is done when a call returns."""


cuda, metal = Shim("cuda"), Shim("metal")
