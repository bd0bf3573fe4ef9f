"""Print folds: accumulators, loops, combine, and the lanes joined at the end.

    Σ_{k < n, l < 16 [lane]} a[16 k + l]   ->   f32x16 s0 = {0};
                                                for (k …) { s0 = s0 + load(a + 16*k); }
                                                s0 = s0 + lanes of s0 shifted by 1, 2, 4, 8;  const float t = s0[0];

Where a step's conditions can be tested as a whole (see whole.py), the step is printed twice: unmasked, and masked for the
ragged end.

All folds of a statement over equal axes run in one loop nest (in a micro-kernel: one for each unrolled cell). Axes that
are copied out take partial states of their own if that fits in the registers, else they continue the same state.
A fold axis over the threads of a subgroup: each holds the state of its own element, and they exchange states in a butterfly.
Joining neighbours first (shifts by 1, 2, 4, …) keeps the order of the lanes; to change the order of anything else, as
partial states inside a loop do, the monoid must be commutative, otherwise such an axis runs as a plain loop.
"""

from __future__ import annotations

from math import prod

from tang_verified.backends.dialect import Unsupported
from tang_verified.backends.expressions import Expressions
from tang_verified.backends.fold_names import kind_of
from tang_verified.backends.fold_states import Running, Task, number
from tang_verified.backends.scopes import Conditions, Context, Lane, Value
from tang_verified.backends.whole import find_whole
from tang_verified.semantics.build import canonical
from tang_verified.semantics.terms import (
    FALSE,
    TRUE,
    Axis,
    Const,
    Fold,
    Op,
    Sym,
    Term,
    Var,
    children,
    rebuild,
    sort_of,
    substitute,
)

Group = tuple[int, tuple[Axis, ...], tuple[Axis, ...], Conditions, bool]  # folds that can share a loop nest
STATES = 16  # the most partial states that copies of a fold axis may open


