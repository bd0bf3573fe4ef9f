"""WGSL: compute shaders of 32-bit integers. An implementation may assume that no infinity or nan occurs; so these are
made from bits that it cannot see at compile time and looked for in bits, and no operation whose result counts is given
one: of -inf, `max` and comparisons look at the bits, and what `exp(m - m')` gives for it is not selected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tang_verified.backends.arithmetic import Arithmetic, Error
from tang_verified.backends.scalar import ScalarDialect
from tang_verified.backends.scopes import Type
from tang_verified.backends.simt import Entry
from tang_verified.backends.special import SHADER, SHADING
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import DType

FUNCTIONS = """exp log sqrt sin cos tan tanh sinh cosh asin acos atan floor ceil pow round"""

ARITHMETIC = Arithmetic(
    language="WGSL",
    document="WebGPU Shading Language, Floating Point Evaluation",
    rounding="to either of the two neighbours",
    contraction="wherever it stands",
    reassociation="where the result is at least as accurate",
    subnormals="may be flushed to zero",
    special="may be assumed not to occur; what tells an empty state is made from bits",
    half="to either of the two neighbours; computed in float32",
    errors={
        **SHADER, **dict.fromkeys(("asin", "acos"), Error(absolute=6.77e-5, note="or as by atan2")),
        "tanh": Error(absolute=1e-5, note="or as sinh / cosh"),
    },
)  # fmt: skip


class WgslDialect(ScalarDialect):
    """Spells kernels in WGSL."""

    name = "WGSL"
    arithmetic = ARITHMETIC
    reserved = frozenset(
        f"""{FUNCTIONS} alias break case const const_assert continue continuing default diagnostic discard else enable false fn
        for if let loop override requires return struct switch true var while array atomic bool f16 f32 i32 u32 mat2x2 ptr
        vec2 vec3 vec4 sampler texture bitcast select abs max min sign inverseSqrt clamp fma mix step length distance dot
        cross normalize any all arrayLength storageBarrier workgroupBarrier workgroup storage read write private function
        uniform block thread size group groups local main NULL Self abstract active as async attribute auto await become
        cast catch class co_await common compile concept constexpr crate debugger decltype delete demote do enum explicit
        export extends extern external fallthrough filter final finally friend from get goto groupshared handle highp impl
        implements import inline instanceof interface layout lowp macro match mediump meta mod module move mut namespace new
        nil noexcept noinline null of operator package partition pass patch precise precision pub public ref regardless
        register resource restrict self set shared sizeof smooth snorm static std subroutine super target template this
        throw trait try type typedef typeid typename typeof union unless unorm unsafe unsized use using varying virtual
        volatile wgsl where with writeonly yield""".split()
    )
    types: ClassVar = {"f32": "f32", "i64": "i32", "bool": "bool"}
    elements: ClassVar = {"float16": "f16", "float32": "f32", "int32": "i32", "bool": "u32"}
    functions: ClassVar = {**{name: name for name in FUNCTIONS.split()}, "abs": "abs", "rsqrt": "inverseSqrt"}
    bits = 32
    flags = ("0u", "1u")

    def declare(self, kind: Type, name: str, value: str | None, constant: bool = False) -> str:
        given = "" if value is None else f" = {value}"
        return f"{'let' if constant else 'var'} {name}: {self.type(kind)}{given};"

    def choose(self, condition: str, a: str, b: str) -> str:
        return f"select({b}, {a}, {condition})"

    def converted(self, text: str, to: str) -> str:
        return f"{to}({text})"

    def special(self, name: str, kind: str) -> str:
        bits = {"inf": "0x7f800000u", "-inf": "0xff800000u", "nan": "0x7fc00000u"}[name]
        self.need("tv_from_bits", "fn tv_from_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }")
        return f"tv_from_bits({bits})"

    def operation(self, name: str, args: Sequence[str], have: Type, want: Type) -> str:
        """Comparison for equality with an infinity is one of bits."""
        infinite = [text for text in args if text.startswith("tv_from_bits(") and text.endswith("u)")]
        if name in ("eq", "ne") and len(infinite) == 1 and len(args) == 2:
            other = args[1] if args[0] == infinite[0] else args[0]
            bits = infinite[0].removeprefix("tv_from_bits(").removesuffix(")")
            return f"bitcast<u32>({other}) {'==' if name == 'eq' else '!='} {bits}"
        return super().operation(name, args, have, want)

    def made(self, name: str, kind: Type) -> str | None:
        if name in ("max", "min") and kind.kind == "f32":
            self.need("tv_is_nan", "fn tv_is_nan(a: f32) -> bool { return (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u; }")
            least = "0xff800000u" if name == "max" else "0x7f800000u"
            first = f"bitcast<u32>(b) == {least} || (bitcast<u32>(a) != {least} && a {'>' if name == 'max' else '<'} b)"
            return self.choose(f"tv_is_nan(a) || (!tv_is_nan(b) && ({first}))", "a", "b")
        return SHADING[name](self, kind) if name in SHADING else super().made(name, kind)

    def function(self, name: str, parameters: str, kind: Type, value: str) -> str:
        t = self.type(kind)
        return f"fn {name}({', '.join(f'{p}: {t}' for p in parameters)}) -> {t} {{ return {value}; }}"

    def loop(self, axis: str, extent: str, unroll: bool = False) -> str:
        return f"for (var {axis}: i32 = 0; {axis} < {extent}; {axis}++)"

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        return f"var {name}: array<{self.element(dtype)}, {max(count, 1)}>;"

    def number(self, name: str, value: str) -> str:
        return f"let {name}: i32 = {value};"

    def block_index(self) -> str:
        return "i32(group.x + group.y * groups.x)"

    def thread_index(self) -> str:
        return "i32(local)"

    def barrier(self) -> str:
        return "workgroupBarrier();"

    def module(self, kernel: Kernel, entries: Sequence[Entry]) -> str:
        lines = [f"// {kernel.name}: {' '.join(kernel.outputs)} of {kernel.program.name}."]
        if self.halves(entries):
            lines.insert(0, "enable f16;")
        arrays, sizes = entries[0].arrays, entries[0].sizes
        for k, (name, dtype, written) in enumerate(arrays):
            access = "read_write" if written else "read"
            lines.append(f"@group(0) @binding({k}) var<storage, {access}> {name}: array<{self.element(dtype)}>;")
        lines += [f"@group(0) @binding({len(arrays)}) var<storage, read> size: array<i32>;", *self.helpers()]
        for entry in entries:
            lines += [f"var<workgroup> {name}: array<{self.element(dtype)}, {count}>;" for name, dtype, count in entry.shared]
            lines += ["", f"@compute @workgroup_size({entry.threads}, 1, 1)",
                      f"fn {entry.name}(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, "
                      "@builtin(local_invocation_index) local: u32) {"]  # fmt: skip
            lines += [f"  let {name}: i32 = size[{k}];" for k, name in enumerate(sizes)]
            lines += [*entry.body, "}"]
        return "\n".join([*lines, ""])
