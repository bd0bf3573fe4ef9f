"""CUDA C++: `__global__` functions of scalar code, compiled by NVRTC or nvcc."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from tang_verified.backends.arithmetic import CORRECT, Arithmetic, Error
from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.scalar import ScalarDialect
from tang_verified.backends.scopes import Type
from tang_verified.backends.simt import Entry
from tang_verified.proofs.readback import simt_helpers, warpgroup
from tang_verified.semantics.kernel import Kernel, shared_bytes
from tang_verified.semantics.program import BYTES, DType

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
        "mma": Error(note="products of float16 are exact; no document states how their float32 sums are rounded"),
    },
    double="a / b and sqrt correctly rounded, functions within the same ulp",
)  # fmt: skip
HELPERS = simt_helpers.CUDA  # those in assembly: letter by letter what the reader knows
REGISTERS = 1 << 16  # of a multiprocessor


def resident(entry: Entry) -> int:
    """Blocks that a multiprocessor should hold at a time. Rows in registers: not all buffers live at once, so a thread does
    with a few less than they take; nvcc is told so, for it would rather have as many as there are."""
    return min(16, max(1, REGISTERS // (entry.threads * (entry.words - 16)))) if entry.words >= 80 else 1


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
    types: ClassVar = {"f16": "__half", "f32": "float", "f64": "double", "i64": "long long", "bool": "bool"}
    elements: ClassVar = {
        "float16": "__half", "float32": "float", "float64": "double", "int32": "int", "int64": "long long",
        "bool": "unsigned char",
    }  # fmt: skip
    functions: ClassVar = {**{name: name for name in FUNCTIONS.split()}, "round": "rint", "abs": "fabs"}
    infinity: ClassVar = {
        "inf": "__int_as_float(0x7f800000)", "-inf": "__int_as_float(0xff800000)", "nan": "__int_as_float(0x7fffffff)",
    }  # fmt: skip
    subgroup = 32
    asynchronous = True
    vector_bytes = 16
    own_vectors = True
    unit = "mma.m16n8k16.f16.f32"
    qualifier = "static __device__ __forceinline__ "

    def helper(self, name: str) -> str:
        return self.need(name, HELPERS[name])

    def function(self, name: str, parameters: str, kind: Type, value: str) -> str:
        """One instruction for what takes three as an expression."""
        if name in ("tv_max_float", "tv_min_float"):
            return HELPERS[name]
        return super().function(name, parameters, kind, value)

    def library(self, name: str, kind: Type) -> str:
        return super().library(name, kind) + ("f" if kind.kind == "f32" else "")

    def load(self, dtype: DType, array: str, offset: str, kind: Type) -> str:
        return f"__half2float({array}[{offset}])" if dtype == "float16" else super().load(dtype, array, offset, kind)

    def store(self, dtype: DType, array: str, offset: str, value: str, kind: Type) -> str:
        if dtype == "float16":
            return f"{array}[{offset}] = __float2half_rn({value});"
        return super().store(dtype, array, offset, value, kind)

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        return f"__align__(16) {super().private_array(dtype, name, count)}"

    def block_index(self) -> str:
        return "blockIdx.x + blockIdx.y * gridDim.x"

    def thread_index(self) -> str:
        return "threadIdx.x"

    def exchange(self, text: str, step: int, kind: Type) -> str:
        return f"__shfl_xor_sync(0xffffffffu, {text}, {step})"

    def convert(self, text: str, have: Type, want: Type) -> str:
        if have.kind == "f16":
            return text if want.kind == "f16" else f"__half2float({text})"
        if want.kind != "f16":
            return super().convert(text, have, want)
        loaded = re.fullmatch(r"__half2float\((\w+\[[^\[\]]*\])\)", text)
        return loaded[1] if loaded else f"__float2half_rn({text})"

    def multiply(self, unit: str, c: Sequence[str], a: Sequence[str], b: Sequence[str]) -> str:
        self.helper("tv_pair")
        self.helper("mma_m16n8k16")
        pairs = [f"tv_pair({lo}, {hi})" for part in (a, b) for lo, hi in zip(part[::2], part[1::2], strict=True)]
        return f"mma_m16n8k16({', '.join([*c, *pairs])});"

    def move(
        self, dtype: DType, width: int, target: str, offset: str, source: str, place: str, condition: str | None, wait: bool
    ) -> str:
        if wait:
            return super().move(dtype, width, target, offset, source, place, condition, wait)
        size = width * BYTES[dtype]
        name = self.helper(f"cp_async_{size}")
        copy = f"{name}(&{target}[{offset}], &{source}[{place}]);"
        if condition is None:
            return copy
        bits = self.words(dtype, width)
        return f"if ({condition}) {copy} else {self.at('shared', bits, target, offset)} = {self.zero(bits)};"

    def put(self, dtype: DType, width: int, target: str, offset: str, source: str, place: str) -> str:
        """Not by an assignment: nvcc 13 was seen to split the first of several into scalars."""
        bits = self.words(dtype, width)
        return f"__stcg(({bits} *)&{target}[{offset}], {self.at('global', bits, source, place)});"

    def words(self, dtype: DType, width: int) -> str:
        if width == 1:
            return self.element(dtype)
        return "unsigned" if dtype == "float16" and width == 2 else super().words(dtype, width)

    def at(self, space: str, bits: str, array: str, offset: str) -> str:
        return f"*({'' if space == 'shared' else 'const '}{bits} *)&{array}[{offset}]"

    def zero(self, bits: str) -> str:
        return f"make_{bits}({', '.join('0' * int(bits[-1]))})" if bits[-1].isdigit() else "0"

    def commit(self) -> str:
        return f"{self.helper('cp_async_commit')}();"

    def wait(self, keep: int) -> str:
        return f"{self.helper('cp_async_wait')}<{keep}>();"

    def multiply_rows(self, unit: str, form: str, a: str, b: str, c: Sequence[str]) -> str:
        self.helper("tv_descriptor")
        return f"{self.helper(warpgroup.helper(unit, form))}({', '.join((a, b, *c))});"

    def swizzle(self, dtype: DType, cell: str) -> str:
        if dtype != "float16":
            raise Unsupported(f"{self.name}: no swizzled arrays of {dtype}")
        return f"{self.helper('tv_swizzle')}({cell})"

    def barrier(self, units: bool = False) -> str:
        return f"{self.helper('barrier_async')}();" if units else "__syncthreads();"

    def module(self, kernel: Kernel, entries: Sequence[Entry]) -> str:
        lines = [f"// {kernel.name}: {' '.join(kernel.outputs)} of {kernel.program.name}."]
        if self.halves(entries):
            lines.append("#include <cuda_fp16.h>")
        lines += self.helpers()
        for entry in entries:
            parameters = [f"{'' if written else 'const '}{self.element(dtype)} *__restrict__ {name}"
                          for name, dtype, written in entry.arrays]  # fmt: skip
            parameters += [f"const long long {name}" for name in entry.sizes]
            lines += ["", f'extern "C" __global__ void __launch_bounds__({entry.threads}, {resident(entry)})',
                      f"{entry.name}({', '.join(parameters)}) {{"]  # fmt: skip
            lines += self._dynamic(entry) if entry.swizzled else [
                f"  __shared__ __align__(16) {self.element(t)} {name}[{count}];" for name, t, count in entry.shared
            ]  # fmt: skip
            lines += [*entry.body, "}"]
        return "\n".join([*lines, ""])

    def _dynamic(self, entry: Entry) -> list[str]:
        """Arrays in the memory that the launch gives, as it may be more: the swizzled ones first, at multiples of 1024."""
        lines, end = ["  extern __shared__ __align__(1024) unsigned char tv_shared[];"], 0
        for name, dtype, count in sorted(entry.shared, key=lambda array: array[0] not in entry.swizzled):
            t = self.element(dtype)
            lines.append(f"  {t} (&{name})[{count}] = *({t} (*)[{count}])&tv_shared[{end}];")
            end += shared_bytes(dtype, count)
        return lines


class HopperDialect(CudaDialect):
    """For compute capability 9.0 alone: its units take operands from shared memory."""

    units = ("wgmma.m64n128k64.f16.f32",)
    stages = 3
    shared_bytes = 113 << 10  # two blocks a multiprocessor
