"""Operations that act element by element: exp(x), x + y, where(c, x, y), …

Each is a *rule* for the operands' sort and a *term* over one element of each. The definition it makes is
out[i, j] = term(x[i, j], y[j], …), broadcasting as NumPy does. On scalars of a comprehension it is the term itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

from tang_verified.errors import DTypeError, UnsupportedError
from tang_verified.semantics.build import canonical, real
from tang_verified.semantics.program import SORTS, DType
from tang_verified.semantics.terms import ONE, POS_INF, REAL_ONE, REAL_ZERO, ZERO, Op, Sort, Term, sort_of
from tang_verified.tracing.array import Scalar, Traced
from tang_verified.tracing.dtypes import as_dtype, promote
from tang_verified.tracing.extent import Extent
from tang_verified.tracing.values import Lifted, broadcast_shapes, lift, tracing_of

# real: operands become reals. number: they become one number sort, bool refused. any: bool too. bool: they are bools.
Rule: TypeAlias = Literal["real", "number", "any", "bool"]
POWER_LIMIT = 8  # x ** 8 is still written out as products


def op(name: str) -> Callable[..., Term]:
    return lambda *args: Op(name, args)


def elementwise(
    label: str, rule: Rule, term: Callable[..., Term], operands: tuple[Any, ...], result: DType | None = None
) -> Any:
    """Apply a term to operands of any kind; `result` is the dtype when it is not the operands' common one."""
    tracing = tracing_of(operands, label)
    if not any(isinstance(operand, (Traced, Scalar, Extent)) for operand in operands):
        return known(label, operands)
    lifted = [lift(operand, tracing, label) for operand in operands]
    dtype, weak = common(label, rule, lifted, tracing.default_float if tracing else "float64")
    sort = SORTS[dtype]

    def build(parts: list[Term]) -> Term:
        value = term(*parts)
        return value if sort_of(value) == "real" else canonical(value)

    out = result or dtype
    if any(isinstance(operand, Scalar) for operand in operands):
        if any(isinstance(operand, Traced) for operand in operands):
            raise DTypeError(f"{label}: a whole array meets a scalar of a comprehension", "read an element, as in a[i, k]")
        return _like(operands, build([part.broadcast((), sort) for part in lifted]), out, weak)
    if tracing is None:
        raise UnsupportedError(f"{label}: operands belong to no trace")
    shape = broadcast_shapes(tracing, [part.shape for part in lifted], label)
    return tracing.define(
        label, out, shape, lambda *index: build([part.broadcast(index, sort) for part in lifted]), weak=weak and result is None
    )


def _like(operands: tuple[Any, ...], term: Term, dtype: DType, weak: bool) -> Scalar:
    """A scalar of the operands' trace, of the kind that the first scalar among them is."""
    scalars = [operand for operand in operands if isinstance(operand, Scalar)]
    if not scalars:
        return Scalar(term, dtype, tracing_of(operands, "scalar"), weak)
    return next((scalar for scalar in scalars if scalar.tracing is not None), scalars[0]).like(term, dtype, weak)


def common(label: str, rule: Rule, lifted: list[Lifted], default_float: DType) -> tuple[DType, bool]:
    """The dtype that the operands take together under a rule."""
    dtype, weak = promote([(part.dtype, part.weak) for part in lifted], default_float)
    if rule == "real" and SORTS[dtype] != "real":
        return default_float, weak
    if rule == "number" and dtype == "bool":
        raise DTypeError(f"{label} of bool arrays", "combine masks with & | ~ ^, or convert with x.astype(xp.int32)")
    if rule == "bool" and dtype != "bool":
        raise DTypeError(f"{label} of {dtype} values; only bools are combined bitwise here", "compare first, as in x != 0")
    return dtype, weak


def known(label: str, operands: tuple[Any, ...]) -> Any:
    """Numbers that are known are computed by NumPy: xp.sqrt(64) is 8.0, not a definition."""
    words = {"sub": "subtract", "mul": "multiply", "div": "divide", "mod": "remainder", "floordiv": "floor_divide"}
    name = words.get(label, label)
    if not hasattr(np, name):
        raise UnsupportedError(f"{label} of numbers that are known", "use the math module")
    result = getattr(np, name)(*operands)
    return result.item() if isinstance(result, np.generic) else result


def subtraction(operands: tuple[Any, ...], label: str) -> Callable[..., Term]:
    """`-`, as the trace's convention for empty rows has it."""
    tracing = tracing_of(operands, label)
    name = tracing.sub if tracing else "sub"
    return lambda a, b: Op(name if sort_of(a) == "real" else "sub", (a, b))


def division(operands: tuple[Any, ...], label: str) -> Callable[..., Term]:
    tracing = tracing_of(operands, label)
    return op(tracing.div if tracing else "div")


def add(x: Any, y: Any) -> Any:
    return elementwise("add", "number", op("add"), (x, y))


