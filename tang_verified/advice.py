"""What a refusal tells: its plainest counterexample, and what to do, by the obligation that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tang_verified.proofs.ledger import Refused

IDENTITY = (
    "choose the identity that combine leaves alone on both sides (0.0 for a + b, 1.0 for a * b, -inf for maximum); "
    "if there is none, carry a bool field that says whether there is an element yet; let the rest of two empty states add up"
)
LAWS = {  # of a monoid, by the middle of the obligation's name: monoid/NAME/identity-left-finite
    "associative": "correct combine: a fold is cut into parts, so brackets must not matter; perhaps the state needs more "
    "fields (a mean: the sum and the count)",
    "identity": IDENTITY,
    "commutative": "say commutative=False: the elements are then folded in order",
    "closed": "keep the state finite: combine of finite states must be finite (no division by what may be 0, no log of it)",
}
TEXT = "this is a fault of the printer or of its reader: please report it with the function"
SIZES = "state more about the sizes (spec 'n>=1'), or write it more simply"


def advice(refusal: Refused) -> str:
    """One sentence in the imperative."""
    kind, _, rest = refusal.obligation.partition("/")
    if kind == "text":
        return TEXT
    if kind != "monoid":
        return SIZES
    law = rest.rpartition("/")[2].split("-")[0]
    if refusal.verdict == "disproved" or law == "commutative":
        return LAWS[law]
    return f"write combine more simply: no prover answers whether its law ({law}) holds"


def telling(refusal: Refused) -> Refused:
    """The refusal whose counterexample says most: of an element, if there is one, rather than of whole folds."""
    elements = [r for r in refusal.tried if r.values and r.obligation.endswith("/element/pointwise")]
    return min(elements, key=lambda r: len(r.values), default=refusal)
