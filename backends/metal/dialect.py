"""Metal Shading Language: `kernel` functions of scalar code. Compiled without fast-math."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tang_verified.backends.arithmetic import CORRECT, Arithmetic, Error
from tang_verified.backends.scalar import ScalarDialect
from tang_verified.backends.scopes import Type
from tang_verified.backends.simt import Entry
from tang_verified.backends.special import MADE, UNSTATED
from tang_verified.semantics.kernel import Kernel

FUNCTIONS = """exp log sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan floor ceil rint pow"""

ARITHMETIC = Arithmetic(
    language="Metal",
    document="Metal Shading Language Specification, Numerical Compliance, without fast math",
    rounding="to nearest, ties to even",
    contraction="wherever it stands",
    reassociation="never (fastMathEnabled false)",
    subnormals="may be flushed to zero",
    special="as IEEE 754 says (fastMathEnabled false)",
    half="to nearest, ties to even; computed in float32",
    errors={
        **dict.fromkeys(("a / b", "sqrt", "rsqrt"), CORRECT),
        **dict.fromkeys(("exp", "log", "sin", "cos", "sinh", "cosh", "asin", "acos"), Error(4)),
        **dict.fromkeys(("tanh", "atan"), Error(5)), "tan": Error(6), "pow": Error(16), **UNSTATED,
    },
)  # fmt: skip


class MetalDialect(ScalarDialect):
    """Spells kernels in Metal."""

    name = "Metal"
    arithmetic = ARITHMETIC
    reserved = frozenset(
        f"""{FUNCTIONS} alignas auto bool break case char class const constant constexpr continue decltype default delete device
        do double else enum explicit extern false float for fragment friend goto half if inline int kernel long mutable metal
        namespace new nullptr operator private protected public register return short signed sizeof static struct switch
        template this thread threadgroup true typedef typename union unsigned using vertex virtual void volatile while main
        max min abs fabs round fma clamp mix step sign select any all dot cross length distance normalize ushort uint ulong
        uchar size_t block size groups INFINITY NAN""".split()
    )
    types: ClassVar = {"f32": "float", "i64": "long", "bool": "bool"}
    elements: ClassVar = {"float16": "half", "float32": "float", "int32": "int", "int64": "long", "bool": "uchar"}
    functions: ClassVar = {**{name: name for name in FUNCTIONS.split()}, "round": "rint", "abs": "fabs"}
    infinity: ClassVar = {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}
    subgroup = 32
    vector_bytes = 16
    qualifier = "static inline "

    def made(self, name: str, kind: Type) -> str | None:
        return MADE[name](self, kind) if name in MADE else super().made(name, kind)

    def block_index(self) -> str:
        return "group.x + group.y * groups.x"

    def thread_index(self) -> str:
        return "local.x"

    def at(self, space: str, bits: str, array: str, offset: str) -> str:
        return f"*({'threadgroup' if space == 'shared' else 'device const'} {bits} *)&{array}[{offset}]"

    def exchange(self, text: str, step: int, kind: Type) -> str:
        return f"simd_shuffle_xor({text}, {step})"

    def barrier(self) -> str:
        return "threadgroup_barrier(mem_flags::mem_threadgroup);"

    def module(self, kernel: Kernel, entries: Sequence[Entry]) -> str:
        lines = [f"// {kernel.name}: {' '.join(kernel.outputs)} of {kernel.program.name}.",
                 "#include <metal_stdlib>", "using namespace metal;", *self.helpers()]  # fmt: skip
        for entry in entries:
            parameters = [f"device {'' if written else 'const '}{self.element(dtype)} *{name} [[buffer({k})]]"
                          for k, (name, dtype, written) in enumerate(entry.arrays)]  # fmt: skip
            parameters += [f"constant long *size [[buffer({len(entry.arrays)})]]",
                           "uint3 group [[threadgroup_position_in_grid]]", "uint3 groups [[threadgroups_per_grid]]",
                           "uint3 local [[thread_position_in_threadgroup]]"]  # fmt: skip
            lines += ["", f"kernel void {entry.name}({', '.join(parameters)}) {{"]
            lines += [f"  alignas(16) threadgroup {self.element(t)} {name}[{count}];" for name, t, count in entry.shared]
            lines += [f"  const long {name} = size[{k}];" for k, name in enumerate(entry.sizes)]
            lines += [*entry.body, "}"]
        return "\n".join([*lines, ""])