def subtract(x: Any, y: Any) -> Any:
    return elementwise("sub", "number", subtraction((x, y), "sub"), (x, y))


def multiply(x: Any, y: Any) -> Any:
    """Products; of two bool arrays, their conjunction, as in NumPy."""
    return elementwise("mul", "any", lambda a, b: Op("and" if sort_of(a) == "bool" else "mul", (a, b)), (x, y))


def divide(x: Any, y: Any) -> Any:
    return elementwise("div", "real", division((x, y), "div"), (x, y))


def floor_divide(x: Any, y: Any) -> Any:
    over = division((x, y), "floordiv")
    return elementwise(
        "floordiv", "number",
        lambda a, b: Op("floordiv", (a, b)) if sort_of(a) == "int" else Op("floor", (over(a, b),)), (x, y),
    )  # fmt: skip


def remainder(x: Any, y: Any) -> Any:
    """x - floor(x / y) * y: the sign of the divisor, as Python."""
    over, minus = division((x, y), "mod"), subtraction((x, y), "mod")

    def term(a: Term, b: Term) -> Term:
        return Op("mod", (a, b)) if sort_of(a) == "int" else minus(a, Op("mul", (Op("floor", (over(a, b),)), b)))

    return elementwise("mod", "number", term, (x, y))


def pow(x: Any, y: Any) -> Any:
    """x ** y: products for a small whole y, roots for ±1/2, `pow` of reals otherwise."""
    exponent = y.item() if isinstance(y, np.generic) else y
    if isinstance(exponent, (int, float)) and not isinstance(exponent, bool):
        if exponent == 0.5:
            return elementwise("sqrt", "real", op("sqrt"), (x,))
        if exponent == -0.5:
            return elementwise("rsqrt", "real", op("rsqrt"), (x,))
        if abs(exponent) <= POWER_LIMIT and exponent == int(exponent):
            whole = int(exponent)
            if isinstance(exponent, float) or whole < 0:
                over = division((x,), "pow")
                return elementwise(
                    "pow", "real", lambda a: _power(a, whole) if whole >= 0 else over(REAL_ONE, _power(a, -whole)), (x,)
                )
            return elementwise("pow", "number", lambda a: _power(a, whole), (x,))

    def term(a: Term, b: Term) -> Term:
        if sort_of(a) == "int":
            raise DTypeError("pow of two integer arrays", "convert one with astype(xp.float32)")
        return Op("pow", (a, b))

    return elementwise("pow", "number", term, (x, y))


def _power(a: Term, exponent: int) -> Term:
    if exponent == 0:
        return REAL_ONE if sort_of(a) == "real" else ONE
    out = a
    for _ in range(exponent - 1):
        out = Op("mul", (out, a))
    return out


def square(x: Any) -> Any:
    return elementwise("square", "number", lambda a: Op("mul", (a, a)), (x,))


def sign(x: Any) -> Any:
    def term(a: Term) -> Term:
        one, zero = (REAL_ONE, REAL_ZERO) if sort_of(a) == "real" else (ONE, ZERO)
        left = Op("mul", (a, zero))  # 0 or nan, and of slope 0
        negative = Op("select", (Op("lt", (a, zero)), Op("neg", (one,)), left))
        return Op("select", (Op("lt", (zero, a)), one, negative))

    return elementwise("sign", "number", term, (x,))


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere; the one not chosen contributes nothing."""
    operands = (condition, x, y)
    tracing = tracing_of(operands, "where")
    if not any(isinstance(operand, (Traced, Scalar, Extent)) for operand in operands):
        return np.where(*operands)
    test = lift(condition, tracing, "where")
    if test.dtype != "bool":
        raise DTypeError(f"where: the condition has dtype {test.dtype}", "compare, as in x != 0")
    dtype, weak = promote(
        [(part.dtype, part.weak) for part in (lift(x, tracing, "where"), lift(y, tracing, "where"))],
        tracing.default_float if tracing else "float64",
    )
    sort = SORTS[dtype]
    lifted = [lift(operand, tracing, "where") for operand in operands]
    sorts: list[Sort] = ["bool", sort, sort]
    if any(isinstance(operand, Scalar) for operand in operands):
        parts = [part.broadcast((), s) for part, s in zip(lifted, sorts, strict=True)]
        return _like(operands, Op("select", tuple(parts)), dtype, weak)
    if tracing is None:
        raise UnsupportedError("where: operands belong to no trace")
    shape = broadcast_shapes(tracing, [part.shape for part in lifted], "where")
    return tracing.define(
        "where", dtype, shape,
        lambda *index: Op("select", tuple(part.broadcast(index, s) for part, s in zip(lifted, sorts, strict=True))),
    )  # fmt: skip


def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """Another dtype. Between float dtypes the value is unchanged: programs speak of exact numbers."""
    target = as_dtype(dtype)
    if isinstance(x, Traced) and x.dtype_name == target and not x.weak:
        return x
    tracing = tracing_of((x,), "astype")
    lifted = lift(x, tracing, "astype")
    if isinstance(x, Scalar) or tracing is None:
        return _like((x,), lifted.broadcast((), SORTS[target]), target, False)
    return tracing.define("astype", target, lifted.shape, lambda *index: lifted.broadcast(index, SORTS[target]))


def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    low = x if min is None else elementwise("clip", "number", op("max"), (x, min))
    return low if max is None else elementwise("clip", "number", op("min"), (low, max))


def round(x: Any, decimals: int = 0) -> Any:
    """To the nearest integer, halves to even."""
    if decimals:
        raise UnsupportedError("round to decimals", "scale first: xp.round(x * 100) / 100")
    return _rounding("round", op("round"), x)


def floor(x: Any) -> Any:
    return _rounding("floor", op("floor"), x)


def ceil(x: Any) -> Any:
    return _rounding("ceil", op("ceil"), x)


def trunc(x: Any) -> Any:
    def term(a: Term) -> Term:
        return Op("select", (Op("lt", (a, REAL_ZERO)), Op("ceil", (a,)), Op("floor", (a,))))

    return _rounding("trunc", term, x)


def _rounding(label: str, term: Callable[..., Term], x: Any) -> Any:
    return elementwise(label, "number", lambda a: a if sort_of(a) == "int" else term(a), (x,))


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp x + exp y) = max + log1p(exp(-|x - y|)); where x = y, max + log 2 (also for two infinities).

    max, because at a tie it gives both of them half of the slope.
    """

    def term(a: Term, b: Term) -> Term:
        spread = Op("neg", (Op("abs", (Op("sub", (a, b)),)),))
        larger = Op("max", (a, b))
        apart = Op("add", (larger, Op("log1p", (Op("exp", (spread,)),))))
        return Op("select", (Op("eq", (a, b)), Op("add", (larger, real(math.log(2.0)))), apart))

    return elementwise("logaddexp", "real", term, (x, y))


