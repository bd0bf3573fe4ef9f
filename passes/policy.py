"""Which definitions are computed on their own, and which inside the definitions that read them.

By structure and cost alone. A definition P that C reads at index e is written into C, except:

    a long chain C reads P inside a fold over j, e mentions j, and a fold of P that varies with j holds one that does not
                 (attention's sum over its keys holds the scores): all that it holds would be computed for every j
    recomputed   C reads P inside a fold over j, e mentions j, and e leaves out an axis r of C's output:
                 each element of P would be computed once for every r. Then P is kept when it is
                   expensive       it has no fold, but exp, sin, log, … or
                   long            it has folds, and r's extent, or the extent of a fold of P that varies with j,
                                   is fixed and above 128
                 (contraction -> pointwise -> contraction with short or symbolic extents stays one definition)
    statistic    as before, and e leaves out all of C's axes, or two: no tile of C shares what it computes of P (a row's
                 maximum, read in a sum over rows). Then P is kept when it has a fold that varies with j and is not short
    written twice    P is read more than once, and written out it has more than 600 terms: a = a + 1.5·a·x, repeated, would
                 double with each step
    computed twice   P is matmul-like (a sum of products of different reads, over a symbolic extent or more than 128),
                 and two kept definitions would each contain it, or one of them at two different indices; not where one
                 kernel computes all that contain it, in one pass (schedule/together.py)

Outputs are kept. What is kept is never a transpose, slice or reshape, but what that is a view of; and of x[i, k] / l[i] it is
l, which has fewer axes and all the folds. Row statistics (sums,
means, maxima of a row) may be computed more than once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tang_verified.passes.schedule.together import in_one_pass
from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import Def, Program
from tang_verified.semantics.terms import (
    ADD,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    mentions,
    reads,
    replace_reads,
    substitute,
)  # fmt: skip

LIMIT = 128
MANY = 512  # steps of a fold and those in it, above which each is taken once
TERMS = 600  # of a definition that may be written out more than once
# What costs as much as a dozen products.
EXPENSIVE = frozenset("exp expm1 log log1p pow sin cos tan tanh sinh cosh asin acos atan erf".split())


@dataclass(frozen=True, slots=True)
class Use:
    """A read of a definition: its index, and the fold axes around it."""

    index: tuple[Term, ...]
    around: tuple[Axis, ...]


def materialised(program: Program) -> frozenset[str]:
    """The definitions to keep: the outputs, and what the docstring above says."""
    decided = frozenset(program.outputs)
    while True:
        kept = set(decided)  # the rest is judged anew: with more kept, less is recomputed
        forms = _forms(program, kept, decide=True)
        more = next(_twice(program, forms, kept), None) or next(_shifted(program, forms, kept), None)
        added = frozenset() if more is None else _sources(program, forms, kept, more)
        if added <= decided:
            return frozenset(kept)
        decided |= added


def _sources(program: Program, forms: dict[str, Term], kept: set[str], name: str) -> frozenset[str]:
    """What to keep for a definition: what a view is a view of; and where its long folds are all those of other definitions
    these, if that is less: fewer axes, or no more symbolic ones where the definition folds over them."""
    d = program.definition(name)
    defined = {x.tensor.name: x for x in program.defs}
    if isinstance(d.value, Read):  # of an input: there is nothing to keep
        return _sources(program, forms, kept, d.value.tensor) if d.value.tensor in defined else frozenset()
    below = {r.tensor for r in reads(d.value) if r.tensor in defined and r.tensor not in kept and _endless(forms[r.tensor])}
    folds = any(True for _ in _folds(d.value))
    more = any(_symbolic(defined[x]) > _symbolic(d) if folds else len(defined[x].axes) >= len(d.axes) for x in below)
    if not below or _endless(d.value) or more:
        return frozenset((name,))
    return frozenset().union(*(_sources(program, forms, kept, other) for other in below))


def _endless(term: Term) -> bool:
    """Whether a fold in the term takes many steps, those of folds in it counted, or may."""
    return _steps(term) > LIMIT


def _steps(term: Term) -> int:
    """The steps of the longest fold in a term; an extent that is not known counts as long."""
    inner = max((_steps(part) for part in children(term)), default=0)
    if not isinstance(term, Fold):
        return inner
    count = 1
    for axis in term.axes:
        count *= int(axis.extent.value) if isinstance(axis.extent, Const) else MANY + 1
    return count * max(1, inner)


def _symbolic(d: Def) -> int:
    return sum(not isinstance(extent, Const) for extent in d.tensor.shape)


def repeated(program: Program, kept: frozenset[str]) -> dict[str, frozenset[str]]:
    """For each kept definition the kept row statistics that it computes itself all the same: light ones (no fold in a fold),
    and those that its own pass over the row has in hand, so that one kernel can give both."""
    plain = dict(_forms(program, set(kept), decide=False))
    order = [d for d in program.defs if d.tensor.name in kept]
    leader: dict[str, str] = {}
    for d in order:
        for other in _statistics(program, plain, d, kept):
            if len(program.definition(other).axes) < len(d.axes):
                leader.setdefault(other, d.tensor.name)
    out: dict[str, frozenset[str]] = {}
    for d in order:
        name = d.tensor.name
        mine = (leader.get(name, name), name)
        found = _statistics(program, plain, d, kept)
        out[name] = frozenset(x for x in found if _light(plain[x]) or leader.get(x) in mine)
    return out


def statistics(program: Program, name: str, kept: frozenset[str]) -> frozenset[str]:
    """The kept definitions with folds and fewer axes than what they fold that a definition is computed from."""
    defined = {d.tensor.name: d for d in program.defs}
    ranks = {t.name: len(t.shape) for t in (*program.inputs, *(d.tensor for d in program.defs))}
    found: set[str] = set()
    frontier = [name]
    seen: set[str] = set()
    while frontier:
        for read in reads(defined[frontier.pop()].value):
            other = defined.get(read.tensor)
            if other is None or read.tensor in seen:
                continue
            seen.add(read.tensor)
            if read.tensor not in kept:
                frontier.append(read.tensor)
            elif any(True for _ in _folds(other.value)) and len(other.axes) < max(ranks[r.tensor] for r in reads(other.value)):
                found.add(read.tensor)
                frontier.append(read.tensor)
    return frozenset(found)


def _statistics(program: Program, plain: dict[str, Term], d: Def, kept: frozenset[str]) -> frozenset[str]:
    """Kept definitions with folds that d reads, directly or through such, at its own axes alone."""
    found: set[str] = set()
    frontier: list[tuple[str, dict[str, Term]]] = [(d.tensor.name, {axis: Var(axis) for axis in d.axes})]
    while frontier:
        name, at = frontier.pop()
        for read in reads(plain[name]):
            other = next((x for x in program.defs if x.tensor.name == read.tensor and read.tensor in kept), None)
            index = tuple(substitute(i, at) for i in read.index)
            aligned = all(i == Const(0) or (isinstance(i, Var) and i.name in d.axes) for i in index)
            if other is None or not aligned or read.tensor in found or not any(True for _ in _folds(plain[read.tensor])):
                continue
            found.add(read.tensor)
            frontier.append((read.tensor, dict(zip(other.axes, index, strict=True))))
    return frozenset(found)


def _light(term: Term) -> bool:
    """Whether a row's fold reads each element once, as a sum of squares does, and is no product of a row and a matrix."""
    return not any(heavy(fold) or any(True for _ in _held(fold)) for fold in _folds(term))


