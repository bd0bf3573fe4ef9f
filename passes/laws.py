"""Laws of extended reals that hold for all values, −∞, +∞ and nan included, so they are applied together and proved once.

    x + 0, 0 + x, x − 0, x·1, 1·x, x/1, −(−x)   ->  x        x + (−y)  ->  x − y        x − (−y)  ->  x + y
    (c ? x : x)                                 ->  x        (¬c ? x : y)  ->  (c ? y : x)
    (c ? … (c ? x : y) … : z)                   ->  (c ? … x … : z), and y in place of it under the other branch
    x + x                                       ->  2·x
    f(nan, y), f(x, nan)                        ->  nan      f((c ? nan : x), y)  ->  (c ? nan : f(x, y))
    f((c ? a : b), (c ? x : y))                 ->  (c ? f(a, x) : f(b, y))
    −(g ? x : 0)                                ->  (g ? −x : 0)
    exp(−∞), exp(0), trunc(real(n)), real(3)    ->  0, 1, n, 3
    2 + 3, 2 − 3, 2·3, max(2, 3), …             ->  exact rationals (division by constants stays division)

x·0 -> 0 is not here: it fails for infinite x. Folds are left as they are; conditions count as equal when they are one term.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tang_verified.semantics.terms import (
    FALSE,
    NAN,
    NEG_INF,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    Const,
    Fold,
    Op,
    Read,
    Term,
    alpha,
    children,
    rebuild,
    sort_of,
)  # fmt: skip

# f(nan, …) = nan. Not select; not the comparisons, which are false.
STRICT = frozenset(("add", "sub", "sub0", "mul", "div", "div0", "neg", "abs", "max", "min", "exp", "log", "sqrt", "rsqrt"))
EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": max, "min": min,
}  # fmt: skip
UNITS = {"add": REAL_ZERO, "sub": REAL_ZERO, "mul": REAL_ONE, "div": REAL_ONE, "max": NEG_INF}  # f(x, unit) = x
Known = tuple[tuple[Term, bool], ...]  # conditions above, and which branch this is


def normal(term: Term) -> Term:
    """The term with the laws applied until none does, outside folds."""
    return _walk(term, ())


def _walk(term: Term, known: Known) -> Term:
    if isinstance(term, (Fold, Read)):
        return term
    if isinstance(term, Op) and term.name == "select":
        for condition, branch in known:
            if alpha(condition) == alpha(term.args[0]):
                return _walk(term.args[1 if branch else 2], known)
        c, a, b = term.args
        fresh: tuple[Term, ...] = (_walk(c, known), _walk(a, (*known, (c, True))), _walk(b, (*known, (c, False))))
    else:
        fresh = tuple(_walk(part, known) for part in children(term))
    node = rebuild(term, fresh)
    new = law(node) if isinstance(node, Op) else None
    return node if new is None else _walk(new, known)


def law(term: Op) -> Term | None:
    """One law at the root, or None."""
    match term:
        case Op("select", (c, a, b)):
            return _select(c, a, b)
        case Op("trunc", (Op("real", (n,)),)):
            return n
        case Op("real", (Const(value),)) if isinstance(value, int):
            return Const(Fraction(value))
    if sort_of(term) != "real" or term.name not in STRICT:
        return None
    if NAN in term.args:
        return NAN
    match term.args:
        case (Op("select", (c, a, b)), Op("select", (d, x, y))) if alpha(c) == alpha(d):
            return Op("select", (c, Op(term.name, (a, x)), Op(term.name, (b, y))))
    for number, arg in enumerate(term.args):
        match arg:
            case Op("select", (c, a, x)) if a == NAN:
                return Op("select", (c, NAN, Op(term.name, (*term.args[:number], x, *term.args[number + 1 :]))))
    return _arithmetic(term)


def _select(c: Term, a: Term, b: Term) -> Term | None:
    if c in (TRUE, FALSE):
        return a if c == TRUE else b
    if alpha(a) == alpha(b):
        return a
    match c:
        case Op("not", (d,)):
            return Op("select", (d, b, a))
    return None


def _arithmetic(term: Op) -> Term | None:
    name, args = term.name, term.args
    unit = UNITS.get(name)
    if len(args) == 2 and args[1] == unit:
        return args[0]
    if len(args) == 2 and args[0] == unit and name in ("add", "mul", "max"):
        return args[1]
    match term:
        case Op(_, (Const(x), Const(y))) if name in EXACT and isinstance(x, Fraction) and isinstance(y, Fraction):
            return Const(EXACT[name](x, y))
        case Op("neg", (Op("neg", (x,)),)):
            return x
        case Op("neg", (Const(x),)) if isinstance(x, Fraction):
            return Const(-x)
        case Op("neg", (Op("select", (g, x, z)),)) if z == REAL_ZERO:
            return Op("select", (g, Op("neg", (x,)), z))
        case Op("add", (x, Op("neg", (y,)))):
            return Op("sub", (x, y))
        case Op("add", (x, y)) if alpha(x) == alpha(y):
            return Op("mul", (Const(Fraction(2)), x))
        case Op("sub", (x, Op("neg", (y,)))):
            return Op("add", (x, y))
        case Op("exp", (x,)) if x in (NEG_INF, REAL_ZERO):
            return REAL_ZERO if x == NEG_INF else REAL_ONE
    return None
