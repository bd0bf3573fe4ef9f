"""Right texts that the reader once refused, shrunk from random programs: in every language, and in every style of schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tang_verified as tv
from tang_verified import backends
from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.printer import print_kernel
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.plan import Choice, plan
from tang_verified.passes.schedule.search import STYLES
from tang_verified.proofs.readback import read_back
from tang_verified.semantics.kernel import Kernel
from tang_verified.tracing.tracer import trace


def doubled_choice(a: Any, c: Any) -> Any:
    xp = a.__array_namespace__()
    chosen = xp.where(c ^ c, a, 0.0)
    return xp.logaddexp(chosen, chosen)


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    # c and not c was not known to be false, so that loads where it holds were nobody's
    "a condition against itself": (doubled_choice, {"a": "m", "c": tv.spec("n m", "bool")}),
    # that no lane has a mask was not seen, so that a load where one has was nobody's
    "a scalar where a condition is against itself": (lambda a, c: a.__array_namespace__().where(c ^ c, a, 1.5), {"a": "", "c": tv.spec("n m", "bool")}),
    # the constant false in an array of truths was read as an integer
    "nothing is greater than itself": (lambda p: p > p, {"p": tv.spec("n 12", "int32")}),
    # that some lane has a mask was asked about in the midst of that question, without an end
    "what the lanes of a masked tail have in common": (
        tv.grad(lambda x, w: (x.max(axis=-1) * w).sum()), {"x": "n d>=1", "w": "n"},
    ),
    # integers under a mask are compared as they are where the mask is known to hold
    "integers that are compared in a tail": (
        lambda a, b: a.__array_namespace__().where(a + b // 3 < a % 7, a, b), {"a": tv.spec("n m", "int32"), "b": tv.spec("m", "int32")},
    ),
    # the kernel divides a fold, the text what its loop has found
    "the remainder of a minimum": (
        lambda p: (p * 3 + p).min(axis=1) % 3, {"p": tv.spec("n 4", "int32")},
    ),
    "masks that hold on some lane": (lambda a, c: ~((a != 1) ^ c), {"a": "", "c": tv.spec("2 n m", "bool")}),
}  # fmt: skip


def printed(kernel: Kernel, backend: str) -> str:
    """An uncertified kernel's text: what is tried here is the reader alone."""
    return print_kernel(kernel, CDialect()) if backend == "c" else str(backends.get(backend)._print(kernel)[0])


@pytest.mark.parametrize("backend", backends.REGISTRY)
@pytest.mark.parametrize("name", CASES)
def test_it_is_accepted(name: str, backend: str) -> None:
    function, specs = CASES[name]
    derived = derive(trace(function, specs, name="program"))
    for style in STYLES:
        choices = {d.tensor.name: Choice(style=style) for d in derived.program.defs}
        for kernel in plan(derived.program, backends.get(backend).target(), choices):
            assert read_back(kernel, printed(kernel, backend), backends.SUFFIX[backend]) is None
