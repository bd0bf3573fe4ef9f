"""What a step or kernel does to IEEE values, by its rule alone and on the safe side.

    exact          the same bits: the same operations on the same values in the same order
    reassociates   the same terms folded in another order, or in parts
    range          equal over the reals, but a rounding, an overflow, underflow, nan or signed zero can come or go
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from tang_verified.proofs.execute import all_folds
from tang_verified.proofs.ledger import Obligation
from tang_verified.proofs.steps import Step
from tang_verified.semantics.build import canonical
from tang_verified.semantics.kernel import Assign, For, Kernel, Stmt
from tang_verified.semantics.program import BYTES, SORTS, Program
from tang_verified.semantics.terms import Const, Fold, Op, Read, Term, alpha, children, reads, sort_of

Effect: TypeAlias = Literal["exact", "reassociates", "range"]
EXACT = ("rename", "drop", "define", "recall", "tuple", "finite", "gradient", "tangent")  # a derivative is as written
EXACT_OPERATIONS = ("select", "max", "min", "neg", "abs")  # of reals: what they give is given, but for a sign


def step_effect(step: Step, program: Program) -> Effect:
    """Of a step from this program. `gather` keeps bits but for a zero's sign: Σ over a one-hot adds +0 to its one element."""
    if step.rule == "substitute":
        return "exact" if _keeps_roundings(step, program) else "range"
    if step.rule in EXACT:
        return "exact"
    if step.before is None or step.after is None:
        return "range"
    if alpha(canonical(step.before)) == alpha(canonical(step.after)):
        return "exact"
    if step.rule == "gather":
        return "exact"
    if step.rule == "reindex" or (step.rule == "split" and (_parts(step.before) or _parts(step.after))):
        return "reassociates"
    return "range"  # pointwise; distribute: c·Σf can overflow where Σ c·f does not


def _parts(term: Term) -> bool:
    """A fold, or two folds combined: no factor is moved."""
    return isinstance(term, Op) and len(term.args) == 2 and all(isinstance(part, Fold) for part in term.args)


def _keeps_roundings(step: Step, program: Program) -> bool:
    """Whether what is written in is rounded as the definition that it comes from rounds it when it is stored.

    A statement computes in float64 if anything that it reads or writes is of that type, else in float32."""
    tensors = {t.name: t for t in (*program.inputs, *(d.tensor for d in program.defs))}
    values = {d.tensor.name: d.value for d in program.defs}
    source, user = step.before.tensor if isinstance(step.before, Read) else "", step.tensor
    if source not in values or user not in values:
        return False
    dtype = tensors[source].dtype
    taken = [tensors[r.tensor].dtype for r in reads(values[source])]
    wider = any(SORTS[d] == "real" and BYTES[d] > BYTES[dtype] for d in taken)
    if SORTS[dtype] != "real" or not (wider or _rounds(values[source])):
        return True
    others = [tensors[r.tensor].dtype for r in reads(values[user])] + [tensors[user].dtype]
    return dtype != "float16" and {d for d in (*taken, *others) if SORTS[d] == "real"} <= {dtype}


def _rounds(term: Term) -> bool:
    """Whether anything in a term may be rounded: a real that is neither an element, one of several, nor 0, 1, ∞ or nan."""
    match term:
        case Const(value):
            return isinstance(value, Fraction) and abs(value) not in (0, 1)
        case Op(name) if sort_of(term) == "real" and name not in EXACT_OPERATIONS:
            return True
        case Fold(monoid) if any(map(_rounds, monoid.combine)):
            return True
        case _:
            return any(map(_rounds, children(term)))


def kernel_effect(kernel: Kernel, obligations: Sequence[Obligation]) -> Effect:
    """By the lemmas that its proof used, and by how its folds run: Z3 on values means `range`, a fold that is reordered or
    cut into parts `reassociates`, else `exact`."""
    own = [o for o in obligations if o.place.startswith(f"kernel {kernel.name}/")]
    if any(o.name.endswith(("/pointwise", "/combine")) for o in own):
        return "range"
    if any(o.name.endswith(("/onto", "/part")) for o in own) or any(map(_joins, assignments(kernel.body))):
        return "reassociates"
    return "exact"


def assignments(body: Sequence[Stmt]) -> list[Assign]:
    """All assignments of a kernel, in order."""
    out: list[Assign] = []
    for statement in body:
        if isinstance(statement, Assign):
            out.append(statement)
        elif isinstance(statement, For):
            out += assignments(statement.body)
    return out


def _joins(statement: Assign) -> bool:
    """Whether a fold that rounds runs on several states (of lanes, threads, copies, or a unit's own), joined at the end."""
    kinds = dict(statement.fold_kinds)
    return any(
        statement.unit != "" or any(kinds.get(axis.name, "seq") != "seq" for axis in fold.axes)
        for part in (*statement.index, statement.guard, statement.value)
        for fold in all_folds(part)
        if any(map(_rounds, fold.monoid.combine))
    )
