"""The backends of the suite, and one certificate for all that have the same target.

    c, opencl, wgsl, glsl        on the devices that their runtimes find here
    cuda, metal                  where there is such a GPU; else each is skipped once, with the reason
    cuda-shim, metal-shim        the same texts on the CPU; -reversed: threads, subgroups and blocks in reversed order

$TANG_CONFORMANCE names those to take ("cuda,opencl"); without it, all. $TANG_CI=1: none that a CPU can run may be missing.
"""

from __future__ import annotations

import os
from copy import copy
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from tang_verified import backends
from tang_verified.backends.gpu import GpuBackend
from tang_verified.compiler import CompiledKernel, Timings
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.check import Certified
from tests.conformance.programs import CASES, Case, derived, traced
from tests.shims.run import Shim

DEVICES = ("c", "opencl", "wgsl", "glsl", "cuda", "metal")
SHIMS = {f"{name}-shim{suffix}": Shim(name, order) for name in ("cuda", "metal") for suffix, order in (("", 0), ("-reversed", 1))}
SHIMS |= {f"cuda-sm90a-shim{suffix}": Shim("cuda", order) for suffix, order in (("", 0), ("-reversed", 1))}
OF_UNITS = ("cuda-sm90a-shim", "cuda-sm90a-shim-reversed")  # for programs that its units serve (test_wgmma.py)
ON_A_CPU = ("c", "opencl", "wgsl", "glsl", "cuda-shim", "metal-shim")
ALL = (*DEVICES, *(name for name in SHIMS if name not in OF_UNITS))
WANTED = tuple(name for name in os.environ.get("TANG_CONFORMANCE", "").split(",") if name) or ALL
IN_CI = os.environ.get("TANG_CI") == "1"


@cache
def told(name: str) -> dict[str, str]:
    """What a backend says of itself."""
    if name in SHIMS:
        return SHIMS[name].describe()
    return dict(import_module(f"tang_verified.backends.{name.partition('-')[0]}.runtime").describe())


def usable(name: str) -> bool:
    return told(name)["usable"] == "yes"


# cuda and metal have a shim beside them: without a GPU they are skipped once (test_programs.py), not program by program
TAKEN = tuple(name for name in WANTED if name not in ("cuda", "cuda-sm90a", "metal") or usable(name))


def need(name: str) -> str:
    """Skip a test, saying why, where a backend is missing; in CI that is a failure."""
    if not usable(name):
        message = f"{name} is not usable here: {told(name)['usable']}"
        if IN_CI and name in ON_A_CPU:
            pytest.fail(message)
        pytest.skip(message)
    return name


def backend(name: str) -> Any:
    found = backends.get(name.partition("-shim")[0])
    return GpuBackend(found.dialect, SHIMS[name]) if name in SHIMS else found


@cache
def targets() -> tuple[Target, ...]:
    return tuple(dict.fromkeys(backend(name).target() for name in TAKEN))


def number_in_turn(number: int, name: str) -> bool:
    """The same for the number of a program in some list."""
    return bool(backend(name).target() == targets()[number % len(targets())])


def in_turn(case: Case, name: str) -> bool:
    """Whether it is this backend's turn to take a program that not all take: one target a program, one after the other."""
    return number_in_turn(CASES.index(case), name)


@cache
def certified(case: Case, target: Target) -> tuple[Certified, tuple[str, ...]]:
    return certified_plan(traced(case), derived(case), target, dict(case.schedule))


def printed(proved: Certified, notes: tuple[str, ...], name: str) -> CompiledKernel:
    """What is certified, printed for a backend and run by it."""
    compiled = CompiledKernel(proved, name.split("-")[0], notes, Timings())
    compiled._backend = backend(name)  # a shim takes the place of the runtime
    return compiled


@cache
def kernel(case: Case, name: str) -> CompiledKernel:
    """A program on a backend: certified once a target, printed and loaded once a backend."""
    here = backend(name)
    if name.endswith("-reversed"):
        compiled = copy(kernel(case, name.removesuffix("-reversed")))  # the same texts
    else:
        compiled = printed(*certified(case, here.target()), name)
    compiled._backend, compiled._loaded = here, {}
    return compiled
