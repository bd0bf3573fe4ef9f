"""C: GNU C11 with vector extensions and OpenMP. The text is the same on every machine; `#if` in the helpers picks
instructions.

    float -> float, and 16 lanes of it f32x16;  a mask over them m32x16 (all bits or none);  bool arrays: uint8_t;
    float16 arrays: uint16_t, converted on load and store;  integers: int64_t;  1/3 -> 0.33333334f
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tang_verified.backends.arithmetic import CORRECT, Arithmetic, Error
from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.literals import decimal
from tang_verified.backends.names import FOREIGN
from tang_verified.backends.precedence import operand
from tang_verified.backends.scopes import Type
from tang_verified.proofs.readback import c_helpers as helpers
from tang_verified.proofs.readback import c_math as vector_math
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import Const

ELEMENTS: dict[DType, str] = {
    "float16": "uint16_t", "float32": "float", "float64": "double", "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t",
}  # fmt: skip
SCALARS = {"f32": "float", "f64": "double", "i64": "int64_t", "bool": "int"}
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}
SAME = {("float32", "f32"), ("float64", "f64"), ("int64", "i64")}  # no conversion between array and register
OTHERS = "any other function, and these on single numbers"
ARITHMETIC = Arithmetic(
    language="C",
    document="ISO C11 Annex F (IEEE 754); GNU C's options; tests/backends/test_c_math.py for functions printed with a kernel",
    rounding="to nearest, ties to even",
    contraction="where the processor has the instruction (-ffp-contract=fast)",
    reassociation="never (no -ffast-math)",
    subnormals="kept",
    special="as IEEE 754 says",
    half="to nearest, ties to even; computed in float32",
    errors={
        **dict.fromkeys(("a / b", "sqrt"), CORRECT), "rsqrt": Error(1.5, note="(1 / sqrt)"),
        **{name: Error(ulp, note="on vectors") for (name, kind), ulp in vector_math.ULPS.items() if kind == "f32"},
        OTHERS: Error(4, note="(the C library's: no standard states a bound; this is assumed, glibc's manual lists 2 at most)"),
    },
    double="as float32; erf from the C library",
    others=OTHERS,
)  # fmt: skip
KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
    main size array failed free malloc memcpy aligned_alloc floorf ceilf rintf floor ceil rint expf exp logf log log1p log1pf
    expm1 expm1f sqrt sqrtf sin sinf cos cosf tan tanf tanh tanhf sinh sinhf cosh coshf asin asinf acos acosf atan atanf erf
    erff pow powf fabs fabsf j0 j1 jn y0 y1 yn gamma signgam NULL INFINITY NAN""".split()
)


