"""Helpers that build terms and simplify what is obvious on integers and booleans (never on reals)."""

from __future__ import annotations

from fractions import Fraction

from tang_verified.semantics.terms import FALSE, TRUE, Const, Op, Term, Var, children, once, rebuild, sort_of

Linear = tuple[tuple[tuple[Term, int], ...], int]  # Σ coefficient·atom + constant
NEAR = 2**20  # a negative constant below // or % may become one of this size


def integer(value: int) -> Const:
    return Const(value)


def real(value: float | int | Fraction) -> Const:
    """A real constant; floats are taken exactly, and infinities by name."""
    if isinstance(value, float):
        if value != value:
            return Const("nan")
        if value in (float("inf"), float("-inf")):
            return Const("inf" if value > 0 else "-inf")
    return Const(Fraction(value))


def linear(term: Term) -> tuple[dict[Term, int], int]:
    """An int term as Σ c·atom + k; atoms are whatever is not +, -, negation or multiplication by a constant."""
    match term:
        case Const(value) if isinstance(value, int):
            return {}, int(value)
        case Op("add" | "sub" as name, (a, b)):
            left, k = linear(a)
            right, m = linear(b)
            sign = 1 if name == "add" else -1
            total = dict(left)
            for atom, c in right.items():
                total[atom] = total.get(atom, 0) + sign * c
            return {atom: c for atom, c in total.items() if c}, k + sign * m
        case Op("neg", (a,)):
            part, k = linear(a)
            return {atom: -c for atom, c in part.items()}, -k
        case Op("mul", (a, b)):
            left, k = linear(a)
            right, m = linear(b)
            if not left:
                return ({atom: k * c for atom, c in right.items()} if k else {}), k * m
            if not right:
                return ({atom: m * c for atom, c in left.items()} if m else {}), k * m
            return {term: 1}, 0
        case _:
            return {term: 1}, 0


def from_linear(parts: dict[Term, int], constant: int) -> Term:
    """The canonical int term of a linear form: atoms ordered by their printed shape, constant last."""
    out: Term | None = None
    for atom in sorted(parts, key=repr):
        c = parts[atom]
        piece: Term = atom if c == 1 else Op("mul", (Const(c), atom))
        out = piece if out is None else Op("add", (out, piece))
    if out is None:
        return Const(constant)
    return out if constant == 0 else Op("add", (out, Const(constant)))


@once("_canonical")
def canonical(term: Term) -> Term:
    """Put every int subterm into canonical linear form and fold constants in int // and %, comparisons and booleans.

    Real operations are left as they are. Integer identities only: valid for all values.
    """
    parts = children(term)
    fresh = tuple(map(canonical, parts))
    return _canonical_node(term if all(a is b for a, b in zip(fresh, parts, strict=True)) else rebuild(term, fresh))


def _canonical_node(node: Term) -> Term:
    if not isinstance(node, Op):
        return node
    name, args = node.name, node.args
    if name in ("add", "sub", "mul", "neg") and sort_of(node) == "int":
        return from_linear(*linear(node))
    if name in ("floordiv", "mod"):
        return _divide(name, args[0], args[1])
    if name in ("max", "min") and sort_of(node) == "int" and all(isinstance(a, Const) for a in args):
        return Const((max if name == "max" else min)(int(args[0].value), int(args[1].value)))  # type: ignore[union-attr]
    if name in ("lt", "le", "eq", "ne") and sort_of(args[0]) == "int":
        parts, k = linear(Op("sub", args))
        if not parts:
            return Const({"lt": k < 0, "le": k <= 0, "eq": k == 0, "ne": k != 0}[name])
        return node
    if name == "and":
        if FALSE in args:
            return FALSE
        rest = [a for a in args if a != TRUE]
        return TRUE if not rest else rest[0] if len(rest) == 1 or rest[0] == rest[1] else node
    if name == "or":
        if TRUE in args:
            return TRUE
        rest = [a for a in args if a != FALSE]
        return FALSE if not rest else rest[0] if len(rest) == 1 or rest[0] == rest[1] else node
    if name == "not" and isinstance(args[0], Const):
        return Const(not args[0].value)
    if name == "select":
        if args[0] == TRUE or args[1] == args[2]:
            return args[1]
        if args[0] == FALSE:
            return args[2]
    return node


def _divide(name: str, a: Term, b: Term) -> Term:
    if not (isinstance(b, Const) and isinstance(b.value, int) and b.value > 0):
        return Op(name, (a, b))
    d = b.value
    parts, k = linear(a)
    # (d·q + r) // d = q + r // d and (d·q + r) % d = r % d hold for all integers q, r when d > 0.
    whole = {atom: c // d for atom, c in parts.items() if c % d == 0}
    rest = {atom: c for atom, c in parts.items() if c % d}
    if not rest:
        return from_linear(whole, k // d) if name == "floordiv" else Const(k % d)
    if d == 1:
        return from_linear(parts, k) if name == "floordiv" else Const(0)
    left = k % d if k >= 0 or k % d <= NEAR else -(-k % d)  # not 2147483646 for -1: it would have to fit into an index, too
    remainder = from_linear(rest, left)
    if name == "mod":
        return Op("mod", (remainder, b))
    inner = Op("floordiv", (remainder, b))
    out, extra = dict(whole), (k - left) // d
    out[inner] = out.get(inner, 0) + 1
    return from_linear(out, extra)


def iadd(a: Term, b: Term) -> Term:
    return canonical(Op("add", (a, b)))


def isub(a: Term, b: Term) -> Term:
    return canonical(Op("sub", (a, b)))


def imul(a: Term, b: Term | int) -> Term:
    return canonical(Op("mul", (a, Const(b) if isinstance(b, int) else b)))


def floordiv(a: Term, b: int) -> Term:
    return canonical(Op("floordiv", (a, Const(b))))


def mod(a: Term, b: int) -> Term:
    return canonical(Op("mod", (a, Const(b))))


def ceildiv(a: Term, b: int) -> Term:
    return floordiv(iadd(a, Const(b - 1)), b)


def lt(a: Term, b: Term) -> Term:
    return canonical(Op("lt", (a, b)))


def le(a: Term, b: Term) -> Term:
    return canonical(Op("le", (a, b)))


def conj(*terms: Term) -> Term:
    """The conjunction, `true` when there is nothing to say."""
    out: Term = TRUE
    for term in terms:
        out = canonical(Op("and", (out, term)))
    return out


def conjuncts(term: Term) -> list[Term]:
    """What a conjunction says, one by one."""
    if isinstance(term, Op) and term.name == "and":
        return conjuncts(term.args[0]) + conjuncts(term.args[1])
    return [term]


def select(condition: Term, a: Term, b: Term) -> Term:
    return canonical(Op("select", (condition, a, b)))


def op(name: str, *args: Term) -> Term:
    return Op(name, args)


def var(name: str) -> Var:
    return Var(name)
