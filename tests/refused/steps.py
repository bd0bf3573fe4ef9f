"""Unsound steps: each is one that a pass really makes, changed in one place, and the obligation that must refuse it.

A sibling names the model, which of its steps to change (the first with that note to which the change applies), and what
is put in place of the step's result. `obligation` is how the refusal must start: as the checker reports it, or as the lemma
that failed inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tang_verified.proofs.steps import Step
from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    NAN,
    NEG_INF,
    ONE,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    put_path,
    rebuild,
    substitute,
)  # fmt: skip

Change = Callable[[Step], Step]


@dataclass(frozen=True)
class Sibling:
    name: str
    model: str
    note: str
    wrong: Change
    obligation: str


def everywhere(term: Term, change: Callable[[Term], Term | None]) -> Term:
    """The term with `change` applied bottom-up wherever it gives a term."""
    parts = tuple(everywhere(part, change) for part in children(term))
    node = rebuild(term, parts) if parts else term
    new = change(node)
    return node if new is None else new


def once(term: Term, change: Callable[[Term], Term | None]) -> Term:
    """The first place (outermost, leftmost) where `change` gives a term."""
    new = change(term)
    if new is not None:
        return new
    for number, part in enumerate(children(term)):
        inner = once(part, change)
        if inner is not part:
            return put_path(term, (number,), inner)
    return term


def after(change: Callable[[Term], Term | None]) -> Change:
    """Change the step's result at the first place that fits."""

    def wrong(step: Step) -> Step:
        assert step.after is not None
        changed = once(step.after, change)
        if changed == step.after:
            raise LookupError("the change does not apply")
        return replace(step, after=changed)

    return wrong


def whole(change: Callable[[Term], Term]) -> Change:
    """Put another term in place of the step's result."""

    def wrong(step: Step) -> Step:
        assert step.after is not None
        return replace(step, after=change(step.after))

    return wrong


def operation(name: str, to: Callable[..., Term]) -> Callable[[Term], Term | None]:
    return lambda t: to(*t.args) if isinstance(t, Op) and t.name == name else None


def fold(change: Callable[[Fold], Term]) -> Callable[[Term], Term | None]:
    return lambda t: change(t) if isinstance(t, Fold) else None



def guarded(change: Callable[[Term], Term]) -> Callable[[Term], Term | None]:
    """Change the guard of the first guarded fold."""
    return lambda t: Fold(t.monoid, t.axes, change(t.guard), t.body) if isinstance(t, Fold) and t.guard != TRUE else None


def le_to(name: str, shift: int = 0) -> Callable[[Term], Term]:
    return lambda g: once(g, operation("le", lambda a, b: Op(name, (a, canonical(Op("add", (b, Const(shift))))))))


def body(change: Callable[[Term], Term]) -> Callable[[Term], Term | None]:
    return fold(lambda f: Fold(f.monoid, f.axes, f.guard, tuple(change(b) for b in f.body)))


def monoid(other: object) -> Callable[[Term], Term | None]:
    return fold(lambda f: Fold(other, f.axes, f.guard, f.body))  # type: ignore[arg-type]


def shorter(f: Fold) -> Term:
    first = f.axes[0]
    return Fold(f.monoid, (Axis(first.name, canonical(Op("sub", (first.extent, ONE)))), *f.axes[1:]), f.guard, f.body)


def transposed(t: Term) -> Term | None:
    return Read(t.tensor, t.index[::-1], t.sort) if isinstance(t, Read) and len(t.index) == 2 else None


def half(c: Term) -> Term:
    return Const(c.value / 2) if isinstance(c, Const) and isinstance(c.value, Fraction) else c


