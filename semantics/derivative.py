"""What a derivative is: arithmetic over dual numbers, term by term, and the same slope as a sum over what is read.

    slope(term, of)   the slope of the term when each real read r has slope of(r)       (forward: dual numbers)
    sites(term)       (axes, conditions, weight, read), so that  slope = Σ_sites Σ_axes [conditions] weight · of(read)

The rules, with f' for the slope of f:

    f(a, b)           f_a·a' + f_b·b', the partials in `PARTIALS`; what is constant has slope 0, whatever its partial
    c ? a : b         c ? a' : b'                     the branch not taken contributes nothing
    Σ_j f             Σ_j f'
    max_j f           Σ_j [f = M] f' / N              M = max_j f, N = Σ_j [f = M]: ties share evenly; min alike
    ⊕_j f             Σ_j ∂(f ⊕ R_j)/∂f · f'          R_j = ⊕ over all but j; where ⊕ does not commute, ∂(P_j ⊕ f ⊕ S_j)/∂f

At a pole of the slope that is no pole of the function (sqrt and x^¾ at 0, asin at 1; log at 0 as well) the slope is stated
as 0, so that a norm has the subgradient 0 at 0. max(a, b) and |a| share ties evenly as well. Sources: Griewank and Walther,
Evaluating Derivatives (SIAM 2008), table 2.3 and section 3.2 for the arithmetic; NIST DLMF 4.7, 4.20, 4.24, 4.34, 7.2 for
the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import Def
from tang_verified.semantics.sets import is_affine
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    MIN,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    IllFormed,
    Op,
    Read,
    Sym,
    Term,
    Var,
    children,
    combine,
    fill,
    free_vars,
    rename_apart,
    sort_of,
    substitute,
)  # fmt: skip

HALF, TWO = Const(Fraction(1, 2)), Const(Fraction(2))
MINUS = Op("neg", (REAL_ONE,))
ERF = Const(Fraction(1.1283791670955126))  # 2/√π, rounded to the nearest float64


def _plus(a: Term, b: Term) -> Term:
    return b if a == REAL_ZERO else a if b == REAL_ZERO else Op("add", (a, b))


def times(a: Term, b: Term) -> Term:
    """a·b; a constant 0 here means that nothing is there, which stays nothing even beside an infinity."""
    if REAL_ZERO in (a, b):
        return REAL_ZERO
    if MINUS in (a, b):
        return _minus(b if a == MINUS else a)
    return b if a == REAL_ONE else a if b == REAL_ONE else Op("mul", (a, b))


def _minus(a: Term) -> Term:
    return a.args[0] if isinstance(a, Op) and a.name == "neg" else Op("neg", (a,))


def _over(a: Term, b: Term) -> Term:
    return Op("div", (a, b))


def _square(a: Term) -> Term:
    return Op("mul", (a, a))


def _order(a: Term, b: Term, low: Term, high: Term) -> Term:
    """`low` where a < b, `high` where b < a, half and half where they are equal."""
    middle = REAL_ZERO if low == _minus(high) else HALF  # of −1 and 1, or of 0 and 1
    return Op("select", (Op("lt", (a, b)), low, Op("select", (Op("lt", (b, a)), high, middle))))


def _of_circle(a: Term) -> Term:
    """1 / √(1 − a²), and 0 at the poles."""
    return Op("div0", (REAL_ONE, Op("sqrt", (Op("sub", (REAL_ONE, _square(a))),))))


def _flat_or_pole(a: Term, b: Term) -> Term:
    """b = 0, or a = 0 with b < 1: aᵇ is constant, or its slope has a pole."""
    return Op("or", (Op("eq", (b, REAL_ZERO)), Op("and", (Op("eq", (a, REAL_ZERO)), Op("lt", (b, REAL_ONE))))))


# name -> the partials in the arguments, from the arguments and the value itself
PARTIALS: dict[str, Callable[..., tuple[Term, ...]]] = {
    "add": lambda a, b, f: (REAL_ONE, REAL_ONE),
    "sub": lambda a, b, f: (REAL_ONE, _minus(REAL_ONE)),
    "sub0": lambda a, b, f: (REAL_ONE, _minus(REAL_ONE)),
    "mul": lambda a, b, f: (b, a),
    "div": lambda a, b, f: (_over(REAL_ONE, b), _minus(_over(f, b))),
    "div0": lambda a, b, f: (Op("div0", (REAL_ONE, b)), _minus(Op("div0", (f, b)))),
    "neg": lambda a, f: (_minus(REAL_ONE),),
    "abs": lambda a, f: (_order(a, REAL_ZERO, _minus(REAL_ONE), REAL_ONE),),
    "max": lambda a, b, f: (_order(a, b, REAL_ZERO, REAL_ONE), _order(a, b, REAL_ONE, REAL_ZERO)),
    "min": lambda a, b, f: (_order(a, b, REAL_ONE, REAL_ZERO), _order(a, b, REAL_ZERO, REAL_ONE)),
    "exp": lambda a, f: (f,),
    "expm1": lambda a, f: (Op("exp", (a,)),),
    "log": lambda a, f: (Op("div0", (REAL_ONE, a)),),
    "log1p": lambda a, f: (Op("div0", (REAL_ONE, Op("add", (REAL_ONE, a)))),),
    "sqrt": lambda a, f: (Op("div0", (HALF, f)),),
    "rsqrt": lambda a, f: (Op("mul", (Const(Fraction(-1, 2)), Op("mul", (f, _square(f))))),),
    "sin": lambda a, f: (Op("cos", (a,)),),
    "cos": lambda a, f: (_minus(Op("sin", (a,))),),
    "tan": lambda a, f: (Op("add", (REAL_ONE, _square(f))),),
    "tanh": lambda a, f: (Op("sub", (REAL_ONE, _square(f))),),
    "sinh": lambda a, f: (Op("cosh", (a,)),),
    "cosh": lambda a, f: (Op("sinh", (a,)),),
    "asin": lambda a, f: (_of_circle(a),),
    "acos": lambda a, f: (_minus(_of_circle(a)),),
    "atan": lambda a, f: (_over(REAL_ONE, Op("add", (REAL_ONE, _square(a)))),),
    "erf": lambda a, f: (Op("mul", (ERF, Op("exp", (_minus(_square(a)),)))),),
    "pow": lambda a, b, f: (
        Op("select", (_flat_or_pole(a, b), REAL_ZERO, Op("mul", (b, Op("pow", (a, Op("sub", (b, REAL_ONE)))))))),
        Op("select", (Op("lt", (REAL_ZERO, a)), Op("mul", (f, Op("log", (a,)))), REAL_ZERO)),
    ),
    **dict.fromkeys(("floor", "ceil", "round"), lambda a, f: (REAL_ZERO,)),
}  # fmt: skip


# What the table above takes for granted of each operation, by the name that certificates give it; with the source.
SLOPES: dict[str, str] = {
    "slope/arithmetic": "(a+b)' = a'+b', (ab)' = a'b+ab', (a/b)' = a'/b - (a/b)b'/b, constants and integers 0"
    " (Griewank and Walther 2008, table 2.3)",
    "slope/ties": "max, min and |x| share the slope evenly where their arguments are equal (a convention)",
    "slope/pole": "the slope of sqrt and log at 0, of log1p at -1 and of x /0 y at y = 0 is 0 (a convention)",
    "slope/exp": "exp' = exp (DLMF 4.7.7)",
    "slope/expm1": "expm1' = exp (DLMF 4.7.7)",
    "slope/log": "log'(x) = 1/x (DLMF 4.7.1)",
    "slope/log1p": "log1p'(x) = 1/(1+x) (DLMF 4.7.1)",
    "slope/sqrt": "sqrt'(x) = 1/(2 sqrt x) (DLMF 4.7.11)",
    "slope/rsqrt": "rsqrt'(x) = -rsqrt(x)^3/2 (DLMF 4.7.11)",
    "slope/pow": "(a^b)' = b a^(b-1) a' + a^b log(a) b', the second part for a > 0 (DLMF 4.7.10 and 4.7.11)",
    "slope/sin": "sin' = cos (DLMF 4.20.1)",
    "slope/cos": "cos' = -sin (DLMF 4.20.2)",
    "slope/tan": "tan' = 1 + tan^2 (DLMF 4.20.3)",
    "slope/asin": "asin'(x) = 1/sqrt(1-x^2) (DLMF 4.24.7)",
    "slope/acos": "acos'(x) = -1/sqrt(1-x^2) (DLMF 4.24.8)",
    "slope/atan": "atan'(x) = 1/(1+x^2) (DLMF 4.24.9)",
    "slope/sinh": "sinh' = cosh (DLMF 4.34.1)",
    "slope/cosh": "cosh' = sinh (DLMF 4.34.2)",
    "slope/tanh": "tanh' = 1 - tanh^2 (DLMF 4.34.3)",
    "slope/erf": "erf'(x) = 2/sqrt(pi) exp(-x^2), the constant rounded to float64 (DLMF 7.2.1)",
    "slope/step": "floor, ceil and round have slope 0",
}
_GROUPS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "neg", "real", "select"), ("slope/arithmetic",)),
    **dict.fromkeys(("sub0", "div0"), ("slope/arithmetic", "slope/pole")),
    **dict.fromkeys(("max", "min", "abs"), ("slope/ties",)),
    **dict.fromkeys(("floor", "ceil", "round"), ("slope/step",)),
    **{name: (f"slope/{name}", "slope/pole") for name in ("log", "log1p", "sqrt")},
}


def axioms(term: Term) -> frozenset[str]:
    """The names in `SLOPES` of what a term's slope takes for granted."""
    own: tuple[str, ...] = ()
    if isinstance(term, Op) and sort_of(term) == "real":
        own = _GROUPS.get(term.name, (f"slope/{term.name}",))
    elif isinstance(term, Fold) and sort_of(term) == "real":
        own = ("slope/ties",) if term.monoid in (MAX, MIN) else ("slope/arithmetic",)
    return frozenset(own).union(*(axioms(part) for part in children(term)))


