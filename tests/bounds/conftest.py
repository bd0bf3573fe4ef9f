import ctypes

import pytest

from tang_verified.ceilings import Effort, measure


@pytest.fixture(scope="package")
def measured_here():
    """One thread's ceilings, measured quickly, and kernels that run on one thread: its own clock is then read, so that what
    else the machine does changes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        try:
            runtime = ctypes.CDLL("libgomp.so.1")
        except OSError:
            pytest.skip("the number of OpenMP's threads cannot be set here")
        before = runtime.omp_get_max_threads()
        runtime.omp_set_num_threads(1)
        yield measure(Effort(trials=8, volume=2 << 20, rounds=1))
        runtime.omp_set_num_threads(before)
