"""How much arithmetic a kernel's definitions state, at least, at given sizes.

    o[i, c] = Σ_{j<m} exp(s[i, j] − max_{j<m} s[i, j]) · v[j, c]
        max over (i, j); subtractions and exps at (i, j); multiplications and additions at (i, c, j)

An operation is counted once for each value of the axes that it depends on, wherever it stands: what is the same for all of
an axis is computed once, and equal terms are computed once, whatever their axes are called. A fold of N points into R
results takes N − R combinations.

Assumed: the algebra is that of the definitions. A kernel by another algebra (Strassen's product, a sum by closed form, values
of one term read off another's by symmetry or by a shift) may do with fewer. Not counted: integers and conditions, choices,
signs and moduli, factors of ±1, folds of several fields (their combination may be spelled in many ways). Data conditions are
assumed to choose the branch that computes, as `statements.py` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tang_verified.semantics.counting import at_sizes, count
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.statements import Place, branches, closed, entered, peeled, place_of
from tang_verified.semantics.terms import (
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
    sort_of,
    substitute,
)  # fmt: skip

SPECIAL = frozenset(
    ("exp", "log", "log1p", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "erf", "pow")
)
CLASS = {
    "mul": "multiply", **dict.fromkeys(("add", "sub", "sub0"), "add"),
    **dict.fromkeys(("max", "min", "div", "div0", "sqrt", "rsqrt"), "other"), **dict.fromkeys(SPECIAL, "special"),
}  # fmt: skip


@dataclass
class Operations:
    """Operations on reals: multiplications, additions, others (maxima, divisions, roots), and special functions by name."""

    multiply: int = 0
    add: int = 0
    other: int = 0
    special: dict[str, int] = field(default_factory=dict)

    @property
    def specials(self) -> int:
        return sum(self.special.values())

    def put(self, name: str, number: int) -> None:
        match CLASS[name]:
            case "special":
                self.special[name] = self.special.get(name, 0) + number
            case "multiply":
                self.multiply += number
            case "add":
                self.add += number
            case _:
                self.other += number


def operations(kernel: Kernel, sizes: Mapping[str, int], along: frozenset[str] = frozenset()) -> Operations:
    """The operations of a kernel's definitions; with `along`, only those that differ along all these axes of its outputs."""
    found: dict[object, tuple[str, int]] = {}
    for name in kernel.outputs:
        d = kernel.program.definition(name)
        _Count(found, sizes, along).visit(d.value, place_of(d))
    out = Operations()
    for name, number in found.values():
        out.put(name, number)
    return out


class _Count:
    """`found`: (operation, how often) by what is computed, named without its axes."""

    def __init__(self, found: dict[object, tuple[str, int]], sizes: Mapping[str, int], along: frozenset[str]) -> None:
        self.found, self.sizes, self.along = found, sizes, along
        self.seen: set[object] = set()

    def visit(self, term: Term, place: Place) -> None:
        if (term, place) in self.seen:
            return
        self.seen.add((term, place))
        match term:
            case Read() | Const() | Var() | Sym():
                return
            case Fold():
                self.fold(term, place)
            case Op("select", (condition, yes, no)):
                self.visit(condition, place)
                for branch, inside in branches(condition, yes, no, place):
                    self.visit(branch, inside)
            case Op(_, args):
                if (what := counted(term)) is not None:
                    self.note(what, term, place, lambda axes: self.points(place, axes))
                for arg in args:
                    self.visit(arg, place)
            case _:
                for part in children(term):
                    self.visit(part, place)

    def fold(self, fold: Fold, place: Place) -> None:
        fold, inside = entered(fold, place)
        bodies = [peeled(part, inside) for part in fold.body]
        inner = tuple(axis.name for axis in fold.axes)
        what = [part.name for part in fold.monoid.combine if isinstance(part, Op) and counted(part) is not None]
        if len(fold.body) == 1 and what:
            at = bodies[0][1]
            self.note(what[0], replace(fold, component=0), place,
                      lambda axes: max(0, self.points(at, (*axes, *inner)) - self.points(place, axes)))  # fmt: skip
        for body, at in bodies:
            self.visit(body, at)

    def note(self, what: str, term: Term, place: Place, number: Callable[[tuple[str, ...]], int]) -> None:
        needed = closed(free_vars(term) & set(place.names()), place)
        if not self.along <= needed:
            return
        axes = tuple(axis for axis in place.names() if axis in needed)
        order = tuple(dict.fromkeys(name for name in appearing(term) if name in needed))
        names: dict[str, Term] = {axis: Var(f"${k}") for k, axis in enumerate((*order, *(a for a in axes if a not in order)))}
        extents = tuple(substitute(a.extent, names) for a in place.axes if a.name in needed)
        key = (alpha(substitute(term, names)), frozenset(extents))
        old = self.found.get(key, (what, 0))
        self.found[key] = (what, max(old[1], number(axes)))

    def points(self, place: Place, axes: tuple[str, ...]) -> int:
        return count(at_sizes(place, self.sizes), axes)


def counted(term: Op) -> str | None:
    """The operation that it takes, at least: a factor that is constant may be spelled in other ways; ±1 is none."""
    if CLASS.get(term.name) is None or sort_of(term) != "real":
        return None
    constants = [arg for arg in term.args if isinstance(arg, Const)]
    if len(constants) == len(term.args):
        return None
    if term.name in ("mul", "div", "div0", "pow") and constants:
        return None if constants[0].value in (1, -1) else "div"  # any one operation
    return term.name


def appearing(term: Term) -> Iterator[str]:
    """The variables in the order in which they stand."""
    if isinstance(term, Var):
        yield term.name
    for part in children(term):
        yield from appearing(part)
