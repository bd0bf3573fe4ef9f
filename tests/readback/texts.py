"""Certified kernels and their printed texts, made once a run without a compiler."""

from __future__ import annotations

from functools import cache
from typing import Any

from tang_verified import backends
from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.printer import print_kernel
from tang_verified.compiler import Timings, derive_and_certify
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.check import Certified
from tang_verified.semantics.kernel import Kernel
from tang_verified.spec import spec
from tang_verified.tracing.tracer import trace
from tests.proofs.samples import certified, softmax

PROGRAMS = {
    "embedding": (lambda table, ids: table.__array_namespace__().take(table, ids, axis=0), {"table": "v d", "ids": spec("n", "int32")}),
    "matmul": (lambda a, b: a @ b, {"a": "n k", "b": "k m"}),
    "mean": (lambda x: x.mean(axis=-1), {"x": spec("n m>=1", "float64")}),
    "wider": (lambda x: x.__array_namespace__().astype(x, x.__array_namespace__().float64), {"x": "n"}),
    "real": (lambda x: x.__array_namespace__().astype(x, x.__array_namespace__().float64), {"x": spec("n", "int64")}),
    "doubled": (lambda x: x + x, {"x": spec("n", "int32")}),
    "lanewise": (lambda x: x.__array_namespace__().permute_dims(x, (1, 0)).reshape((x.shape[1] * 24,)), {"x": "24 n"}),
    "half": (lambda x, keep: x.__array_namespace__().where(keep, x * 0.1, x + 2.0), {"x": spec("n", "float16"), "keep": spec("n", "bool")}),
}



def remainder(x: Any) -> Any:
    xp, n = x.__array_namespace__(), x.shape[0]
    return xp.astype((n - xp.arange(n)) % 2147483647, xp.int32)


FOR_GPUS = {
    "softmax": (softmax, {"x": "n m"}),
    "product": (lambda a, b: a @ b, {"a": "n 64", "b": "64 64"}),
    "halves": (lambda a, b: a @ b, {"a": spec("n 64", "float16"), "b": spec("64 64", "float16")}),
    "row": (softmax, {"x": spec("n 8192", "float16")}),
    "half": PROGRAMS["half"],
    "embedding": PROGRAMS["embedding"],
    "remainder": (remainder, {"x": "n"}),
}
OF_UNITS = {"wide": (lambda a, b: a @ b, {"a": spec("n 256", "float16"), "b": spec("256 128", "float16")})}  # of rows
BACKEND = {suffix: name for name, suffix in backends.SUFFIX.items()}


@cache
def for_target(name: str, target: Target) -> Certified:
    function, specs = (FOR_GPUS | OF_UNITS)[name]
    program = trace(function, specs, name=name)  # type: ignore[arg-type]
    return certified_plan(program, derive(program), target, {})[0]


def _backend(name: str) -> Any:
    program, _, suffix = name.partition(".")
    return backends.get("cuda-sm90a" if program in OF_UNITS else BACKEND[suffix])


@cache
def kernel(name: str) -> Kernel:
    """softmax and attention are those of the certificates' tests; "softmax.cu" is the kernel of a GPU's text."""
    if "." in name:
        return for_target(name.partition(".")[0], _backend(name).target()).kernels[0]
    if name in ("softmax", "attention"):
        return certified(name).kernels[0]
    function, specs = PROGRAMS[name]
    program = trace(function, specs, name=name)  # type: ignore[arg-type]
    return derive_and_certify(program, Timings(), lambda certified, notes: certified).kernels[0]


@cache
def text(name: str) -> str:
    program, _, suffix = name.partition(".")
    if suffix:
        here = _backend(name)
        return str(here.emit(for_target(program, here.target()))[kernel(name).name])
    return print_kernel(kernel(name), CDialect())
