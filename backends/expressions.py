"""Print terms: each distinct subterm once, as far out as it may go.

    (x[i, j] - m[i]) * (x[i, j] - m[i])     with the loop over j      ->     const float t0 = m[i];
                                                                             for (j …) {
                                                                               const float t1 = x[i*n + j];
                                                                               const float t2 = t1 - t0;
                                                                               const float t3 = t2 * t2;

A term that reads memory may need the conditions above it. A condition without the lane axis is a braced block; one with
it is a mask, and the reads below it are masked, so that a lane outside touches no memory. Arithmetic needs no mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tang_verified.backends.dialect import Dialect, Unsupported
from tang_verified.backends.names import Names
from tang_verified.backends.scopes import Context, Lane, Scope, Type, Value
from tang_verified.backends.storage import Memory, Registers, Storage, Variables
from tang_verified.semantics.build import canonical, linear
from tang_verified.semantics.terms import (
    FALSE, ONE, REAL_ZERO, TRUE, ZERO, Const, Fold, Op, Read, Sort, Sym, Term, Var, children, sort_of, substitute,
)  # fmt: skip

COMPARISONS = ("lt", "le", "eq", "ne")


class Expressions:
    """Evaluates terms into a scope. Everything remembered here lives for one Assign, except the storage."""

    def __init__(self, dialect: Dialect, names: Names, registers: Registers) -> None:
        self.dialect, self.names, self.registers = dialect, names, registers
        self.storage: dict[str, Storage] = {}
        self.real = "f32"
        self.mask_bits = 32
        self._temporaries = 0
        self._uses: dict[Term, frozenset[str]] = {}
        self._safe: dict[Term, bool] = {}

    # Types and facts about terms

    def type_of(self, sort: Sort, width: int) -> Type:
        kind = {"real": self.real, "int": "i64", "bool": "bool"}[sort]
        return Type(kind, width, self.mask_bits)

    def uses(self, term: Term) -> frozenset[str]:
        """Names of the variables and placeholders that occur free."""
        if term not in self._uses:
            match term:
                case Var(name) | Sym(name):
                    found = frozenset((name,))
                case _:
                    found = frozenset().union(*(self.uses(part) for part in children(term)))
                    if isinstance(term, Fold):
                        found -= {axis.name for axis in term.axes}
            self._uses[term] = found
        return self._uses[term]

    def safe(self, term: Term) -> bool:
        """Whether it may be evaluated although a condition above it is false: no memory is read, no loop is run."""
        if term not in self._safe:
            local = not isinstance(term, Fold) and not (isinstance(term, Read) and not self.is_register(term))
            self._safe[term] = local and all(self.safe(part) for part in children(term))
        return self._safe[term]

    def is_register(self, read: Read) -> bool:
        return self.registers.holds(read.tensor) and not isinstance(self.storage.get(read.tensor), Memory)

    # Places

    def home(self, term: Term, context: Context) -> Scope:
        """The outermost scope that may hold the term; an `if` is left only together with a loop around it."""
        needed = self.uses(term).union(*(self.uses(c) for c in context.conditions))
        safe = self.safe(term)
        best = scope = context.scope
        crossed = False
        while scope.parent is not None and not (needed & scope.names) and (safe or not scope.conditional):
            crossed = crossed or scope.loop
            scope = scope.parent
            if crossed:
                best, crossed = scope, False
        return best

    def known(self, term: Term, context: Context) -> Value | None:
        """The value if it has been computed here or further out, with these conditions or fewer."""
        scope: Scope | None = context.scope
        while scope is not None:
            for count in range(len(context.conditions) + 1):
                found = scope.memo.get((term, context.conditions[:count]))
                if found is not None:
                    return found
            scope = scope.parent
        return None

    def name(self, scope: Scope, value: Value) -> Value:
        """Give the value a name in the scope."""
        text = self.temporary()
        scope.add(f"const {self.dialect.type(value.type)} {text} = {value.text};")
        return Value(text, value.type)

    def temporary(self) -> str:
        self._temporaries += 1
        return self.names.take(f"t{self._temporaries - 1}")

    @contextmanager
    def loop(self, extent: Term, stem: str, context: Context, inner: list[Term]) -> Iterator[tuple[str, Context]]:
        """A loop, behind a scope for what leaves it. Reads may leave it only if it runs at least once:

            if (n > 0 && m > 0) { const float t0 = a[0]; for (i < n) for (j < m) … }

        `inner`: extents of the loops directly inside; those that are known out here are tested here as well.
        """
        scope = context.scope
        bounds = [e for e in (extent, *inner) if not any(name.startswith(".") for name in self.uses(e))]
        unknown = [e for e in dict.fromkeys(bounds) if not scope.is_positive(e)]
        text = self.bound(extent, context).text
        test = " && ".join(f"{self.bound(e, context).text} > 0" for e in unknown)
        front = Scope(scope, conditional=bool(unknown), loop=True, positive=frozenset(unknown))
        variable = self.names.take(stem)
        with front.block(self.dialect.loop(variable, text), frozenset((variable,)), loop=True) as body:
            yield variable, context._replace(scope=body)
        if front.holds_reads and unknown:
            scope.add(f"if ({test}) {{")
            scope.nest(front.lines)
            scope.add("}")
        else:
            scope.nest(front.lines, 0)

    def bound(self, extent: Term, context: Context) -> Value:
        """A loop's bound, computed before the loop."""
        value = self.value(extent, context)
        if value.text.isidentifier() or value.text.isdigit():
            return value
        context.scope.memo[extent, ()] = self.name(context.scope, value)
        return context.scope.memo[extent, ()]

    # Terms

    def value(self, term: Term, context: Context) -> Value:
        found = self.known(term, context)
        if found is not None:
            return found
        match term:
            case Const():
                kind = self.type_of(sort_of(term), 1)
                return Value(self.dialect.constant(term, kind), kind)
            case Var(name):
                if context.lane is None or name != context.lane.name:
                    return Value(name, self.type_of("int", 1))
            case Sym(name):
                raise Unsupported(f"placeholder {name} stands outside a combine")
            case Read() if self.is_register(term):
                return self.register(term, context)
        if self.safe(term):
            context = context._replace(conditions=())
        home = self.home(term, context)
        here = context._replace(scope=home)
        if here.conditions and here.lane is not None and here.lane.name not in self.uses(term):
            result = self.if_any_lane(term, here)
        else:
            result = self.expression(term, here)
            if not result.text.isidentifier():
                if self.inlined(term, result) and home is context.scope:
                    return result
                result = self.name(home, result)
        home.memo[term, here.conditions] = result
        home.holds_reads |= not self.safe(term)
        return result

    def inlined(self, term: Term, result: Value) -> bool:
        """Short integer arithmetic and comparisons of it are written where they are used (unless they can leave a loop)."""
        if not isinstance(term, Op) or result.type.width > 1 or not self.safe(term) or len(result.text) > 50:
            return False
        return result.type.kind == "i64" or (result.type.kind == "bool" and all(sort_of(a) != "real" for a in term.args))

    def expression(self, term: Term, context: Context) -> Value:
        match term:
            case Var():
                kind = self.type_of("int", context.lane.width if context.lane else 1)
                return Value(self.dialect.iota(kind), kind)
            case Read():
                return self.load(term, context)
            case Op("select", (condition, a, b)):
                return self.select(condition, a, b, context)
            case Op("and", (a, b)) if not self.safe(b):
                return self.select(a, b, FALSE, context)
            case Op("or", (a, b)) if not self.safe(b):
                return self.select(a, TRUE, b, context)
            case Op(name, args) if name in COMPARISONS and context.lane is not None and sort_of(args[0]) == "int":
                return self.lane_comparison(name, args, context) or self.apply(term, context)
            case Op():
                return self.apply(term, context)
            case Fold():
                return self.fold(term, context)
            case _:
                raise Unsupported(f"cannot print a {type(term).__name__}")

    def fold(self, term: Fold, context: Context) -> Value:
        raise NotImplementedError

    def prepare(self, terms: list[Term], context: Context) -> None:
        """Compute the folds of several terms together; see `folds.py`."""

    def apply(self, term: Op, context: Context) -> Value:
        values = [self.value(arg, context) for arg in term.args]
        width = max((value.type.width for value in values), default=1)
        texts = [self.widen(value, width).text for value in values]
        have, want = values[-1].type._replace(width=width), self.type_of(sort_of(term), width)
        return Value(self.dialect.operation(term.name, texts, have, want), want)

    def widen(self, value: Value, width: int) -> Value:
        if value.type.width == width:
            return value
        kind = value.type._replace(width=width)
        return Value(self.dialect.splat(value.text, kind), kind)

    def lane_comparison(self, name: str, args: tuple[Term, ...], context: Context) -> Value | None:
        """c·l + e < 0 with a lane axis l: a comparison of the lane number with a scalar bound."""
        bound = lane_bound(name, args, context.lane, self.uses)
        if bound is None or context.lane is None:
            return None
        relation, term, negate = bound
        kind = self.type_of("bool", context.lane.width)
        text = self.dialect.lane_mask(relation, self.value(term, context).text, kind)
        return Value(self.dialect.operation("not", [text], kind, kind) if negate else text, kind)

    # Conditions

    def select(self, condition: Term, a: Term, b: Term, context: Context) -> Value:
        lane = context.lane.name if context.lane else None
        if lane is not None and lane in self.uses(condition) and self.safe(b) and not self.safe(a):
            fixed, varying = split_condition(condition, lane, self.uses)
            if fixed != TRUE and varying != TRUE:
                return self.branch(fixed, Op("select", (varying, a, b)), b, context)
        if lane is None or lane not in self.uses(condition):
            if self.safe(a) and self.safe(b):
                return self.blend(condition, a, b, context)
            return self.branch(condition, a, b, context)
        inside = context._replace(conditions=(*context.conditions, condition))
        outside = context._replace(conditions=(*context.conditions, Op("not", (condition,))))
        self.prepare([a], inside)
        self.prepare([b], outside)
        x, y = self.value(a, inside), self.value(b, outside)
        return self.choose(self.value(condition, context), x, y)

    def blend(self, condition: Term, a: Term, b: Term, context: Context) -> Value:
        return self.choose(self.value(condition, context), self.value(a, context), self.value(b, context))

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        width = max(condition.type.width, a.type.width, b.type.width)
        a, b = self.widen(a, width), self.widen(b, width)
        if width > 1 and condition.type.width == width:
            return Value(self.dialect.operation("select", [condition.text, a.text, b.text], a.type, a.type), a.type)
        return Value(f"({condition.text} ? {a.text} : {b.text})", a.type)

    def branch(self, condition: Term, a: Term, b: Term, context: Context) -> Value:
        """A scalar condition over branches that read memory."""
        lane = context.lane
        wide = lane is not None and bool({lane.name} & (self.uses(a) | self.uses(b)))
        kind = self.type_of(sort_of(a), lane.width if lane is not None and wide else 1)
        head = f"if ({self.value(condition, context).text})"
        initial = self.widen(self.value(b, context), kind.width).text if self.safe(b) else None
        text = self.temporary()
        scope = context.scope
        scope.add(f"{self.dialect.type(kind)} {text}{'' if initial is None else f' = {initial}'};")
        self.into(text, kind, a, context, head)
        if initial is None:
            self.into(text, kind, b, context, "else")
        return Value(text, kind)

    def into(self, text: str, kind: Type, term: Term, context: Context, head: str) -> None:
        """`head { text = term; }`"""
        with context.scope.block(head, conditional=True) as inner:
            there = context._replace(scope=inner)
            self.prepare([term], there)
            inner.add(f"{text} = {self.widen(self.value(term, there), kind.width).text};")

    def if_any_lane(self, term: Term, context: Context) -> Value:
        """A term without the lane axis below a condition with it: in order only if some lane is."""
        kind = self.type_of(sort_of(term), 1)
        text = self.temporary()
        zero = {"real": REAL_ZERO, "int": ZERO, "bool": FALSE}[sort_of(term)]
        mask = self.mask(context)
        assert mask is not None
        context.scope.add(f"{self.dialect.type(kind)} {text} = {self.value(zero, context).text};")
        head = f"if ({self.dialect.any_lane(mask, self.type_of('bool', context.lane.width if context.lane else 1))})"
        self.into(text, kind, term, context._replace(conditions=()), head)
        return Value(text, kind)

    def mask(self, context: Context) -> str | None:
        """The lanes on which the conditions hold; each condition is evaluated under the ones before it."""
        if not context.conditions or context.lane is None:
            return None
        outer = context._replace(conditions=context.conditions[:-1])
        own = self.widen(self.value(context.conditions[-1], outer), context.lane.width)
        before = self.mask(outer)
        if before is None:
            return own.text
        return self.name(context.scope, Value(self.dialect.operation("and", [before, own.text], own.type, own.type), own.type)).text

    # Memory

    def load(self, read: Read, context: Context) -> Value:
        place = self.memory(read.tensor)
        lane = context.lane
        if lane is None or lane.name not in self.uses(read):
            kind = self.type_of(read.sort, 1)
            offset = self.integer(place.offset(read.index), context)
            return Value(self.dialect.load(place.dtype, place.variable, offset, kind), kind)
        kind = self.type_of(read.sort, lane.width)
        found = self.address(place, read.index, context)
        if found is None:
            return self.gather(read, kind, context)
        offset, stride = found
        return Value(self.dialect.load_vector(place.dtype, place.variable, offset, stride, self.mask(context), kind), kind)

    def address(self, place: Memory, index: tuple[Term, ...], context: Context) -> tuple[str, str] | None:
        """Offset at lane 0 and stride, if the index is linear in the lane."""
        assert context.lane is not None
        lane = Var(context.lane.name)
        strides: list[Term] = []
        for part in index:
            atoms, _ = linear(part)
            if any(lane.name in self.uses(atom) for atom in atoms if atom != lane):
                return None
            strides.append(Const(atoms.get(lane, 0)))
        start = tuple(canonical(substitute(part, {lane.name: ZERO})) for part in index)
        return self.integer(place.offset(start), context), self.integer(place.offset(tuple(strides)), context)

    def integer(self, term: Term, context: Context) -> str:
        """A scalar index; its conditions are those of its place."""
        return self.value(term, context).text

    def gather(self, read: Read, kind: Type, context: Context) -> Value:
        """A read whose index is not linear in the lane: one lane after the other."""
        text = self.temporary()
        context.scope.add(f"{self.dialect.type(kind)} {text} = {self.dialect.splat('0', kind)};")

        def one(index: tuple[Term, ...], lane: str, there: Context) -> None:
            self.set_lane(there.scope, text, lane, self.value(Read(read.tensor, index, read.sort), there))

        self.per_lane(read.index, context, one)
        return Value(text, kind)

    def set_lane(self, scope: Scope, vector: str, lane: str, value: Value) -> None:
        number = f"-({value.text})" if value.type.kind == "bool" else value.text
        scope.add(f"{vector}[{lane}] = {number};")

    def per_lane(
        self, index: tuple[Term, ...], context: Context, body: Callable[[tuple[Term, ...], str, Context], None]
    ) -> None:
        """A loop over the lanes on which the conditions hold, with the lane axis as a scalar."""
        assert context.lane is not None
        mask = self.mask(context)
        name = self.names.take("lane")
        head = self.dialect.loop(name, str(context.lane.width), unroll=True)
        with context.scope.block(head, frozenset((name,)), loop=True) as each:
            scalar = tuple(substitute(part, {context.lane.name: Var(name)}) for part in index)
            if mask is None:
                body(scalar, name, Context(each))
            else:
                with each.block(f"if ({mask}[{name}])", conditional=True) as inner:
                    body(scalar, name, Context(inner))

    def memory(self, tensor: str) -> Memory:
        place = self.storage.get(tensor)
        if not isinstance(place, Memory):
            raise Unsupported(f"{tensor!r} is neither a parameter of the kernel nor a buffer allocated around this statement")
        return place

    def register(self, read: Read, context: Context) -> Value:
        """A register variable, or one lane of it."""
        place = self.storage[read.tensor]
        assert isinstance(place, Variables)
        width, number, lane = self.registers.find(read.tensor, read.index, context.lane)
        text = place.variable(number, self.dialect)
        have, want = place.type(width), self.type_of(read.sort, width)
        if lane is not None:
            text, have, want = self.dialect.lane_of(text, str(lane), have), have._replace(width=1), want._replace(width=1)
        return Value(self.dialect.convert(text, have, want), want)


