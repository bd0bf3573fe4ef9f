"""What a kernel must do, whatever its schedule: its statements, and which elements each point of one touches.

    o[i, c] = (Σ_{j<m} exp(Σ_{l<d} q[i, l]·k[j, l] − …)·v[j, c]) / …
        statement 1:  points (i, j, l)  touch q[i, l], k[j, l]     one result for each (i, j)     used
        statement 2:  points (i, c, j)  touch v[j, c]              one result for each (i, c)     stored

A fold is computed once for the outer axes that it depends on, not for each axis around it. Only what every execution needs is
an operand: a read under a condition of integers restricts the points, one under a condition on data is left out. Where the
other branch is a constant (`empty rows: nan`), the condition is assumed to choose this one, and that is said.
See docs/traffic_bounds.md for what is made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import factorial, prod

from tang_verified.semantics.build import conjuncts, linear
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import BYTES, SORTS, Def
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import (
    TRUE,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Sym,
    Term,
    Var,
    alpha,
    children,
    free_vars,
    reads,
    rename_apart,
    sort_of,
    substitute,
)  # fmt: skip

Row = tuple[int, ...]  # one coefficient an axis


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of a stored tensor, of `width` bytes each. An index of None is taken from data."""

    tensor: str
    width: int
    index: tuple[Term | None, ...]

    def linear(self, axes: tuple[str, ...]) -> bool:
        """Whether each index is a linear form of the axes and of what does not depend on them."""
        return all(_form(index, axes) is not None for index in self.index)

    def rows(self, axes: tuple[str, ...]) -> tuple[Row, ...]:
        """The linear part of the index over `axes`. What is not affine is left out: the image can only become smaller."""
        found = []
        for index in self.index:
            row = tuple((_form(index, axes) or {}).get(Var(axis), 0) for axis in axes)
            if any(row):
                found.append(row)
        return tuple(dict.fromkeys(found))


def _form(index: Term | None, axes: tuple[str, ...]) -> dict[Term, int] | None:
    """The coefficients of an index that is a linear form of the axes; None of any other."""
    parts = None if index is None else linear(index)[0]
    if parts is None or any(free_vars(atom) & set(axes) for atom in parts if not isinstance(atom, Var)):
        return None
    return parts


@dataclass(frozen=True, slots=True)
class Place:
    """Axes bound somewhere, outermost first, the conditions on them, and the choices of data that are assumed."""

    axes: tuple[Axis, ...] = ()
    conditions: tuple[Term, ...] = ()
    assumes: tuple[str, ...] = ()

    def where(self, condition: Term) -> Place:
        return replace(self, conditions=(*self.conditions, *(c for c in conjuncts(condition) if c != TRUE)))

    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)


@dataclass(frozen=True, slots=True)
class Statement:
    """A fold: the points (outer × inner) of `place`, its operands at each, and its result, one for each outer point."""

    tensor: str
    text: str
    place: Place
    outer: tuple[str, ...]
    inner: tuple[str, ...]
    operands: tuple[Access, ...]
    width: int  # bytes of a partial result, at least
    alike: int  # results that one value may be, where what is read is the same read in another order (a aᵀ: 2)
    stored: bool  # each result becomes its own element of the output

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.outer, *self.inner)

    def extent(self, axis: str) -> Term:
        return next(a.extent for a in self.place.axes if a.name == axis)

    def whole_inside(self) -> bool:
        """Whether every result folds the same box, without a guard."""
        inner = frozenset(self.inner)
        return not any(free_vars(c) & inner for c in self.place.conditions) and not any(
            free_vars(self.extent(axis)) & set(self.place.names()) for axis in self.inner
        )


@dataclass(frozen=True, slots=True)
class Touch:
    """Elements that every execution reads (or, of an output, writes)."""

    place: Place
    access: Access


@dataclass
class Work:
    """The statements of a kernel, and what it must touch at least once."""

    statements: list[Statement] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)


def work(kernel: Kernel) -> Work:
    """Read off the definitions that the kernel computes; nothing of its schedule enters."""
    found = Work()
    seen: set[object] = set()
    loaded = {tensor.name for tensor in kernel.program.inputs} | {name for name in kernel.reads}
    loaded -= set(kernel.outputs)
    for name in kernel.outputs:
        d = kernel.program.definition(name)
        place = place_of(d)
        width = BYTES[d.tensor.dtype]
        found.touches.append(Touch(place, Access(name, width, tuple(map(Var, d.axes)))))
        _Walk(kernel, d, loaded, found, seen).visit(d.value, place)
    return consistent(found)


def place_of(d: Def) -> Place:
    """Every element of a definition."""
    return Place(tuple(Axis(axis, extent) for axis, extent in zip(d.axes, d.tensor.shape, strict=True)))


def consistent(found: Work) -> Work:
    """Assumptions on data are not joined, since they may contradict each other: the one that is made most often stays, and what
    would need another is left out."""
    made = Counter(p.assumes for p in (*(s.place for s in found.statements), *(t.place for t in found.touches)) if p.assumes)
    kept = {(), *(assumes for assumes, _ in made.most_common(1))}
    return Work(
        [s for s in found.statements if s.place.assumes in kept], [t for t in found.touches if t.place.assumes in kept]
    )