class CDialect:
    """Spells kernels in C."""

    name = "c"
    arithmetic = ARITHMETIC
    bits = 64
    reserved = KEYWORDS

    def __init__(self) -> None:
        self._helpers: dict[str, str] = {}

    def reset(self) -> None:
        self._helpers = {}

    def need(self, name: str, text: str) -> str:
        """Note a definition that the text relies on (once); returns its name."""
        self._helpers.setdefault(name, text)
        return name

    # Types and constants

    def type(self, kind: Type) -> str:
        if kind.width == 1:
            return SCALARS[kind.kind]
        name = vector_name(kind)
        return self.need(name, helpers.typedef(kind))

    def declare(self, kind: Type, name: str, value: str | None, constant: bool = False) -> str:
        given = "" if value is None else f" = {value}"
        return f"{'const ' if constant else ''}{self.type(kind)} {name}{given};"

    def choose(self, condition: str, a: str, b: str) -> str:
        return f"({condition} ? {a} : {b})"

    def constant(self, value: Const, kind: Type) -> str:
        match value.value:
            case bool(b):
                return str(int(b))
            case int(n):
                return f"({n})" if n < 0 else str(n)
            case str(name):
                suffix = "f" if kind.kind == "f32" else ""
                return {"inf": f"__builtin_inf{suffix}()", "-inf": f"(-__builtin_inf{suffix}())"}.get(
                    name, f'__builtin_nan{suffix}("")'
                )
            case Fraction() as exact:
                return _literal(exact, kind.kind)

    def splat(self, text: str, kind: Type) -> str:
        self.type(kind)
        return f"{self.need(f'splat_{vector_name(kind)}', helpers.splat(kind))}({text})"

    def iota(self, kind: Type) -> str:
        return f"({self.type(kind)}){{{', '.join(map(str, range(kind.width)))}}}"

    def convert(self, text: str, have: Type, want: Type) -> str:
        if have.kind == want.kind and (have.width == 1 or have.kind != "bool" or have.bits == want.bits):
            return text
        if want.width == 1:
            return f"({SCALARS[want.kind]}){operand(text, 'neg')}"
        self.type(have)
        sign = "-" if have.kind == "bool" and want.kind != "bool" else ""
        return f"{sign}__builtin_convertvector({text}, {self.type(want)})"

    # Operations

    def operation(self, name: str, args: Sequence[str], have: Type, want: Type) -> str:
        if name in INFIX:
            text = f"{operand(args[0], name)} {INFIX[name]} {operand(args[1], name, right=True)}"
            if want.kind != "bool" or want.width == 1:
                return text
            lanes = Type("bool", have.width, 64 if have.kind in ("f64", "i64") else 32)
            return self.convert(f"({text})", lanes, want)
        if name in ("real", "trunc", "int"):
            return self.convert(args[0], have, want)
        if name in ("and", "or", "not"):
            one = want.width == 1
            if name == "not":
                return f"{'!' if one else '~'}{operand(args[0], 'not')}"
            sign = {"and": "&&", "or": "||"}[name]
            return f" {sign if one else sign[0]} ".join(operand(arg, name) for arg in args)
        if name == "neg":
            return f"-{operand(args[0], 'neg')}"
        if want.width == 1:
            return self._scalar(name, args, want)
        self.type(want)
        function = f"{name}_{vector_name(want)}"
        if name == "select":
            self.type(Type("bool", want.width, want.bits))
            function = f"select_{vector_name(Type('bool', want.width, want.bits))[:3]}_{vector_name(want)}"
        for part, text in self._vector(name, want):
            self.need(part, text)
        return f"{function}({', '.join(args)})"

    def _scalar(self, name: str, args: Sequence[str], kind: Type) -> str:
        text = ", ".join(args)
        if name in helpers.SCALAR:
            function = f"{name}_{kind.kind}"
            return f"{self.need(function, helpers.scalar(name, kind.kind))}({text})"
        suffix = "f" if kind.kind == "f32" else ""
        if name == "rsqrt":
            return f"1 / sqrt{suffix}({text})"
        return f"{helpers.LIBM.get(name, name)}{suffix}({text})"

    def _vector(self, name: str, kind: Type) -> list[tuple[str, str]]:
        """A vector function and what it uses, in order of definition."""
        if name in vector_math.FUNCTIONS and (name, kind.kind) in vector_math.AVAILABLE:
            return vector_math.definition(name, kind)
        return helpers.vector(name, kind)

    def lane_mask(self, relation: str, bound: str, kind: Type) -> str:
        self.type(kind)
        return f"{self.need(f'{relation}_{vector_name(kind)}', helpers.lane_mask(relation, kind))}({bound})"

    def any_lane(self, mask: str, kind: Type) -> str:
        self.type(kind)
        return f"{self.need(f'any_{vector_name(kind)}', helpers.any_lane(kind))}({mask})"

    def shift_lanes(self, text: str, by: int, kind: Type) -> str:
        self.type(kind)
        self.need("TV_SHUFFLE", helpers.SHUFFLE)
        lanes = ", ".join(str(min(lane + by, kind.width - 1)) for lane in range(kind.width))
        mask = f"m{32 if kind.kind == 'f32' or (kind.kind == 'bool' and kind.bits == 32) else 64}x{kind.width}"
        self.type(Type("bool", kind.width, int(mask[1:3])))
        return f"TV_SHUFFLE({text}, {mask}, {lanes})"

    def exchange(self, text: str, step: int, kind: Type) -> str:
        raise Unsupported("a CPU has no threads of a subgroup")

    def lane_of(self, text: str, lane: str, kind: Type) -> str:
        return f"-{text}[{lane}]" if kind.kind == "bool" else f"{text}[{lane}]"

    # Memory

    def load(self, dtype: DType, array: str, offset: str, kind: Type) -> str:
        if dtype == "float16":
            self.need("TV_HALF", helpers.HALF)
            return f"half_to_float({array}[{offset}])"
        cell = f"{array}[{offset}]"
        return f"{cell} != 0" if dtype == "bool" else cell

    def load_vector(self, dtype: DType, array: str, offset: str, stride: str, mask: str | None, kind: Type) -> str:
        self.type(kind)
        if stride == "1" and mask is None and (dtype, kind.kind) in SAME:
            return f"*(const {vector_name(kind)}_u *)({array} + {offset})"
        return self._access("load", dtype, array, offset, stride, mask, [], kind)

    def store(self, dtype: DType, array: str, offset: str, value: str, kind: Type) -> str:
        if dtype == "float16":
            self.need("TV_HALF", helpers.HALF)
            value = f"float_to_half({value})"
        return f"{array}[{offset}] = {value};"

    def store_vector(self, dtype: DType, array: str, offset: str, stride: str, mask: str | None, value: str, kind: Type) -> str:
        self.type(kind)
        if stride == "1" and mask is None and (dtype, kind.kind) in SAME:
            return f"*({vector_name(kind)}_u *)({array} + {offset}) = {value};"
        return f"{self._access('store', dtype, array, offset, stride, mask, [value], kind)};"

    def _access(
        self, verb: str, dtype: DType, array: str, offset: str, stride: str, mask: str | None, values: list[str], kind: Type
    ) -> str:
        """A call of a load or store helper, named for what it does: load_float16_f32x16, …_strided, …_if."""
        self.type(Type("bool", kind.width, kind.bits))
        if dtype == "float16":
            self.need("TV_HALF", helpers.HALF)
        strided = stride != "1"
        text = helpers.access(verb, dtype, ELEMENTS[dtype], kind, strided, mask is not None)
        name = self.need(helpers.access_name(verb, dtype, kind, strided, mask is not None), text)
        place = [array, offset, stride] if strided else [f"{array} + {offset}"]
        return f"{name}({', '.join([*place, *values, *([mask] if mask is not None else [])])})"

    # Statements

    def loop(self, axis: str, extent: str, unroll: bool = False) -> str:
        return f"for (int64_t {axis} = 0; {axis} < {extent}; ++{axis})"

    def region(self) -> list[str]:
        return ["#pragma omp parallel", "{"]

    def grid(self, extents: Sequence[str]) -> list[str]:
        """Neighbours run on one thread, 256 portions in all: it streams on through memory, and the load stays even."""
        depth = len(extents)
        chunk = f"1 + {' * '.join(extents)} / 256"
        return [f"#pragma omp for schedule(dynamic, {chunk}){f' collapse({depth})' if depth > 1 else ''}"]

    def private_array(self, dtype: DType, name: str, count: int) -> str:
        return f"{ELEMENTS[dtype]} {name}[{max(count, 1)}] __attribute__((aligned(64)));"

    def heap_array(self, dtype: DType, name: str, extents: Sequence[str]) -> str:
        self.need("tv_allocate", helpers.ALLOCATE)
        count = "1"
        for extent in extents:
            count = extent if count == "1" else f"tv_times({count}, {extent})"
        return f"{ELEMENTS[dtype]} *restrict {name} = tv_allocate(tv_times({count}, sizeof({ELEMENTS[dtype]})));"

    def release(self, name: str) -> str:
        return f"free({name});"

    def fail(self, parallel: bool) -> list[str]:
        return [*(["#pragma omp atomic write"] if parallel else []), "failed = 1;"]

    # The whole

    def source(
        self, kernel: Kernel, arrays: Sequence[tuple[str, DType, bool]], sizes: Sequence[str], body: Sequence[str]
    ) -> str:
        listed = ", ".join(f"{name} : {dtype}{' (out)' if written else ''}" for name, dtype, written in arrays)
        lines = [
            f"/* {kernel.name}: {' '.join(kernel.outputs)} of {kernel.program.name}.",
            f"   size[]: {', '.join(sizes) or 'none'}",
            f"   array[]: {listed or 'none'}; contiguous, row-major",
            "   Returns 0, or 1 if there was no memory. */",
            "#include <math.h>", "#include <stdint.h>", "#include <stdlib.h>", "#include <string.h>",
        ]  # fmt: skip
        if any("_mm" in text for text in self._helpers.values()):
            lines += ["#if defined(__AVX__)", "#include <immintrin.h>", "#endif"]
        for text in self._helpers.values():
            lines += ["", text.rstrip()]
        lines += ["", f"int {entry(kernel)}(const int64_t *size, void *const *array) {{", "  int failed = 0;"]
        lines += [f"  const int64_t {name} = size[{k}];" for k, name in enumerate(sizes)]
        for k, (name, dtype, written) in enumerate(arrays):
            lines.append(f"  {'' if written else 'const '}{ELEMENTS[dtype]} *restrict {name} = array[{k}];")
        return "\n".join([*lines, *body, "  return failed;", "}", ""])


def entry(kernel: Kernel) -> str:
    """The function's name: the kernel's, unless C has that word already (a result may be called `double` or `exp`)."""
    return f"{kernel.name}_kernel" if kernel.name in KEYWORDS or FOREIGN.fullmatch(kernel.name) else kernel.name


def vector_name(kind: Type) -> str:
    """f32x16, i64x8; masks m32x16."""
    return f"m{kind.bits}x{kind.width}" if kind.kind == "bool" else f"{kind.kind}x{kind.width}"


def _literal(exact: Fraction, kind: str) -> str:
    suffix = "f" if kind == "f32" else ""
    text = decimal(exact, kind)
    if text in ("inf", "-inf"):
        return f"({text[:-3]}__builtin_inf{suffix}())"
    return f"({text}{suffix})" if text.startswith("-") else f"{text}{suffix}"
