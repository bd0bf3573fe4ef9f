"""Hand-written kernels against NumPy in double precision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tang_verified.backends.c.compiler import CompilerError, compiler
from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.printer import print_kernel
from tang_verified.semantics.build import ceildiv, conj, floordiv, iadd, imul, integer, isub, le, lt, mod, op, real, var
from tang_verified.semantics.kernel import Alloc, Assign, Buffer
from tang_verified.semantics.terms import (
    ADD,
    ALL,
    ANY,
    INT_ADD,
    MAX,
    NEG_INF,
    REAL_ZERO,
    TRUE,
    Axis,
    Const,
    Fold,
    Monoid,
    Op,
    Sym,
)

from .harness import R, axis, close, for_, interpret, kernel, run_c

n, m, d, i, j, k, lane, v, r = (var(name) for name in "nmdijklvr")
LANES = 16
rng = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def spread(outer=v, lane=lane, width=LANES):  # type: ignore[no-untyped-def]
    return iadd(imul(outer, width), lane)


def elementwise(value, dtype="float32", out=None, width=LANES, sort="real"):  # type: ignore[no-untyped-def]
    c = spread(width=width)
    return kernel(
        ["n"],
        {"x": (dtype, [n])},
        {"y": (out or dtype, [n])},
        for_(
            "v",
            ceildiv(n, width),
            "grid",
            Assign((axis("l", width, "lane"),), "y", (c,), value(R("x", c, sort=sort)), lt(c, n)),
        ),
    )


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100])
def test_elementwise_ragged(size: int) -> None:
    x = f32(size)
    (y,) = run_c(elementwise(lambda a: op("add", op("mul", a, a), op("exp", a))), [size], x)
    close(y, x.astype(float) ** 2 + np.exp(x.astype(float)))


@pytest.mark.parametrize("width", [2, 4, 8, 32])
def test_other_lane_counts(width: int) -> None:
    x = f32(width * 3 + 1)
    (y,) = run_c(elementwise(lambda a: op("max", op("exp", a), real(1)), width=width), [len(x)], x)
    close(y, np.maximum(np.exp(x.astype(float)), 1))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_precisions(dtype: str) -> None:
    x = f32(53).astype(dtype)
    (y,) = run_c(elementwise(lambda a: op("exp", op("mul", a, real(Fraction(1, 3)))), dtype), [53], x)
    close(y, np.exp(x.astype(float) / 3), 2e-3 if dtype == "float16" else 1e-14)


def test_float16_is_rounded_to_nearest_even_and_keeps_subnormals() -> None:
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    x = x[~np.isnan(x)]
    (y,) = run_c(elementwise(lambda a: a, "float16"), [len(x)], x)
    np.testing.assert_array_equal(y.view(np.uint16), x.view(np.uint16))
    z = np.concatenate([f32(3001) * s for s in (1, 1e-7, 3e4)]).astype(np.float32)
    with np.errstate(over="ignore"):
        (y,) = run_c(elementwise(lambda a: a, "float32", "float16"), [len(z)], z)
        np.testing.assert_array_equal(y, z.astype(np.float16))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_divide_towards_minus_infinity(dtype: str) -> None:
    x = np.arange(-41, 42).astype(dtype)
    for divisor in (1, 3, 8, -3, -8):
        (q,) = run_c(elementwise(lambda a: op("floordiv", a, Const(divisor)), dtype, sort="int"), [len(x)], x)  # noqa: B023
        (p,) = run_c(elementwise(lambda a: op("mod", a, Const(divisor)), dtype, sort="int"), [len(x)], x)  # noqa: B023
        np.testing.assert_array_equal(q, x // divisor)
        np.testing.assert_array_equal(p, x % divisor)


def test_booleans() -> None:
    x = f32(50)
    (y,) = run_c(
        elementwise(lambda a: op("and", op("lt", a, real(1)), op("not", op("lt", a, real(0)))), "float32", "bool"), [50], x
    )
    np.testing.assert_array_equal(y, (x < 1) & ~(x < 0))
    (z,) = run_c(elementwise(lambda a: Op("select", (a, real(2), real(-1))), "bool", "float32", sort="bool"), [50], y)
    np.testing.assert_array_equal(z, np.where(y, 2, -1))
    (w,) = run_c(elementwise(lambda a: op("int", a), "bool", "int32", sort="bool"), [50], y)
    np.testing.assert_array_equal(w, y.astype(np.int32))


def test_maximum_of_zeros_and_nans() -> None:
    """Inputs are finite, but a nan can arise inside: 0·inf here."""
    x = np.array([-0.0, 0.0, 1, -1, 3], np.float32)
    infinite = op("mul", op("sub", R("x", spread()), R("x", spread())), Const("inf"))
    (y,) = run_c(elementwise(lambda a: op("max", infinite, a)), [5], x)
    assert np.isnan(y).all()
    (y,) = run_c(elementwise(lambda a: op("max", a, infinite)), [5], x)
    assert np.isnan(y).all()
    (y,) = run_c(elementwise(lambda a: op("max", a, real(0))), [5], x)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    (y,) = run_c(elementwise(lambda a: op("min", a, real(0))), [5], x)
    np.testing.assert_array_equal(y, np.minimum(x, 0))


def test_zero_conventions() -> None:
    x = np.array([0.0, 2.0, -3.0], np.float32)
    (y,) = run_c(elementwise(lambda a: op("div0", real(6), a)), [3], x)
    np.testing.assert_array_equal(y, [0, 3, -2])
    (y,) = run_c(elementwise(lambda a: op("exp", op("sub0", NEG_INF, op("select", op("eq", a, real(0)), NEG_INF, a)))), [3], x)
    np.testing.assert_array_equal(y, [0, 0, 0])


def rows(monoid, body, outer="seq", inner="lane", guard=None):  # type: ignore[no-untyped-def]
    c = spread(var("j0"), var("j1"))
    fold = Fold(monoid, (Axis("j0", ceildiv(m, LANES)), Axis("j1", integer(LANES))), guard or lt(c, m), (body(R("x", i, c)),))
    assign = Assign((), "y", (i,), fold, TRUE, (("j0", outer), ("j1", inner)))
    return kernel(["n", "m"], {"x": ("float32", [n, m])}, {"y": ("float32", [n])}, for_("i", n, "grid", assign))


@pytest.mark.parametrize("kinds", [("seq", "lane"), ("seq", "seq"), ("seq", "unroll")])
@pytest.mark.parametrize("shape", [(3, 1), (3, 16), (2, 45), (0, 5)])
def test_row_reductions(shape: tuple[int, int], kinds: tuple[str, str]) -> None:
    x = f32(*shape)
    (y,) = run_c(rows(ADD, lambda a: a, *kinds), shape, x)
    close(y, x.astype(float).sum(1))
    (y,) = run_c(rows(MAX, lambda a: a, *kinds), shape, x)
    close(y, x.max(1))


def test_an_empty_fold_is_the_identity() -> None:
    (y,) = run_c(rows(MAX, lambda a: a), (3, 0), f32(3, 0))
    np.testing.assert_array_equal(y, [-np.inf] * 3)


def test_copied_fold_axis_has_partial_sums() -> None:
    c = iadd(imul(var("j0"), 64), iadd(imul(var("u"), 16), lane))
    axes = (Axis("j0", floordiv(m, 64)), Axis("u", integer(4)), Axis("l", integer(16)))
    assign = Assign((), "y", (i,), Fold(ADD, axes, TRUE, (R("x", i, c),)), TRUE, (("u", "unroll"), ("l", "lane")))
    test = kernel(["n", "m"], {"x": ("float32", [n, m])}, {"y": ("float32", [n])}, for_("i", n, "grid", assign))
    x = f32(3, 128)
    (y,) = run_c(test, x.shape, x)
    close(y, x.astype(float).sum(1))
    assert print_kernel(test, CDialect()).count("splat_f32x16(0.0f)") == 4


def test_order_of_a_fold_that_does_not_commute() -> None:
    """The last element that is not zero: lanes may be joined, but not partial states of interleaved elements."""
    a, b = Sym("a0", "real"), Sym("b0", "real")
    last = Monoid("last", (REAL_ZERO,), (op("select", op("eq", b, REAL_ZERO), a, b),), commutative=False)
    x = np.where(rng.random((4, 45)) < 0.2, f32(4, 45), 0).astype(np.float32)
    want = np.array([row[np.nonzero(row)[0][-1]] if row.any() else 0 for row in x])
    for kinds in (("seq", "lane"), ("seq", "unroll"), ("seq", "seq")):
        (y,) = run_c(rows(last, lambda e: e, *kinds), x.shape, x)
        np.testing.assert_array_equal(y, want)
    one = Fold(last, (Axis("l", integer(16)),), TRUE, (R("x", i, lane),))
    test = kernel(
        ["n"],
        {"x": ("float32", [n, integer(16)])},
        {"y": ("float32", [n])},
        for_("i", n, "grid", Assign((), "y", (i,), one, TRUE, (("l", "lane"),))),
    )
    (y,) = run_c(test, [4], np.ascontiguousarray(x[:, :16]))
    np.testing.assert_array_equal(y, [row[np.nonzero(row)[0][-1]] if row.any() else 0 for row in x[:, :16]])


def argmax() -> Monoid:
    """The largest value and the first place where it stands."""
    a0, a1, b0, b1 = Sym("a0", "real"), Sym("a1", "int"), Sym("b0", "real"), Sym("b1", "int")
    better = op("or", op("lt", a0, b0), op("and", op("eq", a0, b0), op("lt", b1, a1)))
    return Monoid("argmax", (NEG_INF, Const(2**31)), (op("select", better, b0, a0), op("select", better, b1, a1)))


@pytest.mark.parametrize("kind", ["lane", "seq", "unroll"])
def test_a_monoid_with_two_fields(kind: str) -> None:
    c = spread(var("j0"), var("j1"))
    axes = (Axis("j0", ceildiv(m, LANES)), Axis("j1", integer(LANES)))
    kinds = (("j0", "seq"), ("j1", kind))
    folds = [Fold(argmax(), axes, lt(c, m), (R("x", i, c), c), component) for component in (0, 1)]
    buffers = [Alloc(Buffer("best", "float32", (), "register"))]
    test = kernel(
        ["n", "m"],
        {"x": ("float32", [n, m])},
        {"y": ("float32", [n]), "z": ("int64", [n])},
        for_(
            "i",
            n,
            "grid",
            *buffers,
            Assign((), "best", (), folds[0], TRUE, kinds),
            Assign((), "y", (i,), R("best")),
            Assign((), "z", (i,), folds[1], TRUE, kinds),
        ),
    )
    x = np.round(f32(5, 37) * 2)
    y, z = run_c(test, x.shape, x)
    np.testing.assert_array_equal(y, x.max(1))
    np.testing.assert_array_equal(z, x.argmax(1))


def test_both_components_are_computed_together() -> None:
    fold = [Fold(argmax(), (Axis("j", m),), TRUE, (R("x", i, j), j), component) for component in (0, 1)]
    value = op("mul", fold[0], op("real", fold[1]))
    test = kernel(
        ["n", "m"], {"x": ("float32", [n, m])}, {"y": ("float32", [n])}, for_("i", n, "grid", Assign((), "y", (i,), value))
    )
    x = f32(4, 9)
    (y,) = run_c(test, x.shape, x)
    close(y, x.max(1) * x.argmax(1))
    assert print_kernel(test, CDialect()).count("for (int64_t k") == 1


def test_fields_that_exchange_their_values() -> None:
    """(a0, a1) ⊕ (b0, b1) = (b0 + a1, a0): the second field is the first's old value. Fibonacci with zero bodies."""
    a0, a1, b0 = Sym("a0", "real"), Sym("a1", "real"), Sym("b0", "real")
    step = Monoid("step", (real(1), REAL_ZERO), (op("add", b0, op("add", a0, a1)), a0), commutative=False)
    fold = Fold(step, (Axis("k", n),), TRUE, (REAL_ZERO, REAL_ZERO), 1)
    test = kernel(["n"], {"x": ("float32", [n])}, {"y": ("float32", [integer(1)])}, Assign((), "y", (integer(0),), fold))
    (y,) = run_c(test, [10], f32(10))
    np.testing.assert_array_equal(y, [55])


