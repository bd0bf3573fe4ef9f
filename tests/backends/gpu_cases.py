"""Hand-written kernels for the GPU runtimes: one body in the words that C-like dialects share, spelled out by macros.

    BLOCK, THREAD, BARRIER, INDEX (the type of sizes), SUBSUM (of a subgroup), W (its size), LOADH/STOREH (half arrays)

WGSL is no such dialect: each case carries its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tang_verified.backends.launch import Binding, Launch, Plan
from tang_verified.semantics.build import ceildiv, imul, integer, var
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import Term

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Entry:
    """One launch: its body twice, and its shared arrays of float."""

    name: str
    blocks: Term
    threads: int
    body: str
    wgsl: str
    shared: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Case:
    name: str
    sizes: tuple[str, ...]
    bindings: tuple[Binding, ...]
    entries: tuple[Entry, ...]
    expected: Callable[..., tuple[Array, ...]]  # inputs -> outputs

    def plan(self, index_bits: int = 64) -> Plan:
        launches = tuple(Launch(e.name, e.blocks, e.threads, sum(4 * count for _, count in e.shared)) for e in self.entries)
        return Plan(self.name, self.sizes, self.bindings, launches, index_bits)


def bound(name: str, dtype: DType, *shape: Term | int, written: bool = False, scratch: bool = False) -> Binding:
    extents = tuple(integer(extent) if isinstance(extent, int) else extent for extent in shape)
    return Binding(name, dtype, extents, written or scratch, scratch)


N, M, K = var("n"), var("m"), var("k")

MATMUL = Case(
    "matmul",
    ("n", "m", "k"),
    (bound("a", "float32", N, K), bound("b", "float32", K, M), bound("c", "float32", N, M, written=True)),
    (
        Entry(
            "matmul_0",
            imul(ceildiv(N, 8), ceildiv(M, 8)),
            64,
            """
  INDEX across = (m + 7) / 8;
  INDEX i = BLOCK / across * 8 + THREAD / 8, j = BLOCK % across * 8 + THREAD % 8;
  if (BLOCK >= (n + 7) / 8 * across) return;
  float sum = 0.0f;
  for (INDEX t = 0; t < k; t += 8) {
    INDEX r = t + THREAD / 8, q = t + THREAD % 8;
    if (i < n && q < k) ta[THREAD] = a[i * k + q]; else ta[THREAD] = 0.0f;
    if (r < k && j < m) tb[THREAD] = b[r * m + j]; else tb[THREAD] = 0.0f;
    BARRIER;
    for (int s = 0; s < 8; s++) sum += ta[THREAD / 8 * 8 + s] * tb[s * 8 + THREAD % 8];
    BARRIER;
  }
  if (i < n && j < m) c[i * m + j] = sum;
""",
            """
  let n = size[0]; let m = size[1]; let k = size[2];
  let across = (m + 7) / 8;
  let i = block / across * 8 + thread / 8; let j = block % across * 8 + thread % 8;
  if (block >= (n + 7) / 8 * across) { return; }
  var sum = 0.0f;
  for (var t = 0; t < k; t += 8) {
    let r = t + thread / 8; let q = t + thread % 8;
    ta[thread] = 0.0f; tb[thread] = 0.0f;
    if (i < n && q < k) { ta[thread] = a[i * k + q]; }
    if (r < k && j < m) { tb[thread] = b[r * m + j]; }
    workgroupBarrier();
    for (var s = 0; s < 8; s++) { sum += ta[thread / 8 * 8 + s] * tb[s * 8 + thread % 8]; }
    workgroupBarrier();
  }
  if (i < n && j < m) { c[i * m + j] = sum; }
""",
            (("ta", 64), ("tb", 64)),
        ),
    ),
    lambda a, b: (a.astype(np.float64) @ b,),
)

ROWS = Case(
    "rows",
    ("n", "m"),
    (bound("x", "float32", N, M), bound("result", "float32", N, written=True)),
    (
        Entry(
            "rows_0",
            N,
            128,
            """
  if (BLOCK >= n) return;
  float sum = 0.0f;
  for (INDEX j = THREAD; j < m; j += 128) sum += x[BLOCK * m + j];
  sum = SUBSUM(sum);
  if (THREAD % W == 0) part[THREAD / W] = sum;
  BARRIER;
  if (THREAD == 0) {
    float all = 0.0f;
    for (int w = 0; w < 128 / W; w++) all += part[w];
    result[BLOCK] = all;
  }
""",
            """
  let n = size[0]; let m = size[1];
  if (block >= n) { return; }
  var sum = 0.0f;
  for (var j = thread; j < m; j += 128) { sum += x[block * m + j]; }
  sum = SUBSUM(sum);
  if (thread % W == 0) { part[thread / W] = sum; }
  workgroupBarrier();
  if (thread == 0) {
    var all = 0.0f;
    for (var w = 0; w < 128 / W; w++) { all += part[w]; }
    result[block] = all;
  }
