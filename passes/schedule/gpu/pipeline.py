"""A tile is copied while ones before it are computed: a ring of S buffers, filled by copies that go on by themselves.

    for t < E:                      ring[q, …] := tile(q); commit                          for q < S - 1
      left[…] := tile(t)     ->     for t < E carrying ring[s, …] = tile(t + (s - t) mod S) where (s - t) mod S < S - 1:
      … left[…] …                     wait S - 2; barrier
                                      ring[(t + S - 1) mod S, …] := tile(t + S - 1); commit
                                      … ring[t mod S, …] …

The barrier behind the wait serves twice: all threads see tile t, and all are done with tile t - 1, whose slot is filled next.
A copy takes part if it reads the program's tensors alone, as they are. Past the last tile nothing is read (zeros).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from tang_verified.passes.schedule.lower import Names
from tang_verified.proofs.threads import constant
from tang_verified.semantics.build import canonical, conj, iadd, lt, mod
from tang_verified.semantics.kernel import Alloc, Assign, Carried, Claim, Commit, For, Stmt, Wait
from tang_verified.semantics.program import BYTES, Tensor
from tang_verified.semantics.terms import REAL_ZERO, TRUE, Const, Op, Read, Term, Var, children, rebuild, substitute


def pipelined(body: tuple[Stmt, ...], tensors: Mapping[str, Tensor], names: Names, stages: int) -> tuple[Stmt, ...]:
    """The block, with the copies at the head of its sequential loops turned into rings of so many tiles."""
    out: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For) and statement.kind == "seq":
            before, loop = _ring(
                replace(statement, body=pipelined(statement.body, tensors, names, stages)), tensors, names, stages
            )
            out += [*before, loop]
        else:
            out.append(statement)
    return tuple(out)


def _ring(loop: For, tensors: Mapping[str, Tensor], names: Names, stages: int) -> tuple[list[Stmt], For]:
    assigns = [s for s in loop.body if isinstance(s, Assign)]
    copies = [(a, s) for a in loop.body if isinstance(a, Alloc) for s in assigns if _is_copy(a, s, tensors)]
    extent = constant(loop.axis.extent)
    if not copies or (extent is not None and extent < stages):
        return [], loop
    head: list[Stmt] = []
    carried = list(loop.carried)
    body: tuple[Stmt, ...] = tuple(s for s in loop.body if not any(s is part for pair in copies for part in pair))
    t = Var(loop.axis.name)
    before: list[Stmt] = []
    rings = [_Ring(copy, loop, names.fresh(f"{copy.target}_ring"), stages, names) for _, copy in copies]
    for ring, (alloc, copy) in zip(rings, copies, strict=True):
        shape = (Const(stages), *alloc.buffer.shape)
        before.append(Alloc(replace(alloc.buffer, name=ring.name, shape=shape, scope="shared")))
        head.append(ring.filled(iadd(t, Const(stages - 1)), t))
        carried.append(Carried(ring.name, ring.claim(t, partly=True)))
        body = tuple(_redirected(s, copy.target, ring.name, mod(t, stages)) for s in body)
    for q in range(stages - 1):
        before += [*(ring.filled(Const(q), None) for ring in rings), Commit()]
    return before, replace(loop, body=(Wait(stages - 2), *head, Commit(), *body), carried=tuple(carried))


def _is_copy(alloc: Alloc, statement: Stmt, tensors: Mapping[str, Tensor]) -> bool:
    """A whole buffer, copied element by element from a tensor of its own dtype (or zero), and allocated beside."""
    if not isinstance(statement, Assign) or statement.target != alloc.buffer.name or alloc.buffer.scope != "shared":
        return False
    read = _element(statement.value)
    plain = isinstance(read, Read) and read.tensor in tensors and tensors[read.tensor].dtype == alloc.buffer.dtype
    lanes = [constant(loop.axis.extent) or 1 for loop in statement.loops if loop.kind == "lane"]
    wide = BYTES[alloc.buffer.dtype] * prod(lanes) in (4, 8, 16)  # what the machine copies at a time
    return plain and wide and alloc.claim is None and statement.guard == TRUE


def _element(value: Term) -> Term:
    return value.args[1] if isinstance(value, Op) and value.name == "select" and value.args[2] == REAL_ZERO else value


def _tile(value: Term, loop: For, number: Term) -> Term:
    """The copy's value for another tile; zero past the last."""
    inside: Term = TRUE
    element = value
    if isinstance(value, Op) and value.name == "select" and value.args[2] == REAL_ZERO:
        inside, element, _ = value.args
    there = conj(lt(Var(loop.axis.name), loop.axis.extent), inside)
    return canonical(substitute(Op("select", (there, element, REAL_ZERO)), {loop.axis.name: number}))


@dataclass(frozen=True)
class _Ring:
    """The ring of a loop's copy."""

    copy: Assign
    loop: For
    name: str
    stages: int
    names: Names

    def filled(self, number: Term, now: Term | None) -> Assign:
        """ring[slot, …] := tile(number), and what the ring then holds: in iteration `now`, or (none) before the first."""
        copy = self.copy
        fresh = {k.axis.name: self.names.fresh(k.axis.name) for k in copy.loops}
        put: dict[str, Term] = {old: Var(new) for old, new in fresh.items()}
        loops = tuple(replace(k, axis=replace(k.axis, name=fresh[k.axis.name])) for k in copy.loops)
        value = substitute(_tile(copy.value, self.loop, number), put)
        index = (canonical(mod(number, self.stages)), *(canonical(substitute(i, put)) for i in copy.index))
        said = self.claim(number, partly=True) if now is None else self.claim(now)
        return Assign(loops, self.name, index, value, TRUE, copy.fold_kinds, said, asynchronous=True)

    def claim(self, now: Term, *, partly: bool = False) -> Claim:
        """The tiles from `now` on, each in its slot: all, or (partly) all but the last. Before the loop, those up to `now`."""
        slot, copy = self.names.fresh("slot"), self.copy
        if copy.claim is not None:
            index, value = copy.claim.index, copy.claim.value
        else:
            index = tuple(i.name for i in copy.index if isinstance(i, Var))
            value = copy.value
        own = {old: self.names.fresh("x") for old in index}
        value = substitute(value, {old: Var(new) for old, new in own.items()})
        if isinstance(now, Const):
            where = canonical(Op("le", (Var(slot), now)))
            return Claim((slot, *own.values()), _tile(value, self.loop, Var(slot)), where)
        ahead = mod(canonical(Op("sub", (Var(slot), now))), self.stages)
        where = canonical(lt(ahead, Const(self.stages - 1))) if partly else TRUE
        return Claim((slot, *own.values()), _tile(value, self.loop, iadd(now, ahead)), where)


def _redirected(statement: Stmt, old: str, ring: str, slot: Term) -> Stmt:
    """The statement, reading the ring's slot."""

    def term(node: Term) -> Term:
        parts = tuple(term(part) for part in children(node))
        if isinstance(node, Read) and node.tensor == old:
            return Read(ring, (slot, *parts), node.sort)
        return rebuild(node, parts) if parts else node

    match statement:
        case Assign():
            claim = statement.claim
            said = None if claim is None else Claim(claim.index, term(claim.value), claim.where)
            return replace(statement, value=term(statement.value), guard=term(statement.guard), claim=said)
        case For():
            return replace(statement, body=tuple(_redirected(s, old, ring, slot) for s in statement.body))
        case _:
            return statement

