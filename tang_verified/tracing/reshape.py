"""reshape: (n, 64) -> (n, 4, 16) and back, as a read at quasi-affine indices.

Source and target axes are matched in groups of equal product, from the left. Within a group the flat position is
f = (t0 · T1 + t1) · T2 + …, and the source index is f // S1S2… , then (f // S2…) % S1, …; so all but the leading
extent of a group must be fixed, on both sides. A group of one axis each is that axis.
"""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import Any

from tang_verified.errors import ShapeError
from tang_verified.semantics.build import canonical, floordiv, from_linear, iadd, imul, linear, mod
from tang_verified.semantics.terms import ONE, ZERO, Const, Op, Term
from tang_verified.tracing.array import Traced
from tang_verified.tracing.sizes import show, show_shape
from tang_verified.tracing.values import need_array
from tang_verified.tracing.views import shape_terms

Factors = tuple[int, Counter[Term]]  # a number of elements, as constant · Π atoms


def reshape(array: Any, shape: Any, order: str = "C", copy: bool | None = None) -> Traced:
    parts = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    x = need_array(array, "reshape", parts)
    source = x.extents
    target = _infer(source, parts)
    total, wanted = _product(source), _product(target)
    if total[0] == 0 and wanted[0] == 0:
        return x.tracing.define("reshape", x.dtype_name, target, lambda *i: x.at(*(ZERO for _ in source)))
    if total != wanted:
        raise ShapeError(
            f"reshape: shape {show_shape(source)} has not as many elements as {show_shape(target)} for every size",
            "give one target axis as -1, or fix sizes in the spec",
        )
    groups = _groups(source, target)

    def value(*i: Term) -> Term:
        index: list[Term] = [ZERO] * len(source)
        for olds, news in groups:
            flat: Term = ZERO
            for new in news:
                flat = iadd(imul(flat, target[new]), i[new])
            for old in reversed(olds[1:]):
                size = _fixed(source[old])
                index[old], flat = mod(flat, size), floordiv(flat, size)
            if olds:
                index[olds[0]] = flat
        return x.at(*index)

    return x.tracing.define("reshape", x.dtype_name, target, value, weak=x.weak)


def _infer(source: tuple[Term, ...], parts: tuple[Any, ...]) -> tuple[Term, ...]:
    """The target's terms, with -1 worked out."""
    holes = [place for place, part in enumerate(parts) if isinstance(part, int) and part == -1]
    if len(holes) > 1:
        raise ShapeError(f"reshape: {parts} has two -1", "leave at most one axis to be inferred")
    if not holes:
        return shape_terms(parts, "reshape")
    rest = shape_terms(tuple(part for place, part in enumerate(parts) if place not in holes), "reshape")
    (count, atoms), (given, known) = _product(source), _product(rest)
    if given == 0 or count % given or known - atoms:
        shown = ", ".join("-1" if place in holes else str(part) for place, part in enumerate(parts))
        raise ShapeError(
            f"reshape: shape {show_shape(source)} does not divide into ({shown}) for every size",
            "write the size as a product in the spec, as in spec('n 4')",
        )
    missing: Term = Const(count // given)
    for atom, times in (atoms - known).items():
        for _ in range(times):
            missing = canonical(Op("mul", (missing, atom)))
    terms = list(rest)
    terms.insert(holes[0], missing)
    return tuple(terms)


def _product(extents: tuple[Term, ...]) -> Factors:
    """The product of extents as a constant and a multiset of atoms: 64·(n + 1) is (64, {n + 1})."""
    count: int = 1
    atoms: Counter[Term] = Counter()
    for extent in extents:
        parts, constant = linear(extent)
        if not parts:
            count *= constant
            continue
        common = gcd(constant, *parts.values())
        count *= common
        atom = from_linear({a: c // common for a, c in parts.items()}, constant // common)
        if isinstance(atom, Op) and atom.name == "mul":  # a product of two sizes
            inner, more = _product(atom.args)
            count *= inner
            atoms += more
        else:
            atoms[atom] += 1
    return count, atoms


def _groups(source: tuple[Term, ...], target: tuple[Term, ...]) -> list[tuple[list[int], list[int]]]:
    """Pairs of source and target axes with equal products, axes of extent 1 left out (their index is 0)."""
    olds = [place for place, extent in enumerate(source) if extent != ONE]
    news = [place for place, extent in enumerate(target) if extent != ONE]
    groups: list[tuple[list[int], list[int]]] = []
    while olds or news:
        left, right = _cut(source, target, olds, news)
        taken, made = olds[:left], news[:right]
        olds, news = olds[left:], news[right:]
        if not (len(taken) == len(made) == 1):
            _check_fixed(source, target, taken, made)
        groups.append((taken, made))
    return groups


def _cut(source: tuple[Term, ...], target: tuple[Term, ...], olds: list[int], news: list[int]) -> tuple[int, int]:
    """How many axes of each side make the first group: the shortest prefixes with equal products."""
    prefixes = {}
    for count in range(1, len(olds) + 1):
        prefixes[count] = _product(tuple(source[place] for place in olds[:count]))
    for right in range(1, len(news) + 1):
        made = _product(tuple(target[place] for place in news[:right]))
        for left, taken in prefixes.items():
            if taken == made:
                return left, right
    return len(olds), len(news)


def _check_fixed(source: tuple[Term, ...], target: tuple[Term, ...], olds: list[int], news: list[int]) -> None:
    trailing = [source[place] for place in olds[1:]] + [target[place] for place in news[1:]]
    for extent in trailing:
        if not isinstance(extent, Const):
            before = show_shape(tuple(source[place] for place in olds))
            after = show_shape(tuple(target[place] for place in news))
            raise ShapeError(
                f"reshape {before} -> {after} multiplies two symbolic sizes: {show(extent)} is not fixed",
                f"fix it in the spec, as in spec('n 64'), or keep the axis of {show(extent)} first or apart",
            )


def _fixed(extent: Term) -> int:
    if isinstance(extent, Const) and isinstance(extent.value, int):
        return extent.value
    raise ShapeError(f"reshape: extent {show(extent)} is not fixed")