def split_condition(condition: Term, lane: str, uses: Callable[[Term], frozenset[str]]) -> tuple[Term, Term]:
    """A conjunction as (the part without the lane axis, the part with it)."""
    if isinstance(condition, Op) and condition.name == "and":
        left, right = (split_condition(arg, lane, uses) for arg in condition.args)
        both = tuple(canonical(Op("and", (left[k], right[k]))) for k in (0, 1))
        return both[0], both[1]
    return (TRUE, condition) if lane in uses(condition) else (condition, TRUE)


def lane_bound(
    name: str, args: tuple[Term, ...], lane: Lane | None, uses: Callable[[Term], frozenset[str]]
) -> tuple[str, Term, bool] | None:
    """(relation, bound, negate) of an integer comparison that is linear in the lane."""
    if lane is None:
        return None
    atoms, constant = linear(Op("sub", args))
    axis = Var(lane.name)
    slope = atoms.pop(axis, 0)
    if slope == 0 or any(lane.name in uses(atom) for atom in atoms):
        return None
    rest: Term = Const(constant)
    for atom in sorted(atoms, key=repr):
        rest = Op("add", (rest, Op("mul", (Const(atoms[atom]), atom))))
    if name in ("eq", "ne"):
        if abs(slope) != 1:
            return None
        return "equal", canonical(Op("mul", (Const(-slope), rest))), name == "ne"
    if name == "le":  # for integers, a <= 0 is a - 1 < 0
        rest = Op("sub", (rest, ONE))
    # slope·l + rest < 0:  l < ceil(-rest / slope) if slope > 0, else l >= floor(rest / -slope) + 1
    if slope > 0:
        bound: Term = Op("neg", (Op("floordiv", (rest, Const(slope))),))
        return "below", canonical(bound), False
    return "from", canonical(Op("add", (Op("floordiv", (rest, Const(-slope))), ONE))), False
