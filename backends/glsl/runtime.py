"""GLSL -> SPIR-V (glslang) -> wgpu.

    layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
    layout(std430, set = 0, binding = 1) buffer Out { float out_[]; };
    layout(std430, set = 0, binding = 2) readonly buffer Sizes { int size[]; };
    #ifdef ENTRY_f_0
    layout(local_size_x = 256) in;
    void main() { … }
    #endif

A module has one entry point, `main`: the text is compiled once a launch, each time with ENTRY_<entry> defined. float16 is
float16_t, bool uint. Each module passes spirv-val where that is installed.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from tang_verified.backends import webgpu
from tang_verified.backends.device import Checked, DeviceError, Limits, told
from tang_verified.backends.launch import Plan
from tang_verified.backends.queued import QueuedFunction
from tang_verified.backends.webgpu import empty, finish, get, put
from tang_verified.semantics.program import DType

__all__ = ["describe", "empty", "finish", "get", "limits", "load", "put", "to_spirv"]

DTYPES: dict[DType, str | None] = {
    "float16": "shader-f16", "float32": None, "float64": "shader-f64", "int32": None, "int64": "shader-int64", "bool": None,
}  # fmt: skip
INSTALL = "apt-get install -y --no-install-recommends glslang-tools spirv-tools"
ENVIRONMENT = "vulkan1.1"  # SPIR-V 1.3: subgroup operations, and what wgpu reads


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise DeviceError(f"{name} is not on the path; run: {INSTALL}")
    return path


def to_spirv(text: str, entry: str) -> bytes:
    """The module of one entry point; raises `DeviceError` with the compiler's or the validator's words."""
    with tempfile.TemporaryDirectory(prefix="tang_verified-") as folder:
        source, module = Path(folder, f"{entry}.comp"), Path(folder, f"{entry}.spv")
        source.write_text(text)
        _run(entry, _tool("glslangValidator"), "-V", "--target-env", ENVIRONMENT, f"-DENTRY_{entry}", "-o", module, source)
        if shutil.which("spirv-val"):
            _run(entry, "spirv-val", "--target-env", ENVIRONMENT, module)
        return module.read_bytes()


def _local_size(module: bytes) -> tuple[int, ...]:
    """The threads of a block as a module declares them: OpExecutionMode main LocalSize x y z."""
    words, place = struct.unpack(f"<{len(module) // 4}I", module), 5
    while place < len(words):
        length, operation = divmod(words[place], 1 << 16)
        if operation == 16 and words[place + 2] == 17:
            return words[place + 3 : place + 6]
        place += length
    return ()


def _run(entry: str, *command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise DeviceError(f"{entry}: {Path(command[0]).name} refuses the text: {(done.stdout + done.stderr).strip()}")
    return done.stdout


def limits() -> Limits:
    """Of the found device."""
    return webgpu.limits(DTYPES, "GLSL")


def load(text: str, plan: Plan) -> QueuedFunction:
    """Compile a text."""
    checked = Checked(plan, limits())
    codes: list[tuple[str | bytes, str]] = []
    for launch in plan.launches:
        module = to_spirv(text, launch.entry)
        if (declared := _local_size(module)) != (launch.threads, 1, 1):
            raise DeviceError(f"{launch.entry} declares workgroups of {declared}, its plan {launch.threads} threads")
        codes.append((module, "main"))
    # glslang puts `readonly` on the members of a block, where wgpu does not look for it
    return webgpu.load(checked, codes, read_only=False)


def describe() -> dict[str, str]:
    """What `doctor` says of this backend."""
    try:
        found = limits()
    except DeviceError as problem:
        return {"backend": "glsl", "usable": webgpu.unusable(problem), "problem": str(problem)}
    try:
        version = _run("version", _tool("glslangValidator"), "--version").splitlines()[0]
    except DeviceError as problem:
        return {"backend": "glsl", "usable": f"no; run: {INSTALL}", "problem": str(problem)}
    return told("glsl", found, compiler=version, validator="spirv-val" if shutil.which("spirv-val") else "none")
