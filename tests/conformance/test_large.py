"""Arrays beyond 2^31 elements: 64-bit indices reach them, 32-bit backends refuse them by name, before anything is copied."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.errors import CompileError
from tang_verified.proofs.width import NARROW_SIZE
from tests.conformance.backends import TAKEN, WANTED, need

ROWS, COLUMNS = 2**16 + 3, 2**15 + 1
GIB = 2**30


def available() -> int:
    """Bytes of memory that are free."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def any_of_row(x: Any) -> Any:
    return x.any(axis=1)


@cache
def compiled(backend: str) -> Any:
    return tv.compile(any_of_row, x=tv.spec("n m", "bool"), backend=backend, name="any_of_row")


ON_A_GPU = tuple(name for name in ("cuda", "opencl") if name in TAKEN and "cuda" in TAKEN)  # a driver for a CPU takes less


@pytest.mark.large
@pytest.mark.parametrize("name", ["c", *ON_A_GPU])
def test_more_than_2_31_elements(name: str) -> None:
    if name not in WANTED:
        pytest.skip(f"{name} was not asked for ($TANG_CONFORMANCE)")
    if available() < 4 * GIB:
        pytest.skip(f"{available() / GIB:.1f} GiB of memory are free, the test takes 3")
    x = np.zeros((ROWS, COLUMNS), np.bool_)
    assert x.size > 2**31
    marked = [0, 1, 2**31 // COLUMNS, 2**31 // COLUMNS + 1, ROWS - 1]
    for number, row in enumerate(marked):
        x[row, (COLUMNS - 1) * (number % 2)] = True
    np.testing.assert_array_equal(np.flatnonzero(compiled(need(name))(x)), marked)


@pytest.mark.parametrize("name", [name for name in TAKEN if name in ("wgsl", "glsl")])
def test_32_bit_backends_refuse(name: str) -> None:
    kernel = compiled(need(name))
    large = np.lib.stride_tricks.as_strided(np.zeros(1, np.bool_), (ROWS, COLUMNS), (0, 0))  # one element, seen as many
    with pytest.raises(CompileError, match=rf"x has {ROWS * COLUMNS} elements; indices of 32 bits reach 2147483647"):
        kernel(large)
    long = np.lib.stride_tricks.as_strided(np.zeros(1, np.bool_), (1, NARROW_SIZE + 1), (0, 0))
    with pytest.raises(CompileError, match="m = 268435457; indices of 32 bits are proved up to 268435456"):
        kernel(long)
