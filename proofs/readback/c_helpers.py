"""C text of the helper functions that printed kernels use, by name, element type and lane count. Believed: see TRUSTED.md.

Each has a plain version for any compiler with vector extensions; where the processor's own instruction is much better
(masked access, halves, maximum), an `#if` chooses it.
"""

from __future__ import annotations

from tang_verified.proofs.readback.syntax import Kind as Type

INLINE = "static inline __attribute__((always_inline))"
ELEMENT = {"f32": "float", "f64": "double", "i64": "int64_t"}
LIBM = {"round": "rint"}
SCALAR = ("max", "min", "abs", "floordiv", "mod", "sub0", "div0")
UNARY = (
    "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan",
    "erf", "floor", "ceil", "round",
)  # fmt: skip

SHUFFLE = """\
#if defined(__clang__) || __GNUC__ >= 12
#define TV_SHUFFLE(v, mask_type, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define TV_SHUFFLE(v, mask_type, ...) __builtin_shuffle(v, (mask_type){__VA_ARGS__})
#endif"""

ALLOCATE = """\
static inline int64_t tv_times(int64_t a, int64_t b) { /* negative: too large */
  int64_t product;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? (a > 0 && b > 0) || a == -1 || b == -1 ? -1 : 0 : product;
}
static inline void *tv_allocate(int64_t bytes) {
  return bytes < 0 || bytes > INT64_MAX - 64 ? NULL : aligned_alloc(64, (size_t)(bytes / 64 + 1) * 64);
}"""

HALF = """\
static inline float half_to_float(uint16_t h) {
#if defined(__F16C__)
  return _cvtsh_ss(h); /* an _mm instruction */
#elif defined(__ARM_FP16_FORMAT_IEEE)
  __fp16 x;
  memcpy(&x, &h, 2);
  return x;
#else
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  uint32_t bits = sign | ((rest << 13) + 0x38000000u);
  float f;
  if (rest >= 0x7c00u) bits = sign | 0x7f800000u | (rest << 13);
  memcpy(&f, &bits, 4);
  if (rest < 0x0400u) f = (sign ? -1.0f : 1.0f) * (float)rest * 0x1p-24f;
  return f;
#endif
}
static inline uint16_t float_to_half(float f) {
#if defined(__F16C__)
  return _cvtss_sh(f, 0);
#elif defined(__ARM_FP16_FORMAT_IEEE)
  const __fp16 x = f;
  uint16_t h;
  memcpy(&h, &x, 2);
  return h;
#else
  uint32_t bits;
  memcpy(&bits, &f, 4);
  const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (rest >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
  if (rest < 0x38800000u) return (uint16_t)(sign | (uint32_t)rintf(fabsf(f) * 0x1p24f));
  const uint32_t odd = (rest >> 13) & 1u;
  return (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
#endif
}"""


def name_of(kind: Type) -> str:
    return f"m{kind.bits}x{kind.width}" if kind.kind == "bool" else f"{kind.kind}x{kind.width}"


def mask_of(kind: Type) -> str:
    return f"m{kind.bits}x{kind.width}"


def typedef(kind: Type) -> str:
    """The vector type and its unaligned form for memory."""
    name = name_of(kind)
    element = f"int{kind.bits}_t" if kind.kind == "bool" else ELEMENT[kind.kind]
    size = {"float": 4, "double": 8, "int64_t": 8, "int32_t": 4}[element]
    total = size * kind.width
    text = f"typedef {element} {name} __attribute__((vector_size({total})));"
    if kind.kind != "bool":
        text += f"\ntypedef {element} {name}_u __attribute__((vector_size({total}), aligned({size}), may_alias));"
    return text


def splat(kind: Type) -> str:
    name = name_of(kind)
    if kind.kind == "bool":
        return f"{INLINE} {name} splat_{name}(int x) {{ return ({name}){{{', '.join(['-x'] * kind.width)}}}; }}"
    return f"{INLINE} {name} splat_{name}({ELEMENT[kind.kind]} x) {{ return ({name}){{{', '.join(['x'] * kind.width)}}}; }}"


def lane_mask(relation: str, kind: Type) -> str:
    name, sign = name_of(kind), {"below": "<", "from": ">=", "equal": "=="}[relation]
    lanes = ", ".join(map(str, range(kind.width)))
    return f"""\
{INLINE} {name} {relation}_{name}(int64_t bound) {{
  const int32_t b = bound < -1 ? -1 : bound > {kind.width} ? {kind.width} : (int32_t)bound;
  return ({name}){{{lanes}}} {sign} ({name}){{{", ".join(["b"] * kind.width)}}};
}}"""


