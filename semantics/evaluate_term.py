"""What a term means at given values of its variables and arrays: the elementwise half of the reference interpreter.

Terms are evaluated for whole arrays of variable values at once: i may be an array of shape (n, 1), j of shape (m,).
A fold over k < K puts k *in front*, as shape (K, 1, 1), so that nothing outside it changes shape; the fold then reduces
the leading axis. So a subterm that does not depend on k is evaluated once, outside.

A read out of range, a division by the integer 0 and the truncation of a nan are *faults*. A fault is not raised where
it arises but carried beside the value, element by element; `select` takes the faults of the branch taken, a fold those
of the elements its guard admits. What reaches the term's own elements is raised: a fault in a branch that is not
taken, or in an empty domain, never does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tang_verified.semantics.scalar_tables import TABLE
from tang_verified.semantics.terms import (
    ADD,
    ALL,
    ANY,
    INT_ADD,
    INT_MUL,
    MAX,
    MIN,
    MUL,
    Const,
    Fold,
    IllFormed,
    Monoid,
    Op,
    Read,
    Sym,
    Term,
    Var,
    free_vars,
)

Array: TypeAlias = NDArray[Any]

# Monoids that NumPy reduces in any order. Their identity stands for the elements that a guard leaves out.
REDUCTIONS: dict[Monoid, np.ufunc] = {
    ADD: np.add, INT_ADD: np.add, MUL: np.multiply, INT_MUL: np.multiply, MAX: np.maximum, MIN: np.minimum,
    ANY: np.logical_or, ALL: np.logical_and,
}  # fmt: skip


def evaluate_term(term: Term, env: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """The value of one term, its free variables being ints or arrays that broadcast together (as a 0-d array if all ints)."""
    bound = {name: np.asarray(value, dtype=np.int64) for name, value in env.items()}
    depth = max((value.ndim for value in bound.values()), default=0)
    faults = Faults()
    value = Evaluator(arrays, faults).value(term, Scope(bound, depth))
    if value.fault is not None:
        faults.raise_any(value.fault, "term")
    return value.data


def integer_at(term: Term, sizes: Mapping[str, int]) -> int:
    """An int term's value at sizes. Most extents are a number or a size, and are looked up: calls of kernels ask often."""
    if isinstance(term, Const):
        return int(term.value)
    if isinstance(term, Var):
        return sizes[term.name]
    return int(evaluate_term(term, dict(sizes), {}))


@dataclass(slots=True)
class Value:
    """Elements, and for each of them the code of a fault (0: none); `fault` None says none anywhere."""

    data: Array
    fault: Array | None = None


class Faults:
    """Gives each faulty element a code, and tells from a code what happened there."""

    def __init__(self) -> None:
        self.next = 1
        self.sites: list[tuple[int, str, list[Array]]] = []

    def record(self, bad: Array, what: str, operands: list[Array]) -> Array | None:
        """Codes for the elements where `bad`; `what` names the operation, `operands` are its arguments there."""
        count = int(np.count_nonzero(bad))
        if not count:
            return None
        self.sites.append((self.next, what, [np.broadcast_to(a, bad.shape)[bad] for a in operands]))
        codes = np.zeros(bad.shape, dtype=np.int64)
        codes[bad] = np.arange(self.next, self.next + count)
        self.next += count
        return codes

    def raise_any(self, codes: Array, where: str) -> None:
        """Raise for the first fault among the codes, if there is one."""
        found = codes[codes > 0]
        if found.size == 0:
            return
        code = int(found.flat[0])
        base, what, operands = max((site for site in self.sites if site[0] <= code), key=lambda site: site[0])
        shown = ", ".join(str(a[code - base].item()) for a in operands)
        if what.startswith("read "):
            raise IndexError(f"{where}: {what[5:].replace('[]', f'[{shown}]')}")
        raise ArithmeticError(f"{where}: {what}({shown}) has no value")


