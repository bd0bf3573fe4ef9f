"""What a step or kernel does to IEEE values, by its rule alone and on the safe side.

    exact          the same bits: the same operations on the same values in the same order
    reassociates   the same terms folded in another order
    range          equal over the reals, but an overflow, underflow, nan or signed zero can come or go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from tang_verified.proofs.ledger import Obligation
from tang_verified.proofs.steps import Step
from tang_verified.semantics.build import canonical
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.terms import Fold, Op, Term, alpha

Effect: TypeAlias = Literal["exact", "reassociates", "range"]
EXACT = ("substitute", "rename", "drop", "define", "tuple", "finite", "gradient", "tangent")  # a derivative is as written


def step_effect(step: Step) -> Effect:
    """`gather` keeps bits but for the sign of a zero: Σ over a one-hot adds +0 to its one element."""
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


def kernel_effect(kernel: Kernel, obligations: Sequence[Obligation]) -> Effect:
    """By the lemmas that its proof used: Z3 on values means `range`, a reordered fold `reassociates`, else `exact`."""
    own = [o for o in obligations if o.place.startswith(f"kernel {kernel.name}/")]
    if any(o.name.endswith(("/pointwise", "/combine")) for o in own):
        return "range"
    return "reassociates" if any(o.name.endswith(("/onto", "/part")) for o in own) else "exact"
