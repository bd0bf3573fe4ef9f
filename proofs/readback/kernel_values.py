"""Kernel terms as nodes, in the same normal forms as the text's: a read is a cell of a flat, row-major array.

x[i, 2 j + 1]   with x : n × m        ->   read x@3 (i·m + 2·j + 1)        the array as it is after 3 changes
Σ_{k < n} body                        ->   fold number (…)                 opened by `folds.py`, not here
Σ_{u < 2 [unroll]} b(u)               ->   (0 + b(0)) + b(1)               copied out, in order
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from tang_verified.proofs.readback.nodes import Node, Nodes
from tang_verified.proofs.readback.text_values import Operands, compare_integers, read_of
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import (
    Const,
    Fold,
    IllFormed,
    Op,
    Read,
    Sort,
    Sym,
    Term,
    Var,
    free_vars,
    sort_of,
)  # fmt: skip

Env = dict[str, Node]  # names of axes and sizes, and of placeholders behind an "@"
KINDS: dict[Sort, str] = {"int": "i64", "bool": "bool", "real": "f32"}


@dataclass(frozen=True)
class Place:
    """Where a tensor or buffer is: its key, its type and its extents, without those that number a cell's owner."""

    key: str
    dtype: DType
    extents: tuple[Node, ...]
    owners: int = 0


@dataclass(frozen=True)
class Opened:
    """A fold with the values of its free names."""

    fold: Fold
    env: Env