@dataclass(slots=True)
class Scope:
    """Variables in force, the number of array dimensions they use, and what was evaluated under them so far."""

    env: dict[str, Array]
    depth: int
    bound: frozenset[str] = frozenset()
    parent: Scope | None = None
    symbols: dict[str, Value] = field(default_factory=dict)
    memo: dict[Term, Value] = field(default_factory=dict)
    states: dict[Fold, tuple[Value, ...]] = field(default_factory=dict)


class Evaluator:
    """Evaluates terms over given arrays."""

    def __init__(self, arrays: dict[str, Array], faults: Faults) -> None:
        self.arrays = arrays
        self.faults = faults
        self.free: dict[Term, frozenset[str]] = {}

    def value(self, term: Term, scope: Scope) -> Value:
        free = self.free.get(term)
        if free is None:
            free = self.free[term] = free_vars(term)
        while scope.parent is not None and not free & scope.bound:
            scope = scope.parent
        if term not in scope.memo:
            with np.errstate(all="ignore"):
                scope.memo[term] = self._value(term, scope)
        return scope.memo[term]

    def _value(self, term: Term, scope: Scope) -> Value:
        match term:
            case Const(value):
                return Value(_constant(value))
            case Var(name):
                if name not in scope.env:
                    raise IllFormed(f"variable {name!r} has no value; known are {sorted(scope.env)}")
                return Value(scope.env[name])
            case Sym(name):
                if name not in scope.symbols:
                    raise IllFormed(f"placeholder {name!r} outside a monoid's combine")
                return scope.symbols[name]
            case Op():
                return self._op(term, scope)
            case Read():
                return self._read(term, scope)
            case Fold():
                key = Fold(term.monoid, term.axes, term.guard, term.body)
                if key not in scope.states:
                    scope.states[key] = self._fold(key, scope)
                return scope.states[key][term.component]
            case _:
                raise IllFormed(f"not a term: {type(term).__name__}")

    def _op(self, term: Op, scope: Scope) -> Value:
        args = [self.value(arg, scope) for arg in term.args]
        if term.name == "select":
            condition, yes, no = args
            taken = _choose(condition.data, yes.fault, no.fault)
            return Value(np.where(condition.data, yes.data, no.data), _worse(condition.fault, taken))
        data = [arg.data for arg in args]
        fault: Array | None = None
        for arg in args:
            fault = _worse(fault, arg.fault)
        if term.name in ("floordiv", "mod"):
            zero = np.broadcast_arrays(*data)[1] == 0
            fault = _worse(fault, self.faults.record(zero, term.name, data))
            data[1] = np.where(data[1] == 0, 1, data[1])
        if term.name == "trunc":
            fault = _worse(fault, self.faults.record(~np.isfinite(data[0]), "trunc", data))
            data[0] = np.where(np.isfinite(data[0]), data[0], 0.0)
        return Value(np.asarray(TABLE[term.name](*data)), fault)

    def _read(self, term: Read, scope: Scope) -> Value:
        if term.tensor not in self.arrays:
            raise IllFormed(f"read of {term.tensor!r}, which has no array; known are {sorted(self.arrays)}")
        array = self.arrays[term.tensor]
        indices = [self.value(part, scope) for part in term.index]
        fault: Array | None = None
        for index in indices:
            fault = _worse(fault, index.fault)
        at = np.broadcast_arrays(*(index.data for index in indices))
        outside = np.zeros(at[0].shape if at else (), dtype=np.bool_)
        for index_data, extent in zip(at, array.shape, strict=True):
            outside = outside | (index_data < 0) | (index_data >= extent)
        message = f"read {term.tensor}[] is out of range: the shape is {array.shape}"
        fault = _worse(fault, self.faults.record(outside, message, list(at)))
        if array.size == 0:
            return Value(np.zeros(outside.shape, dtype=array.dtype), fault)
        if not at:
            return Value(np.asarray(array[()]), fault)
        clamped = tuple(np.clip(i.data, 0, e - 1) for i, e in zip(indices, array.shape, strict=True))
        return Value(np.asarray(array[clamped]), fault)

    def _fold(self, fold: Fold, outer: Scope) -> tuple[Value, ...]:
        """All components. New axes lead; an extent that depends on outer axes is its maximum with a guard."""
        inner = Scope(dict(outer.env), outer.depth, frozenset(a.name for a in fold.axes), outer, outer.symbols)
        extents: list[int] = []
        guards: list[Value] = []
        depth = outer.depth + len(fold.axes)
        for axis in fold.axes:
            extent = self.value(axis.extent, inner)
            size = max(0, int(extent.data.max())) if extent.data.size else 0
            place = depth - 1 - len(extents)  # the first axis leads
            counter = np.arange(size, dtype=np.int64).reshape((size,) + (1,) * place)
            extents.append(size)
            inner.env[axis.name] = counter
            inner.memo, inner.states = {}, {}
            if extent.data.ndim or extent.fault is not None:
                guards.append(Value(counter < extent.data, extent.fault))
        inner.depth = depth
        guard = self.value(fold.guard, inner)
        for extra in guards:
            guard = Value(guard.data & extra.data, _worse(guard.fault, extra.fault))
        body = [self.value(part, inner) for part in fold.body]
        fault: Array | None = guard.fault
        for part in body:
            fault = _worse(fault, _choose(guard.data, part.fault, None))
        if fault is not None:
            fault = _lead(fault, extents, depth).max(axis=tuple(range(len(extents))), initial=0)
        every = bool(np.all(guard.data))
        if fold.monoid in REDUCTIONS:
            identity = self.value(fold.monoid.identity[0], outer).data
            data = body[0].data if every else np.where(guard.data, body[0].data, identity)
            lead = _lead(data, extents, depth)
            reduce = REDUCTIONS[fold.monoid].reduce
            return (Value(np.asarray(reduce(lead, axis=tuple(range(len(extents))), initial=identity.item())), fault),)
        return self._sequential(fold, extents, depth, guard.data, [part.data for part in body], fault, outer)

    def _sequential(
        self, fold: Fold, extents: list[int], depth: int, guard: Array, body: list[Array], fault: Array | None, outer: Scope
    ) -> tuple[Value, ...]:
        """state := combine(state, element) for every element the guard admits, the last axis fastest."""
        monoid = fold.monoid
        state = [self.value(part, outer).data for part in monoid.identity]
        lead_guard = _lead(guard, extents, depth)
        lead_body = [_lead(part, extents, depth) for part in body]
        for place in product(*(range(extent) for extent in extents)):
            symbols = {f"a{i}": Value(part) for i, part in enumerate(state)}
            symbols |= {f"b{i}": Value(part[place]) for i, part in enumerate(lead_body)}
            step = Scope(dict(outer.env), outer.depth, symbols=symbols)
            combined = [self.value(part, step) for part in monoid.combine]
            admitted = lead_guard[place]
            state = [np.where(admitted, new.data, old) for new, old in zip(combined, state, strict=True)]
            for new in combined:
                fault = _worse(fault, _choose(admitted, new.fault, None))
        return tuple(Value(part, fault) for part in state)


def _constant(value: int | bool | Fraction | str) -> Array:
    if isinstance(value, str):
        return np.asarray(float(value))
    if isinstance(value, Fraction):
        try:
            return np.asarray(float(value))
        except OverflowError:
            return np.asarray(np.inf if value > 0 else -np.inf)
    return np.asarray(value, dtype=np.bool_ if isinstance(value, bool) else np.int64)


def _lead(data: Array, extents: list[int], depth: int) -> Array:
    """The array with all `depth` dimensions present, the leading ones stretched to the fold's extents."""
    full = data.reshape((1,) * (depth - data.ndim) + data.shape)
    return np.broadcast_to(full, (*extents, *full.shape[len(extents) :]))


def _worse(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return np.asarray(np.maximum(a, b))


def _choose(condition: Array, yes: Array | None, no: Array | None) -> Array | None:
    if yes is None and no is None:
        return None
    chosen = np.asarray(np.where(condition, 0 if yes is None else yes, 0 if no is None else no))
    return chosen if chosen.any() else None
