"""What is computed on its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest

from tang_verified.passes.policy import LIMIT, TERMS, heavy, materialised, written_twice
from tang_verified.semantics.terms import ADD, TRUE, Const, Fold, Var
from tang_verified.tracing.tracer import trace
from tests.passes.helpers import I, J, N, op, over, x
from tests.passes.zoo import MODELS, softmax, traced


def kept(fn: Callable[..., Any], **specs: str) -> int:
    """How many definitions besides the outputs."""
    program = trace(fn, specs)
    return len(materialised(program) - set(program.outputs))


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    program = traced(name)
    assert set(program.outputs) <= materialised(program)
    assert len(materialised(program)) == MODELS[name].defs


def mlp(x: Any, w: Any, u: Any) -> Any:
    return x.__array_namespace__().tanh(x @ w) @ u


def test_a_chain_of_long_contractions() -> None:
    assert kept(mlp, x="n 512", w="512 2048", u="2048 512") == 1
    assert kept(mlp, x="n 64", w="64 2048", u="2048 64") == 0  # as attention
    assert kept(mlp, x="n 64", w="64 m", u="m 512") == 1  # recomputed for each of 512 columns
    assert kept(mlp, x="n 512", w="512 m", u="m 64") == 1  # 512 products for each element


def attend(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.mT) @ v


def test_a_chain_of_three_contractions_is_cut() -> None:
    """The sum over the keys holds scores that do not depend on its column: they are not to be computed for each column."""
    xs = {"q": "n 64", "k": "m 64", "v": "m 64"}
    assert kept(lambda q, k, v: attend(attend(q, k, v), k, v), **xs) == 1
    assert kept(lambda q, k, v: attend(q, k, v).sum(axis=-1), **xs) == 1
    assert kept(lambda x, w, u: mlp(x, w, u) @ u.mT, x="n 64", w="64 m", u="m 64") == 1
    assert kept(attend, **xs) == 0
    assert kept(lambda x: (softmax(x) * x).sum(axis=-1), x="n m") == 0  # a maximum and a sum that hold no fold


def test_what_is_read_at_two_places_is_the_last_that_is() -> None:
    """Not the scores or the row sums of a, but a itself."""

    def twice(q: Any, k: Any, v: Any) -> Any:
        a = attend(q, k, v)
        return a @ a.mT

    program = trace(twice, {"q": "n 64", "k": "n 64", "v": "n 64"})
    (name,) = materialised(program) - set(program.outputs)
    assert "matmul" in name or name == "a"
    assert [d.tensor.name for d in program.defs].index(name) == len(program.defs) - 3  # then a.mT, then the product


def test_expensive_arguments_of_a_contraction() -> None:
    assert kept(lambda x, w: x.__array_namespace__().cos(x) @ w, x="n d", w="d m") == 1
    assert kept(lambda x, w: (x * 2.0 + 1.0) @ w, x="n d", w="d m") == 0
    assert kept(lambda x, w: x.__array_namespace__().sum(x.__array_namespace__().cos(x), axis=1), x="n d", w="d m") == 0


def test_a_matmul_read_twice() -> None:
    def two(x: Any, w: Any) -> Any:
        s = x @ w
        xp = x.__array_namespace__()
        return xp.sin(s), xp.cos(s)

    def turned(x: Any, w: Any) -> Any:
        sin, cos = two(x, w)
        return sin, cos.T

    assert kept(turned, x="n 512", w="512 m") == 1
    assert kept(two, x="n 512", w="512 m") == 0  # one kernel computes both, a tile at a time
    assert kept(two, x="n 64", w="64 m") == 0  # short: computed twice
    assert kept(lambda x: (softmax(x), softmax(x) * 2.0), x="n m") == 0  # row statistics


def test_the_epilogue_stays_with_its_matmul() -> None:
    def two(x: Any, w: Any) -> Any:
        xp = x.__array_namespace__()
        h = xp.maximum(x @ w, 0.0)
        return xp.sin(h), xp.cos(h).T

    program = trace(two, {"x": "n 512", "w": "512 m"})
    (name,) = materialised(program) - set(program.outputs)
    assert name.startswith("h")


def test_views_are_not_kept() -> None:
    def heads(x: Any, w: Any, u: Any) -> Any:
        xp = x.__array_namespace__()
        y = xp.permute_dims(xp.reshape(x @ w, (x.shape[0], 8, 64)), (1, 0, 2))
        return y @ u

    program = trace(heads, {"x": "n 512", "w": "512 512", "u": "8 64 512"})
    (name,) = materialised(program) - set(program.outputs)
    assert name.endswith("matmul")

    def packed(x: Any, w: Any) -> Any:
        y = x @ w
        return softmax(y[:, :64] @ y[:, 64:128].mT) @ y[:, 128:]

    assert kept(packed, x="n 512", w="512 192") == 1


def test_a_matmul_read_at_two_places() -> None:
    def turned(x: Any, w: Any) -> Any:
        s = x @ w
        return s[:, :3] - s[:, 3:]

    assert kept(turned, x="n 512", w="512 6") == 1
    assert kept(turned, x="n 64", w="64 6") == 0


def test_heavy() -> None:
    k = Var("k")
    product = op("mul", x(I, k), x(k, J))
    assert heavy(Fold(ADD, over("k", N), TRUE, (product,)))
    assert heavy(Fold(ADD, over("k", Const(LIMIT + 1)), TRUE, (product,)))
    assert not heavy(Fold(ADD, over("k", Const(LIMIT)), TRUE, (product,)))
    assert not heavy(Fold(ADD, over("k", N), TRUE, (op("mul", x(I, k), x(I, k)),)))  # a square: a row statistic
    assert not heavy(Fold(ADD, over("k", N), TRUE, (x(I, k),)))


def test_a_form_that_doubles_is_cut() -> None:
    """a + 1.5·a·x, again and again: written out, 2^k terms. Short ones are one definition."""
    repeated: Callable[[int], Callable[[Any], Any]] = lambda k: lambda x: reduce(lambda a, _: a + 1.5 * a * x, range(k), x)  # noqa: E731
    assert kept(repeated(5), x="n") == 0
    program = trace(repeated(50), {"x": "n"})
    chosen = materialised(program)
    found = written_twice(program, chosen)
    assert found.keys() == chosen - set(program.outputs) and 5 < len(found) < 15
    assert all(TERMS < count < 4 * TERMS for count in found.values())


def test_a_long_form_that_is_read_once_is_not_cut() -> None:
    assert kept(lambda x: reduce(lambda a, _: a + x * 1.5, range(100), x), x="n") == 0