def any_lane(kind: Type) -> str:
    return f"""\
{INLINE} int any_{name_of(kind)}({name_of(kind)} mask) {{
  int{kind.bits}_t lanes[{kind.width}], any = 0;
  memcpy(lanes, &mask, sizeof lanes);
  for (int l = 0; l < {kind.width}; ++l) any |= lanes[l];
  return any != 0;
}}"""


def scalar(name: str, kind: str) -> str:
    """A scalar function that C's library lacks, or has with another meaning for nan or zero."""
    t = ELEMENT[kind]
    nan = "" if kind == "i64" else " || a != a"
    infinity = "__builtin_inff()" if kind == "f32" else "__builtin_inf()"
    body = {
        "max": f"a > b{nan} ? a : b",
        "min": f"a < b{nan} ? a : b",
        "sub0": f"a == -{infinity} && b == -{infinity} ? -{infinity} : a - b",
        "div0": "b == 0 ? 0 : a / b",
        "floordiv": "b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b - (a % b != 0 && (a < 0) != (b < 0))",
        "mod": "b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)",
    }
    if name == "abs":
        function = {"f32": "fabsf(a)", "f64": "fabs(a)", "i64": "a < 0 ? -a : a"}[kind]
        return f"static inline {t} abs_{kind}({t} a) {{ return {function}; }}"
    return f"static inline {t} {name}_{kind}({t} a, {t} b) {{ return {body[name]}; }}"


def vector(name: str, kind: Type) -> list[tuple[str, str]]:
    """A function on vectors and what it uses, as (name, text) in order of definition."""
    full = f"{name}_{name_of(kind)}"
    if name == "select":
        mask = Type("bool", kind.width, kind.bits)
        types = [(name_of(t), typedef(t)) for t in (kind, mask)]
        return [*types, (f"select_{name_of(mask)[:3]}_{name_of(kind)}", _select(kind))]
    if name in ("max", "min") and kind.kind in ("f32", "f64"):
        return [*vector("select", _own_mask(kind)), (full, _extremum(name, kind))]
    if name in SCALAR:
        one = (f"{name}_{kind.kind}", scalar(name, kind.kind))
        return [one, (full, _lanewise(name, kind, f"{name}_{kind.kind}"))]
    if name in (*UNARY, "pow"):
        suffix = "f" if kind.kind == "f32" else ""
        function = f"1 / sqrt{suffix}" if name == "rsqrt" else f"{LIBM.get(name, name)}{suffix}"
        return [(full, _lanewise(name, kind, function))]
    raise NotImplementedError(f"C has no vector form of {name}")


def _own_mask(kind: Type) -> Type:
    return kind._replace(bits=64 if kind.kind in ("f64", "i64") else 32)


def _lanewise(name: str, kind: Type, function: str) -> str:
    """Through arrays, which compilers vectorise where the processor has the operation."""
    t, v, n = ELEMENT[kind.kind], name_of(kind), kind.width
    if name in UNARY or name == "abs":
        return f"""\
{INLINE} {v} {name}_{v}({v} x) {{
  {t} a[{n}];
  memcpy(a, &x, sizeof a);
  for (int l = 0; l < {n}; ++l) a[l] = {function}(a[l]);
  memcpy(&x, a, sizeof a);
  return x;
}}"""
    return f"""\
{INLINE} {v} {name}_{v}({v} x, {v} y) {{
  {t} a[{n}], b[{n}];
  memcpy(a, &x, sizeof a);
  memcpy(b, &y, sizeof b);
  for (int l = 0; l < {n}; ++l) a[l] = {function}(a[l], b[l]);
  memcpy(&x, a, sizeof a);
  return x;
}}"""


def _select(kind: Type) -> str:
    v, m = name_of(kind), mask_of(kind)
    full = f"select_{m[:3]}_{v}"
    own = f"m{64 if kind.kind in ('f64', 'i64') else kind.bits if kind.kind == 'bool' else 32}x{kind.width}"
    if own == m:
        body = f"return ({v})((mask & ({m})x) | (~mask & ({m})y));"
    else:
        bits = f"__typeof__(({v}){{0}} == ({v}){{0}})"
        body = f"const {bits} own = __builtin_convertvector(mask, {bits});\n  "
        body += f"return ({v})((own & ({bits})x) | (~own & ({bits})y));"
    return f"{INLINE} {v} {full}({m} mask, {v} x, {v} y) {{\n  {body}\n}}"


