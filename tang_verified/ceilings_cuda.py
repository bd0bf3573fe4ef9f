"""What a GPU can do at most, measured by kernels of ours through CuPy.

The same rules as in `ceilings.py` hold: the best of several patterns, never lower than an earlier run. The cost of a call is
that of an empty kernel among many in a CUDA graph: nothing that is launched costs less.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tang_verified import __version__
from tang_verified.backends.cuda.runtime import elapsed
from tang_verified.device_file import KINDS, Boundary, Device, DeviceError, Rate

TEXT = r"""
extern "C" __global__ void read_all(const float4 *a, float4 *b, long long count) {
  float4 s = make_float4(0, 0, 0, 0);
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    const float4 x = a[i];
    s.x += x.x; s.y += x.y; s.z += x.z; s.w += x.w;
  }
  if (s.x == 1e30f) b[0] = s;
}
extern "C" __global__ void write_all(float4 *a, long long count) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x)
    a[i] = make_float4(1, 2, 3, 4);
}
extern "C" __global__ void copy_all(const float4 *a, float4 *b, long long count) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x)
    b[i] = a[i];
}
extern "C" __global__ void shared_all(float *out, int steps) {
  __shared__ float4 s[1024];
  float4 x = make_float4(threadIdx.x, 1, 2, 3);
  s[threadIdx.x] = x;
  __syncthreads();
  for (int i = 0; i < steps; ++i) {
    const float4 y = s[(threadIdx.x + i) & 1023];
    x.x += y.x; x.y += y.y; x.z += y.z; x.w += y.w;
  }
  if (x.x + x.y + x.z + x.w == 1e30f) out[0] = x.x;
}
#define FMA(NAME, T)                                                                       \
  extern "C" __global__ void NAME(T *out, T a, T b, int steps) {                           \
    T x[8];                                                                                \
    for (int k = 0; k < 8; ++k) x[k] = threadIdx.x + k;                                    \
    for (int i = 0; i < steps; ++i)                                                        \
      _Pragma("unroll") for (int k = 0; k < 8; ++k) x[k] = x[k] * a + b;                   \
    T s = 0;                                                                               \
    for (int k = 0; k < 8; ++k) s += x[k];                                                 \
    if (s == (T)1e30) out[0] = s;                                                          \
  }
FMA(fma_float, float)
FMA(fma_double, double)
extern "C" __global__ void exp2_bare(float *out, float a, int steps) { /* one ex2.approx each: no exp costs less */
  float x[8];
  for (int k = 0; k < 8; ++k) x[k] = a * (threadIdx.x + k);
  for (int i = 0; i < steps; ++i)
    _Pragma("unroll") for (int k = 0; k < 8; ++k) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k]));
  float s = 0;
  for (int k = 0; k < 8; ++k) s += x[k];
  if (s == 1e30f) out[0] = s;
}
extern "C" __global__ void empty(void) {}
"""
STEPS, TRIALS, THREADS = 4096, 20, 1024


def in_a_graph(function: Any, count: int = 500) -> float:
    """Seconds of one launch of an empty kernel, one after the other in a graph: the least of many."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        function((1,), (32,), ())
        stream.synchronize()
        stream.begin_capture()
        for _ in range(count):
            function((1,), (32,), ())
        graph = stream.end_capture()
        return min(elapsed(graph.launch) for _ in range(TRIALS)) / count


def measure(said: Callable[[str, float], None] = lambda text, part: None) -> Device:
    """All ceilings of the current GPU; `DeviceError` where there is none."""
    try:
        import cupy
    except ImportError:
        raise DeviceError("CuPy is not installed; run: pip install '.[cuda]'") from None
    try:
        facts = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        raise DeviceError(f"no GPU that CUDA can use: {problem}") from None
    module = cupy.RawModule(code=TEXT)
    units, l2 = int(facts["multiProcessorCount"]), int(facts["l2CacheSize"])

    def seconds(name: str, blocks: int, *args: Any) -> float:
        function = module.get_function(name)
        return min(elapsed(lambda: function((blocks,), (THREADS,), args)) for _ in range(TRIALS))

    def memory(size: int) -> dict[str, Rate]:
        a, b = cupy.ones(size // 4, cupy.float32), cupy.ones(size // 4, cupy.float32)
        count, found = cupy.int64(size // 16), {}
        for name, args, times in (("read_all", (a, b, count), 1), ("write_all", (a, count), 1), ("copy_all", (a, b, count), 2)):
            one, both = (times * size / min(seconds(name, blocks * k, *args) for k in (1, 2)) for blocks in (1, units))
            found[name] = Rate(one, max(one, both))
        return found

    said("bandwidth", 0.1)
    dram, near = memory(16 * l2), memory(max(l2 // 4, 1 << 20))
    out = cupy.zeros(1, cupy.float64)

    def rate(name: str, each: float, *args: Any) -> Rate:
        one, both = (blocks * THREADS * STEPS * each / seconds(name, blocks, *args) for blocks in (1, 2 * units))
        return Rate(one, max(one, both))

    said("arithmetic", 0.5)
    shared = {"shared_all": rate("shared_all", 16.0, out, cupy.int32(STEPS))}
    rates: dict[str, Rate] = {}
    half, steps = 0.5, cupy.int32(STEPS)
    for dtype, name, kind in (("float32", "fma_float", cupy.float32), ("float64", "fma_double", cupy.float64)):
        fma = rate(name, 8.0, out, kind(half), kind(half), steps)
        rates |= {f"multiply {dtype}": fma, f"add {dtype}": fma, f"operations {dtype}": Rate(2 * fma.one, 2 * fma.all)}
    rates["special float32"] = rates["special float64"] = rate("exp2_bare", 8.0, out, cupy.float32(1e-9), steps)
    registers, block_shared = int(facts["regsPerMultiprocessor"]) * 4, int(facts["sharedMemPerMultiprocessor"])
    boundaries: list[Boundary] = []
    beyond = [Rate(0, 0)] * 3
    for place, fast, instances, patterns in (
        ("DRAM", l2 + units * (registers + block_shared), 1, dram), ("L2", registers + block_shared, units, near),
        ("shared", registers, units, shared),
    ):  # fmt: skip
        parts = {"read_all": (1.0, 0.0), "write_all": (0.0, 1.0), "copy_all": (0.5, 0.5), "shared_all": (1.0, 1.0)}
        for name, r in patterns.items():
            for k, part in enumerate((1.0, *parts[name])):
                beyond[k] = Rate(max(beyond[k].one, r.one * part), max(beyond[k].all, r.all * part))
        boundaries.insert(0, Boundary(place, fast, instances, beyond[0], beyond[1], beyond[2], patterns))
    model = facts["name"].decode()
    return Device(
        model, KINDS["measured"], "cuda", datetime.now(UTC).isoformat(timespec="seconds"), units, tuple(boundaries), rates,
        {"call": in_a_graph(module.get_function("empty"))}, {}, {"processor": model, "units": str(units)},
        {"tang_verified": __version__, "cupy": cupy.__version__, "cuda": str(cupy.cuda.runtime.runtimeGetVersion())},
        {"bandwidth": "float4 accesses, grid-stride; the best of several grids",
         "launch": "an empty kernel among many in a CUDA graph"},
    )  # fmt: skip
