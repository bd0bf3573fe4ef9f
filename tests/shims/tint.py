"""A WGSL text through Tint, Chromium's compiler: stricter than the one that runs it, and another hand's.

    validate(text)   ->   None, or Tint's complaint

Dawn's Null backend needs no driver. It lives in a process of its own: two WebGPU libraries do not share one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import lru_cache

INSTALL = "pip install '.[gpu-test]'"
SERVER = """
import json, sys
import wgpudawn
adapter = wgpudawn.gpu.request_adapter_sync()
features = [feature for feature in ("shader-f16", "subgroups") if feature in adapter.features]
limits = {name: value for name, value in adapter.limits.items() if name.startswith(("max-compute", "max-storage"))}
device = adapter.request_device_sync(required_features=features, required_limits=limits)
for line in sys.stdin:
    text, entries = json.loads(line)
    problem = None
    try:
        module = device.create_shader_module(code=text)
        for entry in entries:
            device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": entry})
    except Exception as found:
        problem = str(found)
    print(json.dumps(problem), flush=True)
"""


def available() -> bool:
    return importlib.util.find_spec("wgpudawn") is not None


@lru_cache(maxsize=1)
def _server() -> subprocess.Popen[str]:
    environment = {**os.environ, "WGPU_BACKEND_TYPE": "Null"}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=environment,
    )  # fmt: skip


def validate(text: str, entries: list[str]) -> str | None:
    """Tint's complaint about a module or one of its entry points; None if there is none. It ends with this process's input."""
    if "subgroup" in text:
        text = "enable subgroups;\n" + text  # naga has the operations, but not the line
    server = _server()
    if server.stdin is None or server.stdout is None:
        raise RuntimeError("Tint's process has no pipes")
    server.stdin.write(json.dumps([text, entries]) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        raise RuntimeError("Tint's process ended")
    problem: str | None = json.loads(answer)
    return problem
