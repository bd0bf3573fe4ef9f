"""Find a place in a kernel by what stands there, and change it. An edit that finds nothing is an error, not a mutant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tang_verified.semantics.kernel import Alloc, Assign, Carried, Claim, For, Kernel, Stmt
from tang_verified.semantics.terms import Axis, Const, Fold, Monoid, Op, Read, Term, Var, children, rebuild

TermEdit = Callable[[Term], Term | None]


class NoSuchPlace(LookupError):
    """The kernel has no place of the kind that the edit is for."""


def change(kernel: Kernel, edit: Callable[[Stmt], tuple[Stmt, ...] | None], *, nth: int = 0) -> Kernel:
    """The kernel with the nth statement for which `edit` gives something replaced by what it gives."""
    left = nth

    def walk(body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
        nonlocal left
        for place, statement in enumerate(body):
            new = edit(statement)
            if new is not None:
                if left == 0:
                    return (*body[:place], *new, *body[place + 1 :])
                left -= 1
            if isinstance(statement, For):
                inner = walk(statement.body)
                if inner is not None:
                    return (*body[:place], replace(statement, body=inner), *body[place + 1 :])
        return None

    body = walk(kernel.body)
    if body is None:
        raise NoSuchPlace(f"{kernel.name} has no statement for this edit")
    return replace(kernel, body=body)


def first(term: Term, edit: TermEdit) -> Term | None:
    """The term with the first subterm (from outside, left to right) for which `edit` gives something replaced; or None."""
    new = edit(term)
    if new is not None and new != term:
        return new
    parts = children(term)
    for place, part in enumerate(parts):
        inner = first(part, edit)
        if inner is not None:
            return rebuild(term, (*parts[:place], inner, *parts[place + 1 :]))
    return None


def everywhere(term: Term, edit: TermEdit) -> Term:
    """The term with every subterm for which `edit` gives something replaced, outermost first."""
    new = edit(term)
    if new is not None:
        return new
    parts = children(term)
    return rebuild(term, tuple(everywhere(part, edit) for part in parts)) if parts else term


def assignment(edit: Callable[[Assign], Assign | tuple[Stmt, ...] | None], *, nth: int = 0) -> Callable[[Kernel], Kernel]:
    """An edit of the nth assignment for which `edit` gives something."""

    def statement(s: Stmt) -> tuple[Stmt, ...] | None:
        new = edit(s) if isinstance(s, Assign) else None
        return (new,) if isinstance(new, Assign) else new

    return lambda kernel: change(kernel, statement, nth=nth)


def store(edit: Callable[[Assign], Assign | tuple[Stmt, ...] | None]) -> Callable[[Kernel], Kernel]:
    """An edit of the assignment to the output."""
    return lambda kernel: assignment(lambda s: edit(s) if s.target == kernel.outputs[0] else None)(kernel)


def stored(edit: TermEdit) -> Callable[[Kernel], Kernel]:
    """An edit of the first fitting subterm of what is stored."""

    def value(s: Assign) -> Assign | None:
        new = first(s.value, edit)
        return None if new is None else replace(s, value=new)

    return store(value)


def value(edit: TermEdit, *, nth: int = 0, of: Callable[[Assign], bool] = lambda s: True) -> Callable[[Kernel], Kernel]:
    """An edit of the first fitting subterm of the value of the nth assignment that has one. The statement's own claim is
    changed likewise if it only restates the value, so that the lie is not found in the next line already."""

    def statement(s: Assign) -> Assign | None:
        new = first(s.value, edit) if of(s) else None
        if new is None:
            return None
        said = first(s.claim.value, edit) if s.claim is not None and not isinstance(s.claim.value, Fold) else None
        claim = s.claim if said is None or s.claim is None else Claim(s.claim.index, said)
        return replace(s, value=new, claim=claim)

    return assignment(statement, nth=nth)


def loop(edit: Callable[[For], For | tuple[Stmt, ...] | None], *, nth: int = 0) -> Callable[[Kernel], Kernel]:
    def statement(s: Stmt) -> tuple[Stmt, ...] | None:
        new = edit(s) if isinstance(s, For) else None
        return (new,) if isinstance(new, For) else new

    return lambda kernel: change(kernel, statement, nth=nth)


def running(edit: Callable[[For], For | tuple[Stmt, ...] | None]) -> Callable[[Kernel], Kernel]:
    """An edit of the loop that carries running states."""
    return loop(lambda s: edit(s) if s.carried else None)


def buffer(edit: Callable[[Alloc], Alloc | tuple[Stmt, ...] | None], *, nth: int = 0) -> Callable[[Kernel], Kernel]:
    def statement(s: Stmt) -> tuple[Stmt, ...] | None:
        new = edit(s) if isinstance(s, Alloc) else None
        return (new,) if isinstance(new, Alloc) else new

    return lambda kernel: change(kernel, statement, nth=nth)


def claims(edit: Callable[[Carried], Carried | None]) -> Callable[[Kernel], Kernel]:
    """An edit of the first invariant for which `edit` gives something."""

    def statement(s: For) -> For | None:
        for place, carried in enumerate(s.carried):
            new = edit(carried)
            if new is not None:
                return replace(s, carried=(*s.carried[:place], new, *s.carried[place + 1 :]))
        return None

    return running(statement)


def claimed(carried: Carried, new: Term) -> Carried:
    return replace(carried, claim=Claim(carried.claim.index, new))


def carried_states(kernel: Kernel, monoid: Monoid) -> list[str]:
    """The running states of the kernel that fold by a monoid, in order."""
    found: list[str] = []

    def look(s: For) -> None:
        found.extend(c.buffer for c in s.carried if isinstance(c.claim.value, Fold) and c.claim.value.monoid == monoid)

    _visit(kernel.body, look)
    return found


def _visit(body: tuple[Stmt, ...], look: Callable[[For], None]) -> None:
    for s in body:
        if isinstance(s, For):
            look(s)
            _visit(s.body, look)


# Shapes of terms


def is_op(term: Term, *names: str) -> bool:
    return isinstance(term, Op) and term.name in names


def reads_of(name: str) -> Callable[[Term], bool]:
    return lambda term: isinstance(term, Read) and term.tensor == name


def mentions(term: Term, wanted: Callable[[Term], bool]) -> bool:
    return wanted(term) or any(mentions(part, wanted) for part in children(term))


def padded(term: Term) -> bool:
    """inside ? element : padding"""
    return isinstance(term, Op) and term.name == "select" and isinstance(term.args[2], Const)


def refold(monoid: Monoid) -> TermEdit:
    """The same fold by another monoid."""
    return lambda t: Fold(monoid, t.axes, t.guard, t.body) if isinstance(t, Fold) and t.monoid != monoid else None


def resized(step: int, *, place: int = 0) -> TermEdit:
    """The first fold of constant extent, one axis longer or shorter."""

    def edit(t: Term) -> Term | None:
        if not isinstance(t, Fold) or not isinstance(t.axes[place].extent, Const):
            return None
        axis = t.axes[place]
        extent = Const(int(axis.extent.value) + step)  # type: ignore[union-attr]
        axes = (*t.axes[:place], Axis(axis.name, extent), *t.axes[place + 1 :])
        return Fold(t.monoid, axes, t.guard, t.body, t.component)

    return edit


def plus(term: Term, step: int) -> Term:
    return Op("add", (term, Const(step)))


def shifted(name: str | None, step: int, place: int = -1) -> TermEdit:
    """The first element of an array (any, if None), `step` further along one axis."""

    def edit(t: Term) -> Term | None:
        if not isinstance(t, Read) or not t.index or (name is not None and t.tensor != name):
            return None
        index = list(t.index)
        index[place] = plus(index[place], step)
        return Read(t.tensor, tuple(index), t.sort)

    return edit


def relation(old: str, new: str) -> TermEdit:
    return lambda t: Op(new, t.args) if isinstance(t, Op) and t.name == old else None


def tightened(step: int, where: Callable[[Term], bool] = lambda t: True) -> TermEdit:
    """a < b  ->  a < b - step (looser if negative)."""
    return lambda t: Op(t.name, (t.args[0], plus(t.args[1], -step))) if is_op(t, "lt", "le") and where(t) else None  # type: ignore[union-attr]


def variable(name: str) -> Var:
    return Var(name)
