"""What is proved about monoids, by Z3 and once a ledger: their laws, what a fold can never be, and homomorphisms.

A property P of states holds of a fold when it holds of the identity (or the domain is never empty), of every lifted
element, and passes through combine. The properties used are conjunctions of "never nan", "never +inf", "never -inf",
"never negative", "never zero" (`Kind`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import z3

from tang_verified.proofs.ledger import Ledger, Refused, show
from tang_verified.semantics.build import canonical
from tang_verified.semantics.meaning import FINITE, ZERO, Encoder, Extended, Kind, all_of, any_of, negate, same
from tang_verified.semantics.terms import Fold, Monoid, Sym, Term, alpha, combine, fill, free_vars, sort_of

if TYPE_CHECKING:
    from tang_verified.proofs.equality import Equality, Scope


@dataclass(frozen=True)
class Laws:
    commutative: bool


UNKNOWN: Kind = (False, False, False, False, False)
CANDIDATES: tuple[Kind, ...] = (
    (True, True, True, True, True), (True, True, True, True, False), FINITE, (True, True, False, False, False),
    (True, False, True, False, False), (True, False, False, False, False),
)  # fmt: skip


class MonoidFacts:
    """Proves and remembers facts about monoids and folds."""

    def __init__(self, ledger: Ledger, equality: Equality) -> None:
        self.ledger, self.equality = ledger, equality

    def laws(self, monoid: Monoid) -> Laws:
        """Identity and associativity (and commutativity where claimed), or `Refused` with a counterexample."""
        if monoid not in self.ledger.laws:
            with self.ledger.lemma():
                self._prove_laws(monoid)
            self.ledger.laws[monoid] = Laws(monoid.commutative)
        found: Laws = self.ledger.laws[monoid]
        return found

    def meaningful(self, monoid: Monoid) -> None:
        """The laws for all states, or at least for the identity and all states whose reals are finite, closed under combine.

        A program whose folds are not even that would depend on the order of its elements, and is refused. This permits no
        reordering: what reorders asks for `laws`.
        """
        try:
            self.laws(monoid)
        except Refused as refusal:
            try:
                with self.ledger.trial(), self.ledger.lemma():
                    self._prove_laws(monoid, finite=True)
            except Refused as finite:  # its counterexample is the plainer one
                raise (finite if finite.verdict == "disproved" else refusal) from None

    def _prove_laws(self, monoid: Monoid, finite: bool = False) -> None:
        sorts = [sort_of(t) for t in monoid.identity]
        u, v, w = (tuple(Sym(f"{n}{k}", s) for k, s in enumerate(sorts)) for n in "uvw")
        identity, name = monoid.identity, f"monoid/{monoid.name}"
        states, which = ((u, v, w), "-finite") if finite else ((), "")
        left = combine(monoid, combine(monoid, u, v), w)
        right = combine(monoid, u, combine(monoid, v, w))
        self._states(f"{name}/associative{which}", left, right, states)
        self._states(f"{name}/identity-left{which}", combine(monoid, identity, u), u, states)
        self._states(f"{name}/identity-right{which}", combine(monoid, u, identity), u, states)
        if monoid.commutative:
            self._states(f"{name}/commutative{which}", combine(monoid, u, v), combine(monoid, v, u), states)
        if finite:
            self._states(f"{name}/identity-identity{which}", combine(monoid, identity, identity), identity, ())
            encoder, given = self._finite((u, v))
            closed = [encoder.encode(t).finite for t in combine(monoid, u, v) if sort_of(t) == "real"]
            text = f"{_state(combine(monoid, u, v))} is finite"
            self.ledger.valid(f"{name}/closed{which}", encoder, given, all_of(*closed), text)

    @staticmethod
    def _finite(states: Sequence[tuple[Term, ...]]) -> tuple[Encoder, list[Any]]:
        """An encoder, and that every real of the states is finite."""
        encoder = Encoder()
        return encoder, [encoder.encode(t).finite for state in states for t in state if sort_of(t) == "real"]

    def _states(
        self, name: str, left: tuple[Term, ...], right: tuple[Term, ...], finite: Sequence[tuple[Term, ...]]
    ) -> None:  # fmt: skip
        encoder, given = self._finite(finite)
        claims = []
        for a, b in zip(left, right, strict=True):
            x, y = encoder.encode(a), encoder.encode(b)
            claims.append(same(x, y) if isinstance(x, Extended) else x == y)
        self.ledger.valid(name, encoder, given, all_of(*claims), f"{_state(left)} = {_state(right)}")

    def kind(self, fold: Fold, scope: Scope) -> Kind:
        """What a real fold can never be, as far as it can be shown here."""
        if sort_of(fold) != "real" or len(fold.body) != 1:
            return UNKNOWN
        scope = scope.without_folds().about(free_vars(fold))
        shape = alpha(canonical(fold))
        key = (shape, scope.facts, scope.points)
        memory, finding = self.ledger.kinds, self.ledger.finding
        if key in memory:
            return memory[key]
        if shape in finding:  # asked for again on the way, as a fact about the fold itself does: nothing is known yet
            return UNKNOWN
        finding.add(shape)
        try:
            with self.ledger.lemma():
                memory[key] = self._find_kind(fold, scope)
        finally:
            finding.discard(shape)
        return memory[key]

    def _find_kind(self, fold: Fold, scope: Scope) -> Kind:
        try:
            self.laws(fold.monoid)  # induction over a fold needs them
        except Refused:
            return UNKNOWN
        fold = self.equality.flat(fold)
        fold = self.equality.apart(fold, free_vars(fold) | scope.names())
        inside = scope.over(fold.axes, fold.guard)
        encoder, facts = self.equality.problem(inside, fold.body)
        element = encoder.encode(fold.body[0])
        nonempty: bool | None = None
        for kind in CANDIDATES:
            if not self._closed(fold.monoid, kind):
                continue
            if not self._closed_identity(fold.monoid, kind):
                nonempty = self._nonempty(fold, scope) if nonempty is None else nonempty
                if not nonempty:
                    continue
            claim = never(element, kind)
            if claim is not False and self.shows(f"kind/{spelled(kind)}", encoder, facts, claim, show(fold.body[0])):
                return kind
        return UNKNOWN

    def _closed(self, monoid: Monoid, kind: Kind) -> bool:
        """Whether combine keeps the property; asked once for each monoid itself (its name says nothing)."""
        memory = self.ledger.closed
        if (monoid, kind) not in memory:
            sorts = [sort_of(t) for t in monoid.identity]
            encoder = Encoder()
            states = [[encoder.encode(Sym(f"{n}{k}", s)) for k, s in enumerate(sorts)] for n in "ab"]
            given = [never(x, kind) for state in states for x in state if isinstance(x, Extended)]
            claim = never(encoder.encode(monoid.combine[0]), kind)
            memory[monoid, kind] = self.shows(f"monoid/{monoid.name}/keeps-{spelled(kind)}", encoder, given, claim, monoid.name)
        return memory[monoid, kind]

    def _closed_identity(self, monoid: Monoid, kind: Kind) -> bool:
        claim = never(Encoder().encode(monoid.identity[0]), kind)  # about a constant: it simplifies to true or false
        return claim is True or (claim is not False and bool(z3.is_true(z3.simplify(claim))))

    def _nonempty(self, fold: Fold, scope: Scope) -> bool:
        from tang_verified.proofs.equality import domain_facts
        from tang_verified.semantics.sets import is_affine

        facts = [fact for fact in scope.facts if is_affine(fact)]
        names = tuple(axis.name for axis in fold.axes)
        try:
            self.ledger.covers("fold/not-empty", facts, [(names, domain_facts(fold.axes, fold.guard))])
            return True
        except Refused:
            return False

    def shows(self, name: str, encoder: Encoder, facts: list[Any], claim: Any, text: str) -> bool:
        """Whether the claim is valid."""
        try:
            with self.ledger.trial(), self.ledger.lemma():
                self.ledger.valid(name, encoder, facts, claim, text)
            return True
        except Refused:
            return False

    def homomorphism(
        self, name: str, kept: Term, olds: list[Fold], part: tuple[Term, ...], whole: Fold, bodies: list[Term],
        inside: Scope, scope: Scope,
    ) -> Callable[[Sequence[Term]], Term]:  # fmt: skip
        """Show that H = (olds ↦ kept) is one, and return it as a function of terms.

        H(u ⊕ v, …) = H(u, …) ⊕ H(v, …) for all states (finite ones when every element is finite and ⊕ keeps that), and
        H(id, …) = id unless the part is never empty.
        """
        monoid, sort = olds[0].monoid, sort_of(olds[0])

        def transform(values: Sequence[Term]) -> Term:
            term = kept
            marks = [Sym(f"h{k}", sort) for k in range(len(olds))]
            for old, mark in zip(olds, marks, strict=True):
                term = replace_everywhere(term, old, mark)
            return fill(term, {mark.name: value for mark, value in zip(marks, values, strict=True)})

        us = [Sym(f"u{k}", sort) for k in range(len(olds))]
        vs = [Sym(f"v{k}", sort) for k in range(len(olds))]
        if len(olds) == 1 and transform(us) == us[0]:
            return transform
        joined = transform([combine(monoid, (u,), (v,))[0] for u, v in zip(us, vs, strict=True)])
        apart = combine(monoid, (transform(us),), (transform(vs),))[0]
        encoder, facts = self.equality.problem(scope, (joined, apart))
        if sort == "real" and self._closed(monoid, FINITE) and all(
            self.equality.finite("element/finite", body, inside) for body in bodies
        ):
            facts += [encoder.encode(state).finite for state in (*us, *vs)]
        x, y = encoder.encode(joined), encoder.encode(apart)
        claim = same(x, y) if isinstance(x, Extended) else x == y
        self.ledger.valid(f"{name}/combine", encoder, facts, claim, f"{show(joined)} = {show(apart)}")
        identity = monoid.identity[0]
        try:
            with self.ledger.trial():
                self.equality.equal(f"{name}/identity", transform([identity] * len(olds)), identity, scope)
        except Refused:
            from tang_verified.semantics.sets import is_affine

            facts_ = [fact for fact in scope.facts if is_affine(fact)]
            self.ledger.covers(f"{name}/not-empty", facts_, [(tuple(axis.name for axis in whole.axes), part)])
        return transform


def never(value: Extended, kind: Kind) -> Any:
    negative = any_of(value.bottom, all_of(value.finite, value.value < ZERO))
    flags = (value.nan, value.top, value.bottom, negative, all_of(value.finite, value.value == ZERO))
    return all_of(*(negate(flag) for flag, wanted in zip(flags, kind, strict=True) if wanted))


def replace_everywhere(term: Term, old: Term, new: Term) -> Term:
    from tang_verified.proofs.equality import replace

    return replace(term, old, new)


def spelled(kind: Kind) -> str:
    """What a value of this kind never is, in words."""
    words = ("nan", "top", "bottom", "negative", "zero")
    return "-".join(word for word, wanted in zip(words, kind, strict=True) if wanted) or "any"


def _state(state: tuple[Term, ...]) -> str:
    return ", ".join(show(t) for t in state)
