"""Printed texts with one thing wrong. Each names its base, what is replaced (the first place where it stands), and by what.
Numbers of temporaries (t51, s_4) stand for any: what is replaced is found with other numbers too, and keeps them. … is the rest of a line.

The reader must refuse every one and name the line, or a line that the named one's value comes from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .texts import text


@dataclass(frozen=True)
class Mutant:
    what: str
    base: str
    old: str
    new: str
    gone: bool = False  # nothing is left there that could be named

    def __str__(self) -> str:
        return self.what

    def made(self) -> tuple[str, int]:
        """The text, and the line of the change."""
        whole, known = text(self.base), {}
        pattern = ""
        for part in re.split(r"\b([ts]_?\d+)\b", self.old):
            name = f"n{len(known)}"
            if re.fullmatch(r"[ts]_?\d+", part) is None:
                pattern += re.escape(part).replace("…", "(?P<rest>[^\n]*)")
            elif part in known:
                pattern += f"(?P={known[part]})"
            else:
                known[part] = name
                pattern += rf"\b(?P<{name}>{part[0]}_?\d+)\b"
        found = re.search(pattern, whole)
        assert found is not None, f"{self.old!r} does not stand in {self.base}"
        new = re.sub(r"\b[ts]_?\d+\b", lambda m: found[known[m.group()]] if m.group() in known else m.group(), self.new)
        new = new.replace("…", found.groupdict().get("rest") or "")
        changed = whole[: found.start()] + new + whole[found.end() :]
        same = next((k for k, (a, b) in enumerate(zip(whole, changed, strict=False)) if a != b), min(len(whole), len(changed)))
        return changed, whole.count("\n", 0, same) + 1


PRIVATE = "      float state[1] __attribute__((aligned(64)));\n"
SHARED = f"""\
  #pragma omp parallel
  {{
    #pragma omp for …
    for (int64_t i0 = 0; i0 < n; ++i0) {{
{PRIVATE}"""
OPERATORS = [
    Mutant("a bound that its loop changes", "mean", "for (int64_t k_1 = 0; k_1 < t2; ++k_1) {", "int64_t h = t2; for (int64_t k_1 = 0; k_1 < h; ++k_1) { h = 1;"),
    Mutant("minus becomes plus", "softmax", "t51 - t53", "t51 + t53"),
    Mutant("operands exchanged", "softmax", "t51 - t53", "t53 - t51"),
    Mutant("plus becomes minus in a fold", "softmax", "s_4 = s_4 + t65", "s_4 = s_4 - t65"),
    Mutant("times becomes plus", "softmax", "t126 * splat", "t126 + splat"),
    Mutant("a division the other way round", "softmax", "1.0f / t127", "t127 / 1.0f"),
    Mutant("max becomes min", "softmax", "s = max_f32x16(s, t5)", "s = min_f32x16(s, t5)"),
    Mutant("exp becomes log", "softmax", "t55 = expf(t54)", "t55 = logf(t54)"),
    Mutant("float exp becomes double exp", "softmax", "t55 = expf(t54)", "t55 = exp(t54)"),
    Mutant("equal becomes not equal", "softmax", "t51 == (-__builtin", "t51 != (-__builtin"),
    Mutant("the other branch", "softmax", "(t52 ? 0.0f : t55)", "(t52 ? t55 : 0.0f)"),
    Mutant("a mask turned over", "softmax", "select_m32_f32x16(t3, t4", "select_m32_f32x16(~t3, t4"),
    Mutant("and becomes or", "matmul", "if (state && left && right)", "if (state || left && right)"),
    Mutant("a sign lost", "softmax", "const float t49 = state[0]", "const float t49 = -state[0]"),
    Mutant("sums in another order", "softmax", "s_4 + s_5", "s_4 + s_6"),
    Mutant("a fused sum", "softmax", "t118 = t117 + t114", "t118 = t117 + t117"),
]
LITERALS = [
    Mutant("a constant's last digit", "half", "0.1f", "0.2f"),
    Mutant("a constant in double precision", "half", "splat_f32x16(0.1f)", "splat_f32x16(0.1)"),
    Mutant("a constant one bit off", "half", "splat_f32x16(0.1f)", "splat_f32x16(0.100000009f)"),
    Mutant("an octal number", "softmax", "1024 * j_t", "02000 * j_t"),
    Mutant("another tile", "softmax", "t1 = 1024 * j_t", "t1 = 1023 * j_t"),
    Mutant("a finite number for minus infinity", "softmax", "state[0] = (-__builtin_inff())", "state[0] = (-1e9f)"),
    Mutant("plus infinity", "softmax", "state[0] = (-__builtin_inff())", "state[0] = __builtin_inff()"),
    Mutant("an identity changed", "softmax", "s_4 = splat_f32x16(0.0f)", "s_4 = splat_f32x16(1.0f)"),
    Mutant("an identity of another sign", "softmax", "s_4 = splat_f32x16(0.0f)", "s_4 = splat_f32x16((-0.0f))"),
    Mutant("an array too small", "softmax", "float next[1]", "float next[0]"),
    Mutant("a heap array too small", "matmul", "tv_times(tv_times(174, 512)", "tv_times(tv_times(173, 512)"),
    Mutant("lanes shifted further", "softmax", "t31, m32x16, 1, 2, 3", "t31, m32x16, 2, 2, 3"),
    Mutant("another lane", "softmax", "t48 = t47[0]", "t48 = t47[1]"),
    Mutant("a product of more than 32 bits", "softmax", "t1 = 1024 * j_t", "t1 = (65536 * 65536 - 4294966272) * j_t"),
    Mutant("a sum of more than 32 bits", "softmax", "t1 = 1024 * j_t", "t1 = (2147483647 + 1 - 2147482624) * j_t"),
    Mutant("a number of more than 64 bits", "softmax", "t1 = 1024 * j_t", "t1 = (18446744073709551616 - 18446744073709550592) * j_t"),
]
INDICES = [
    Mutant("index variables exchanged", "embedding", "t9 = i0 * d", "t9 = d * d"),
    Mutant("another row", "softmax", "t122 = i0 * m", "t122 = (i0 + 1) * m"),
    Mutant("another column", "softmax", "x + t122 + 32 * i1_b + 16", "x + t122 + 32 * i1_b + 15"),
    Mutant("a datum for an address", "softmax", "x + t122 + 32 * i1_b + 16", "x[t122 + 32 * i1_b + 16]"),
    Mutant("stored elsewhere", "softmax", "(t4_div + t122 + 32 * i1_b + 16) =", "(t4_div + t122 + 32 * i1_b) ="),
    Mutant("another stride", "softmax", "64 * k, t3)", "32 * k, t3)"),
    Mutant("another buffer", "softmax", "t49 = state[0]", "t49 = state2[0]"),
    Mutant("read from the output", "softmax", "*(const f32x16_u *)(x + t122", "*(const f32x16_u *)(t4_div + t122"),
    Mutant("a store into an input", "softmax", "*(f32x16_u *)(t4_div + t122 + 32 * i1_b) =", "*(f32x16_u *)(x + t122 + 32 * i1_b) ="),
    Mutant("two sizes exchanged", "softmax", "const int64_t n = size[0]", "const int64_t m = size[0]"),
    Mutant("a size twice", "softmax", "const int64_t m = size[1]", "const int64_t m = size[0]"),
    Mutant("two arrays exchanged", "softmax", "restrict x = array[0]", "restrict x = array[1]"),
]
BOUNDS = [
    Mutant("a loop too short", "softmax", "k < 16", "k < 15"),
    Mutant("a loop too long", "softmax", "i0 < n", "i0 < n + 1"),
    Mutant("a loop from one on", "softmax", "int64_t k = 0", "int64_t k = 1"),
    Mutant("a loop in steps of two", "softmax", "++k)", "k += 2)"),
    Mutant("a loop up to and with its end", "softmax", "k < 16", "k <= 16"),
    Mutant("another bound of a mask", "softmax", "below_m32x16(t2 + (-64) * k + m)", "below_m32x16(t2 + (-64) * k + n)"),
    Mutant("a whole vector too early", "softmax", "32 * i1_b + 31 < m", "32 * i1_b + 30 < m"),
    Mutant("a mask dropped from a store", "softmax", "store_float32_f32x16_if(t4_div + t122 + 32 * i1_b, t138, t134)", "*(f32x16_u *)(t4_div + t122 + 32 * i1_b) = t138"),
    Mutant("a mask dropped from a load", "softmax", "load_float32_f32x16_if(x + t0 + t1 + 64 * k, t3)", "*(const f32x16_u *)(x + t0 + t1 + 64 * k)"),
    Mutant("a load under another mask", "softmax", "64 * k + 16, t8)", "64 * k + 16, t3)"),
    Mutant("an index loaded though no row needs it", "embedding", "if (any_m32x16(t15))", "if (!any_m32x16(t15))"),
    Mutant("a gather that is not checked", "embedding", "int t3 = 0", "int t3 = 1"),
]
STATEMENTS = [
    Mutant("a store left out", "softmax", "next[0] = t50;", ""),
    Mutant("a store twice", "softmax", "next[0] = t50;", "next[0] = t50; next[0] = t50;"),
    Mutant("an update left out", "softmax", "s_4 = s_4 + t65;", "", gone=True),
    Mutant("an update twice", "softmax", "s_4 = s_4 + t65;", "s_4 = s_4 + t65; s_4 = s_4 + t65;"),
    Mutant("a value from before the update", "softmax", "const float t124 = state[0];", "const float t124 = t51;"),
    Mutant("a stale maximum", "softmax", "const float t119 = next[0];", "const float t119 = state[0];"),
    Mutant("an early return", "softmax", "state[0] = t119;", "state[0] = t119; return 0;"),
    Mutant("a jump", "softmax", "state[0] = t119;", "state[0] = t119; break;"),
    Mutant("a call", "softmax", "state[0] = t119;", "state[0] = t119; system(0);"),
    Mutant("an array given back early", "matmul", "const int64_t t178", "free(right); const int64_t t178"),
    Mutant("an array not given back", "matmul", "    free(left);\n", ""),
    Mutant("no memory, and no word of it", "matmul", "failed = 1;", ";"),
    Mutant("no memory, reported without order", "matmul", "#pragma omp atomic write\n", "\n"),
    Mutant("failure hidden", "softmax", "return failed;", "return 0;"),
    Mutant("an assignment in a condition", "softmax", "if (32 * i1_b + 31 < m)", "if (i1_b = 31 < m)"),
]
PARALLEL = [
    Mutant("a sequential loop in parallel", "softmax", "for (int64_t j_t", "#pragma omp for schedule(dynamic)\n      for (int64_t j_t"),
    Mutant("shares of something else", "matmul", "schedule(dynamic", "schedule(dynamic, 1 + t0 * t0 / 256"),
    Mutant("shares of nothing", "matmul", "schedule(dynamic", "schedule(dynamic, 0"),
    Mutant("one loop too many at once", "matmul", "collapse(2)", "collapse(3)"),
    Mutant("a buffer shared by workers", "softmax", SHARED, PRIVATE + SHARED.removesuffix(PRIVATE)),
    Mutant("a pragma with a clause", "softmax", "#pragma omp parallel\n", "#pragma omp parallel shared(n)\n"),
    Mutant("another pragma", "softmax", "  #pragma omp parallel\n", "  #pragma GCC optimize(\"fast-math\")\n  #pragma omp parallel\n"),
    Mutant("a promise about aliasing", "softmax", "const float *restrict x", "const float *x"),
    Mutant("an input that may be written", "softmax", "const float *restrict x", "float *restrict x"),
]
TYPES = [
    Mutant("a narrow index", "softmax", "const int64_t t122", "const int t122"),
    Mutant("a narrow counter", "softmax", "for (int64_t i1_b", "for (int i1_b"),
    Mutant("float for double", "mean", "const double t96", "const float t96"),
    Mutant("a double constant in single precision", "mean", "s = splat_f64x8(0.0)", "s = splat_f64x8(0.0f)"),
    Mutant("another element type", "half", "uint16_t *restrict x", "int16_t *restrict x"),
    Mutant("a half read as it lies", "half", "load_float16_f32x16_if(x", "load_float32_f32x16_if(x"),
    Mutant("a cast", "softmax", "t53 = next[0]", "t53 = (int64_t)next[0]"),
    Mutant("another count of lanes", "softmax", "const f32x16 t123", "const f32x8 t123"),
    Mutant("unsigned", "softmax", "const int64_t t121", "const uint64_t t121"),
]
LANES = [
    Mutant("another lane in a loop over lanes", "lanewise", "t3[lane_1] = t6;", "t3[lane_1] = t6 + t3[0];"),
    Mutant("always one lane", "lanewise", "t3[lane_1] = t6;", "t3[0] = t6;"),
    Mutant("another lane's condition", "lanewise", "if (t12[lane_3]) {", "if (t12[0]) {"),
    Mutant("the condition of a lane's load dropped", "lanewise", "if (t12[lane_3]) {", "if (1) {"),
    Mutant("a lane too few", "lanewise", "lane_1 < 16", "lane_1 < 15"),
    Mutant("another vector", "lanewise", "t7[lane_2] = t9;", "t3[lane_2] = t9;", gone=True),
    Mutant("rounded on the way", "mean", "t164 = t96 / t163", "t164 = (double)(float)t96 / t163"),
    Mutant("a zero of another precision", "softmax", "state2[0] = 0.0f;", "state2[0] = 0.0;"),
]
HELPERS = [
    Mutant("a digit of exp", "softmax", "0x1.5558c6p-5f", "0x1.5558c7p-5f"),
    Mutant("a digit of a mask", "softmax", "bound > 16 ? 16", "bound > 16 ? 15"),
    Mutant("max that forgets nan", "softmax", "a > b || a != a ? a : b", "a > b ? a : b"),
    Mutant("a load of one lane less", "softmax", "l < 16; ++l) if (mask[l]) x[l]", "l < 15; ++l) if (mask[l]) x[l]"),
    Mutant("the processor's own branch of a helper", "softmax", "_mm512_mask_storeu_ps(p, _mm512", "_mm512_mask_storeu_ps(p + 1, _mm512"),
    Mutant("an aligned vector", "softmax", "aligned(4), may_alias", "aligned(64), may_alias"),
    Mutant("a helper of one's own", "softmax", "\nint t4_div(", "\nstatic inline float helper(float x) { return x; }\n\nint t4_div("),
    Mutant("a helper that runs by itself", "softmax", "\nint t4_div(", "\n__attribute__((constructor)) static void run(void) { abort(); }\n\nint t4_div("),
    Mutant("a helper left out", "softmax", "typedef int32_t m32x16 __attribute__((vector_size(64)));\n\n", ""),
    Mutant("a helper twice", "softmax", "typedef int32_t m32x16 __attribute__((vector_size(64)));\n", "typedef int32_t m32x16 __attribute__((vector_size(64)));\n\ntypedef int32_t m32x16 __attribute__((vector_size(64)));\n"),
]
TRICKS = [
    Mutant("a macro", "softmax", "#include <math.h>", "#define expf logf\n#include <math.h>"),
    Mutant("a macro in the body", "softmax", "  #pragma omp parallel\n", "  #define t51 t53\n  #pragma omp parallel\n"),
    Mutant("a macro after the includes", "softmax", "#include <string.h>\n", "#include <string.h>\n#define max_f32 fminf\n"),
    Mutant("another include", "softmax", "#include <string.h>\n", "#include \"/tmp/evil.h\"\n"),
    Mutant("a condition of the preprocessor", "softmax", "      state[0] = (-__builtin_inff());\n", "#if 0\n      state[0] = (-__builtin_inff());\n#endif\n"),
    Mutant("a comment that ends early", "softmax", "/* t4_div:", "/* */ int x; /* t4_div:"),
    Mutant("a comment in the body", "softmax", "state[0] = t119;", "/* state[0] = t119; */"),
    Mutant("a comment of one line", "softmax", "state[0] = t119;", "// state[0] = t119;"),
    Mutant("a line that goes on", "softmax", "state[0] = t119;", "state[0] = \\\nt119;"),
    Mutant("a trigraph", "softmax", "state[0] = t119;", "state??(0] = t119;"),
    Mutant("a digraph", "softmax", "state[0] = t119;", "state<:0] = t119;"),
    Mutant("a letter that looks alike", "softmax", "state[0] = t119;", "st\u0430te[0] = t119;"),
    Mutant("an invisible letter", "softmax", "state[0] = t119;", "state\u200b[0] = t119;"),
    Mutant("a tab", "softmax", "state[0] = t119;", "state[0]\t= t119;"),
    Mutant("a form feed", "softmax", "state[0] = t119;", "state[0]\f= t119;"),
    Mutant("a return of the carriage", "softmax", "state[0] = t119;", "state[0] = t119;\r"),
    Mutant("a name that hides another", "softmax", "const float t124 = state[0];", "const float x = state[0];"),
    Mutant("a name that hides a helper", "softmax", "const float t124 = state[0];", "const float exp_f32x16 = state[0];"),
    Mutant("a comma", "softmax", "t53 = next[0]", "t53 = (0, next[0])"),
    Mutant("a side effect", "softmax", "64 * k, t3)", "64 * k++, t3)"),
    Mutant("an expression as a statement block", "softmax", "t53 = next[0]", "t53 = ({ next[0]; })"),
    Mutant("a string", "softmax", "t53 = next[0]", "t53 = *(float *)\"abcd\""),
    Mutant("assembly", "softmax", "state[0] = t119;", "state[0] = t119; asm(\"\");"),
    Mutant("a second function", "softmax", "  return failed;\n}\n", "  return failed;\n}\n\nint more(void) { return 0; }\n"),
    Mutant("another name of the function", "softmax", "int t4_div(", "int t5_div("),
    Mutant("another kernel's text", "softmax", "void *const *array) {", "void **array) {"),
    Mutant("an attribute", "softmax", "\nint t4_div(", "\n__attribute__((weak)) int t4_div("),
    Mutant("the end cut off", "softmax", "  return failed;\n}\n", ""),
]  # fmt: skip
MEMORY = [
    Mutant("halves taken for floats", "half", "load_float16_f32x16_if(x + 32 * i0_b + t1, t2)", "*(const f32x16_u *)(x + 32 * i0_b + t1)"),
    Mutant("floats taken for doubles", "wider", "load_float32_f64x8(x + 16 * i0_b + t1)", "*(const f64x8_u *)(x + 16 * i0_b + t1)"),
    Mutant("32 bits taken for 64", "doubled", "load_int32_i64x16(x + 32 * i0_b + t1)", "*(const i64x16_u *)(x + 32 * i0_b + t1)"),
    Mutant("64 bits stored as 32", "doubled", "store_int32_i64x16(t0_add + 32 * i0_b + t1, t3);", "*(i64x16_u *)(t0_add + 32 * i0_b + t1) = t3;"),
    Mutant("flags taken for masks", "half", "load_bool_m32x16(keep + 32 * i0_b + t1)", "*(const m32x16_u *)(keep + 32 * i0_b + t1)"),
    Mutant("integers' bits taken for doubles", "real", "__builtin_convertvector(t2, f64x8)", "(f64x8)(t2)"),
    Mutant("a quotient that overflows", "wider", "floordiv_i64(n + 511, 512)", "floordiv_i64(floordiv_i64(n + 511, 512) * 4611686018427387904, 4611686018427387904)"),
    Mutant("a guard that overflows", "wider", "if (16 * i0_b + t1 + 15 < n)", "if ((16 * i0_b + t1 + 15) * 4611686018427387904 < n * 4611686018427387904)"),
    Mutant("a mask that overflows", "wider", "below_m64x8((-16) * i0_b + t4 + n)", "below_m64x8(floordiv_i64(((-16) * i0_b + t4 + n) * 4611686018427387904, 4611686018427387904))"),
    Mutant("a quotient by zero", "wider", "const int64_t t1 = 512 * i0_t;", "const int64_t t1 = 512 * i0_t; const int64_t q = floordiv_i64(n, n - n);"),
]  # fmt: skip
MUTANTS = [*MEMORY, *OPERATORS, *LITERALS, *INDICES, *BOUNDS, *STATEMENTS, *PARALLEL, *TYPES, *LANES, *HELPERS, *TRICKS]
