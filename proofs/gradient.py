"""The rules of differentiation: what a derivative in a program (`Gradient`, `Tangent`) is replaced by.

    gradient   ∂(Σ⟨w, y⟩)/∂t  ->  the w of t, if t is some y  +  Σ over the definitions d that read t, site by site,
                                  of the site's share of ∂(Σ⟨w, y⟩)/∂d, which must be a definition, transposed
    tangent    ∂y along x + ε·dx  ->  the slope of y's value, over the tangents of what it reads

For each d the sites' weights (reverse accumulation) are shown to give the slope by dual numbers (forward accumulation), by
Z3 and for all finite values; each transposed sum is shown equal to what the step says, by the lemma `reindex`.

Where a derivative of this one is pending in turn, equal values are not enough: what is proved equal must have equal slopes.

Invariance: a d that the outputs do not depend on may be left out. The step names, as its witness, definitions g through
which every path from d to an output goes; each, with what lies between written in, must have the same value for d and for
any other finite d'. Innermost folds F(d') are first written as T = h·F(d), also given, and shown equal. In a tangent, d
stays as it is where y itself is the one g: the slope is then that of y's value with what lies between written in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from tang_verified.proofs.equality import Equality, Scope
from tang_verified.proofs.ledger import Refused, show
from tang_verified.semantics.build import canonical
from tang_verified.semantics.derivative import (
    axioms,
    contribution,
    lifted,
    scalar_slope,
    scalar_weights,
    sites,
    slope,
    times,
)  # fmt: skip
from tang_verified.semantics.meaning import FINITE, same
from tang_verified.semantics.program import SORTS, Def, Program, check_read
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    MIN,
    REAL_ZERO,
    TRUE,
    Axis,
    Const,
    Fold,
    Gradient,
    Op,
    Read,
    Sym,
    Tangent,
    Term,
    Var,
    alpha,
    children,
    free_vars,
    fresh_name,
    mentions,
    reads,
    rebuild,
    replace_reads,
    substitute,
)  # fmt: skip
from tang_verified.semantics.wellformed import check_term

ENTIRE = frozenset("exp expm1 sin cos tanh sinh cosh atan erf".split())  # finite everywhere
# definition left out -> (definition g, the folds of g that change, rewritten) for each g
Invariants = Mapping[str, tuple[tuple[str, tuple[Term, ...]], ...]]


def held(program: Program) -> frozenset[str]:
    """The tensors that a pending derivative varies: nothing may look through them to their definitions."""
    out: set[str] = set()
    for d in program.defs:
        match d.value:
            case Gradient(_, source):
                out.add(source)
            case Tangent(_, along):
                out |= {x for x, _ in along}
    return frozenset(out)


# -- the program around ---------------------------------------------------------------------------------------------


def live(program: Program, names: frozenset[str]) -> frozenset[str]:
    """What the named tensors are computed from, themselves included."""
    found = set(names)
    for d in reversed(program.defs):
        if d.tensor.name in found:
            found |= mentions(d.value)
    return frozenset(found)


def watched(program: Program, name: str) -> bool:
    """Whether a pending derivative, other than this definition itself, is that of something computed from it."""
    for d in program.defs:
        match d.value:
            case Gradient(outputs, _):
                ends = frozenset(y for y, _ in outputs)
            case Tangent(tensor, _):
                ends = frozenset((tensor,))
            case _:
                continue
        if d.tensor.name != name and name in live(program, ends):
            return True
    return False


def consumers(program: Program, wanted: Gradient) -> tuple[Def, ...]:
    """The definitions that read the source, and on which the outputs depend."""
    alive = live(program, frozenset(y for y, _ in wanted.outputs))
    return tuple(d for d in program.defs if wanted.source in mentions(d.value) and d.tensor.name in alive)


def apart(d: Def, taken: frozenset[str]) -> Def:
    """The definition with axes that are not in `taken`."""
    names: dict[str, Term] = {}
    for axis in d.axes:
        taken |= set(d.axes) | free_vars(d.value)
        if axis in taken:
            names[axis] = Var(fresh_name(axis, taken))
            taken |= {names[axis].name}  # type: ignore[union-attr]
    axes = tuple(names[a].name if a in names else a for a in d.axes)  # type: ignore[union-attr]
    return Def(d.tensor, axes, substitute(d.value, names))


def shares(d: Def, source: str, cotangent: str, at: tuple[str, ...], taken: frozenset[str]) -> list[Fold]:
    """What d gives to the gradient of `source` at the index `at`, site by site. `taken`: names bound there."""
    d = apart(d, taken)
    found = [site for site in sites(d.value, taken | set(d.axes)) if site.read.tensor == source]
    return [contribution(d, cotangent, site, tuple(map(Var, at))) for site in found]


def names_at(program: Program, d: Def) -> frozenset[str]:
    """Names that are bound in d's value: sizes and d's axes."""
    return frozenset(size.name for size in program.sizes) | frozenset(d.axes)


# -- gradient -------------------------------------------------------------------------------------------------------


def gradient(
    equality: Equality, program: Program, d: Def, after: Term, scope: Scope, invariants: Invariants
) -> None:  # fmt: skip
    """Discharge: `after` is the gradient that d's value asks for."""
    ledger, wanted = equality.ledger, d.value
    if not isinstance(wanted, Gradient):
        raise ledger.refuse("gradient/before", f"{show(wanted)} is no gradient", "disproved")
    owed: list[Term] = [Read(w, tuple(map(Var, d.axes)), "real") for y, w in wanted.outputs if y == wanted.source]
    outputs = frozenset(y for y, _ in wanted.outputs)
    for user in consumers(program, wanted):
        name = user.tensor.name
        if SORTS[user.tensor.dtype] != "real":
            continue  # a comparison, an index: constant but for jumps, of which a derivative does not speak
        if isinstance(user.value, (Gradient, Tangent)):
            raise ledger.refuse("gradient/order", f"{name} is itself a derivative that has not been written out yet")
        if name in invariants:
            Invariance(Equality(ledger), program, user, outputs).show(dict(invariants[name]))
            continue
        cotangent = Gradient(wanted.outputs, name)
        found = next((x.tensor.name for x in program.defs if x.value == cotangent), None)
        if found is None:
            raise ledger.refuse("gradient/chain", f"no definition is {show(cotangent)}, though {name} reads {wanted.source}")
        dual(equality, user.value)
        owed += shares(user, wanted.source, found, d.axes, names_at(program, d))
    offered = summands(after, len(owed))
    if offered is None:
        raise ledger.refuse("gradient/sum", f"{show(after)} is no sum of the {len(owed)} parts that are due", "disproved")
    for number, (due, part) in enumerate(zip(owed, offered, strict=True)):
        same_share(equality, f"gradient/part-{number}", due, part, scope)


