"""Which iteration writes a cell: index(axes) = x solved for the axes.

    out[48 i + r] for i < E, r < 48:      i = x // 48, r = x − 48 i

The lowest digit is what the others leave of x, so that 48 i + r is x again when its integers are put in canonical form.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tang_verified.semantics.build import canonical, linear
from tang_verified.semantics.terms import (
    Axis,
    Const,
    Op,
    Term,
    Var,
    free_vars,
)


def inverse(index: tuple[Term, ...], axes: tuple[Axis, ...], names: tuple[str, ...]) -> tuple[dict[str, Term], list[Axis]]:
    """The axes' values where index(axes) = names, as far as digits show them; and the axes that are left.

    48 i + r = x, r < 48:   i = x // 48, r = x − 48 i
    """
    extents = {axis.name: axis.extent for axis in axes}
    places: dict[str, Term] = {}
    for part, name in zip(index, names, strict=True):
        atoms, constant = linear(part)
        digits = sorted((c, a.name) for a, c in atoms.items() if isinstance(a, Var) and a.name in extents)
        if not digits or any(free_vars(a) & extents.keys() and not isinstance(a, Var) for a in atoms):
            continue
        rest: Term = Op("sub", (Var(name), Const(constant)))
        for atom, c in atoms.items():
            if not (isinstance(atom, Var) and atom.name in extents):
                rest = Op("sub", (rest, Op("mul", (Const(c), atom))))
        if any(n in places for _, n in digits) or not _mixed_radix(digits, extents):
            continue
        for place, (c, n) in reversed(list(enumerate(digits))):
            if place == 0 and c == 1:
                taken = rest
                for above, m in digits[1:]:
                    taken = Op("sub", (taken, Op("mul", (Const(above), places[m]))))
                places[n] = canonical(taken)
            elif c == -1:
                places[n] = canonical(Op("neg", (rest,)))
            else:
                digit: Term = canonical(Op("floordiv", (rest, Const(c))))
                if place + 1 < len(digits):
                    digit = canonical(Op("mod", (digit, Const(digits[place + 1][0] // c))))
                places[n] = digit
    return places, [axis for axis in axes if axis.name not in places]


def _mixed_radix(digits: list[tuple[int, str]], extents: Mapping[str, Term]) -> bool:
    if len(digits) == 1 and digits[0][0] == -1:
        return True
    if digits[0][0] < 1:
        return False
    for (c, n), (above, _) in pairwise(digits):
        extent = extents[n]
        if not isinstance(extent, Const) or not isinstance(extent.value, int) or above % c or above < c * extent.value:
            return False
    return True
