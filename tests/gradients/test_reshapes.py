"""Reshapes and permutations in any order: their gradients are the elements themselves, with no sum left over them.

What a transposed reshape leaves is an equation of digits, X // 6 + 5·(X % 6) = k, that passes/solve.py takes apart.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.semantics.terms import Fold
from tests.gradients.models import Written, write

Moves = list[tuple[str, Any]]


def moved(moves: Moves) -> Callable[[Any], Any]:
    def fn(x: Any) -> Any:
        for what, how in moves:
            xp = x.__array_namespace__()
            x = x.reshape(how) if what == "reshape" else xp.permute_dims(x, how) if what == "permute" else x[how]
        return x

    return fn


def shape_of(total: int, rng: random.Random) -> tuple[int, int, int]:
    """The total as three factors."""
    pairs = [(a, b) for a in range(1, total) for b in range(2, total) if total % (a * b) == 0]
    a, b = rng.choice(pairs)
    return a, b, total // (a * b)


def some(seed: int) -> tuple[tuple[int, ...], Moves, tuple[int, ...]]:
    rng = random.Random(seed)
    total = rng.choice((24, 30, 36, 60))
    first: tuple[int, ...] = shape_of(total, rng)
    now = first
    moves: Moves = []
    for _ in range(2):
        places = list(range(len(now)))
        rng.shuffle(places)
        now = shape_of(total, rng)
        moves += [("permute", tuple(places)), ("reshape", now)]
    return first, moves, now


def differentiated(fn: Callable[[Any], Any], first: tuple[int, ...], last: tuple[int, ...]) -> Written:
    return write(tv.vjp(fn), {"x": tv.Spec(first, "float64"), "ct": tv.Spec(last, "float64")})


def agrees(written: Written, fn: Callable[[Any], Any], first: tuple[int, ...], last: tuple[int, ...]) -> None:
    """Each element's cotangent lies where the element came from."""
    numbers = fn(np.arange(np.prod(first)).reshape(first))
    weights = np.random.default_rng(0).standard_normal(last)
    known = np.zeros(int(np.prod(first)))
    known[numbers.ravel()] = weights.ravel()
    np.testing.assert_array_equal(written(np.zeros(first), weights)[0], known.reshape(first))


@pytest.mark.parametrize("seed", range(11))
def test_random_chains(seed: int) -> None:
    first, moves, last = some(seed)
    fn = moved(moves)
    written = differentiated(fn, first, last)
    agrees(written, fn, first, last)
    assert not [d for d in written.program.defs if isinstance(d.value, Fold)], "an equation was left to a sum"


@pytest.mark.parametrize("part", [np.s_[:17], np.s_[4:], np.s_[1::2]], ids=str)
def test_a_part_of_it(part: slice) -> None:
    """Where digits do not fill their range there is no element: the gradient is 0."""
    fn = moved([("reshape", (6, 5)), ("permute", (1, 0)), ("reshape", (30,)), ("part", part)])
    last = np.empty(30)[part].shape
    written = differentiated(fn, (30,), last)
    agrees(written, fn, (30,), last)
    assert not [d for d in written.program.defs if isinstance(d.value, Fold)]


def test_heads_of_any_number_of_rows() -> None:
    """(n, 6·4) as (6, n, 4), merged again in another order: n is symbolic."""

    def fn(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.permute_dims(x.reshape((x.shape[0], 6, 4)), (0, 2, 1)).reshape((x.shape[0], 3, 8))

    written = write(tv.vjp(fn), {"x": "n 24", "ct": "n 3 8"})
    agrees(written, fn, (5, 24), (5, 3, 8))
    assert not [d for d in written.program.defs if isinstance(d.value, Fold)]
