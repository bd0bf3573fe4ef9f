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

from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.lanes import lane_bound, split_condition
from tang_verified.backends.reads import Reads
from tang_verified.backends.scopes import Conditions, Context, Type, Value
from tang_verified.semantics.terms import FALSE, REAL_ZERO, TRUE, ZERO, Const, Fold, Op, Read, Sym, Term, Var, sort_of

COMPARISONS = ("lt", "le", "eq", "ne")


class Expressions(Reads):
    """Evaluates terms into a scope."""

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
            fixed, varying = split_condition(condition, lane, self.uses, self.safe)
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
        return Value(self.dialect.choose(condition.text, a.text, b.text), a.type)

    def branch(self, condition: Term, a: Term, b: Term, context: Context) -> Value:
        """A scalar condition over branches that read memory."""
        lane = context.lane
        wide = lane is not None and bool({lane.name} & (self.uses(a) | self.uses(b)))
        kind = self.type_of(sort_of(a), lane.width if lane is not None and wide else 1)
        head = f"if ({self.value(condition, context).text})"
        initial = self.widen(self.value(b, context), kind.width).text if self.safe(b) else None
        text = self.temporary()
        scope = context.scope
        scope.add(self.dialect.declare(kind, text, initial))
        self.into(text, kind, a, context, head)
        if initial is None:
            self.into(text, kind, b, context, "else")
        return Value(text, kind)

    def into(self, text: str, kind: Type, term: Term, context: Context, head: str, some_lane: Conditions = ()) -> None:
        """`head { text = term; }`"""
        with context.scope.block(head, conditional=True) as inner:
            inner.some_lane = some_lane
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
        context.scope.add(self.dialect.declare(kind, text, self.value(zero, context).text))
        head = f"if ({self.dialect.any_lane(mask, self.type_of('bool', context.lane.width if context.lane else 1))})"
        self.into(text, kind, term, context._replace(conditions=()), head, context.conditions)
        return Value(text, kind)
