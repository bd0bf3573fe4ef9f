"""trace(fn, {"x": spec("n 64")})  ->  the Program that fn's array code means.

fn is called once with traced arrays. Each operation it does becomes one definition; nothing is fused or simplified here.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tang_verified.errors import Place, SpecError, TraceError
from tang_verified.semantics.program import Program, Size, Tensor, size_term
from tang_verified.semantics.wellformed import NAME
from tang_verified.spec import Spec, spec
from tang_verified.tracing.array import Traced
from tang_verified.tracing.context import Narrowed, Tracing
from tang_verified.tracing.finish import finish


def trace(
    fn: Callable[..., Any], specs: Mapping[str, Spec | str] | None = None, *, empty: Literal["nan", "zero"] = "nan",
    name: str | None = None,
) -> Program:  # fmt: skip
    """Trace plain array code to a program. Specs not given are taken from the annotations.

    >>> program = trace(lambda q, k: q @ k.T, {"q": "n d", "k": "m d"}, name="scores")
    >>> [str(size.name) for size in program.sizes], len(program.defs)
    (['n', 'd', 'm'], 2)
    """
    return trace_and_reasons(fn, specs, empty=empty, name=name)[0]


def trace_and_reasons(
    fn: Callable[..., Any], specs: Mapping[str, Spec | str] | None = None, *, empty: Literal["nan", "zero"] = "nan",
    name: str | None = None,
) -> tuple[Program, dict[str, Narrowed]]:  # fmt: skip
    """The program, and for each size that the code narrowed the operation that did."""
    if empty not in ("nan", "zero"):
        raise TraceError(f"empty={empty!r} is not a convention", "use empty='nan' (NumPy's) or empty='zero'")
    if not callable(fn):
        raise TraceError(f"a function is expected, not a {type(fn).__name__}", "pass the function itself")
    here = _place(fn)
    label = _label(fn, name, here)
    found, plain = _arguments(fn, dict(specs or {}), label, here)
    sizes = _sizes(found, label, here)
    inputs = tuple(
        Tensor(key, value.dtype, tuple(size_term(extent) for extent in value.shape)) for key, value in found.items()
    )
    tracing = Tracing(sizes, inputs, empty)
    arrays = {tensor.name: Traced(tracing, tensor) for tensor in inputs}
    positional, keywords = _call_with(fn, arrays | plain)
    try:
        result = fn(*positional, **keywords)
    except RecursionError as problem:
        why = "a recursion must end without asking an array for a number; write long repetitions as a loop"
        raise TraceError(f"{label} calls itself too deep", why, here) from problem
    parts = _flat(result)
    if not parts:
        raise TraceError(f"{label} returns no array", "return an array or a tuple of arrays", here)
    return finish(tracing, label, _outputs(tracing, parts, label, here)), tracing.narrowed


def _flat(result: Any) -> list[Any]:
    """The arrays of a result: a tuple may hold tuples, as the gradients beside a value do."""
    return [part for item in result for part in _flat(item)] if isinstance(result, (tuple, list)) else [result]


def _label(fn: Callable[..., Any], name: str | None, here: Place | None) -> str:
    """What the program is called: as files and C functions may be."""
    label = getattr(fn, "__name__", "program").strip("<>") if name is None else name
    if not isinstance(label, str) or not NAME.fullmatch(label):
        why = "give name='…' of letters, digits and _, at most 64 and no digit first"
        raise TraceError(f"{label!r} is no name for a program", why, here)
    return label


def _arguments(
    fn: Callable[..., Any], specs: dict[str, Spec | str], label: str, here: Place | None
) -> tuple[dict[str, Spec], dict[str, Any]]:
    """For each parameter its spec, or its plain default."""
    parameters = inspect.signature(fn).parameters
    unknown = [key for key in specs if key not in parameters]
    if unknown:
        raise TraceError(f"{label} has no parameter {unknown[0]!r}; it has {', '.join(parameters)}", "", here)
    annotations = _annotations(fn)
    found: dict[str, Spec] = {}
    plain: dict[str, Any] = {}
    for key, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            raise TraceError(f"{label} takes *{key}", "name each array parameter", here)
        if not NAME.fullmatch(key):
            raise TraceError(f"{label}: parameter {key!r} is no name in C", "use ASCII letters, digits and _, at most 64", here)
        given = specs.get(key, annotations.get(key))
        if isinstance(given, str) and key in specs:
            given = spec(given)
        if isinstance(given, Spec):
            found[key] = given
        elif parameter.default is not parameter.empty:
            plain[key] = parameter.default
        else:
            raise TraceError(
                f"{label}: parameter {key!r} has no spec",
                f"say {key}=tv.spec('n d') when compiling, or annotate it: {key}: tv.spec('n d')", here,
            )  # fmt: skip
    return found, plain


def _annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return inspect.get_annotations(fn, eval_str=True)
    except Exception:  # an annotation that does not evaluate is nobody's spec
        return dict(getattr(fn, "__annotations__", {}))


def _sizes(specs: dict[str, Spec], label: str, here: Place | None) -> dict[str, Size]:
    """Every size's range: the intersection of those stated."""
    sizes: dict[str, Size] = {}
    for key, value in specs.items():
        for extent in value.shape:
            if isinstance(extent, str):
                sizes.setdefault(extent, Size(extent))
        for stated in value.ranges:
            old = sizes[stated.name]
            low, high = max(old.low, stated.low), min(old.high, stated.high)
            if low > high:
                raise SpecError(f"{label}: no {stated.name} is in both {old.low}..{old.high} and {stated.low}..{stated.high}")
            sizes[stated.name] = Size(stated.name, low, high)
        clash = [name for name in sizes if name in specs]
        if clash:
            both = f"{label}: {clash[0]!r} names both a parameter and a size"
            raise TraceError(both, f"rename it in the spec of {key}", here)
    return sizes


def _call_with(fn: Callable[..., Any], values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional, keywords = [], {}
    for key, parameter in inspect.signature(fn).parameters.items():
        if key not in values:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords[key] = values[key]
        else:
            positional.append(values[key])
    return positional, keywords


def _outputs(tracing: Tracing, parts: list[Any], label: str, here: Place | None) -> list[str]:
    """The names of the outputs; an input, and an array returned twice, is copied."""
    names: list[str] = []
    inputs = {tensor.name for tensor in tracing.inputs}
    for number, part in enumerate(parts):
        if not isinstance(part, Traced):
            which = f"result {number}" if len(parts) > 1 else "the result"
            raise TraceError(
                f"{label}: {which} is a {type(part).__name__}, not an array computed from the arguments",
                "return arrays; xp.asarray makes one of a scalar", here,
            )  # fmt: skip
        if part.tracing is not tracing:
            raise TraceError(f"{label}: a result belongs to another trace", "do not keep traced arrays between calls", here)
        if part.tensor.name in inputs or part.tensor.name in names:
            part = tracing.define("copy", part.dtype_name, part.extents, part.at)
        names.append(part.tensor.name)
    return names


def _place(fn: Callable[..., Any]) -> Place | None:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    if code is None:
        return None
    return Place(code.co_filename, code.co_firstlineno, linecache.getline(code.co_filename, code.co_firstlineno).strip())
