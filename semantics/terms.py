"""Terms: the one language of bodies, indices, guards and claims.

    softmax denominator of row i:   Fold(ADD, (j < m), true, exp(s[i, j] - Fold(MAX, (k < m), true, s[i, k])))

A term has a sort: "int" (exact integers: indices, sizes, integer data), "bool", or "real".
"real" means the extended reals: R together with -inf, +inf and nan (see `meaning.py` for each operation's table).
Nodes are frozen data. Constructors check, they never simplify; `build.py` holds the simplifying helpers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from typing import Literal, TypeAlias, TypeVar

Answer = TypeVar("Answer")
Sort: TypeAlias = Literal["int", "bool", "real"]
INFINITIES = ("inf", "-inf", "nan")

# name -> (sorts of the arguments, sort of the result). "num" is int or real, the same for all arguments so marked.
SIGNATURES: dict[str, tuple[tuple[str, ...], str]] = {
    "add": (("num", "num"), "num"),
    "sub": (("num", "num"), "num"),
    "mul": (("num", "num"), "num"),
    "max": (("num", "num"), "num"),
    "min": (("num", "num"), "num"),
    "neg": (("num",), "num"),
    "abs": (("num",), "num"),
    "div": (("real", "real"), "real"),  # x / 0 is nan
    # The two operations of the convention empty="zero": the empty row's -inf - -inf is -inf, and x / 0 is 0.
    "sub0": (("real", "real"), "real"),
    "div0": (("real", "real"), "real"),
    "floordiv": (("int", "int"), "int"),  # rounds towards -inf, as Python's //
    "mod": (("int", "int"), "int"),  # the sign of the divisor, as Python's %
    "real": (("int",), "real"),
    "trunc": (("real",), "int"),
    "int": (("bool",), "int"),
    "lt": (("num", "num"), "bool"),
    "le": (("num", "num"), "bool"),
    "eq": (("num", "num"), "bool"),
    "ne": (("num", "num"), "bool"),
    "and": (("bool", "bool"), "bool"),
    "or": (("bool", "bool"), "bool"),
    "not": (("bool",), "bool"),
    "select": (("bool", "any", "any"), "any"),  # the branch not taken contributes nothing, not even a nan
    "pow": (("real", "real"), "real"),
    **{
        name: (("real",), "real")
        for name in (
            "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh",
            "asin", "acos", "atan", "erf", "floor", "ceil", "round",
        )
    },
}  # fmt: skip


class IllFormed(ValueError):
    """A term, program or kernel that its own grammar does not allow."""


class Node:
    """A frozen term that remembers what was asked of it before, so that shared subterms are walked once."""

    __slots__ = ("_alpha", "_canonical", "_free", "_hash", "_infinite", "_reads", "_sort", "_sound", "_tensors")
    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            fields = tuple(getattr(self, name) for name in self.__dataclass_fields__)  # type: ignore[attr-defined]
            value = hash((type(self).__name__, fields))
            object.__setattr__(self, "_hash", value)
            return value


def once(slot: str) -> Callable[[Callable[[Term], Answer]], Callable[[Term], Answer]]:
    """A function of a term alone is asked once a node, which remembers the answer in a slot (None: the node itself)."""

    def remembering(function: Callable[[Term], Answer]) -> Callable[[Term], Answer]:
        @wraps(function)
        def ask(term: Term) -> Answer:
            try:
                found = getattr(term, slot)
            except AttributeError:
                found = function(term)
                if isinstance(term, Node):
                    object.__setattr__(term, slot, None if found is term else found)
            return term if found is None else found  # type: ignore[return-value]

        return ask

    return remembering


@dataclass(frozen=True, slots=True, eq=True)
class Var(Node):
    """An integer variable: an axis, or a size of the program."""

    name: str
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True, eq=True)
class Sym(Node):
    """A scalar placeholder: the arguments of a monoid's combine and of a derivation's lemma."""

    name: str
    sort: Sort
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True, eq=True)
class Const(Node):
    """A constant: an int, a bool, a `Fraction`, or one of "inf", "-inf", "nan" (sort real)."""

    value: int | bool | Fraction | str
    __hash__ = Node.__hash__

    def __post_init__(self) -> None:
        if isinstance(self.value, str) and self.value not in INFINITIES:
            raise IllFormed(f"constant {self.value!r} is not one of {INFINITIES}")
        if not isinstance(self.value, (bool, int, Fraction, str)):
            raise IllFormed(f"constant of type {type(self.value).__name__}; use Fraction for reals")

    def __eq__(self, other: object) -> bool:  # True == 1 in Python; not here
        return isinstance(other, Const) and type(self.value) is type(other.value) and self.value == other.value


@dataclass(frozen=True, slots=True, eq=True)
class Op(Node):
    """An operation of `SIGNATURES` on its arguments."""

    name: str
    args: tuple[Term, ...]
    __hash__ = Node.__hash__

    def __post_init__(self) -> None:
        if self.name not in SIGNATURES:
            raise IllFormed(f"unknown operation {self.name!r}")
        if len(self.args) != len(SIGNATURES[self.name][0]):
            raise IllFormed(f"{self.name} takes {len(SIGNATURES[self.name][0])} arguments, got {len(self.args)}")


@dataclass(frozen=True, slots=True, eq=True)
class Read(Node):
    """One element of a tensor or buffer. Indices are int terms; they may themselves read integer tensors (gather)."""

    tensor: str
    index: tuple[Term, ...]
    sort: Sort
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True, eq=True)
class Axis(Node):
    """0 <= name < extent. The extent is affine in sizes and outer axes."""

    name: str
    extent: Term
    __hash__ = Node.__hash__


@dataclass(frozen=True, slots=True, eq=True)
class Monoid(Node):
    """A state of one or more fields with an identity and an associative combine.

    `combine` is written over Sym("a0"), Sym("a1"), … (left state) and Sym("b0"), … (right state). `commutative` is a
    claim like associativity: it is proved before it is used.
    """

    name: str
    identity: tuple[Term, ...]
    combine: tuple[Term, ...]
    commutative: bool = True
    __hash__ = Node.__hash__

    def __post_init__(self) -> None:
        if not self.identity or len(self.identity) != len(self.combine):
            raise IllFormed(f"monoid {self.name}: identity and combine need one term a field")


@dataclass(frozen=True, slots=True, eq=True)
class Fold(Node):
    """Component `component` of ⊕ over { axes | guard } of the state `body`. An empty domain gives the identity.

    Folds in axis order, the last axis fastest, when the monoid is not commutative. The guard is quasi-affine.
    """

    monoid: Monoid
    axes: tuple[Axis, ...]
    guard: Term
    body: tuple[Term, ...]
    component: int = 0
    __hash__ = Node.__hash__

    def __post_init__(self) -> None:
        if len(self.body) != len(self.monoid.identity):
            raise IllFormed(f"fold by {self.monoid.name}: {len(self.body)} bodies for {len(self.monoid.identity)} fields")
        if not 0 <= self.component < len(self.body):
            raise IllFormed(f"fold by {self.monoid.name}: no component {self.component}")
        names = [axis.name for axis in self.axes]
        if len(set(names)) != len(names):
            raise IllFormed(f"fold binds an axis twice: {names}")


@dataclass(frozen=True, slots=True, eq=True)
class Gradient(Node):
    """Element by element, the derivative of Σ_{(y, w)} Σ_k w[k]·y[k] with respect to tensor `source`.

    All definitions between are computed anew; everything else stays as it is. It stands as the whole value of a definition.
    """

    outputs: tuple[tuple[str, str], ...]  # (y, w): a tensor and its weights (cotangents)
    source: str
    __hash__ = Node.__hash__

    def __post_init__(self) -> None:
        if not self.outputs or len({y for y, _ in self.outputs}) != len(self.outputs):
            raise IllFormed("a gradient is that of one or more tensors, each named once")


@dataclass(frozen=True, slots=True, eq=True)
class Tangent(Node):
    """Element by element, the derivative of `tensor` as each x of (x, dx) moves by dx. The whole value of a definition."""

    tensor: str
    along: tuple[tuple[str, str], ...]  # (x, dx): a tensor and its direction
    __hash__ = Node.__hash__

    def __post_init__(self) -> None:
        if not self.along or len({x for x, _ in self.along}) != len(self.along):
            raise IllFormed("a tangent is along one or more tensors, each named once")


Derivative: TypeAlias = Gradient | Tangent
Term: TypeAlias = Var | Sym | Const | Op | Read | Fold | Gradient | Tangent

TRUE = Const(True)
FALSE = Const(False)
ZERO = Const(0)
ONE = Const(1)
REAL_ZERO = Const(Fraction(0))
REAL_ONE = Const(Fraction(1))
NEG_INF = Const("-inf")
POS_INF = Const("inf")
NAN = Const("nan")


def _binary(name: str, op: str, sort: Sort, identity: Term) -> Monoid:
    return Monoid(name, (identity,), (Op(op, (Sym("a0", sort), Sym("b0", sort))),))


ADD = _binary("add", "add", "real", REAL_ZERO)
MUL = _binary("mul", "mul", "real", REAL_ONE)
MAX = _binary("max", "max", "real", NEG_INF)
MIN = _binary("min", "min", "real", POS_INF)
INT_ADD = _binary("int_add", "add", "int", ZERO)
INT_MUL = _binary("int_mul", "mul", "int", ONE)
ANY = _binary("any", "or", "bool", FALSE)
ALL = _binary("all", "and", "bool", TRUE)
# Integer max and min have no identity: the tracer folds (is there any, the extreme so far) instead.


@once("_sort")
def sort_of(term: Term) -> Sort:
    """The sort of a term; raises `IllFormed` where an operation's arguments have the wrong sorts."""
    match term:
        case Var():
            return "int"
        case Sym(_, sort) | Read(_, _, sort):
            return sort
        case Const(value):
            return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
        case Fold():
            return sort_of(term.monoid.identity[term.component])
        case Gradient() | Tangent():
            return "real"
        case Op(name, args):
            expected, result = SIGNATURES[name]
            generic: Sort | None = None
            for want, arg in zip(expected, args, strict=True):
                have = sort_of(arg)
                if want in ("num", "any"):
                    if (want == "num" and have == "bool") or (generic is not None and have != generic):
                        raise IllFormed(f"{name}: argument of sort {have}, expected {generic or 'a number'}")
                    generic = have
                elif want != have:
                    raise IllFormed(f"{name}: argument of sort {have}, expected {want}")
            return generic if result in ("num", "any") else result  # type: ignore[return-value]
        case _:
            raise IllFormed(f"not a term: {type(term).__name__}")


