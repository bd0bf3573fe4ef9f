"""Floors: counted against brute force, growing with the sizes, below every measured time; the parts of a gap add up."""

import itertools
import math

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.benching import document, measured, read_rows, write_rows
from tang_verified.device_file import find
from tang_verified.floor import attribution, floor_of, grid_of
from tang_verified.semantics.operations import operations
from tests.bounds.made import device_of, programs

SPECS = {
    "matmul": (lambda a, b: a @ b, {"a": "n k", "b": "k m"}),
    "softmax": (programs("softmax"), {}),
    "rmsnorm": (programs("rmsnorm"), {}),
    "logsumexp": (programs("logsumexp"), {}),
    "causal": (programs("attention", "causal"), {}),
}


@pytest.fixture(scope="module")
def kernels():
    return {name: tv.compile(fn, name=name, **specs) for name, (fn, specs) in SPECS.items()}


def test_counts_of_a_product(kernels):
    (kernel,) = kernels["matmul"].certified.kernels
    for n, k, m in itertools.product((1, 2, 5), repeat=3):
        found = operations(kernel, {"n": n, "k": k, "m": m})
        assert (found.multiply, found.add, found.other, found.specials) == (n * k * m, n * m * (k - 1), 0, 0)


def test_counts_of_a_softmax(kernels):
    (kernel,) = kernels["softmax"].certified.kernels
    for n, m in ((1, 1), (3, 4), (7, 2)):
        exps = sum(1 for _ in itertools.product(range(n), range(m)))
        found = operations(kernel, {"n": n, "m": m})
        assert found.special == {"exp": exps}  # the same in numerator and denominator: once
        assert (found.add, found.other) == (n * m + n * (m - 1), n * (m - 1) + n * m)


def test_counts_under_a_mask(kernels):
    (kernel,) = kernels["causal"].certified.kernels
    h, n, m = 2, 4, 6
    pairs = sum(1 for i in range(n) for j in range(m) if j <= i + m - n) * h
    found = operations(kernel, {"h": h, "n": n, "m": m})
    assert found.special == {"exp": pairs}
    assert found.multiply == 2 * 64 * pairs


def test_floors_grow_with_the_sizes(kernels):
    device = device_of(2)
    for name, sizes in (("matmul", "nkm"), ("softmax", "nm"), ("rmsnorm", "nd")):
        last = 0.0
        for value in (1, 2, 16, 64, 300):
            now = floor_of(kernels[name].certified.kernels, dict.fromkeys(sizes, value), device).seconds
            assert now >= last
            last = now


def test_blocks(kernels):
    (kernel,) = kernels["matmul"].certified.kernels
    assert grid_of(kernel, {"n": 1, "k": 1, "m": 1}).blocks == 1
    grid = grid_of(kernel, {"n": 1000, "k": 100, "m": 1000})
    assert grid.blocks and grid.blocks > 1
    assert 0 < grid.longest(1) <= 1 and grid.longest(10**6) == pytest.approx(math.prod(part for _, part in grid.parts))


def test_one_block_uses_one_unit(kernels):
    one, two = device_of(1), device_of(2)
    tiny, large = {"n": 2, "k": 64, "m": 2}, {"n": 512, "k": 512, "m": 512}
    kernel = kernels["matmul"].certified.kernels
    assert floor_of(kernel, tiny, one).seconds == floor_of(kernel, tiny, two).seconds
    assert floor_of(kernel, large, one).seconds > 1.5 * floor_of(kernel, large, two).seconds


def test_resident_is_less_than_cold(kernels):
    kernel, device = kernels["rmsnorm"].certified.kernels, device_of(1)
    sizes = {"n": 64, "d": 512}
    cold, resident = floor_of(kernel, sizes, device), floor_of(kernel, sizes, device, "resident")
    far = device.boundaries[-1].name
    assert resident.kernels[0].traffic[far].both == 0 < cold.kernels[0].traffic[far].both
    assert resident.seconds <= cold.seconds


def test_parts_add_up(kernels):
    device = device_of(2)
    for name in ("matmul", "softmax"):
        floor = floor_of(kernels[name].certified.kernels, dict.fromkeys("nkm" if name == "matmul" else "nm", 300), device)
        for times in (0.5, 1.0, 1.3, 20.0):
            parts = attribution(floor, times * floor.seconds, device)
            assert sum(part for _, part in parts) == pytest.approx(times * floor.seconds)
            assert (parts[-1][1] < 0) == (times < 1)


def test_a_described_device_has_floors(kernels):
    floor = floor_of(kernels["matmul"].certified.kernels, {"n": 1024, "k": 1024, "m": 1024}, find("nvidia-h200-described"))
    assert 0 < floor.seconds < 1e-3


CASES = [
    ("matmul", lambda: [np.ones((96, 80), "f"), np.ones((80, 112), "f")]),
    ("softmax", lambda: [np.random.default_rng(0).standard_normal((300, 1000), dtype="f")]),
    ("rmsnorm", lambda: [np.ones((200, 300), "f"), np.ones(300, "f")]),
    ("logsumexp", lambda: [np.random.default_rng(1).standard_normal((300, 1000), dtype="f")]),
    ("causal", lambda: [np.random.default_rng(k).standard_normal((2, 100, 64), dtype="f") for k in range(3)]),
]


@pytest.mark.parametrize("state", ["cold", "resident"])
def test_no_time_is_below_its_floor(kernels, measured_here, tmp_path, state):
    rows = []
    for name, make in CASES:
        fn = SPECS[name][0]
        row = measured(name, kernels[name], make, measured_here, state=state, seconds=0.05, exact=lambda a, fn=fn: fn(*a))
        rows.append(row)
        assert row["ratio"] <= 1, (name, row["binding"], row["ratio"])
        assert row["error"] < 1e-5
        assert sum(part for _, part in row["attribution"]) == pytest.approx(row["minimum"])
    write_rows(tmp_path / "b.json", measured_here, rows)
    assert read_rows(tmp_path / "b.json")["rows"] == document(measured_here, rows)["rows"]
