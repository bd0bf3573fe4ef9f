"""The GPU's microbenchmarks compile; where there is no GPU, measuring says so. No test has run them."""

import pytest

from tang_verified.ceilings_cuda import TEXT, measure
from tang_verified.device_file import DeviceError
from tests.shims.nvcc import NvccError, compile_for


def test_the_text_compiles():
    try:
        found = compile_for(TEXT, "sm_90a")
    except NvccError as problem:
        if "no nvcc" in str(problem):
            pytest.skip(str(problem))
        raise
    assert {"read_all", "fma_float", "exp2_bare", "empty"} <= set(found)
    assert all(usage.spill_stores == 0 for usage in found.values())


def test_without_a_gpu():
    pytest.importorskip("tang_verified")
    try:
        import cupy

        if cupy.cuda.is_available():
            pytest.skip("there is a GPU")
    except ImportError:
        pass
    with pytest.raises(DeviceError):
        measure()
