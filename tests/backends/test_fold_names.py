"""Equal folds get equal names, wherever they stand."""

from __future__ import annotations

from tang_verified.backends.fold_names import kind_of, name_folds
from tang_verified.semantics.build import op, var
from tang_verified.semantics.terms import ADD, MAX, TRUE, Axis, Fold, free_vars

from .harness import R

i, m = var("i"), var("m")


def largest(name: str) -> Fold:
    return Fold(MAX, (Axis(name, m),), TRUE, (R("x", i, var(name)),))


def total(name: str, inner: str) -> Fold:
    return Fold(ADD, (Axis(name, m),), TRUE, (op("exp", op("sub", R("x", i, var(name)), largest(inner))),))


def test_depth_does_not_matter() -> None:
    outside, inside = name_folds(largest("p"), {}), name_folds(total("j", "k"), {})
    assert isinstance(inside, Fold) and outside in inside.body[0].args[0].args  # type: ignore[union-attr]
    assert name_folds(total("a", "b"), {}) == inside


def test_kinds_are_part_of_the_name() -> None:
    named = name_folds(largest("p"), {"p": "lane"})
    assert isinstance(named, Fold) and kind_of(named.axes[0]) == "lane"
    assert named != name_folds(largest("p"), {})


def test_an_inner_axis_of_the_same_name_is_not_captured() -> None:
    """Σ_j (x[j] + Σ_j y[j]): two axes j."""
    inner = Fold(ADD, (Axis("j", m),), TRUE, (R("y", var("j")),))
    named = name_folds(Fold(ADD, (Axis("j", m),), TRUE, (op("add", R("x", var("j")), inner),)), {})
    assert free_vars(named) == {"m"}
    assert isinstance(named, Fold)
    assert named == name_folds(Fold(ADD, (Axis("a", m),), TRUE, (op("add", R("x", var("a")), inner),)), {})
