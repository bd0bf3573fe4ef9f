"""Is n - 1 >= 0 for every allowed n?  Affine questions about sizes, answered by isl.

The answers steer tracing only (which shapes fit, which range a size must have); nothing that is proved rests on them.
"""

from __future__ import annotations

from collections.abc import Mapping

import islpy

from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import Size
from tang_verified.semantics.terms import FALSE, TRUE, Const, Op, Term, Var, free_vars

RELATIONS = {"lt": "<", "le": "<=", "eq": "="}


class NotAffine(ValueError):
    """A term that isl's language has no word for."""


def always(condition: Term, sizes: Mapping[str, Size], axes: Mapping[str, Term] | None = None) -> bool:
    """Whether the condition holds for all sizes in range and all axes within their extents; False when it is not affine."""
    condition = canonical(condition)
    if condition == TRUE:
        return True
    try:
        return bool(_counterexamples(condition, sizes, axes or {}).is_empty())
    except NotAffine:
        return False


def never(condition: Term, sizes: Mapping[str, Size]) -> bool:
    """Whether the condition fails for all sizes in range."""
    return always(Op("not", (condition,)), sizes)


def least_size(condition: Term, sizes: Mapping[str, Size]) -> tuple[str, int] | None:
    """For a condition on one size: the name and the least value from which on it always holds."""
    names = sorted(free_vars(condition))
    if len(names) != 1:
        return None
    try:
        bad = _counterexamples(condition, sizes, {})
    except NotAffine:
        return None
    size = sizes[names[0]]
    low = size.low if bad.is_empty() else int(bad.dim_max_val(0).to_python()) + 1
    return (size.name, low) if low <= size.high else None


def _counterexamples(condition: Term, sizes: Mapping[str, Size], axes: Mapping[str, Term]) -> islpy.Set:
    names = set(free_vars(condition))
    for extent in axes.values():
        names |= free_vars(extent)
    order = sorted(names)
    words = {name: f"v{number}" for number, name in enumerate(order)}
    parts = [f"not ({_formula(condition, words)})"]
    for name in order:
        if name in axes:
            parts.append(f"0 <= {words[name]} < {_number(axes[name], words)}")
        else:
            parts.append(f"{sizes[name].low} <= {words[name]} <= {sizes[name].high}")
    return islpy.Set(f"{{ [{', '.join(words.values())}] : {' and '.join(parts)} }}")


def _formula(term: Term, words: Mapping[str, str]) -> str:
    match term:
        case Const(bool() as value):
            return "true" if value else "false"
        case Op("and" | "or" as name, (a, b)):
            return f"(({_formula(a, words)}) {name} ({_formula(b, words)}))"
        case Op("not", (a,)):
            return f"not ({_formula(a, words)})"
        case Op("ne", (a, b)):
            return f"not ({_formula(Op('eq', (a, b)), words)})"
        case Op("lt" | "le" | "eq" as name, (a, b)):
            return f"{_number(a, words)} {RELATIONS[name]} {_number(b, words)}"
        case _:
            raise NotAffine(type(term).__name__)


def _number(term: Term, words: Mapping[str, str]) -> str:
    match term:
        case Const(int() as value):
            return f"({value})"
        case Var(name):
            return words[name]
        case Op("add", (a, b)):
            return f"({_number(a, words)} + {_number(b, words)})"
        case Op("sub", (a, b)):
            return f"({_number(a, words)} - {_number(b, words)})"
        case Op("neg", (a,)):
            return f"(-{_number(a, words)})"
        case Op("mul", (Const(int() as value), a)) | Op("mul", (a, Const(int() as value))):
            return f"({value} * {_number(a, words)})"
        case Op("floordiv", (a, Const(int() as value))) if value > 0:
            return f"floor({_number(a, words)} / {value})"
        case Op("mod", (a, Const(int() as value))) if value > 0:
            return f"({_number(a, words)} mod {value})"
        case _:
            raise NotAffine(type(term).__name__)


def is_affine(term: Term) -> bool:
    """Whether an int term is quasi-affine: what shapes and indices are made of."""
    try:
        _number(canonical(term), {name: name for name in free_vars(term)})
    except NotAffine:
        return False
    return True


def is_affine_condition(term: Term) -> bool:
    """Whether a bool term is made of comparisons of quasi-affine terms."""
    try:
        _formula(canonical(term), {name: name for name in free_vars(term)})
    except NotAffine:
        return False
    return True


def show(term: Term) -> str:
    """An int or bool term as the user would write it: `n + 1` reads n+1."""
    match term:
        case Const(value):
            return str(value)
        case Var(name):
            return name
        case Op("add", (a, Const(int() as value))) if value < 0:
            return f"{show(a)}-{-value}"
        case Op("add", (a, Op("mul", (Const(-1), b)))):
            return f"{show(a)}-{_tight(b)}"
        case Op("add", (a, b)):
            return f"{show(a)}+{show(b)}"
        case Op("mul", (Const(-1), a)):
            return f"-{_tight(a)}"
        case Op("mul" | "floordiv" | "mod" as name, (a, b)):
            return f"{_tight(a)}{({'mul': '*', 'floordiv': '//', 'mod': '%'})[name]}{_tight(b)}"
        case _:
            return "?" if term != FALSE else "False"


def _tight(term: Term) -> str:
    return f"({show(term)})" if isinstance(term, Op) else show(term)


def show_shape(shape: tuple[Term, ...]) -> str:
    """(n, 64) for a shape's terms."""
    return f"({', '.join(show(extent) for extent in shape)}{',' if len(shape) == 1 else ''})"
