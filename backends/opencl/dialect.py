"""OpenCL C 1.2: `__kernel` functions of scalar code; half is a storage format only (vload_half, vstore_half)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tang_verified.backends.arithmetic import Arithmetic, Error
from tang_verified.backends.scalar import ScalarDialect
from tang_verified.backends.scopes import Type
from tang_verified.backends.simt import Entry
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import DType

FUNCTIONS = """exp log log1p expm1 sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan erf floor ceil pow"""

ALIGNED = "__attribute__((aligned(16)))"
ARITHMETIC = Arithmetic(
    language="OpenCL C",
    document="The OpenCL Specification 1.2, section 7.4 (full profile)",
    rounding="to nearest, ties to even",
    contraction="never (FP_CONTRACT OFF, no -cl-mad-enable)",
    reassociation="never (no -cl-fast-relaxed-math, no -cl-unsafe-math-optimizations)",
    subnormals="kept or flushed to zero, as the device does (CL_FP_DENORM)",
    special="as IEEE 754 says (no -cl-finite-math-only)",
    half="to nearest, ties to even (vstore_half); computed in float32",
    errors={
        "a / b": Error(2.5, note="(0.5 with -cl-fp32-correctly-rounded-divide-sqrt, where the device has it)"),
        "sqrt": Error(3, note="(likewise 0.5)"),
        **dict.fromkeys(("rsqrt", "log1p"), Error(2)), **dict.fromkeys(("exp", "log", "expm1"), Error(3)),
        **dict.fromkeys(("sin", "cos", "sinh", "cosh", "asin", "acos"), Error(4)),
        **dict.fromkeys(("tan", "tanh", "atan"), Error(5)), **dict.fromkeys(("erf", "pow"), Error(16)),
    },
    double="a / b and sqrt correctly rounded, functions within the same ulp",
)  # fmt: skip


class OpenCLDialect(ScalarDialect):
    """Spells kernels in OpenCL C."""

    name = "OpenCL C"
    arithmetic = ARITHMETIC
    reserved = frozenset(
        f"""{FUNCTIONS} auto break case char const continue default do double else enum extern float for goto half if inline int
        long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool
        uchar ushort uint ulong size_t ptrdiff_t event_t image sampler_t kernel global local constant private barrier main
        rint fabs abs max min mad fma mix step sign select any all dot cross length distance normalize degrees radians clamp
        INFINITY NAN half2 get block thread printf pipe""".split()
    )
    types: ClassVar = {"f32": "float", "f64": "double", "i64": "long", "bool": "bool"}
    elements: ClassVar = {
        "float16": "half", "float32": "float", "float64": "double", "int32": "int", "int64": "long", "bool": "uchar",
    }  # fmt: skip
    functions: ClassVar = {**{name: name for name in FUNCTIONS.split()}, "round": "rint", "abs": "fabs"}
    infinity: ClassVar = {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}
    vector_bytes = 16
    qualifier = "static inline "

    def load(self, dtype: DType, array: str, offset: str, kind: Type) -> str:
        return f"vload_half({offset}, {array})" if dtype == "float16" else super().load(dtype, array, offset, kind)

    def store(self, dtype: DType, array: str, offset: str, value: str, kind: Type) -> str:
        if dtype == "float16":
            return f"vstore_half({value}, {offset}, {array});"
        return super().store(dtype, array, offset, value, kind)

    def at(self, space: str, bits: str, array: str, offset: str) -> str:
        return f"*({'__local' if space == 'shared' else '__global const'} {bits} *)&{array}[{offset}]"

    def block_index(self) -> str:
        return "get_group_id(0) + get_group_id(1) * get_num_groups(0)"

    def thread_index(self) -> str:
        return "get_local_id(0)"

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE);"

    def module(self, kernel: Kernel, entries: Sequence[Entry]) -> str:
        lines = [f"/* {kernel.name}: {' '.join(kernel.outputs)} of {kernel.program.name}. */", "#pragma OPENCL FP_CONTRACT OFF"]
        if "double" in " ".join(self.helpers()) or any("float64" in (d for _, d, _ in e.arrays) for e in entries):
            lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        lines += self.helpers()
        for entry in entries:
            parameters = [f"__global {'' if written else 'const '}{self.element(dtype)} *restrict {name}"
                          for name, dtype, written in entry.arrays]  # fmt: skip
            parameters += [f"const long {name}" for name in entry.sizes]
            lines += ["", f"__kernel __attribute__((reqd_work_group_size({entry.threads}, 1, 1)))",
                      f"void {entry.name}({', '.join(parameters)}) {{"]  # fmt: skip
            lines += [f"  __local {self.element(dtype)} {name}[{count}] {ALIGNED};" for name, dtype, count in entry.shared]
            lines += [*entry.body, "}"]
        return "\n".join([*lines, ""])