def pull_out(step: Step) -> Step:
    """Σ_j x_j·v_j -> (Σ_j x_j)·v_j with the j of nowhere."""
    match step.after:
        case Op("div", (Fold() as f, d)):
            inner = f.body[0]
            assert isinstance(inner, Op) and inner.name == "mul"
            left = Fold(f.monoid, f.axes, f.guard, inner.args[:1])
            return replace(step, after=Op("div", (Op("mul", (left, inner.args[1])), d)))
    raise AssertionError("no quotient")


def pull_out_captured(step: Step) -> Step:
    """As before, but with a j that is bound here: the output's own axis."""
    wrong = pull_out(step).after
    assert wrong is not None and isinstance(step.after, Op) and isinstance(step.after.args[0], Fold)
    return replace(step, after=substitute(wrong, {step.after.args[0].axes[0].name: Var("i1")}))


def other_branch(t: Term) -> Term | None:
    return Op("select", (t.args[0], t.args[2], t.args[1])) if isinstance(t, Op) and t.name == "select" else None


def fill(z: Term, other: Term) -> Callable[[Term], Term | None]:
    def change(t: Term) -> Term | None:
        if isinstance(t, Op) and t.name == "select" and t.args[2] == z:
            return Op("select", (t.args[0], t.args[1], other))
        return None

    return change


def without_case(t: Term) -> Term | None:
    """(c ? nan : x) -> x."""
    return t.args[2] if isinstance(t, Op) and t.name == "select" and t.args[1] == NAN else None


def label_plus_one(t: Term) -> Term | None:
    match t:
        case Read("x", (i, Read("label", _, _) as j), sort):
            return Read("x", (i, Op("add", (j, ONE))), sort)
        case _:
            return None


def at_zero(t: Term) -> Term | None:
    return Read("x", (*t.index[:-1], ZERO), t.sort) if isinstance(t, Read) and t.tensor == "x" else None