def _forms(program: Program, kept: set[str], *, decide: bool) -> dict[str, Term]:
    """In order, so that a definition is judged with what is already kept left out of it; `kept` grows if `decide`."""
    forms: dict[str, Term] = {}
    terms: dict[Term, int] = {}
    defs = {d.tensor.name: d for d in program.defs}
    for d in program.defs:
        value, name = d.value, d.tensor.name
        for source in dict.fromkeys(r.tensor for r in reads(d.value)):
            if source in defs and source not in kept:
                value = replace_reads(value, source, _Element(defs[source].axes, forms[source]))
        forms[name] = value
        open_ = decide and name not in kept
        every = [(consumer, use) for consumer in program.defs for use in uses(d, consumer)] if open_ else []
        twice = len(every) > 1 and _count(value, terms) > TERMS
        if twice or any(recomputes(d, value, consumer, use) for consumer, use in every):
            more = _sources(program, forms, kept, name) - kept
            kept |= more
            if more and name not in kept:  # something before it is kept instead: what is known of those since has changed
                return _forms(program, kept, decide=True)
    return forms


def _count(term: Term, known: dict[Term, int]) -> int:
    """How many terms it is written out with, however often one occurs."""
    if term not in known:
        known[term] = 1 + sum(_count(part, known) for part in children(term))
    return known[term]


