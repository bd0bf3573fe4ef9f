"""What this machine has of what tang_verified uses: one line each, with the command that would supply what is missing."""

from __future__ import annotations

import os
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

PACKAGES = {  # package -> (what it is for, needed)
    "z3-solver": ("proofs over the reals", True),
    "islpy": ("proofs over index sets", True),
    "numpy": ("arrays, and the reference interpreter", True),
    "scipy": ("special functions of the reference interpreter", True),
    "click": ("the command line", True),
    "rich": ("colour on a terminal", True),
    "cvc5": ("a second prover: --solver cvc5 or both", False),
}
COMPILERS = "apt-get install gcc"
GPU_BACKENDS = ("opencl", "wgsl", "glsl", "cuda", "metal")
SHOWN = ("version", "driver", "compiler", "validator", "f16", "subgroup", "threads", "shared")  # of a usable GPU backend


def diagnose() -> tuple[list[str], bool]:
    """The lines, and whether everything that is needed is there."""
    lines, whole = [f"ok       python {platform.python_version()}"], True
    for package, (purpose, needed) in PACKAGES.items():
        try:
            lines.append(f"ok       {package} {version(package)}: {purpose}")
        except PackageNotFoundError:
            whole = whole and not needed
            lines.append(f"{'missing' if needed else 'absent '}  {package}: {purpose}; run: pip install {package}")
    found, usable = _c_backend()
    lines += found
    lines += [_gpu_backend(name) for name in GPU_BACKENDS]
    if not any("threads" in line for line in found):
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        lines.append(f"ok       threads: {count}")
    return lines, whole and usable


def _c_backend() -> tuple[list[str], bool]:
    try:
        runtime = import_module("tang_verified.backends.c.runtime")
    except ModuleNotFoundError as problem:
        return [f"absent   C backend: {problem.name} is not part of this installation; run: pip install tang_verified"], True
    told: dict[str, str] = dict(runtime.describe())
    usable = told.get("usable") == "yes"
    if not usable:
        command = told.get("usable", f"no; run: {COMPILERS}")
        return [f"missing  C compiler: {told.get('problem', 'none found')}; {command}"], False
    lines = [f"ok       C compiler: {told.get('compiler', '?')} {told.get('version', '')}".rstrip()]
    lines += [f"ok       {key}: {told[key]}" for key in ("openmp", "lanes", "threads", "cache") if key in told]
    return lines, True


def _gpu_backend(name: str) -> str:
    """One line: the device and what it offers, or the one command that would make the backend usable."""
    told: dict[str, str] = dict(import_module(f"tang_verified.backends.{name}.runtime").describe())
    if told["usable"] != "yes":
        return f"absent   {name}: {told['problem'].partition('; run: ')[0]}; {told['usable'].removeprefix('no; ')}"
    return f"ok       {name}: {told['device']}; " + ", ".join(f"{key} {told[key]}" for key in SHOWN if key in told)