def partials(term: Op) -> tuple[Term, ...]:
    """∂term/∂argument for each argument: 0 for one that is no real."""
    if term.name == "real":
        return (REAL_ZERO,)
    if term.name not in PARTIALS:
        raise IllFormed(f"{term.name} has no derivative here")
    return PARTIALS[term.name](*term.args, term)


# -- one layer: a scalar body over reads and folds ------------------------------------------------------------------


def scalar_slope(term: Term, of: Callable[[Term], Term]) -> Term:
    """The dual number's second part, by forward accumulation; `of` gives that of a read, fold or placeholder."""
    match term:
        case _ if sort_of(term) != "real":
            return REAL_ZERO
        case Read() | Fold() | Sym():
            return of(term)
        case Op("select", (c, a, b)):
            x, y = scalar_slope(a, of), scalar_slope(b, of)
            return x if x == y == REAL_ZERO else Op("select", (c, x, y))
        case Op(_, args):
            total: Term = REAL_ZERO
            for arg, partial in zip(args, partials(term), strict=True):
                total = _plus(total, times(partial, scalar_slope(arg, of)))
            return total
        case _:
            return REAL_ZERO


@dataclass(frozen=True, slots=True)
class Weighted:
    """An atom of a scalar body, where it stands: under `conditions`, its slope times `weight` goes into the body's."""

    atom: Term
    conditions: tuple[Term, ...]
    weight: Term