def written_twice(program: Program, kept: frozenset[str]) -> dict[str, int]:
    """What is kept because it is long and read more than once, and how long it is."""
    forms, terms = _forms(program, set(kept), decide=False), dict[Term, int]()
    found = {}
    for d in program.defs:
        name = d.tensor.name
        if name in kept and name not in program.outputs and sum(1 for c in program.defs for _ in uses(d, c)) > 1:
            if (count := _count(forms[name], terms)) > TERMS:
                found[name] = count
    return found


class _Element:
    """The value at an index."""

    def __init__(self, axes: tuple[str, ...], value: Term) -> None:
        self.axes, self.value = axes, value

    def __call__(self, index: tuple[Term, ...]) -> Term:
        return substitute(self.value, dict(zip(self.axes, index, strict=False)))


def recomputes(d: Def, form: Term, consumer: Def, use: Use) -> bool:
    """Whether writing d (whose inlined value is `form`) into the consumer at this use costs too much."""
    mentioned = frozenset().union(*(free_vars(i) for i in use.index))
    varying = {axis.name for axis in use.around} & mentioned
    moving = {axis for axis, i in zip(d.axes, use.index, strict=True) if free_vars(i) & varying}
    if any(free_vars(fold) & moving and any(not free_vars(f) & moving for f in _held(fold)) for fold in _folds(form)):
        return True
    left_out = [extent for axis, extent in zip(consumer.axes, consumer.tensor.shape, strict=True) if axis not in mentioned]
    left_out = [extent for extent in left_out if extent != Const(1)]
    if not varying or not left_out:
        return False
    folds = list(_folds(form))
    if not folds:
        return any(node.name in EXPENSIVE for node in _operations(form))
    moved = [fold for fold in folds if free_vars(fold) & moving]
    inner = [axis.extent for fold in moved for axis in fold.axes]
    wide = [extent for extent in consumer.tensor.shape if extent != Const(1)]
    many = not _symbolic(d) and any(_steps(fold) > MANY for fold in moved)
    if (len(left_out) > 1 or len(left_out) == len(wide)) and (many or any(not isinstance(extent, Const) for extent in inner)):
        return True
    return any(_long(extent) for extent in (*left_out, *inner))


def uses(d: Def, consumer: Def) -> Iterator[Use]:
    """Each read of d in the consumer."""

    def walk(term: Term, around: tuple[Axis, ...]) -> Iterator[Use]:
        if isinstance(term, Read) and term.tensor == d.tensor.name:
            yield Use(term.index, around)
        inside = around + term.axes if isinstance(term, Fold) else around
        for part in children(term):
            yield from walk(part, inside)

    return walk(consumer.value, ()) if d.tensor.name in mentions(consumer.value) else iter(())