SIBLINGS = (
    # -- factor: Σ_j (x_j / l)·v_j = (Σ_j x_j·v_j) / l
    Sibling("divisor dropped", "attention", "factor", after(operation("div", lambda a, b: a)), "distribute/element"),
    Sibling("product for quotient", "attention", "factor",
            after(operation("div", lambda a, b: Op("mul", (a, b)))), "distribute/element"),
    Sibling("wrong sign", "attention", "factor", whole(lambda t: Op("neg", (t,))), "distribute/element"),
    Sibling("factor depends on the axis", "attention", "factor", pull_out, "distribute/variables"),
    Sibling("factor at another index", "attention", "factor", pull_out_captured, "distribute/"),
    Sibling("maximum for sum", "attention", "factor", after(monoid(MAX)), "distribute/extend"),
    Sibling("one key short", "attention", "factor", after(fold(shorter)), "distribute/whole"),
    Sibling("term added", "attention", "factor",
            whole(lambda t: Op("add", (t, REAL_ONE))), "distribute/homomorphism/combine"),
    Sibling("half the constant", "dequantised", "factor",
            after(lambda t: half(t) if isinstance(t, Const) and isinstance(t.value, Fraction) else None), "distribute/element"),
    Sibling("factor twice", "dequantised", "factor",
            whole(lambda t: Op("mul", (t, t.args[1] if isinstance(t, Op) else t))), "distribute/element"),
    Sibling("norm forgotten", "cosine", "factor", after(operation("div", lambda a, b: a)), "distribute/element"),
    # -- unmask: exp((g ? s : −∞) − M)
    Sibling("empty row forgotten", "window", "unmask, or nan", after(without_case), "pointwise/pointwise"),
    Sibling("one for zero", "causal", "unmask", after(fill(REAL_ZERO, REAL_ONE)), "pointwise/pointwise"),
    Sibling("mask inverted", "causal", "unmask", after(other_branch), "pointwise/pointwise"),
    Sibling("mask off by one", "causal", "unmask",
            after(operation("select", lambda c, a, b: Op("select", (le_to("lt")(c), a, b)))), "pointwise/pointwise"),
    Sibling("maximum not subtracted", "causal", "unmask", after(operation("sub", lambda a, b: a)), "pointwise/pointwise"),
    Sibling("nan in the other branch", "window", "unmask, or nan", after(other_branch), "pointwise/pointwise"),
    # -- hoist: Σ_j (c ? nan : x_j) = (c ? nan : Σ_j x_j)
    Sibling("zero for nan", "masked", "hoist nan",
            after(operation("select", lambda c, a, b: Op("select", (c, REAL_ZERO, b)))), "distribute/"),
    Sibling("condition dropped", "masked", "hoist nan", after(without_case), "distribute/element"),
    Sibling("condition negated", "masked", "hoist nan", after(other_branch), "distribute/"),
    # -- mask to domain
    Sibling("domain a diagonal short", "causal", "mask to domain", after(guarded(le_to("lt"))), "reindex/"),
    Sibling("domain a diagonal long", "causal", "mask to domain", after(guarded(le_to("le", 1))), "reindex/"),
    Sibling("no domain", "causal", "mask to domain", after(guarded(lambda g: TRUE)), "reindex/"),
    Sibling("another monoid", "causal", "mask to domain", after(monoid(ADD)), "reindex/monoid"),
    Sibling("another body", "causal", "mask to domain", after(body(lambda b: Op("neg", (b,)))), "reindex/"),
    # -- gather
    Sibling("next label", "cross entropy", "gather", after(label_plus_one), "gather/same"),
    Sibling("no range check", "cross entropy", "gather",
            whole(lambda t: t.args[1] if isinstance(t, Op) else t), "gather/same"),
    Sibling("range off by one", "cross entropy", "gather",
            after(operation("lt", lambda a, b: Op("le", (a, b)))), "gather/same"),
    Sibling("not the identity", "cross entropy", "gather", after(fill(REAL_ZERO, NEG_INF)), "gather/same"),
    # -- absorb, laws, zero, merge
    Sibling("branch not absorbed", "masked", "absorb", after(
        operation("select", lambda c, a, b: Op("select", (c, a, REAL_ONE)))), "pointwise/pointwise"),
    Sibling("additive mask inverted", "additive", "absorb", after(other_branch), "pointwise/pointwise"),
    Sibling("score dropped", "additive", "absorb",
            after(operation("select", lambda c, a, b: Op("select", (c, REAL_ZERO, b)))), "pointwise/pointwise"),
    Sibling("nan forgotten", "masked", "laws", after(without_case), "pointwise/pointwise"),
    Sibling("or for and", "twice masked", "merge",
            after(operation("and", lambda a, b: Op("or", (a, b)))), "pointwise/pointwise"),
    Sibling("one mask only", "twice masked", "merge", after(operation("and", lambda a, b: a)), "pointwise/pointwise"),
    Sibling("quotient inverted", "causal, zero", "zero", whole(
        lambda t: Op(t.name, t.args[::-1]) if isinstance(t, Op) else t), "pointwise/pointwise"),
    # -- fusion and names
    Sibling("index transposed", "attention", "inline t1_matmul", after(transposed), "substitute/same"),
    Sibling("term dropped", "layer norm", "inline c",
            whole(lambda t: t.args[0] if isinstance(t, Op) else t), "substitute/same"),
    Sibling("not a read", "softmax", "inline", whole(lambda t: REAL_ZERO), "substitute/same"),
    Sibling("extent changed", "softmax", "rename", after(fold(shorter)), "rename/same"),
    Sibling("operands swapped", "softmax", "rename",
            after(operation("sub", lambda a, b: Op("sub", (b, a)))), "rename/same"),
    Sibling("a read at zero", "layer norm", "rename", after(at_zero), "rename/same"),
    Sibling("still read", "softmax", "drop", lambda step: replace(step, tensor="t4_div"), "drop/unused"),
    Sibling("another place", "causal", "unmask", lambda step: replace(step, before=REAL_ZERO), "pointwise/before"),
)  # fmt: skip