class Folds(Expressions):
    """Evaluates folds, several at once where they have equal axes."""

    def fold(self, term: Fold, context: Context) -> Value:
        self.prepare([term], context)
        found = self.known(term, context)
        if found is None:
            raise Unsupported("a fold was not computed")
        return found

    def prepare(self, terms: list[Term], context: Context) -> None:
        """Compute every fold that the terms evaluate in any case, innermost first, those with equal axes together."""
        waiting = {fold: _inner(fold) for fold in _outermost(terms) if self.known(fold, context) is None}
        while waiting:
            ready = [fold for fold, inner in waiting.items() if not inner & waiting.keys()]
            groups: dict[Group, list[tuple[Fold, Context]]] = {}
            for fold in ready:
                here = self._place(fold, context)
                idle = bool(here.conditions) and here.lane is not None and here.lane.name not in self.uses(fold)
                key = (id(here.scope), fold.axes, self._axes(fold, here), here.conditions, idle)
                groups.setdefault(key, []).append((fold, here))
            for key, members in groups.items():
                folds, here = [fold for fold, _ in members], members[0][1]
                if key[-1]:
                    for fold in folds:
                        here.scope.memo[fold, here.conditions] = self.if_any_lane(fold, here)
                else:
                    self._together(folds, here)
            for fold in ready:
                del waiting[fold]

    def _place(self, fold: Fold, context: Context) -> Context:
        if self.safe(fold):
            context = context._replace(conditions=())
        return context._replace(scope=self.home(fold, context))

    def _axes(self, fold: Fold, context: Context) -> tuple[Axis, ...]:
        """The axes with the kinds that they can have here."""
        axes: list[Axis] = []
        for place, axis in enumerate(fold.axes):
            kind, extent = kind_of(axis), axis.extent
            constant = extent.value if isinstance(extent, Const) and isinstance(extent.value, int) else None
            if kind == "lane":
                free = context.lane is None or context.lane.name not in self.uses(fold)
                ordered = fold.monoid.commutative or len(fold.axes) == 1
                last = place == len(fold.axes) - 1
                kind = (
                    "lane"
                    if constant and constant > 1 and constant & (constant - 1) == 0 and free and ordered and last
                    else "seq"
                )
            elif kind == "thread":
                pass
            elif kind == "unroll" and constant is None:
                raise Unsupported(f"unrolled fold axis with extent {extent}: only a constant can be copied out")
            elif kind != "unroll":
                kind = "seq"
            axes.append(Axis(axis.name[: len(axis.name) - len(kind_of(axis))] + kind, extent))
        return tuple(axes)

    def _together(self, folds: list[Fold], context: Context) -> None:
        """One loop nest for folds with equal axes; the results are remembered at the context's scope."""
        lane = context.lane
        axes = self._axes(folds[0], context)
        own = 0
        copied: dict[str, int] = {}
        spread = 1
        for before, axis in zip(folds[0].axes, axes, strict=True):
            if kind_of(axis) == "thread":
                spread *= number(axis.extent)
            elif kind_of(axis) == "lane":
                own = number(axis.extent)
            elif kind_of(axis) == "unroll":
                copied[before.name] = number(axis.extent)
        copies = prod(copied.values())
        distinct = {Fold(f.monoid, f.axes, f.guard, f.body, 0): None for f in folds}
        states = copies * sum(len(fold.body) for fold in distinct)
        if len(axes) == len(copied) or states > STATES or not all(fold.monoid.commutative for fold in folds):
            copied = {}
        running: list[Running] = []
        for fold in distinct:
            width = own or (lane.width if lane is not None and lane.name in self.uses(fold) else 1)
            started = [self._start(fold, width, context) for _ in range(copies if copied else 1)]
            running.append(Running(fold, started, copied))
        self._nest([(a.name, b) for a, b in zip(folds[0].axes, axes, strict=True)], {}, running, context)
        for run in running:
            for component, value in enumerate(self._finish(run, own, spread, context)):
                key = Fold(run.fold.monoid, run.fold.axes, run.fold.guard, run.fold.body, component)
                context.scope.memo[key, context.conditions] = value
        context.scope.holds_reads |= not all(self.safe(part) for fold in distinct for part in children(fold))

    def _start(self, fold: Fold, width: int, context: Context) -> list[Value]:
        state = []
        for identity in fold.monoid.identity:
            kind = self.type_of(sort_of(identity), width)
            text = self.names.take("s")
            initial = self.widen(self.value(identity, context), width).text
            context.scope.add(self.dialect.declare(kind, text, initial))
            state.append(Value(text, kind))
        return state

    def _nest(self, axes: list[tuple[str, Axis]], values: dict[str, Term], running: list[Running], context: Context) -> None:
        """The remaining axes around the body, in order."""
        loops = [kind_of(axis) == "seq" for _, axis in axes]
        if not any(loops):
            self._step(axes, values, running, context)
            return
        (name, axis), rest = axes[0], axes[1:]
        extent = canonical(substitute(axis.extent, values))
        if kind_of(axis) == "unroll":
            for k in range(number(extent)):
                self._nest(rest, {**values, name: Const(k)}, running, context)
            return
        if kind_of(axis) == "thread":
            self._nest(rest, {**values, name: Var(self.lane_variable)}, running, context)
            return
        inner = [canonical(substitute(a.extent, values)) for _, a in rest if kind_of(a) == "seq"]
        with self.loop(extent, "k", context, inner) as (variable, there):
            self._nest(rest, {**values, name: Var(variable)}, running, there)

    def _step(self, axes: list[tuple[str, Axis]], values: dict[str, Term], running: list[Running], context: Context) -> None:
        """The copies and lanes of one step of the loops: unmasked if their conditions hold on all lanes of all copies."""
        copies = [values]
        for name, axis in axes:
            extent = number(axis.extent)
            if kind_of(axis) == "lane":
                lane = Lane(self.names.take("lane"), extent)
                self.reach[lane.name], context = extent, context._replace(lane=lane)
                copies = [{**copy, name: Var(lane.name)} for copy in copies]
            elif kind_of(axis) == "thread":
                copies = [{**copy, name: Var(self.lane_variable)} for copy in copies]
            else:
                copies = [{**copy, name: Const(k)} for copy in copies for k in range(extent)]
        steps = [self._tasks(running, copy) for copy in copies]
        guards = [task.guard for step in steps for task in step]
        bodies = [part for step in steps for task in step for part in task.body]
        whole = find_whole(guards, bodies, context.lane, self.uses, self.safe) if context.lane else None
        if whole is None:
            for step in steps:
                self._body(step, context)
            return
        with context.scope.block(f"if ({self.value(whole.test, context._replace(lane=None)).text})", conditional=True) as inner:
            for step in steps:
                self._body([task.under(whole) for task in step], context._replace(scope=inner))
        with context.scope.block("else", conditional=True) as inner:
            for step in steps:
                self._body(step, context._replace(scope=inner))

    def _tasks(self, running: list[Running], values: dict[str, Term]) -> list[Task]:
        """What each fold adds to its state in one copy."""
        tasks: list[Task] = []
        for run in running:
            guard = canonical(substitute(run.fold.guard, values))
            if guard != FALSE:
                body = [canonical(substitute(part, values)) for part in run.fold.body]
                tasks.append(Task(run.fold, run.states[run.copy(values)], guard, body))
        return tasks

    def _body(self, tasks: list[Task], context: Context) -> None:
        """state := combine(state, body), where the guard holds."""
        self.prepare([part for task in tasks if task.guard == TRUE for part in task.body], context)
        for fold, state, guard, body in tasks:
            if guard == TRUE:
                self._combine(fold, state, body, context, None)
            elif context.lane is not None and context.lane.name in self.uses(guard):
                inside = context._replace(conditions=(*context.conditions, guard))
                self._combine(fold, state, body, inside, self.value(guard, context))
            else:
                with context.scope.block(f"if ({self.value(guard, context).text})", conditional=True) as inner_scope:
                    self._combine(fold, state, body, context._replace(scope=inner_scope), None)

    def _combine(self, fold: Fold, state: list[Value], body: list[Term], context: Context, mask: Value | None) -> None:
        self.prepare(body, context)
        new = [self.value(part, context) for part in body]
        fresh = self._combined(fold, state, new, context)
        old = {variable.text for variable in state}
        if len(state) > 1:  # a field that becomes another's old value is copied before that one changes
            fresh = [self.name(context.scope, value) if value.text in old else value for value in fresh]
        for variable, value in zip(state, fresh, strict=True):
            wide = self.widen(value, variable.type.width)
            text = wide.text if mask is None else self.choose(mask, wide, variable).text
            context.scope.add(f"{variable.text} = {text};")

    def _combined(self, fold: Fold, left: list[Value], right: list[Value], context: Context) -> list[Value]:
        """The fields of left ⊕ right. The placeholders get names of their own: the state changes, they do not."""
        values: dict[Term, Term] = {}
        names = set()
        for letter, state in (("a", left), ("b", right)):
            for place, value in enumerate(state):
                fresh = Sym(f"{letter}:{self.temporary_number()}", sort_of(fold.monoid.identity[place]))
                values[Sym(f"{letter}{place}", fresh.sort)] = fresh
                names.add(fresh.name)
                context.scope.memo[fresh, ()] = value
        context.scope.names |= names
        terms = [_replace(term, values) for term in fold.monoid.combine]
        if len(terms) == 1 and isinstance(terms[0], Op):  # nothing else uses it: written where it is assigned
            return [self.expression(terms[0], context)]
        return [self.value(term, context) for term in terms]

    def _finish(self, run: Running, own: int, spread: int, context: Context) -> list[Value]:
        """The copies joined pairwise, then the lanes; then what the `spread` threads of a subgroup hold, as a butterfly."""
        states = run.states
        while len(states) > 1:
            pairs = [states[k : k + 2] for k in range(0, len(states), 2)]
            states = [self._joined(run.fold, pair[0], pair[1], context) if len(pair) == 2 else pair[0] for pair in pairs]
        state, step = states[0], 1
        while step < own:
            shifted = [self.name(context.scope, v._replace(text=self.dialect.shift_lanes(v.text, step, v.type))) for v in state]
            state = self._joined(run.fold, state, shifted, context)
            step *= 2
        if own:
            one = [Value(self.dialect.lane_of(v.text, "0", v.type), v.type._replace(width=1)) for v in state]
            state = [self.name(context.scope, v) for v in one]
        step = 1
        while step < spread:
            state = [self.name(context.scope, value) for value in state]
            theirs = [self.name(context.scope, v._replace(text=self.dialect.exchange(v.text, step, v.type))) for v in state]
            state = self._joined(run.fold, state, theirs, context)
            step *= 2
        return state

    def _joined(self, fold: Fold, left: list[Value], right: list[Value], context: Context) -> list[Value]:
        return [
            v if v.text.isidentifier() else self.name(context.scope, v)
            for v in self._combined(fold, left, right, context._replace(conditions=()))
        ]

    def temporary_number(self) -> int:
        self._temporaries += 1
        return self._temporaries


def _outermost(terms: list[Term]) -> list[Fold]:
    """Folds that are evaluated whenever the terms are: none below a branch, none within another fold."""
    found: dict[Fold, None] = {}
    seen: set[Term] = set()

    def walk(term: Term) -> None:
        if term in seen:
            return
        seen.add(term)
        if isinstance(term, Fold):
            found[term] = None
            for axis in term.axes:
                walk(axis.extent)
            return
        conditional = isinstance(term, Op) and term.name in ("select", "and", "or")
        for part in children(term)[: 1 if conditional else None]:
            walk(part)

    for term in terms:
        walk(term)
    return list(found)


def _inner(fold: Fold) -> frozenset[Fold]:
    """The folds within a fold."""
    found: set[Fold] = set()
    seen: set[Term] = set()

    def walk(term: Term) -> None:
        if term in seen:
            return
        seen.add(term)
        for part in children(term):
            if isinstance(part, Fold):
                found.add(part)
            walk(part)

    walk(fold)
    return frozenset(found)


def _replace(term: Term, values: dict[Term, Term]) -> Term:
    if term in values:
        return values[term]
    parts = children(term)
    return rebuild(term, tuple(_replace(part, values) for part in parts)) if parts else term
