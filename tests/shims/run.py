"""CUDA and Metal texts on the CPU: the signature of a runtime, so that a conformance suite can take it for one.

    cuda.load(text, plan)(sizes, arrays)         order=0: threads, warps and blocks in order; 1: in reverse; else shuffled

A text becomes a C++ library through the headers beside this file: compiled once by g++, kept by its content. Scratch and
shared memory begin as 0xff (nan); arrays lie between 0xff, which is checked to be still there. Rows of blocks are
short, so that folding a row into two dimensions is always on trial.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tang_verified.backends.c import cache
from tang_verified.backends.device import Checked, DeviceError, Limits, told
from tang_verified.backends.launch import Plan
from tang_verified.semantics.program import DType

HERE = Path(__file__).parent
SHORT_ROW = 64
PAD = 256  # bytes of 0xff before and after each array
FLAGS = (
    "-std=c++20", "-O1", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-gnu-unique", "-fvisibility=hidden", "-w",
    "-fsanitize=bounds,signed-integer-overflow,integer-divide-by-zero", "-fno-exceptions", "-fno-asynchronous-unwind-tables",
)  # fmt: skip


class ShimError(DeviceError):
    """A text that g++ refuses, or a fault of a run: a divergent barrier, an index out of its array, …"""


@dataclass(frozen=True)
class Dialect:
    """How a text becomes C++, and the arguments that an entry is called with."""

    name: str
    types: dict[DType, str]
    prelude: str
    rewrite: Callable[[str], str]
    arguments: Callable[[str, str, Plan, dict[DType, str]], list[str]]


# -- texts ---------------------------------------------------------------------------------------------------------------------


def _closing(text: str, opening: int) -> int:
    """The place after the bracket that closes the one at `opening`."""
    pairs, depth = {"(": ")", "{": "}"}, 0
    for place in range(opening, len(text)):
        if text[place] == text[opening]:
            depth += 1
        elif text[place] == pairs[text[opening]]:
            depth -= 1
            if depth == 0:
                return place + 1
    raise ShimError("a bracket of the text is not closed")


def _cuda(text: str) -> str:
    """Device functions in assembly are left out (the shim has them), dynamic shared memory is the shim's."""
    for found in reversed(list(re.finditer(r"^[^\n;{}#]*__device__[^;{}]*\{", text, re.M))):
        end = _closing(text, found.end() - 1)
        if re.search(r"\basm\b", text[found.start() : end]):
            text = text[: found.start()] + "\n" * text.count("\n", found.start(), end) + text[end:]
    dynamic = r"extern\s+__shared__\s+(?:(?:__align__|alignas)\(\d+\)\s*)?([\w ]+?)\s*(\w+)\s*\[\s*\]"
    return re.sub(dynamic, r"\1 *const \2 = reinterpret_cast<\1 *>(simt::dynamic_shared)", text)


def _cuda_arguments(text: str, entry: str, plan: Plan, types: dict[DType, str]) -> list[str]:
    return [*_pointers(plan, types), *(f"simt_sizes[{place}]" for place in range(len(plan.sizes)))]


def _pointers(plan: Plan, types: dict[DType, str]) -> list[str]:
    """The arrays, with the types that the plan says: g++ then compares them with the text's."""
    return [
        f"static_cast<{'' if binding.written or binding.scratch else 'const '}{types[binding.dtype]} *>(simt_arrays[{place}])"
        for place, binding in enumerate(plan.bindings)
    ]


BUILTINS = {  # attribute of a Metal parameter -> its three values
    "threadgroup_position_in_grid": ("simt::block.x", "simt::block.y", "0u"),
    "threadgroups_per_grid": ("simt::blocks.x", "simt::blocks.y", "1u"),
    "thread_position_in_threadgroup": ("simt::current->place.x", "0u", "0u"),
    "threads_per_threadgroup": ("simt::threads.x", "1u", "1u"),
    "thread_index_in_threadgroup": ("simt::current->place.x",),
    "thread_index_in_simdgroup": ("simt::current->lane",),
    "simdgroup_index_in_threadgroup": ("simt::current->place.x / 32",),
    "simdgroups_per_threadgroup": ("(simt::threads.x + 31) / 32",),
    "threads_per_simdgroup": ("32u",),
}


def _metal(text: str) -> str:
    """`threadgroup` is a storage class before a variable, and nothing before a pointer."""
    text = re.sub(r"\bthreadgroup\b(?=[^();,*&]*[\[;=])", '[[gnu::section("simt_shared")]] static', text)
    return re.sub(r"\bthreadgroup\b(?!\s*\()", "", text)


