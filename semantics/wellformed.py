"""Whether a term is one: every name, sort and binder in it, those inside folds and monoids included.

Names are checked because the checker makes names of its own: `j!3` (fresh), `.0` (bound, by depth), `r.x.nan` (in SMT).
None of them is a `NAME`, so nothing that a program or kernel says can be mistaken for one of them.
A placeholder (`Sym`) stands in a monoid's combine alone, and a monoid mentions nothing from outside itself: substitution
does not look into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tang_verified.semantics.terms import (
    SIGNATURES,
    Const,
    Fold,
    Gradient,
    IllFormed,
    Monoid,
    Op,
    Read,
    Sort,
    Sym,
    Tangent,
    Term,
    Var,
    children,
    mentions,
)  # fmt: skip

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
TITLE = re.compile(r"[A-Za-z_][A-Za-z0-9_. -]{0,63}")  # of a monoid: for the reader alone


def check_names(names: Iterable[str], where: str) -> None:
    for name in names:
        if not NAME.fullmatch(name):
            raise IllFormed(f"{where}: {name!r} is no name (letters, digits and _, at most 64)")


def check_term(term: Term, where: str, sort: Sort | None = None) -> Sort:
    """The term's sort; `IllFormed` unless the whole term is well formed, and of the given sort."""
    have = _Checker(where).sort(term)
    if sort is not None and have != sort:
        raise IllFormed(f"{where}: {have} where {sort} is wanted")
    return have


class _Checker:
    def __init__(self, where: str, symbols: dict[str, Sort] | None = None) -> None:
        self.where, self.symbols = where, symbols  # symbols: what a combine may mention, and then nothing else
        self.known: dict[Term | Monoid, Sort] = {}

    def sort(self, term: Term) -> Sort:
        """A term that stands in no monoid remembers that it was found well formed: that does not depend on the place."""
        if self.symbols is None:
            return _outside(term, self)
        if term not in self.known:
            self.known[term] = self._sort(term)
        return self.known[term]

    def _sort(self, term: Term) -> Sort:
        if self.symbols is not None and isinstance(term, (Var, Read, Fold, Gradient, Tangent)):
            raise IllFormed(f"{self.where}: a monoid mentions {type(term).__name__.lower()}s, which lie outside it")
        sorts = [self.sort(part) for part in children(term)]
        match term:
            case Var(name):
                check_names((name,), self.where)
                return "int"
            case Const(value):
                return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
            case Sym(name, sort):
                if self.symbols is None or self.symbols.get(name) != sort:
                    raise IllFormed(f"{self.where}: placeholder {name!r} of sort {sort} has no meaning here")
                return sort
            case Read(tensor, _, sort):
                check_names((tensor,), self.where)
                self._all(sorts, "int", f"an index of {tensor}")
                return sort
            case Gradient() | Tangent():
                check_names(mentions(term), self.where)
                return "real"
            case Op(name, _):
                if any(isinstance(part, (Gradient, Tangent)) for part in children(term)):
                    raise IllFormed(f"{self.where}: a derivative stands inside a term; it is a definition's whole value")
                return self._operation(name, sorts)
            case Fold(monoid, axes, _, _, component):
                check_names((axis.name for axis in axes), self.where)
                if any(isinstance(part, (Gradient, Tangent)) for part in children(term)):
                    raise IllFormed(f"{self.where}: a derivative stands inside a fold; it is a definition's whole value")
                fields = self._monoid(monoid)
                self._all(sorts[: len(axes)], "int", "an extent")
                self._all(sorts[len(axes) : len(axes) + 1], "bool", "a guard")
                for have, want in zip(sorts[len(axes) + 1 :], fields, strict=True):
                    self._all([have], want, f"a body folded by {monoid.name}")
                return fields[component]
            case _:
                raise IllFormed(f"{self.where}: not a term: {type(term).__name__}")

    def _operation(self, name: str, sorts: list[Sort]) -> Sort:
        expected, result = SIGNATURES[name]
        generic: Sort | None = None
        for want, have in zip(expected, sorts, strict=True):
            if want in ("num", "any"):
                if (want == "num" and have == "bool") or (generic is not None and have != generic):
                    raise IllFormed(f"{self.where}: {name} of {', '.join(sorts)}")
                generic = have
            elif want != have:
                raise IllFormed(f"{self.where}: {name} of {', '.join(sorts)}")
        return generic if result in ("num", "any") else result  # type: ignore[return-value]

    def _all(self, sorts: list[Sort], want: Sort, what: str) -> None:
        for have in sorts:
            if have != want:
                raise IllFormed(f"{self.where}: {what} of sort {have}, not {want}")

    def _monoid(self, monoid: Monoid) -> list[Sort]:
        """The sorts of its fields. Laws are the prover's business; here it must only be closed and of one shape."""
        if not TITLE.fullmatch(monoid.name):
            raise IllFormed(f"{self.where}: {monoid.name!r} is no title of a monoid")
        place = f"{self.where}, monoid {monoid.name}"
        empty = _Checker(place, {})
        fields = [empty.sort(part) for part in monoid.identity]
        both: dict[str, Sort] = {f"{side}{k}": sort for side in "ab" for k, sort in enumerate(fields)}
        inner = _Checker(place, both)
        if [inner.sort(part) for part in monoid.combine] != fields:
            raise IllFormed(f"{place}: combine does not give the sorts of its fields")
        return fields


def _outside(term: Term, checker: _Checker) -> Sort:
    have: Sort | None = getattr(term, "_sound", None)
    if have is None:
        have = checker._sort(term)
        object.__setattr__(term, "_sound", have)
    return have


def check_extent(extent: Term, where: str) -> None:
    """An extent is an integer term that reads no array: its value is the same wherever it is looked at."""
    check_term(extent, where, "int")
    stack: list[Term] = [extent]
    while stack:
        node = stack.pop()
        if isinstance(node, (Read, Fold)):
            raise IllFormed(f"{where}: an extent depends on data")
        stack += children(node)