def scalar_weights(term: Term, weight: Term = REAL_ONE, conditions: tuple[Term, ...] = ()) -> Iterator[Weighted]:
    """Each real read, fold and placeholder of a scalar body, its weight by reverse accumulation."""
    match term:
        case _ if sort_of(term) != "real" or weight == REAL_ZERO:
            return
        case Read() | Fold() | Sym():
            yield Weighted(term, conditions, weight)
        case Op("select", (c, a, b)):
            yield from scalar_weights(a, weight, (*conditions, c))
            yield from scalar_weights(b, weight, (*conditions, Op("not", (c,))))
        case Op(_, args):
            for arg, partial in zip(args, partials(term), strict=True):
                yield from scalar_weights(arg, times(weight, partial), conditions)


# -- folds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lifted:
    """How a fold's slope is made of its elements': Σ over its axes of [conditions] Σ_fields weight · slope of the field."""

    fold: Fold  # its axes renamed apart from what is around it
    conditions: tuple[Term, ...]
    weights: tuple[Term, ...]


def lifted(fold: Fold, taken: frozenset[str]) -> Lifted:
    """The rules above for folds. `taken`: names that its axes must not bear."""
    fold = rename_apart(fold, taken)
    monoid, axes = fold.monoid, fold.axes
    around = taken | {axis.name for axis in axes} | free_vars(fold)
    if monoid == ADD:
        return Lifted(fold, (), (REAL_ONE,))
    if monoid in (MAX, MIN):
        extreme = rename_apart(fold, around)
        tie = Op("eq", (fold.body[0], extreme))
        again = rename_apart(fold, around | {axis.name for axis in extreme.axes})
        deep = rename_apart(fold, around | {axis.name for axis in (*extreme.axes, *again.axes)})
        one = Op("select", (Op("eq", (again.body[0], deep)), REAL_ONE, REAL_ZERO))
        return Lifted(fold, (tie,), (_over(REAL_ONE, Fold(ADD, again.axes, again.guard, (one,))),))
    element = tuple(Sym(f"b{k}", sort_of(t)) for k, t in enumerate(monoid.identity))
    if monoid.commutative:
        state = combine(monoid, _others(fold, around, "rest"), element)
    else:
        state = combine(monoid, combine(monoid, _others(fold, around, "before"), element), _others(fold, around, "after"))
    found: dict[Term, Term] = {}
    for part in scalar_weights(state[fold.component]):
        if isinstance(part.atom, Sym):
            weight = part.weight
            for condition in part.conditions:
                weight = Op("select", (condition, weight, REAL_ZERO))
            found[part.atom] = _plus(found.get(part.atom, REAL_ZERO), weight)
    values = {sym.name: body for sym, body in zip(element, fold.body, strict=True)}
    return Lifted(fold, (), tuple(fill(found.get(sym, REAL_ZERO), values) for sym in element))


