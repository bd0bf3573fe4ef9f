"""CUDA, compiled by NVRTC for the device found, through CuPy.

    extern "C" __global__ void entry(const float *__restrict__ x, float *__restrict__ out, long long n)

Arrays in the plan's order, then the sizes as `long long`; half arrays are `__half *`, bool arrays `unsigned char *`. Shared
memory over what the text declares statically is passed as dynamic (`extern __shared__`).

Arrays on the device are used where they lie, from whatever library speaks DLPack (CuPy, PyTorch, JAX); a call only puts the
launches into a stream and returns: PyTorch's current stream if one of the arrays is PyTorch's, else CuPy's. NumPy arrays are
copied there and back, and the call then waits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tang_verified.backends.device import Checked, DeviceError, Limits, told
from tang_verified.backends.launch import Plan
from tang_verified.semantics.program import DType

INSTALL = "pip install 'cupy-cuda13x[ctk]'"
DTYPES: frozenset[DType] = frozenset(("float16", "float32", "float64", "int32", "int64", "bool"))
DLPACK_CUDA = (2, 13)  # device types: CUDA, managed memory


@lru_cache(maxsize=1)
def cupy() -> Any:
    """CuPy, when it sees a device."""
    try:
        import cupy as found
    except ImportError as problem:
        raise DeviceError(f"no CuPy: {problem}; run: {INSTALL}") from problem
    try:
        found.cuda.runtime.getDeviceCount()
    except found.cuda.runtime.CUDARuntimeError as problem:
        raise DeviceError(f"CuPy finds no NVIDIA GPU: {problem}") from problem
    return found


def limits() -> Limits:
    """Of CuPy's current device."""
    return _limits(cupy().cuda.Device().id)


@lru_cache(maxsize=16)
def _limits(number: int) -> Limits:
    found = cupy().cuda.runtime.getDeviceProperties(number)
    return Limits(
        device=f"{found['name'].decode()} (compute capability {found['major']}.{found['minor']})",
        threads=found["maxThreadsPerBlock"],
        shared_bytes=found["sharedMemPerBlockOptin"],
        subgroup=found["warpSize"],
        dtypes=DTYPES,
        binding_bytes=found["totalGlobalMem"],
        blocks=found["maxGridSize"][0],
        blocks_y=found["maxGridSize"][1],
    )


def architecture(capability: str) -> str:
    """80 -> sm_80, 90 -> sm_90a. The letter gives a generation's own instructions (wgmma); such code runs on it alone."""
    return f"sm_{capability}{'a' if int(capability) >= 90 else ''}"


def compile_text(text: str, name: str, arch: str) -> bytes:
    """A cubin. Not by cupy.RawModule: it flushes subnormal numbers to zero, and knows no sm_90a."""
    from cupy.cuda import nvrtc

    include = [f"-I{folder}" for folder in _include_folders()]
    program = nvrtc.createProgram(text, f"{name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"-arch={arch}", "-std=c++17", "-default-device", *include))
        cubin: bytes = nvrtc.getCUBIN(program)
        return cubin
    except nvrtc.NVRTCError as problem:
        raise DeviceError(f"{name}: NVRTC refuses the text: {nvrtc.getProgramLog(program).strip() or problem}") from problem
    finally:
        nvrtc.destroyProgram(program)


def _include_folders() -> list[str]:
    """Where cuda_fp16.h is: the toolkit that CuPy found, or the headers that pip installed."""
    import importlib.util
    from pathlib import Path

    folders = [Path(path, "include") for path in [cupy().cuda.get_cuda_path()] if path]
    for package in ("nvidia.cu13", "nvidia.cuda_runtime"):
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        folders += [Path(path, "include") for path in (found.submodule_search_locations or ())] if found else []
    return [str(folder) for folder in dict.fromkeys(folders) if (folder / "cuda_fp16.h").is_file()]


class CudaFunction:
    """A compiled kernel of one device. Scratch comes from CuPy's pool at each call, in the order of the stream."""

    def __init__(self, checked: Checked, device: int, functions: list[Any], dynamic: list[int]) -> None:
        self.name, self.device, self._checked = checked.plan.name, device, checked
        self._functions, self._dynamic = functions, dynamic

    def __call__(self, sizes: Sequence[int], arrays: Sequence[Any]) -> None:
        """Run on arrays in the plan's order, scratch left out."""
        cp = cupy()
        call = self._checked.at(tuple(map(int, sizes)))
        with cp.cuda.Device(self.device), stream_of(arrays):
            host = [_host_view(array) for array in arrays]
            there = [on_device(array) if view is None else cp.asarray(view) for array, view in zip(arrays, host, strict=True)]
            self._checked.arrays(call, [given if view is None else view for given, view in zip(there, host, strict=True)])
            for binding, array in zip(self._checked.passed, there, strict=True):
                if array.size and array.device.id != self.device:
                    raise TypeError(f"{self.name}: {binding.name} is on GPU {array.device.id}, the kernel on {self.device}")
            given = [aligned(array) for array in there]  # a view such as x[1:] may begin anywhere
            passed = iter(given)
            shapes = zip(self._checked.plan.bindings, call.shapes, strict=True)
            bound = [cp.empty(shape, binding.dtype) if binding.scratch else next(passed) for binding, shape in shapes]
            numbers = [np.int64(size) for size in call.sizes]
            launches = zip(self._functions, self._dynamic, self._checked.plan.launches, call.grids, strict=True)
            for function, dynamic, launch, grid in launches:
                if grid is not None:
                    function((*grid, 1), (launch.threads, 1, 1), (*bound, *numbers), shared_mem=dynamic)
            for binding, array, used in zip(self._checked.passed, there, given, strict=True):
                if binding.written and used is not array:
                    array[...] = used
            for binding, view, array in zip(self._checked.passed, host, there, strict=True):
                if binding.written and view is not None and view.size:
                    array.get(out=view)


def stream_of(arrays: Sequence[Any]) -> Any:
    """The stream that the arrays' owner works in."""
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(array, torch.Tensor) and array.is_cuda for array in arrays):
        return cupy().cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    return cupy().cuda.get_current_stream()


