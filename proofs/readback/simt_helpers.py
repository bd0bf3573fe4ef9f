"""The helper functions at the head of a GPU text: known by name, accepted only letter by letter. Believed: see TRUSTED.md.

tv_max_float  ->  static inline float tv_max_float(float a, float b) { return (a > b || a != a ? a : b); }

Each is one expression, spelled in the language's own words: `chosen` is its conditional, `function` its definition.
"""

from __future__ import annotations

import re

from tang_verified.proofs.readback import warpgroup
from tang_verified.proofs.readback.simt_language import Language

BINARY = ("max", "min", "floordiv", "mod", "sub0", "div0", "pow")
UNARY = ("abs", "erf", "log1p", "expm1")
REST = "a - a / b * b"
NEAR = ("-0.000854832701f", "0.00522397762f", "-0.0268661706f", "0.112837917f", "-0.376126389f", "1.12837917f")
FAR = (
    "-0.82215223", "1.48851587", "-1.13520398", "0.27886807", "-0.18628806", "0.09678418", "0.37409196", "1.00002368",
    "-1.26551223",
)  # fmt: skip
COPY = """\
static __device__ __forceinline__ void cp_async_BYTES(void *to, const void *from) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.WAY.shared.global [%0], [%1], BYTES;" :: "r"(address), "l"(from) : "memory");
}"""
WAYS = {"4": "ca", "8": "ca", "16": "cg"}
LARGER = """\
static __device__ __forceinline__ float tv_NAME_float(float a, float b) {
  float c;
  asm("NAME.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}"""
CUDA = {
    **{f"tv_{name}_float": LARGER.replace("NAME", name) for name in ("max", "min")},
    **{f"cp_async_{size}": COPY.replace("BYTES", size).replace("WAY", way) for size, way in WAYS.items()},
    **warpgroup.HELPERS,
    "cp_async_commit": """\
static __device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}""",
    "cp_async_wait": """\
template <int keep> static __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(keep) : "memory");
}""",
    "tv_pair": """\
static __device__ __forceinline__ unsigned tv_pair(__half low, __half high) {
  return (unsigned)__half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
}""",
    "mma_m16n8k16": """\
static __device__ __forceinline__ void mma_m16n8k16(float &c0, float &c1, float &c2, float &c3,
    unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}""",
}  # fmt: skip
WGSL = {
    "tv_from_bits": "fn tv_from_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }",
    "tv_is_nan": "fn tv_is_nan(a: f32) -> bool { return (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u; }",
}
WHOLE = {"cuda": CUDA, "wgsl": WGSL}
NAME = re.compile(r"\b((?:tv|cp|mma|wgmma|barrier)_\w+)\(")


def meaning(language: Language, name: str) -> tuple[str, str] | None:
    """The operation of a helper's name and the type that it is for: tv_floordiv_long -> floordiv, i64."""
    for kind, spelled in language.spelled.items():
        operation = name.removeprefix("tv_").removesuffix("_" + spelled.replace(" ", "_"))
        if name == f"tv_{operation}_{spelled.replace(' ', '_')}" and operation in (*BINARY, *UNARY):
            return operation, kind
    return None


def known(language: Language, name: str) -> str | None:
    """The text that a helper of that name has."""
    if name in WHOLE.get(language.name, {}):
        return WHOLE[language.name][name]
    found = meaning(language, name)
    if found is None:
        return None
    operation, kind = found
    body = _body(language, operation, kind)
    return None if body is None else _function(language, name, "ab" if operation in BINARY else "a", kind, body)


def _function(language: Language, name: str, parameters: str, kind: str, value: str) -> str:
    t = language.spelled[kind]
    if language.name == "wgsl":
        return f"fn {name}({', '.join(f'{p}: {t}' for p in parameters)}) -> {t} {{ return {value}; }}"
    return f"{language.qualifier}{t} {name}({', '.join(f'{t} {p}' for p in parameters)}) {{ return {value}; }}"


def _chosen(language: Language, condition: str, a: str, b: str) -> str:
    return f"select({b}, {a}, {condition})" if language.name == "wgsl" else f"({condition} ? {a} : {b})"


def _body(language: Language, operation: str, kind: str) -> str | None:
    real = kind != "i64"
    zero = {"f32": "0.0f", "f64": "0.0", "i64": "0"}[kind]
    match operation:
        case "max" | "min":
            sign = ">" if operation == "max" else "<"
            if language.name == "wgsl" and real:
                least = "0xff800000u" if operation == "max" else "0x7f800000u"
                first = f"bitcast<u32>(b) == {least} || (bitcast<u32>(a) != {least} && a {sign} b)"
                return _chosen(language, f"tv_is_nan(a) || (!tv_is_nan(b) && ({first}))", "a", "b")
            return _chosen(language, f"a {sign} b || a != a" if real else f"a {sign} b", "a", "b")
        case "abs" if not real:
            return _chosen(language, "a < 0", "-a", "a")
        case "sub0" if real:
            low = language.infinity
            return _chosen(language, f"a == {low} && b == {low}", low, "a - b")
        case "div0" if real:
            return _chosen(language, f"b == {zero}", zero, "a / b")
        case "floordiv" if not real:
            return f"a / b - {_chosen(language, f'{REST} != 0 && (a < 0) != (b < 0)', '1', '0')}"
        case "mod" if not real:
            return f"{REST} + {_chosen(language, f'{REST} != 0 && (a < 0) != (b < 0)', 'b', '0')}"
        case "erf" if kind == "f32" and language.short:
            t, poly, near = "(1.0f / (1.0f + 0.5f * abs(a)))", "(0.17087277f)", "0.000120553327f"
            for c in FAR:
                poly = f"({c}f + {t} * {poly})"
            for c in NEAR:
                near = f"({c} + a * a * {near})"
            far = f"1.0f - {t} * exp(-a * a + {poly})"
            return _chosen(language, "abs(a) < 0.5f", f"a * {near}", _chosen(language, "a < 0.0f", f"-({far})", far))
        case "log1p" if kind == "f32" and language.short:
            far = _chosen(language, "a > 33554432.0f", "log(a)", "log(1.0f + a) * (a / ((1.0f + a) - 1.0f))")
            return _chosen(language, "1.0f + a == 1.0f", "a", far)
        case "pow" if kind == "f32" and "pow" not in language.functions:
            nan = "tv_from_bits(0x7fc00000u)" if language.name == "wgsl" else "uintBitsToFloat(0x7fc00000u)"
            size = _chosen(language, "abs(a) == 1.0f", "1.0f", "pow(abs(a), b)")
            whole = _chosen(language, "floor(b) == b || a < -3.4028234e38f", size, nan)
            below = _chosen(language, "b - 2.0f * floor(0.5f * b) == 1.0f", f"-{size}", whole)
            zero = _chosen(language, "b > 0.0f", "0.0f", _chosen(language, "b < 0.0f", "1.0f / abs(a)", "b"))
            other = _chosen(language, "a == 0.0f", zero, _chosen(language, "a < 0.0f", below, size))
            return _chosen(language, "b == 0.0f", "1.0f", other)
        case "expm1" if kind == "f32" and language.short:
            low = _chosen(language, "exp(a) - 1.0f == -1.0f", "-1.0f", "(exp(a) - 1.0f) * a / log(exp(a))")
            return _chosen(language, "exp(a) == 1.0f", "a", _chosen(language, "a > 80.0f", "exp(a)", low))
        case _:
            return None
