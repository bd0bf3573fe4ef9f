"""What WGSL and GLSL share: a WebGPU device, its buffers, and a plan's launches as one compute pass.

Bindings of group 0 are the plan's arrays in order, then the sizes as 32-bit integers. bool arrays hold 32-bit words.
Dispatches of a pass are ordered: each sees what the one before it wrote. The device: the one whose summary holds
$WGPUPY_WGPU_ADAPTER_NAME (the library's own variable), else the fastest there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tang_verified.backends.device import Call, Checked, DeviceArray, DeviceError, Limits
from tang_verified.backends.queued import Array, QueuedFunction
from tang_verified.semantics.program import DType

INSTALL = "pip install 'wgpu==0.32.0'"
DRIVER = "apt-get install -y --no-install-recommends mesa-vulkan-drivers"
FEATURES = ("shader-f16", "shader-f64", "shader-int64", "subgroup")  # asked for where there are
RAISED = ("max-storage", "max-buffer", "max-compute", "max-bindings")  # limits that are raised to the adapter's
DUMMY = 16  # bytes of the buffer that stands for an array without elements


@lru_cache(maxsize=1)
def device() -> Any:
    """The device, with every limit and feature of use that its adapter has."""
    try:
        import wgpu
    except ImportError as problem:
        raise DeviceError(f"no wgpu: {problem}; run: {INSTALL}") from problem
    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except (RuntimeError, ValueError) as problem:
        raise DeviceError(f"no GPU driver that wgpu can use: {problem}; run: {DRIVER}") from problem
    raised = {name: value for name, value in adapter.limits.items() if name.startswith(RAISED)}
    features = [feature for feature in FEATURES if feature in adapter.features]
    return adapter.request_device_sync(required_features=features, required_limits=raised)


@lru_cache(maxsize=1)
def subgroup_size() -> int:
    """As a kernel sees it (the adapter tells a range; some GPUs choose for each pipeline); 0 without the operations."""
    if "subgroup" not in device().features:
        return 0
    text = """@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(128) fn probe(@builtin(subgroup_size) size: u32, @builtin(local_invocation_index) place: u32) {
  if (place == 0u) { out[0] = size; }
}"""
    out = put(np.zeros(1, np.int32))
    layout = layouts([True])
    _submit(layout, [(_pipeline(text, "probe", layout), (1, 1))], [out.buffer])
    return int(get(out)[0])


def limits(dtypes: Mapping[DType, str | None], language: str) -> Limits:
    """Of the found device, for a language that stores these dtypes, each where the device has the feature beside it."""
    found = device()
    return Limits(
        device=f"{language} on {title()}",
        threads=min(found.limits[f"max-compute-{name}"] for name in ("invocations-per-workgroup", "workgroup-size-x")),
        shared_bytes=found.limits["max-compute-workgroup-storage-size"],
        subgroup=subgroup_size(),
        dtypes=frozenset(dtype for dtype, feature in dtypes.items() if feature is None or feature in found.features),
        binding_bytes=min(found.limits["max-storage-buffer-binding-size"], found.limits["max-buffer-size"]) & ~3,
        bindings=found.limits["max-storage-buffers-per-shader-stage"],
        blocks=found.limits["max-compute-workgroups-per-dimension"],
        blocks_y=found.limits["max-compute-workgroups-per-dimension"],
        index_bits=(32,),
    )


def title() -> str:
    info = device().adapter.info
    return f"{info['device']} ({info['backend_type']})"


def _allocate(dtype: str, shape: tuple[int, ...]) -> Any:
    import wgpu

    size = prod(shape) * _words(dtype).itemsize
    use = wgpu.BufferUsage
    return device().create_buffer(size=max(-(-size // 4) * 4, DUMMY), usage=use.STORAGE | use.COPY_SRC | use.COPY_DST)


def _words(dtype: str) -> np.dtype[Any]:
    """How the elements lie in a buffer."""
    return np.dtype(np.uint32 if dtype == "bool" else dtype)


def layouts(written: Sequence[bool]) -> tuple[Any, Any]:
    """The layout of group 0 and of a pipeline that has it. A binding that is never written is read-only."""
    import wgpu

    entries = [
        {
            "binding": place,
            "visibility": wgpu.ShaderStage.COMPUTE,
            "buffer": {"type": "storage" if flag else "read-only-storage"},
        }
        for place, flag in enumerate(written)
    ]
    group = device().create_bind_group_layout(entries=entries)
    return group, device().create_pipeline_layout(bind_group_layouts=[group])


def _pipeline(code: str | bytes, entry: str, layout: tuple[Any, Any]) -> Any:
    module = device().create_shader_module(code=code)
    return device().create_compute_pipeline(layout=layout[1], compute={"module": module, "entry_point": entry})


def load(checked: Checked, codes: Sequence[tuple[str | bytes, str]], read_only: bool = True) -> QueuedFunction:
    """A (code, entry point) a launch. Raises `DeviceError` with the validator's words.

    `read_only`: whether an array that is never written is bound so, as its declaration must then say.
    """
    import wgpu

    plan = checked.plan
    written = [binding.written or binding.scratch for binding in plan.bindings]
    layout = layouts([flag or not read_only for flag in (*written, False)])
    try:
        pipelines = [_pipeline(code, entry, layout) for code, entry in codes]
    except wgpu.GPUError as problem:
        raise DeviceError(f"{plan.name}: {checked.limits.device} refuses the text: {problem}") from problem

    def start(call: Call, bound: list[Any]) -> None:
        sizes = put(np.array(call.sizes, np.int32)).buffer
        launches = [(pipeline, grid) for pipeline, grid in zip(pipelines, call.grids, strict=True) if grid is not None]
        _submit(layout, launches, [*bound, sizes])

    return QueuedFunction(checked, put, get, _allocate, start)


def _submit(layout: tuple[Any, Any], launches: Sequence[tuple[Any, tuple[int, int]]], buffers: Sequence[Any]) -> None:
    """One compute pass with these launches in order."""
    if not launches:
        return
    entries = [{"binding": place, "resource": {"buffer": buffer}} for place, buffer in enumerate(buffers)]
    encoder = device().create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_bind_group(0, device().create_bind_group(layout=layout[0], entries=entries))
    for pipeline, (columns, rows) in launches:
        work.set_pipeline(pipeline)
        work.dispatch_workgroups(columns, rows)
    work.end()
    device().queue.submit([encoder.finish()])


def put(array: Array) -> DeviceArray:
    """A copy on the device, of its own content."""
    buffer = _allocate(array.dtype.name, array.shape)
    data = array.astype(_words(array.dtype.name), copy=False).tobytes()
    if data:
        device().queue.write_buffer(buffer, 0, data + bytes(-len(data) % 4))
    return DeviceArray(buffer, array.dtype.name, array.shape)


def empty(shape: tuple[int, ...], dtype: DType) -> DeviceArray:
    """An array on the device, undefined."""
    return DeviceArray(_allocate(dtype, shape), dtype, shape)


def get(array: DeviceArray) -> Array:
    """A copy on the host, when all work before it is done."""
    dtype, count = _words(array.dtype), prod(array.shape)
    if not count:
        return np.empty(array.shape, array.dtype)
    data = device().queue.read_buffer(array.buffer, 0, -(-count * dtype.itemsize // 4) * 4)
    return np.frombuffer(data, dtype, count).reshape(array.shape).astype(array.dtype)


def finish() -> None:
    """Wait until all work is done."""
    get(put(np.zeros(1, np.int32)))  # the queue works in order


def unusable(problem: DeviceError) -> str:
    """The one command that an error names."""
    return f"no; run: {DRIVER if DRIVER in str(problem) else INSTALL}"
