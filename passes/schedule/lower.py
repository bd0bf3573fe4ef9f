"""Terms of the definition, seen from inside a kernel.

A *point* says where we are: each output or fold axis is base + local, where the base is fixed by the loops and the local
part runs within the tile. Lowering a term at a point substitutes base + local for its axes, and reads the buffer for
every subterm that some buffer already holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tang_verified.passes.schedule.analysis import key
from tang_verified.semantics.build import canonical, iadd, lt
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Claim, Kind, Loop, Scope
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import (
    TRUE,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Sort,
    Term,
    Var,
    children,
    free_vars,
    rebuild,
    sort_of,
    substitute,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tiled:
    """An axis of the definition cut into tiles: index = base + local, local < tile."""

    name: str
    extent: Term
    base: Term
    tile: int

    @property
    def exact(self) -> bool:
        """No tile is ragged."""
        return isinstance(self.extent, Const) and int(self.extent.value) % self.tile == 0

    def valid(self, local: Term) -> Term:
        return TRUE if self.exact else lt(iadd(self.base, local), self.extent)


Point = Mapping[str, Term]  # axis -> local index


@dataclass
class Names:
    """Names that no other loop, buffer or axis of the kernel bears."""

    taken: set[str]

    def fresh(self, stem: str) -> str:
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}{number}"
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class Stored:
    """A buffer that holds a term: where, as a function of the local indices."""

    buffer: str
    index: Callable[[Point], tuple[Term, ...]]
    sort: Sort


@dataclass
class Lowering:
    """The axes in force and what buffers hold."""

    names: Names
    tiled: dict[str, Tiled] = field(default_factory=dict)
    stored: dict[Term, Stored] = field(default_factory=dict)
    inline: dict[Term, Callable[[Point], Term]] = field(default_factory=dict)  # folds written out in a form of their own

    def child(self) -> Lowering:
        return Lowering(self.names, dict(self.tiled), dict(self.stored), dict(self.inline))

    def store(self, term: Term, buffer: str, index: Callable[[Point], tuple[Term, ...]]) -> None:
        self.stored[key(term)] = Stored(buffer, index, sort_of(term))

    def full(self, point: Point) -> dict[str, Term]:
        """Axis -> base + local, for every axis of the point that is tiled."""
        return {name: iadd(self.tiled[name].base, local) for name, local in point.items() if name in self.tiled}

    def lower(self, term: Term, point: Point) -> Term:
        """The term at a point, through buffers where they hold a part of it."""
        if self.stored:
            found = self.stored.get(key(term)) if not isinstance(term, (Var, Const)) else None
            if found is not None:
                return Read(found.buffer, found.index(point), found.sort)
        if isinstance(term, Fold):
            written = self.inline.get(key(term)) if self.inline else None
            return written(point) if written is not None else self.plain_fold(term, point)
        if isinstance(term, Var):
            return self.full(point).get(term.name, term)
        parts = children(term)
        return canonical(rebuild(term, tuple(self.lower(part, point) for part in parts))) if parts else term

    def plain_fold(self, fold: Fold, point: Point) -> Term:
        """The fold at a point, its axes named afresh."""
        names: dict[str, Term] = {axis.name: Var(self.names.fresh(axis.name)) for axis in fold.axes}
        axes = tuple(
            Axis(names[axis.name].name, self.lower(substitute(axis.extent, dict(names)), point))  # type: ignore[union-attr]
            for axis in fold.axes
        )
        guard = self.lower(substitute(fold.guard, dict(names)), point)
        body = tuple(self.lower(substitute(b, dict(names)), point) for b in fold.body)
        return Fold(fold.monoid, axes, guard, body, fold.component)

    def spec(self, term: Term, point: Point) -> Term:
        """The term at a point, buffers ignored: for claims."""
        return canonical(substitute(term, self.full(point)))


def alloc(name: str, dtype: DType, shape: tuple[Term | int, ...], scope: Scope = "thread") -> Alloc:
    return Alloc(Buffer(name, dtype, tuple(Const(s) if isinstance(s, int) else s for s in shape), scope))


@dataclass(frozen=True, slots=True)
class Dim:
    """One axis of a buffer and the loops that run over it: local index = Σ stride·loop (mixed radix, outermost first)."""

    axis: str
    parts: tuple[tuple[str, Term, Kind], ...]  # loop name, extent, kind

    @property
    def local(self) -> Term:
        out: Term = Const(0)
        for name, extent, _ in self.parts:
            scale = extent.value if isinstance(extent, Const) else 1
            out = iadd(canonical(Op("mul", (out, Const(int(scale))))), Var(name)) if out != Const(0) else Var(name)
        return out


def assign(
    target: str, dims: list[Dim], order: list[str], value: Callable[[Point], Term], *,
    kinds: Mapping[str, Kind] | None = None, names: Names, claim: Callable[[Point], Term] | None = None,
) -> Assign:  # fmt: skip
    """target[local indices] := value(local indices), loops in the given order; a claim where an axis is split."""
    loops = {name: Loop(Axis(name, extent), kind) for dim in dims for name, extent, kind in dim.parts}
    point = {dim.axis: dim.local for dim in dims}
    index = tuple(dim.local for dim in dims)
    made = value(point)
    said: Claim | None = None
    if claim is not None or any(not isinstance(i, Var) for i in index):
        own = {dim.axis: Var(names.fresh("x")) for dim in dims}
        said = Claim(tuple(own[dim.axis].name for dim in dims), (claim or value)(own))
    used = tuple((name, kind) for name, kind in (kinds or {}).items() if binds(made, name))
    return Assign(tuple(loops[name] for name in order), target, index, made, TRUE, used, said)


def binds(term: Term, name: str) -> bool:
    """Whether some fold in the term binds the name."""
    if isinstance(term, Fold) and any(axis.name == name for axis in term.axes):
        return True
    return any(binds(part, name) for part in children(term))


__all__ = ["Dim", "Lowering", "Names", "Point", "Stored", "Tiled", "alloc", "assign", "free_vars"]
