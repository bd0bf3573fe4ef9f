"""How many points or elements there are, at given sizes: exactly, or where that would take long, at least how many.

Axes that no condition links are counted apart and multiplied; what is left goes to isl, which enumerates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import islpy as isl

from tang_verified.semantics.build import canonical
from tang_verified.semantics.sets import NotAffine, Writer, parameter_set
from tang_verified.semantics.statements import Place, Statement, Touch
from tang_verified.semantics.terms import Axis, Const, Op, Term, Var, free_vars, reads, substitute

ENUMERATED = 1 << 22  # points that isl may count one by one, a set


def points(statement: Statement, sizes: Mapping[str, int]) -> int:
    """The points of a statement, or fewer: those of its place, without the axes that it does not depend on."""
    return count(at_sizes(statement.place, sizes), statement.axes)


def extents(statement: Statement, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many values each axis takes, at most."""
    place = at_sizes(statement.place, sizes)
    return {axis: _largest(axis, place) for axis in statement.axes}


def elements(touches: Iterable[Touch], sizes: Mapping[str, int]) -> int:
    """Distinct elements of one tensor that are touched, or fewer."""
    images = [image(touch, sizes) for touch in touches]
    most = max(size for size, _ in images)
    sets = [found for _, found in images if found is not None]
    if len(sets) > 1:
        union = sets[0]
        for other in sets[1:]:
            union = union.union(other)
        most = max(most, _count(union.coalesce()))
    return most


def image(touch: Touch, sizes: Mapping[str, int]) -> tuple[int, isl.Set | None]:
    """How many elements one access touches, at least; and their set, where the index is affine."""
    place = at_sizes(touch.place, sizes)
    index = [None if i is None else canonical(substitute(i, _constants(sizes))) for i in touch.access.index]
    names = place.names()
    total = 1
    for group in linked([*map(_mentions, index), *(free_vars(c) & set(names) for c in _limits(place))], names):
        rows = [i for i in index if i is not None and _mentions(i) & group]
        if not rows:
            total *= int(count(place, tuple(group)) > 0)
        elif all(isinstance(i, Var) for i in rows) and {i.name for i in rows if isinstance(i, Var)} == group:
            total *= count(place, tuple(sorted(group)))
        else:
            found = _image(place, group, rows)
            total *= int(count(place, tuple(group)) > 0) if found is None else _count(found)
    whole = None if None in index else _image(place, frozenset(names), index)
    return total, whole


def _image(place: Place, group: frozenset[str], rows: Sequence[Term | None]) -> isl.Set | None:
    """The values of the index terms over the places of a group of axes, as a set; None if an index is not affine."""
    writer = Writer(opaque=False)
    try:
        texts = [writer.condition(c) for c in _limits(place) if free_vars(c) <= group]
        axes = [writer.name(Var(axis)) for axis in sorted(group)]
        coordinates = [f"y{k}" for k in range(len(rows))]
        texts += [f"{y} = {writer.integer(row)}" for y, row in zip(coordinates, rows, strict=True) if row is not None]
        texts += [f"{y} = 0" for y, row in zip(coordinates, rows, strict=True) if row is None]
    except NotAffine:
        return None
    full = parameter_set(writer, (*coordinates, *axes), texts)
    return full.project_out(isl.dim_type.set, len(coordinates), len(axes))


def count(place: Place, axes: tuple[str, ...]) -> int:
    """The points of some axes of a place at fixed sizes: those for which the others have values."""
    names = place.names()
    total = 1
    for group in linked([free_vars(c) & set(names) for c in _limits(place)], names):
        kept = tuple(axis for axis in axes if axis in group)
        writer = Writer(opaque=False)
        texts = []
        for condition in _limits(place):
            if free_vars(condition) & group:
                texts.append(writer.condition(condition))
        dims = [writer.name(Var(axis)) for axis in (*kept, *(axis for axis in names if axis in group and axis not in kept))]
        full = parameter_set(writer, dims, texts)
        total *= _count(full.project_out(isl.dim_type.set, len(kept), len(dims) - len(kept)))
    return total


def linked(together: Iterable[frozenset[str]], names: Sequence[str]) -> list[frozenset[str]]:
    """The axes in groups that nothing links."""
    groups = [frozenset((name,)) for name in names]
    for tied in together:
        meet = [group for group in groups if group & tied]
        if len(meet) > 1:
            groups = [group for group in groups if not group & tied] + [frozenset().union(*meet)]
    return groups


def _count(found: isl.Set) -> int:
    """The points of a set without parameters; of one that is too large to enumerate, those of its largest box, or 1."""
    if found.is_empty():
        return 0
    dims = found.dim(isl.dim_type.set)
    if dims == 0:
        return 1
    bounds = [(int(found.dim_min_val(k).to_python()), int(found.dim_max_val(k).to_python())) for k in range(dims)]
    box = prod(high - low + 1 for low, high in bounds)
    names = [f"y{k}" for k in range(dims)]
    text = " and ".join(f"{low} <= {y} <= {high}" for y, (low, high) in zip(names, bounds, strict=True))
    if isl.Set(f"{{ [{', '.join(names)}] : {text} }}").is_subset(found):
        return box
    # isl steps through all dimensions but the last
    outer = min(box // max(high - low + 1, 1) for low, high in bounds)
    if outer > ENUMERATED:
        return 1
    return int(found.count_val().to_python())


def at_sizes(place: Place, sizes: Mapping[str, int]) -> Place:
    """A place with its sizes put in."""
    values = _constants(sizes)
    axes = tuple(Axis(a.name, canonical(substitute(a.extent, values))) for a in place.axes)
    return Place(axes, tuple(canonical(substitute(c, values)) for c in place.conditions), place.assumes)


def _limits(place: Place) -> list[Term]:
    """All that holds at a place: the ranges of the axes, and the conditions."""
    ranges = [Op("le", (Const(0), Var(a.name))) for a in place.axes]
    return [*ranges, *(Op("lt", (Var(a.name), a.extent)) for a in place.axes), *place.conditions]


def _largest(axis: str, place: Place) -> int:
    extent = next(a.extent for a in place.axes if a.name == axis)
    return extent.value if isinstance(extent, Const) and isinstance(extent.value, int) else count(place, (axis,))


def _constants(sizes: Mapping[str, int]) -> dict[str, Term]:
    return {name: Const(value) for name, value in sizes.items()}


def _mentions(index: Term | None) -> frozenset[str]:
    return frozenset() if index is None or reads(index) else free_vars(index)


__all__ = ["at_sizes", "count", "elements", "extents", "points"]