# label -> (rule, term, dtype of the result where it is not the operands')
TABLE: dict[str, tuple[Rule, Callable[..., Term], DType | None]] = {
    **{
        name: ("real", op(name), None)
        for name in (
            "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh",
            "asin", "acos", "atan", "erf",
        )
    },
    "exp2": ("real", lambda a: Op("pow", (real(2), a)), None),
    "log2": ("real", lambda a: Op("div", (Op("log", (a,)), real(math.log(2.0)))), None),
    "log10": ("real", lambda a: Op("div", (Op("log", (a,)), real(math.log(10.0)))), None),
    "abs": ("number", op("abs"), None),
    "negative": ("number", op("neg"), None),
    "positive": ("number", lambda a: a, None),
    "maximum": ("any", lambda a, b: Op("or" if sort_of(a) == "bool" else "max", (a, b)), None),
    "minimum": ("any", lambda a, b: Op("and" if sort_of(a) == "bool" else "min", (a, b)), None),
    "less": ("number", op("lt"), "bool"),
    "less_equal": ("number", op("le"), "bool"),
    "greater": ("number", lambda a, b: Op("lt", (b, a)), "bool"),
    "greater_equal": ("number", lambda a, b: Op("le", (b, a)), "bool"),
    "equal": ("any", lambda a, b: _equal(a, b), "bool"),
    "not_equal": ("any", lambda a, b: _different(a, b), "bool"),
    "bitwise_and": ("bool", op("and"), None),
    "bitwise_or": ("bool", op("or"), None),
    "bitwise_xor": ("bool", lambda a, b: _different(a, b), None),
    "bitwise_invert": ("bool", op("not"), None),
    "logical_and": ("bool", op("and"), None),
    "logical_or": ("bool", op("or"), None),
    "logical_xor": ("bool", lambda a, b: _different(a, b), None),
    "logical_not": ("bool", op("not"), None),
    "isnan": ("real", lambda a: Op("ne", (a, a)), "bool"),
    "isinf": ("real", lambda a: Op("eq", (Op("abs", (a,)), POS_INF)), "bool"),
    "isfinite": ("real", lambda a: Op("lt", (Op("abs", (a,)), POS_INF)), "bool"),
}  # fmt: skip


def _equal(a: Term, b: Term) -> Term:
    return Op("not", (_different(a, b),)) if sort_of(a) == "bool" else Op("eq", (a, b))


def _different(a: Term, b: Term) -> Term:
    if sort_of(a) != "bool":
        return Op("ne", (a, b))
    return Op("or", (Op("and", (a, Op("not", (b,)))), Op("and", (Op("not", (a,)), b))))


def function(name: str) -> Callable[..., Any]:
    """The array function of a row of TABLE."""
    rule, term, result = TABLE[name]

    def call(*operands: Any) -> Any:
        return elementwise(name, rule, term, operands, result)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{name}, element by element."
    return call

