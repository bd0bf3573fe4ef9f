"""Largest errors of the vector functions, in units in the last place, against 80-bit or longer arithmetic."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tang_verified.proofs.readback.c_math import ULPS
from tang_verified.semantics.build import ceildiv, iadd, imul, lt, op, var
from tang_verified.semantics.kernel import Assign

from .harness import R, axis, for_, kernel, run_c

n, v, lane = var("n"), var("v"), var("l")
rng = np.random.default_rng(11)


def apply(name: str, x: np.ndarray, width: int) -> np.ndarray:
    c = iadd(imul(v, width), lane)
    dtype = str(x.dtype)
    assign = Assign((axis("l", width, "lane"),), "y", (c,), op(name, R("x", c)), lt(c, n))
    return run_c(
        kernel(["n"], {"x": (dtype, [n])}, {"y": (dtype, [n])}, for_("v", ceildiv(n, width), "grid", assign)), [len(x)], x
    )[0]


def ulps(got: np.ndarray, want: np.ndarray, dtype: str) -> float:
    """The largest error; one ulp is the spacing at the exact value, at least the smallest subnormal."""
    info = np.finfo(dtype)
    _, exponent = np.frexp(want)
    spacing = np.ldexp(np.longdouble(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
    return float(np.max(np.abs(got.astype(np.longdouble) - want) / spacing))


def samples(name: str, dtype: str) -> np.ndarray:
    single = dtype == "float32"
    top, tiny = (88.7, -103.9) if single else (709.7, -745.0)
    info = np.finfo(dtype)
    magnitudes = np.exp2(rng.uniform(info.minexp - info.nmant, info.maxexp - 0.01, 200_000))
    match name:
        case "exp":
            parts = [
                rng.uniform(tiny, top, 400_000),
                rng.uniform(-1, 1, 200_000),
                rng.uniform(tiny, tiny + 20, 50_000),
                np.ldexp(magnitudes, -info.maxexp),
            ]
        case "log":
            parts = [magnitudes, rng.uniform(0.4, 2.5, 400_000), 1 + rng.uniform(-1e-3, 1e-3, 100_000)]
        case _:
            parts = [rng.uniform(-12, 12, 300_000), rng.uniform(-1.3, 1.3, 300_000), magnitudes, -magnitudes]
    return np.concatenate(parts).astype(dtype)


def exact(name: str, x: np.ndarray) -> np.ndarray:
    """In long double, whose library is good to about one of its own units (2^-11 of double's); erf through mpmath."""
    wide = x.astype(np.longdouble)
    if name == "erf":
        from scipy.special import erf

        return erf(x.astype(np.float64)).astype(np.longdouble)
    return getattr(np, name)(wide)  # type: ignore[no-any-return]


BOUND = {(name, {"f32": "float32", "f64": "float64"}[kind]): ulp for (name, kind), ulp in ULPS.items()}


@pytest.mark.parametrize(("name", "dtype"), list(BOUND))
def test_ulps(name: str, dtype: str) -> None:
    x = samples(name, dtype)
    error = ulps(apply(name, x, 16 if dtype == "float32" else 8), exact(name, x), dtype)
    print(f"{name} {dtype}: {error:.3f} ulp")
    assert error <= BOUND[name, dtype]


@pytest.mark.parametrize(("name", "dtype"), list(BOUND))
def test_other_widths_give_the_same_values(name: str, dtype: str) -> None:
    x = samples(name, dtype)[::50]
    wide = apply(name, x, 16 if dtype == "float32" else 8)
    for width in (2, 4):
        assert ulps(apply(name, x, width), exact(name, x), dtype) <= BOUND[name, dtype]
    assert np.isfinite(wide).all()


def test_against_many_digits() -> None:
    """The long double library itself, and erf, at a few hundred points."""
    with mpmath.workdps(60):
        for name in ("exp", "log", "tanh", "erf"):
            for dtype in ("float32", "float64"):
                if (name, dtype) not in BOUND:
                    continue
                x = samples(name, dtype)[::2000]
                got = apply(name, x, 8)
                want = [getattr(mpmath, name)(mpmath.mpf(float(a))) for a in x]
                least, digits = (np.finfo(dtype).minexp, np.finfo(dtype).nmant)
                worst = 0.0
                for a, b in zip(got, want, strict=True):
                    exponent = max(mpmath.frexp(b)[1] - 1, least) if b else least
                    worst = max(worst, float(abs(mpmath.mpf(float(a)) - b) / mpmath.mpf(2) ** (exponent - digits)))
                assert worst <= BOUND[name, dtype], (name, dtype, worst)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [4, 8, 16])
def test_special_values(dtype: str, width: int) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([inf, -inf, nan, 0.0, -0.0, 1e4, -1e4], dtype)
    np.testing.assert_array_equal(apply("exp", x, width), [inf, 0, nan, 1, 1, inf, 0])
    np.testing.assert_array_equal(apply("tanh", x, width), [1, -1, nan, 0, 0, 1, -1])
    np.testing.assert_array_equal(apply("erf", x, width), [1, -1, nan, 0, 0, 1, -1])
    np.testing.assert_array_equal(
        apply("log", np.array([inf, -inf, nan, 0, -0.0, -1, 1], dtype), width), [inf, nan, nan, -inf, -inf, nan, 0]
    )


@pytest.mark.parametrize(("dtype", "last"), [("float32", -103.97), ("float64", -745.13)])
def test_exp_keeps_subnormals(dtype: str, last: float) -> None:
    x = np.linspace(last, -87 if dtype == "float32" else -708, 5000).astype(dtype)
    y = apply("exp", x, 8)
    assert (y > 0).all() and (np.diff(y) >= 0).all()


@pytest.mark.parametrize(
    "name", ["sqrt", "rsqrt", "floor", "ceil", "round", "sin", "cos", "log1p", "expm1", "abs", "neg", "atan"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_library_functions_by_lane(name: str, dtype: str) -> None:
    x = np.abs(rng.standard_normal(100) * 3).astype(dtype) + np.asarray(0.25, dtype)
    x[:4] = [0.5, 1.5, 2.5, 3.5]
    reference = {"rsqrt": lambda a: 1 / np.sqrt(a), "neg": np.negative, "abs": np.abs, "round": np.round, "atan": np.arctan}
    want = reference.get(name, getattr(np, name, None))(x.astype(np.float64))  # type: ignore[misc]
    np.testing.assert_allclose(apply(name, x, 8), want, rtol=1e-6 if dtype == "float32" else 1e-14)
