"""Each GPU runtime on hand-written texts: shared memory, subgroups, half storage, scratch, no elements, many blocks, and
what is refused. A runtime without a device here is skipped, with the command that would make it usable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tang_verified.backends.device import DeviceError
from tang_verified.backends.launch import Plan
from tang_verified.proofs.width import NARROW_SIZE
from tang_verified.semantics.build import integer
from tests.backends.gpu_cases import CASES, HALF, MATMUL, ROWS, TWICE, WIDE, Array, Case, bound, text
from tests.shims.run import Shim

SHIMS = {f"{dialect} on the shim, order {order}": Shim(dialect, order) for dialect in ("cuda", "metal") for order in (0, 1, 2)}
BACKENDS = ("opencl", "wgsl", "glsl", "cuda", "metal", *SHIMS)
BITS = {"wgsl": 32, "glsl": 32}  # 64 elsewhere


@cache
def told(name: str) -> dict[str, str]:
    return dict(runtime(name).describe())


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if told(name)["usable"] != "yes":
        pytest.skip(f"{name} is not usable here: {told(name)['usable']}")
    return name


def runtime(name: str) -> Any:
    return SHIMS[name] if name in SHIMS else import_module(f"tang_verified.backends.{name}.runtime")


def spelled(name: str, case: Case, subgroup: int | None = None) -> str:
    return text(name.split()[0], case, runtime(name).limits().subgroup if subgroup is None else subgroup)


def loaded(name: str, case: Case) -> Any:
    return runtime(name).load(spelled(name, case), case.plan(BITS.get(name, 64)))


def inputs(case: Case, sizes: dict[str, int]) -> list[Array]:
    rng, made = np.random.default_rng(7), []
    for binding in case.bindings:
        if not binding.written:
            shape = tuple(sizes[extent.name] for extent in binding.shape)  # type: ignore[union-attr]
            values = rng.standard_normal(shape)
            made.append(values > 0 if binding.dtype == "bool" else values.astype(binding.dtype))
    return made


def run(function: Any, case: Case, sizes: dict[str, int], given: list[Array]) -> list[Array]:
    """The outputs. They start as 77, so that what a kernel leaves out shows."""
    outputs = []
    for binding in case.bindings:
        if binding.written and not binding.scratch:
            shape = tuple(sizes[extent.name] for extent in binding.shape)  # type: ignore[union-attr]
            outputs.append(np.full(shape, 77).astype(binding.dtype))
    function([sizes[name] for name in case.sizes], [*given, *outputs])
    return outputs


SIZES = {
    "matmul": [{"n": 8, "m": 8, "k": 8}, {"n": 19, "m": 33, "k": 41}, {"n": 3, "m": 5, "k": 0}, {"n": 0, "m": 4, "k": 3}],
    "rows": [{"n": 3, "m": 128}, {"n": 17, "m": 300}, {"n": 5, "m": 1}, {"n": 2, "m": 0}, {"n": 0, "m": 0}],
    "halves": [{"n": 1}, {"n": 33}, {"n": 0}, {"n": 1001}],
    "twice": [{"n": 1}, {"n": 100}, {"n": 333}, {"n": 0}],
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_agrees_with_numpy(backend: str, case: Case) -> None:
    function = loaded(backend, case)
    for sizes in SIZES[case.name]:
        given = inputs(case, sizes)
        outputs = run(function, case, sizes, given)
        for output, expected in zip(outputs, case.expected(*given), strict=True):
            np.testing.assert_allclose(output, expected, rtol=2e-5, atol=2e-5, err_msg=str(sizes))


def test_more_blocks_than_an_axis_holds(backend: str) -> None:
    n = 2 * 65535 + 11
    (out,) = run(loaded(backend, WIDE), WIDE, {"n": n}, [])
    np.testing.assert_array_equal(out, np.arange(n))


def test_scratch_follows_the_sizes(backend: str) -> None:
    function = loaded(backend, TWICE)
    for n in (5, 500, 7, 500):
        given = inputs(TWICE, {"n": n})
        out, _ = run(function, TWICE, {"n": n}, given)
        np.testing.assert_allclose(out, TWICE.expected(*given)[0], rtol=1e-6)


def test_arrays_that_stay_on_the_device(backend: str) -> None:
    here, function = runtime(backend), loaded(backend, HALF)
    x = np.arange(50, dtype=np.float16)
    there, back = here.put(x), here.put(np.zeros(50, np.float16))
    function([50], [there, back])
    function([50], [back, there])
    here.finish()
    once = HALF.expected(x)[0]
    np.testing.assert_array_equal(here.get(back), once)
    np.testing.assert_array_equal(here.get(there), HALF.expected(once)[0])


def test_one_array_in_two_places(backend: str) -> None:
    here, function = runtime(backend), loaded(backend, MATMUL)
    a, out = here.put(np.arange(81, dtype=np.float32).reshape(9, 9)), here.put(np.zeros((9, 9), np.float32))
    function([9, 9, 9], [a, a, out])
    np.testing.assert_array_equal(here.get(out), here.get(a) @ here.get(a))


def test_describes_the_device(backend: str) -> None:
    found = runtime(backend).limits()
    assert told(backend)["device"] == found.device and told(backend)["threads"] == str(found.threads)
    assert found.threads >= 128 and found.shared_bytes >= 16384 and found.binding_bytes >= 2**26


# -- what is refused -----------------------------------------------------------------------------------------------------------


def asking(case: Case, bits: int, **changes: Any) -> Plan:
    plan = case.plan(bits)
    return replace(plan, launches=(replace(plan.launches[0], **changes), *plan.launches[1:]))


def test_too_many_threads(backend: str) -> None:
    here = runtime(backend)
    with pytest.raises(DeviceError, match=r"threads of a block: \d+ needed"):
        here.load(spelled(backend, ROWS, 0), asking(ROWS, BITS.get(backend, 64), threads=here.limits().threads * 2))


def test_too_much_shared_memory(backend: str) -> None:
    here = runtime(backend)
    with pytest.raises(DeviceError, match=r"bytes of shared memory: \d+ needed"):
        here.load(spelled(backend, ROWS, 0), asking(ROWS, BITS.get(backend, 64), shared_bytes=here.limits().shared_bytes + 4))


def test_a_text_that_does_not_compile(backend: str) -> None:
    here = runtime(backend)
    with pytest.raises(DeviceError, match="refuses the text"):
        here.load(spelled(backend, ROWS).replace("sum", "+", 1), ROWS.plan(BITS.get(backend, 64)))


def test_an_entry_that_is_not_there(backend: str) -> None:
    here, plan = runtime(backend), ROWS.plan(BITS.get(backend, 64))
    plan = replace(plan, launches=(replace(plan.launches[0], entry="absent"),))
    with pytest.raises(DeviceError):
        here.load(spelled(backend, ROWS), plan)


def test_an_array_too_large_for_a_binding(backend: str) -> None:
    here, function = runtime(backend), loaded(backend, ROWS)
    columns = here.limits().binding_bytes // 4 + 1
    if columns < NARROW_SIZE:
        with pytest.raises(DeviceError, match="bytes of one array"):
            function([1, columns], [np.zeros((1, 1), np.float32)] * 2)


def test_an_array_too_large_for_the_index_width(backend: str) -> None:
    here = runtime(backend)
    function = here.load(spelled(backend, ROWS), ROWS.plan(32))
    with pytest.raises(DeviceError, match="elements for 32-bit indices"):
        function([65536, 65536], [np.zeros((1, 1), np.float32)] * 2)
    with pytest.raises(DeviceError, match=f"n = {NARROW_SIZE + 1}; indices of 32 bits are proved up to {NARROW_SIZE}"):
        function([NARROW_SIZE + 1, 1], [np.zeros((1, 1), np.float32)] * 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((2, 3), np.float32)], "takes 2 arrays"),
        ([np.zeros((2, 3), np.float32), np.zeros(3, np.float32)], r"result must be float32 of shape \(2,\), got"),
        ([np.zeros((2, 3), np.float64), np.zeros(2, np.float32)], "x must be float32"),
        ([np.zeros((3, 2), np.float32).T, np.zeros(2, np.float32)], "x must be C-contiguous"),
        ([np.zeros((2, 3), np.float32), np.broadcast_to(np.float32(0), (2,))], "result must be"),
    ],
)
def test_arrays_that_do_not_fit(backend: str, arrays: list[Array], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        loaded(backend, ROWS)([2, 3], arrays)


def test_a_text_for_subgroups_of_another_size(backend: str) -> None:
    here = runtime(backend)
    plan = replace(ROWS.plan(BITS.get(backend, 64)), subgroup=here.limits().subgroup)
    here.load(spelled(backend, ROWS), plan)
    with pytest.raises(DeviceError, match="printed for subgroups of 48"):
        here.load(spelled(backend, ROWS), replace(plan, subgroup=48))


@pytest.mark.parametrize("backend", ["wgsl", "glsl"])
def test_what_webgpu_has_not(backend: str) -> None:
    if told(backend)["usable"] != "yes":
        pytest.skip(f"{backend} is not usable here: {told(backend)['usable']}")
    here, plan = runtime(backend), ROWS.plan(32)
    with pytest.raises(DeviceError, match="indices of 64 bits"):
        here.load(spelled(backend, ROWS, 0), ROWS.plan(64))
    many = tuple(bound(f"x{place}", "float32", integer(1)) for place in range(here.limits().bindings))
    with pytest.raises(DeviceError, match="arrays and sizes to bind"):
        here.load(spelled(backend, ROWS, 0), replace(plan, bindings=many))
    if backend == "wgsl":
        for dtype in ("float64", "int64"):
            with pytest.raises(DeviceError, match=f"x is {dtype}, which WGSL on .* does not store"):
                here.load(spelled(backend, ROWS, 0), replace(plan, bindings=(replace(plan.bindings[0], dtype=dtype),)))


@pytest.mark.parametrize("backend", ["opencl", "wgsl", "glsl"])
def test_a_text_that_disagrees_with_its_plan(backend: str) -> None:
    if told(backend)["usable"] != "yes":
        pytest.skip(f"{backend} is not usable here: {told(backend)['usable']}")
    with pytest.raises(DeviceError, match=r"declares work-?groups of \(?64.*, its plan 32 threads"):
        runtime(backend).load(spelled(backend, MATMUL), asking(MATMUL, BITS.get(backend, 64), threads=32))


@pytest.mark.parametrize("backend", ["opencl", "wgsl", "glsl"])
def test_calls_from_several_threads(backend: str) -> None:
    if told(backend)["usable"] != "yes":
        pytest.skip(f"{backend} is not usable here: {told(backend)['usable']}")
    function = loaded(backend, TWICE)

    def right(number: int) -> bool:
        sizes = {"n": 40 + 37 * (number % 3)}
        given = inputs(TWICE, sizes)
        return np.array_equal(run(function, TWICE, sizes, given)[0], TWICE.expected(*given)[0])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(24)))


def test_cuda_architectures() -> None:
    assert [runtime("cuda").architecture(c) for c in ("75", "80", "90", "120")] == ["sm_75", "sm_80", "sm_90a", "sm_120a"]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_nvrtc_takes_the_texts(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC needs no GPU: the compiling half of the CUDA runtime runs wherever CuPy is."""
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(runtime("cuda"), "cupy", lambda: cupy)
    for case in CASES:
        assert runtime("cuda").compile_text(text("cuda", case, 32), case.name, architecture)[:4] == b"\x7fELF"
    with pytest.raises(DeviceError, match="nothing"):
        runtime("cuda").compile_text("int x = nothing;", "t", architecture)


def test_cuda_sees_where_an_array_lies() -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    class Here(Elsewhere):
        values = np.arange(3.0)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.values.__dlpack__(**keywords)

    view = runtime("cuda")._host_view
    assert view(Elsewhere()) is None
    assert np.shares_memory(view(Here()), Here.values) and view(Here.values) is Here.values
    with pytest.raises(TypeError, match="list is no array that speaks DLPack"):
        view([1.0])
