"""CUDA C++: `__global__` functions of scalar code, compiled by NVRTC or nvcc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tang_verified.backends.arithmetic import CORRECT, Arithmetic, Error
from tang_verified.backends.scalar import ScalarDialect
from tang_verified.backends.scopes import Type
from tang_verified.backends.simt import Entry
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import DType

FUNCTIONS = """exp log log1p expm1 sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan erf floor ceil pow"""

ARITHMETIC = Arithmetic(
    language="CUDA C++",
    document="CUDA C++ Programming Guide, Mathematical Functions (full range)",
    rounding="to nearest, ties to even",
    contraction="wherever it stands (-fmad=true, the default)",
    reassociation="never (no -use_fast_math)",
    subnormals="kept (-ftz=false, the default)",
    special="as IEEE 754 says",
    half="to nearest, ties to even (__float2half_rn); computed in float32",
    errors={
        **dict.fromkeys(("a / b", "sqrt"), CORRECT), **dict.fromkeys(("log", "log1p", "expm1"), Error(1)),
        **dict.fromkeys(("exp", "rsqrt", "sin", "cos", "tanh", "cosh", "atan", "erf"), Error(2)),
        **dict.fromkeys(("sinh", "acos"), Error(3)), **dict.fromkeys(("tan", "asin", "pow"), Error(4)),
    },
    double="a / b and sqrt correctly rounded, functions within the same ulp",
)  # fmt: skip


class CudaDialect(ScalarDialect):
    """Spells kernels in CUDA C++."""

    name = "CUDA C++"
    arithmetic = ARITHMETIC
    reserved = frozenset(
        f"""{FUNCTIONS} alignas alignof and asm auto bool break case catch char class const constexpr continue decltype default
        delete do double else enum explicit export extern false float for friend goto half if inline int long mutable namespace
        new noexcept not nullptr operator or private protected public register return short signed sizeof static struct switch
        template this throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor main
        max min abs fabs rint size_t blockIdx threadIdx gridDim blockDim warpSize {' '.join(f + 'f' for f in FUNCTIONS.split())}
        j0 j1 jn y0 y1 yn printf block thread""".split()
    )
    types: ClassVar = {"f32": "float", "f64": "double", "i64": "long long", "bool": "bool"}
    elements: ClassVar = {
        "float16": "__half", "float32": "float", "float64": "double", "int32": "int", "int64": "long long",
        "bool": "unsigned char",
    }  # fmt: skip
    functions: ClassVar = {**{name: name for name in FUNCTIONS.split()}, "round": "rint", "abs": "fabs"}
    infinity: ClassVar = {
        "inf": "__int_as_float(0x7f800000)", "-inf": "__int_as_float(0xff800000)", "nan": "__int_as_float(0x7fffffff)",
    }  # fmt: skip
    qualifier = "static __device__ __forceinline__ "

    def library(self, name: str, kind: Type) -> str:
        return super().library(name, kind) + ("f" if kind.kind == "f32" else "")

    def load(self, dtype: DType, array: str, offset: str, kind: Type) -> str:
        return f"__half2float({array}[{offset}])" if dtype == "float16" else super().load(dtype, array, offset, kind)

    def store(self, dtype: DType, array: str, offset: str, value: str, kind: Type) -> str:
        if dtype == "float16":
            return f"{array}[{offset}] = __float2half_rn({value});"
        return super().store(dtype, array, offset, value, kind)

    def block_index(self) -> str:
        return "(long long)blockIdx.x + (long long)blockIdx.y * gridDim.x"

    def thread_index(self) -> str:
        return "threadIdx.x"

    def barrier(self) -> str:
        return "__syncthreads();"

    def module(self, kernel: Kernel, entries: Sequence[Entry]) -> str:
        lines = [f"// {kernel.name}: {' '.join(kernel.outputs)} of {kernel.program.name}."]
        if any("float16" in (dtype for _, dtype, _ in (*e.arrays, *e.shared)) for e in entries):
            lines.append("#include <cuda_fp16.h>")
        lines += self.helpers()
        for entry in entries:
            parameters = [f"{'' if written else 'const '}{self.element(dtype)} *__restrict__ {name}"
                          for name, dtype, written in entry.arrays]  # fmt: skip
            parameters += [f"const long long {name}" for name in entry.sizes]
            lines += ["", f'extern "C" __global__ void __launch_bounds__({entry.threads})',
                      f"{entry.name}({', '.join(parameters)}) {{"]  # fmt: skip
            lines += [f"  __shared__ {self.element(dtype)} {name}[{count}];" for name, dtype, count in entry.shared]
            lines += [*entry.body, "}"]
        return "\n".join([*lines, ""])
