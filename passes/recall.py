"""exp(x[i, j] − (max_k x[i, k]))   ->   exp(x[i, j] − m[i])   where m[i] = max_k x[i, k] is computed anyway."""

from __future__ import annotations

from collections.abc import Sequence

from tang_verified.passes.rule import Derivation
from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import (
    Fold,
    Op,
    Read,
    Term,
    Var,
    alpha,
    children,
    free_vars,
    reads,
    sort_of,
    substitute,
)  # fmt: skip


def recall(derivation: Derivation, name: str, among: Sequence[str]) -> None:
    """Read what the definitions `among` have computed already, the largest terms first."""

    def walk(path: tuple[int, ...]) -> None:
        term = derivation.value(name, path)
        if isinstance(term, (Op, Fold)) and sort_of(term) == "real" and reads(term):
            for other in among:
                d = derivation.program.definition(other)
                found = matched(d.value, term, d.axes) if isinstance(d.value, (Op, Fold)) else None
                if found is not None:
                    read = Read(other, tuple(found[axis] for axis in d.axes), "real")
                    if derivation.rewrite("recall", name, path, read, f"recall {other}"):
                        return
        for number in range(len(children(term))):
            walk((*path, number))

    walk(())


def remains(term: Term, value: Term, axes: Sequence[str]) -> bool:
    """Whether a fold of `value`, at some index, is still in the term."""
    folds = [fold for fold in _folds(value) if set(axes) <= free_vars(fold)]
    return any(matched(fold, other, axes) is not None for other in _folds(term) for fold in folds)


def _folds(term: Term) -> list[Fold]:
    own = [term] if isinstance(term, Fold) else []
    return [*own, *(fold for part in children(term) for fold in _folds(part))]


def matched(pattern: Term, term: Term, holes: Sequence[str]) -> dict[str, Term] | None:
    """Values of the holes with which the pattern is the term."""
    found: dict[str, Term] = {}

    def walk(p: Term, t: Term) -> None:
        if isinstance(p, Var) and p.name in holes:
            found.setdefault(p.name, t)
        elif type(p) is type(t):
            for a, b in zip(children(p), children(t), strict=False):
                walk(a, b)

    walk(alpha(canonical(pattern)), alpha(canonical(term)))
    if set(found) != set(holes) or any(name.startswith(".") for t in found.values() for name in free_vars(t)):
        return None
    return found if alpha(canonical(substitute(pattern, found))) == alpha(canonical(term)) else None
