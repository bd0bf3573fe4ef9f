"""Compositions that once fell back to plain loops: each is scheduled in the style asked for first, and right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.passes.schedule.analysis import guard_folds
from tang_verified.semantics.kernel import For, Stmt
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import ADD, REAL_ZERO, TRUE, Fold, Term, Var
from tests.passes.helpers import I, N, c, op, over, x, y


def attend(q: Any, k: Any, v: Any) -> Any:
    xp = q.__array_namespace__()
    s = q @ k.mT / 8.0
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def normed(x: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / (x.var(axis=-1, keepdims=True) + 1e-5) ** 0.5


def log_sum_exp(x: Any) -> Any:
    xp = x.__array_namespace__()
    m = x.max(axis=-1)
    return m + xp.log(xp.exp(x - m[..., None]).sum(axis=-1))


def beside(x: Any) -> Any:
    return x.__array_namespace__().concat([x, attend(x, x, x)], axis=-1)


def below(x: Any) -> Any:
    return x.__array_namespace__().concat([attend(x, x, x), x], axis=0)


def tiled(x: Any) -> Any:
    return x.__array_namespace__().tile(normed(x), (2, 1))


QKV = {"q": "n 64", "k": "m 64", "v": "m 64"}
CASES: dict[str, tuple[Callable[..., Any], dict[str, str], int]] = {  # function, specs, kernels
    "attention beside its input": (beside, {"x": "n 64"}, 1),
    "attention above its input": (below, {"x": "n 64"}, 1),
    "a norm tiled": (tiled, {"x": "n m"}, 1),
    "a norm of whole tiles, tiled": (tiled, {"x": "n 64"}, 1),
    "attention of attention": (lambda q, k, v: attend(attend(q, k, v), k, v), QKV, 2),
    "attention of attention to itself": (lambda x: attend(*[attend(x, x, x)] * 3), {"x": "n 64"}, 2),
    "attention of attention, any width": (lambda q, k, v: attend(attend(q, k, v), k, v), {"q": "n d", "k": "m d", "v": "m d"}, 2),
    "attention, norm, log-sum-exp": (lambda q, k, v: log_sum_exp(normed(attend(q, k, v))), QKV, 2),
}
SIZES = {"n": 37, "m": 53, "d": 24, "64": 64}


@pytest.mark.parametrize("name", CASES)
def test_no_fallback(name: str) -> None:
    fn, specs, kernels = CASES[name]
    kernel = tv.compile(fn, name="composed", **specs)
    assert not [note for note in kernel.notes if note.startswith("schedule")]
    assert len(kernel.certified.kernels) == kernels
    assert all(any(carries(s) for s in k.body) for k in kernel.certified.kernels), "each is one pass with running states"
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal([SIZES[s] for s in spec.split()]) for spec in specs.values()]
    got = kernel(*(a.astype(np.float32) for a in arrays))
    np.testing.assert_allclose(got, fn(*arrays), rtol=2e-5, atol=2e-5)


def test_joined_heads_are_tiled_on_a_gpu() -> None:
    """o[j // 32, i, j % 32] w[j, k]: a tile of 32 folds over c, and it is w that says j = 32 t + c; o's remainder says j = c."""

    def projected(o: Any, w: Any) -> Any:
        return o.__array_namespace__().permute_dims(o, (1, 0, 2)).reshape((o.shape[1], 64)) @ w

    kernel = tv.compile(projected, o="2 n 32", w="64 64", backend="opencl", name="projected")
    assert not [note for note in kernel.notes if note.startswith("schedule")]


def carries(statement: Stmt) -> bool:
    return isinstance(statement, For) and (bool(statement.carried) or any(carries(s) for s in statement.body))


# -- guards for folds that are computed ahead of a choice -------------------------------------------------------------------

J = Var("j")
INSIDE = op("lt", I, N)


def total(body: Term) -> Fold:
    return Fold(ADD, over("k"), TRUE, (body,))


def test_guards_reach_folds_inside_folds() -> None:
    row = x(I, Var("k"))
    inner = Fold(ADD, over("j"), TRUE, (x(I, J),))
    guarded = guard_folds(op("select", INSIDE, total(op("sub", row, inner)), REAL_ZERO))
    assert show(guarded) == "i < n ? Σ_{k<m} (i < n ? x[i, k] − (Σ_{j<m} (i < n ? x[i, j] : 0)) : 0) : 0"


def test_a_condition_on_an_axis_of_the_fold_stays() -> None:
    """Else a row's maximum would come to depend on the element."""
    inner = Fold(ADD, over("j"), TRUE, (y(J),))
    value = total(op("select", op("lt", Var("k"), I), op("sub", x(I, Var("k")), inner), REAL_ZERO))
    assert guard_folds(value) == value


def test_a_condition_on_data_stays() -> None:
    value = op("select", op("lt", REAL_ZERO, c()), total(x(I, Var("k"))), REAL_ZERO)
    assert guard_folds(value) == value
