"""GLSL compute for Vulkan, 32-bit integers. One entry point a module: each is chosen by a macro ENTRY_name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tang_verified.backends.arithmetic import Arithmetic, Error
from tang_verified.backends.scalar import ScalarDialect
from tang_verified.backends.scopes import Type
from tang_verified.backends.simt import Entry
from tang_verified.backends.special import SHADER, SHADING
from tang_verified.semantics.kernel import Kernel

FUNCTIONS = """exp log sqrt sin cos tan tanh sinh cosh asin acos atan floor ceil pow"""

ARITHMETIC = Arithmetic(
    language="GLSL",
    document="Vulkan Specification, Precision of Individual Operations",
    rounding="to either of the two neighbours",
    contraction="wherever it stands",
    reassociation="never",
    subnormals="may be flushed to zero",
    special="may be assumed not to occur; what tells an empty state is made from bits",
    half="to either of the two neighbours; computed in float32",
    errors={
        **SHADER, **dict.fromkeys(("asin", "acos"), Error(note="as by atan2")), "tanh": Error(note="as sinh / cosh"),
    },
)  # fmt: skip


class GlslDialect(ScalarDialect):
    """Spells kernels in GLSL."""

    name = "GLSL"
    arithmetic = ARITHMETIC
    reserved = frozenset(
        f"""{FUNCTIONS} attribute const uniform varying buffer shared coherent volatile restrict readonly writeonly layout
        centroid flat smooth patch sample break continue do for while switch case default if else subroutine in out inout
        float double int void bool true false invariant precise discard return mat2 mat3 mat4 vec2 vec3 vec4 ivec2 ivec3 ivec4
        uint uvec2 uvec3 uvec4 lowp mediump highp precision struct common partition active asm class union enum typedef
        template this resource goto inline noinline public static extern external interface long short half fixed unsigned
        superp input output filter sizeof cast namespace using row_major max min abs sign round roundEven inversesqrt fma
        clamp mix step length distance dot cross normalize any all not equal main barrier block thread image sampler
        texture float16_t size""".split()
    )
    types: ClassVar = {"f32": "float", "i64": "int", "bool": "bool"}
    elements: ClassVar = {"float16": "float16_t", "float32": "float", "int32": "int", "bool": "uint"}
    functions: ClassVar = {
        **{name: name for name in FUNCTIONS.split()}, "round": "roundEven", "abs": "abs", "rsqrt": "inversesqrt",
    }  # fmt: skip
    infinity: ClassVar = {
        "inf": "uintBitsToFloat(0x7f800000u)", "-inf": "uintBitsToFloat(0xff800000u)", "nan": "uintBitsToFloat(0x7fc00000u)",
    }  # fmt: skip
    bits = 32
    flags = ("0u", "1u")

    def converted(self, text: str, to: str) -> str:
        return f"{to}({text})"

    def made(self, name: str, kind: Type) -> str | None:
        return SHADING[name](self, kind) if name in SHADING else super().made(name, kind)

    # Unsigned, for the remainder's sake: naga, through which the module goes, makes one of signed integers by a division
    # of floats, which NVIDIA's driver rounds below a whole number.
    def number(self, name: str, value: str) -> str:
        return f"const uint {name} = {value};"

    def narrow(self, extent: str) -> str:
        return f"{extent}u" if extent.isdigit() else f"uint({extent})"

    def index(self, name: str, value: str) -> str:
        return f"const int {name} = int({value});"

    def block_index(self) -> str:
        return "gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x"

    def thread_index(self) -> str:
        return "gl_LocalInvocationID.x"

    def barrier(self) -> str:
        return "barrier();"

    def module(self, kernel: Kernel, entries: Sequence[Entry]) -> str:
        lines = ["#version 450", f"// {kernel.name}: {' '.join(kernel.outputs)} of {kernel.program.name}."]
        if self.halves(entries):
            lines += ["#extension GL_EXT_shader_16bit_storage : require",
                      "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require"]  # fmt: skip
        arrays, sizes = entries[0].arrays, entries[0].sizes
        lines += [f"layout(set = 0, binding = {k}, std430) {'' if written else 'readonly '}buffer Buffer{k} "
                  f"{{ {self.element(dtype)} {name}[]; }};" for k, (name, dtype, written) in enumerate(arrays)]  # fmt: skip
        lines += [f"layout(set = 0, binding = {len(arrays)}, std430) readonly buffer Sizes {{ int size[]; }};", *self.helpers()]
        for entry in entries:
            lines += ["", f"#ifdef ENTRY_{entry.name}",
                      f"layout(local_size_x = {entry.threads}, local_size_y = 1, local_size_z = 1) in;"]  # fmt: skip
            lines += [f"shared {self.element(dtype)} {name}[{count}];" for name, dtype, count in entry.shared]
            lines += ["void main() {", *(f"  const int {name} = size[{k}];" for k, name in enumerate(sizes)), *entry.body]
            lines += ["}", "#endif"]
        return "\n".join([*lines, ""])
