"""Equality of two terms under facts, by four lemmas (docs/architecture.md), for all sizes.

    same        a and b are one term, bound axes renamed
    pointwise   equal for all values of their reads and folds (Z3)
    reindex     ⊕_{x∈X} f(x) = ⊕_{y∈Y} g(y): a map φ, one-to-one where it lands in Y and onto Y; f is the identity
                wherever φ lands outside Y (identity padding); f(x) = g(φ(x)) elsewhere
    extend      H(⊕_D f, ⊕_D f', …) ⊕ r = ⊕_E g: H is a homomorphism, D ⊆ E, H(f(x), …) = g(x) on D, r = ⊕_{E \\ D} g
                (with H the identity: splitting a fold; with no r: distributing; with both: re-basing a running fold)

Which lemma is tried, and which φ, is only search: whatever it proposes, the obligations decide. With `slopes` the two must
have equal derivatives too (slopes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tang_verified.proofs.ledger import Ledger, Refused, conjunction, relevant, show
from tang_verified.proofs.monoids import CANDIDATES, MonoidFacts, never, spelled
from tang_verified.proofs.propose import propose_map
from tang_verified.proofs.slopes import is_open, keeps_slope
from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.meaning import Encoder, Kind, any_of, less, negate, same
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    MIN,
    TRUE,
    Axis,
    Const,
    Fold,
    Op,
    Sym,
    Term,
    Var,
    alpha,
    children,
    free_vars,
    rebuild,
    rename_apart,
    sort_of,
    substitute,
)  # fmt: skip


def domain_facts(axes: Sequence[Axis], guard: Term = TRUE) -> tuple[Term, ...]:
    """0 <= x < extent for each axis, and the guard."""
    out: list[Term] = []
    for axis in axes:
        out += [Op("le", (Const(0), Var(axis.name))), Op("lt", (Var(axis.name), axis.extent))]
    return (*out, guard) if guard != TRUE else tuple(out)


@dataclass(frozen=True)
class Scope:
    """What holds here, and the index tuples at which bounds of max and min folds are worth an instance."""

    facts: tuple[Term, ...]
    points: tuple[tuple[Term, ...], ...] = ()

    def given(self, *facts: Term) -> Scope:
        return Scope(self.facts + tuple(f for f in facts if f != TRUE), self.points)

    def over(self, axes: Sequence[Axis], guard: Term = TRUE) -> Scope:
        point = tuple(Var(axis.name) for axis in axes)
        return Scope(self.facts + domain_facts(axes, guard), (*self.points, point))

    def without_folds(self) -> Scope:
        """The facts that mention no fold: what is shown of a fold must not wait for what is shown of itself."""
        return Scope(tuple(f for f in self.facts if not outer_folds(f)), self.points)

    def about(self, names: frozenset[str]) -> Scope:
        """The facts connected to these names, and the points over them: fewer hypotheses, met again in more places."""
        facts = tuple(relevant(self.facts, names))
        known = names.union(*map(free_vars, facts))
        return Scope(facts, tuple(p for p in dict.fromkeys(self.points) if all(free_vars(i) <= known for i in p)))

    def names(self) -> frozenset[str]:
        return frozenset().union(*map(free_vars, self.facts), *(free_vars(i) for point in self.points for i in point))

    def at(self, point: tuple[Term, ...]) -> Scope:
        return Scope(self.facts, (*self.points, point))


class Equality:
    """Proves equalities into a ledger; with `slopes`, of derivatives too."""

    def __init__(self, ledger: Ledger, slopes: bool = False) -> None:
        self.ledger, self.slopes = ledger, slopes
        self.monoids = MonoidFacts(ledger, self)

    def equal(self, name: str, a: Term, b: Term, scope: Scope) -> None:
        """Discharge a = b, or raise `Refused`."""
        a, b = canonical(a), canonical(b)
        if alpha(a) == alpha(b):
            self.ledger.record(f"{name}/same", "structure", show(b))
            return
        if sort_of(a) != sort_of(b):
            raise self.ledger.refuse(name, f"sorts differ: {show(a)} and {show(b)}", "disproved")
        if isinstance(a, Fold) and not isinstance(b, Fold):
            a, b = b, a  # equality is symmetric; the lemmas below are written with the fold on the right
        mark = len(self.ledger.attempts)
        if isinstance(b, Fold) and self._by_fold(name, a, b, scope):
            return
        a = self._aligned(name, a, b, scope)
        try:
            self.pointwise(name, self._paired(name, a, b, scope), b, scope)
        except Refused as refusal:
            refusal.tried = refusal.tried or tuple(attempt for _, attempt in self.ledger.attempts[mark:])
            raise

    def _aligned(self, name: str, a: Term, b: Term, scope: Scope, under: bool = False) -> Term:
        """a, with each fold that stands where b has a fold written as b's, where the two are equal under the conditions
        of the selects above (which a and b must share). Where the two are written otherwise below a select, any pair counts."""
        if alpha(a) == alpha(b) or not isinstance(a, (Op, Fold)):
            return a
        if isinstance(a, Fold):
            both = isinstance(b, Fold) and a.monoid == b.monoid
            return b if both and self._by_pair(f"{name}/fold", a, b, scope) else a  # type: ignore[arg-type]
        if not outer_folds(a) or not outer_folds(b):
            return a
        if not isinstance(b, Op) or a.name != b.name or (a.name == "select" and alpha(a.args[0]) != alpha(b.args[0])):
            return self._paired(name, a, b, scope) if under else a
        scopes, under = [scope] * len(a.args), under or a.name == "select"
        if a.name == "select":
            scopes[1:] = [scope.given(a.args[0]), scope.given(canonical(Op("not", (a.args[0],))))]
        return Op(a.name, tuple(self._aligned(name, x, y, s, under) for x, y, s in zip(a.args, b.args, scopes, strict=True)))

    def _by_fold(self, name: str, a: Term, b: Fold, scope: Scope) -> bool:
        if self._empty(name, a, b, scope):
            return True
        if isinstance(a, Fold) and self._attempt(self.reindex, name, a, b, scope):
            return True
        return self._attempt(self.extend, name, a, b, scope)

    def _attempt(self, lemma: object, name: str, a: Term, b: Term, scope: Scope) -> bool:
        if self.ledger.depth > 6:
            return False
        self.ledger.depth += 1
        try:
            with self.ledger.trial():
                lemma(name, a, b, scope)  # type: ignore[operator]
            return True
        except Refused as refusal:
            self.ledger.attempts.append((self.ledger.depth, refusal))
            return False
        finally:
            self.ledger.depth -= 1

    # -- pointwise --------------------------------------------------------------------------------------------------

    def _paired(self, name: str, a: Term, b: Term, scope: Scope) -> Term:
        """a, with folds that are provably some fold of b written as that fold."""
        theirs = {alpha(fold): fold for fold in outer_folds(b)}
        for fold in outer_folds(a):
            if alpha(fold) in theirs:
                continue
            for other in theirs.values():
                if fold.monoid == other.monoid and self._by_pair(f"{name}/fold", fold, other, scope):
                    a = replace(a, fold, other)
                    break
        return a

    def _by_pair(self, name: str, a: Fold, b: Fold, scope: Scope) -> bool:
        return self._attempt(self.reindex, name, a, b, scope) or self._attempt(self.extend, name, a, b, scope)

    def pointwise(self, name: str, a: Term, b: Term, scope: Scope) -> None:
        """The lemma `pointwise`: folds on both sides count as the same only when they are the same term."""
        a, b = canonical(a), canonical(b)
        if alpha(a) == alpha(b):
            self.ledger.record(f"{name}/same", "structure", show(b))
            return
        self._keep_slopes(name, "pointwise", a, b)
        encoder, facts = self.problem(scope, (a, b), sums=True)
        x, y = encoder.encode(a), encoder.encode(b)
        claim = same(x, y) if sort_of(a) == "real" else x == y
        self.ledger.valid(f"{name}/pointwise", encoder, facts, claim, f"{show(a)}  =  {show(b)}", (a, b))

    def _keep_slopes(self, name: str, rule: str, a: Term, b: Term) -> None:
        if self.slopes and not keeps_slope(rule, a, b, ()):
            raise self.ledger.refuse(f"{name}/smooth", "a derivative is still to be written out, and here is a kink or a pole")

    def reachable(self, name: str, scope: Scope) -> None:
        """Discharge: what holds here can hold."""
        key = ("reachable", name, scope.facts, frozenset(self.ledger.never.items()))
        if key in self.ledger.seen:
            return
        self.ledger.reachable(name, *self.problem(scope, ()))
        self.ledger.seen[key] = len(self.ledger.obligations) - 1

    def finite(self, name: str, term: Term, scope: Scope) -> bool:
        """Whether a term can be shown to be neither nan nor infinite."""
        if sort_of(term) != "real":
            return True
        encoder, facts = self.problem(scope, (term,))
        return self.monoids.shows(name, encoder, facts, encoder.encode(term).finite, show(term))

    def kind(self, name: str, term: Term, scope: Scope) -> Kind | None:
        """The most that can be shown of what a term never is; None for nothing, or no real."""
        if sort_of(term) != "real":
            return None
        encoder, facts = self.problem(scope, (term,))
        value = encoder.encode(term)
        for kind in CANDIDATES:
            claim = never(value, kind)
            if claim is not False and self.monoids.shows(f"{name}/{spelled(kind)}", encoder, facts, claim, show(term)):
                return kind
        return None

    def either(self, name: str, a: Fold, b: Fold, scope: Scope) -> None:
        """`reindex` from either side: the map may be easier to state one way."""
        if not self._attempt(self.reindex, name, a, b, scope):
            self.reindex(name, b, a, scope)

    def problem(self, scope: Scope, terms: Sequence[Term], sums: bool = False) -> tuple[Encoder, list[object]]:
        """An encoder, and the scope's facts in it together with bounds of the max and min folds (and `sums`) that occur."""
        if self.slopes:  # what x = 1 implies is no fact of the slope at 1
            scope = Scope(tuple(fact for fact in scope.facts if is_open(fact)), scope.points)
        encoder = Encoder(known=lambda fold: self.monoids.kind(fold, scope), never=self.ledger.never)
        facts: list[object] = conjunction(encoder, scope.facts)
        sources = tuple(terms) if self.ledger.finding else (*terms, *scope.facts)  # while a kind is found out: no further
        folds = list({alpha(f): f for t in sources for f in outer_folds(t)}.values())
        for fold in folds if not self.ledger.finding else ():
            facts += self._bounds(encoder, fold, scope, sums)
        for a in folds:
            facts += [self._below(encoder, a, b) for b in folds if a is not b and self._within(a, b, scope)]
        return encoder, facts

    def _within(self, a: Fold, b: Fold, scope: Scope) -> bool:
        """Both are max (or min) of one body, a over part of b's domain."""
        if a.monoid not in (MAX, MIN) or a.monoid != b.monoid or len(a.axes) != len(b.axes):
            return False
        a, b = self.apart(a), self.apart(b)
        names = {axis.name: Var(own.name) for axis, own in zip(a.axes, b.axes, strict=True)}
        if alpha(substitute(a.body[0], dict(names))) != alpha(b.body[0]):
            return False
        part = [substitute(f, dict(names)) for f in domain_facts(a.axes, a.guard)]
        try:
            with self.ledger.trial(), self.ledger.lemma():
                self.ledger.holds("fold/within", (*scope.facts, *part), conj(*domain_facts(b.axes, b.guard)))
            return True
        except Refused:
            return False

    @staticmethod
    def _below(encoder: Encoder, a: Fold, b: Fold) -> object:
        """max over a part is at most the max over the whole (unless that is nan)."""
        part, whole = encoder.encode(a), encoder.encode(b)
        low, high = (part, whole) if a.monoid == MAX else (whole, part)
        return any_of(whole.nan, less(low, high, strict=False))

    def _bounds(self, encoder: Encoder, fold: Fold, scope: Scope, sums: bool) -> list[object]:
        """max_{x∈D} f(x) >= f(p) for each point p in D (unless it is nan), and likewise for min; and for a sum whose elements
        are shown to be neither nan nor negative, each is at most the sum."""
        adds = sums and fold.monoid == ADD and _of_exponentials(fold) and any(len(p) == len(fold.axes) for p in scope.points)
        if fold.monoid not in (MAX, MIN) and not (adds and self._counts(fold, scope)):
            return []
        out: list[object] = []
        for point in dict.fromkeys(scope.points):
            if len(point) != len(fold.axes):
                continue
            fold_ = rename_apart(fold, free_vars(fold).union(*(free_vars(p) for p in point)))
            here = {axis.name: p for axis, p in zip(fold_.axes, point, strict=True)}
            inside = [encoder.encode(canonical(substitute(f, here))) for f in domain_facts(fold_.axes, fold_.guard)]
            value, whole = encoder.encode(canonical(substitute(fold_.body[0], here))), encoder.encode(fold)
            low, high = (whole, value) if fold.monoid == MIN else (value, whole)
            out.append(any_of(*(negate(fact) for fact in inside), whole.nan, less(low, high, strict=False)))
        return out

    def _counts(self, fold: Fold, scope: Scope) -> bool:
        """Whether a sum is known never to be nan or negative: it is, because each of its elements is (`MonoidFacts.kind`)."""
        kind = self.monoids.kind(fold, scope)
        return kind[0] and kind[3]

    # -- folds ------------------------------------------------------------------------------------------------------

    def _empty(self, name: str, a: Term, b: Fold, scope: Scope) -> bool:
        """A fold over nothing is the identity."""
        if a != b.monoid.identity[b.component]:
            return False
        try:
            with self.ledger.trial():
                fold = self.apart(b)
                self.ledger.holds(f"{name}/empty", scope.facts, Op("not", (conj(*domain_facts(fold.axes, fold.guard)),)))
            return True
        except Refused:
            return False

    def reindex(
        self, name: str, a: Fold, b: Fold, scope: Scope, propose: Callable[[Fold, Fold], tuple[Term, ...] | None] | None = None
    ) -> None:  # fmt: skip
        """The lemma `reindex` with identity padding; see the module's docstring. `propose` is asked for the map first."""
        ledger = self.ledger
        if a.monoid != b.monoid or a.component != b.component:
            raise ledger.refuse(f"{name}/monoid", f"{a.monoid.name} and {b.monoid.name}", "disproved")
        laws = self.monoids.laws(a.monoid)
        a, b = self.apart(self.flat(a)), self.apart(self.flat(b))
        if not laws.commutative and alpha(Fold(a.monoid, a.axes, TRUE, a.body, 0)) != alpha(
            Fold(b.monoid, b.axes, TRUE, b.body, 0)
        ):
            raise ledger.refuse(f"{name}/order", f"{a.monoid.name} is not commutative and the order may change")
        phi = (propose(a, b) if propose else None) or propose_map(a, b)
        if phi is None:
            raise ledger.refuse(f"{name}/map", f"no map from {show(a)} onto {show(b)} found")
        if not laws.commutative and phi != tuple(Var(axis.name) for axis in a.axes):
            raise ledger.refuse(f"{name}/order", f"{a.monoid.name} is not commutative and the map changes the order")
        to_b = dict(zip((axis.name for axis in b.axes), phi, strict=True))
        domain = domain_facts(a.axes, a.guard)
        lands = tuple(canonical(substitute(f, to_b)) for f in domain_facts(b.axes, b.guard))
        self._one_to_one(name, a, lands, phi, scope)
        y = tuple(Var(axis.name) for axis in b.axes)
        hits = tuple(Op("eq", (v, p)) for v, p in zip(y, phi, strict=True))
        ledger.covers(
            f"{name}/onto", self._affine(name, (*scope.facts, *domain_facts(b.axes, b.guard)), b),
            [(tuple(axis.name for axis in a.axes), (*domain, *hits))],
        )  # fmt: skip
        inside = scope.over(a.axes, a.guard).at(phi)
        self._padding(name, a, lands, inside)
        inside = inside.given(*lands)
        for f, g in zip(a.body, b.body, strict=True):
            self.equal(f"{name}/body", f, substitute(g, to_b), inside)

    def _one_to_one(self, name: str, a: Fold, lands: tuple[Term, ...], phi: Sequence[Term], scope: Scope) -> None:
        twin: dict[str, Term] = {axis.name: Var(self.ledger.fresh(axis.name)) for axis in a.axes}
        if all(p == Var(axis.name) for p, axis in zip(phi, a.axes, strict=False)) and len(phi) >= len(a.axes):
            return  # x itself is among the components
        domain = (*domain_facts(a.axes, a.guard), *lands)
        other = tuple(substitute(f, twin) for f in domain)
        meet = tuple(Op("eq", (p, canonical(substitute(p, twin)))) for p in phi)
        goal = conj(*(Op("eq", (Var(axis.name), twin[axis.name])) for axis in a.axes))
        self.ledger.holds(f"{name}/one-to-one", (*scope.facts, *domain, *other, *meet), goal)

    def _padding(self, name: str, a: Fold, lands: tuple[Term, ...], inside: Scope) -> None:
        """Where φ lands outside b's domain, a's body is the identity."""
        outside = Op("not", (conj(*lands),))
        try:
            with self.ledger.trial():
                self.ledger.holds(f"{name}/within", inside.facts, conj(*lands))
            return
        except Refused:
            pass
        if self.slopes and a.monoid != ADD:  # a maximum shares its slope among ties: one more may be one more
            raise self.ledger.refuse(f"{name}/smooth", f"elements are left out of a fold by {a.monoid.name}")
        scope = inside.given(outside)
        for body, identity in zip(a.body, a.monoid.identity, strict=True):
            self.equal(f"{name}/identity-padding", body, identity, scope)

    def extend(self, name: str, a: Term, b: Fold, scope: Scope) -> None:
        """The lemma `extend`: a = H(⊕_D f, …) ⊕ r and b = ⊕_E g; see the module's docstring."""
        ledger = self.ledger
        if len(b.monoid.identity) != 1:
            raise ledger.refuse(f"{name}/extend", "the monoid has several fields")
        self._keep_slopes(name, "distribute", a, b)
        laws = self.monoids.laws(b.monoid)
        for kept, rest in splits(a, b):
            if rest is not None and not laws.commutative:
                continue
            for olds in self._alike([f for f in outer_folds(kept) if f.monoid == b.monoid and len(f.axes) == len(b.axes)], b):

                def lemma(name: str, _: Term, __: Term, scope: Scope, olds: list[Fold] = olds, kept: Term = kept,
                          rest: Term | None = rest) -> None:  # fmt: skip
                    self._extension(name, kept, olds, rest, b, scope)

                if self._attempt(lemma, name, kept, b, scope):
                    return
        raise ledger.refuse(f"{name}/extend", f"{show(a)} is no extension of a part of {show(b)}")

    def _alike(self, folds: list[Fold], b: Fold) -> list[list[Fold]]:
        """Sets of folds over one domain to take as the states of H: those new in a (what b's body has too is rather a
        parameter of H), all of them, all but one, or one."""
        theirs = {alpha(fold) for body in b.body for fold in outer_folds(body)}
        groups: dict[Term, list[Fold]] = {}
        for fold in folds:
            bare = alpha(canonical(Fold(fold.monoid, fold.axes, fold.guard, fold.monoid.identity)))
            groups.setdefault(bare, []).append(fold)
        out: dict[tuple[Fold, ...], None] = {}
        for group in groups.values():
            out[tuple(fold for fold in group if alpha(fold) not in theirs)] = None
        for group in groups.values():
            out[tuple(group)] = None
            out.update({tuple(f for f in group if f is not left_out): None for left_out in group if len(group) > 1})
            out.update({(fold,): None for fold in group})
        return [list(chosen) for chosen in out if chosen]

    def _extension(self, name: str, kept: Term, olds: list[Fold], rest: Term | None, b: Fold, scope: Scope) -> None:
        ledger, whole = self.ledger, self.apart(b)
        moved = [self._onto_axes(old, whole) for old in olds]
        part = domain_facts(moved[0].axes, moved[0].guard)
        all_ = domain_facts(whole.axes, whole.guard)
        ledger.holds(f"{name}/part", (*scope.facts, *part), conj(*all_))
        inside = Scope((*scope.facts, *part, *all_), (*scope.points, tuple(Var(axis.name) for axis in whole.axes)))
        bodies = [m.body[0] for m in moved]
        transform = self.monoids.homomorphism(f"{name}/homomorphism", kept, olds, part, whole, bodies, inside, scope)
        self.equal(f"{name}/element", transform(bodies), whole.body[0], inside)
        if rest is None:
            ledger.holds(f"{name}/whole", (*scope.facts, *all_), conj(*part))
            return
        beyond = conj(whole.guard, Op("not", (conj(*part),)))
        self.equal(f"{name}/rest", rest, Fold(whole.monoid, whole.axes, beyond, whole.body), scope)

    def _onto_axes(self, fold: Fold, whole: Fold) -> Fold:
        """The fold with its axes named as those of `whole`, one by one."""
        moved = self.apart(fold)
        names: dict[str, Term] = {m.name: Var(w.name) for m, w in zip(moved.axes, whole.axes, strict=True)}
        axes = tuple(Axis(w.name, canonical(substitute(m.extent, names))) for m, w in zip(moved.axes, whole.axes, strict=True))
        body = tuple(canonical(substitute(f, names)) for f in moved.body)
        return Fold(moved.monoid, axes, canonical(substitute(moved.guard, names)), body, moved.component)

    def apart(self, fold: Fold, taken: frozenset[str] | None = None) -> Fold:
        """The fold with axes that occur nowhere else; or, so that equal questions get equal names, not among those taken."""
        fresh: dict[str, Term] = {}
        axes: list[Axis] = []
        for axis in fold.axes:  # an extent sees the axes to its left alone: a later axis of a name in it is another variable
            extent = substitute(axis.extent, fresh)
            name = self.ledger.fresh(axis.name) if taken is None else own_name(axis.name, taken)
            taken = None if taken is None else taken | {name}
            axes.append(Axis(name, extent))
            fresh = {**fresh, axis.name: Var(name)}
        body = tuple(substitute(b, fresh) for b in fold.body)
        return Fold(fold.monoid, tuple(axes), substitute(fold.guard, fresh), body, fold.component)

    def flat(self, fold: Fold) -> Fold:
        """⊕_x ⊕_y f = ⊕_{x,y} f, and ⊕_x (c ? f : id) = ⊕_{x : c} f, as far as they apply (one-field monoids)."""
        identity = fold.monoid.identity
        while True:
            fold = Fold(fold.monoid, fold.axes, fold.guard, tuple(canonical(b) for b in fold.body), fold.component)
            body = fold.body[0]
            if len(fold.body) != 1:
                return fold
            if isinstance(body, Fold) and body.monoid == fold.monoid and self.monoids.laws(fold.monoid).commutative:
                body = rename_apart(body, frozenset(axis.name for axis in fold.axes) | free_vars(fold))
                fold = Fold(fold.monoid, fold.axes + body.axes, conj(fold.guard, body.guard), body.body)
            elif isinstance(body, Op) and body.name == "select" and body.args[2] == identity[0] and is_affine(body.args[0]):
                fold = Fold(fold.monoid, fold.axes, conj(fold.guard, body.args[0]), (body.args[1],))
            else:
                return fold

    @staticmethod
    def _affine(name: str, facts: Sequence[Term], b: Fold) -> list[Term]:
        """Facts that isl can use; the fold's own domain is affine by construction, and must all be there."""
        own = set(domain_facts(b.axes, b.guard))
        return [fact for fact in facts if fact in own or is_affine(fact)]


