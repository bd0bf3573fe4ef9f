"""A definition  ->  its normal form: the rules below, innermost terms first, until none applies.

Laws that always hold go through whole regions between folds in one step (laws.py). Everything else is proposed term by
term in the order of `RULES`, the strongest form first; a refused proposal is noted and the next one is tried.
"""

from __future__ import annotations

from tang_verified.passes.domain import mask_to_domain
from tang_verified.passes.factor import factor
from tang_verified.passes.fuse import inline
from tang_verified.passes.gather import gather
from tang_verified.passes.hoist import hoist
from tang_verified.passes.indices import indices
from tang_verified.passes.laws import normal
from tang_verified.passes.rename import rename
from tang_verified.passes.rule import Derivation, Place, Proposal, Rule
from tang_verified.passes.selects import absorb, decide, merge, vanish, zero
from tang_verified.passes.unmask import unmask
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.steps import Step, scope_at
from tang_verified.semantics.terms import Const, Fold, Op, Term, Var, alpha, children, sort_of

RULES: tuple[Rule, ...] = (decide, merge, unmask, absorb, vanish, zero, gather, hoist, factor, mask_to_domain)
ARITHMETIC = frozenset(("add", "sub", "mul", "neg", "floordiv", "mod", "max", "min"))
Path = tuple[int, ...]
Conditions = frozenset[tuple[Term, bool]]


class Simplifier:
    """Rewrites the definitions of one derivation, and remembers which terms are in normal form."""

    def __init__(self, derivation: Derivation, rules: tuple[Rule, ...] = RULES) -> None:
        self.derivation, self.rules = derivation, rules
        self.done: set[tuple[Term, Conditions]] = set()
        self.failed: set[tuple[str, Term, Term, Conditions]] = set()

    def simplify(self, tensor: str) -> None:
        """Bring one definition into normal form."""
        self._region(tensor, (), frozenset())

    def _region(self, tensor: str, path: Path, given: Conditions) -> None:
        """A term whose parent is a fold, or a definition's whole value."""
        self._laws(tensor, path, given)
        self._visit(tensor, path, given)

    def _laws(self, tensor: str, path: Path, given: Conditions) -> None:
        before = self.derivation.value(tensor, path)
        after = normal(before)
        if after != before:
            self._propose(Proposal("pointwise", after, "laws"), tensor, path, given)

    def _visit(self, tensor: str, path: Path, given: Conditions) -> None:
        term = self.derivation.value(tensor, path)
        if isinstance(term, (Var, Const)) or (term, given) in self.done:
            return
        for number in range(0 if arithmetic(term) else len(children(term))):
            self._child(tensor, path, number, given)
        if self._rules(tensor, path, given):
            self._laws(tensor, path, given)
            self._visit(tensor, path, given)
        else:
            self.done.add((self.derivation.value(tensor, path), given))

    def _child(self, tensor: str, path: Path, number: int, given: Conditions) -> None:
        match self.derivation.value(tensor, path):
            case Fold(_, axes, _, _, _) if number > len(axes):
                self._region(tensor, (*path, number), given)
            case Fold():
                return
            case Op("select", (c, _, _)) if number > 0:
                self._visit(tensor, (*path, number), given | {(c, number == 1)})
            case _:
                self._visit(tensor, (*path, number), given)

    def _rules(self, tensor: str, path: Path, given: Conditions) -> bool:
        term = self.derivation.value(tensor, path)
        place = Place(lambda: self._facts(tensor, path))
        for rule in (indices,) if arithmetic(term) else self.rules:
            for proposal in rule(term, place):
                if self._propose(proposal, tensor, path, given):
                    return True
        return False

    def _propose(self, proposal: Proposal, tensor: str, path: Path, given: Conditions) -> bool:
        """Take the steps, unless the same was refused under the same conditions before."""
        before = self.derivation.value(tensor, path)
        key = (proposal.rule, alpha(before), alpha(proposal.after), given)
        if key in self.failed:
            return False
        steps: list[Step] = []
        part: Proposal | None = proposal
        while part is not None:
            steps.append(Step(part.rule, tensor, path, before, part.after, part.note))
            before, part = part.after, part.then
        if self.derivation.take_all(steps, proposal.moves_reads):
            return True
        self.failed.add(key)
        return False

    def _facts(self, tensor: str, path: Path) -> tuple[Term, ...]:
        derivation = self.derivation
        try:
            return scope_at(derivation.ledger, derivation.program, derivation.program.definition(tensor), path).facts
        except Refused:
            return ()


def written_in(simplifier: Simplifier, tensor: str, kept: frozenset[str]) -> None:
    """Write into a definition what it reads and is not kept, then bring it into normal form."""
    derivation = simplifier.derivation
    inline(derivation, tensor, kept)
    rename(derivation, tensor)
    simplifier.simplify(tensor)
    rename(derivation, tensor)


def arithmetic(term: Term) -> bool:
    """Whether a term is an index: integer arithmetic without folds."""
    if not isinstance(term, Op) or sort_of(term) != "int" or term.name not in ARITHMETIC:
        return False
    return not any(isinstance(part, Fold) or (isinstance(part, Op) and not arithmetic(part)) for part in term.args)