def _others(fold: Fold, around: frozenset[str], which: str) -> tuple[Term, ...]:
    """The state folded over all elements but the one at the fold's axes, or over those before or after it."""
    other = rename_apart(fold, around)
    here, there = ([Var(axis.name) for axis in x.axes] for x in (fold, other))
    if which == "rest":
        apart: Term = Op("not", (_both([Op("eq", (a, b)) for a, b in zip(here, there, strict=True)]),))
    else:
        pairs = list(zip(there, here, strict=True) if which == "before" else zip(here, there, strict=True))
        apart = Const(False)
        for number, (a, b) in enumerate(pairs):
            apart = Op("or", (apart, _both([*(Op("eq", pair) for pair in pairs[:number]), Op("lt", (a, b))])))
    guard = _both([other.guard, apart])
    return tuple(Fold(fold.monoid, other.axes, guard, other.body, k) for k in range(len(other.body)))


def _both(conditions: list[Term]) -> Term:
    out: Term = TRUE
    for condition in conditions:
        out = condition if out == TRUE else Op("and", (out, condition))
    return out


# -- whole terms ----------------------------------------------------------------------------------------------------


def slope(term: Term, of: Callable[[Read], Term], taken: frozenset[str] = frozenset()) -> Term:
    """The slope of a term when each real read r has slope of(r). `taken`: names bound around the term."""
    taken = taken | free_vars(term)

    def atom(part: Term) -> Term:
        if isinstance(part, Read):
            return of(part)
        if not isinstance(part, Fold):
            return REAL_ZERO
        here = lifted(part, taken)
        inner = taken | {axis.name for axis in here.fold.axes}
        body: Term = REAL_ZERO
        for field, weight in zip(here.fold.body, here.weights, strict=True):
            body = _plus(body, times(weight, slope(field, of, inner)))
        if body == REAL_ZERO:
            return REAL_ZERO
        for condition in here.conditions:
            body = Op("select", (condition, body, REAL_ZERO))
        return Fold(ADD, here.fold.axes, here.fold.guard, (body,))

    return scalar_slope(term, atom)