def summands(term: Term, count: int) -> list[Term] | None:
    """((a + b) + c) as [a, b, c]; nothing is 0."""
    if count == 0:
        return [] if term == REAL_ZERO else None
    out: list[Term] = []
    while len(out) < count - 1:
        if not (isinstance(term, Op) and term.name == "add"):
            return None
        term, last = term.args
        out.append(last)
    return [term, *reversed(out)]


def same_share(equality: Equality, name: str, due: Term, part: Term, scope: Scope) -> None:
    """The transposition: both are sums over the same elements. Axes that keep their names are matched by them."""
    if not isinstance(due, Fold):
        equality.equal(name, due, part, scope)
        return
    other = part if isinstance(part, Fold) and part.monoid == ADD else Fold(ADD, (), TRUE, (part,))
    if not due.axes and not other.axes:
        here, there = (within_range(equality, name, f.body[0], scope) for f in (due, other))
        equality.equal(name, here, there, scope)
        return
    own = [axis.name for axis in due.axes]
    places = [own.index(axis.name) for axis in other.axes if axis.name in own]

    def by_name(a: Fold, b: Fold) -> tuple[Term, ...] | None:
        """Folds that were flattened on the way have more axes: their maps are searched for."""
        if len(places) != len(b.axes) or len(a.axes) < len(own):
            return None
        return tuple(Var(a.axes[place].name) for place in places)

    equality.reindex(name, due, other, scope, by_name)


