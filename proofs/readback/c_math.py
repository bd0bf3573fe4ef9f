"""exp, log, tanh and erf on vectors, as C text for any lane count.

    exp x  = 2^n (1 + r (1 + r P(r))),     n = round(x / log 2), r = x - n log 2, |r| <= log 2 / 2
    log x  = k log 2 + log(1 + f),         x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt 2
             float: f - f²/2 + f³ Q(f);    double: f - (f²/2 - s (f²/2 + s² R(s²))), s = f / (2 + f)
    tanh x = x + x³ T(x²) for |x| < 5/8,   else 1 - 2 / (exp 2|x| + 1) with the sign of x
    erf x  = x + x E(x²) for |x| < 1,      else 1 - exp(-L(|x|)) with the sign of x;  L = -log erfc

The polynomials are minimax for the relative error of the result (Remez exchange at 50 digits on this form). Largest
errors seen against 60 digits on dense samples, subnormals included, with FMA (tests/backends/test_c_math.py):
float exp 0.9, log 0.9, tanh 1.4, erf 1.1 ulp; double exp 0.9, log 0.8, tanh 1.4 ulp. exp is exactly 0 at -inf, keeps
subnormal results, overflows to +inf; nan passes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from tang_verified.proofs.readback import c_helpers as helpers
from tang_verified.proofs.readback.syntax import Kind as Type

FUNCTIONS = ("exp", "log", "tanh", "erf")
ULPS = {  # the largest error that is promised, and tested for, in units in the last place; what is not here, libm computes
    ("exp", "f32"): 0.95, ("log", "f32"): 1.1, ("tanh", "f32"): 1.6, ("erf", "f32"): 1.6,
    ("exp", "f64"): 0.95, ("log", "f64"): 1.1, ("tanh", "f64"): 1.6,
}  # fmt: skip
AVAILABLE = frozenset(ULPS)

COEFFICIENTS: dict[tuple[str, str], tuple[str, ...]] = {  # lowest degree first
    ("exp", "f32"): ("0x1.fffffcp-2", "0x1.55549p-3", "0x1.5558c6p-5", "0x1.123b4ap-7", "0x1.6a53a2p-10"),
    ("exp", "f64"): (
        "0x1.000000000000ap-1", "0x1.55555555554ffp-3", "0x1.55555555506abp-5", "0x1.1111111125fd0p-7",
        "0x1.6c16c18492404p-10", "0x1.a01a013603bebp-13", "0x1.a01998eae4ad8p-16", "0x1.71df067f28d59p-19",
        "0x1.28ae84c6e81d6p-22", "0x1.adb7a0fc31cacp-26",
    ),
    ("log", "f32"): (
        "0x1.555546p-2", "-0x1.000006p-2", "0x1.99a4f6p-3", "-0x1.555cccp-3", "0x1.23322cp-3", "-0x1.fc07c2p-4",
        "0x1.e72882p-4", "-0x1.defffep-4", "0x1.14ca4ap-4",
    ),
    ("log", "f64"): (
        "0x1.5555555555594p-1", "0x1.999999997f388p-2", "0x1.249249428c3c8p-2", "0x1.c71c5182fcce9p-3",
        "0x1.74665c1945eebp-3", "0x1.399ea1a7c7feep-3", "0x1.2f261abdf22efp-3",
    ),
    ("tanh", "f32"): ("-0x1.555532p-2", "0x1.110726p-3", "-0x1.b83c5ap-5", "0x1.52269ap-6", "-0x1.75e1cap-8"),
    ("tanh", "f64"): (
        "-0x1.55555555554ffp-2", "0x1.111111110accep-3", "-0x1.ba1ba1b5064ccp-5", "0x1.664f477adb101p-6",
        "-0x1.226e162bfe4a7p-7", "0x1.d6cf280f8cefbp-9", "-0x1.7d68a336d9601p-10", "0x1.3366130e02bc6p-11",
        "-0x1.df557ae2d2edfp-13", "0x1.439123dc38df2p-14", "-0x1.0da72c692fb57p-16",
    ),
    ("erf", "f32"): (
        "0x1.06eba800p-3", "-0x1.81273ep-2", "0x1.ce2cf8p-4", "-0x1.b7f90cp-6", "0x1.5405b2p-8", "-0x1.a3f7p-11",
        "0x1.496a3p-14",
    ),
    ("erfc", "f32"): (
        "-0x1.7ea512p-13", "0x1.212a52p+0", "0x1.443c48p-1", "0x1.bbd95p-4", "-0x1.9c6a32p-6", "0x1.12a6dep-8",
        "-0x1.cbd4e6p-12", "0x1.67cbe6p-16",
    ),
}  # fmt: skip


def definition(name: str, kind: Type) -> list[tuple[str, str]]:
    """The function and what it uses, as (name, text) in order of definition."""
    mask = Type("bool", kind.width, 64 if kind.kind == "f64" else 32)
    v, m = helpers.name_of(kind), helpers.name_of(mask)
    out = [(v, helpers.typedef(kind)), (m, helpers.typedef(mask)), *helpers.vector("select", kind._replace(bits=mask.bits))]
    out.append((f"clamp_{v}", clamp(kind)))
    if name in ("tanh", "erf"):
        out += definition("exp", kind)
    body = {"exp": _exp, "log": _log, "tanh": _tanh, "erf": _erf}[name](kind, v, m)
    return [*out, (f"{name}_{v}", body)]


def horner(coefficients: Sequence[str], variable: str, suffix: str) -> str:
    """Statements that leave the polynomial's value in p; the first needs a vector, hence 0·variable is avoided."""
    *rest, second, first = coefficients
    lines = [f"p = {variable} * {first}{suffix} + {second}{suffix};"]
    lines += [f"p = p * {variable} + {c}{suffix};" for c in reversed(rest)]
    return "\n  ".join(lines).replace("+ -", "- ")


