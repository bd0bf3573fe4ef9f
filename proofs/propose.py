"""A guess at the map between two folds' domains. Nothing is believed of it: `equality.reindex` proves what it needs.

The bodies are walked side by side; where b's index says `j` and a's says `16 t + c`, the guess is j = 16 t + c. First only
guesses with an axis of a in them count: in x[i, d]·x[j, d] against x[j', d]·x[i, d], j = j' and not j = i. Quotients and
remainders come last: w[c + 16 t] against w[j] says more than c % 16 against j % 16.
"""

from __future__ import annotations

from tang_verified.semantics.build import canonical, conjuncts, from_linear, linear
from tang_verified.semantics.terms import Fold, Op, Term, Var, children, free_vars, reads, sort_of, substitute


def propose_map(a: Fold, b: Fold) -> tuple[Term, ...] | None:
    """One term over a's axes for each axis of b, or None."""
    holes = {axis.name for axis in b.axes}
    own = frozenset(axis.name for axis in a.axes)
    found: dict[str, Term] = {}
    for f, g in zip(a.body, b.body, strict=True):
        _walk(g, f, holes, found, own, parts=False)
    for allowed in (own, None):
        for f, g in zip(a.body, b.body, strict=True):
            _walk(g, f, holes, found, allowed)
            _by_reads(g, f, holes, found, allowed)
    for axis in b.axes:  # bodies without an index: a's guard may say  X < extent
        for part in conjuncts(a.guard):
            if axis.name not in found and isinstance(part, Op) and part.name == "lt" and part.args[1] == axis.extent:
                if not free_vars(part.args[0]) & holes:
                    found[axis.name] = part.args[0]
    for position, axis in enumerate(b.axes):  # an axis that no index mentions: the one at the same place, or as long
        if axis.name not in found:
            if len(a.axes) == len(b.axes):
                found[axis.name] = Var(a.axes[position].name)
                continue
            used = frozenset().union(*(free_vars(term) for term in found.values()))
            alike = [x.name for x in a.axes if x.extent == axis.extent and x.name not in used]
            if not alike:
                return None
            found[axis.name] = Var(alike[0])
    return tuple(canonical(found[axis.name]) for axis in b.axes)


def _by_reads(pattern: Term, term: Term, holes: set[str], found: dict[str, Term], allowed: frozenset[str] | None) -> None:
    """Factors may stand in another order: what is left is guessed from reads of the same tensor, place by place."""
    theirs = reads(term)
    for wanted in reads(pattern):
        for have in theirs:
            if have.tensor == wanted.tensor:
                for p, t in zip(wanted.index, have.index, strict=True):
                    if free_vars(p) & (holes - set(found)):
                        _solve(p, t, holes, found, allowed)


def _walk(
    pattern: Term, term: Term, holes: set[str], found: dict[str, Term], allowed: frozenset[str] | None, *, parts: bool = True
) -> None:  # fmt: skip
    """`parts`: also of quotients and remainders."""
    if not free_vars(pattern) & (holes - set(found)):
        return
    if sort_of(pattern) == "int" and sort_of(term) == "int":
        _solve(pattern, term, holes, found, allowed)
    if isinstance(term, Op) and term.name == "select" and not (isinstance(pattern, Op) and pattern.name == "select"):
        _walk(pattern, term.args[1], holes, found, allowed, parts=parts)
        return
    if isinstance(pattern, Op) and pattern.name == "select" and not (isinstance(term, Op) and term.name == "select"):
        _walk(pattern.args[1], term, holes, found, allowed, parts=parts)
        return
    if isinstance(pattern, Fold) and isinstance(term, Fold) and len(pattern.axes) == len(term.axes):
        names: dict[str, Term] = {p.name: Var(t.name) for p, t in zip(pattern.axes, term.axes, strict=True)}
        for p, t in zip(pattern.body, term.body, strict=False):
            _walk(substitute(p, names), t, holes, found, allowed, parts=parts)
        return
    same_head = type(pattern) is type(term) and getattr(pattern, "name", getattr(pattern, "tensor", None)) == getattr(
        term, "name", getattr(term, "tensor", None)
    )
    if not parts and isinstance(pattern, Op) and pattern.name in ("floordiv", "mod"):
        return
    if same_head and not isinstance(pattern, (Var, Fold)):
        for p, t in zip(children(pattern), children(term), strict=False):
            _walk(p, t, holes, found, allowed, parts=parts)


def _solve(pattern: Term, term: Term, holes: set[str], found: dict[str, Term], allowed: frozenset[str] | None) -> None:
    """pattern = ±h + rest with one unknown hole h: h = ±(term - rest)."""
    parts, constant = linear(pattern)
    unknown = [atom for atom in parts if isinstance(atom, Var) and atom.name in holes and atom.name not in found]
    if len(unknown) != 1 or abs(parts[unknown[0]]) != 1:
        return
    hole = unknown[0]
    rest = from_linear({atom: c for atom, c in parts.items() if atom != hole}, constant)
    rest = substitute(rest, dict(found))
    if free_vars(rest) & holes:
        return
    difference = Op("sub", (term, rest)) if parts[hole] == 1 else Op("sub", (rest, term))
    guess = canonical(difference)
    if allowed is None or free_vars(guess) & allowed:
        found[hole.name] = guess