def within_range(equality: Equality, name: str, term: Term, scope: Scope) -> Term:
    """(c ? x : 0) -> x, for what holds here of indices: where slopes count, the rest is to be the same term."""
    match term:
        case Op("select", (c, x, z)) if equality.slopes and z == REAL_ZERO and is_affine(c):
            try:
                with equality.ledger.trial():
                    equality.ledger.holds(f"{name}/range", scope.facts, c)
            except Refused:
                return term
            return within_range(equality, name, x, scope)
        case _:
            return term


# -- dual numbers ---------------------------------------------------------------------------------------------------


def dual(equality: Equality, value: Term) -> None:
    """Discharge, for each scalar body in a term: reverse accumulation gives the slope that dual numbers give."""
    equality.ledger.axioms.update(dict.fromkeys(sorted(axioms(value))))
    seen: set[Term] = set()

    def layer(term: Term) -> None:
        if alpha(term) in seen:
            return
        seen.add(alpha(term))
        slopes: dict[Term, Sym] = {}

        def of(atom: Term) -> Term:
            return slopes.setdefault(atom, Sym(f"d{len(slopes)}", "real"))

        forward = scalar_slope(term, of)
        backward: Term = REAL_ZERO
        weights: list[Term] = []
        for part in scalar_weights(term):
            weight, share = part.weight, times(part.weight, of(part.atom))
            for condition in reversed(part.conditions):
                share = Op("select", (condition, share, REAL_ZERO))
                weight = Op("select", (condition, weight, REAL_ZERO))
            weights.append(weight)
            backward = share if backward == REAL_ZERO else Op("add", (backward, share))
        _agree(equality, forward, backward, (*slopes, *slopes.values()), (term, *weights))
        for atom in tuple(slopes):
            if isinstance(atom, Fold):
                if atom.monoid not in (ADD, MAX, MIN):
                    layer(atom.monoid.combine[atom.component])
                for field in lifted(atom, frozenset()).fold.body:
                    layer(field)

    layer(value)


def _agree(equality: Equality, forward: Term, backward: Term, atoms: tuple[Term, ...], values: tuple[Term, ...]) -> None:
    """Where the atoms (what is read, and its slopes) are finite, and so are the value and its partials, in branches taken."""
    ledger = equality.ledger
    if alpha(canonical(forward)) == alpha(canonical(backward)):
        ledger.record("gradient/dual", "structure", show(forward))
        return
    marks: dict[Term, Sym] = {}
    forward, backward, *values_ = (_marked(term, frozenset(atoms), marks) for term in (forward, backward, *values))
    encoder, facts = equality.problem(Scope(ledger.base), (forward, backward, *values_))
    facts += [encoder.encode(term).finite for term in (*atoms, *marks.values(), *values_)]
    claim = same(encoder.encode(forward), encoder.encode(backward))
    text = f"{show(forward)}  =  {show(backward)}"
    ledger.valid("gradient/dual", encoder, facts, claim, text, (forward, backward))


def _marked(term: Term, finite: frozenset[Term], marks: dict[Term, Sym]) -> Term:
    """The term with any finite number in place of each exp, tanh, …: what holds for all of them holds for these."""
    if term in finite or not isinstance(term, Op):
        return term
    if term.name in ENTIRE and _bounded(term, finite):
        return marks.setdefault(term, Sym(f"f{len(marks)}", "real"))
    return Op(term.name, tuple(_marked(part, finite, marks) for part in term.args))


def _bounded(term: Term, finite: frozenset[Term]) -> bool:
    """Whether a term is finite because those are."""
    match term:
        case Const(value):
            return isinstance(value, Fraction)
        case Op(name, args):
            return name in ("add", "sub", "mul", "neg", *ENTIRE) and all(_bounded(arg, finite) for arg in args)
        case _:
            return term in finite