def _twice(program: Program, forms: dict[str, Term], kept: set[str]) -> Iterator[str]:
    """Heavy definitions that two kept ones would contain; the last first, so that an epilogue stays with its matmul."""
    sinks: dict[str, frozenset[str]] = {}
    stays = (d for d in program.defs if d.tensor.name in kept)
    inlined = replace(program, defs=tuple(Def(d.tensor, d.axes, forms[d.tensor.name]) for d in stays))
    for d in reversed(program.defs):
        name = d.tensor.name
        readers = [c.tensor.name for c in program.defs if any(r.tensor == name for r in reads(c.value))]
        sinks[name] = frozenset().union(*({c} if c in kept else sinks[c] for c in readers))
        costs = (fold for fold in _folds(forms[name]) if heavy(fold) and not _of_rows(fold))
        if name not in kept and len(sinks[name]) > 1 and any(True for _ in costs):
            if not in_one_pass(inlined, sinks[name]):
                yield name


def _shifted(program: Program, forms: dict[str, Term], kept: set[str]) -> Iterator[str]:
    """Heavy definitions that one kept definition reads at different places, as a rotation of halves does."""
    for d in reversed(program.defs):
        name = d.tensor.name
        if name in kept or not any(heavy(fold) for fold in _folds(forms[name])):
            continue
        for reader in kept:
            if len(_places(program, reader, name, kept, {})) > 1:
                yield name


def _places(
    program: Program, reader: str, name: str, kept: set[str], known: dict[str, frozenset[tuple[Term, ...]]]
) -> frozenset[tuple[Term, ...]]:  # fmt: skip
    """Where a definition reads another, through those that are not kept: indices over its own axes, all else anonymous."""
    if reader not in known:
        d = program.definition(reader)
        found: set[tuple[Term, ...]] = set()
        for read in reads(d.value):
            index = tuple(_anonymous(i, frozenset(d.axes)) for i in read.index)
            if read.tensor == name:
                found.add(index)
            elif read.tensor not in kept and any(x.tensor.name == read.tensor for x in program.defs):
                at = dict(zip(program.definition(read.tensor).axes, index, strict=True))
                inner = _places(program, read.tensor, name, kept, known)
                found |= {tuple(canonical(substitute(i, at)) for i in place) for place in inner}
        known[reader] = frozenset(found)
    return known[reader]


def _anonymous(index: Term, axes: frozenset[str]) -> Term:
    """The index with every size and bound axis called the same."""
    return canonical(substitute(index, {name: Var(".") for name in free_vars(index) if name not in axes}))


def _of_rows(fold: Fold) -> bool:
    """A product of rows with rows, Σ_d q[i, d]·k[j, d], over an extent that is not known: as many elements as pairs of rows,
    so that storing them moves more than computing them again does; of an extent that is known, `heavy` says which."""
    if len(fold.axes) != 1 or isinstance(fold.axes[0].extent, Const):
        return False
    axis, over = Var(fold.axes[0].name), [r for r in reads(fold.body[0]) if fold.axes[0].name in free_vars(r)]
    last = all(r.index[-1] == axis and not any(axis.name in free_vars(i) for i in r.index[:-1]) for r in over)
    return len(over) > 1 and last


def heavy(fold: Fold) -> bool:
    """A sum of products of different reads over many elements."""
    count = 1
    for axis in fold.axes:
        count *= int(axis.extent.value) if isinstance(axis.extent, Const) else MANY + 1
    products = (node for node in _operations(fold.body[0]) if node.name == "mul" and node.args[0] != node.args[1])
    return fold.monoid == ADD and count > LIMIT and any(all(reads(a) for a in node.args) for node in products)


def _long(extent: Term) -> bool:
    return isinstance(extent, Const) and int(extent.value) > LIMIT


def _folds(term: Term) -> Iterator[Fold]:
    if isinstance(term, Fold):
        yield term
    for part in children(term):
        yield from _folds(part)


def _held(fold: Fold) -> Iterator[Fold]:
    """The folds inside a fold."""
    for part in fold.body:
        yield from _folds(part)


def _operations(term: Term) -> Iterator[Op]:
    if isinstance(term, Op):
        yield term
    for part in children(term):
        yield from _operations(part)