""",
            (("part", 128),),
        ),
    ),
    lambda x: (x.astype(np.float64).sum(-1),),
)

HALF = Case(
    "halves",
    ("n",),
    (bound("x", "float16", N), bound("result", "float16", N, written=True)),
    (
        Entry(
            "halves_0",
            ceildiv(N, 32),
            32,
            "\n  INDEX i = BLOCK * 32 + THREAD;\n  if (i < n) STOREH(result, i, LOADH(x, i) * 3.0f + 1.0f);\n",
            "\n  let i = block * 32 + thread;\n  if (i < size[0]) { result[i] = f16(f32(x[i]) * 3.0f + 1.0f); }\n",
        ),
    ),
    lambda x: ((x.astype(np.float32) * 3 + 1).astype(np.float16),),
)

TWICE = Case(  # the second launch reads what other blocks of the first wrote
    "twice",
    ("n",),
    (
        bound("x", "float32", N),
        bound("mask", "bool", N),
        bound("result", "float32", N, written=True),
        bound("kept", "bool", N, written=True),
        bound("square", "float32", N, scratch=True),
    ),
    (
        Entry(
            "twice_0",
            ceildiv(N, 32),
            32,
            "\n  INDEX i = BLOCK * 32 + THREAD;\n  if (i < n) square[i] = x[i] * x[i];\n",
            "\n  let i = block * 32 + thread;\n  if (i < size[0]) { square[i] = x[i] * x[i]; }\n",
        ),
        Entry(
            "twice_1",
            ceildiv(N, 64),
            64,
            """
  INDEX i = BLOCK * 64 + THREAD;
  if (i < n) { result[i] = square[n - 1 - i]; kept[i] = BOOL(mask[i] != 0 && x[i] > 0.0f); }
""",
            """
  let i = block * 64 + thread; let n = size[0];
  if (i < n) { result[i] = square[n - 1 - i]; kept[i] = select(0u, 1u, mask[i] != 0u && x[i] > 0.0f); }
""",
        ),
    ),
    lambda x, mask: ((x * x)[::-1], mask & (x > 0)),
)

WIDE = Case(  # one thread a block, so that a few numbers make more than 65535 blocks
    "wide",
    ("n",),
    (bound("result", "int32", N, written=True),),
    (
        Entry(
            "wide_0",
            N,
            1,
            "\n  if (BLOCK < n) result[BLOCK] = int(BLOCK);\n",
            "\n  if (block < size[0]) { result[block] = block; }\n",
        ),
    ),
    lambda: (np.arange(0),),
)

CASES = (MATMUL, ROWS, HALF, TWICE)

NAMES: dict[str, dict[DType, str]] = {
    "opencl": {"float16": "half", "bool": "uchar", "float32": "float", "int32": "int", "float64": "double", "int64": "long"},
    "cuda": {"float16": "__half", "bool": "unsigned char", "float32": "float", "int32": "int", "int64": "long long"},
    "metal": {"float16": "half", "bool": "uchar", "float32": "float", "int32": "int", "int64": "long"},
    "glsl": {"float16": "float16_t", "bool": "uint", "float32": "float", "int32": "int"},
    "wgsl": {"float16": "f16", "bool": "u32", "float32": "f32", "int32": "i32"},
}


def text(dialect: str, case: Case, subgroup: int) -> str:
    """The case in a dialect whose subgroups have this size (0: none)."""
    writer = {"opencl": _opencl, "cuda": _cuda, "metal": _metal, "glsl": _glsl, "wgsl": _wgsl}[dialect]
    return writer(case, subgroup)


def _opencl(case: Case, subgroup: int) -> str:
    head = """#define INDEX long
#define BLOCK ((long)get_group_id(0) + (long)get_group_id(1) * (long)get_num_groups(0))
#define THREAD ((int)get_local_id(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define W 1
#define SUBSUM(v) (v)
#define BOOL(v) (v)
#define LOADH(x, i) vload_half(i, x)
#define STOREH(x, i, v) vstore_half(v, i, x)
#define int(v) ((int)(v))
"""
    for e in case.entries:
        head += f"__kernel __attribute__((reqd_work_group_size({e.threads}, 1, 1))) void {e.name}("
        arrays = [
            f"__global {'' if b.written else 'const '}{NAMES['opencl'][b.dtype]} *restrict {b.name}" for b in case.bindings
        ]
        head += ", ".join([*arrays, *(f"const long {size}" for size in case.sizes)]) + ") {\n"
        head += "".join(f"  __local float {name}[{count}];\n" for name, count in e.shared) + e.body + "}\n"
    return head


def _cuda(case: Case, subgroup: int) -> str:
    head = """#include <cuda_fp16.h>
