"""The CUDA runtime without a GPU: a stand-in for CuPy whose kernels run on the host shim.

It shows that the runtime passes the right arrays, numbers, grids and shared memory in the right stream; that CuPy's own
names are used as CuPy has them, only a machine with a GPU can show (`test_gpu_runtimes.py` runs there).
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified import arrays
from tang_verified.arrays import kind_of
from tang_verified.backends.cuda import runtime
from tang_verified.backends.device import DeviceError
from tang_verified.backends.launch import Plan
from tang_verified.errors import CompileError
from tests.backends.gpu_cases import CASES, HALF, MATMUL, TWICE, WIDE, Case, text
from tests.backends.test_gpu_runtimes import SIZES, inputs, run
from tests.shims.run import _library
from tests.shims.texts import DIALECTS, to_cpp


class GpuArray(np.ndarray[Any, Any]):
    """Memory of the stand-in's GPU 0."""

    device = SimpleNamespace(id=0)  # type: ignore[assignment]

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])

    def get(self, out: Any = None) -> Any:
        if out is None:
            return np.array(self)
        out[...] = self
        return out


class Stream:
    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> Stream:
        STREAMS.append(self.number)
        return self

    def __exit__(self, *problem: object) -> None:
        STREAMS.pop()


STREAMS: list[int] = []
STARTED: list[tuple[int, Any, Any, int]] = []  # stream, grid, block, dynamic shared memory
CU_DYNAMIC, CU_THREADS, CU_SHARED = 1, 2, 3


def stand_in(plan: Plan, fixed_shared: int) -> Any:
    """As much of CuPy as the runtime uses. What it 'compiles' is the text itself."""

    class Module:
        def load(self, code: bytes) -> None:
            self.library = _library(to_cpp(DIALECTS["cuda"], code.decode(), plan))

        def get_function(self, entry: str) -> Any:
            names = [launch.entry for launch in plan.launches]
            if entry not in names:
                raise LookupError(entry)

            def function(grid: Any, block: Any, args: Any, shared_mem: int = 0) -> None:
                STARTED.append((STREAMS[-1], grid, block, shared_mem))
                arrays, sizes = args[: len(plan.bindings)], args[len(plan.bindings) :]
                assert all(isinstance(array, GpuArray) for array in arrays) and all(type(size) is np.int64 for size in sizes)
                pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
                numbers = (ctypes.c_int64 * max(len(sizes), 1))(*map(int, sizes))
                total = shared_mem + fixed_shared
                problem = self.library.simt_run(names.index(entry), pointers, numbers, grid[0], grid[1], block[0], total, 0)
                assert not problem, problem

            function.ptr = entry  # type: ignore[attr-defined]
            return function

    driver = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=CU_DYNAMIC,
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK=CU_THREADS,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=CU_SHARED,
        CUDADriverError=LookupError,
        funcGetAttribute=lambda attribute, function: {CU_THREADS: 512, CU_SHARED: fixed_shared}[attribute],
        funcSetAttribute=lambda function, attribute, value: None,
    )

    class Device:
        id, compute_capability = 0, "90"

        def __init__(self, number: int = 0) -> None:
            self.context = nullcontext()

        def __enter__(self) -> None: ...

        def __exit__(self, *problem: object) -> None: ...

    cupy = SimpleNamespace(
        ndarray=GpuArray,
        asarray=lambda host: np.array(host).view(GpuArray),
        array=lambda host: np.array(host).view(GpuArray),
        empty=lambda shape, dtype: np.full(shape, 77).astype(dtype).view(GpuArray),
        ascontiguousarray=lambda array: np.ascontiguousarray(array).view(GpuArray),
        may_share_memory=np.may_share_memory,
        from_dlpack=lambda array: array.memory,
    )
    cupy.cuda = SimpleNamespace(
        Device=Device,
        ExternalStream=Stream,
        get_current_stream=lambda: Stream(STREAMS[-1] if STREAMS else 5),
        driver=driver,
        function=SimpleNamespace(Module=Module),
        runtime=SimpleNamespace(
            getDeviceProperties=lambda number: {
                "name": b"a stand-in",
                "major": 9,
                "minor": 0,
                "maxThreadsPerBlock": 1024,
                "sharedMemPerBlockOptin": 232448,
                "warpSize": 32,
                "totalGlobalMem": 2**37,
                "maxGridSize": (2**31 - 1, 65535, 65535),
            }
        ),
    )
    return cupy


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    def loaded(case: Case, fixed_shared: int = 0, plan: Plan | None = None, source: str | None = None) -> Any:
        plan = plan or case.plan()
        cupy = stand_in(plan, fixed_shared)
        monkeypatch.setattr(runtime, "cupy", lambda: cupy)
        monkeypatch.setattr(runtime, "compile_text", lambda code, name, arch: code.encode())
        runtime._limits.cache_clear()
        return runtime.load(source or text("cuda", case, 32), plan)

    STARTED.clear()
    yield loaded
    runtime._limits.cache_clear()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_numpy_in_and_out(load: Any, case: Case) -> None:
    for sizes in SIZES[case.name]:
        given = inputs(case, sizes)
        for output, expected in zip(run(load(case), case, sizes, given), case.expected(*given), strict=True):
            np.testing.assert_allclose(output, expected, rtol=2e-5, atol=2e-5, err_msg=str(sizes))


