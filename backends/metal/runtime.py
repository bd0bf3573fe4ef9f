"""Metal, through pyobjc on a Mac.

    kernel void entry(device const float *x [[buffer(0)]], device float *out [[buffer(1)]], constant long *size [[buffer(2)]],
                      uint3 group [[threadgroup_position_in_grid]], …)

Arrays in the plan's order, then the sizes as one array of `long`; half arrays are `half *`, bool arrays `uchar *`. Written
from Apple's documentation and not yet run on a Mac: here the texts run on the tests' host shim.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tang_verified.backends.device import Call, Checked, DeviceArray, DeviceError, Limits, told
from tang_verified.backends.launch import Plan
from tang_verified.backends.queued import Array, QueuedFunction
from tang_verified.semantics.program import DType

INSTALL = "pip install pyobjc-framework-Metal"
DTYPES: frozenset[DType] = frozenset(("float16", "float32", "int32", "int64", "bool"))
SIMD = 32  # the width of a simdgroup on every GPU of Apple's own
DUMMY = 16  # bytes of the buffer that stands for an array without elements


@lru_cache(maxsize=1)
def _queue() -> Any:
    """The command queue of the system's default device."""
    if sys.platform != "darwin":
        raise DeviceError("Metal is part of macOS; hand the text to a Mac")
    try:
        import Metal
    except ImportError as problem:
        raise DeviceError(f"no Metal in Python: {problem}; run: {INSTALL}") from problem
    device = Metal.MTLCreateSystemDefaultDevice()
    if device is None:
        raise DeviceError("this Mac has no Metal device")
    return device.newCommandQueue()


@lru_cache(maxsize=1)
def limits() -> Limits:
    """Of the default device."""
    device = _queue().device()
    return Limits(
        device=str(device.name()),
        threads=int(device.maxThreadsPerThreadgroup().width),
        shared_bytes=int(device.maxThreadgroupMemoryLength()),
        subgroup=SIMD,
        dtypes=DTYPES,
        binding_bytes=int(device.maxBufferLength()),
        bindings=31,
    )


def load(text: str, plan: Plan) -> QueuedFunction:
    """Compile a text with Metal's own compiler, without its fast mathematics."""
    import Metal

    checked, device = Checked(plan, limits()), _queue().device()
    options = Metal.MTLCompileOptions.new()
    options.setFastMathEnabled_(False)
    library, problem = device.newLibraryWithSource_options_error_(text, options, None)
    if library is None:
        raise DeviceError(f"{plan.name}: Metal refuses the text: {problem}")
    pipelines = []
    for launch in plan.launches:
        function = library.newFunctionWithName_(launch.entry)
        if function is None:
            raise DeviceError(f"{plan.name}: the text has no entry {launch.entry}")
        pipeline, problem = device.newComputePipelineStateWithFunction_error_(function, None)
        if pipeline is None:
            raise DeviceError(f"{launch.entry}: Metal refuses the text: {problem}")
        if launch.threads > pipeline.maxTotalThreadsPerThreadgroup():
            most = pipeline.maxTotalThreadsPerThreadgroup()
            raise DeviceError(f"{launch.entry}: {launch.threads} threads, {most} with the registers that it takes")
        if pipeline.threadExecutionWidth() != SIMD:
            raise DeviceError(f"{launch.entry}: simdgroups of {pipeline.threadExecutionWidth()} threads, not {SIMD}")
        pipelines.append(pipeline)

    def start(call: Call, bound: list[Any]) -> None:
        commands = _queue().commandBuffer()
        encoder = commands.computeCommandEncoder()  # its dispatches are in order
        sizes = put(np.array(call.sizes or (0,), np.int64)).buffer
        for place, buffer in enumerate((*bound, sizes)):
            encoder.setBuffer_offset_atIndex_(buffer, 0, place)
        for pipeline, launch, grid in zip(pipelines, plan.launches, call.grids, strict=True):
            if grid is not None:
                encoder.setComputePipelineState_(pipeline)
                encoder.dispatchThreadgroups_threadsPerThreadgroup_(
                    Metal.MTLSizeMake(*grid, 1), Metal.MTLSizeMake(launch.threads, 1, 1)
                )
        encoder.endEncoding()
        commands.commit()

    return QueuedFunction(checked, put, get, _allocate, start)


def _allocate(dtype: str, shape: tuple[int, ...]) -> Any:
    size = max(prod(shape) * np.dtype(dtype).itemsize, DUMMY)
    buffer = _queue().device().newBufferWithLength_options_(size, 0)  # 0: shared with the CPU
    if buffer is None:
        raise DeviceError(f"{limits().device} has no {size} bytes left")
    return buffer


def _bytes(array: DeviceArray) -> Any:
    """The memory of an array, as the CPU sees it."""
    return array.buffer.contents().as_buffer(array.buffer.length())


def put(array: Array) -> DeviceArray:
    """A copy on the device, of its own content."""
    made = DeviceArray(_allocate(array.dtype.name, array.shape), array.dtype.name, array.shape)
    _bytes(made)[: array.nbytes] = array.tobytes()
    return made


def empty(shape: tuple[int, ...], dtype: DType) -> DeviceArray:
    """An array on the device, undefined."""
    return DeviceArray(_allocate(dtype, shape), dtype, shape)


def get(array: DeviceArray) -> Array:
    """A copy on the host, when all work before it is done."""
    finish()
    count = prod(array.shape)
    return np.frombuffer(_bytes(array), array.dtype, count).reshape(array.shape).copy()


def finish() -> None:
    """Wait until all work is done."""
    commands = _queue().commandBuffer()
    commands.commit()
    commands.waitUntilCompleted()


def describe() -> dict[str, str]:
    """What `doctor` says of this backend."""
    try:
        return told("metal", limits())
    except DeviceError as problem:
        return {"backend": "metal", "usable": f"no; run: {INSTALL} (on a Mac)", "problem": str(problem)}
