"""What a backend does with the caller's arrays: no elements, one element, views of any stride, `out=`, other libraries'."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tang_verified.errors import CompileError
from tests.conformance.backends import ON_A_CPU, TAKEN, kernel, need
from tests.conformance.programs import Case, error, inputs, reference, tolerance

SOFTMAX, NORM, MATMUL = Case("softmax:softmax"), Case("rmsnorm:rmsnorm"), Case("linear_gelu:linear_gelu")
NAMES = [name for name in TAKEN if "reversed" not in name]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return need(str(request.param))


def agrees(case: Case, name: str, given: list[Any], **options: Any) -> Any:
    got = kernel(case, name)(*given, **options)
    plain = [np.asarray(array) for array in given]
    worst = error(np.asarray(got), reference(case, plain), tolerance(case, plain))
    assert worst <= 1.0, f"{worst:.3g} times the tolerance"
    return got


@pytest.mark.parametrize("case", [SOFTMAX, NORM, MATMUL], ids=str)
@pytest.mark.parametrize("numbers", [(1, 1, 1), (1, 7, 1), (7, 1, 2), (3, 2, 129)], ids=str)
def test_sizes_of_one(case: Case, name: str, numbers: tuple[int, ...]) -> None:
    at = dict(zip((size.name for size in kernel(case, name).program.sizes), numbers, strict=False))
    agrees(case, name, inputs(case, at))


@pytest.mark.parametrize(
    ("case", "at"),
    [
        (SOFTMAX, {"n": 0, "m": 5}), (NORM, {"n": 0, "d": 5}), (NORM, {"n": 5, "d": 0}), (NORM, {"n": 0, "d": 0}),
        (MATMUL, {"n": 3, "k": 0, "m": 4}), (MATMUL, {"n": 0, "k": 3, "m": 4}), (MATMUL, {"n": 3, "k": 2, "m": 0}),
    ],
    ids=str,
)  # fmt: skip
def test_no_elements(case: Case, at: dict[str, int], name: str) -> None:
    agrees(case, name, inputs(case, at))


def test_views_of_any_stride(name: str) -> None:
    x, w = inputs(NORM, {"n": 30, "d": 17})
    wide = np.zeros((2 * 17, 60), np.float32)
    wide[::-2, ::2] = x.T
    view = wide[::-2, ::2].T
    assert not view.flags.c_contiguous and view.strides[1] < 0
    np.testing.assert_array_equal(view, x)
    agrees(NORM, name, [view, w[::-1]])
    agrees(NORM, name, [np.broadcast_to(x[:1], (30, 17)), np.broadcast_to(np.float32(2), 17)])
    bytes_off_by_one = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    bytes_off_by_one[...] = x
    agrees(NORM, name, [bytes_off_by_one, w])


def test_inputs_are_not_written(name: str) -> None:
    given = inputs(NORM, {"n": 5, "d": 33})
    before = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = False
    agrees(NORM, name, given)
    for array, kept in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_out(name: str) -> None:
    given = inputs(SOFTMAX, {"n": 9, "m": 31})
    out = np.full((9, 31), np.nan, np.float32)
    assert agrees(SOFTMAX, name, given, out=out) is out
    rows = np.full((11, 31), 7, np.float32)  # a part of a larger array: the rest stays
    agrees(SOFTMAX, name, given, out=rows[1:10])
    assert (rows[[0, 10]] == 7).all()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda x: x, "out overlaps x"), (lambda x: np.empty((9, 30), np.float32), "out has shape"),
        (lambda x: np.empty((9, 31)), "dtype float64"), (lambda x: np.empty((31, 9), np.float32).T, "contiguous"),
        (lambda x: [0.0] * 9, "out= has 9"), (lambda x: 3.0, "nothing can be written into it"),
    ],
)  # fmt: skip
def test_out_that_does_not_fit(name: str, out: Any, message: str) -> None:
    (x,) = inputs(SOFTMAX, {"n": 9, "m": 31})
    with pytest.raises(CompileError, match=message):
        kernel(SOFTMAX, name)(x, out=out(x))


def test_torch_in_and_out(name: str) -> None:
    torch = pytest.importorskip("torch")
    given = inputs(NORM, {"n": 30, "d": 17})
    x, w = (torch.from_numpy(array) for array in given)
    got = agrees(NORM, name, [x, w])
    assert isinstance(got, torch.Tensor) and got.device.type == "cpu"
    agrees(NORM, name, [x.T.contiguous().T, w])
    out = torch.full((30, 17), torch.nan)
    assert agrees(NORM, name, [x, w], out=out) is out
    with pytest.raises(CompileError, match=r"x is torch's on the CPU and w is numpy's on the CPU"):
        kernel(NORM, name)(x, given[1])
    with pytest.raises(CompileError, match=r"and out is numpy's on the CPU"):
        kernel(NORM, name)(x, w, out=np.empty((30, 17), np.float32))
    with pytest.raises(CompileError, match=r"x gives no view of its memory: .*grad"):
        kernel(NORM, name)(x.clone().requires_grad_(), w)


class Producer:
    """A library that only speaks DLPack, and says where its array lies."""

    def __init__(self, values: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.values, self.device = values, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.values.__dlpack__(**keywords)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype)


def test_any_library_that_speaks_dlpack(name: str) -> None:
    agrees(NORM, name, [Producer(array) for array in inputs(NORM, {"n": 30, "d": 17})])


@pytest.mark.parametrize("name", ON_A_CPU)
def test_an_array_elsewhere(name: str) -> None:
    x, w = inputs(NORM, {"n": 3, "d": 4})
    with pytest.raises(CompileError, match=r"x is tests's on GPU 1, and this backend takes arrays in the host's memory"):
        kernel(NORM, need(name))(Producer(x, (2, 1)), Producer(w, (2, 1)))
    with pytest.raises(CompileError, match="x is tests's on GPU 1 and w is tests's on GPU 0"):
        kernel(NORM, name)(Producer(x, (2, 1)), Producer(w, (2, 0)))
    with pytest.raises(CompileError, match="x is tests's on DLPack device 8:0, and this backend"):
        kernel(NORM, name)(Producer(x, (8, 0)), Producer(w, (8, 0)))


def test_a_wrong_dtype_says_what_to_do(name: str) -> None:
    x, w = inputs(NORM, {"n": 3, "d": 4})
    with pytest.raises(CompileError, match="x has dtype float64, the spec says float32"):
        kernel(NORM, name)(x.astype(np.float64), w)
