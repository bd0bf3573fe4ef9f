"""OpenCL C, compiled by the device's own driver.

    __kernel void entry(__global const float *restrict x, __global float *restrict out, const long n)

Arrays in the plan's order, then the sizes as `long`; half arrays are `half *` (vload_half, vstore_half), bool arrays
`uchar *`. The device: the first whose name, platform or platform's version holds $TANG_OPENCL_DEVICE; GPUs come first.
"""

from __future__ import annotations

import os
import re
import warnings
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tang_verified.backends.device import Call, Checked, DeviceArray, DeviceError, Limits, told
from tang_verified.backends.launch import Plan
from tang_verified.backends.queued import QueuedFunction
from tang_verified.semantics.program import DType

INSTALL = "pip install 'pyopencl[pocl]'"
# PoCL's loops over work-items go through LLVM 14's vectoriser, which mixes up the conditions of many stores: rows beyond an
# output's end are written (tests/conformance/test_several.py has a text), which no text of ours asks for.
UNSAFE_OPTIMISER = re.compile(r"PoCL [0-3]\.")
DUMMY = 16  # bytes of the buffer that stands for an array without elements


def _title(device: Any) -> str:
    return f"{device.name.strip()} ({device.platform.name.strip()})"


@lru_cache(maxsize=1)
def _queue() -> Any:
    """The queue of the chosen device; its work is done in order."""
    try:
        import pyopencl as cl
    except ImportError as problem:
        raise DeviceError(f"no OpenCL: {problem}; run: {INSTALL}") from problem
    try:
        devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error as problem:
        raise DeviceError(f"no OpenCL platform: {problem}; run: {INSTALL}") from problem
    wanted = os.environ.get("TANG_OPENCL_DEVICE", "")
    fitting = [device for device in devices if wanted.lower() in f"{_title(device)} {device.platform.version}".lower()]
    if not fitting:
        titles = "; ".join(map(_title, devices)) or "none"
        raise DeviceError(f"no OpenCL device {wanted!r}; there are: {titles}; run: {INSTALL}")
    chosen = min(fitting, key=lambda device: not device.type & cl.device_type.GPU)
    return cl.CommandQueue(cl.Context([chosen]))


@lru_cache(maxsize=1)
def limits() -> Limits:
    """Of the chosen device. float64 only where it computes in it; subgroups only where their size is told."""
    device = _queue().device
    dtypes: set[DType] = {"float16", "float32", "int32", "int64", "bool"}
    if device.double_fp_config:
        dtypes.add("float64")
    sizes = getattr(device, "sub_group_sizes_intel", ())  # where the driver and PyOpenCL know of it
    return Limits(
        device=_title(device),
        threads=min(device.max_work_group_size, device.max_work_item_sizes[0]),
        shared_bytes=device.local_mem_size,
        subgroup=int(max(sizes, default=0)),
        dtypes=frozenset(dtypes),
        binding_bytes=device.max_mem_alloc_size,
    )


def _allocate(dtype: str, shape: tuple[int, ...]) -> Any:
    import pyopencl as cl

    size = prod(shape) * np.dtype(dtype).itemsize
    return cl.Buffer(_queue().context, cl.mem_flags.READ_WRITE, max(size, DUMMY))


def load(text: str, plan: Plan) -> QueuedFunction:
    """Compile a text. Raises `DeviceError` with the driver's own words, or with what the device lacks."""
    import pyopencl as cl

    checked, queue = Checked(plan, limits()), _queue()
    device = queue.device
    options = ["-cl-std=CL1.2"]
    if UNSAFE_OPTIMISER.search(device.platform.version):
        options.append("-cl-opt-disable")
    if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)  # a driver that says something has not refused
            program = cl.Program(queue.context, text).build(options)
            kernels = [cl.Kernel(program, launch.entry) for launch in plan.launches]
    except cl.Error as problem:
        raise DeviceError(f"{plan.name}: {limits().device} refuses the text: {problem}") from problem
    info = cl.kernel_work_group_info
    for kernel, launch in zip(kernels, plan.launches, strict=True):
        declared = tuple(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))
        if declared not in ((0, 0, 0), (launch.threads, 1, 1)):  # some drivers would run with other sizes than declared
            raise DeviceError(f"{launch.entry} declares work-groups of {declared}, its plan {launch.threads} threads")
        most = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
        if launch.threads > most:
            raise DeviceError(
                f"{launch.entry}: {launch.threads} threads, {most} with the registers that it takes on {limits().device}"
            )
        used = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device)
        if used > limits().shared_bytes:
            raise DeviceError(f"{launch.entry}: {used} bytes of local memory, {limits().shared_bytes} on {limits().device}")

    def start(call: Call, bound: list[Any]) -> None:
        numbers = [np.int64(size) for size in call.sizes]
        for kernel, launch, grid in zip(kernels, plan.launches, call.grids, strict=True):
            if grid is not None:
                kernel.set_args(*bound, *numbers)
                cl.enqueue_nd_range_kernel(queue, kernel, (grid[0] * launch.threads, grid[1]), (launch.threads, 1))
        queue.flush()

    return QueuedFunction(checked, put, get, _allocate, start)


def put(array: np.ndarray[Any, Any]) -> DeviceArray:
    """A copy on the device, of its own content."""
    import pyopencl as cl

    buffer = _allocate(array.dtype.name, array.shape)
    if array.size:
        cl.enqueue_copy(_queue(), buffer, np.ascontiguousarray(array))
    return DeviceArray(buffer, array.dtype.name, array.shape)


def empty(shape: tuple[int, ...], dtype: DType) -> DeviceArray:
    """An array on the device, undefined."""
    return DeviceArray(_allocate(dtype, shape), dtype, shape)


def get(array: DeviceArray) -> np.ndarray[Any, Any]:
    """A copy on the host, when all work before it is done."""
    import pyopencl as cl

    out = np.empty(array.shape, array.dtype)
    if out.size:
        cl.enqueue_copy(_queue(), out, array.buffer)
    return out


def finish() -> None:
    """Wait until all work is done."""
    _queue().finish()


def describe() -> dict[str, str]:
    """What `doctor` says of this backend."""
    try:
        found = limits()
    except DeviceError as problem:
        return {"backend": "opencl", "usable": f"no; run: {INSTALL}", "problem": str(problem)}
    device = _queue().device
    return told("opencl", found, version=device.version.strip(), driver=device.driver_version.strip())
