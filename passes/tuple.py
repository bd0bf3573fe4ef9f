"""(Σ_j x_j) / m − max_j y_j   ->   (⊕_j (x_j, y_j)).0 / m − (⊕_j (x_j, y_j)).1,   ⊕ = (+, max): two folds become one of pairs.

Folds of one definition over equal axes and guards, of one field each, none of which needs another's result, standing under
the same choices (so that what is read for one may be read for all). The product of monoids is a monoid, field by field; it
is commutative if all are. What a fold gives is its field of the product's.

One pass over memory says so in the program itself. A schedule that gives each fold lanes and partial states of its own is
faster, so `derive` does this only for definitions that are asked for in plain style, which no such schedule takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.passes.rule import Derivation
from tang_verified.proofs.steps import Step
from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import ADD, REAL_ZERO, Fold, Monoid, Op, Sym, Term, Var, alpha, children, rebuild, substitute

Choices = tuple[tuple[Term, int], ...]  # the conditions of the selects above, and which branch it is
Found = tuple[tuple[int, ...], Fold]


def pair(derivation: Derivation, tensor: str) -> None:
    """Make one fold of those that can share a pass, in one definition; all of a group, or none."""
    groups: dict[tuple[Term, Choices], list[Found]] = {}
    for path, fold, choices in _outermost(derivation.value(tensor), (), ()):
        if len(fold.body) == 1:
            domain = alpha(canonical(Fold(ADD, fold.axes, fold.guard, (REAL_ZERO,))))
            groups.setdefault((domain, choices), []).append((path, fold))
    for members in groups.values():
        derivation.take_all([Step("tuple", tensor, path, fold, after, "pair") for path, fold, after in paired(members)])


def paired(members: list[Found]) -> Iterator[tuple[tuple[int, ...], Fold, Fold]]:
    """For each place its fold, and the component of the common fold that it becomes; nothing where there is one fold only."""
    folds = list({_key(fold): fold for _, fold in members}.values())
    folds = [fold for fold in folds if not any(_holds(fold.body[0], other) for other in folds)]
    if len(folds) < 2:
        return
    axes, place = folds[0].axes, {_key(fold): number for number, fold in enumerate(folds)}
    onto = [{own.name: Var(axis.name) for own, axis in zip(fold.axes, axes, strict=True)} for fold in folds]
    bodies = tuple(substitute(fold.body[0], dict(names)) for fold, names in zip(folds, onto, strict=True))
    monoid = product([fold.monoid for fold in folds])
    for path, fold in members:
        if _key(fold) in place:
            yield path, fold, Fold(monoid, axes, folds[0].guard, bodies, place[_key(fold)])


def product(monoids: list[Monoid]) -> Monoid:
    """States side by side, each combined by its own monoid (of one field)."""
    return Monoid(
        ".".join(monoid.name for monoid in monoids)[:60],
        tuple(monoid.identity[0] for monoid in monoids),
        tuple(_renumbered(monoid.combine[0], number) for number, monoid in enumerate(monoids)),
        all(monoid.commutative for monoid in monoids),
    )


def _renumbered(term: Term, number: int) -> Term:
    """a0, b0 as a_number, b_number."""
    if isinstance(term, Sym):
        return Sym(f"{term.name[0]}{number}", term.sort)
    return rebuild(term, tuple(_renumbered(part, number) for part in children(term)))


def _outermost(term: Term, path: tuple[int, ...], choices: Choices) -> Iterator[tuple[tuple[int, ...], Fold, Choices]]:
    """The folds that lie in no other fold, where they stand."""
    if isinstance(term, Fold):
        yield path, term, choices
        return
    for number, part in enumerate(children(term)):
        chosen = isinstance(term, Op) and term.name == "select" and number > 0
        yield from _outermost(part, (*path, number), (*choices, (alpha(children(term)[0]), number)) if chosen else choices)


def _holds(term: Term, fold: Fold) -> bool:
    return (isinstance(term, Fold) and _key(term) == _key(fold)) or any(_holds(part, fold) for part in children(term))


def _key(fold: Fold) -> Term:
    return alpha(canonical(fold))
