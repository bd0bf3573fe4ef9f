"""What each language states of its arithmetic: the texts and options are as it says, certificates carry it, and on the
devices here the errors of its functions are within it."""

from __future__ import annotations

import json
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified import backends
from tang_verified.assumptions import assumptions
from tang_verified.backends.c.compiler import FLAGS
from tang_verified.backends.device import DeviceError, Limits
from tang_verified.proofs.certificate import read
from tests.backends.gpu_cases import HALF, text
from tests.conformance.backends import need

FAST = ("fast-math", "fast_math", "fast-relaxed", "unsafe-math", "finite-math", "mad-enable", "ftz=true", "associative-math")


@cache
def doubled(backend: str) -> Any:
    return tv.compile(lambda x: x + x, x="n", backend=backend, name="doubled")


@pytest.mark.parametrize("name", backends.REGISTRY)
def test_certificates_carry_the_statement(name: str) -> None:
    kernel, stated = doubled(name), backends.get(name).arithmetic()
    assert json.loads(kernel.certificate)["body"]["arithmetic"] == list(stated.lines())
    for line in stated.lines():
        assert line.startswith(f"{stated.language}: ")
        assert line in kernel.explain() and line in assumptions(read(kernel.certificate))
    for operation in ("a / b", "sqrt", "rsqrt", "exp", "log", "tanh", "erf"):
        assert any(operation in line for line in stated.lines())


def test_c_is_compiled_as_stated() -> None:
    stated = backends.get("c").arithmetic()
    assert ("-ffp-contract=fast" in FLAGS) == ("-ffp-contract=fast" in stated.contraction)
    assert not [flag for flag in FLAGS if any(word in flag for word in FAST)]


def test_opencl_is_compiled_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    cl = pytest.importorskip("pyopencl")
    need("opencl")
    seen: list[str] = []
    build = cl.Program.build
    monkeypatch.setattr(cl.Program, "build", lambda self, options: seen.extend(options) or build(self, options))
    backends.get("opencl").runtime.load(text("opencl", HALF, 0), HALF.plan())
    assert seen and not [option for option in seen if any(word in option for word in FAST)]
    assert "#pragma OPENCL FP_CONTRACT OFF" in doubled("opencl").source


def test_cuda_is_compiled_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    nvrtc = SimpleNamespace(
        createProgram=lambda *_: None, compileProgram=lambda _, options: seen.extend(options), getCUBIN=lambda _: b"",
        destroyProgram=lambda _: None, NVRTCError=ValueError,
    )  # fmt: skip
    runtime = backends.get("cuda").runtime
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(nvrtc=nvrtc)))
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(nvrtc=nvrtc))
    monkeypatch.setattr(runtime, "_include_folders", list)
    runtime.compile_text("", "name", "sm_90a")
    assert seen and not [option for option in seen if any(word in option for word in (*FAST, "fmad", "prec-"))]


def test_metal_is_compiled_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    options = SimpleNamespace(setFastMathEnabled_=seen.append)
    device = SimpleNamespace(newLibraryWithSource_options_error_=lambda text, given, _: (None, f"seen {given is options}"))
    runtime = backends.get("metal").runtime
    limits = Limits("a stand-in", 1024, 32768, 32, frozenset(HALF.plan().bindings[0].dtype for _ in "x"), 2**40)
    monkeypatch.setitem(sys.modules, "Metal", SimpleNamespace(MTLCompileOptions=SimpleNamespace(new=lambda: options)))
    monkeypatch.setattr(runtime, "_queue", lambda: SimpleNamespace(device=lambda: device))
    monkeypatch.setattr(runtime, "limits", lambda: limits)
    with pytest.raises(DeviceError, match="seen True"):
        runtime.load("", HALF.plan())
    assert seen == [False]


@cache
def functions(backend: str) -> Any:
    """Each function as an output of its own."""

    def each(x: Any, y: Any) -> Any:
        xp = x.__array_namespace__()
        return x / y, xp.sqrt(y), xp.exp(x), xp.log(y), xp.sin(x), xp.tanh(x)

    return tv.compile(each, x="n", y="n", backend=backend, name="each")


@pytest.mark.parametrize("name", ["c", "opencl", "wgsl", "glsl", "cuda"])
def test_errors_are_within_the_statement(name: str) -> None:
    rng, stated = np.random.default_rng(5), backends.get(need(name)).arithmetic().errors
    x = rng.uniform(-3, 3, 20000).astype(np.float32)
    y = np.exp(rng.uniform(-20, 20, x.size)).astype(np.float32)
    wide, up = x.astype(np.float64), y.astype(np.float64)
    exact = {
        "a / b": wide / up, "sqrt": np.sqrt(up), "exp": np.exp(wide), "log": np.log(up), "sin": np.sin(wide), "tanh": np.tanh(wide),
    }  # fmt: skip
    for got, (operation, known) in zip(functions(name)(x, y), exact.items(), strict=True):
        error = stated.get(operation)
        if error is None or (error.ulp is None and not error.absolute):
            continue
        allowed = ((error.ulp or 0.0) + error.slope * np.abs(wide)) * np.spacing(np.abs(known).astype(np.float32))
        worst = (np.abs(got - known) / np.maximum(allowed, error.absolute)).max()
        assert worst <= 1.0, f"{operation}: {worst:.2f} times what {name} states"
