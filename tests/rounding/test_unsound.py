"""Unsound twins of the rules: each is wrong in one place, and a measured error shows it. The sound rules pass the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.proofs import recurrence
from tang_verified.proofs import rounding as walk
from tang_verified.rounding import bounds_of, error_bound
from tang_verified.semantics import rounding as rules
from tang_verified.semantics.terms import FALSE, REAL_ZERO, ZERO, Const

Array = np.ndarray[Any, Any]
Patch = Callable[[pytest.MonkeyPatch], None]
Draw = Callable[[np.random.Generator], list[Array]]


@dataclass(frozen=True)
class Program:
    """What is compiled, and inputs that it rounds badly on."""

    fn: Callable[..., Any]
    specs: tuple[tuple[str, Any], ...]
    draw: Draw

    def __hash__(self) -> int:
        return id(self)


def f32(x: Any) -> Array:
    return np.asarray(x, "float32")


def namespace(x: Any) -> Any:
    return x.__array_namespace__()


def cancelling(rng: np.random.Generator, rows: int = 200, length: int = 6, rest: float = 0.0) -> Array:
    """Rows whose sums are nearly `rest`."""
    x = rng.standard_normal((rows, length)) * 100
    x = f32(x)
    x[:, -1] = f32(rest - x[:, :-1].astype(float).sum(axis=1) * (1 + 1e-7 * rng.standard_normal(rows)))
    return x


def shares(x: Any, w: Any) -> Any:
    y = x @ w
    return y / y.sum()


ROWS = (("x", "n m>=1"),)
PRODUCT = Program(lambda x, y: x * y, (("x", "n"), ("y", "n")), lambda rng: [f32(rng.standard_normal(500)) for _ in range(2)])
TINY = replace(PRODUCT, draw=lambda rng: [f32(rng.random(500) * 2.0**-70), f32(rng.random(500) * 2.0**-75)])
LONG = Program(lambda x: x.sum(axis=-1), ROWS, lambda rng: [f32(np.broadcast_to(rng.random((20, 1)), (20, 4096)))])
WIDE = Program(
    lambda x, y: x @ y, (("x", "n k"), ("y", "k m")),
    lambda rng: [f32(np.broadcast_to(rng.random((20, 1)), (20, 4096))), f32(np.broadcast_to(rng.random((1, 9)), (4096, 9)))],
)  # fmt: skip
DIFFERENCE = Program(lambda x: x.sum(axis=-1) - 1.0, ROWS, lambda rng: [cancelling(rng, rest=1.0)])
SCALED = Program(lambda x: x.sum(axis=-1) * 3.0, ROWS, lambda rng: [cancelling(rng)])
EXP = Program(lambda x: namespace(x).exp(x.sum(axis=-1)), ROWS, lambda rng: [f32(rng.standard_normal((200, 40)) * 3)])
EXP_ALONE = Program(lambda x: namespace(x).exp(x), (("x", "n"),), lambda rng: [f32(rng.standard_normal(3000) * 20)])
LOG = Program(lambda x: namespace(x).log(x.sum(axis=-1)), ROWS, lambda rng: [cancelling(rng, rest=1.0)])
RECIPROCAL = Program(lambda x: 1.0 / x.sum(axis=-1), ROWS, lambda rng: [cancelling(rng, rest=1.0)])
ROOT = Program(lambda x: namespace(x).sqrt(x.sum(axis=-1)), ROWS, lambda rng: [cancelling(rng, rest=1.0)])
SQUARE = Program(lambda x: x * x * 2.0**-60, (("x", "n"),), lambda rng: [f32(rng.random(9) * 1e20 + 1e20)])
TWO_KERNELS = Program(
    shares, (("x", "n k"), ("w", "k m")), lambda rng: [cancelling(rng, 20, rest=1.0), f32(np.ones((6, 3)))]
)  # fmt: skip
SIGN = Program(lambda x: namespace(x).where(x.sum(axis=-1) > 0, 1.0, 0.0), ROWS, lambda rng: [cancelling(rng, 2000)])
FLOOR = Program(lambda x: namespace(x).floor(x.sum(axis=-1)), ROWS, lambda rng: [cancelling(rng, 2000, rest=1.0)])
HALF = Program(
    lambda x: x + x * x, (("x", tv.spec("n", "float16")),), lambda rng: [np.asarray(rng.standard_normal(500), "float16")]
)  # fmt: skip
TENTH = Program(lambda x: x * 0.1, (("x", "n"),), lambda rng: [f32(rng.random(5000) + 0.5)])
MOST = Program(
    lambda x: namespace(x).max(namespace(x).exp(x * x), axis=-1), ROWS, lambda rng: [f32(rng.standard_normal((500, 5)) * 3)]
)  # fmt: skip
WHOLE = Program(
    lambda i: i + 0.0 * i if i.dtype == float else namespace(i).astype(i, namespace(i).float32), (("i", tv.spec("n", "int32")),),
    lambda rng: [rng.integers(2**24, 2**31 - 1, 500).astype("int32")],
)  # fmt: skip


@cache
def compiled(program: Program) -> tv.CompiledKernel:
    return tv.compile(program.fn, name="twin", **dict(program.specs))


def worst(program: Program) -> float:
    """The largest error over its bound, by the rules as they are now; infinite where what is bounded is no number."""
    kernel, found = compiled(program), 0.0
    known = bounds_of(kernel.certified, kernel._backend.arithmetic().numbers())
    for seed in range(4):
        arrays = program.draw(np.random.default_rng(seed))
        views = {t.name: a for t, a in zip(kernel.program.inputs, arrays, strict=True)}
        sizes = kernel._signature.sizes(views)
        (bound,) = error_bound(kernel.program, known, views, sizes)
        exact = program.fn(*[a.astype(np.float64) for a in arrays])
        with np.errstate(all="ignore"):
            error = np.abs(kernel(*arrays).astype(float) - exact)
            ratio = np.where(error == 0, 0.0, np.where(np.isnan(error), np.inf, error) / bound)[np.isfinite(bound)]
        found = max(found, float(ratio.max(initial=0.0)))
    return found


def rule(name: str, made: Callable[..., Any]) -> Patch:
    return lambda patch: patch.setitem(rules.RULES, name, made)


def without_errors(name: str) -> Patch:
    """The operands' errors are forgotten."""
    known = rules.RULES[name]
    return rule(name, lambda r, value, *args: known(r, value, *((v, REAL_ZERO) for v, _ in args)))


