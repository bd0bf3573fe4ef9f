"""A tensor compiler whose every rewrite carries its proof.

    kernel = tv.compile(softmax, x="n m")     refuses what it cannot prove
    kernel(x)  kernel.source  kernel.certificate  kernel.explain()
    tv.audit("softmax.cert.json")             proves it again from the file alone
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tang_verified.spec import Spec, spec

__version__ = "0.1.0"
_HOME = {
    "TangError": "errors",
    "CompileError": "errors",
    "Dual": "dual",
    "TraceError": "errors",
    "audit": "auditing",
    "compile": "compiler",
    "expr": "symbolic",
    "grad": "tracing.differentiate",
    "jvp": "tracing.differentiate",
    "value_and_grad": "tracing.differentiate",
    "vjp": "tracing.differentiate",
    "comprehension": "tracing.comprehension",
    "monoid": "tracing.comprehension",
    "slope": "dual",
    "trace": "tracing.tracer",
}
__all__ = [
    "CompileError",
    "Dual",
    "Spec",
    "TangError",
    "TraceError",
    "audit",
    "compile",
    "comprehension",
    "expr",
    "grad",
    "jvp",
    "monoid",
    "slope",
    "spec",
    "trace",
    "value_and_grad",
    "vjp",
]

if TYPE_CHECKING:
    from tang_verified.auditing import audit
    from tang_verified.compiler import compile
    from tang_verified.dual import Dual, slope
    from tang_verified.errors import CompileError, TangError, TraceError
    from tang_verified.symbolic import expr
    from tang_verified.tracing.comprehension import comprehension, monoid
    from tang_verified.tracing.differentiate import grad, jvp, value_and_grad, vjp
    from tang_verified.tracing.tracer import trace


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first used: importing the package loads no solver."""
    if name not in _HOME:
        raise AttributeError(f"module 'tang_verified' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"tang_verified.{_HOME[name]}"), name)
    globals()[name] = value  # a submodule of the same name would otherwise take its place
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
