"""Faults that other compilers were seen to have, each with its right value here."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.errors import CompileError


def softmax(x: Any) -> Any:
    xp = x.__array_namespace__()
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def weights(s: Any) -> Any:
    return softmax(s)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


@cache
def compiled_softmax(spec: str = "n m") -> Any:
    return tv.compile(softmax, x=spec)


@cache
def compiled_extreme(name: str, spec: str, dtype: Any = "float32") -> Any:
    return tv.compile(lambda x: getattr(x, name)(axis=-1), x=tv.spec(spec, dtype))


# -- reductions that are padded to a tile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 10, 63, 65])
def test_softmax_over_a_padded_row_of_ones(length: int) -> None:
    """Padding that is not the identity would add exp(0) for every lane that is out of range."""
    got = compiled_softmax()(np.ones((3, length), np.float32))
    np.testing.assert_allclose(got, np.full((3, length), 1 / length), rtol=1e-6)


@pytest.mark.parametrize("length", [1, 10])
def test_softmax_over_a_padded_row_of_fixed_length(length: int) -> None:
    got = tv.compile(softmax, x=f"n {length}")(np.ones((3, length), np.float32))
    np.testing.assert_allclose(got, np.full((3, length), 1 / length), rtol=1e-6)


@pytest.mark.parametrize("length", [8193, 1, 17])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("spec", ["n m", "m"])
def test_extremes_of_negative_zeros_are_negative_zero(length: int, name: str, spec: str) -> None:
    """An accumulator that starts at 0.0 would win against -0.0."""
    x = np.full((1, length) if spec == "n m" else length, -0.0, np.float32)
    got = compiled_extreme(name, spec)(x)
    assert (got == 0).all() and np.signbit(got).all()


@pytest.mark.parametrize("length", [1, 5, 8193])
def test_max_of_negative_numbers(length: int) -> None:
    """Padding with 0 instead of -inf would win."""
    x = -1 - np.arange(length, dtype=np.float32)
    assert compiled_extreme("max", "m")(x) == -1.0


def test_product_from_zero() -> None:
    """0 · inf: a product split into two partial ones meets an overflow, but no nan is in 0 · 1 · … · 49 itself."""
    assert tv.compile(lambda x: x.prod(), x="n", name="p32")(np.arange(50, dtype=np.float32)) == 0.0
    assert tv.compile(lambda x: x.prod(), x="n", name="p64")(np.arange(0, 50, dtype=np.float32)[:20]) == 0.0
    assert tv.compile(lambda x: x.prod(), x="50", name="fixed")(np.arange(50, dtype=np.float32)) == 0.0


def test_product_of_integers_from_zero() -> None:
    assert tv.compile(lambda x: x.prod(), x=tv.spec("n", "int32"))(np.arange(50, dtype=np.int32)) == 0


# -- integers ---------------------------------------------------------------------------------------------------------------


def test_nested_floor_division_and_remainder() -> None:
    """(i % 20) // 2 * 2 % 4 is 0 at i = 1: `// 2 * 2` is not nothing."""

    def index(x: Any) -> Any:
        return x.__array_namespace__().arange(40) % 20 // 2 * 2 % 4 + x * 0

    got = tv.compile(index, x=tv.spec("40", "int64"))(np.arange(40))
    i = np.arange(40)
    assert got[1] == 0
    np.testing.assert_array_equal(got, i % 20 // 2 * 2 % 4)


def test_nested_floor_division_in_an_index() -> None:
    def rows(x: Any) -> Any:
        i = x.__array_namespace__().arange(40)
        return x[i % 20 // 2 * 2 % 4]

    x = np.arange(4, dtype=np.float32)
    i = np.arange(40)
    np.testing.assert_array_equal(tv.compile(rows, x="4")(x), x[i % 20 // 2 * 2 % 4])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_floor_division_of_negative_numbers(dtype: str) -> None:
    """C truncates: -57 / 32 is -1 there, and -2 here."""
    x = np.arange(-64, 1).astype(dtype)
    got = tv.compile(lambda x: x // 32, x=tv.spec("n", dtype))(x)
    np.testing.assert_array_equal(got[:8], [-2] * 8)
    np.testing.assert_array_equal(got, [-2] * 32 + [-1] * 32 + [0])


@pytest.mark.parametrize("divisor", [32, -32, 7, -7, 1, -1])
def test_remainders_take_the_sign_of_the_divisor(divisor: int) -> None:
    x = np.arange(-70, 71)
    got, over = tv.compile(lambda x: (x % divisor, x // divisor), x=tv.spec("n", "int64"))(x)
    np.testing.assert_array_equal(got, x % divisor)
    np.testing.assert_array_equal(over, x // divisor)


def test_floor_division_of_a_shifted_index() -> None:
    """(i - 64) // 32 as the program's own index arithmetic, simplified by the compiler."""

    def index(x: Any) -> Any:
        return (x.__array_namespace__().arange(8) - 64) // 32 + x * 0

    np.testing.assert_array_equal(tv.compile(index, x=tv.spec("8", "int64"))(np.zeros(8, np.int64)), [-2] * 8)


@pytest.mark.parametrize(
    ("dtype", "top"), [("int32", 2**24 + 1), ("int32", 2**31 - 1), ("int64", 2**53 + 1), ("int64", 2**60 + 1)]
)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_large_integers_are_exact(dtype: str, top: int, name: str) -> None:
    """A maximum taken in floats loses the last bits."""
    x = np.array([[top, top - 1, 5], [-top, 1 - top, -5]], dtype)
    got = compiled_extreme(name, "n m", dtype)(x)
    np.testing.assert_array_equal(got, getattr(x, name)(axis=-1))


def test_sum_of_small_integers_is_wide() -> None:
    """int32 elements, an int64 sum."""
    x = np.full((2, 5000), 2**31 - 1, np.int32)
    got = tv.compile(lambda x: x.sum(axis=1), x=tv.spec("n m", "int32"))(x)
    np.testing.assert_array_equal(got, [5000 * (2**31 - 1)] * 2)


def test_mean_of_large_integers() -> None:
    x = np.array([2**24 + 1] * 3, np.int32)
    assert tv.compile(lambda x: x.mean(), x=tv.spec("n", "int32"))(x) == 2**24 + 1


def test_count_beyond_float32() -> None:
    """Booleans are counted in integers: 2^24 + 1 is not a float32."""
    x = np.ones(2**24 + 1, np.bool_)
    assert tv.compile(lambda x: x.sum(), x=tv.spec("n", "bool"))(x) == 2**24 + 1


# -- indices beyond 32 bits, though every buffer is small --------------------------------------------------------------------


def test_index_expression_beyond_32_bits() -> None:
    def spread(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.arange(x.shape[0]) * 1048576 // 3 + x * 0

    kernel = tv.compile(spread, x=tv.spec("n", "int64"))
    n = 9000
    np.testing.assert_array_equal(kernel(np.zeros(n, np.int64)), np.arange(n) * 1048576 // 3)  # up to 2^31.5
    no_narrow_integers(kernel.source)


def test_view_whose_flat_index_is_beyond_32_bits() -> None:
    """A broadcast that is flattened: 70000² elements that nobody stores, every 4899999999th of them read."""

    def corners(x: Any) -> Any:
        xp = x.__array_namespace__()
        flat = xp.broadcast_to(x[:, None, None], (x.shape[0], 70000, 70000)).reshape((x.shape[0], 4900000000))
        return flat[:, ::4899999999]

    kernel = tv.compile(corners, x="n")
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(kernel(x), np.stack([x, x], axis=1))
    no_narrow_integers(kernel.source)


def test_flat_index_beyond_32_bits_through_a_remainder() -> None:
    """out[i] = x[i·1000003 % 97]: the product passes 2^32 at i = 4295."""

    def hashed(x: Any) -> Any:
        return x[x.__array_namespace__().arange(9001) * 1000003 % 97]

    x = np.arange(97, dtype=np.float32)
    kernel = tv.compile(hashed, x="97")
    np.testing.assert_array_equal(kernel(x), x[np.arange(9001) * 1000003 % 97])
    no_narrow_integers(kernel.source)


def test_offsets_are_computed_in_64_bits() -> None:
    """Row times row length in an int64, whatever the sizes at hand; a guard of a view multiplies sizes likewise."""
    kernel = tv.compile(lambda x: x[::3, ::-1] + 1.0, x="n m")
    x = np.arange(35, dtype=np.float32).reshape(7, 5)
    np.testing.assert_array_equal(kernel(x), x[::3, ::-1] + 1)
    no_narrow_integers(kernel.source)


def test_an_index_that_may_pass_62_bits_is_refused() -> None:
    def far(x: Any) -> Any:
        return x.__array_namespace__().arange(x.shape[0]) * 2**40 // 3 + x

    with pytest.raises(CompileError, match=r"width/int64|2\^62"):
        tv.compile(far, x=tv.spec("n", "int64"), name="far")


def no_narrow_integers(source: str) -> None:
    """Every integer that a kernel computes an index in is an int64_t; `int` is only the status that it returns."""
    body = source[source.index("int failed = 0;") + 15 :]
    assert not re.search(r"\b(int|int32_t|unsigned|short|long)\s+[a-z]\w*\s*=", body), body


# -- infinities, nan and the branch that is not taken -----------------------------------------------------------------------


def test_log_of_exp_is_not_folded() -> None:
    """exp(89) is beyond float32; the logarithm of what was stored or computed is inf, not 89."""
    got = tv.compile(lambda x: np.log(np.exp(x)), x="n")(f32(89.0, 1.0, 200.0))
    assert got[0] == np.inf and got[2] == np.inf
    np.testing.assert_allclose(got[1], 1.0, rtol=1e-6)


def test_where_hides_what_it_does_not_choose() -> None:
    """log of a negative number in the branch not taken leaks no nan, nor does a product with a mask."""

    def safe(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.where(x > 0, xp.log(x), 0.0), xp.where(x > 0, xp.log(x), 0.0).sum(), xp.where(x == 0, 0.0, 1.0 / x)

    logs, total, inverse = tv.compile(safe, x="n")(f32(-1.0, 0.0, 1.0, np.e))
    np.testing.assert_allclose(logs, [0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)
    np.testing.assert_allclose(inverse, [-1, 0, 1, 1 / np.e], rtol=1e-6)


def test_mask_times_infinity_is_nan() -> None:
    """A product with 0 is no selection: 0 · inf is nan, and the compiler may not turn it into a select."""

    def leak(x: Any, c: Any) -> Any:
        xp = x.__array_namespace__()
        return (xp.log(xp.abs(x)) * xp.where(c, 1.0, 0.0)).sum()

    got = tv.compile(leak, x="n", c=tv.spec("n", "bool"))(f32(0.0, 1.0), np.array([False, True]))
    assert np.isnan(got)


def test_x_minus_x_of_infinity_is_not_folded_to_zero() -> None:
    def zero(x: Any) -> Any:
        y = x.__array_namespace__().log(x)
        return y - y, y * 0.0, y / y

    for got, finite in zip(tv.compile(zero, x="n")(f32(0.0, 2.0)), (0.0, 0.0, 1.0), strict=True):
        assert np.isnan(got[0]) and got[1] == finite


def test_nan_passes_through_max() -> None:
    def worst(x: Any) -> Any:
        return x.__array_namespace__().log(x).max(axis=-1)

    got = tv.compile(worst, x="n m")(np.array([[1, 2, -1, 3], [1, 2, 3, 4]], np.float32))
    assert np.isnan(got[0]) and got[1] > 1


def test_mean_of_nothing_is_nan() -> None:
    assert np.isnan(tv.compile(lambda x: x.mean(axis=-1), x="n m")(np.empty((3, 0), np.float32))).all()
    assert (tv.compile(lambda x: x.mean(axis=-1), x="n m", empty="zero")(np.empty((3, 0), np.float32)) == 0).all()


def test_sum_of_nothing() -> None:
    total, product, none, every = tv.compile(
        lambda x, c: (x.sum(axis=-1), x.prod(axis=-1), c.any(axis=-1), c.all(axis=-1)), x="n m", c=tv.spec("n m", "bool")
    )(np.empty((2, 0), np.float32), np.empty((2, 0), np.bool_))
    assert (
        total.tolist() == [0, 0]
        and product.tolist() == [1, 1]
        and none.tolist() == [False] * 2
        and every.tolist() == [True] * 2
    )


def test_max_of_nothing_is_refused() -> None:
    with pytest.raises(CompileError, match="m is 0"):
        tv.compile(lambda x: x.max(axis=-1), x="n m")(np.empty((2, 0), np.float32))


def test_log_sum_exp_of_a_masked_row() -> None:
    """All scores -inf: the maximum is -inf, and -inf - -inf is nan (as in NumPy), never a finite number."""

    def lse(x: Any, keep: Any) -> Any:
        xp = x.__array_namespace__()
        s = xp.where(keep, x, -xp.inf)
        m = s.max(axis=-1)
        return m + xp.log(xp.exp(s - m[:, None]).sum(axis=-1))

    keep = np.array([[True, False, True], [False] * 3])
    x = np.array([[1000.0, 9.0, 1000.0], [1, 2, 3]], np.float32)
    got = tv.compile(lse, x="n m", keep=tv.spec("n m", "bool"))(x, keep)
    np.testing.assert_allclose(got[0], 1000 + np.log(2), rtol=1e-6)
    assert np.isnan(got[1])
    assert tv.compile(lse, x="n m", keep=tv.spec("n m", "bool"), empty="zero")(x, keep)[1] == -np.inf


# -- online softmax ---------------------------------------------------------------------------------------------------------


def attention(q: Any, k: Any, v: Any, keep: Any) -> Any:
    xp = q.__array_namespace__()
    return weights(xp.where(keep, q @ k.T, -xp.inf)) @ v


@cache
def masked(empty: Any = "nan") -> Any:
    """The kernel of `attention`, compiled once."""
    return tv.compile(attention, q="n 16", k="m 16", v="m 16", keep=tv.spec("n m", "bool"), empty=empty)


@pytest.mark.parametrize("first", [0, 127, 128, 129, 300, 511])
def test_partial_states_of_which_some_are_empty(first: int) -> None:
    """Whole tiles of keys masked, before or after the first that is seen: -inf - -inf must not become nan there."""
    rng = np.random.default_rng(3)
    n, m = 5, 513
    q, k, v = (rng.standard_normal((r, 16)).astype(np.float32) for r in (n, m, m))
    keep = np.zeros((n, m), np.bool_)
    keep[:, first] = True
    keep[1, first:] = True
    keep[2, : first + 1] = True
    got = masked()(q, k, v, keep)
    with np.errstate(all="ignore"):
        known = attention(*(a.astype(np.float64) for a in (q, k, v)), keep)
    np.testing.assert_allclose(got, known, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[0], v[first], rtol=1e-6)


def test_a_row_of_which_every_score_is_minus_infinity() -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((r, 16)).astype(np.float32) for r in (3, 140, 140))
    keep = np.ones((3, 140), np.bool_)
    keep[1] = False
    got = masked()(q, k, v, keep)
    assert np.isnan(got[1]).all() and np.isfinite(got[[0, 2]]).all()
    got = masked("zero")(q, k, v, keep)
    assert (got[1] == 0).all() and np.isfinite(got[[0, 2]]).all()


@pytest.mark.parametrize("shift", [-2e5, -1e30, 1e5, 1e30])
def test_scores_far_from_zero(shift: float) -> None:
    """A running maximum that starts at -1e5, say, instead of -inf would lose them all."""
    x = (np.arange(300, dtype=np.float64)[None, :] % 7 / 4 * max(1.0, abs(shift) * 2**-20) + shift).astype(np.float32)
    got = compiled_softmax()(x)
    np.testing.assert_allclose(got, softmax(x.astype(np.float64)), rtol=1e-3, atol=1e-30)
    np.testing.assert_allclose(got.sum(), 1.0, rtol=1e-4)


def test_attention_scores_below_minus_1e5() -> None:
    rng = np.random.default_rng(3)
    q, k = np.full((4, 16), -100.0, np.float32), (100 + rng.integers(0, 3, (270, 16)) / 256).astype(np.float32)
    v = rng.standard_normal((270, 16)).astype(np.float32)
    keep = np.ones((4, 270), np.bool_)
    assert (q @ k.T).max() < -1e5
    got = masked()(q, k, v, keep)
    np.testing.assert_allclose(got, attention(*(a.astype(np.float64) for a in (q, k, v)), keep), rtol=2e-2, atol=2e-2)


def split(q: Any, k1: Any, v1: Any, k2: Any, v2: Any) -> Any:
    """Attention split over the keys by hand, each part with its maximum, sum and weighted sum."""
    xp = q.__array_namespace__()
    states = []
    for k, v in ((k1, v1), (k2, v2)):
        s = q @ k.T
        m = s.max(axis=-1, keepdims=True, initial=-xp.inf)
        p = xp.where(s == -xp.inf, 0.0, xp.exp(s - m))
        states.append((m, p.sum(axis=-1, keepdims=True), p @ v))
    (m1, l1, o1), (m2, l2, o2) = states
    m = xp.maximum(m1, m2)
    a1, a2 = xp.where(m1 == -xp.inf, 0.0, xp.exp(m1 - m)), xp.where(m2 == -xp.inf, 0.0, xp.exp(m2 - m))
    return (o1 * a1 + o2 * a2) / (l1 * a1 + l2 * a2)


@cache
def merged() -> Any:
    return tv.compile(split, q="n 8", k1="a 8", v1="a 8", k2="b 8", v2="b 8")


@pytest.mark.parametrize("lengths", [(0, 40), (40, 0), (0, 0), (1, 200)])
def test_merged_partial_states(lengths: tuple[int, int]) -> None:
    """Parts of any length, also none."""
    rng = np.random.default_rng(5)
    a, b = lengths
    q, k1, v1, k2, v2 = (rng.standard_normal((r, 8)).astype(np.float32) for r in (3, a, a, b, b))
    got = merged()(q, k1, v1, k2, v2)
    if a + b == 0:
        assert np.isnan(got).all()
        return
    k, v = np.concatenate([k1, k2]), np.concatenate([v1, v2])
    np.testing.assert_allclose(got, weights(q.astype(np.float64) @ k.T) @ v, rtol=1e-4, atol=1e-5)


def test_variance_of_large_numbers_close_together() -> None:
    """E[x²] - E[x]² would cancel to nothing, or below 0."""
    x = (10000 + np.arange(64) % 5)[None, :].astype(np.float32)
    got = tv.compile(lambda x: x.var(axis=-1), x="n m")(x)
    np.testing.assert_allclose(got, x.astype(np.float64).var(axis=-1), rtol=1e-2)


@pytest.mark.parametrize("fn", [lambda x: (x * x).mean(), lambda x: x.var(correction=1), lambda x: x.std(axis=(0, 1, 3))])
def test_means_over_many_axes(fn: Any) -> None:
    """The number of elements of an array with four axes fits in 62 bits, but the product of four sizes need not."""
    kernel = tv.compile(fn, x="a b c d float64")
    x = np.random.default_rng(3).standard_normal((3, 5, 2, 7))
    for given in (x, x[:1, :1, :1, :1]):
        with np.errstate(all="ignore"):
            known = fn(given) if fn.__code__.co_names[-1] != "var" else np.var(given, ddof=1)
            np.testing.assert_allclose(kernel(given), known, rtol=1e-12)