# -- tangent --------------------------------------------------------------------------------------------------------


def tangent(
    equality: Equality, program: Program, d: Def, after: Term, scope: Scope, invariants: Invariants
) -> None:  # fmt: skip
    """Discharge: `after` is the tangent that d's value asks for."""
    ledger, wanted = equality.ledger, d.value
    if not isinstance(wanted, Tangent):
        raise ledger.refuse("tangent/before", f"{show(wanted)} is no tangent", "disproved")
    moving = dict(wanted.along)
    if wanted.tensor in moving:
        due: Term = Read(moving[wanted.tensor], tuple(map(Var, d.axes)), "real")
    elif wanted.tensor in {x.name for x in program.inputs}:
        due = REAL_ZERO
    else:
        user = program.definition(wanted.tensor)
        if isinstance(user.value, (Gradient, Tangent)):
            raise ledger.refuse("tangent/order", f"{wanted.tensor} is itself a derivative that has not been written out yet")
        between: frozenset[str] = frozenset()
        for name, ends in invariants.items():
            if [g for g, _ in ends] != [wanted.tensor]:
                raise ledger.refuse("tangent/ends", f"{name} ends elsewhere than in {wanted.tensor}", "disproved")
            shown = Invariance(Equality(ledger), program, program.definition(name), frozenset((wanted.tensor,)))
            shown.show(dict(ends))
            between |= shown.between(frozenset((wanted.tensor,)))
        user = Def(user.tensor, user.axes, written(program, user.value, between))
        known = {name: _tangent_of(program, wanted, name) for name in mentions(user.value) - set(invariants)}
        for name, tensor in known.items():
            real = SORTS[program.tensor(name).dtype] == "real"
            if real and tensor is None and name in moved(program, frozenset(moving)):
                raise ledger.refuse("tangent/chain", f"no definition is {show(Tangent(name, wanted.along))}")

        def of(read: Read) -> Term:
            tensor = known.get(read.tensor)
            return REAL_ZERO if tensor is None else Read(tensor, read.index, "real")

        user = apart(user, names_at(program, d))
        ledger.axioms.update(dict.fromkeys(sorted(axioms(user.value))))
        value = slope(user.value, of, names_at(program, d) | set(user.axes))
        due = substitute(value, dict(zip(user.axes, map(Var, d.axes), strict=True)))
    equality.equal("tangent", due, after, scope)


def moved(program: Program, names: frozenset[str]) -> frozenset[str]:
    """What changes with the named tensors, but for jumps: a count or a comparison between is constant."""
    found = set(names)
    for d in program.defs:
        if SORTS[d.tensor.dtype] == "real" and mentions(d.value) & found:
            found.add(d.tensor.name)
    return frozenset(found)


def _tangent_of(program: Program, wanted: Tangent, name: str) -> str | None:
    moving = dict(wanted.along)
    if name in moving:
        return moving[name]
    return next((x.tensor.name for x in program.defs if x.value == Tangent(name, wanted.along)), None)


# -- invariance -----------------------------------------------------------------------------------------------------


