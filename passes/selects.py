"""An operation on a choice, where the other branch stays what it is; and choices that are already made.

    absorb    (g ? x : 0)·v    ->  (g ? x·v : 0)                  when v is finite
              (g ? x : −∞) + b ->  (g ? x + b : −∞)               when b is not +∞ or nan; so with −, ·, / by constants
              s + (g ? 0 : −∞) ->  (g ? s : −∞)                   additive masks
              [g]·x            ->  (g ? x : 0)                    [g] is a condition as a number; x finite
    merge     (g ? (h ? x : z) : z)  ->  (g ∧ h ? x : z)          when h may be asked where g does not hold
    decide    (g ? x : y)      ->  x  or  y                       when the ranges of the axes decide g
    vanish    x·0, 0·x, 0/x, x − x  ->  0                         when x is finite (0/x: and not 0)
    zero      x −₀ y  ->  x − y,    x /₀ y  ->  x / y             when the empty row cannot occur
"""

from __future__ import annotations

from collections.abc import Iterator

from tang_verified.passes.rule import Place, Proposal
from tang_verified.semantics.build import canonical
from tang_verified.semantics.sets import implies, is_affine
from tang_verified.semantics.terms import NEG_INF, POS_INF, REAL_ZERO, Const, Fold, Op, Read, Term, alpha, children

KEEPS: dict[str, tuple[Term, ...]] = {  # f(z, y) = z for the z named, given the right y
    "mul": (REAL_ZERO, NEG_INF, POS_INF), "div": (REAL_ZERO, NEG_INF, POS_INF), "div0": (REAL_ZERO, NEG_INF, POS_INF),
    "add": (NEG_INF, POS_INF), "sub": (NEG_INF, POS_INF), "sub0": (NEG_INF, POS_INF),
}  # fmt: skip


def absorb(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Op(name, (Op("select", (g, x, z)), y)) if z in KEEPS.get(name, ()) and _plain(name, y, z):
            yield Proposal("pointwise", Op("select", (g, _on(name, x, y), z)), "absorb")
        case Op("mul" | "add" as name, (y, Op("select", (g, x, z)))) if z in KEEPS[name] and _plain(name, y, z):
            yield Proposal("pointwise", Op("select", (g, _on(name, y, x), z)), "absorb")
        case Op("mul", (Op("real", (Op("int", (g,)),)), x)) | Op("mul", (x, Op("real", (Op("int", (g,)),)))):
            yield Proposal("pointwise", Op("select", (g, x, REAL_ZERO)), "absorb")


def _on(name: str, x: Term, y: Term) -> Term:
    if name == "add" and REAL_ZERO in (x, y):
        return y if x == REAL_ZERO else x
    return Op(name, (x, y))


def _plain(name: str, y: Term, z: Term) -> bool:
    """Whether it is worth asking: 0·y for any y, divisions by constants, and −∞ + y for y without exp, division, max."""
    if name in ("div", "div0"):
        return isinstance(y, Const)
    if z == REAL_ZERO:
        return True
    return isinstance(y, Const) if name == "mul" else _polynomial(y)


def _polynomial(term: Term) -> bool:
    match term:
        case Fold(monoid, _, _, (body,), _):
            return monoid.name == "add" and _polynomial(body)
        case Op("add" | "sub" | "mul" | "neg" | "real" | "int", args):
            return all(_polynomial(part) for part in args)
        case Op("div" | "div0", (a, b)):
            return isinstance(b, Const) and _polynomial(a)
        case _:
            return isinstance(term, Read) or not children(term)


def merge(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Op("select", (g, Op("select", (h, x, z)), w)) if z == w and isinstance(z, Const):
            yield Proposal("pointwise", Op("select", (Op("and", (g, h)), x, z)), "merge", moves_reads=True)


def decide(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Op("select", (g, x, y)) if is_affine(g):
            if implies(place.facts(), g):
                yield Proposal("pointwise", x, "decide")
            elif implies(place.facts(), canonical(Op("not", (g,)))):
                yield Proposal("pointwise", y, "decide")


def vanish(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Op("mul", (a, b)) if REAL_ZERO in (a, b):
            yield Proposal("pointwise", REAL_ZERO, "vanish")
        case Op("div" | "div0", (a, _)) if a == REAL_ZERO:
            yield Proposal("pointwise", REAL_ZERO, "vanish")
        case Op("sub", (a, b)) if alpha(a) == alpha(b):
            yield Proposal("pointwise", REAL_ZERO, "vanish")


def zero(term: Term, place: Place) -> Iterator[Proposal]:
    match term:
        case Op("sub0" | "div0" as name, args):
            yield Proposal("pointwise", Op(name[:3], args), "zero")
