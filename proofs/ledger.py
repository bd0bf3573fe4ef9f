"""Obligations: how each claim is stated, discharged and kept.

Three kinds of claim, all universally quantified over every variable in them:

    holds(facts, goal)      integers: facts imply goal                                       isl (emptiness of a set)
    covers(facts, parts)    integers: facts imply that some part has a solution              isl (subset of a projection)
    valid(facts, claim)     reals, booleans, integers: facts imply claim                     Z3 (refutation)

Each is also written out in SMT-LIB 2, so that cvc5 can be asked instead or as well. Whatever is not proved is a refusal.
A ledger never grows by a claim that was not discharged: `Refused` is raised first.

In the end every statement's hypotheses, its assertions but the last, get a model (`ground`): where they contradict each
other, that is an obligation of its own, and what was proved from them is marked vacuous. A fourth claim is that alone:

    reachable(facts)        the facts have a model; where they have none, it is refused               exact evaluation
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import z3

from tang_verified.proofs.ask import Asker
from tang_verified.proofs.counterexample import counterexample, values
from tang_verified.proofs.models import Models
from tang_verified.proofs.propose_model import Unknown
from tang_verified.semantics import sets
from tang_verified.semantics.build import canonical
from tang_verified.semantics.exact import Model, NoModel, hypotheses
from tang_verified.semantics.meaning import FINITE, Encoder, Kind, all_of, negate
from tang_verified.semantics.program import Program, Size
from tang_verified.semantics.smtlib import statement
from tang_verified.semantics.solutions import solutions
from tang_verified.semantics.terms import TRUE, Const, Op, Term, Var, free_vars, substitute

Solver: TypeAlias = Literal["z3", "cvc5", "both"]
Verdict: TypeAlias = Literal["proved", "disproved", "unproved", "error"]
Z3_BUDGET = 30_000_000  # Z3's own resource units, a few seconds; the verdict does not depend on the machine
CVC5_BUDGET = 4_000_000


class Refused(Exception):
    """A claim that did not hold, or could not be shown.

    `values`: a counterexample, (name, value) by (name, value); `tried`: what was refused on the other ways to show it.
    """

    tried: tuple[Refused, ...] = ()

    def __init__(
        self, obligation: str, place: str, verdict: Verdict, why: str, values: tuple[tuple[str, str], ...] = ()
    ) -> None:  # fmt: skip
        super().__init__(f"{place}: {obligation}: {verdict}: {why}")
        self.obligation, self.place, self.verdict, self.why, self.values = obligation, place, verdict, why, values


@dataclass(frozen=True, slots=True)
class Obligation:
    """A discharged claim: its name, the place it was made for, its statement, and what showed it."""

    name: str
    place: str
    prover: str  # "isl", "z3", "cvc5", "structure" (the two sides are the same term) or "model" (satisfiable)
    statement: str  # SMT-LIB 2: unsatisfiable; or the term itself for "structure"
    lasting: bool = False  # a lemma that may be used again, kept even when the attempt that asked for it fails
    model: str = ""  # digest of a model of the hypotheses
    vacuous: bool = False  # the hypotheses contradict each other, as an obligation of its own shows

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.name}\n{self.statement}".encode()).hexdigest()[:20]

    @property
    def trust(self) -> str:
        """How far it is to be trusted: "checked" without a solver, "replayed" by one, or "vacuous"."""
        return "checked" if self.prover in ("structure", "model") else "vacuous" if self.vacuous else "replayed"


def size_facts(sizes: Sequence[Size]) -> tuple[Term, ...]:
    out: list[Term] = []
    for size in sizes:
        out += [Op("le", (Const(size.low), Var(size.name))), Op("le", (Var(size.name), Const(size.high)))]
    return tuple(out)


@dataclass
class Ledger:
    """Discharges claims about one program and keeps those that hold."""

    program: Program
    solver: Solver = "z3"
    recorded: Mapping[str, Model] = field(default_factory=dict)  # an audit's: models by the digests of statements
    place: str = "program"
    obligations: list[Obligation] = field(default_factory=list)
    axioms: dict[str, None] = field(default_factory=dict)
    fresh_count: int = 0
    depth: int = 0
    lasting: bool = False
    kinds: dict[Any, Kind] = field(default_factory=dict)
    finding: set[Term] = field(default_factory=set)  # folds whose kind is being found out
    laws: dict[Any, Any] = field(default_factory=dict)  # monoid -> its laws; remembered only once proved
    closed: dict[Any, bool] = field(default_factory=dict)  # (monoid, kind) -> whether its combine keeps that kind
    attempts: list[tuple[int, Refused]] = field(default_factory=list)  # what search tried in vain, for diagnosis only
    seen: dict[Any, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.never: dict[str, Kind] = {t.name: FINITE for t in self.program.inputs}  # what a tensor's elements never are
        self.names = {*self.never, *(d.tensor.name for d in self.program.defs)}  # all that ever were: what is known stays
        self.base = size_facts(self.program.sizes)
        self.asker = Asker()
        self.models = Models(self.recorded, self.asker)
        if sets.implies(self.base, Const(False)):
            raise Refused("sizes/satisfiable", self.place, "disproved", "no sizes satisfy the declared ranges")

    def branch(self) -> Ledger:
        """A ledger that goes on from here, with an asker of its own, and leaves this one as it is."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict, set)):
                setattr(other, name, copy(value))
        other.asker = Asker()
        other.models = Models(self.recorded, other.asker)
        return other

    def fresh(self, stem: str) -> str:
        self.fresh_count += 1
        return f"{stem.split('!')[0]}!{self.fresh_count}"  # '!' cannot occur in a user's name

    def refuse(
        self, name: str, why: str, verdict: Verdict = "unproved", values: tuple[tuple[str, str], ...] = ()
    ) -> Refused:  # fmt: skip
        return Refused(name, self.place, verdict, why, values)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Obligations discharged inside are forgotten when the attempt is refused."""
        mark, axioms = len(self.obligations), dict(self.axioms)
        try:
            yield
        except Refused:
            lasting = [o for o in self.obligations[mark:] if o.lasting]
            self.obligations[mark:] = lasting
            if not lasting:
                self.axioms = axioms
            for key in [key for key, position in self.seen.items() if position >= mark]:
                del self.seen[key]
            raise

    @contextmanager
    def lemma(self) -> Iterator[None]:
        """What is discharged inside is remembered and used again, so it stays on record."""
        before, self.lasting = self.lasting, True
        try:
            yield
        finally:
            self.lasting = before

    def record(self, name: str, prover: str, statement: str) -> None:
        self.obligations.append(Obligation(name, self.place, prover, statement, self.lasting))

    # -- integers ---------------------------------------------------------------------------------------------------

    def holds(self, name: str, facts: Sequence[Term], goal: Term) -> None:
        """Discharge: all integers that satisfy the facts satisfy the goal."""
        goal = canonical(goal)
        if goal == Const(True):
            return
        key = ("holds", name.split("/")[-1], tuple(facts), goal)
        if key in self.seen:
            return
        facts = relevant(facts, free_vars(goal)) if free_vars(goal) else list(facts)
        try:
            proved = sets.implies(facts, goal)
        except sets.NotAffine as problem:
            raise self.refuse(name, str(problem)) from None
        if not proved:
            point = ", ".join(f"{k}={v}" for k, v in sorted(self._point(facts, goal).items()))
            raise self.refuse(name, f"false at {point}: not {show(goal)}", "disproved")
        self.record(name, "isl", self._integer_statement(facts, goal))
        self.seen[key] = len(self.obligations) - 1

    @staticmethod
    def _point(facts: Sequence[Term], goal: Term) -> dict[str, int]:
        try:
            return sets.witness(facts, goal)
        except sets.NotAffine:
            return {}

    def covers(self, name: str, facts: Sequence[Term], parts: Sequence[tuple[tuple[str, ...], Sequence[Term]]]) -> None:
        """Discharge: all integers that satisfy the facts give some part a solution in its own variables."""
        key = ("covers", name.split("/")[-1], tuple(facts), tuple((names, tuple(conditions)) for names, conditions in parts))
        if key in self.seen:
            return
        try:
            proved = sets.covers(facts, parts)
        except sets.NotAffine as problem:
            raise self.refuse(name, str(problem)) from None
        if not proved:
            raise self.refuse(name, "some element is in no part", "disproved")
        encoder = Encoder()
        branches = [branch for names, conditions in parts for branch in self._branches(encoder, names, conditions)]
        given = [encoder.boolean(fact) for fact in facts]
        self.record(name, "isl", statement(encoder.symbols, [*given, z3.Not(z3.Or(*branches))]))
        self.seen[key] = len(self.obligations) - 1

    @staticmethod
    def _branches(encoder: Encoder, names: tuple[str, ...], conditions: Sequence[Term]) -> list[Any]:
        """That the part has a solution: by what isl says it is, without quantifiers; else by the mere claim."""
        found = solutions(names, conditions)
        if found:
            put = [[canonical(substitute(c, piece)) for c in conditions] for piece in found]
            return [z3.And(True, *(encoder.boolean(c) for c in here if c != TRUE)) for here in put]
        return [z3.Exists([z3.Int(f"i.{n}") for n in names], z3.And(*(encoder.boolean(c) for c in conditions)))]

    def _integer_statement(self, facts: Sequence[Term], goal: Term) -> str:
        encoder = Encoder()
        given = [encoder.boolean(fact) for fact in sets.usable(facts)]
        return statement(encoder.symbols, [*given, z3.Not(encoder.boolean(goal))])

    # -- reals ------------------------------------------------------------------------------------------------------

    def valid(
        self, name: str, encoder: Encoder, facts: Sequence[Any], claim: Any, show_as: str = "", sides: Sequence[Term] = ()
    ) -> None:  # fmt: skip
        """Discharge: the encoded facts imply the encoded claim, with the axioms for the functions that occur.

        A claim that two terms are equal names them as its `sides`, for the counterexample.
        """
        goal = negate(claim)
        if goal is False:
            self.record(name, "structure", show_as)
            return
        assertions = [*assumed(encoder, facts), goal]
        text = statement(encoder.symbols, assertions)
        answer, problem = self.asker.ask(text, Z3_BUDGET)
        if answer == z3.sat and self.finding:  # nobody is shown why a fold has not some property
            raise self.refuse(name, show_as, "disproved")
        if answer == z3.sat:
            model = self._model(assertions)
            raise self.refuse(name, counterexample(model, show_as), "disproved", values(model, encoder, sides))
        if answer != z3.unsat:
            raise self.refuse(name, f"Z3 answers unknown ({problem.reason_unknown()}): {show_as}")
        self.axioms.update(encoder.axioms_used)
        self.record(name, "z3", text)

    def _model(self, assertions: Sequence[Any]) -> Any:
        """A counterexample to show, in the encoder's own terms."""
        answer, problem = self.asker.ask(assertions, Z3_BUDGET)
        return problem.model().translate(z3.main_ctx()) if answer == z3.sat else z3.Model()

    def reachable(self, name: str, encoder: Encoder, facts: Sequence[Any]) -> None:
        """State that the encoded facts have a model; `ground` finds it, or refuses."""
        assertions = assumed(encoder, facts)
        self.record(name, "model", statement(encoder.symbols, [*assertions, True]))

    def ground(self) -> None:
        """Give the hypotheses of each obligation a model, or show that they contradict each other."""
        shown: set[str] = set()
        for number, o in enumerate(tuple(self.obligations)):
            if o.prover == "structure":
                continue
            try:
                model = self.models.of(o.statement)
            except (NoModel, Unknown) as why:
                verdict: Verdict = "disproved" if isinstance(why, NoModel) and self.recorded else "unproved"
                raise Refused(f"{o.name}/hypotheses", o.place, verdict, f"no model of them: {why}") from None
            if model:
                self.obligations[number] = replace(o, model=model)
                continue
            if o.prover == "model":
                raise Refused(o.name, o.place, "disproved", "what is assumed here never holds")
            self.obligations[number] = replace(o, vacuous=True)
            text = hypotheses(o.statement).text + "(assert true)\n(check-sat)\n"
            if text not in shown:
                shown.add(text)
                if self.asker.ask(text, Z3_BUDGET)[0] != z3.unsat:
                    raise Refused(f"{o.name}/contradictory", o.place, "unproved", "they have no model that is found")
                self.obligations.append(Obligation(f"{o.name}/contradictory", o.place, "z3", text))

    def confirm(self) -> None:
        """With solver cvc5 or both: cvc5 refutes every statement that is kept, integer ones too, from its text.

        isl and Z3 have found the proof; with "cvc5" their yes counts for nothing more.
        """
        if self.solver == "z3":
            return
        from tang_verified.proofs.second import refuted

        answers: dict[str, str] = {}
        for number, o in enumerate(self.obligations):
            if o.prover in ("structure", "model"):
                continue
            if o.statement not in answers:
                answers[o.statement] = refuted(o.statement, CVC5_BUDGET)
            answer = answers[o.statement]
            if answer != "unsat":
                raise Refused(o.name, o.place, "disproved" if answer == "sat" else "unproved", f"cvc5 answers {answer}")
            self.obligations[number] = replace(o, prover="cvc5" if self.solver == "cvc5" else f"{o.prover}+cvc5")


def assumed(encoder: Encoder, facts: Sequence[Any]) -> list[Any]:
    """All that a statement about what is encoded may use."""
    return [*(fact for fact in facts if fact is not True), *encoder.axioms(), *encoder.shape]


def relevant(facts: Sequence[Term], names: frozenset[str]) -> list[Term]:
    """Facts connected to the names (fewer hypotheses: weaker, hence sound)."""
    live, out = set(names), dict.fromkeys(facts)
    grown = True
    chosen: dict[Term, None] = {}
    while grown:
        grown = False
        for fact in out:
            used = free_vars(fact)
            if fact not in chosen and (not used or used & live):
                chosen[fact] = None
                live |= used
                grown = True
    return list(chosen)


def conjunction(encoder: Encoder, facts: Sequence[Term]) -> list[Any]:
    return [all_of(encoder.encode(fact)) for fact in facts]


def show(term: Term) -> str:
    from tang_verified.semantics.show import show as spell

    return spell(term)