class Invariance:
    """Shows that outputs are the same whatever a definition's (finite) values are."""

    def __init__(self, equality: Equality, program: Program, d: Def, outputs: frozenset[str]) -> None:
        self.equality, self.ledger, self.program = equality, equality.ledger, program
        self.name, self.other = d.tensor.name, self.ledger.fresh(d.tensor.name)
        self.outputs, self.alive = outputs, live(program, outputs)

    def show(self, witness: dict[str, tuple[Term, ...]]) -> None:
        """Discharge; see the module's docstring."""
        between = self.between(frozenset(witness))
        before, kinds = self.ledger.never, self.ledger.kinds
        self.ledger.never = {**before, self.name: FINITE, self.other: FINITE}
        self.ledger.kinds = {}  # what is found of folds here holds here
        try:
            for g, changed in witness.items():
                self._same(self.program.definition(g), changed, between)
        finally:
            self.ledger.never, self.ledger.kinds = before, kinds

    def between(self, ends: frozenset[str]) -> frozenset[str]:
        """The definitions on the paths from this one to the ends; refused if a path misses them."""
        reached, frontier = {self.name}, [self.name]
        while frontier:
            name = frontier.pop()
            if name in self.outputs:
                raise self.ledger.refuse("invariance/paths", f"{name} is an output, and no end of the paths", "disproved")
            for d in self.program.defs:
                user = d.tensor.name
                if name not in mentions(d.value) or user not in self.alive or user in ends or user in reached:
                    continue
                if isinstance(d.value, (Gradient, Tangent)):
                    raise self.ledger.refuse("invariance/order", f"{user} is itself a derivative")
                reached.add(user)
                frontier.append(user)
        return frozenset(reached - {self.name})

    def _same(self, g: Def, changed: tuple[Term, ...], between: frozenset[str]) -> None:
        here = written(self.program, g.value, between)
        there = _instead(here, self.name, self.other)
        axes = tuple(Axis(n, e) for n, e in zip(g.axes, g.tensor.shape, strict=True))
        scope = Scope(self.ledger.base).over(axes)
        folds = leaves(there, self.other)
        if len(folds) != len(changed):
            raise self.ledger.refuse("invariance/folds", f"{len(changed)} folds given for {len(folds)}", "disproved")
        rewritten = {fold: self._told(term) for fold, term in zip(folds, changed, strict=True)}
        self.equality.equal("invariance/value", here, self._rewrite(there, rewritten, scope), scope)

    def _told(self, term: Term) -> Term:
        """A fold as the witness has it, about this and the other values."""
        check_term(term, self.ledger.place, "real")
        known = {t.name: t for t in (*self.program.inputs, *(x.tensor for x in self.program.defs))}
        for read in reads(term):
            check_read(read, known | {primed(self.name): known[self.name]}, self.ledger.place)
        return _instead(term, primed(self.name), self.other)

    def _rewrite(self, term: Term, rewritten: Mapping[Fold, Term], scope: Scope) -> Term:
        """The term with those folds replaced, each shown equal where it stands."""
        if isinstance(term, Fold) and term in rewritten:
            loose = free_vars(rewritten[term]) - free_vars(term)
            if loose:
                raise self.ledger.refuse("invariance/variables", f"{sorted(loose)} are not bound here", "disproved")
            self.equality.equal("invariance/fold", rewritten[term], term, scope)
            return rewritten[term]
        inside = scope.over(term.axes, term.guard) if isinstance(term, Fold) else scope
        parts = children(term)
        fresh = tuple(self._rewrite(part, rewritten, inside) for part in parts)
        return term if fresh == parts else rebuild(term, fresh)


def written(program: Program, value: Term, between: frozenset[str]) -> Term:
    """The value with every definition between written in."""
    for d in reversed(program.defs):
        if d.tensor.name in between:
            value = replace_reads(value, d.tensor.name, _element(d))
    return value


def leaves(term: Term, name: str) -> list[Fold]:
    """The folds that read a tensor, and hold no fold that does; each once, in order."""
    out: dict[Fold, None] = {}

    def walk(node: Term) -> bool:
        below = [walk(part) for part in children(node)]
        if isinstance(node, Fold) and not any(below) and any(read.tensor == name for read in reads(node)):
            out[node] = None
        return any(below) or node in out

    walk(term)
    return list(out)


def primed(name: str) -> str:
    """How a witness calls the other values of a definition."""
    return f"{name}_other"


def _element(d: Def) -> Callable[[tuple[Term, ...]], Term]:
    return lambda index: substitute(d.value, dict(zip(d.axes, index, strict=False)))


def _instead(term: Term, name: str, other: str) -> Term:
    """The term with reads of another tensor."""
    return replace_reads(term, name, lambda index: Read(other, index, "real"))


__all__ = [
    "Invariance",
    "Invariants",
    "consumers",
    "gradient",
    "held",
    "leaves",
    "live",
    "primed",
    "shares",
    "summands",
    "tangent",
    "watched",
    "written",
]  # fmt: skip
