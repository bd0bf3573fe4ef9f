"""t[i] = f(i);  out[i] = Σ_j g(t[j])   ->   out[i] = Σ_j g(f(j)).

Each read of a definition that is not to be kept (policy.py) becomes that definition's value at the index, its bound axes
renamed apart; then what nothing reads is dropped. A definition is simplified before it is written into another, so what
is copied is already short.
"""

from __future__ import annotations

from tang_verified.passes.rename import named
from tang_verified.passes.rule import Derivation
from tang_verified.proofs.steps import Step
from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import (
    Fold,
    Read,
    Term,
    alpha,
    bound_names,
    children,
    free_vars,
    mentions,
    rebuild,
    substitute,
)  # fmt: skip


def inline(derivation: Derivation, tensor: str, kept: frozenset[str]) -> None:
    """Write into one definition what it reads and is not kept."""
    defined = {d.tensor.name for d in derivation.program.defs} - kept
    before = None
    while before != derivation.value(tensor):  # what is written in may read what is to be written in here alone
        before = derivation.value(tensor)
        for path in _places(before, defined):
            read = derivation.value(tensor, path)
            if isinstance(read, Read):
                _write_in(derivation, tensor, path, read)


def _write_in(derivation: Derivation, tensor: str, path: tuple[int, ...], read: Read) -> None:
    source = derivation.program.definition(read.tensor)
    d = derivation.program.definition(tensor)
    taken = {size.name for size in derivation.program.sizes} | set(d.axes) | bound_names(d.value)
    value = apart(source.value, taken | set(source.axes))
    after = canonical(substitute(value, dict(zip(source.axes, read.index, strict=True))))
    derivation.rewrite("substitute", tensor, path, after, f"inline {read.tensor}")


def drop_unused(derivation: Derivation) -> None:
    """Drop the definitions that no output needs, the last first."""
    for d in reversed(derivation.program.defs):
        name = d.tensor.name
        read = {name for other in derivation.program.defs for name in mentions(other.value)}
        if name not in read and name not in derivation.program.outputs:
            derivation.take(Step("drop", name, (), None, None, "drop"))


def _places(term: Term, defined: set[str]) -> list[tuple[int, ...]]:
    """Paths of the reads, those in an index before the read itself."""
    out: list[tuple[int, ...]] = []

    def walk(node: Term, path: tuple[int, ...]) -> None:
        for number, part in enumerate(children(node)):
            walk(part, (*path, number))
        if isinstance(node, Read) and node.tensor in defined:
            out.append(path)

    walk(term, ())
    return out


def apart(term: Term, taken: set[str]) -> Term:
    """The term with bound axes that are not in `taken`; equal folds stay equal."""
    given: dict[Term, tuple[str, ...]] = {}
    taken = taken | set(free_vars(term)) | bound_names(term)

    def fresh(stem: str) -> str:
        base, number = stem.rstrip("0123456789"), 0
        while f"{base}{number}" in taken:
            number += 1
        taken.add(f"{base}{number}")
        return f"{base}{number}"

    def walk(node: Term) -> Term:
        if isinstance(node, Fold):
            key = alpha(node)
            if key not in given:
                given[key] = tuple(fresh(axis.name) for axis in node.axes)
            node = named(node, given[key])
        parts = children(node)
        new = tuple(walk(part) for part in parts)
        return node if all(a is b for a, b in zip(new, parts, strict=True)) else rebuild(node, new)

    return walk(term)
