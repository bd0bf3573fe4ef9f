"""Real certificates for the tests, made once a run: hand-written attention; softmax and rows of a table through the passes."""

from __future__ import annotations

from functools import cache

from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.printer import print_kernel
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.certificate import write
from tang_verified.proofs.check import Certified, certify
from tang_verified.spec import spec
from tang_verified.tracing.tracer import trace
from tests.proofs.attention import attention

FILES = {"embedding": "rows", "one tile": "softmax"}  # what the others' sources are called
ARITHMETIC = CDialect.arithmetic.lines()
ROUNDING = CDialect.arithmetic.numbers()


@cache
def certified(name: str) -> Certified:
    if name == "attention":
        program, kernel = attention()
        return certify(program, [], [kernel])
    if name == "embedding":
        program = trace(lambda table, token: table[token], {"table": "100 8", "token": spec("n", "int32")}, name="rows")
    else:
        program = trace(softmax, {"x": "n 8" if name == "one tile" else "n m"}, name="softmax")
    return certified_plan(program, derive(program), Target(), {})[0]


@cache
def sources(name: str) -> dict[str, str]:
    """The printed text beside the certificate."""
    return {f"{FILES.get(name, name)}.c": print_kernel(kernel, CDialect()) for kernel in certified(name).kernels}


@cache
def certificate(name: str) -> str:
    return write(certified(name), sources(name), ARITHMETIC, rounding=ROUNDING)


def softmax(x):  # type: ignore[no-untyped-def]
    xp = x.__array_namespace__()
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