class OnGpu:
    """Another library's array on the GPU, which only speaks DLPack."""

    def __init__(self, values: Any, device: int = 0) -> None:
        self.memory = np.array(values).view(GpuArray)
        self.memory.device = SimpleNamespace(id=device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_arrays_on_the_gpu_are_used_where_they_lie(load: Any) -> None:
    function, x = load(HALF), np.arange(40, dtype=np.float16)
    given, out = OnGpu(x), np.zeros(40, np.float16).view(GpuArray)
    function([40], [given, out])
    np.testing.assert_array_equal(out, HALF.expected(x)[0])
    assert STARTED == [(5, (2, 1, 1), (32, 1, 1), 0)]  # CuPy's current stream
    with pytest.raises(TypeError, match=r"result must be float16 of shape \(40,\), got float32"):
        function([40], [given, np.zeros(40, np.float32).view(GpuArray)])
    with pytest.raises(TypeError, match="result must be C-contiguous"):
        function([40], [given, np.zeros(80, np.float16).view(GpuArray)[::2]])
    with pytest.raises(TypeError, match="x is on GPU 1, the kernel on 0"):
        function([40], [OnGpu(x, 1), out])


def test_vectors_are_read_from_aligned_copies() -> None:
    whole = np.zeros(64, np.float32).view(GpuArray)
    shift = next(k for k in range(1, 5) if whole[k:].data.ptr % 16)
    assert runtime.aligned(whole[shift:]) is not whole[shift:] and runtime.aligned(whole[shift:]).data.ptr != whole[shift:].data.ptr
    fit = next(whole[k:] for k in range(4) if whole[k:].data.ptr % 16 == 0)
    assert runtime.aligned(fit) is fit


def test_the_stream_of_pytorch_is_respected(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor(OnGpu):
        is_cuda = True

    torch = ModuleType("torch")
    torch.Tensor = Tensor  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=1234))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    function, x = load(HALF), np.arange(8, dtype=np.float16)
    function([8], [Tensor(x), np.zeros(8, np.float16).view(GpuArray)])
    function([8], [OnGpu(x), np.zeros(8, np.float16).view(GpuArray)])
    assert [stream for stream, *_ in STARTED] == [1234, 5]


def test_launches_are_in_order_and_none_is_empty(load: Any) -> None:
    function = load(TWICE)
    run(function, TWICE, {"n": 100}, inputs(TWICE, {"n": 100}))
    assert [(grid, block) for _, grid, block, _ in STARTED] == [((4, 1, 1), (32, 1, 1)), ((2, 1, 1), (64, 1, 1))]
    STARTED.clear()
    run(function, TWICE, {"n": 0}, inputs(TWICE, {"n": 0}))
    assert STARTED == []


def test_a_long_row_is_not_folded(load: Any) -> None:
    (out,) = run(load(WIDE), WIDE, {"n": 70000}, [])
    np.testing.assert_array_equal(out, np.arange(70000))
    assert STARTED[0][1] == (70000, 1, 1)


def test_shared_memory_beyond_the_static_is_dynamic(load: Any) -> None:
    a, b = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)
    for fixed, dynamic in ((512, 0), (0, 512), (600, 0)):
        load(MATMUL, fixed)([4, 4, 4], [a, b, np.zeros((4, 4), np.float32)])
        assert STARTED[-1][3] == dynamic


