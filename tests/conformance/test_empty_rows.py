"""Rows that are masked as a whole, and folds of nothing: the same answer on every backend, nan or zero as was chosen."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from tests.conformance.backends import TAKEN, kernel, need
from tests.conformance.programs import Array, Case, error, inputs, reference, tolerance

NAMES = [name for name in TAKEN if "reversed" not in name]
EMPTY: list[Literal["nan", "zero"]] = ["nan", "zero"]


def check(case: Case, name: str, given: list[Any], blind: Array) -> None:
    """`blind`: the rows (of the last but one axis) that see nothing."""
    known = reference(case, given)
    assert blind.any() and np.isnan(known[..., blind, :]).all() and not np.isnan(known[..., ~blind, :]).any()
    if case.empty == "zero":
        known[..., blind, :] = 0.0
    got = kernel(case, need(name))(*given)
    assert error(got, known, tolerance(case, given)) <= 1.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", [Case("attention:masked", empty=empty) for empty in EMPTY], ids=str)
def test_masked_rows(case: Case, name: str) -> None:
    q, k, v, keep = inputs(case, {"n": 19, "m": 23})
    keep[[0, 4, 18]] = False
    check(case, name, [q, k, v, keep], ~keep.any(axis=1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", [Case("attention:masked", empty=empty) for empty in EMPTY], ids=str)
def test_all_rows_masked(case: Case, name: str) -> None:
    q, k, v, keep = inputs(case, {"n": 5, "m": 7})
    keep[...] = False
    given = [q, k, v, keep]
    got = kernel(case, need(name))(*given)
    assert np.isnan(got).all() if case.empty == "nan" else (got == 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", [Case("attention:causal", empty=empty) for empty in EMPTY], ids=str)
def test_fewer_keys_than_queries(case: Case, name: str) -> None:
    """The last query is level with the last key: the first queries see none."""
    for n, m in ((9, 4), (50, 3)):
        check(case, name, inputs(case, {"h": 2, "n": n, "m": m}), np.arange(n) < n - m)


@pytest.mark.parametrize("name", NAMES)
def test_mean_of_nothing(name: str) -> None:
    """LayerNorm of rows without elements has no elements; that is not an error."""
    case = Case("layernorm:layernorm")
    assert kernel(case, need(name))(*inputs(case, {"n": 4, "d": 0})).shape == (4, 0)