def _host_view(array: Any) -> np.ndarray[Any, Any] | None:
    """An array in the host's memory as NumPy's, on the same memory; None for one on a GPU."""
    if isinstance(array, np.ndarray):
        return array
    device = getattr(array, "__dlpack_device__", None)
    if device is None:
        raise TypeError(f"{type(array).__name__} is no array that speaks DLPack")
    return None if device()[0] in DLPACK_CUDA else np.from_dlpack(array)


def on_device(array: Any) -> Any:
    """An array on a GPU as CuPy's, on the same memory."""
    return array if isinstance(array, cupy().ndarray) else cupy().from_dlpack(array)


def aligned(array: Any) -> Any:
    """The array, or a copy that begins at a multiple of 16 bytes, as vectors of a thread need it."""
    return array if array.size == 0 or array.data.ptr % 16 == 0 else array.copy()


def device_memory(like: Any, number: int) -> Any:
    """Where a call's arrays are used, if they lie on GPU `number`."""
    from tang_verified.backends.cuda.memory import DeviceMemory

    return DeviceMemory(like, number)


def load(text: str, plan: Plan) -> CudaFunction:
    """Compile a text for CuPy's current device."""
    cp = cupy()
    checked, device = Checked(plan, limits()), cp.cuda.Device()
    module = cp.cuda.function.Module()
    module.load(compile_text(text, plan.name, architecture(device.compute_capability)))
    functions, dynamic = [], []
    for launch in plan.launches:
        try:
            function = module.get_function(launch.entry)
        except cp.cuda.driver.CUDADriverError as problem:
            raise DeviceError(f"{plan.name}: the text has no entry {launch.entry}: {problem}") from problem
        driver = cp.cuda.driver
        most = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function.ptr)
        if launch.threads > most:
            raise DeviceError(f"{launch.entry}: {launch.threads} threads, {most} with the registers that it takes")
        fixed = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function.ptr)
        dynamic.append(max(0, launch.shared_bytes - fixed))
        driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic[-1])
        functions.append(function)
    return CudaFunction(checked, device.id, functions, dynamic)


def put(array: np.ndarray[Any, Any]) -> Any:
    """A copy on the device: a CuPy array."""
    return cupy().array(array)


def empty(shape: tuple[int, ...], dtype: DType) -> Any:
    """An array on the device, undefined."""
    return cupy().empty(shape, dtype)


def get(array: Any) -> np.ndarray[Any, Any]:
    """A copy on the host, when all work before it in the current stream is done."""
    out: np.ndarray[Any, Any] = array.get()
    return out


def finish() -> None:
    """Wait until all work on the current device is done."""
    cupy().cuda.Device().synchronize()


def elapsed(run: Callable[[], Any]) -> float:
    """Seconds between an event before and one behind what `run` puts into the current stream."""
    begin, end = cupy().cuda.Event(), cupy().cuda.Event()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(cupy().cuda.get_elapsed_time(begin, end)) / 1e3


def describe() -> dict[str, str]:
    """What `doctor` says of this backend."""
    try:
        found = limits()
    except DeviceError as problem:
        command = INSTALL if INSTALL in str(problem) else "nvidia-smi (it says why there is no GPU)"
        return {"backend": "cuda", "usable": f"no; run: {command}", "problem": str(problem)}
    return told("cuda", found, version=f"CuPy {cupy().__version__}, CUDA {cupy().cuda.runtime.runtimeGetVersion()}")
