"""Print reads: a scalar, a vector of neighbours, a vector with a stride, or lane by lane; under a mask where there is one.

x[i, 16 v + l]  ->  *(const f32x16_u *)(x + (i * n + 16 * v))        x[i, 2 l]  ->  load_…_strided(x, i * n, 2)
"""

from __future__ import annotations

from collections.abc import Callable

from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.places import Places
from tang_verified.backends.scopes import Context, Scope, Type, Value
from tang_verified.backends.storage import Memory, Variables
from tang_verified.semantics.build import canonical, linear
from tang_verified.semantics.terms import ZERO, Const, Read, Term, Var, substitute


class Reads(Places):
    """Evaluates reads."""

    def mask(self, context: Context) -> str | None:
        """The lanes on which the conditions hold; each condition is evaluated under the ones before it."""
        if not context.conditions or context.lane is None:
            return None
        outer = context._replace(conditions=context.conditions[:-1])
        own = self.widen(self.value(context.conditions[-1], outer), context.lane.width)
        before = self.mask(outer)
        if before is None:
            return own.text
        return self.name(
            context.scope, Value(self.dialect.operation("and", [before, own.text], own.type, own.type), own.type)
        ).text

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
        context.scope.add(self.dialect.declare(kind, text, self.dialect.splat("0", kind)))

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