@dataclass
class KernelValues:
    nodes: Nodes
    places: dict[str, Place] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    real: str = "f32"
    kinds: dict[str, str] = field(default_factory=dict)  # fold axes that do not run in sequence
    opened: list[Opened] = field(default_factory=list)
    own: set[Operands] = field(default_factory=set)  # integers that the kernel compares and divides
    _folds: dict[tuple[Fold, tuple[tuple[str, Node], ...]], int] = field(default_factory=dict)
    _sorts: dict[Term, Sort] = field(default_factory=dict)
    _known: dict[tuple[int, Term], Node] = field(default_factory=dict)
    _kept: list[Env] = field(default_factory=list)  # so that no two of them have one id

    def start(self, real: str, kinds: dict[str, str]) -> None:
        """A new statement: nothing of the last one's values holds."""
        self.real, self.kinds = real, kinds
        self._known.clear()
        self._kept.clear()

    def sort(self, term: Term) -> Sort:
        if term not in self._sorts:
            self._sorts[term] = sort_of(term)
        return self._sorts[term]

    def value(self, term: Term, env: Env) -> Node:
        key = (id(env), term)
        if key not in self._known:
            self._kept.append(env)
            self._known[key] = self._value(term, env)
        return self._known[key]

    def offset(self, place: Place, index: tuple[Node, ...]) -> Node:
        return self.within(place, index[place.owners :])

    def within(self, place: Place, own: tuple[Node, ...]) -> Node:
        """The offset among the cells of one owner."""
        total = self.nodes.number(0)
        for part, extent in zip(own, place.extents, strict=True):
            total = self.nodes.add(self.nodes.mul(total, extent), part)
        return total

    def _value(self, term: Term, env: Env) -> Node:
        n = self.nodes
        match term:
            case Var(name):
                return env[name]
            case Sym(name):
                return env[f"@{name}"]
            case Const(value):
                if isinstance(value, bool):
                    return n.bool(value)
                return n.number(value) if isinstance(value, int) else n.rounded(value, self.real)
            case Read(tensor, index, sort):
                place = self.places[tensor]
                offset = self.offset(place, tuple(self.value(part, env) for part in index))
                return read_of(n, place.key, self.versions.get(place.key, 0), offset, KINDS[sort])
            case Fold():
                return self.fold(term, env)
            case Op(name, args):
                return self.operation(name, [self.value(arg, env) for arg in args], self.sort(term), self.sort(args[0]))
            case _:
                raise IllFormed(f"not a term: {type(term).__name__}")

    def operation(self, name: str, args: list[Node], sort: Sort, of: Sort) -> Node:
        n = self.nodes
        if name in ("lt", "le", "eq", "ne", "max", "min", "abs") and of == "int":
            a, b = (*args, n.number(0))[:2]
            self.own |= {("compare", a, b), ("compare", b, a)}
        if name in ("lt", "le", "eq", "ne") and of == "int":
            return compare_integers(n, name, *args)
        if name == "not":
            return n.negation(args[0])
        if name == "select" or sort == "bool":
            return n.make(name, *args)
        if sort == "real":
            return n.make(name, *args)
        match name:
            case "add":
                return n.add(args[0], args[1])
            case "sub":
                return n.sub(*args)
            case "mul":
                return n.mul(*args)
            case "neg":
                return n.sub(n.number(0), args[0])
            case "floordiv" | "mod":
                self.own.add(("divide", args[0], args[1]))
                return n.divide(name, *args)
            case "int":
                return n.atom("truth", *args)
            case "max" | "min" if None not in (ends := [n.constant(arg) for arg in args]):
                return n.number((max if name == "max" else min)(end for end in ends if end is not None))
            case _:
                return n.atom(name, *args)

    def fold(self, fold: Fold, env: Env) -> Node:
        if all(self.kinds.get(axis.name) == "unroll" for axis in fold.axes):
            identity = [self.value(e, env) for e in fold.monoid.identity]
            copies = self.copies(fold, [axis.name for axis in fold.axes], env)
            return self.chain(fold, copies, dict(enumerate(identity)), [fold.component])[fold.component]
        names = sorted(free_vars(fold))
        used = (fold, tuple((name, env[name]) for name in names))
        number = self._folds.setdefault(used, len(self.opened))
        if number == len(self.opened):
            self.opened.append(Opened(fold, env))
        return self.shared("fold", self.sort(fold), number, self.real, tuple(node for _, node in used[1]))

    def shared(self, tag: str, sort: Sort, *args: Node | int | str | tuple[Node, ...]) -> Node:
        return self.nodes.atom(tag, *args) if sort == "int" else self.nodes.make(tag, *args)

    # Parts of folds

    def copies(self, fold: Fold, names: list[str], env: Env) -> list[Env]:
        """The values of axes that are copied out, in order."""
        extents = []
        for name in names:
            axis = next(axis for axis in fold.axes if axis.name == name)
            extent = self.nodes.constant(self.value(axis.extent, env))
            if extent is None:
                raise IllFormed(f"fold axis {name} is copied out, but its extent is no constant")
            extents.append(range(extent))
        numbers = [[self.nodes.number(value) for value in values] for values in product(*extents)]
        return [{**env, **dict(zip(names, values, strict=True))} for values in numbers]

    def chain(self, fold: Fold, envs: list[Env], start: dict[int, Node], fields: list[int]) -> dict[int, Node]:
        """The fields after one element for each environment:  state := combine(state, body)  where the guard holds."""
        state = dict(start)
        for env in envs:
            guard = self.value(fold.guard, env)
            inner = {**env, **{f"@a{i}": node for i, node in state.items()}}
            inner |= {f"@b{i}": self.value(body, env) for i, body in enumerate(fold.body)}
            state = {
                i: self.nodes.make("select", guard, self.value(fold.monoid.combine[i], inner), state[i])
                for i in closure(fold, fields, "a")
            }
        return state

    def combine(self, fold: Fold, left: dict[int, Node], right: dict[int, Node], fields: list[int]) -> dict[int, Node]:
        env = {**{f"@a{i}": node for i, node in left.items()}, **{f"@b{i}": node for i, node in right.items()}}
        return {i: self.value(fold.monoid.combine[i], env) for i in fields}

    def identity(self, fold: Fold, env: Env) -> dict[int, Node]:
        return {i: self.value(e, env) for i, e in enumerate(fold.monoid.identity)}


def closure(fold: Fold, fields: list[int], sides: str = "ab") -> list[int]:
    """The fields that these depend on, themselves included: of the state so far ("a"), or of either side."""
    found = set(fields)
    while True:
        more = found | {number for i in found for number in mentioned(fold, i, sides)}
        if more == found:
            return sorted(found)
        found = more


def mentioned(fold: Fold, number: int, sides: str = "ab") -> set[int]:
    """The fields that one field's combine speaks of."""
    out: set[int] = set()
    stack: list[Term] = [fold.monoid.combine[number]]
    while stack:
        term = stack.pop()
        if isinstance(term, Sym) and term.name[0] in sides:
            out.add(int(term.name[1:]))
        elif isinstance(term, Op):
            stack += term.args
    return out
