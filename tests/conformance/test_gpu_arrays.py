"""Arrays that lie on an NVIDIA GPU: used in place, in their owner's stream; the result is of the same library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tang_verified.errors import CompileError
from tests.conformance.backends import WANTED, kernel, need
from tests.conformance.programs import Case, error, inputs, reference, tolerance

NORM = Case("rmsnorm:rmsnorm")
SIZE = {"n": 300, "d": 65}


@pytest.fixture
def norm() -> Any:
    if "cuda" not in WANTED:
        pytest.skip("cuda was not asked for ($TANG_CONFORMANCE)")
    return kernel(NORM, need("cuda"))


def close(got: Any, given: list[Any]) -> bool:
    return error(np.asarray(got), reference(NORM, given), tolerance(NORM, given)) <= 1.0


def test_cupy(norm: Any) -> None:
    cupy = pytest.importorskip("cupy")
    given = inputs(NORM, SIZE)
    x, w = map(cupy.asarray, given)
    got = norm(x, w)
    assert isinstance(got, cupy.ndarray) and close(got.get(), given)
    out = cupy.full(x.shape, cupy.nan, x.dtype)
    assert norm(x, w, out=out) is out and close(out.get(), given)
    assert close(norm(cupy.asfortranarray(x)[::-1], w).get()[::-1], given)
    with pytest.raises(CompileError, match="out overlaps x"):
        norm(x, w, out=x)
    with pytest.raises(CompileError, match="x is cupy's on GPU 0 and w is numpy's on the CPU"):
        norm(x, given[1])


def test_torch(norm: Any) -> None:
    torch = pytest.importorskip("torch")
    given = inputs(NORM, SIZE)
    x, w = (torch.from_numpy(array).cuda() for array in given)
    got = norm(x, w)
    assert isinstance(got, torch.Tensor) and got.device == x.device and close(got.cpu(), given)
    out = torch.full_like(x, torch.nan)
    assert norm(x, w, out=out) is out and close(out.cpu(), given)
    assert close(norm(x.T.contiguous().T, w).cpu(), given)
    with pytest.raises(CompileError, match="x is torch's on GPU 0 and w is torch's on the CPU"):
        norm(x, w.cpu())


def test_torch_in_its_current_stream(norm: Any) -> None:
    """The call returns while work before it is still going on, and its own work waits for that."""
    torch = pytest.importorskip("torch")
    given = inputs(NORM, SIZE)
    real, w = (torch.from_numpy(array).cuda() for array in given)
    norm(real, w)  # loaded
    x, stream = torch.full_like(real, torch.nan), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2 * 10**9)  # about a second
        x.copy_(real)
        got = norm(x, w)
        busy = not stream.query()
        kept = got.clone()
    stream.synchronize()
    assert busy and close(kept.cpu(), given)


def test_jax(norm: Any) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    given = inputs(NORM, SIZE)
    x, w = map(jax.numpy.asarray, given)
    got = norm(x, w)
    assert isinstance(got, jax.Array) and got.devices() == x.devices() and close(got, given)
    with pytest.raises(CompileError, match="nothing can be written into it"):
        norm(x, w, out=jax.numpy.zeros_like(x))
