"""A WGSL text through Tint, Chromium's compiler: stricter than the one that runs it, and another hand's.

    validate(text, launches)   ->   None, or Tint's complaint

Dawn's Null backend needs no driver. It lives in a process of its own: two WebGPU libraries do not share one. Its device
has WebGPU's least limits and no way to raise them, and a text is printed for the device at hand, which may have more:
that a block's arrays fit is asked of the plan, and Tint's count of their bytes must be the plan's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache

from tang_verified.backends.launch import Launch

INSTALL = "pip install '.[gpu-test]'"
STORAGE = re.compile(r"The total use of workgroup storage \((\d+) bytes\) is larger than the maximum allowed \(16384 bytes\)")
SERVER = """
import json, sys
import wgpudawn
adapter = wgpudawn.gpu.request_adapter_sync()
features = [feature for feature in ("shader-f16", "subgroups") if feature in adapter.features]
limits = {name: value for name, value in adapter.limits.items() if name.startswith(("max-compute", "max-storage"))}
device = adapter.request_device_sync(required_features=features, required_limits=limits)
for line in sys.stdin:
    text, entries = json.loads(line)
    problems = []
    for entry in entries:
        try:
            module = device.create_shader_module(code=text)
            device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": entry})
        except Exception as found:
            problems.append(str(found))
        else:
            problems.append(None)
    print(json.dumps(problems), flush=True)
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


def validate(text: str, launches: Sequence[Launch]) -> str | None:
    """Tint's first complaint about a module or one of its entry points; None if there is none. It ends with this process's input."""
    if "subgroup" in text:
        text = "enable subgroups;\n" + text  # naga has the operations, but not the line
    server = _server()
    if server.stdin is None or server.stdout is None:
        raise RuntimeError("Tint's process has no pipes")
    server.stdin.write(json.dumps([text, [launch.entry for launch in launches]]) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        raise RuntimeError("Tint's process ended")
    problems: list[str | None] = json.loads(answer)
    for launch, problem in zip(launches, problems, strict=True):
        counted = STORAGE.match(problem) if problem else None
        if problem and not (counted and int(counted[1]) == launch.shared_bytes):
            return f"{launch.entry}: {problem}"
    return None
