"""Steps whose conditions hold on every lane are printed without masks: the test that says so, and the text."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.names import Names
from tang_verified.backends.places import Places
from tang_verified.backends.printer import print_kernel
from tang_verified.backends.scopes import Lane
from tang_verified.backends.storage import Registers
from tang_verified.backends.whole import Whole, find_whole
from tang_verified.semantics.build import canonical, ceildiv, conj, floordiv, iadd, imul, integer, isub, le, lt, op, real, var
from tang_verified.semantics.kernel import Assign
from tang_verified.semantics.terms import ADD, MAX, NEG_INF, TRUE, Axis, Const, Fold, Term, substitute

from .harness import R, axis, close, for_, kernel, run_c

k, n, m, lane, i = (var(name) for name in ("k", "n", "m", "lane", "i"))
LANE = Lane("lane", 4)
rng = np.random.default_rng(5)


def found(guards: list[Term], values: list[Term] | None = None) -> Whole | None:
    places = Places(CDialect(), Names(frozenset()), Registers())
    return find_whole([canonical(g) for g in guards], values or [], LANE, places.uses, places.safe)


def implied(whole: Whole) -> bool:
    """Whether the test implies what is said to be known, by trying all small values."""
    for numbers in product(range(-5, 12), repeat=2):
        here: dict[str, Term] = {name: Const(number) for name, number in zip("kn", numbers, strict=True)}
        if canonical(substitute(whole.test, here)) == TRUE:
            for part in whole.known:
                if any(canonical(substitute(part, {**here, "lane": Const(at)})) != TRUE for at in range(LANE.width)):
                    return False
    return True


CONDITIONS = [
    lt(iadd(imul(k, 4), lane), n), le(lane, n), le(isub(n, lane), k), lt(n, iadd(imul(lane, 3), k)),
    lt(isub(k, imul(lane, 2)), n), conj(lt(lane, n), le(k, lane)), conj(lt(k, n), lt(lane, n)),
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_ends_decide(condition: Term) -> None:
    whole = found([condition])
    assert whole is not None and implied(whole)
    assert whole.within(canonical(condition)) == TRUE


@pytest.mark.parametrize("condition", CONDITIONS)
def test_one_lane_alone_would_not_do(condition: Term) -> None:
    """The wrong sibling: the test at one end only. For each condition one of the two ends is not enough."""
    whole = found([condition])
    assert whole is not None
    ends = [canonical(substitute(condition, {"lane": Const(end)})) for end in (0, LANE.width - 1)]
    assert not all(implied(whole._replace(test=end)) for end in ends)


def test_of_the_copies_the_strongest_stays() -> None:
    whole = found([lt(iadd(imul(k, 8), iadd(lane, integer(offset))), n) for offset in (4, 0)])
    assert whole is not None and whole.test == lt(iadd(imul(k, 8), integer(7)), n)


def test_a_guard_that_cannot_be_tested_stays() -> None:
    data = op("lt", R("x", lane, sort="int"), n)
    assert found([data]) is None
    assert found([conj(lt(lane, n), data)]) is None
    assert found([op("eq", lane, n)]) is None  # holds at both ends only if nowhere between
    assert found([lt(floordiv(lane, 2), n)]) is None
    assert found([]) is None
    assert found([TRUE]) is None


def test_within_values_the_rest_keeps_its_mask() -> None:
    data, inside, x = op("lt", R("x", lane, sort="int"), n), canonical(lt(lane, n)), R("x", lane)
    value = op("select", conj(inside, data), x, real(0))
    whole = found([], [value])
    assert whole is not None and whole.known == {inside}
    assert whole.within(value) == op("select", data, x, real(0))
    assert found([], [op("select", data, x, real(0))]) is None


def test_conditions_on_the_axes_of_an_inner_fold_are_not_lifted() -> None:
    inner = Fold(ADD, (Axis("p", n),), TRUE, (op("select", lt(iadd(var("p"), lane), n), R("x", lane), real(0)),))
    assert found([], [inner]) is None


def ragged(monoid, body, otherwise):  # type: ignore[no-untyped-def]
    """y[i] = ⊕_{j0 < ⌈m/64⌉, u < 4, l < 16} if 64 j0 + 16 u + l < m: body(x[i, …])"""
    c = iadd(imul(var("j0"), 64), iadd(imul(var("u"), 16), var("l")))
    axes = (Axis("j0", ceildiv(m, 64)), Axis("u", integer(4)), Axis("l", integer(16)))
    fold = Fold(monoid, axes, TRUE, (op("select", lt(c, m), body(R("x", i, c)), otherwise),))
    assign = Assign((), "y", (i,), fold, TRUE, (("u", "unroll"), ("l", "lane")))
    return kernel(["n", "m"], {"x": ("float32", [n, m])}, {"y": ("float32", [n])}, for_("i", n, "grid", assign))


def branches(text: str) -> tuple[str, str]:
    """The unmasked and the masked form of the one step that has both."""
    match = re.search(r"if \([^{}]*< m\) \{([^{}]*)\}\s*else \{([^{}]*)\}", text)
    assert match is not None
    return match[1], match[2]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 65, 200])
def test_a_ragged_fold(size: int) -> None:
    x = rng.standard_normal((3, size)).astype(np.float32)
    (y,) = run_c(ragged(ADD, lambda a: op("exp", a), real(0)), x.shape, x)
    close(y, np.exp(x.astype(float)).sum(1))
    (y,) = run_c(ragged(MAX, lambda a: a, NEG_INF), x.shape, x)
    np.testing.assert_array_equal(y, x.max(1, initial=-np.inf))


def test_whole_steps_of_a_fold_have_no_mask() -> None:
    plain, masked = branches(print_kernel(ragged(MAX, lambda a: a, NEG_INF), CDialect()))
    assert plain.count("max_") == masked.count("max_") == 4
    assert "below_" not in plain and "_if(" not in plain and "select" not in plain
    assert masked.count("below_") == masked.count("_if(") == masked.count("select_") == 4


@pytest.mark.parametrize("size", [1, 16, 17, 100])
def test_padding_of_an_unguarded_store(size: int) -> None:
    """y is longer than x: the select stands in the value, and the store has no guard."""
    c = iadd(imul(var("v"), 16), var("l"))
    value = op("select", lt(c, m), R("x", c), real(7))
    loops = (axis("v", n, "seq"), axis("l", 16, "lane"))
    test = kernel(["n", "m"], {"x": ("float32", [m])}, {"y": ("float32", [imul(n, 16)])}, Assign(loops, "y", (c,), value))
    x = rng.standard_normal(size).astype(np.float32)
    (y,) = run_c(test, (9, size), x)
    np.testing.assert_array_equal(y, np.concatenate((x, np.full(9 * 16 - size, 7, np.float32))))
    plain, masked = branches(print_kernel(test, CDialect()))
    assert "below_" not in plain and "below_" in masked
