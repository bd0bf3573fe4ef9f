"""The host shims refuse what a GPU would do wrongly, mostly without a word, and mean what CUDA and Metal mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tang_verified.backends.launch import Binding, Launch, Plan
from tang_verified.semantics.build import integer, var
from tang_verified.semantics.program import DType
from tests.backends.gpu_cases import CASES, HALF, MATMUL, ROWS, Array, Case, bound, text
from tests.shims import nvcc, tint
from tests.shims.run import Shim
from tests.shims.texts import ShimError

N = var("n")


def plan(*bindings: Binding, threads: int = 64, shared: int = 0, blocks: int = 1) -> Plan:
    return Plan("t", ("n",), bindings, (Launch("f", integer(blocks), threads, shared),))


X, Y = bound("x", "float32", N), bound("y", "float32", N, written=True)


def cuda(body: str, head: str = "") -> str:
    signature = 'extern "C" __global__ void f(const float *__restrict__ x, float *__restrict__ y, long long n)'
    return f"{head}{signature} {{\n  int i = threadIdx.x;\n{body}\n}}\n"


def metal(body: str) -> str:
    return f"""#include <metal_stdlib>
using namespace metal;
kernel void f(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant long *size [[buffer(2)]],
    uint3 thread_ [[thread_position_in_threadgroup]]) {{
  int i = thread_.x; long n = size[0];
{body}
}}
"""


def run(dialect: str, source: str, order: int = 0, n: int = 64, **asked: Any) -> Array:
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    Shim(dialect, order).load(source, plan(X, Y, **asked))([n], [x, y])
    return y


# -- faults that must be seen: (dialect, body, message) ------------------------------------------------------------------------

FAULTS = {
    "cuda: some threads miss a barrier": ("cuda", "if (i < 40) __syncthreads(); y[i] = 1;", "barrier at line 3: reached by 40 of 64"),
    "cuda: two barriers at once": (
        "cuda",
        "if (i < 40) __syncthreads();\nelse __syncthreads();\ny[i] = 1;",
        "some at another line",
    ),
    "cuda: a thread has left": ("cuda", "if (i == 63) return; __syncthreads(); y[i] = 1;", "reached by 63 of 64"),
    "cuda: lanes miss a shuffle": ("cuda", "if (i % 2) y[i] = __shfl_xor_sync(0xffffffffu, x[i], 1);", "reached by 16 of 32"),
    "cuda: a part of the warp": ("cuda", "y[i] = __shfl_xor_sync(0xffffu, x[i], 1);", "part of the warp"),
    "cuda: shared bounds": ("cuda", "__shared__ float s[64]; s[i + 1] = x[i]; __syncthreads(); y[i] = s[i];", "index 64 is out"),
    "cuda: local bounds": ("cuda", "float r[4]; for (int k = 0; k < 4; k++) r[k] = k; y[i] = r[i];", "line 3: index 4 is out"),
    "cuda: writes past an array": ("cuda", "y[i + 1] = x[i];", "a write outside y"),
    "cuda: writes before an array": ("cuda", "y[i - 1] = x[i];", "a write outside y"),
    "cuda: integer overflow": ("cuda", "int big = 2147483647 - i; y[i] = big + 2;", "an integer sum overflows"),
    "cuda: division by zero": ("cuda", "y[i] = 7 / i;", "division by zero"),
    "cuda: a misaligned copy": (
        "cuda",
        "__shared__ float s[68]; if (i < 16) __pipeline_memcpy_async(s + 4 * i + 1, x, 16);",
        "not aligned",
    ),
    "metal: some threads miss a barrier": (
        "metal",
        "if (i < 40) threadgroup_barrier(mem_flags::mem_threadgroup); y[i] = 1;",
        "barrier at line 6: reached by 40 of 64",
    ),
    "metal: lanes miss a sum": ("metal", "if (i % 2) y[i] = simd_sum(x[i]);", "reached by 16 of 32"),
    "metal: threadgroup bounds": ("metal", "threadgroup float s[32]; s[i] = x[i]; y[i] = s[i];", "index 32 is out"),
    "metal: a lane that is not there": ("metal", "y[i] = simd_shuffle(x[i], 40);", "reads lane 40 of 32"),
    "metal: lanes disagree on a matrix": (
        "metal",
        "simdgroup_float8x8 m; simdgroup_load(m, x + i, 8); simdgroup_store(m, y, 8);",
        "different places",
    ),
    "metal: writes past an array": ("metal", "y[i + 1] = x[i];", "a write outside y"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_ends_the_run(name: str) -> None:
    dialect, body, message = FAULTS[name]
    with pytest.raises(ShimError, match=message):
        run(dialect, (cuda if dialect == "cuda" else metal)(body))


def test_a_text_of_other_types_than_its_plan() -> None:
    with pytest.raises(ShimError, match="refuses the text"):
        Shim("cuda").load(cuda("y[i] = x[i];").replace("const float", "const double"), plan(X, Y))
    with pytest.raises(ShimError, match="refuses the text"):  # would write to what is only read
        Shim("cuda").load(cuda("y[i] = x[i];").replace("const float", "float"), plan(X, Y))
    with pytest.raises(ShimError, match=r"binds the buffers \[0, 0, 2\]"):
        Shim("metal").load(metal("y[i] = x[i];").replace("buffer(1)", "buffer(0)"), plan(X, Y))


# -- races: a schedule is no proof, but two of them disagree -------------------------------------------------------------------

RACY = {
    "cuda": cuda("__shared__ float s[64]; s[i] = x[i]; y[i] = s[63 - i];"),
    "metal": metal("threadgroup float s[64]; s[i] = x[i]; y[i] = s[63 - i];"),
}


@pytest.mark.parametrize("dialect", RACY)
def test_a_missing_barrier_shows(dialect: str) -> None:
    """Shared memory starts as nan: whichever thread comes first reads what is not there yet."""
    for order in (0, 1, 2, 3):
        assert np.isnan(run(dialect, RACY[dialect], order)).any()
    barrier = "__syncthreads();" if dialect == "cuda" else "threadgroup_barrier(mem_flags::mem_threadgroup);"
    whole = RACY[dialect].replace("y[i] =", f"{barrier} y[i] =")
    for order in (0, 1, 2, 3):
        np.testing.assert_array_equal(run(dialect, whole, order), np.arange(64)[::-1])


@pytest.mark.parametrize("dialect", ["cuda", "metal"])
@pytest.mark.parametrize("missing", [0, 1])
def test_a_tiled_product_without_one_of_its_barriers(dialect: str, missing: int) -> None:
    source = text(dialect, MATMUL, 32)
    parts = source.split("    BARRIER;")
    assert len(parts) == 3
    twin = parts[0] + ("" if missing == 0 else "    BARRIER;") + parts[1] + ("" if missing == 1 else "    BARRIER;") + parts[2]
    a, b = (np.random.default_rng(k).standard_normal((24, 24)).astype(np.float32) for k in (1, 2))
    wrong = 0
    for order in (0, 1, 2, 3):
        c = np.zeros((24, 24), np.float32)
        Shim(dialect, order).load(twin, MATMUL.plan())([24, 24, 24], [a, b, c])
        wrong += not np.allclose(c, a @ b, atol=1e-4)
    assert wrong


def test_orders_differ_and_repeat() -> None:
    """The last writer wins: which one it is depends on the order, and only on it."""
    last = {order: run("cuda", cuda("y[0] = x[i];"), order)[0] for order in range(6)}
    assert last[0] == 63 and last[1] == 0 and len(set(last.values())) > 3
    assert last == {order: run("cuda", cuda("y[0] = x[i];"), order)[0] for order in range(6)}


def test_blocks_are_reordered_too() -> None:
    last = {o: run("cuda", cuda("if (i == 0) y[0] = blockIdx.x + 1;"), o, blocks=8)[0] for o in (0, 1)}
    assert last == {0: 8, 1: 1}


# -- asynchronous copies -------------------------------------------------------------------------------------------------------

COPIES = """
  __shared__ float s[2][64];
  cp_async_4(&s[0][i], x + i); cp_async_commit();
  cp_async_4(&s[1][i], x + 64 + i); cp_async_commit();
  cp_async_wait<1>(); __syncthreads();
  y[i] = s[0][63 - i];
  cp_async_wait<0>(); __syncthreads();
  y[64 + i] = s[1][63 - i];
