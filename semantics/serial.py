"""Terms, programs and kernels as plain JSON data, and back.

    exp(s[i] - 1)   ⇄   nodes: ["var","i"] ["read","s",[0],"real"] ["real","1"] ["op","sub",[1,2]] ["op","exp",[3]]

Terms share one table of nodes; a node names earlier nodes by number, in the order in which writing first meets them, so
that equal data give equal tables. Rationals are "p/q"; there are no floats. `Decoder` believes nothing: each node's type,
arity and names are checked, and every constructor runs again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar, get_args

from tang_verified.semantics.kernel import (
    Alloc,
    Assign,
    Barrier,
    Buffer,
    Carried,
    Claim,
    Commit,
    For,
    Kernel,
    Kind,
    Loop,
    Machine,
    Scope,
    Stmt,
    Wait,
)  # fmt: skip
from tang_verified.semantics.program import Def, DType, Program, Size, Tensor
from tang_verified.semantics.terms import (
    INFINITIES,
    Axis,
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
)  # fmt: skip
from tang_verified.semantics.wellformed import NAME, TITLE

T = TypeVar("T")
RATIONAL = re.compile(r"-?[0-9]{1,700}(/[1-9][0-9]{0,700})?")
NODE_LIMIT = 200_000  # entries of a table
TREE_LIMIT = 2_000_000  # nodes of all terms named from outside the table, written out without sharing
DEPTH_LIMIT = 120  # levels of one term


class BadData(ValueError):
    """Data that do not spell what they should."""


# -- writing --------------------------------------------------------------------------------------------------------


class Encoder:
    """Spells terms into one table of nodes."""

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.numbers: dict[Term | Monoid, int] = {}

    def term(self, node: Term | Monoid) -> int:
        if node not in self.numbers:
            data = self._node(node)
            self.numbers[node] = len(self.nodes)
            self.nodes.append(data)
        return self.numbers[node]

    def terms(self, nodes: Sequence[Term]) -> list[int]:
        return [self.term(node) for node in nodes]

    def _node(self, node: Term | Monoid) -> list[Any]:
        match node:
            case Var(name):
                return ["var", name]
            case Sym(name, sort):
                return ["sym", name, sort]
            case Const(value):
                kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
                return [kind, str(value) if kind == "real" else value]
            case Op(name, args):
                return ["op", name, self.terms(args)]
            case Read(tensor, index, sort):
                return ["read", tensor, self.terms(index), sort]
            case Monoid(name, identity, combine, commutative):
                return ["monoid", name, self.terms(identity), self.terms(combine), commutative]
            case Fold(monoid, axes, guard, body, component):
                return ["fold", self.term(monoid), [self.axis(a) for a in axes], self.term(guard), self.terms(body), component]
            case Gradient(outputs, source):
                return ["gradient", [list(pair) for pair in outputs], source]
            case Tangent(tensor, along):
                return ["tangent", tensor, [list(pair) for pair in along]]
        raise TypeError(f"no data for {type(node).__name__}")

    def axis(self, axis: Axis) -> list[Any]:
        return [axis.name, self.term(axis.extent)]

    def tensor(self, tensor: Tensor) -> list[Any]:
        return [tensor.name, tensor.dtype, self.terms(tensor.shape)]

    def program(self, program: Program) -> dict[str, Any]:
        return {
            "name": program.name,
            "sizes": [[size.name, size.low, size.high] for size in program.sizes],
            "inputs": [self.tensor(tensor) for tensor in program.inputs],
            "defs": [self.definition(d) for d in program.defs],
            "outputs": list(program.outputs),
        }

    def definition(self, d: Def) -> list[Any]:
        return [self.tensor(d.tensor), list(d.axes), self.term(d.value)]

    def kernel(self, kernel: Kernel) -> dict[str, Any]:
        """Without its program, which whoever reads it must supply."""
        m = kernel.machine
        return {
            "name": kernel.name,
            "reads": list(kernel.reads),
            "outputs": list(kernel.outputs),
            "body": [self.statement(s) for s in kernel.body],
            "notes": list(kernel.notes),
            "machine": [m.threads, m.subgroup, m.shared_bytes, m.index_bits],
        }

    def claim(self, claim: Claim | None) -> list[Any] | None:
        return None if claim is None else [list(claim.index), self.term(claim.value), self.term(claim.where)]

    def statement(self, statement: Stmt) -> list[Any]:
        match statement:
            case Alloc(Buffer(name, dtype, shape, scope, owners, swizzled), claim):
                if swizzled and scope != "shared":
                    raise TypeError(f"{name}: a swizzled buffer is a shared one")
                return ["alloc", name, dtype, self.terms(shape), SWIZZLED if swizzled else scope, owners, self.claim(claim)]
            case For(axis, kind, body, carried):
                kept = [[c.buffer, self.claim(c.claim)] for c in carried]
                return ["for", self.axis(axis), kind, [self.statement(s) for s in body], kept]
            case Assign(loops, target, index, value, guard, fold_kinds, claim, asynchronous, unit):
                return [
                    "assign", [[self.axis(loop.axis), loop.kind] for loop in loops], target, self.terms(index),
                    self.term(value), self.term(guard), [list(pair) for pair in fold_kinds], self.claim(claim),
                    asynchronous, unit,
                ]  # fmt: skip
            case Barrier():
                return ["barrier"]
            case Commit():
                return ["commit"]
            case Wait(keep):
                return ["wait", keep]
        raise TypeError(f"no data for {type(statement).__name__}")


# -- reading --------------------------------------------------------------------------------------------------------


def _is(data: Any, kind: type[T], what: str) -> T:
    if type(data) is not kind:  # exactly: True is no integer here
        raise BadData(f"{what}: expected {kind.__name__}, found {type(data).__name__}")
    return data


def text(data: Any, what: str, limit: int = 200) -> str:
    value = _is(data, str, what)
    if len(value) > limit or not value.isprintable():
        raise BadData(f"{what}: not a printable text of at most {limit} characters")
    return value


def identifier(data: Any, what: str, pattern: re.Pattern[str] = NAME) -> str:
    value = _is(data, str, what)
    if not pattern.fullmatch(value):
        raise BadData(f"{what}: {value[:80]!r} is no identifier")
    return value


def one_of(data: Any, options: Sequence[str], what: str) -> Any:
    if _is(data, str, what) not in options:
        raise BadData(f"{what}: {data[:80]!r} is not one of {', '.join(options)}")
    return data


def whole(data: Any, what: str) -> int:
    return _is(data, int, what)


def items(data: Any, what: str, size: int | None = None) -> list[Any]:
    value = _is(data, list, what)
    if size is not None and len(value) != size:
        raise BadData(f"{what}: expected {size} entries, found {len(value)}")
    return value


def fields(data: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """An object with exactly these keys."""
    value = _is(data, dict, what)
    for name in sorted(set(names) ^ set(value)):
        raise BadData(f"{what}: {'missing' if name in names else 'unknown'} key {name[:80]!r}")
    return value


def built(make: Callable[[], T], what: str) -> T:
    """Run a constructor; what it refuses is bad data."""
    try:
        return make()
    except IllFormed as problem:
        raise BadData(f"{what}: {problem}") from None


class Decoder:
    """Reads a table of nodes, then whatever names its entries."""

    def __init__(self, nodes: Any) -> None:
        self.nodes: list[Term | Monoid] = []
        self.depths: list[int] = []
        self.weights: list[int] = []  # nodes when written out without sharing
        self.total = 0
        table = items(nodes, "nodes")
        if len(table) > NODE_LIMIT:
            raise BadData(f"nodes: {len(table)} entries, the limit is {NODE_LIMIT}")
        seen: set[Term | Monoid] = set()
        for number, entry in enumerate(table):
            what = f"node {number}"
            used: list[int] = []
            node = built(lambda entry=entry, used=used, what=what: self._node(entry, used, what), what)  # type: ignore[misc]
            self.depths.append(1 + max((self.depths[k] for k in used), default=0))
            self.weights.append(1 + sum(self.weights[k] for k in used))
            if self.depths[-1] > DEPTH_LIMIT or self.weights[-1] > TREE_LIMIT:
                raise BadData(f"{what}: deeper than {DEPTH_LIMIT} levels or larger than {TREE_LIMIT} nodes")
            if node in seen:
                raise BadData(f"{what}: the same node stands in the table twice")
            seen.add(node)
            self.nodes.append(node)

    def _node(self, data: Any, used: list[int], what: str) -> Term | Monoid:
        entry = items(data, what)
        kind = one_of(entry[0] if entry else None, tuple(ARITY), f"{what}, kind")
        items(entry, what, ARITY[kind])
        match kind:
            case "var":
                return Var(identifier(entry[1], what))
            case "sym":
                return Sym(identifier(entry[1], what), one_of(entry[2], get_args(Sort), what))
            case "bool":
                return Const(_is(entry[1], bool, what))
            case "int":
                return Const(whole(entry[1], what))
            case "real":
                return Const(rational(entry[1], what))
            case "op":
                return Op(text(entry[1], what), self._inner(entry[2], used, what))
            case "read":
                index = self._inner(entry[2], used, what)
                return Read(identifier(entry[1], what), index, one_of(entry[3], get_args(Sort), what))
            case "gradient":
                return Gradient(self._pairs(entry[1], what), identifier(entry[2], what))
            case "tangent":
                return Tangent(identifier(entry[1], what), self._pairs(entry[2], what))
            case "monoid":
                name, commutative = identifier(entry[1], what, TITLE), _is(entry[4], bool, what)
                return Monoid(name, self._inner(entry[2], used, what), self._inner(entry[3], used, what), commutative)
            case _:
                monoid = self._at(entry[1], used, what)
                if not isinstance(monoid, Monoid):
                    raise BadData(f"{what}: entry {entry[1]} is no monoid")
                pairs = [items(a, what, 2) for a in items(entry[2], what)]
                axes = tuple(Axis(identifier(n, what), self._term(e, used, what)) for n, e in pairs)
                guard, body = self._term(entry[3], used, what), self._inner(entry[4], used, what)
                return Fold(monoid, axes, guard, body, whole(entry[5], what))

    @staticmethod
    def _pairs(data: Any, what: str) -> tuple[tuple[str, str], ...]:
        pairs = [items(pair, what, 2) for pair in items(data, what)]
        return tuple((identifier(a, what), identifier(b, what)) for a, b in pairs)

    def _at(self, data: Any, used: list[int], what: str) -> Term | Monoid:
        number = whole(data, what)
        if not 0 <= number < len(self.nodes):
            raise BadData(f"{what}: no entry {number} above it in the table")
        used.append(number)
        return self.nodes[number]

    def _term(self, data: Any, used: list[int], what: str) -> Term:
        node = self._at(data, used, what)
        if isinstance(node, Monoid):
            raise BadData(f"{what}: entry {data} is a monoid, not a term")
        return node

    def _inner(self, data: Any, used: list[int], what: str) -> tuple[Term, ...]:
        return tuple(self._term(number, used, what) for number in items(data, what))

    def term(self, data: Any, what: str) -> Term:
        """The term with this number."""
        used: list[int] = []
        node = self._term(data, used, what)
        self.total += self.weights[used[0]]
        if self.total > TREE_LIMIT:
            raise BadData(f"{what}: the terms, written out, have more than {TREE_LIMIT} nodes")
        return node

    def terms(self, data: Any, what: str) -> tuple[Term, ...]:
        return tuple(self.term(number, what) for number in items(data, what))

    def axis(self, data: Any, what: str) -> Axis:
        name, extent = items(data, what, 2)
        return Axis(identifier(name, what), self.term(extent, what))

    def tensor(self, data: Any, what: str) -> Tensor:
        name, dtype, shape = items(data, what, 3)
        return Tensor(identifier(name, what), one_of(dtype, get_args(DType), what), self.terms(shape, what))

    def program(self, data: Any, what: str) -> Program:
        d = fields(data, ("name", "sizes", "inputs", "defs", "outputs"), what)
        sizes = []
        for entry in items(d["sizes"], f"{what}.sizes"):
            name, low, high = items(entry, f"{what}.sizes", 3)
            values = identifier(name, f"{what}.sizes"), whole(low, f"{what}.sizes"), whole(high, f"{what}.sizes")
            sizes.append(built(lambda v=values: Size(*v), f"{what}.sizes"))  # type: ignore[misc]
        defs = [self.definition(entry, f"{what}.defs") for entry in items(d["defs"], f"{what}.defs")]
        inputs = tuple(self.tensor(entry, f"{what}.inputs") for entry in items(d["inputs"], f"{what}.inputs"))
        outputs = self.names(d["outputs"], f"{what}.outputs")
        return Program(identifier(d["name"], f"{what}.name"), tuple(sizes), inputs, tuple(defs), outputs)

    def definition(self, data: Any, what: str) -> Def:
        tensor, axes, value = items(data, what, 3)
        return Def(self.tensor(tensor, what), self.names(axes, what), self.term(value, what))

    def names(self, data: Any, what: str) -> tuple[str, ...]:
        return tuple(identifier(name, what) for name in items(data, what))

    def kernel(self, data: Any, program: Program, what: str) -> Kernel:
        d = fields(data, ("name", "reads", "outputs", "body", "notes", "machine"), what)
        machine = Machine(*(whole(n, f"{what}.machine") for n in items(d["machine"], f"{what}.machine", 4)))
        return Kernel(
            identifier(d["name"], f"{what}.name"), program, self.names(d["reads"], f"{what}.reads"),
            self.names(d["outputs"], f"{what}.outputs"), self.block(d["body"], f"{what}.body"),
            tuple(text(note, f"{what}.notes") for note in items(d["notes"], f"{what}.notes")), machine,
        )  # fmt: skip

    def block(self, data: Any, what: str) -> tuple[Stmt, ...]:
        return tuple(self.statement(entry, f"{what}[{number}]") for number, entry in enumerate(items(data, what)))

    def claim(self, data: Any, what: str) -> Claim | None:
        if data is None:
            return None
        index, value, where = items(data, what, 3)
        return Claim(self.names(index, what), self.term(value, what), self.term(where, what))

    def statement(self, data: Any, what: str) -> Stmt:
        entry = items(data, what)
        kind = one_of(entry[0] if entry else None, tuple(STATEMENTS), what)
        items(entry, what, STATEMENTS[kind])
        if kind == "alloc":
            _, name, dtype, shape, scope, owners, claim = entry
            swizzled = scope == SWIZZLED
            place: Scope = "shared" if swizzled else one_of(scope, get_args(Scope), what)
            known = one_of(dtype, get_args(DType), what), self.terms(shape, what), place
            return Alloc(Buffer(identifier(name, what), *known, whole(owners, what), swizzled), self.claim(claim, what))
        if kind == "for":
            _, axis, run, body, carried = entry
            kept = []
            for pair in items(carried, what):
                buffer, claim = items(pair, what, 2)
                held = self.claim(claim, what)
                if held is None:
                    raise BadData(f"{what}: a carried buffer needs its claim")
                kept.append(Carried(identifier(buffer, what), held))
            return For(self.axis(axis, what), one_of(run, get_args(Kind), what), self.block(body, what), tuple(kept))
        if kind == "barrier":
            return Barrier()
        if kind == "commit":
            return Commit()
        if kind == "wait":
            return Wait(whole(entry[1], what))
        _, loops, target, index, value, guard, fold_kinds, claim, asynchronous, unit = entry
        own = [items(loop, what, 2) for loop in items(loops, what)]
        kinds = [items(pair, what, 2) for pair in items(fold_kinds, what)]
        return Assign(
            tuple(Loop(self.axis(axis, what), one_of(run, get_args(Kind), what)) for axis, run in own),
            identifier(target, what), self.terms(index, what), self.term(value, what), self.term(guard, what),
            tuple((identifier(name, what), one_of(run, get_args(Kind), what)) for name, run in kinds),
            self.claim(claim, what), _is(asynchronous, bool, what), text(unit, what),
        )  # fmt: skip


SWIZZLED = "shared, swizzled"
ARITY = {"var": 2, "sym": 3, "bool": 2, "int": 2, "real": 2, "op": 3, "read": 4, "monoid": 5, "fold": 6,
         "gradient": 3, "tangent": 3}  # fmt: skip
STATEMENTS = {"alloc": 7, "for": 5, "assign": 10, "barrier": 1, "commit": 1, "wait": 2}


def fraction(data: Any, what: str) -> Fraction:
    """A finite rational, as "p/q" in lowest terms."""
    number = rational(data, what)
    if isinstance(number, str):
        raise BadData(f"{what}: {number} is not finite")
    return number


def rational(data: Any, what: str) -> Fraction | str:
    value = _is(data, str, what)
    if value in INFINITIES:
        return value
    if not RATIONAL.fullmatch(value):
        raise BadData(f"{what}: {value[:80]!r} is no rational p/q")
    number = Fraction(value)
    if str(number) != value:
        raise BadData(f"{what}: {value[:80]!r} is not in lowest terms")
    return number
