"""Functions that a shading language lacks, from those that it has.

    erf     Abramowitz and Stegun 7.1.26 is too coarse; the series below |x| = 1, else 1 - exp(-x²)·P(1 / (1 + x/2))
            (W. J. Cody's form as in Numerical Recipes' erfcc, relative error of erfc below 1.2e-7)
    log1p   log(1 + x)·(x / ((1 + x) - 1)), which undoes the rounding of 1 + x (Goldberg 1991, theorem 4); log x above 2^25
    expm1   (u - 1)·x / log(u) with u = exp(x)  (Kahan, in Higham 2002, 1.14.1)
    pow     |x|^y, which is exp2(y·log2 |x|), with the sign of x where y is odd; nan where y is no whole number and x < 0;
            1 where y = 0, and 0 or an infinity where x = 0 (IEEE 754, 9.2.1, without a sign of zero)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tang_verified.backends.arithmetic import Error
from tang_verified.backends.scopes import Type


def erf(dialect: Any, kind: Type) -> str:
    coefficients = (
        "-1.26551223", "1.00002368", "0.37409196", "0.09678418", "-0.18628806", "0.27886807", "-1.13520398", "1.48851587",
        "-0.82215223", "0.17087277",
    )  # fmt: skip
    t = "(1.0f / (1.0f + 0.5f * abs(a)))"
    poly = f"({coefficients[-1]}f)"
    for c in reversed(coefficients[:-1]):
        poly = f"({c}f + {t} * {poly})"
    far = f"1.0f - {t} * exp(-a * a + {poly})"
    near = "0.000120553327f"
    for c in ("-0.000854832701f", "0.00522397762f", "-0.0268661706f", "0.112837917f", "-0.376126389f", "1.12837917f"):
        near = f"({c} + a * a * {near})"
    near = f"a * {near}"
    signed = dialect.choose("a < 0.0f", f"-({far})", far)
    return str(dialect.choose("abs(a) < 0.5f", near, signed))


def log1p(dialect: Any, kind: Type) -> str:
    return str(dialect.choose("1.0f + a == 1.0f", "a", _far(dialect)))


def _far(dialect: Any) -> str:
    """log1p where 1 + a is not 1: beyond 2^25 it is a, and the product would overflow."""
    return str(dialect.choose("a > 33554432.0f", "log(a)", "log(1.0f + a) * (a / ((1.0f + a) - 1.0f))"))


def expm1(dialect: Any, kind: Type) -> str:
    low = dialect.choose("exp(a) - 1.0f == -1.0f", "-1.0f", "(exp(a) - 1.0f) * a / log(exp(a))")
    high = dialect.choose("a > 80.0f", "exp(a)", low)
    return str(dialect.choose("exp(a) == 1.0f", "a", high))


def power(dialect: Any, kind: Type) -> str:
    size = dialect.choose("abs(a) == 1.0f", "1.0f", "pow(abs(a), b)")
    real = dialect.choose("floor(b) == b || a < -3.4028234e38f", size, dialect.special("nan", kind.kind))
    below = dialect.choose("b - 2.0f * floor(0.5f * b) == 1.0f", f"-{size}", real)
    zero = dialect.choose("b > 0.0f", "0.0f", dialect.choose("b < 0.0f", "1.0f / abs(a)", "b"))
    other = dialect.choose("a == 0.0f", zero, dialect.choose("a < 0.0f", below, size))
    return str(dialect.choose("b == 0.0f", "1.0f", other))


MADE: dict[str, Callable[[Any, Type], str]] = {"erf": erf, "log1p": log1p, "expm1": expm1}
SHADING = {**MADE, "pow": power}  # WGSL's and GLSL's own is for x > 0
UNSTATED = dict.fromkeys(MADE, Error(note="of the operations that spell it"))
SHADER = {  # what WGSL and Vulkan both state
    "a / b": Error(2.5, note="for 2^-126 <= |b| <= 2^126", partly=True), "sqrt": Error(note="as 1 / rsqrt"), "rsqrt": Error(2),
    "exp": Error(3, slope=2), "log": Error(3, absolute=2.0**-21, note="(absolute in [0.5, 2])"),
    **dict.fromkeys(("sin", "cos"), Error(absolute=2.0**-11, note="in [-pi, pi]")), "tan": Error(note="as sin / cos"),
    **dict.fromkeys(("sinh", "cosh"), Error(note="as (exp(x) - exp(-x)) / 2 or its sum")), "atan": Error(4096),
    "pow": Error(note="as exp2(y * log2(|x|)), and exact for y = 0, x = 0, |x| = 1"), **UNSTATED,
}  # fmt: skip