def test_what_is_refused(load: Any) -> None:
    plan = MATMUL.plan()
    with pytest.raises(DeviceError, match="1024 threads, 512 with the registers that it takes"):
        load(MATMUL, plan=replace(plan, launches=(replace(plan.launches[0], threads=1024),)))
    with pytest.raises(DeviceError, match=r"printed for subgroups of 64; a stand-in .* has 32"):
        load(MATMUL, plan=replace(plan, subgroup=64))
    with pytest.raises(DeviceError, match="shared memory: 232452 needed, 232448 on a stand-in"):
        load(MATMUL, plan=replace(plan, launches=(replace(plan.launches[0], shared_bytes=232452),)))


# -- a compiled program on arrays of a GPU -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def doubled() -> Any:
    return tv.compile(lambda x: x + x, x="n", backend="cuda", name="doubled")


@pytest.fixture
def on_gpu(load: Any, doubled: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The compiled program, on the stand-in."""
    (plan,) = doubled._backend.plans(doubled.certified)
    load(HALF, plan=plan, source=doubled.source)
    monkeypatch.setattr(doubled, "_loaded", {})
    monkeypatch.setattr(arrays, "kind_of", lambda array: "cupy" if isinstance(array, GpuArray) else kind_of(array))
    monkeypatch.setattr(GpuArray, "__dlpack_device__", lambda self: (2, self.device.id), raising=False)
    return doubled


class Namespace:
    """An array-API library's own way in."""

    @staticmethod
    def from_dlpack(array: Any) -> OnGpu:
        made = OnGpu(0)
        made.memory = array
        return made


class Foreign(OnGpu):
    def __dlpack__(self) -> None: ...

    def __array_namespace__(self) -> Any:
        return Namespace


def test_cupy_in_and_out(on_gpu: Any) -> None:
    x = np.arange(5, dtype=np.float32).view(GpuArray)
    got = on_gpu(x)
    assert isinstance(got, GpuArray)
    np.testing.assert_array_equal(got, 2 * np.arange(5))
    out = np.zeros(5, np.float32).view(GpuArray)
    assert on_gpu(x, out=out) is out and out[4] == 8
    assert on_gpu(np.arange(10, dtype=np.float32).view(GpuArray)[::-2])[0] == 18
    with pytest.raises(CompileError, match="out overlaps x"):
        on_gpu(x, out=x)
    with pytest.raises(CompileError, match=r"x is cupy's on GPU 0 and out is numpy's on the CPU"):
        on_gpu(x, out=np.zeros(5, np.float32))


def test_another_librarys_array_in_and_out(on_gpu: Any) -> None:
    x = Foreign(np.arange(5, dtype=np.float32))
    got = on_gpu(x)
    assert isinstance(got, OnGpu)
    np.testing.assert_array_equal(got.memory, 2 * np.arange(5))
    with pytest.raises(CompileError, match="out is a Foreign; nothing can be written into it"):
        on_gpu(x, out=Foreign(np.arange(5, dtype=np.float32)))


def test_numpy_in_and_out_of_a_program(on_gpu: Any) -> None:
    got = on_gpu(np.arange(5, dtype=np.float32))
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, 2 * np.arange(5))


def test_pytorch_in_and_out_in_its_stream(on_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor(Foreign):
        is_cuda, device = True, "cuda:0"

    Tensor.__module__ = "torch"
    torch = ModuleType("torch")
    torch.Tensor, torch.float32 = Tensor, np.float32  # type: ignore[attr-defined]
    torch.cuda = SimpleNamespace(current_stream=lambda: SimpleNamespace(cuda_stream=1234))  # type: ignore[attr-defined]
    torch.empty = lambda shape, dtype, device: Tensor(np.full(shape, 77, dtype))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    got = on_gpu(Tensor(np.arange(5, dtype=np.float32)))
    assert isinstance(got, Tensor)
    np.testing.assert_array_equal(got.memory, 2 * np.arange(5))
    out = Tensor(np.zeros(5, np.float32))
    assert on_gpu(Tensor(np.arange(5, dtype=np.float32)), out=out) is out and out.memory[4] == 8
    assert {stream for stream, *_ in STARTED} == {1234}