def _of_exponentials(fold: Fold) -> bool:
    """Whether a sum's elements are exponentials, or 0: of these it is worth knowing that each is at most the sum."""
    body = fold.body[0]
    while isinstance(body, Op) and body.name == "select":
        body = body.args[1]
    return isinstance(body, Op) and body.name == "exp"


def splits(a: Term, b: Fold) -> list[tuple[Term, Term | None]]:
    """Ways to read a as kept ⊕ rest, or as kept alone."""
    out: list[tuple[Term, Term | None]] = []
    states = tuple(Sym(f"{side}0", sort_of(b)) for side in "ab")
    if isinstance(a, Op) and len(a.args) == 2 and b.monoid.combine == (Op(a.name, states),):  # ⊕ itself, no mere head of it
        out += [(a.args[0], a.args[1]), (a.args[1], a.args[0])]
    return [*out, (a, None)]


def own_name(stem: str, taken: frozenset[str]) -> str:
    """j!k0, j!k1, …: the first that is not taken. Neither a program's name nor one of the ledger's (j!7)."""
    base, number = stem.split("!")[0], 0
    while f"{base}!k{number}" in taken:
        number += 1
    return f"{base}!k{number}"


def outer_folds(term: Term) -> list[Fold]:
    """Folds that lie in no other fold, each once, in order."""
    out: dict[Fold, None] = {}

    def walk(node: Term) -> None:
        if isinstance(node, Fold):
            out[node] = None
            return
        for part in children(node):
            walk(part)

    walk(term)
    return list(out)


def replace(term: Term, old: Term, new: Term) -> Term:
    """Every occurrence of `old` outside folds (or as a whole fold) becomes `new`."""
    if term == old:
        return new
    if isinstance(term, Fold):
        return term
    parts = children(term)
    fresh = tuple(replace(part, old, new) for part in parts)
    return term if fresh == parts else rebuild(term, fresh)