def children(term: Term) -> tuple[Term, ...]:
    """Direct subterms, in the order that paths count: Op args; Read index; Fold extents, then guard, then bodies."""
    match term:
        case Op(_, args):
            return args
        case Read(_, index, _):
            return index
        case Fold(_, axes, guard, body, _):
            return (*(axis.extent for axis in axes), guard, *body)
        case _:
            return ()


def rebuild(term: Term, parts: tuple[Term, ...]) -> Term:
    """The same node over other children (the inverse of `children`)."""
    match term:
        case Op(name, _):
            return Op(name, parts)
        case Read(tensor, _, sort):
            return Read(tensor, parts, sort)
        case Fold(monoid, axes, _, _, component):
            k = len(axes)
            named = tuple(Axis(axis.name, extent) for axis, extent in zip(axes, parts[:k], strict=True))
            return Fold(monoid, named, parts[k], parts[k + 1 :], component)
        case _:
            return term


@once("_free")
def free_vars(term: Term) -> frozenset[str]:
    """Names of the integer variables that occur free."""
    if isinstance(term, Var):
        return frozenset((term.name,))
    if not isinstance(term, Fold):
        return frozenset().union(*map(free_vars, children(term)))
    found: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    for axis in term.axes:  # an extent may use the axes to its left
        found |= free_vars(axis.extent) - bound
        bound |= {axis.name}
    return found.union(*(free_vars(part) - bound for part in (term.guard, *term.body)))


