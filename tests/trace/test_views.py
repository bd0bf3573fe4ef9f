"""Slices, reshapes and broadcasts of arbitrary form against NumPy, with fixed and with symbolic sizes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tang_verified.errors import BoundsError
from tang_verified.semantics.evaluate import evaluate
from tang_verified.spec import Spec
from tang_verified.tracing.tracer import trace


def run(fn: Any, x: Any, spec: Spec) -> Any:
    program = trace(fn, {"x": spec})
    return evaluate(program, {"x": x})[program.outputs[0]]


bounds = st.one_of(st.none(), st.integers(-9, 9))
slices = st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, 3, -1, -2, -3]))
keys = st.one_of(slices, st.integers(-5, 4), st.none(), st.just(Ellipsis))


@settings(max_examples=150, deadline=None)
@given(st.lists(keys, max_size=4), st.booleans())
def test_index(key: list[Any], symbolic: bool) -> None:
    x = np.arange(35.0).reshape(5, 7)
    assume(sum(k is Ellipsis for k in key) <= 1 and sum(k is not None and k is not Ellipsis for k in key) <= 2)
    want = x[tuple(key)]
    try:
        program = trace(lambda x: x[tuple(key)], {"x": Spec(("n", "m") if symbolic else (5, 7))})
    except BoundsError:
        assert symbolic  # no size from which on the bounds are in order
        return
    if any(size.low > have for size, have in zip(program.sizes, x.shape, strict=False)):
        return  # the bounds would be clamped at these sizes
    np.testing.assert_array_equal(evaluate(program, {"x": x})[program.outputs[0]], want)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_reshape_of_fixed_sizes(shape: list[int], random: Any) -> None:
    factors = [f for n in shape for f in ((2, 2) if n == 4 else (n,)) if f > 1]
    target: list[int] = []
    while factors:
        take = random.randint(1, len(factors))
        target.append(prod(factors[:take]))
        factors = factors[take:]
        if random.random() < 0.3:
            target.append(1)
    x = np.arange(float(prod(shape))).reshape(shape)
    np.testing.assert_array_equal(run(lambda x: x.reshape(tuple(target)), x, Spec(tuple(shape))), x.reshape(target))


@settings(max_examples=40, deadline=None)
@given(st.permutations([2, 3, 4]), st.permutations([2, 3, 4]))
def test_reshape_behind_a_symbolic_axis(old: list[int], new: list[int]) -> None:
    x = np.arange(5.0 * 24).reshape(5, *old)
    np.testing.assert_array_equal(run(lambda x: x.reshape((-1, *new)), x, Spec(("n", *old))), x.reshape(-1, *new))
    np.testing.assert_array_equal(run(lambda x: x.reshape(x.shape[0] * 24), x, Spec(("n", *old))), x.reshape(-1))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), max_size=3), st.integers(0, 3))
def test_broadcast(axes: list[tuple[int, bool, bool]], cut: int) -> None:
    left = tuple(1 if one else n for n, one, _ in axes)
    right = tuple(1 if one else n for n, _, one in axes)[min(cut, len(axes)) :]
    x, y = np.arange(1.0, prod(left) + 1).reshape(left), np.arange(1.0, prod(right) + 1).reshape(right)
    program = trace(lambda x, y: x * 10 + y, {"x": Spec(left), "y": Spec(right)})
    np.testing.assert_array_equal(evaluate(program, {"x": x, "y": y})[program.outputs[0]], x * 10 + y)


def test_slices_raise_the_size() -> None:
    program = trace(lambda x: x[1:-1] + x[2:] - x[:-2], {"x": Spec(("n",))})
    assert program.sizes[0].low == 2
    x = np.arange(5.0) ** 2
    np.testing.assert_array_equal(evaluate(program, {"x": x})[program.outputs[0]], x[1:-1] + x[2:] - x[:-2])


def test_extents_print_and_compare() -> None:
    seen: list[Any] = []

    def fn(x: Any) -> Any:
        n, m = x.shape
        seen.extend([str(n + 1), str(2 * n - m), str((n + 3) // 4), n == n, n + 1 == 1 + n, n >= 0, m != m + 1, x.size])
        return x

    trace(fn, {"x": Spec(("n", "m"))})
    assert seen[0] == "n+1" and seen[2] == "(n+3)//4" and seen[3:7] == [True] * 4 and str(seen[7]) == "n*m"