def _extremum(name: str, kind: Type) -> str:
    """Maximum or minimum that passes nan on: the instruction returns b if either is nan."""
    v, sign = name_of(kind), {"max": ">", "min": "<"}[name]
    p = {"f32": "ps", "f64": "pd"}[kind.kind]
    wide, half = {"f32": (16, 8), "f64": (8, 4)}[kind.kind]
    fast = ""
    if kind.width == wide:
        fast = f"""\
#if defined(__AVX512F__)
  return ({v})_mm512_mask_{name}_{p}(a, _mm512_cmp_{p}_mask(a, a, 7), a, b);
#else
"""
    elif kind.width == half:
        fast = f"""\
#if defined(__AVX__)
  return ({v})_mm256_blendv_{p}(_mm256_{name}_{p}(a, b), a, _mm256_cmp_{p}(a, a, 3));
#else
"""
    own = _own_mask(kind)
    end = "#endif\n" if fast else ""
    return f"""\
{INLINE} {v} {name}_{v}({v} a, {v} b) {{
{fast}  return select_{mask_of(own)[:3]}_{v}((a {sign} b) | (a != a), a, b);
{end}}}"""


# Memory


def access_name(verb: str, dtype: str, kind: Type, strided: bool, masked: bool) -> str:
    return f"{verb}_{dtype}_{name_of(kind)}{'_strided' if strided else ''}{'_if' if masked else ''}"


def access(verb: str, dtype: str, element: str, kind: Type, strided: bool, masked: bool) -> str:
    """A load or store of one vector."""
    v, n = name_of(kind), kind.width
    constant = "const " if verb == "load" else ""
    place = f"{constant}{element} *p" + (", int64_t offset, int64_t stride" if strided else "")
    cell = "p[offset + l * stride]" if strided else "p[l]"
    value = ", " + v + " x" if verb == "store" else ""
    mask = f", {mask_of(kind)} mask" if masked else ""
    test = "if (mask[l]) " if masked else ""
    fast = "" if strided else _instruction(verb, dtype, kind, masked)
    head = (
        f"{INLINE} {v if verb == 'load' else 'void'} {access_name(verb, dtype, kind, strided, masked)}({place}{value}{mask}) {{"
    )
    if verb == "load":
        read = {"float16": f"half_to_float({cell})", "bool": f"-({cell} != 0)"}.get(dtype, cell)
        start = f"{v} x = {{0}};"
        plain = f"  {start}\n  for (int l = 0; l < {n}; ++l) {test}x[l] = {read};\n  return x;"
        if not masked and dtype in ("float32", "float64", "int32", "int64") and strided:
            cells = ", ".join(f"p[offset + {lane} * stride]" for lane in range(n))
            plain = f"  return ({v}){{{cells}}};"
        elif not masked and not strided and dtype in ("float32", "int32"):
            plain = (
                f"  typedef {element} stored __attribute__((vector_size({4 * n}), aligned(4), may_alias));\n"
                f"  return __builtin_convertvector(*(const stored *)p, {v});"
            )
    else:
        write = {"float16": "float_to_half(x[l])", "bool": "x[l] & 1"}.get(dtype, f"({element})x[l]")
        plain = f"  for (int l = 0; l < {n}; ++l) {test}{cell} = {write};"
    if fast:
        return f"{head}\n{fast}#else\n{plain}\n#endif\n}}"
    return f"{head}\n{plain}\n}}"


def _instruction(verb: str, dtype: str, kind: Type, masked: bool) -> str:
    """`#if` and the processor's instruction, where there is one that the compiler would not find."""
    v, n = name_of(kind), kind.width
    if dtype in ("float32", "float64") and masked and (dtype, kind.kind) in (("float32", "f32"), ("float64", "f64")):
        p = "ps" if kind.kind == "f32" else "pd"
        lanes = 512 // kind.bits
        if n == lanes:
            m = f"_mm512_movepi{kind.bits}_mask((__m512i)mask)"
            call = f"return ({v})_mm512_maskz_loadu_{p}({m}, p);" if verb == "load" else f"_mm512_mask_storeu_{p}(p, {m}, x);"
            return f"#if defined(__AVX512DQ__)\n  {call}\n"
        if 2 * n == lanes:
            call = (
                f"return ({v})_mm256_maskload_{p}(p, (__m256i)mask);"
                if verb == "load"
                else f"_mm256_maskstore_{p}(p, (__m256i)mask, x);"
            )
            return f"#if defined(__AVX2__)\n  {call}\n"
    if dtype == "float16" and kind.kind == "f32" and not masked and n in (8, 16):
        wide = n == 16
        test, size, half = ("__AVX512F__", "512", "256") if wide else ("__F16C__", "256", "128")
        if verb == "load":
            load = f"_mm{'256' if wide else ''}_loadu_si{half}((const __m{half}i *)p)"
            return f"#if defined({test})\n  return ({v})_mm{size}_cvtph_ps({load});\n"
        store = f"_mm{'256' if wide else ''}_storeu_si{half}((__m{half}i *)p, _mm{size}_cvtps_ph(x, 0));"
        return f"#if defined({test})\n  {store}\n"
    return ""