def bound_names(term: Term) -> frozenset[str]:
    """Names of the axes that folds in the term bind."""
    own = frozenset(axis.name for axis in term.axes) if isinstance(term, Fold) else frozenset[str]()
    return own.union(*map(bound_names, children(term)))


@once("_reads")
def reads(term: Term) -> tuple[Read, ...]:
    """Every Read in the term, in order of first occurrence, bound ones included."""
    out: dict[Read, None] = {}
    seen: set[Term] = set()

    def walk(node: Term) -> None:
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, Read):
            out[node] = None
        for part in children(node):
            walk(part)

    walk(term)
    return tuple(out)


@once("_tensors")
def tensors(term: Term) -> frozenset[str]:
    """The tensors that are read anywhere in the term."""
    own = frozenset((term.tensor,)) if isinstance(term, Read) else frozenset[str]()
    return own.union(*map(tensors, children(term)))


def mentions(term: Term) -> frozenset[str]:
    """The tensors that a term's value depends on directly."""
    match term:
        case Gradient(outputs, source):
            return frozenset((source, *(name for pair in outputs for name in pair)))
        case Tangent(tensor, along):
            return frozenset((tensor, *(name for pair in along for name in pair)))
        case _:
            return frozenset(read.tensor for read in reads(term))


def monoids(term: Term) -> tuple[Monoid, ...]:
    """Every monoid that the term folds by."""
    out: dict[Monoid, None] = {}
    seen: set[Term] = set()

    def walk(node: Term) -> None:
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, Fold):
            out[node.monoid] = None
        for part in children(node):
            walk(part)

    walk(term)
    return tuple(out)


