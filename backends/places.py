"""Where a term is computed: the outermost scope that may hold it, once; and the loops that terms can leave.

(x[i, j] - m[i]) * (x[i, j] - m[i])     with the loop over j      ->     const float t0 = m[i];
                                                                         for (j …) {
                                                                           const float t1 = x[i*n + j];
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tang_verified.backends.dialect import Dialect
from tang_verified.backends.names import Names
from tang_verified.backends.scopes import Context, Scope, Type, Value
from tang_verified.backends.storage import Memory, Registers, Storage
from tang_verified.semantics.build import linear
from tang_verified.semantics.terms import Const, Fold, Read, Sort, Sym, Term, Var, children


class Places:
    """What is computed where. Everything remembered here lives for one Assign, except the storage."""

    def __init__(self, dialect: Dialect, names: Names, registers: Registers) -> None:
        self.dialect, self.names, self.registers = dialect, names, registers
        self.storage: dict[str, Storage] = {}
        self.real = "f32"
        self.lane_variable = ""  # of a statement for threads: the last of its thread axes
        self.mask_bits = 32
        self._temporaries = 0
        self._uses: dict[Term, frozenset[str]] = {}
        self._safe: dict[Term, bool] = {}
        self.reach: dict[str, int] = {}  # printed variable -> how many values it takes, where that is a constant

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
        """Whether it may be evaluated although a condition above it is false: no loop is run, and no memory is read but
        that of a buffer of our own, at an index that is within it whatever the loop variables are."""
        if term not in self._safe:
            local = not isinstance(term, Fold) and not (isinstance(term, Read) and not self._always_within(term))
            self._safe[term] = local and all(self.safe(part) for part in children(term))
        return self._safe[term]

    def _always_within(self, read: Read) -> bool:
        if self.is_register(read):
            return True
        place = self.storage.get(read.tensor)
        if not isinstance(place, Memory) or not place.own:
            return False
        return all(self._below(index, extent) for index, extent in zip(read.index, place.extents, strict=True))

    def _below(self, index: Term, extent: Term) -> bool:
        """0 <= index < extent, from the constant ranges of the variables in it."""
        parts, most = linear(index)
        if not isinstance(extent, Const) or not isinstance(extent.value, int) or most < 0:
            return False
        for atom, factor in parts.items():
            if not isinstance(atom, Var) or atom.name not in self.reach or factor < 0:
                return False
            most += factor * (self.reach[atom.name] - 1)
        return most < extent.value

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
        free = context.lane is None or context.lane.name not in self.uses(term)
        held = [context.conditions[:count] for count in range(len(context.conditions) + 1)]
        while scope is not None:
            if free and scope.some_lane:
                held += [scope.some_lane[: count + 1] for count in range(len(scope.some_lane))]
            for conditions in held:
                found = scope.memo.get((term, conditions))
                if found is not None:
                    return found
            scope = scope.parent
        return None

    def name(self, scope: Scope, value: Value) -> Value:
        """Give the value a name in the scope."""
        text = self.temporary()
        scope.add(self.dialect.declare(value.type, text, value.text, constant=True))
        return Value(text, value.type)

    def temporary(self) -> str:
        self._temporaries += 1
        return self.names.take(f"t{self._temporaries - 1}")

    def widen(self, value: Value, width: int) -> Value:
        if value.type.width == width:
            return value
        kind = value.type._replace(width=width)
        return Value(self.dialect.splat(value.text, kind), kind)

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
        if isinstance(extent, Const) and isinstance(extent.value, int):
            self.reach[variable] = extent.value
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

    def value(self, term: Term, context: Context) -> Value:
        raise NotImplementedError  # see expressions.py
