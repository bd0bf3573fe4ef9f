"""A tile is copied while the one before it is computed: a ring of two buffers, filled by copies that go on by themselves.

    for t < E:                                ring[0, …] := tile(0); commit
      left[…] := tile(t)              ->      for t < E carrying ring[s, …] = tile(t) where s = t mod 2:
      … left[…] …                               ring[(t + 1) mod 2, …] := tile(t + 1); commit; wait 1
                                                … ring[t mod 2, …] …

A copy takes part if it reads the program's tensors alone, as they are. Past the last tile nothing is read (zeros).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tang_verified.passes.schedule.lower import Names
from tang_verified.proofs.threads import constant
from tang_verified.semantics.build import canonical, conj, iadd, lt, mod
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, Commit, For, Stmt, Wait
from tang_verified.semantics.program import BYTES, Tensor
from tang_verified.semantics.terms import ONE, REAL_ZERO, TRUE, ZERO, Const, Op, Read, Term, Var, children, rebuild, substitute

STAGES = 2


def pipelined(body: tuple[Stmt, ...], tensors: Mapping[str, Tensor], names: Names) -> tuple[Stmt, ...]:
    """The block, with the copies at the head of its sequential loops turned into rings."""
    out: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For) and statement.kind == "seq":
            before, loop = _ring(replace(statement, body=pipelined(statement.body, tensors, names)), tensors, names)
            out += [*before, loop]
        else:
            out.append(statement)
    return tuple(out)


def _ring(loop: For, tensors: Mapping[str, Tensor], names: Names) -> tuple[list[Stmt], For]:
    copies = [(a, s) for a in loop.body if isinstance(a, Alloc) for s in loop.body if _is_copy(a, s, tensors)]
    if not copies:
        return [], loop
    before: list[Stmt] = []
    head: list[Stmt] = []
    carried = list(loop.carried)
    body: tuple[Stmt, ...] = tuple(s for s in loop.body if not any(s is part for pair in copies for part in pair))
    t = loop.axis.name
    for alloc, copy in copies:
        if not isinstance(copy, Assign):
            continue
        ring = names.fresh(f"{copy.target}_ring")
        buffer = Buffer(ring, alloc.buffer.dtype, (Const(STAGES), *alloc.buffer.shape), "shared")
        before.append(Alloc(buffer))
        before.append(_filled(copy, loop, ring, ZERO, ZERO, names))
        following = iadd(Var(t), ONE)
        head.append(_filled(copy, loop, ring, following, mod(following, STAGES), names))
        carried.append(Carried(ring, _claim(copy, loop, names, Var(t))))
        body = tuple(_redirected(s, copy.target, ring, mod(Var(t), STAGES)) for s in body)
    return [*before, Commit()], replace(loop, body=(*head, Commit(), Wait(STAGES - 1), *body), carried=tuple(carried))


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


def _filled(copy: Assign, loop: For, ring: str, number: Term, slot: Term, names: Names) -> Assign:
    """ring[slot, …] := tile(number), and what the ring then holds."""
    fresh = {k.axis.name: names.fresh(k.axis.name) for k in copy.loops}
    put: dict[str, Term] = {old: Var(new) for old, new in fresh.items()}
    loops = tuple(replace(k, axis=replace(k.axis, name=fresh[k.axis.name])) for k in copy.loops)
    value = substitute(_tile(copy.value, loop, number), put)
    index = (slot, *(canonical(substitute(i, put)) for i in copy.index))
    said = _claim(copy, loop, names, number, both=number != ZERO)
    return Assign(loops, ring, index, value, TRUE, copy.fold_kinds, said, asynchronous=True)


def _claim(copy: Assign, loop: For, names: Names, number: Term, *, both: bool = False) -> Claim:
    """What the ring holds: tile `number` in its slot; with `both`, the tile before it in the other."""
    slot = names.fresh("slot")
    if copy.claim is not None:
        index, value = copy.claim.index, copy.claim.value
    else:
        index = tuple(i.name for i in copy.index if isinstance(i, Var))
        value = copy.value
    own = {old: names.fresh("x") for old in index}
    value = substitute(value, {old: Var(new) for old, new in own.items()})
    if not both:
        where = canonical(Op("eq", (Var(slot), mod(number, STAGES))))
        return Claim((slot, *own.values()), _tile(value, loop, number), where)
    first = canonical(Op("sub", (number, ONE)))
    held = iadd(first, mod(canonical(Op("sub", (Var(slot), first))), STAGES))
    return Claim((slot, *own.values()), _tile(value, loop, held))


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