def method(name: str, made: Callable[..., Any]) -> Patch:
    return lambda patch: patch.setattr(rules.Rules, name, made)


def of_walk(name: str, made: Any) -> Patch:
    return lambda patch: patch.setattr(walk.Statement, name, made)


def number(name: str, made: Callable[..., Any]) -> Patch:
    return lambda patch: patch.setattr(rules.Rounding, name, made)


def no_rescale(term: Any, carried: Any, limits: Any) -> Any:
    line = LINEAR(term, carried, limits)
    return recurrence.Line(REAL_ZERO, line.shift, line.floor)


def in_pairs(self: Any, fold: Any, axes: Any, guard: Any, leaf: Any) -> Any:
    """Every axis as if it were joined in pairs."""
    return Const(sum((a.extent.value if isinstance(a.extent, Const) else 64).bit_length() for a in axes))


def all_are_inputs(patch: pytest.MonkeyPatch) -> None:
    made = walk.Walk.__init__

    def init(self: Any, kernel: Any, rounding: Any) -> None:
        made(self, kernel, rounding)
        self.inputs |= {d.tensor.name for d in kernel.program.defs}

    patch.setattr(walk.Walk, "__init__", init)


def no_limit(self: Any, value: Any, e: Any, p: Any = None) -> Any:
    return e


LINEAR = recurrence.linear
TOTAL = rules.Rules.total
FOLD = walk.Statement._fold


TWINS: dict[str, tuple[Program, Patch]] = {
    "the unit roundoff is dropped": (PRODUCT, number("unit", lambda self, dtype: Fraction(0))),
    "the unit roundoff of another dtype": (PRODUCT, number("unit", lambda self, dtype: Fraction(1, 2**53))),
    "half the unit roundoff": (PRODUCT, number("unit", lambda self, dtype: Fraction(1, 2**25))),
    "underflow is left out": (TINY, number("tiny", lambda self, dtype: Fraction(0))),
    "a sum of one addition": (LONG, of_walk("depth", lambda *_: Const(1))),
    "gamma of depth 0": (LONG, of_walk("depth", lambda *_: ZERO)),
    "steps counted as lanes": (WIDE, of_walk("depth", in_pairs)),
    "leaves' errors are not summed": (
        Program(lambda x: namespace(x).exp(x).sum(axis=-1), ROWS, lambda rng: [f32(np.full((3, 2), 7.7 * rng.random() + 1))]),
        method("total", lambda self, fold, value, e, depth: TOTAL(self, fold, value, REAL_ZERO, ZERO)),
    ),
    "cancellation: a sum forgets its operands' errors": (DIFFERENCE, without_errors("sub")),
    "a product forgets its operands' errors": (SCALED, without_errors("mul")),
    "exp forgets its argument's error": (EXP, without_errors("exp")),
    "exp within a tenth of an ulp": (
        EXP_ALONE, method("function", lambda self, name, value, p: self.rounded(value, p, Fraction(1, 2**23) / 10))
    ),
    "log forgets its argument's error": (LOG, without_errors("log")),
    "a quotient forgets its divisor's error": (RECIPROCAL, without_errors("div")),
    "a root forgets its argument's error": (ROOT, without_errors("sqrt")),
    "floor is continuous": (FLOOR, rule("floor", lambda r, value, a: a[1])),
    "no rescaling: each tile forgets those before": (WIDE, lambda patch: patch.setattr(recurrence, "linear", no_rescale)),
    "nothing overflows": (SQUARE, method("within", no_limit)),
    "conditions never come out otherwise": (SIGN, of_walk("_flips", staticmethod(lambda a, b: FALSE))),
    "a store into float16 does not round": (HALF, of_walk("fits", lambda self, term: True)),
    "literals are exact": (TENTH, method("constant", lambda self, value: REAL_ZERO)),
    "a maximum has no error": (MOST, of_walk("_fold", lambda self, term: (FOLD(self, term)[0], REAL_ZERO))),
    "what another kernel stored is exact": (TWO_KERNELS, all_are_inputs),
    "integers are exact in float32": (WHOLE, method("integer", lambda self, value: REAL_ZERO)),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_measured_error_shows_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, patch = TWINS[name]
    assert worst(program) <= 1
    patch(monkeypatch)
    assert worst(program) > 1