@pytest.mark.parametrize("flag", ["-mno-avx512f", "-mno-avx"])
def test_narrower_processors(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is the same; other branches of its `#if`s are compiled."""
    monkeypatch.setenv("CC", " ".join([*compiler().command, flag]))
    try:
        compiler()
    except CompilerError:
        pytest.skip(f"this compiler does not know {flag}")
    for dtype in ("float16", "float32", "float64"):
        x = f32(53).astype(dtype)
        for width in (4, 8, 16):
            (y,) = run_c(elementwise(lambda a: op("max", op("exp", a), real(1)), dtype, width=width), [53], x)
            close(y, np.maximum(np.exp(x.astype(float)), 1), 2e-3 if dtype == "float16" else 2e-7)
    a, b = f32(13, 37), f32(37, 50)
    (y,) = run_c(matmul(6, 1), (13, 50, 37), a, b)
    close(y, a.astype(float) @ b.astype(float))


def softmax(scope: str, rows_: int = 2):  # type: ignore[no-untyped-def]
    """Rows by twos, with running buffers."""
    i0 = var("i0")
    row = iadd(imul(i0, rows_), r)
    c0, c = spread(var("j0"), var("j1")), spread()
    axes = (Axis("j0", ceildiv(m, LANES)), Axis("j1", integer(LANES)))
    kinds = (("j1", "lane"),)
    inside = lt(row, n)
    copies = axis("r", rows_, "unroll")
    x = op("select", conj(inside, lt(c0, m)), R("x", row, c0), NEG_INF)
    return kernel(
        ["n", "m"],
        {"x": ("float32", [n, m])},
        {"y": ("float32", [n, m])},
        for_(
            "i0",
            ceildiv(n, rows_),
            "grid",
            Alloc(Buffer("top", "float32", (integer(rows_),), scope)),  # type: ignore[arg-type]
            Alloc(Buffer("e", "float32", (integer(rows_), imul(ceildiv(m, LANES), LANES)), "thread")),
            Alloc(Buffer("sum", "float32", (integer(rows_),), scope)),  # type: ignore[arg-type]
            Assign((copies,), "top", (r,), Fold(MAX, axes, TRUE, (x,)), TRUE, kinds),
            Assign(
                (axis("v", ceildiv(m, LANES), "seq"), copies, axis("l", LANES, "lane")),
                "e",
                (r, c),
                op("select", conj(inside, lt(c, m)), op("exp", op("sub", R("x", row, c), R("top", r))), REAL_ZERO),
            ),
            Assign((copies,), "sum", (r,), Fold(ADD, axes, TRUE, (R("e", r, c0),)), TRUE, kinds),
            Assign(
                (axis("v", ceildiv(m, LANES), "seq"), copies, axis("l", LANES, "lane")),
                "y",
                (row, c),
                op("div", R("e", r, c), R("sum", r)),
                conj(inside, lt(c, m)),
            ),
        ),
    )


@pytest.mark.parametrize("scope", ["register", "thread"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 16), (5, 53), (3, 40000)])
def test_softmax(shape: tuple[int, int], scope: str) -> None:
    x = f32(*shape)
    (y,) = run_c(softmax(scope), shape, x)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    close(y, e / e.sum(1, keepdims=True), 1e-6)


def test_softmax_in_one_assign() -> None:
    """Nested folds: the maximum inside the sum's body is computed once for each row."""
    top = Fold(MAX, (Axis("j", m),), TRUE, (R("x", i, j),))
    total = Fold(ADD, (Axis("k", m),), TRUE, (op("exp", op("sub", R("x", i, k), top)),))
    c = spread()
    value = op("div", op("exp", op("sub", R("x", i, c), top)), total)
    loops = (axis("v", ceildiv(m, LANES), "seq"), axis("l", LANES, "lane"))
    test = kernel(
        ["n", "m"],
        {"x": ("float32", [n, m])},
        {"y": ("float32", [n, m])},
        for_("i", n, "grid", Assign(loops, "y", (i, c), value, lt(c, m))),
    )
    x = f32(3, 21)
    (y,) = run_c(test, x.shape, x)
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    close(y, e / e.sum(1, keepdims=True))


def matmul(mr: int = 8, nv: int = 2, kb: int = 32):  # type: ignore[no-untyped-def]
    """Packed operands, register accumulators, blocks of k, ragged edges by guards."""
    i0, j0, k0, kk = var("i0"), var("j0"), var("k0"), var("kk")
    nr = nv * LANES
    row, col, c = iadd(imul(i0, mr), r), iadd(imul(j0, nr), spread()), spread()
    deep = iadd(imul(k0, kb), kk)
    tile = (axis("r", mr, "unroll"), axis("v", nv, "unroll"), axis("l", LANES, "lane"))
    a = op("select", conj(lt(row, n), lt(deep, d)), R("a", row, deep), REAL_ZERO)
    b = op("select", conj(lt(deep, d), lt(col, m)), R("b", deep, col), REAL_ZERO)
    product = Fold(ADD, (Axis("kk", integer(kb)),), TRUE, (op("mul", R("pa", kk, r), R("pb", kk, c)),))
    return kernel(
        ["n", "m", "d"],
        {"a": ("float32", [n, d]), "b": ("float32", [d, m])},
        {"y": ("float32", [n, m])},
        for_(
            "i0",
            ceildiv(n, mr),
            "grid",
            for_(
                "j0",
                ceildiv(m, nr),
                "grid",
                Alloc(Buffer("pa", "float32", (integer(kb), integer(mr)), "thread")),
                Alloc(Buffer("pb", "float32", (integer(kb), integer(nr)), "thread")),
                Alloc(Buffer("acc", "float32", (integer(mr), integer(nr)), "register")),
                Assign(tile, "acc", (r, c), REAL_ZERO),
                for_(
                    "k0",
                    ceildiv(d, kb),
                    "seq",
                    Assign((axis("kk", kb, "seq"), axis("r", mr, "lane")), "pa", (kk, r), a),
                    Assign((axis("kk", kb, "seq"), axis("v", nv, "unroll"), axis("l", LANES, "lane")), "pb", (kk, c), b),
                    Assign(tile, "acc", (r, c), op("add", R("acc", r, c), product)),
                ),
                Assign(tile, "y", (row, col), R("acc", r, c), conj(lt(row, n), lt(col, m))),
            ),
        ),
    )


@pytest.mark.parametrize("tile", [(8, 2), (8, 3), (3, 1)])
@pytest.mark.parametrize("shape", [(8, 32, 32), (13, 50, 37), (1, 1, 1), (5, 7, 0), (0, 3, 4)])
def test_matmul(shape: tuple[int, int, int], tile: tuple[int, int]) -> None:
    rows_, cols, depth = shape
    a, b = f32(rows_, depth), f32(depth, cols)
    test = matmul(*tile)
    (y,) = run_c(test, shape, a, b)
    close(y, a.astype(float) @ b.astype(float), 1e-5)
    text = print_kernel(test, CDialect())
    assert f"acc_{tile[0] - 1}_{tile[1] - 1};" in text and "acc[" not in text


def test_matmul_without_packing() -> None:
    """One guarded assign with the fold inside: the whole tile, or row by row under masks."""
    row, col = iadd(imul(i, 4), r), spread()
    fold = Fold(ADD, (Axis("k", d),), TRUE, (op("mul", R("a", row, k), R("b", k, col)),))
    loops = (axis("r", 4, "unroll"), axis("l", LANES, "lane"))
    test = kernel(
        ["n", "m", "d"],
        {"a": ("float32", [n, d]), "b": ("float32", [d, m])},
        {"y": ("float32", [n, m])},
        for_(
            "i",
            ceildiv(n, 4),
            "grid",
            for_("v", ceildiv(m, LANES), "grid", Assign(loops, "y", (row, col), fold, conj(lt(row, n), lt(col, m)))),
        ),
    )
    for shape in ((4, 16, 3), (9, 35, 11), (2, 3, 0)):
        a, b = f32(shape[0], shape[2]), f32(shape[2], shape[1])
        (y,) = run_c(test, shape, a, b)
        close(y, a.astype(float) @ b.astype(float))


def test_causal_mask() -> None:
    """select on an affine condition whose false side must not be read: x has only the lower triangle's rows."""
    c = spread()
    value = op("select", le(c, i), R("x", isub(i, c)), NEG_INF)
    loops = (axis("v", ceildiv(n, LANES), "seq"), axis("l", LANES, "lane"))
    test = kernel(
        ["n"],
        {"x": ("float32", [n])},
        {"y": ("float32", [n, n])},
        for_("i", n, "grid", Assign(loops, "y", (i, c), value, lt(c, n))),
    )
    x = f32(37)
    (y,) = run_c(test, [37], x)
    want = np.array([[x[a - b] if b <= a else -np.inf for b in range(37)] for a in range(37)])
    np.testing.assert_array_equal(y, want)


def test_condition_that_is_data() -> None:
    """where(mask, x[index], 0): an index is only in range where the mask says so."""
    c = spread()
    value = op("select", R("mask", c, sort="bool"), R("x", R("index", c, sort="int")), REAL_ZERO)
    test = kernel(
        ["n", "m"],
        {"x": ("float32", [m]), "index": ("int32", [n]), "mask": ("bool", [n])},
        {"y": ("float32", [n])},
        for_("v", ceildiv(n, LANES), "grid", Assign((axis("l", LANES, "lane"),), "y", (c,), value, lt(c, n))),
    )
    x, mask = f32(11), rng.random(70) < 0.5
    index = np.where(mask, rng.integers(0, 11, 70), 2**30).astype(np.int32)
    (y,) = run_c(test, [70, 11], x, index, mask)
    np.testing.assert_array_equal(y, np.where(mask, x[np.where(mask, index, 0)], 0))


def test_convolution_with_padding() -> None:
    """y[i, j] = Σ_{p, q < 3} w[p, q] x[i + p - 1, j + q - 1], zero outside."""
    p, q, c = var("p"), var("q"), spread()
    ir, jc = iadd(i, isub(p, integer(1))), iadd(c, isub(q, integer(1)))
    inside = conj(le(integer(0), ir), lt(ir, n), le(integer(0), jc), lt(jc, m))
    x = op("select", inside, R("x", ir, jc), REAL_ZERO)
    fold = Fold(ADD, (Axis("p", integer(3)), Axis("q", integer(3))), TRUE, (op("mul", x, R("w", p, q)),))
    loops = (axis("v", ceildiv(m, LANES), "seq"), axis("l", LANES, "lane"))
    for kind in ("unroll", "seq"):
        test = kernel(
            ["n", "m"],
            {"x": ("float32", [n, m]), "w": ("float32", [integer(3), integer(3)])},
            {"y": ("float32", [n, m])},
            for_("i", n, "grid", Assign(loops, "y", (i, c), fold, lt(c, m), (("p", kind), ("q", kind)))),
        )
        for shape in ((5, 20), (1, 1), (3, 16)):
            a, w = f32(*shape), f32(3, 3)
            (y,) = run_c(test, shape, a, w)
            big = np.pad(a.astype(float), 1)
            want = sum(w[s, t] * big[s : s + shape[0], t : t + shape[1]] for s in range(3) for t in range(3))
            close(y, want)


def test_transposed_and_strided_access() -> None:
    c = spread()
    loops = (axis("l", LANES, "lane"),)
    test = kernel(
        ["n", "m"],
        {"x": ("float32", [m, n])},
        {"y": ("float32", [n, m]), "z": ("float32", [m, n])},
        for_(
            "i",
            n,
            "grid",
            for_(
                "v",
                ceildiv(m, LANES),
                "seq",
                Assign(loops, "y", (i, c), R("x", c, i), lt(c, m)),
                Assign(loops, "z", (c, i), op("mul", R("x", c, i), real(2)), lt(c, m)),
            ),
        ),
    )
    x = f32(21, 5)
    y, z = run_c(test, [5, 21], x)
    np.testing.assert_array_equal(y, x.T)
    np.testing.assert_array_equal(z, 2 * x)


def test_lane_number_as_data_and_reversal() -> None:
    c = spread()
    value = op("add", R("x", isub(isub(n, integer(1)), c)), op("real", mod(c, 3)))
    test = kernel(
        ["n"],
        {"x": ("float32", [n])},
        {"y": ("float32", [n])},
        for_("v", ceildiv(n, LANES), "grid", Assign((axis("l", LANES, "lane"),), "y", (c,), value, lt(c, n))),
    )
    x = f32(40)
    (y,) = run_c(test, [40], x)
    close(y, x[::-1] + np.arange(40) % 3)


def test_integer_and_boolean_folds() -> None:
    c = spread()
    axes = (Axis("v", ceildiv(m, LANES)), Axis("l", integer(LANES)))
    kinds = (("l", "lane"),)
    count = Fold(INT_ADD, axes, lt(c, m), (op("int", op("lt", REAL_ZERO, R("x", i, c))),))
    some = Fold(ANY, axes, lt(c, m), (op("lt", real(2), R("x", i, c)),))
    every = Fold(ALL, axes, lt(c, m), (op("lt", real(-2), R("x", i, c)),))
    test = kernel(
        ["n", "m"],
        {"x": ("float32", [n, m])},
        {"y": ("int64", [n]), "z": ("bool", [n]), "w": ("bool", [n])},
        for_(
            "i",
            n,
            "grid",
            Assign((), "y", (i,), count, TRUE, kinds),
            Assign((), "z", (i,), some, TRUE, kinds),
            Assign((), "w", (i,), every, TRUE, kinds),
        ),
    )
    x = f32(8, 45)
    y, z, w = run_c(test, x.shape, x)
    np.testing.assert_array_equal(y, (x > 0).sum(1))
    np.testing.assert_array_equal(z, (x > 2).any(1))
    np.testing.assert_array_equal(w, (x > -2).all(1))


def test_triangular_fold_and_reads_that_leave_loops() -> None:
    """Σ_{j < i} w[n - 1] x[j]: w[n - 1] leaves the loop, and is not read where the loop is empty (n = 0)."""
    fold = Fold(ADD, (Axis("j", m), Axis("k", j)), TRUE, (op("mul", R("w", isub(m, integer(1))), R("x", k)),))
    test = kernel(
        ["n", "m"],
        {"x": ("float32", [m]), "w": ("float32", [m])},
        {"y": ("float32", [n])},
        for_("i", n, "grid", Assign((), "y", (i,), fold)),
    )
    x, w = f32(6), f32(6)
    (y,) = run_c(test, [2, 6], x, w)
    close(y, np.full(2, sum(w[-1] * x[:a].sum() for a in range(6))))
    (y,) = run_c(test, [2, 0], f32(0), f32(0))
    np.testing.assert_array_equal(y, [0, 0])


def test_online_maximum_and_sum_carried_over_tiles() -> None:
    """top and sum live in registers over a sequential loop; the rescaling reads both old and new maximum."""
    t, tile = var("t"), 32
    at = iadd(imul(t, tile), spread(var("v"), var("l")))
    axes = (Axis("v", integer(2)), Axis("l", integer(16)))
    kinds = (("v", "unroll"), ("l", "lane"))
    x = op("select", lt(at, m), R("x", i, at), NEG_INF)
    new = op("max", R("top"), Fold(MAX, axes, TRUE, (x,)))
    rescaled = op("mul", R("sum"), op("exp", op("sub", R("top"), R("next"))))
    part = Fold(ADD, axes, TRUE, (op("select", lt(at, m), op("exp", op("sub", R("x", i, at), R("next"))), REAL_ZERO),))
    test = kernel(
        ["n", "m"],
        {"x": ("float32", [n, m])},
        {"y": ("float32", [n])},
        for_(
            "i",
            n,
            "grid",
            *(Alloc(Buffer(name, "float32", (), "register")) for name in ("top", "next", "sum")),
            Assign((), "top", (), Const("-inf")),
            Assign((), "sum", (), REAL_ZERO),
            for_(
                "t",
                ceildiv(m, tile),
                "seq",
                Assign((), "next", (), new, TRUE, kinds),
                Assign((), "sum", (), op("add", rescaled, part), TRUE, kinds),
                Assign((), "top", (), R("next")),
            ),
            Assign((), "y", (i,), op("add", R("top"), op("log", R("sum")))),
        ),
    )
    x_ = f32(3, 75)
    (y,) = run_c(test, x_.shape, x_)
    close(y, np.log(np.exp(x_.astype(float)).sum(1)))


def test_register_buffers_of_other_forms() -> None:
    """Written by lanes, read one by one; indexed by a loop (an array then); double and half precision; booleans."""
    test = kernel(
        ["n"],
        {"x": ("float32", [n, integer(8)])},
        {"y": ("float32", [n, integer(8)]), "z": ("float32", [n]), "w": ("bool", [n, integer(8)])},
        for_(
            "i",
            n,
            "grid",
            Alloc(Buffer("a", "float64", (integer(8),), "register")),
            Alloc(Buffer("h", "float16", (integer(8),), "register")),
            Alloc(Buffer("q", "bool", (integer(8),), "register")),
            Alloc(Buffer("c", "float32", (integer(8),), "register")),
            Assign((axis("l", 8, "lane"),), "a", (lane,), R("x", i, lane)),
            Assign((axis("l", 8, "lane"),), "h", (lane,), R("a", lane)),
            Assign((axis("l", 8, "lane"),), "q", (lane,), op("lt", REAL_ZERO, R("a", lane))),
            Assign((axis("k", 8, "seq"),), "c", (k,), R("x", i, k)),
            Assign((axis("r", 8, "unroll"),), "y", (i, isub(integer(7), r)), op("add", R("h", r), R("c", r))),
            Assign((axis("l", 8, "lane"),), "w", (i, lane), R("q", lane, sort="bool")),
            Assign((), "z", (i,), Fold(ADD, (Axis("r", integer(8)),), TRUE, (R("a", r),)), TRUE, (("r", "unroll"),)),
        ),
    )
    x = f32(3, 8)
    y, z, w = run_c(test, [3], x)
    close(y, 2 * x[:, ::-1], 1e-3)
    close(z, x.sum(1))
    np.testing.assert_array_equal(w, x > 0)


def test_global_buffer_and_two_grids() -> None:
    test = kernel(
        ["n"],
        {"x": ("float32", [n])},
        {"y": ("float32", [n])},
        Alloc(Buffer("g", "float32", (n, n), "global")),
        for_("i", n, "grid", for_("j", n, "grid", Assign((), "g", (i, j), op("mul", R("x", i), R("x", j))))),
        for_("i", n, "grid", Assign((), "y", (i,), Fold(ADD, (Axis("j", n),), TRUE, (R("g", i, j),)))),
    )
    x = f32(20)
    (y,) = run_c(test, [20], x)
    close(y, np.outer(x, x).sum(1))


@pytest.mark.parametrize("scope", ["global", "thread"])
def test_no_memory_is_an_error(scope: str) -> None:
    huge = imul(imul(n, 2**31), 2**20)
    test = kernel(
        ["n"],
        {"x": ("float32", [n])},
        {"y": ("float32", [n])},
        *([Alloc(Buffer("g", "float32", (huge,), "global"))] if scope == "global" else []),
        for_(
            "i",
            n,
            "grid",
            *([Alloc(Buffer("g", "float32", (huge,), "thread"))] if scope == "thread" else []),
            Assign((), "g", (i,), R("x", i)),
            Assign((), "y", (i,), R("g", i)),
        ),
    )
    with pytest.raises(MemoryError, match="no memory"):
        run_c(test, [8], f32(8))


def test_names_that_c_reserves() -> None:
    int_, double = var("int"), var("double")
    test = kernel(
        ["int"],
        {"for": ("float32", [int_]), "exp": ("float32", [int_])},
        {"t0": ("float32", [int_])},
        for_("double", int_, "grid", Assign((), "t0", (double,), op("exp", op("add", R("for", double), R("exp", double))))),
    )
    x, y = f32(4), f32(4)
    (z,) = run_c(test, [4], x, y)
    close(z, np.exp(x + y))


def test_reading_other_cells_of_the_target_is_refused() -> None:
    test = kernel(
        ["n"],
        {"x": ("float32", [n])},
        {"y": ("float32", [n])},
        for_(
            "i",
            n,
            "grid",
            Alloc(Buffer("b", "float32", (integer(4),), "thread")),
            Assign((axis("r", 4, "seq"),), "b", (r,), R("b", isub(integer(3), r))),
        ),
    )
    with pytest.raises(Unsupported, match="second buffer"):
        print_kernel(test, CDialect())


def test_interpreter_agrees() -> None:
    """The harness's own reading of the kernel language, on the larger kernels."""
    x = f32(3, 21)
    for test, sizes, inputs in ((softmax("register"), (3, 21), [x]), (matmul(2, 1, 8), (3, 18, 9), [f32(3, 9), f32(9, 18)])):
        close(run_c(test, sizes, *inputs)[0], interpret(test, sizes, *inputs)[0])