"""
WRAPPERS = """#include <cuda_fp16.h>
__device__ __forceinline__ void cp_async_4(void *to, const void *from) {
  unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(from) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
"""


@pytest.mark.parametrize("order", [0, 1, 2])
def test_copies_arrive_when_they_are_waited_for(order: int) -> None:
    half = np.arange(64)[::-1]
    np.testing.assert_array_equal(run("cuda", cuda(COPIES, WRAPPERS), order, n=128), [*half, *half + 64])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cp_async_wait<1>();", ""),
        ("cp_async_wait<1>();", "cp_async_wait<2>();"),
        ("cp_async_wait<0>();", "cp_async_wait<1>();"),
        ("x + 64 + i); cp_async_commit();", "x + 64 + i);"),
        ("cp_async_wait<1>(); __syncthreads();", "__syncthreads(); cp_async_wait<1>();"),
    ],
)
def test_a_copy_that_is_not_waited_for_shows(before: str, after: str) -> None:
    source = cuda(COPIES, WRAPPERS)
    assert before in source
    assert any(np.isnan(run("cuda", source.replace(before, after), order, n=128)).any() for order in (0, 1, 2))


# -- matrix units --------------------------------------------------------------------------------------------------------------

MMA = """#include <cuda_fp16.h>
__device__ __forceinline__ void mma_m16n8k16(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void ldmatrix_x4(unsigned *r, const void *row) {
  unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place));
}
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned *r, const void *row) {
  unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(place));
}
extern "C" __global__ void f(const __half *__restrict__ a, const __half *__restrict__ b, float *__restrict__ c, long long n) {
  __shared__ __align__(16) __half sa[16 * 16];
  __shared__ __align__(16) __half sb[16 * 8];
  int lane = threadIdx.x;
  float d[4] = {0, 0, 0, 0};
  for (int k = 0; k < n; k += 16) {
    for (int e = lane; e < 256; e += 32) sa[e] = a[e / 16 * n + k + e % 16];
    for (int e = lane; e < 128; e += 32) sb[e] = b[(k + e / 8) * 8 + e % 8];
    __syncthreads();
    unsigned fa[4], fb[2];
    ldmatrix_x4(fa, sa + lane % 16 * 16 + lane / 16 * 8);
    ldmatrix_x2_trans(fb, sb + lane % 16 * 8);
    mma_m16n8k16(d, fa, fb);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}
"""
SIMDGROUP = """#include <metal_stdlib>
using namespace metal;
kernel void f(device const half *a [[buffer(0)]], device const half *b [[buffer(1)]], device float *c [[buffer(2)]],
    constant long *size [[buffer(3)]], uint simdgroup [[simdgroup_index_in_threadgroup]]) {
  long n = size[0];
  simdgroup_half8x8 fa, fb;
  simdgroup_float8x8 d = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (long k = 0; k < n; k += 8) {
    simdgroup_load(fa, a + simdgroup * 8 * n + k, n);
    simdgroup_load(fb, b + k * 8, 8);
    simdgroup_multiply_accumulate(d, fa, fb, d);
  }
  simdgroup_store(d, c + simdgroup * 64, 8);
}
"""


@pytest.mark.parametrize("order", [0, 2])
@pytest.mark.parametrize(
    ("dialect", "source", "threads"), [("cuda", MMA, 32), ("metal", SIMDGROUP, 64)], ids=["mma", "simdgroup"]
)
def test_matrix_units(dialect: str, source: str, threads: int, order: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((16, 48)).astype(np.float16), rng.standard_normal((48, 8)).astype(np.float16)
    c = np.zeros((16, 8), np.float32)
    shapes = (bound("a", "float16", 16, N), bound("b", "float16", N, 8), bound("c", "float32", 16, 8, written=True))
    Shim(dialect, order).load(source, plan(*shapes, threads=threads, shared=0))([48], [a, b, c])
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-5)


# -- numbers -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "source"),
    [
        (
            "cuda",
            '#include <cuda_fp16.h>\nextern "C" __global__ void f(const __half *x, __half *y, long long n) '
            "{ int i = threadIdx.x; y[i] = x[i] * x[63 - i] + x[i]; }",
        ),
        (
            "metal",
            "#include <metal_stdlib>\nusing namespace metal;\nkernel void f(device const half *x [[buffer(0)]], device half *y [[buffer(1)]], "
            "constant long *size [[buffer(2)]], uint i [[thread_index_in_threadgroup]]) { y[i] = x[i] * x[63 - i] + x[i]; }",
        ),
    ],
    ids=["cuda", "metal"],
)
def test_half_rounds_at_each_operation(dialect: str, source: str) -> None:
    x = np.random.default_rng(3).standard_normal(64).astype(np.float16)
    y = np.zeros(64, np.float16)
    half: DType = "float16"
    Shim(dialect).load(source, plan(bound("x", half, N), bound("y", half, N, written=True)))([64], [x, y])
    np.testing.assert_array_equal(y, x * x[::-1] + x)
    assert not np.array_equal(y, (x.astype(np.float32) * x[::-1] + x).astype(np.float16))  # the values tell the two apart


def test_dynamic_shared_memory() -> None:
    source = cuda("extern __shared__ __align__(16) float s[]; s[i] = x[i]; __syncthreads(); y[i] = s[63 - i];")
    np.testing.assert_array_equal(run("cuda", source, shared=256), np.arange(64)[::-1])


# -- other compilers on the same texts -----------------------------------------------------------------------------------------

needs_nvcc = pytest.mark.skipif(nvcc.find() is None, reason=f"no nvcc; run: {nvcc.INSTALL}")
needs_tint = pytest.mark.skipif(not tint.available(), reason=f"no Tint; run: {tint.INSTALL}")


@needs_nvcc
@pytest.mark.parametrize("architecture", nvcc.ARCHITECTURES)
def test_nvcc_takes_the_texts(architecture: str) -> None:
    usage = nvcc.compile_for(text("cuda", ROWS, 32) + text("cuda", HALF, 32).split("}\n", 1)[1], architecture)
    assert usage["rows_0"].shared >= 512 and 8 <= usage["rows_0"].registers <= 64 and usage["rows_0"].spill_stores == 0
    assert usage["halves_0"].shared < 512
    assert nvcc.compile_for(MMA, architecture)["f"].shared == 768
    assert nvcc.compile_for(cuda(COPIES, WRAPPERS), architecture)["f"].shared == 512


@needs_nvcc
def test_nvcc_refuses_and_counts_spills() -> None:
    with pytest.raises(nvcc.NvccError, match="refuses the text for sm_80"):
        nvcc.compile_for(cuda("y[i] = nothing;"), "sm_80")
    body = "float r[200]; for (int k = 0; k < 200; k++) r[k] = x[(i * k) % n];\nfor (int k = 0; k < 200; k++) y[k] = r[(k * i) % 200];"
    assert nvcc.compile_for(cuda(body), "sm_80")["f"].stack >= 800


def launches(case: Case) -> list[Launch]:
    return [Launch(entry.name, integer(1), entry.threads) for entry in case.entries]


@needs_tint
def test_tint_takes_the_texts() -> None:
    for case in CASES:
        for subgroup in (0, 8):
            source = text("wgsl", case, subgroup)
            assert tint.validate(source, launches(case)) is None


@needs_tint
def test_tint_refuses() -> None:
    source = text("wgsl", ROWS, 0)
    divergent = source.replace("  workgroupBarrier();", "  if (thread < 3) { workgroupBarrier(); }")
    assert "uniform" in (tint.validate(divergent, launches(ROWS)) or "")
    large = source.replace("array<f32, 128>", "array<f32, 60000>")
    assert "workgroup storage" in (tint.validate(large, launches(ROWS)) or "")
    assert tint.validate(source, launches(ROWS)) is None