#define INDEX long long
#define BLOCK ((long long)blockIdx.x + (long long)blockIdx.y * gridDim.x)
#define THREAD ((int)threadIdx.x)
#define BARRIER __syncthreads()
#define W 32
#define SUBSUM(v) subsum(v)
#define BOOL(v) (v)
#define LOADH(x, i) __half2float(x[i])
#define STOREH(x, i, v) x[i] = __float2half_rn(v)
__device__ __forceinline__ float subsum(float v) {
  for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}
"""
    for e in case.entries:
        head += f'extern "C" __global__ void __launch_bounds__({e.threads}) {e.name}('
        arrays = [f"{'' if b.written else 'const '}{NAMES['cuda'][b.dtype]} *__restrict__ {b.name}" for b in case.bindings]
        head += ", ".join([*arrays, *(f"long long {size}" for size in case.sizes)]) + ") {\n"
        head += "".join(f"  __shared__ float {name}[{count}];\n" for name, count in e.shared) + e.body + "}\n"
    return head


def _metal(case: Case, subgroup: int) -> str:
    head = """#include <metal_stdlib>
using namespace metal;
#define INDEX long
#define BLOCK ((long)group.x + (long)group.y * groups.x)
#define THREAD ((int)thread_.x)
#define BARRIER threadgroup_barrier(mem_flags::mem_threadgroup)
#define W 32
#define SUBSUM(v) simd_sum(v)
#define BOOL(v) (v)
#define LOADH(x, i) float(x[i])
#define STOREH(x, i, v) x[i] = half(v)
"""
    for e in case.entries:
        parameters = [
            f"device {'' if b.written else 'const '}{NAMES['metal'][b.dtype]} *{b.name} [[buffer({place})]]"
            for place, b in enumerate(case.bindings)
        ]
        parameters += [
            f"constant long *size [[buffer({len(case.bindings)})]]",
            "uint3 group [[threadgroup_position_in_grid]]",
            "uint3 groups [[threadgroups_per_grid]]",
            "uint3 thread_ [[thread_position_in_threadgroup]]",
        ]
        head += f"kernel void {e.name}({', '.join(parameters)}) {{\n"
        head += "".join(f"  threadgroup float {name}[{count}];\n" for name, count in e.shared)
        head += "".join(f"  long {name} = size[{place}];\n" for place, name in enumerate(case.sizes)) + e.body + "}\n"
    return head


def _glsl(case: Case, subgroup: int) -> str:
    head = f"""#version 450
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define INDEX int
#define BLOCK int(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x)
#define THREAD int(gl_LocalInvocationID.x)
#define BARRIER barrier()
#define W {subgroup or 1}
#define SUBSUM(v) {"subgroupAdd(v)" if subgroup else "(v)"}
#define BOOL(v) ((v) ? 1u : 0u)
#define LOADH(x, i) float(x[i])
#define STOREH(x, i, v) x[i] = float16_t(v)
"""
    arrays = [(b.name, NAMES["glsl"][b.dtype], b.written) for b in case.bindings] + [("size", "int", False)]
    for place, (name, kind, written) in enumerate(arrays):
        access = "" if written else "readonly "
        head += f"layout(std430, set = 0, binding = {place}) {access}buffer B{place} {{ {kind} {name}[]; }};\n"
    for e in case.entries:
        head += f"#ifdef ENTRY_{e.name}\nlayout(local_size_x = {e.threads}) in;\n"
        head += "".join(f"shared float {name}[{count}];\n" for name, count in e.shared) + "void main() {\n"
        head += "".join(f"  int {name} = size[{place}];\n" for place, name in enumerate(case.sizes)) + e.body + "}\n#endif\n"
    return head


def _wgsl(case: Case, subgroup: int) -> str:
    uses_half = any(b.dtype == "float16" for b in case.bindings)
    head = "enable f16;\n" if uses_half else ""
    arrays = [(b.name, NAMES["wgsl"][b.dtype], b.written) for b in case.bindings] + [("size", "i32", False)]
    for place, (name, kind, written) in enumerate(arrays):
        access = "read_write" if written else "read"
        head += f"@group(0) @binding({place}) var<storage, {access}> {name}: array<{kind}>;\n"
    for e in case.entries:
        head += "".join(f"var<workgroup> {name}: array<f32, {count}>;\n" for name, count in e.shared)
        head += f"@compute @workgroup_size({e.threads})\nfn {e.name}(@builtin(workgroup_id) group: vec3<u32>, "
        head += "@builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32) {\n"
        head += "  let block = i32(group.x + group.y * groups.x); let thread = i32(local);\n"
        body = e.wgsl.replace("SUBSUM", "subgroupAdd" if subgroup else "").replace("W", str(subgroup or 1))
        head += body + "}\n"
    return head