def combine(monoid: Monoid, left: tuple[Term, ...], right: tuple[Term, ...]) -> tuple[Term, ...]:
    """The state left ⊕ right."""
    values = {f"a{k}": t for k, t in enumerate(left)} | {f"b{k}": t for k, t in enumerate(right)}
    return tuple(fill(term, values) for term in monoid.combine)


def fill(term: Term, values: dict[str, Term]) -> Term:
    """Placeholders replaced."""
    if isinstance(term, Sym):
        return values.get(term.name, term)
    parts = children(term)
    return rebuild(term, tuple(fill(part, values) for part in parts)) if parts else term


def substitute(term: Term, values: dict[str, Term]) -> Term:
    """Replace free variables, renaming bound axes wherever one would be captured."""
    incoming = frozenset().union(*(free_vars(value) for value in values.values())) if values else frozenset()
    return _substitute(term, values, incoming, {})


def _substitute(term: Term, values: dict[str, Term], incoming: frozenset[str], memo: dict[Term, Term]) -> Term:
    if values.keys().isdisjoint(free_vars(term)):
        return term
    if term in memo:
        return memo[term]
    if isinstance(term, Var):
        result: Term = values.get(term.name, term)
    elif isinstance(term, Fold):
        result = _substitute_fold(term, values, incoming, memo)
    else:
        parts = children(term)
        fresh = tuple(_substitute(part, values, incoming, memo) for part in parts)
        result = term if all(a is b for a, b in zip(fresh, parts, strict=True)) else rebuild(term, fresh)
    memo[term] = result
    return result


def _substitute_fold(term: Fold, values: dict[str, Term], incoming: frozenset[str], outer: dict[Term, Term]) -> Fold:
    names = {axis.name for axis in term.axes}
    if names.isdisjoint(values) and names.isdisjoint(incoming):  # no name is hidden or captured: inside it is as outside
        return rebuild(term, tuple(_substitute(part, values, incoming, outer) for part in children(term)))  # type: ignore[return-value]
    live = free_vars(term)
    inner = {name: value for name, value in values.items() if name in live}
    taken = incoming | live | {axis.name for axis in term.axes}
    axes: list[Axis] = []
    for axis in term.axes:
        extent = _substitute(axis.extent, inner, incoming, {})
        inner = {name: value for name, value in inner.items() if name != axis.name}
        name = axis.name
        if name in incoming:
            name = fresh_name(name, taken)
            taken |= {name}
            inner = {**inner, axis.name: Var(name)}
            incoming = incoming | {name}
        axes.append(Axis(name, extent))
    memo: dict[Term, Term] = {}
    guard = _substitute(term.guard, inner, incoming, memo)
    body = tuple(_substitute(part, inner, incoming, memo) for part in term.body)
    return Fold(term.monoid, tuple(axes), guard, body, term.component)


