"""A CUDA text through nvcc for real architectures: what the host shim cannot see is refused here.

compile_for(text, "sm_80")   ->   {"entry": Usage(registers=40, shared=4096, stack=0, spill_stores=0, spill_loads=0)}
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ARCHITECTURES = ("sm_80", "sm_90a")
INSTALL = "pip install '.[nvcc]'"
REPORT = re.compile(
    r"Compiling entry function '(?P<entry>\w+)'.*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.S,
)


class NvccError(Exception):
    """nvcc is missing, or refuses the text in its own words."""


@dataclass(frozen=True)
class Usage:
    """What one entry takes; `shared`, `stack` and spills in bytes."""

    registers: int
    shared: int
    stack: int
    spill_stores: int
    spill_loads: int


@lru_cache(maxsize=1)
def find() -> str | None:
    """The nvcc on the path, or that of PyPI's packages."""
    if (path := shutil.which("nvcc")) is not None:
        return path
    try:
        package = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        return None
    places = [Path(folder, "bin", "nvcc") for folder in (package.submodule_search_locations or ())] if package else []
    return next((str(place) for place in places if place.is_file()), None)


def compile_for(text: str, architecture: str) -> dict[str, Usage]:
    """Compile to machine code; raises `NvccError`. Warnings are errors, as far as nvcc counts them so."""
    nvcc = find()
    if nvcc is None:
        raise NvccError(f"no nvcc; run: {INSTALL}")
    number = architecture.removeprefix("sm_")
    with tempfile.TemporaryDirectory(prefix="tang_nvcc-") as folder:
        source = Path(folder, "text.cu")
        source.write_text(text)
        command = [
            nvcc, "-std=c++17", "-cubin", f"-gencode=arch=compute_{number},code=sm_{number}", "-Xptxas", "-v",
            "-Werror", "all-warnings", "-diag-suppress", "177", "-o", f"{folder}/text.cubin", str(source),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NvccError(f"nvcc refuses the text for {architecture}: {(done.stderr + done.stdout)[:4000]}")
    usage = {}
    for found in REPORT.finditer(done.stderr + done.stdout):
        shared = re.search(r"(\d+) bytes smem", found["rest"])
        numbers = (int(found["registers"]), int(shared[1]) if shared else 0, int(found["stack"]))
        usage[found["entry"]] = Usage(*numbers, int(found["stores"]), int(found["loads"]))
    return usage