@dataclass(frozen=True, slots=True)
class Site:
    """One place where a term reads: the term's slope has Σ over `axes` of [guard and conditions] weight · slope of the read."""

    axes: tuple[Axis, ...]
    guards: tuple[Term, ...]  # of folds
    conditions: tuple[Term, ...]  # of selects and ties
    weight: Term
    read: Read


def sites(term: Term, taken: frozenset[str] = frozenset()) -> list[Site]:
    """Every site, in order. `taken`: names that are bound around the term."""
    out: list[Site] = []

    def walk(term: Term, weight: Term, axes: tuple[Axis, ...], guards: tuple[Term, ...], conditions: tuple[Term, ...]) -> None:
        for part in scalar_weights(term, weight, conditions):
            if isinstance(part.atom, Read):
                out.append(Site(axes, guards, part.conditions, part.weight, part.atom))
            elif isinstance(part.atom, Fold):
                around = taken | free_vars(part.atom) | {axis.name for axis in axes}
                here = lifted(part.atom, around)
                own = guards if here.fold.guard == TRUE else (*guards, here.fold.guard)
                for field, own_weight in zip(here.fold.body, here.weights, strict=True):
                    walk(field, times(part.weight, own_weight), (*axes, *here.fold.axes), own,
                         (*part.conditions, *here.conditions))  # fmt: skip

    walk(term, REAL_ONE, (), (), ())
    return out


# -- transposed -----------------------------------------------------------------------------------------------------


def contribution(d: Def, cotangent: str, site: Site, index: tuple[Term, ...]) -> Fold:
    """What a site of definition d gives to the gradient at `index` of the tensor that it reads:

        Σ over d's axes i and the site's axes of  [read index = index] cotangent[i] · weight

    d's axes and the site's must not occur in `index`. An axis that is itself an index of the read takes that value.
    """
    axes = [Axis(name, extent) for name, extent in zip(d.axes, d.tensor.shape, strict=True)] + list(site.axes)
    conditions: list[Term] = [*site.guards, *site.conditions]
    weight = times(Read(cotangent, tuple(Var(name) for name in d.axes), "real"), site.weight)
    read = site.read.index
    known: dict[str, Term] = {}
    for place, wanted in zip(read, index, strict=True):
        alone = next((x for x in axes if place == Var(x.name) and x.name not in known), None)
        if alone is None:
            conditions.append(Op("eq", (place, wanted)))
        else:
            known[alone.name] = wanted
            conditions += [Op("le", (ZERO, wanted)), Op("lt", (wanted, alone.extent))]
    left = tuple(Axis(x.name, canonical(substitute(x.extent, known))) for x in axes if x.name not in known)
    body = substitute(weight, known)
    shown = [canonical(substitute(c, known)) for c in conditions]
    for condition in sorted((c for c in shown if c != TRUE), key=is_affine):  # the affine ones outermost
        body = Op("select", (condition, body, REAL_ZERO))
    return Fold(ADD, left, TRUE, (body,))


__all__ = [
    "PARTIALS", "SLOPES", "Lifted", "Site", "Weighted", "axioms", "contribution", "lifted", "partials", "scalar_slope",
    "scalar_weights", "sites", "slope", "times",
]  # fmt: skip
