"""When equal values mean equal slopes: what may be rewritten before a derivative is written out.

Equal functions have equal derivatives, but the semantics states slopes at kinks and poles term by term, and what is equal
under a condition need not be equal around it: where(x = 1, x·y, y) has the slope y at 1, though x·y = y there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    MIN,
    REAL_ZERO,
    Const,
    Fold,
    Op,
    Term,
    alpha,
    children,
    reads,
    rebuild,
    sort_of,
)  # fmt: skip

SMOOTH = frozenset(
    "add sub sub0 mul div neg exp expm1 sin cos tan tanh sinh cosh atan erf real".split()
)  # analytic wherever they are finite
TOTAL = frozenset("add sub sub0 mul neg abs max min exp expm1 sin cos tanh sinh cosh atan erf real".split())  # no poles


def keeps_slope(rule: str, before: Term, after: Term, facts: Sequence[Term]) -> bool:
    """Whether equal values of the two terms, shown by a rule under these facts, mean equal derivatives.

    They do between functions that are analytic where they are finite: max and |x| share ties, which another way to write
    the same value may not; log, sqrt and x /0 y have a stated slope at 0. A maximum over a fold may stay as it is, a
    variable to the prover. A fact that is an equation of reals holds at no open set, and there nothing follows.
    """
    if not all(is_open(fact) for fact in facts):
        return False
    if _extremes(after) <= _extremes(before) and smooth(before) and smooth(after):
        return True
    same = alpha(canonical(_plain(before))) == alpha(canonical(_plain(after)))
    return same or (rule == "distribute" and _factors(before) == _factors(after))


def smooth(term: Term) -> bool:
    """Whether a term is analytic in what it reads and in the maxima that it holds, wherever these and it are finite."""
    if sort_of(term) != "real":
        return is_open(term)
    if isinstance(term, Fold) and term.monoid != ADD:
        return term.monoid in (MAX, MIN) or not _reads_reals(term)
    if isinstance(term, Op):
        divides = term.name == "div0" and isinstance(term.args[1], Const) and term.args[1] != REAL_ZERO
        if not (divides or term.name in ("select", *SMOOTH)):
            return False
    return all(smooth(part) for part in children(term))


def is_open(condition: Term) -> bool:
    """Whether a condition reads no reals, or tells only finite values from others, which have no derivative."""
    match condition:
        case Op("and" | "or" | "not", args):
            return all(is_open(arg) for arg in args)
        case Op("eq" | "ne", (a, b)) if sort_of(a) == "real":
            tells = a == b or any(isinstance(side, Const) and isinstance(side.value, str) for side in (a, b))
            return tells and _total(a) and _total(b)
        case _:
            return not _reads_reals(condition)


def _total(term: Term) -> bool:
    """Whether a term is finite wherever what it reads is, but for masks: log x = −∞ would say that x = 0."""
    match term:
        case Fold(monoid, _, _, body, _):
            return monoid in (ADD, MAX, MIN) and all(map(_total, body))
        case Op("select", (c, a, b)):
            return is_open(c) and _total(a) and _total(b)
        case Op("div" | "div0", (a, b)):
            return _total(a) and not _reads_reals(b)
        case Op(name, args) if _reads_reals(term):
            return name in TOTAL and all(map(_total, args))
        case _:
            return True


def _reads_reals(term: Term) -> bool:
    return any(read.sort == "real" for read in reads(term))


def _extremes(term: Term) -> frozenset[Term]:
    """The maxima and minima over folds that a term holds."""
    own = frozenset((alpha(canonical(term)),)) if isinstance(term, Fold) and term.monoid in (MAX, MIN) else frozenset()
    return own or own.union(*(_extremes(part) for part in children(term)))


def _plain(term: Term) -> Term:
    """The term with the convention of empty rows left out: where it decides, the two values differ."""
    parts = tuple(_plain(part) for part in children(term))
    if isinstance(term, Op) and term.name in ("div0", "sub0"):
        return Op(term.name[:3], parts)
    return rebuild(term, parts) if parts else term


def _factors(term: Term) -> Counter[tuple[str, Term]]:
    """A product's factors and divisors, whatever they are, in front of a sum or in it: Σ_j x_j / s and (Σ_j x_j) / s agree."""
    match term:
        case Op("mul", (a, b)):
            return _factors(a) + _factors(b)
        case Op("div" | "div0" as name, (a, b)):
            return _factors(a) + Counter([(name, alpha(canonical(b)))])
        case Op("neg", (a,)):
            return _factors(a) + Counter([("neg", REAL_ZERO)])
        case Fold(monoid, axes, guard, (body,), 0) if monoid == ADD:
            bare = Fold(ADD, axes, guard, (REAL_ZERO,))
            return _factors(body) + Counter([("sum", alpha(canonical(bare)))])
        case _:
            return Counter([("mul", alpha(canonical(term)))])


__all__ = ["is_open", "keeps_slope", "smooth"]
