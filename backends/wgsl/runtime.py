"""WGSL, through wgpu (naga).

    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> out: array<f32>;
    @group(0) @binding(2) var<storage, read> size: array<i32>;
    @compute @workgroup_size(256) fn entry(…)

All entry points are in one module. float16 is array<f16>, bool array<u32>; there is no int64 and no float64.
"""

from __future__ import annotations

import re

from tang_verified.backends import webgpu
from tang_verified.backends.device import Checked, DeviceError, Limits, told
from tang_verified.backends.launch import Plan
from tang_verified.backends.queued import QueuedFunction
from tang_verified.backends.webgpu import empty, finish, get, put
from tang_verified.semantics.program import DType

__all__ = ["describe", "empty", "finish", "get", "limits", "load", "put"]

DTYPES: dict[DType, str | None] = {"float16": "shader-f16", "float32": None, "int32": None, "bool": None}


def limits() -> Limits:
    """Of the found device."""
    return webgpu.limits(DTYPES, "WGSL")


def load(text: str, plan: Plan) -> QueuedFunction:
    """Compile a text."""
    checked = Checked(plan, limits())
    for launch in plan.launches:  # wgpu does not know of the plan: it would run with whatever the text says
        declared = re.search(rf"@workgroup_size\(\s*(\d+)[\s,1]*\)\s*fn\s+{re.escape(launch.entry)}\b", text)
        if declared is None or int(declared[1]) != launch.threads:
            said = f"workgroups of {declared[1]}" if declared else "no row of threads"
            raise DeviceError(f"{launch.entry} declares {said}, its plan {launch.threads} threads")
    return webgpu.load(checked, [(text, launch.entry) for launch in plan.launches])


def describe() -> dict[str, str]:
    """What `doctor` says of this backend."""
    try:
        return told("wgsl", limits())
    except DeviceError as problem:
        return {"backend": "wgsl", "usable": webgpu.unusable(problem), "problem": str(problem)}