def _metal_arguments(text: str, entry: str, plan: Plan, types: dict[DType, str]) -> list[str]:
    found = re.search(rf"\bkernel\s+void\s+{entry}\s*\(", text)
    if found is None:
        raise ShimError(f"{plan.name}: the text has no kernel {entry}")
    pointers = [*_pointers(plan, types), "simt_sizes"]
    arguments, used = [], []
    for parameter in re.split(r",(?![^\[(]*[\])])", text[found.end() : _closing(text, found.end() - 1) - 1]):
        match = re.fullmatch(r"\s*(?P<type>[\w\s]+?[\s*&]+)\w+\s*\[\[\s*(?P<name>\w+)(?:\((?P<number>\d+)\))?\s*\]\]\s*", parameter)
        if match is None:
            raise ShimError(f"{entry}: parameter {parameter.strip()!r} has no attribute that the shim knows")
        if match["name"] == "buffer":
            used.append(int(match["number"]))
            arguments.append(pointers[used[-1]])
        elif match["name"] in BUILTINS:
            kind = match["type"].strip()
            width = int(kind[-1]) if kind[-1] in "23" else 1
            arguments.append(f"{kind}({', '.join(BUILTINS[match['name']][:width])})")
        else:
            raise ShimError(f"{entry}: the shim has no [[{match['name']}]]")
    if sorted(used) != list(range(len(pointers))):
        raise ShimError(f"{entry} binds the buffers {used}, its plan 0 to {len(pointers) - 1}")
    return arguments


DIALECTS = {
    "cuda": Dialect(
        "cuda",
        {"float16": "__half", "float32": "float", "float64": "double", "int32": "int", "int64": "long long", "bool": "unsigned char"},
        '#include "cuda/cuda_cpu.h"\n',
        _cuda,
        _cuda_arguments,
    ),
    "metal": Dialect(
        "metal",
        {"float16": "metal::half", "float32": "float", "int32": "int", "int64": "long", "bool": "metal::uchar"},
        "#include <metal_stdlib>\n",
        _metal,
        _metal_arguments,
    ),
}  # fmt: skip


# -- libraries and calls -------------------------------------------------------------------------------------------------------


def _cpp(dialect: Dialect, text: str, plan: Plan) -> str:
    calls, cases = "", ""
    for number, launch in enumerate(plan.launches):
        arguments = ", ".join(dialect.arguments(text, launch.entry, plan, dialect.types))
        calls += f"static void simt_call_{number}() {{ {launch.entry}({arguments}); }}\n"
        cases += f"    case {number}: return simt::launch({{x, y, 1}}, threads, dynamic, order, simt_call_{number});\n"
    using = "using namespace metal;\n" if dialect.name == "metal" else ""
    return f"""{dialect.prelude}#line 1 "{plan.name}.{dialect.name}"
{dialect.rewrite(text)}
#line 1 "calls"
{using}static void **simt_arrays;
static const {"long" if dialect.name == "metal" else "long long"} *simt_sizes;
{calls}extern "C" __attribute__((visibility("default"))) const char *simt_run(unsigned entry, void **arrays, const void *sizes, unsigned x,
    unsigned y, unsigned threads, unsigned dynamic, unsigned order) {{
  simt_arrays = arrays, simt_sizes = static_cast<decltype(simt_sizes)>(sizes);
  switch (entry) {{
{cases}  }}
  return "no such entry";
}}
"""


@lru_cache(maxsize=1)
def _headers() -> str:
    return "\0".join(path.read_text() for path in sorted(HERE.rglob("*")) if path.suffix in (".h", "") and path.is_file())


def _library(text: str) -> ctypes.CDLL:
    def build(target: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="tang_shim-") as folder:
            # linked in a second step, without -fsanitize, whose library would take the place of simt.h's handlers
            for command in (
                ["g++", *FLAGS, f"-I{HERE}", f"-I{HERE / 'cuda'}", f"-I{HERE / 'metal'}", "-xc++", "-c", "-", "-o", f"{folder}/o"],
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
        return ShimFunction(checked, _library(_cpp(DIALECTS[self.dialect], text, plan)), self.order)

    def describe(self) -> dict[str, str]:
        return told(self.dialect, self.limits())

    def put(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.copy()

    def get(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.copy()

    def finish(self) -> None:
        """Work is done when a call returns."""


cuda, metal = Shim("cuda"), Shim("metal")