def fresh_name(stem: str, taken: frozenset[str] | set[str]) -> str:
    """stem, or stem with the smallest number that is not taken."""
    base = stem.rstrip("0123456789_") or "i"
    number = 0
    while f"{base}_{number}" in taken:
        number += 1
    return f"{base}_{number}"


def replace_reads(term: Term, tensor: str, value: object) -> Term:
    """Replace each Read of `tensor` by `value(index)` (a callable from index terms to a term).

    The callable's result must not contain variables that the term binds; axes are renamed apart first.
    """
    if not callable(value):
        raise TypeError("value must be callable")

    outside = free_vars(value(tuple(ZERO for _ in range(32))))  # names that the definition itself mentions
    memo: dict[Term, Term] = {}

    def walk(node: Term) -> Term:
        if node not in memo:
            memo[node] = anew(node)
        return memo[node]

    def anew(node: Term) -> Term:
        if isinstance(node, Fold) and any(axis.name in outside for axis in node.axes):
            node = rename_apart(node, outside)
        parts = children(node)
        fresh = tuple(walk(part) for part in parts)
        if isinstance(node, Read) and node.tensor == tensor:
            return value(fresh)  # type: ignore[no-any-return]
        return node if all(a is b for a, b in zip(fresh, parts, strict=True)) else rebuild(node, fresh)

    return walk(term)


def rename_apart(fold: Fold, avoid: frozenset[str]) -> Fold:
    """The same fold, its own axes renamed so that none is in `avoid`."""
    taken = avoid | free_vars(fold) | {axis.name for axis in fold.axes}
    names: dict[str, Term] = {}
    axes: list[Axis] = []
    for axis in fold.axes:
        extent = substitute(axis.extent, names)
        name = axis.name
        if name in avoid:
            name = fresh_name(name, taken)
            taken = taken | {name}
            names[axis.name] = Var(name)
        axes.append(Axis(name, extent))
    return Fold(
        fold.monoid, tuple(axes), substitute(fold.guard, names), tuple(substitute(b, names) for b in fold.body), fold.component
    )


@once("_alpha")
def alpha(term: Term) -> Term:
    """The same term with bound axes named by depth (`.0`, `.1`, …): alpha-equivalent terms become equal."""

    def walk(node: Term, names: dict[str, Term], depth: int) -> Term:
        if isinstance(node, Var):
            return names.get(node.name, node)
        if isinstance(node, Fold):
            inner = dict(names)
            axes = []
            for axis in node.axes:
                extent = walk(axis.extent, inner, depth)
                inner[axis.name] = Var(f".{depth}")
                axes.append(Axis(f".{depth}", extent))
                depth += 1
            return Fold(
                node.monoid, tuple(axes), walk(node.guard, inner, depth),
                tuple(walk(part, inner, depth) for part in node.body), node.component,
            )  # fmt: skip
        parts = children(node)
        fresh = tuple(walk(part, names, depth) for part in parts)
        return node if all(a is b for a, b in zip(fresh, parts, strict=True)) else rebuild(node, fresh)

    return walk(term, {}, 0)


def at_path(term: Term, path: tuple[int, ...]) -> Term:
    """The subterm at a path of child numbers."""
    for number in path:
        parts = children(term)
        if not 0 <= number < len(parts):
            raise IllFormed(f"no child {number} in {type(term).__name__}")
        term = parts[number]
    return term


def put_path(term: Term, path: tuple[int, ...], value: Term) -> Term:
    """The term with the subterm at a path replaced (binders above it capture, as a path means to)."""
    if not path:
        return value
    parts = list(children(term))
    if not 0 <= path[0] < len(parts):
        raise IllFormed(f"no child {path[0]} in {type(term).__name__}")
    parts[path[0]] = put_path(parts[path[0]], path[1:], value)
    return rebuild(term, tuple(parts))