def _suffix(kind: Type) -> str:
    return "f" if kind.kind == "f32" else ""


def clamp(kind: Type) -> str:
    """low <= x <= high, nan kept: the instructions return their second operand if either is nan."""
    v, t, m = helpers.name_of(kind), helpers.ELEMENT[kind.kind], f"m{64 if kind.kind == 'f64' else 32}"
    p, wide = ("ps", 16) if kind.kind == "f32" else ("pd", 8)
    ends = ", ".join(["low"] * kind.width), ", ".join(["high"] * kind.width)
    fast = ""
    for lanes, macro, bits in ((wide, "__AVX512F__", 512), (wide // 2, "__AVX__", 256)):
        if kind.width == lanes:
            call = f"_mm{bits}_max_{p}(a, _mm{bits}_min_{p}(b, x))"
            fast = f"#if defined({macro})\n  return ({v}){call};\n#else\n"
    end = "#endif\n" if fast else ""
    return f"""\
{helpers.INLINE} {v} clamp_{v}({v} x, {t} low, {t} high) {{
  const {v} a = {{{ends[0]}}}, b = {{{ends[1]}}};
{fast}  x = select_{m}_{v}(x > b, b, x);
  return select_{m}_{v}(x < a, a, x);
{end}}}"""


def _exp(kind: Type, v: str, m: str) -> str:
    single = kind.kind == "f32"
    f = _suffix(kind)
    low, high, magic = ("-104.0f", "89.0f", "0x1.8p23f") if single else ("-746.0", "710.0", "0x1.8p52")
    inverse = "0x1.715476p+0f" if single else "0x1.71547652b82fep+0"
    ln2 = ("0x1.62e4p-1f", "0x1.7f7d1cp-20f") if single else ("0x1.62e42fefa3000p-1", "0x1.3de6af278ece6p-42")
    bias, shift = (127, 23) if single else (1023, 52)
    scale = f"""\
  const {m} k = ({m})t - ({m})(({v}){{0}} + {magic}), h = k >> 1;
  return p * ({v})((h + {bias}) << {shift}) * ({v})((k - h + {bias}) << {shift});
"""
    suffix = "ps" if single else "pd"
    if kind.width == (16 if single else 8):
        scale = f"#if defined(__AVX512F__)\n  return ({v})_mm512_scalef_{suffix}(p, n);\n#else\n{scale}#endif\n"
    return f"""\
{helpers.INLINE} {v} exp_{v}({v} x) {{
  x = clamp_{v}(x, {low}, {high});
  const {v} t = x * {inverse} + {magic}, n = t - {magic}; /* n: the nearest integer */
  const {v} r = (x - n * {ln2[0]}) - n * {ln2[1]};
  {v} p;
  {horner(("1.0", "1.0", *COEFFICIENTS["exp", kind.kind]), "r", f)}
{scale}}}"""


def _log(kind: Type, v: str, m: str) -> str:
    single = kind.kind == "f32"
    f = _suffix(kind)
    least, lift, shift, half = (
        ("0x1p-126f", "0x1p23f", 23, "0x3f3504f3") if single else ("0x1p-1022", "0x1p52", 52, "0x3fe6a09e667f3bcdLL")
    )
    ln2 = ("0x1.62e4p-1f", "0x1.7f7d1cp-20f") if single else ("0x1.62e42fefa3000p-1", "0x1.3de6af278ece6p-42")
    s = f"select_{m[:3]}_{v}"
    if single:
        body = f"""\
  {horner(COEFFICIENTS["log", "f32"], "f", "f")}
  p = f * f * (f * p - 0.5f) + e * {ln2[1]};
  p = (p + f) + e * {ln2[0]};"""
    else:
        body = f"""\
  const {v} s = f / (f + 2), z = s * s, g = f * f * 0.5;
  {horner(COEFFICIENTS["log", "f64"], "z", "")}
  p = e * {ln2[0]} - ((g - (s * (g + z * p) + e * {ln2[1]})) - f);"""
    return f"""\
{helpers.INLINE} {v} log_{v}({v} x) {{
  const {v} zero = {{0}}, infinity = zero + __builtin_inf{f}();
  const {m} small = x < {least};
  const {v} y = {s}(small, x * {lift}, x);
  const {m} k = (({m})y - {half}) >> {shift};
  const {v} e = __builtin_convertvector(k, {v}) - {s}(small, zero + {shift}, zero);
  const {v} f = ({v})(({m})y - (k << {shift})) - 1;
  {v} p;
{body}
  p = {s}((x > zero) & (x < infinity), p, {s}(x > zero, infinity, zero + __builtin_nan{f}("")));
  return {s}(x == zero, -infinity, p);
}}"""


def _tanh(kind: Type, v: str, m: str) -> str:
    f = _suffix(kind)
    most = "10.0f" if kind.kind == "f32" else "20.0"
    return f"""\
{helpers.INLINE} {v} tanh_{v}({v} x) {{
  const {m} sign = ({m})x & ~({m}){{0}} << {31 if kind.kind == "f32" else 63};
  const {v} a = ({v})(({m})x ^ sign), z = x * x;
  {v} p;
  {horner(COEFFICIENTS["tanh", kind.kind], "z", f)}
  p = p * z * x + x;
  const {v} large = 1 - 2 / (exp_{v}(clamp_{v}(a, 0, {most}) * 2) + 1);
  return select_{m[:3]}_{v}(a < 0.625{f}, p, ({v})(({m})large | sign));
}}"""


def _erf(kind: Type, v: str, m: str) -> str:
    small, large = (horner(COEFFICIENTS[name, kind.kind], variable, "f") for name, variable in (("erf", "z"), ("erfc", "b")))
    return f"""\
{helpers.INLINE} {v} erf_{v}({v} x) {{
  const {m} sign = ({m})x & ~({m}){{0}} << 31;
  const {v} a = ({v})(({m})x ^ sign), z = x * x, b = clamp_{v}(a, 0, 4.0f);
  {v} p;
  {small}
  const {v} near = p * x + x;
  {large}
  const {v} far = 1 - exp_{v}(-p);
  return select_{m[:3]}_{v}(a < 1.0f, near, ({v})(({m})far | sign));
}}"""