class _Walk:
    def __init__(self, kernel: Kernel, d: Def, loaded: set[str], found: Work, seen: set[object]) -> None:
        self.kernel, self.d, self.loaded, self.found, self.seen = kernel, d, loaded, found, seen

    def visit(self, term: Term, place: Place) -> None:
        match term:
            case Read():
                self.found.touches += [Touch(place, access) for access in self.accesses((term,))]
                for index in term.index:
                    self.visit(index, place)
            case Fold():
                self.fold(term, place)
            case Op("select", (condition, yes, no)):
                self.visit(condition, place)
                for branch, inside in branches(condition, yes, no, place):
                    self.visit(branch, inside)
            case _:
                for part in children(term):
                    self.visit(part, place)

    def fold(self, fold: Fold, place: Place) -> None:
        names = set(place.names())
        fold, inside = entered(fold, place)
        bodies = [peeled(fold.body[field], inside) for field in needed_fields(fold)]
        needed = closed(free_vars(fold) & names, place)
        outer = tuple(axis for axis in place.names() if axis in needed)
        own = [read for body, at in bodies if at == bodies[0][1] for read in unconditional(body)]
        statement = Statement(
            self.d.tensor.name, show(fold), bodies[0][1], outer, tuple(axis.name for axis in fold.axes),
            tuple(dict.fromkeys(self.accesses(own))),
            BYTES[self.d.tensor.dtype] if SORTS[self.d.tensor.dtype] == sort_of(fold) else 1,
            symmetries(fold.body, self.kernel), set(self.d.axes) == set(outer) and set(place.names()) == set(outer),
        )  # fmt: skip
        key = same(fold, statement)
        if key not in self.seen:
            self.seen.add(key)
            self.found.statements.append(statement)
        for body, at in bodies:
            self.visit(body, at)

    def accesses(self, found: Iterable[Read]) -> Iterator[Access]:
        """Reads of what lies in memory when the kernel starts."""
        for read in found:
            if read.tensor in self.loaded:
                width = BYTES[self.kernel.program.tensor(read.tensor).dtype]
                yield Access(read.tensor, width, tuple(None if reads(index) else index for index in read.index))


def entered(fold: Fold, place: Place) -> tuple[Fold, Place]:
    """The fold with axes whose names are free at the place, and the place inside it."""
    fold = rename_apart(fold, frozenset(place.names()))
    return fold, replace(place, axes=(*place.axes, *fold.axes)).where(fold.guard)


def branches(condition: Term, yes: Term, no: Term, place: Place) -> Iterator[tuple[Term, Place]]:
    """The branches that are taken at known points; none of those that data chooses between."""
    if is_affine(condition):
        yield yes, place.where(condition)
        yield no, place.where(Op("not", (condition,)))
    elif isinstance(yes, Const) != isinstance(no, Const):
        computed, word = (no, "not ") if isinstance(yes, Const) else (yes, "")
        yield computed, replace(place, assumes=(*place.assumes, f"{word}({show(condition)})"))


def peeled(body: Term, place: Place) -> tuple[Term, Place]:
    """A body that is padding outside a condition on its indices, where that holds."""
    while isinstance(body, Op) and body.name == "select":
        condition, yes, no = body.args
        if not (isinstance(no, Const) and is_affine(condition)):
            break
        body, place = yes, place.where(condition)
    return body, place


def unconditional(term: Term) -> Iterator[Read]:
    """Reads that happen at every point: in no fold of the term, and in no branch."""
    match term:
        case Read():
            yield term
            for index in term.index:
                yield from unconditional(index)
        case Fold():
            return
        case Op("select", (condition, _, _)):
            yield from unconditional(condition)
        case _:
            for part in children(term):
                yield from unconditional(part)


def closed(names: frozenset[str] | set[str], place: Place) -> frozenset[str]:
    """The names and the axes that their extents mention."""
    found = frozenset(names)
    for axis in reversed(place.axes):
        if axis.name in found:
            found |= free_vars(axis.extent) & set(place.names())
    return found


def needed_fields(fold: Fold) -> list[int]:
    """The fields of the state that the component depends on."""
    needed, fresh = {fold.component}, [fold.component]
    while fresh:
        for name in placeholders(fold.monoid.combine[fresh.pop()]):
            if (field := int(name[1:])) not in needed:
                needed.add(field)
                fresh.append(field)
    return sorted(needed)


def placeholders(term: Term) -> set[str]:
    return {term.name} if isinstance(term, Sym) else set().union(*map(placeholders, children(term)))


def symmetries(terms: Iterable[Term], kernel: Kernel) -> int:
    """How many of the values that the terms have at different points may be one and the same, whatever the data: at most as
    many as there are ways to permute the reads of each tensor, and the inner folds of each form, among themselves."""
    places: dict[object, set[Term]] = {}
    total, queue = 1, list(terms)
    while queue:
        term = queue.pop()
        if isinstance(term, Fold):
            form = alpha(substitute(term, dict.fromkeys(free_vars(term), Var("$"))))
            if form not in places:
                total *= symmetries(term.body, kernel)
            places.setdefault(form, set()).add(alpha(term))
            continue
        if isinstance(term, Read):
            if term.tensor in kernel.outputs and term.tensor not in places:
                total *= symmetries((kernel.program.definition(term.tensor).value,), kernel)
            places.setdefault(term.tensor, set()).add(term)
        queue += children(term)
    return total * prod(factorial(len(distinct)) for distinct in places.values())


def same(fold: Fold, statement: Statement) -> object:
    """Equal for folds that have the same values over the same points, whatever their axes are called."""
    names = {axis: Var(f"${number}") for number, axis in enumerate(statement.outer)}
    around = [axis for axis in statement.place.axes if axis.name in names]
    others = set(statement.place.names()) - names.keys()
    conditions = [c for c in statement.place.conditions if free_vars(c).isdisjoint(others)]
    plain = replace(fold, component=0)
    return (
        alpha(substitute(plain, dict(names))), tuple(substitute(axis.extent, dict(names)) for axis in around),
        frozenset(substitute(c, dict(names)) for c in conditions), statement.stored, statement.tensor,
        len(statement.place.axes) - len(statement.inner) if statement.stored else 0,
    )  # fmt: skip
