"""Mutants of kernels for threads, as data: each breaks in one place what the scheduler makes for a GPU.

`Mutant` and how to add one: `kernels.py`. `program` is a key of `FUNCTIONS` here. `BARRIERS` says of each barrier, in the order
of the text, whether the kernel needs it ("n") or would be proved without it too ("r": it is redundant).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import tang_verified as tv
from examples import layernorm, softmax
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.plan import Choice, plan
from tang_verified.passes.schedule.target import Target
from tang_verified.semantics.build import conjuncts
from tang_verified.semantics.kernel import (
    Alloc,
    Assign,
    Barrier,
    Buffer,
    Claim,
    Commit,
    For,
    Kernel,
    Loop,
    Stmt,
    Wait,
)  # fmt: skip
from tang_verified.semantics.program import DType
from tang_verified.semantics.terms import (
    FALSE,
    ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    reads,
    substitute,
)
from tang_verified.tracing.tracer import trace
from tests.refused.edits import (
    NoSuchPlace,
    assignment,
    buffer,
    change,
    everywhere,
    first,
    is_op,
    loop,
    padded,
    plus,
    refold,
    relation,
    store,
    stored,
    tightened,
)  # fmt: skip
from tests.refused.kernels import ORDERED, Change, Mutant, _in_guard, _in_load
from tests.refused.programs import Case

# -- programs ---------------------------------------------------------------------------------------------------------

TARGET = Target(lanes=16, threads=256, shared_bytes=32 << 10, subgroup=32, asynchronous=True, unit="mma.m16n8k16.f16.f32")


def matmul(a: tv.spec("n k"), b: tv.spec("k m")):
    return a @ b


def half(a: tv.spec("n k", "float16"), b: tv.spec("k m", "float16")):
    return a @ b


def clip(x: tv.spec("n")):
    xp = x.__array_namespace__()
    return xp.minimum(xp.maximum(x, -1.0), 1.0)


def causal(q: tv.spec("n 32"), k: tv.spec("m 32"), v: tv.spec("m 32")):
    xp = q.__array_namespace__()
    n, m = q.shape[0], k.shape[0]
    s = xp.where(xp.arange(m)[None, :] <= xp.arange(n)[:, None] + (m - n), q @ k.T / 8.0, -xp.inf)
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def split(x: tv.spec("n m>=1")):
    """log-sum-exp, each row by four blocks."""
    xp = x.__array_namespace__()
    m = x.max(axis=-1, keepdims=True)
    return m[:, 0] + xp.log(xp.exp(x - m).sum(axis=-1))


def wide(a: tv.spec("n 256", "float16"), b: tv.spec("256 128", "float16")):
    """On a unit that takes its operands from swizzled shared memory, from a ring of three stages."""
    return a @ b


def row(x: tv.spec("n 8192", "float16")):
    return softmax.softmax(x)


def total(x: tv.spec("n 512")):
    return x.sum(axis=-1)


def long(ids: tv.spec("n", "int64")):
    return ids + 1


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "clip": clip, "softmax": softmax.softmax, "layernorm": layernorm.layernorm, "matmul": matmul, "half": half,
    "causal": causal, "split": split, "long": long, "wide": wide, "row": row, "total": total,
}  # fmt: skip
UNIT = "wgmma.m64n128k64.f16.f32"
VECTORS = replace(TARGET, vector_bytes=16, own_vectors=True)
TARGETS = {"wide": replace(TARGET, units=(UNIT,), stages=3, shared_bytes=113 << 10, vector_bytes=16), "row": VECTORS,
           "total": VECTORS}  # fmt: skip
ROWS = Choice(style="rows")  # tiles of a row in shared memory
CHOICES = {"split": Choice(splits=4), "softmax": ROWS, "layernorm": ROWS}


@cache
def case(name: str) -> Case:
    """The sound twin, not yet certified."""
    traced = trace(FUNCTIONS[name], {})
    derived = derive(traced)
    choices = {d.tensor.name: CHOICES[name] for d in derived.program.defs} if name in CHOICES else None
    return Case(traced, derived.steps, tuple(plan(derived.program, TARGETS.get(name, TARGET), choices)))


BARRIERS = {
    "softmax": "rnnnn", "layernorm": "rnrnnnnn", "matmul": "n", "half": "nn", "causal": "nnnnn", "split": "rnnnrrrrrr", "wide": "n",
    "row": "nn",
}  # fmt: skip


# -- finders and edits ------------------------------------------------------------------------------------------------


def without(kind: type, nth: int = 0) -> Change:
    """The nth statement of a kind, dropped."""
    return lambda kernel: change(kernel, lambda s: () if isinstance(s, kind) else None, nth=nth)


def instead(kind: type, edit: Callable[[Any], Stmt | tuple[Stmt, ...]], nth: int = 0) -> Change:
    def one(s: Stmt) -> tuple[Stmt, ...] | None:
        new = edit(s) if isinstance(s, kind) else None
        return (new,) if new is not None and not isinstance(new, tuple) else new  # type: ignore[return-value]

    return lambda kernel: change(kernel, one, nth=nth)


def in_block(edit: Callable[[list[Stmt]], list[Stmt] | None]) -> Change:
    """An edit of the first loop's body for which it gives something, innermost last."""

    def body(s: For) -> For | None:
        new = edit(list(s.body))
        return None if new is None or tuple(new) == s.body else replace(s, body=tuple(new))

    return loop(body)


def place_of(body: list[Stmt], kind: type) -> int | None:
    return next((k for k, s in enumerate(body) if isinstance(s, kind)), None)


def swapped(one: type, other: type) -> Change:
    """`one` directly before `other`: the other way round."""

    def edit(body: list[Stmt]) -> list[Stmt] | None:
        for k in range(len(body) - 1):
            if isinstance(body[k], one) and isinstance(body[k + 1], other):
                return [*body[:k], body[k + 1], body[k], *body[k + 2 :]]
        return None

    return in_block(edit)


def moved_to_the_end(kind: type) -> Change:
    def edit(body: list[Stmt]) -> list[Stmt] | None:
        k = place_of(body, kind)
        return None if k is None or not any(isinstance(s, Wait) for s in body) else [*body[:k], *body[k + 1 :], body[k]]

    return in_block(edit)


def perhaps(name: str) -> Callable[[Stmt], Stmt]:
    return lambda s: For(Axis("sometimes", Var(name)), "seq", (s,))


def machine(**fields: int) -> Change:
    return lambda kernel: replace(kernel, machine=replace(kernel.machine, **fields))


def less_shared(kernel: Kernel) -> Kernel:
    return replace(kernel, machine=replace(kernel.machine, shared_bytes=kernel.machine.shared_bytes - 1))


def in_first_block(*more: Stmt) -> Change:
    """More statements at the head of the innermost grid loop."""

    def block(s: For) -> For | None:
        inner = s.body[0]
        return (
            None if s.kind != "grid" or (isinstance(inner, For) and inner.kind == "grid") else replace(s, body=(*more, *s.body))
        )

    return loop(block)


def scratch(name: str, dtype: DType = "float32", *shape: int, scope: str = "shared") -> Alloc:
    return Alloc(Buffer(name, dtype, tuple(map(Const, shape)), scope))  # type: ignore[arg-type]


def of(wanted: Callable[[Assign], bool], edit: Callable[[Assign], Assign | None], nth: int = 0) -> Change:
    return assignment(lambda s: edit(s) if wanted(s) else None, nth=nth)


def of_buffer(wanted: Callable[[Buffer], bool], edit: Callable[[Buffer], Buffer]) -> Change:
    return buffer(lambda s: replace(s, buffer=edit(s.buffer)) if wanted(s.buffer) else None)


def copies(s: Assign) -> bool:
    return s.asynchronous


def refills(s: Assign) -> bool:
    """A ring's copy inside the loop."""
    return s.asynchronous and not isinstance(s.index[0], Const)


def starts(s: Assign) -> bool:
    return s.value == REAL_ZERO


def updates(s: Assign) -> bool:
    """state := state + Σ …, by threads or a unit."""
    return is_op(s.value, "add") and isinstance(s.value.args[1], Fold) and s.value.args[0] == Read(s.target, s.index, "real")  # type: ignore[union-attr]


def by_unit(s: Assign) -> bool:
    return bool(s.unit)


def over_lanes(s: Assign) -> bool:
    return any(kind == "thread" for _, kind in s.fold_kinds)


def owned(b: Buffer) -> bool:
    return b.owners > 0


def is_ring(b: Buffer) -> bool:
    return b.name.endswith("_ring")


def fragment(nth: int) -> Callable[[Assign], bool]:
    """The statement that loads a unit's operand from shared memory: A (0) or B (1)."""
    slots = (4, 3)[nth]
    return lambda s: (
        isinstance(s.value, Read) and len(s.loops) == 4 + slots and all(k.kind in ("thread", "unroll") for k in s.loops)
    )


def value_of(edit: Callable[[Term], Term | None]) -> Callable[[Assign], Assign | None]:
    def one(s: Assign) -> Assign | None:
        new = first(s.value, edit)
        return None if new is None else replace(s, value=new)

    return one


def two_digits(a: int, b: int) -> Callable[[Assign], Assign | None]:
    """Loops a and b (places from the end) exchanged in what is read."""

    def one(s: Assign) -> Assign | None:
        x, y = s.loops[a].axis.name, s.loops[b].axis.name
        return replace(s, value=substitute(s.value, {x: Var(y), y: Var(x)}))

    return one


def digit_lost(a: int) -> Callable[[Assign], Assign | None]:
    return lambda s: replace(s, value=substitute(s.value, {s.loops[a].axis.name: ZERO}))


def operand(nth: int, edit: Callable[[Read], Term]) -> Callable[[Assign], Assign | None]:
    """Another read for a factor of a unit's product."""

    def one(s: Assign) -> Assign | None:
        fold = s.value.args[1]  # type: ignore[union-attr]
        factors = list(fold.body[0].args)
        factors[nth] = edit(factors[nth])
        body = (Op("mul", tuple(factors)),)
        return replace(s, value=Op("add", (s.value.args[0], Fold(fold.monoid, fold.axes, fold.guard, body))))  # type: ignore[union-attr]

    return one


def at_place(place: int, edit: Callable[[Term], Term]) -> Callable[[Read], Read]:
    def one(read: Read) -> Read:
        index = list(read.index)
        index[place] = edit(index[place])
        return replace(read, index=tuple(index))

    return one


def exchanged(a: int, b: int) -> Callable[[Read], Read]:
    def one(read: Read) -> Read:
        index = list(read.index)
        index[a], index[b] = index[b], index[a]
        return replace(read, index=tuple(index))

    return one


def threads_swapped(s: Assign) -> Assign | None:
    """The first two thread axes in the other order: other threads run the same instances."""
    places = [k for k, x in enumerate(s.loops) if x.kind == "thread"]
    if len(places) < 2:
        return None
    loops = list(s.loops)
    loops[places[0]], loops[places[1]] = loops[places[1]], loops[places[0]]
    return replace(s, loops=tuple(loops))


def halved(s: Assign) -> Assign | None:
    """Threads 2 t and 2 t + 1 write one cell."""
    name = next(k.axis.name for k in s.loops if k.kind == "thread")
    pair = Op("mul", (Const(2), Op("floordiv", (Var(name), Const(2)))))
    return replace(s, index=tuple(substitute(i, {name: pair}) for i in s.index))


def first_thread_axis(extent: Term) -> Callable[[Assign], Assign | None]:
    def one(s: Assign) -> Assign | None:
        k = next((k for k, x in enumerate(s.loops) if x.kind == "thread"), None)
        if k is None:
            return None
        return replace(s, loops=(*s.loops[:k], Loop(Axis(s.loops[k].axis.name, extent), "thread"), *s.loops[k + 1 :]))

    return one


def slot(term: Term, step: int) -> Term:
    """x mod 2 -> (x + step) mod 2"""
    if not is_op(term, "mod"):
        raise NoSuchPlace("no ring's slot")
    return Op("mod", (plus(term.args[0], step), term.args[1]))  # type: ignore[union-attr]


def read_slot(step: int) -> Callable[[Term], Term | None]:
    return lambda t: (
        replace(t, index=(slot(t.index[0], step), *t.index[1:])) if isinstance(t, Read) and t.tensor.endswith("_ring") else None
    )


def where(new: Term) -> Callable[[Assign], Assign | None]:
    return lambda s: replace(s, claim=replace(s.claim, where=new)) if s.claim is not None else None


def carried_where(new: Term) -> Change:
    def one(s: For) -> For | None:
        rings = [c for c in s.carried if c.claim.where != TRUE]
        if not rings:
            return None
        return replace(
            s, carried=tuple(replace(c, claim=replace(c.claim, where=new)) if c is rings[0] else c for c in s.carried)
        )

    return loop(one)


def forgetful(s: Assign) -> Assign | None:
    """The claim after the refill speaks of the new slot alone."""
    if s.claim is None:
        return None
    return replace(s, claim=replace(s.claim, where=Op("eq", (Var(s.claim.index[0]), s.index[0]))))


def wrong_elsewhere(s: Assign) -> Assign | None:
    """The claim after the refill says that both slots hold the new tile."""
    if s.claim is None:
        return None
    name = s.claim.index[0]
    return replace(s, claim=Claim(s.claim.index, substitute(s.claim.value, {name: s.index[0]})))


def element(s: Assign, new: Callable[[Term], Term]) -> Assign:
    return replace(s, value=new(s.value))


def lanes_fold(edit: Callable[[Assign, Fold], Assign | None]) -> Callable[[Assign], Assign | None]:
    return lambda s: edit(s, s.value) if isinstance(s.value, Fold) else None


def body_of(edit: Callable[[Term, Assign], Term | None]) -> Callable[[Assign], Assign | None]:
    """An edit of the body of the fold over lanes."""

    def one(s: Assign) -> Assign | None:
        new = first(s.value, lambda t: edit(t, s) if isinstance(t, Read) else None)
        return None if new is None else replace(s, value=new)

    return one


def first_lanes(count: int) -> Callable[[Assign], Assign | None]:
    """The fold over the first lanes only."""
    return lanes_fold(lambda s, f: replace(s, value=Fold(f.monoid, (Axis(f.axes[0].name, Const(count)),), f.guard, f.body)))


def fewer_subgroups(s: Assign) -> Assign | None:
    return first_thread_axis(Const(4))(s)


def hoisted(kernel: Kernel) -> Kernel:
    """The first buffer of the block, declared outside the grid."""
    found: list[Alloc] = []

    def take(s: Stmt) -> tuple[Stmt, ...] | None:
        if isinstance(s, Alloc) and s.buffer.scope != "global":
            found.append(s)
            return ()
        return None

    rest = change(kernel, take)
    return replace(rest, body=(found[0], *rest.body))


def rescoped(scope: str, owners: int | None = None) -> Callable[[Buffer], Buffer]:
    return lambda b: replace(b, scope=scope, owners=b.owners if owners is None else owners)  # type: ignore[arg-type]


def shape(place: int, edit: Callable[[Term], Term]) -> Callable[[Buffer], Buffer]:
    return lambda b: replace(b, shape=tuple(edit(e) if k == place % len(b.shape) else e for k, e in enumerate(b.shape)))


def shorter(place: int) -> Callable[[Buffer], Buffer]:
    return shape(place, lambda e: Const(int(e.value) - 1))  # type: ignore[union-attr]


def shared(b: Buffer) -> bool:
    return b.scope == "shared" and bool(b.shape)


def data_dependent_fragment(kernel: Kernel) -> Kernel:
    """Which fragment of A the unit takes is read from shared memory, without a barrier."""
    broken = of(by_unit, operand(0, at_place(4, lambda i: Op("add", (i, Read("which", (), "int"))))))(
        machine(shared_bytes=1 << 15)(kernel)
    )
    return in_first_block(scratch("which", "int32"), Assign((), "which", (), ZERO))(broken)


def unloop(s: Assign) -> Assign | None:
    """A statement of all threads, for one alone."""
    return replace(s, loops=tuple(replace(k, kind="seq") for k in s.loops))


def _nearer(t: Term) -> Term | None:
    """256 part -> 128 part"""
    return Op("mul", (Const(128), t.args[1])) if is_op(t, "mul") and t.args == (Const(256), Var("part")) else None  # type: ignore[union-attr]


def launches_swapped(kernel: Kernel) -> Kernel:
    *before, one, other = kernel.body
    return replace(kernel, body=(*before, other, one))


def in_one_launch(kernel: Kernel) -> Kernel:
    """Both phases in one grid: what other blocks compute is read before they have."""
    *before, one, other = kernel.body
    if not isinstance(one, For) or not isinstance(other, For):
        raise NoSuchPlace("no two launches")
    rest = tuple(_renamed(s, {other.axis.name: Var(one.axis.name)}) for s in other.body)
    return replace(kernel, body=(*before, replace(one, body=(*one.body, *rest))))


def _renamed(s: Stmt, put: dict[str, Term]) -> Stmt:
    match s:
        case Assign():
            value, index = substitute(s.value, put), tuple(substitute(i, put) for i in s.index)
            return replace(s, value=value, index=index, guard=substitute(s.guard, put))
        case For():
            carried = tuple(replace(c, claim=replace(c.claim, value=substitute(c.claim.value, put))) for c in s.carried)
            return replace(s, body=tuple(_renamed(t, put) for t in s.body), carried=carried)
        case _:
            return s


def flat_guard(s: Assign) -> Assign | None:
    """i m + j < n m: true of the same cells, and too large for 32 bits."""
    flat = Op("add", (Op("mul", (s.index[0], Var("m"))), s.index[1]))
    return replace(s, guard=Op("and", (s.guard, Op("lt", (flat, Op("mul", (Var("n"), Var("m"))))))))


def both(*edits: Change) -> Change:
    def all_(kernel: Kernel) -> Kernel:
        for edit in edits:
            kernel = edit(kernel)
        return kernel

    return all_


def _loosened(t: Term) -> Term | None:
    """The last bound of a copy, off by one."""
    return Op("le", t.args) if is_op(t, "lt") and t.args[0] != ZERO else None  # type: ignore[union-attr]


def mentions_input(s: Assign) -> bool:
    return s.target.startswith("part") and isinstance(s.value, Fold) and not over_lanes(s)


def _last_kind(s: Assign, kind: str) -> Assign:
    return replace(s, loops=(*s.loops[:-1], replace(s.loops[-1], kind=kind)))  # type: ignore[arg-type]


def stage_early(s: Assign) -> Assign:
    return replace(s, index=(slot(s.index[0], 1), *s.index[1:]))


def _copy_first(body: list[Stmt]) -> list[Stmt] | None:
    """barrier; copy -> copy; barrier"""
    k = place_of(body, Barrier)
    return None if k is None or not copies_at(body, k + 1) else [*body[:k], body[k + 1], body[k], *body[k + 2 :]]


def copies_at(body: list[Stmt], k: int) -> bool:
    return k < len(body) and isinstance(s := body[k], Assign) and s.asynchronous


def lane_row(s: Assign) -> Assign | None:
    """The left operand's row counts the lane's warp twice."""
    warp = [loop.axis.name for loop in s.loops if loop.kind == "thread"][-3]
    return operand(0, at_place(-2, lambda t: Op("add", (t, Op("mul", (Const(8), Var(warp)))))))(s)


def opposite(t: Term) -> Term:
    return Op("sub", (ONE, t))


def columns_swapped(s: Assign) -> Assign | None:
    """A lane's two columns, the other way round, in the right operand alone."""
    p = s.index[-1]
    return operand(1, at_place(-1, lambda t: substitute(t, {p.name: opposite(p)})))(s)  # type: ignore[union-attr]


def half_depth(s: Assign) -> Assign | None:
    fold = s.value.args[1]  # type: ignore[union-attr]
    axes = (replace(fold.axes[0], extent=Const(32)),)
    return replace(s, value=Op("add", (s.value.args[0], replace(fold, axes=axes))))  # type: ignore[union-attr]


def lt_n(s: Assign) -> Term:
    return Op("lt", (ZERO, Var("n")))


def _commit_first(body: list[Stmt]) -> list[Stmt] | None:
    k = place_of(body, Commit)
    wait = place_of(body, Wait)
    return None if k is None or wait is None else [*body[: wait + 1], body[k], *body[wait + 1 : k], *body[k + 1 :]]


def _barrier_behind(body: list[Stmt]) -> list[Stmt] | None:
    """for …: … barrier -> for …: …; barrier"""
    for k, s in enumerate(body):
        if isinstance(s, For) and s.carried and isinstance(s.body[-1], Barrier):
            return [*body[:k], replace(s, body=s.body[:-1]), Barrier(), *body[k + 1 :]]
    return None


def _barrier_into(body: list[Stmt]) -> list[Stmt] | None:
    """The barrier before an inner loop, at the end of the inner loop's body instead."""
    for k, s in enumerate(body[:-1]):
        after = body[k + 1]
        if isinstance(s, Barrier) and isinstance(after, For):
            return [*body[:k], replace(after, body=(*after.body, Barrier())), *body[k + 2 :]]
    return None


def _late(body: list[Stmt], nth: int) -> list[Stmt] | None:
    """The nth barrier of a sequential loop's body, one statement later."""
    places = [k for k, s in enumerate(body) if isinstance(s, Barrier)]
    if len(places) < 3:
        return None
    k = places[nth]
    after = next(j for j in range(k + 1, len(body)) if isinstance(body[j], Assign))
    return [*body[:k], *body[k + 1 : after + 1], Barrier(), *body[after + 1 :]]


def _lane_guard(s: Assign) -> Term:
    return next(part for part in conjuncts(s.guard) if is_op(part, "eq"))


def _row_guard(s: Assign) -> Term:
    return next(part for part in conjuncts(s.guard) if not is_op(part, "eq"))


def vectors(s: Assign) -> bool:
    return any(k.kind == "lane" for k in s.loops)


def into_registers(s: Assign) -> bool:
    return vectors(s) and s.target.endswith("_row")


def reads_own(stem: str) -> Callable[[Assign], bool]:
    return lambda s: any(r.tensor.startswith(stem) for r in reads(s.value))


def neighbour(t: Term, place: int, most: int) -> Term | None:
    """What the mirrored thread or slot holds."""
    return at_place(place, lambda i: Op("sub", (Const(most), i)))(t) if isinstance(t, Read) and len(t.index) == 4 else None


def element_first(read: Term) -> Term | None:
    """x[…, 8 l + v] -> x[…, 8 l + v + 1]: no longer a multiple of the vector."""
    return at_place(1, lambda i: plus(i, 1))(read) if isinstance(read, Read) and read.tensor == "x" else None


def fewer_slots(s: Assign) -> Assign | None:
    if not isinstance(s.value, Fold) or len(s.value.axes) != 2:
        return None
    f = s.value
    return replace(s, value=Fold(f.monoid, (Axis(f.axes[0].name, Const(3)), f.axes[1]), f.guard, f.body))


def wide_vector(s: Assign) -> Assign | None:
    """The chunks' loop as the vector."""
    kinds = {"lane": "unroll", "unroll": "lane"}
    return replace(s, loops=tuple(replace(k, kind=kinds.get(k.kind, k.kind)) for k in s.loops))  # type: ignore[arg-type]


BIG = Op("mul", (Var("n"), Var("m")))

MUTANTS: tuple[Mutant, ...] = (
    # -- a unit of four warps, over swizzled rows
    Mutant("wait keeps one more", "wide", "async", instead(Wait, lambda s: Wait(s.keep + 1)), "async/"),
    Mutant("wait after the barrier", "wide", "async", swapped(Wait, Barrier), "async/"),
    Mutant("second commit dropped", "wide", "async", without(Commit, 1), "async/"),
    Mutant("overwritten while it is read", "wide", "ring", of(refills, stage_early), "value/"),
    Mutant("a copy before the barrier", "wide", "ring", in_block(_copy_first), "no-race/"),
    Mutant("a ring that is not swizzled", "wide", "unit", of_buffer(is_ring, lambda b: replace(b, swizzled=False)), "unit/"),
    Mutant("rows of half the length", "wide", "unit", of_buffer(is_ring, shape(-1, lambda t: Const(32))), "capacity/swizzle"),
    Mutant("half a group of rows", "wide", "unit", of_buffer(is_ring, shape(-2, lambda t: Const(132))), "capacity/swizzle"),
    Mutant("swizzled registers", "wide", "unit", of_buffer(owned, lambda b: replace(b, swizzled=True)), "capacity/swizzle"),
    Mutant("another unit", "wide", "unit", of(by_unit, lambda s: replace(s, unit="wgmma.m64n256k64.f16.f32")), "unit/"),
    Mutant("a unit of one warp", "wide", "unit", of(by_unit, lambda s: replace(s, unit="mma.m16n8k16.f16.f32")), "unit/"),
    Mutant("an unknown unit", "wide", "unit", of(by_unit, lambda s: replace(s, unit="wgmma.m64n128k64.bf16.f32")), "IllFormed"),
    Mutant("lanes in another order", "wide", "unit", of(by_unit, threads_swapped), "unit/"),
    Mutant("rows from the middle of a group", "wide", "unit", of(by_unit, operand(0, at_place(-2, lambda t: plus(t, 4)))), "unit/"),
    Mutant("rows that begin at the lane's", "wide", "unit", of(by_unit, lane_row), "unit/"),
    Mutant("the rows of the group below", "wide", "unit", of(by_unit, operand(0, at_place(-2, lambda t: plus(t, 8)))), "in-bounds/"),
    Mutant("left by columns", "wide", "unit", of(by_unit, operand(0, exchanged(-1, -2))), "unit/"),
    Mutant("right by columns", "wide", "unit", of(by_unit, operand(1, exchanged(-1, -2))), "unit/"),
    Mutant("blocks exchanged", "wide", "unit", of(by_unit, operand(1, at_place(-3, opposite))), "unit/"),
    Mutant("columns exchanged", "wide", "unit", of(by_unit, columns_swapped), "unit/"),
    Mutant("half of the depth", "wide", "unit", of(by_unit, half_depth), "unit/"),
    Mutant("half of the fragment", "wide", "unit", of(by_unit, halved), "unit/"),
    Mutant("an accumulator of halves", "wide", "unit", of_buffer(owned, lambda b: replace(b, dtype="float16")), "unit/"),
    Mutant("the stage that is filled", "wide", "ring", of(by_unit, value_of(read_slot(2))), "value/"),
    Mutant("a product that goes on by itself", "wide", "unit", of(by_unit, lambda s: replace(s, asynchronous=True)), "async/"),
    Mutant("under a guard", "wide", "unit", of(by_unit, lambda s: replace(s, guard=lt_n(s))), "unit/"),
    # -- rings and asynchronous copies
    Mutant("wait dropped", "matmul", "async", without(Wait), "async/"),
    Mutant("wait keeps one more", "matmul", "async", instead(Wait, lambda s: Wait(s.keep + 1)), "async/"),
    Mutant("wait after the barrier", "matmul", "async", swapped(Wait, Barrier), "async/"),
    Mutant("wait after the read", "matmul", "async", moved_to_the_end(Wait), "async/"),
    Mutant("wait in a loop that may not run", "matmul", "async", instead(Wait, perhaps("n")), "async/"),
    Mutant("wait for fewer than none", "matmul", "async", instead(Wait, lambda s: Wait(-1)), "IllFormed"),
    Mutant("first commit dropped", "matmul", "async", without(Commit), "async/"),
    Mutant("commit in the loop dropped", "matmul", "async", without(Commit, 1), "async/"),
    Mutant("commit before the copies", "matmul", "async", in_block(_commit_first), "async/"),
    Mutant("two commits where one is waited for", "matmul", "async", instead(Commit, perhaps("n"), 1), "async/"),
    Mutant("wait keeps one more", "causal", "async", instead(Wait, lambda s: Wait(s.keep + 1)), "async/"),
    Mutant(
        "a computation goes on by itself", "matmul", "async", of(updates, lambda s: replace(s, asynchronous=True)), "async/copy"
    ),
    Mutant(
        "a constant goes on by itself", "matmul", "async", of(starts, lambda s: replace(s, asynchronous=True)), "async/copy"
    ),
    Mutant("a store goes on by itself", "matmul", "async", store(lambda s: replace(s, asynchronous=True)), "async/copy"),
    Mutant(
        "a copy that computes", "matmul", "async", of(copies, lambda s: element(s, lambda v: Op("add", (v, v)))), "async/copy"
    ),
    Mutant(
        "a copy into registers", "softmax", "async", of(mentions_input, lambda s: replace(s, asynchronous=True)), "async/copy"
    ),
    Mutant("a ring in global memory", "matmul", "async", of_buffer(is_ring, rescoped("global")), "async/copy"),
    Mutant(
        "a ring of another dtype", "matmul", "async", of_buffer(is_ring, lambda b: replace(b, dtype="float16")), "async/copy"
    ),
    Mutant(
        "overwritten one stage early",
        "matmul",
        "ring",
        of(refills, lambda s: replace(s, index=(slot(s.index[0], 1), *s.index[1:]))),
        "value/",
    ),
    Mutant("read one stage late", "matmul", "ring", of(updates, value_of(read_slot(1))), "value/state"),
    Mutant("read one stage late", "causal", "ring", of(lambda s: s.target == "raw", value_of(read_slot(1))), "value/"),
    Mutant("a ring of one stage", "matmul", "ring", of_buffer(is_ring, shorter(0)), "in-bounds/"),
    Mutant("a ring one row short", "matmul", "ring", of_buffer(is_ring, shorter(1)), "in-bounds/"),
    Mutant("first fill said to fill all stages", "matmul", "claim", of(copies, where(TRUE)), "stage/defined"),
    Mutant("first fill said to fill nothing", "matmul", "claim", of(copies, where(FALSE)), "carried/entry"),
    Mutant("the loop said to carry all stages", "matmul", "claim", carried_where(TRUE), "carried/entry"),
    Mutant("the loop said to carry no stage", "matmul", "claim", carried_where(FALSE), "stage/keeps"),
    Mutant("a refill forgets the other stage", "matmul", "claim", of(refills, forgetful), "stage/defined"),
    Mutant("a refill said to change the other stage", "matmul", "claim", of(refills, wrong_elsewhere), "stage/keeps"),
    Mutant("a part assigned, and no claim", "matmul", "claim", of(copies, lambda s: replace(s, claim=None)), "cover/whole"),
    # -- barriers
    Mutant("barrier in a loop that may not run", "softmax", "barrier", instead(Barrier, perhaps("n"), 1), "no-race/"),
    Mutant("barrier in a loop that may not run", "matmul", "barrier", instead(Barrier, perhaps("k")), "no-race/"),
    Mutant("barrier out of the loop", "half", "barrier", in_block(_barrier_behind), "no-race/left"),
    Mutant("barrier into the inner loop alone", "half", "barrier", in_block(_barrier_into), "no-race/"),
    Mutant("barrier one statement late", "softmax", "barrier", in_block(lambda body: _late(body, 0)), "no-race/"),
    Mutant("barrier one statement late", "layernorm", "barrier", in_block(lambda body: _late(body, 0)), "no-race/"),
    # -- who runs what, and owns what
    Mutant("threads in another order", "matmul", "owner", of(starts, threads_swapped), "no-race/owner"),
    Mutant("threads in another order", "half", "owner", of(starts, threads_swapped), "no-race/owner"),
    Mutant("the store by other threads", "matmul", "owner", store(threads_swapped), "no-race/owner"),
    Mutant(
        "owner axes too few", "matmul", "owner", of_buffer(owned, lambda b: replace(b, owners=b.owners - 1)), "no-race/owner"
    ),
    Mutant("no owner axes", "matmul", "owner", of_buffer(owned, lambda b: replace(b, owners=0)), "no-race/owner"),
    Mutant(
        "owner axes too many",
        "matmul",
        "owner",
        of_buffer(owned, lambda b: replace(b, owners=b.owners + 1)),
        "capacity/threads",
    ),
    Mutant("more owner axes than axes", "matmul", "owner", of_buffer(owned, lambda b: replace(b, owners=9)), "IllFormed"),
    Mutant(
        "owners of a shared buffer",
        "softmax",
        "owner",
        of_buffer(lambda b: b.scope == "shared" and len(b.shape) == 2, lambda b: replace(b, owners=2)),
        "IllFormed",
    ),
    Mutant(
        "owner axes swapped",
        "matmul",
        "owner",
        of_buffer(owned, lambda b: replace(b, shape=(b.shape[1], b.shape[0], *b.shape[2:]))),
        "in-bounds/",
    ),
    Mutant(
        "another thread's register read",
        "softmax",
        "owner",
        of(over_lanes, body_of(lambda t, s: at_place(0, lambda i: Op("sub", (Const(7), i)))(t))),
        "no-race/owner",
    ),
    Mutant(
        "another thread's register stored",
        "matmul",
        "owner",
        stored(lambda t: at_place(2, lambda i: Op("sub", (Const(15), i)))(t) if isinstance(t, Read) else None),
        "no-race/owner",
    ),
    Mutant(
        "partial results kept by no thread",
        "softmax",
        "owner",
        of_buffer(lambda b: b.scope == "shared" and len(b.shape) == 2, rescoped("register")),
        "no-race/owner",
    ),
    Mutant(
        "a fold of other threads' registers",
        "softmax",
        "owner",
        of(over_lanes, lambda s: replace(s, fold_kinds=())),
        "no-race/owner",
    ),
    Mutant("one thread does what its owners should", "matmul", "owner", of(starts, unloop), "no-race/owner"),
    Mutant("threads beyond the block", "matmul", "threads", machine(threads=128), "capacity/threads"),
    Mutant("threads beyond the block, nothing owned", "clip", "threads", machine(threads=128, subgroup=0), "capacity/threads"),
    Mutant("as many threads as the data", "clip", "threads", store(first_thread_axis(Var("n"))), "capacity/threads"),
    Mutant("two threads write one cell", "clip", "threads", store(halved), "value/"),
    Mutant("two threads write one cell of a ring", "matmul", "threads", of(copies, halved), "cover/"),
    Mutant("two threads write one cell of a buffer", "layernorm", "threads", of(over_lanes, halved), "cover/"),
    Mutant("a loop over threads", "clip", "threads", loop(lambda s: replace(s, kind="thread")), "IllFormed"),
    Mutant("a vector that computes", "clip", "threads", store(lambda s: _last_kind(s, "lane")), "width/vector"),
    # -- lanes of a subgroup
    Mutant("no subgroups", "softmax", "lanes", machine(subgroup=0), "parallelise/subgroup"),
    Mutant("half subgroups", "softmax", "lanes", machine(subgroup=16), "parallelise/subgroup"),
    Mutant("subgroups of 48", "softmax", "lanes", machine(subgroup=48), "IllFormed"),
    Mutant("no subgroups", "layernorm", "lanes", machine(subgroup=0), "parallelise/subgroup"),
    Mutant(
        "the fold below a guard",
        "softmax",
        "lanes",
        of(over_lanes, lambda s: replace(s, guard=Op("lt", (Var(s.loops[0].axis.name), Const(4))))),
        "parallelise/subgroup",
    ),
    Mutant(
        "the fold below a condition",
        "softmax",
        "lanes",
        of(
            over_lanes,
            lambda s: replace(s, value=Op("select", (Op("lt", (Var(s.loops[-1].axis.name), ONE)), s.value, REAL_ZERO))),
        ),
        "parallelise/subgroup",
    ),
    Mutant(
        "the fold below one lane's loop",
        "softmax",
        "lanes",
        of(
            over_lanes,
            lambda s: replace(s, loops=(*s.loops, Loop(Axis("again", Op("min", (Var(s.loops[-1].axis.name), ONE))), "seq"))),
        ),
        "parallelise/subgroup",
    ),
    Mutant(
        "the fold in a fold",
        "softmax",
        "lanes",
        of(over_lanes, lanes_fold(lambda s, f: replace(s, value=Fold(f.monoid, (Axis("again", ONE),), TRUE, (f,))))),
        "parallelise/subgroup",
    ),
    Mutant(
        "a fold in order, over lanes", "softmax", "lanes", of(over_lanes, value_of(refold(ORDERED))), "parallelise/commutative"
    ),
    Mutant(
        "a body that differs from lane to lane",
        "softmax",
        "lanes",
        of(over_lanes, body_of(lambda t, s: at_place(1, lambda i: Var(s.loops[-1].axis.name))(t))),
        "parallelise/subgroup",
    ),
    Mutant("over half of the lanes", "softmax", "lanes", of(over_lanes, first_lanes(16)), "parallelise/subgroup"),
    Mutant("over more lanes than there are", "softmax", "lanes", of(over_lanes, first_lanes(64)), "parallelise/subgroup"),
    Mutant(
        "over subgroups, not lanes",
        "softmax",
        "lanes",
        of(over_lanes, lambda s: replace(s, loops=(s.loops[1], s.loops[0]))),
        "parallelise/subgroup",
    ),
    Mutant("half of the subgroups only", "softmax", "lanes", of(over_lanes, fewer_subgroups), "parallelise/subgroup"),
    Mutant(
        "some lanes left out by a guard of the fold",
        "softmax",
        "lanes",
        of(
            over_lanes,
            lanes_fold(
                lambda s, f: replace(s, value=Fold(f.monoid, f.axes, Op("lt", (Var(f.axes[0].name), Const(31))), f.body))
            ),
        ),
        "parallelise/subgroup",
    ),
    # -- matrix units: the loads of the fragments, and the unit's own reads
    Mutant("A: rows and columns by 8 swapped", "half", "unit", of(fragment(0), two_digits(-3, -2)), "value/"),
    Mutant("A: neighbours and rows by 8 swapped", "half", "unit", of(fragment(0), two_digits(-2, -1)), "value/"),
    Mutant("A: neighbours and columns by 8 swapped", "half", "unit", of(fragment(0), two_digits(-3, -1)), "value/"),
    Mutant("A: an element doubled, its neighbour missed", "half", "unit", of(fragment(0), digit_lost(-1)), "value/"),
    Mutant("A: the lower rows missed", "half", "unit", of(fragment(0), digit_lost(-2)), "value/"),
    Mutant("A: all lanes of a group alike", "half", "unit", of(fragment(0), digit_lost(3)), "value/"),
    Mutant("A: all groups alike", "half", "unit", of(fragment(0), digit_lost(2)), "value/"),
    Mutant("A: another subgroup's rows", "half", "unit", of(fragment(0), digit_lost(0)), "value/"),
    Mutant("B: neighbours and rows by 8 swapped", "half", "unit", of(fragment(1), two_digits(-2, -1)), "value/"),
    Mutant("B: an element doubled", "half", "unit", of(fragment(1), digit_lost(-1)), "value/"),
    Mutant("B: all groups alike", "half", "unit", of(fragment(1), digit_lost(2)), "value/"),
    Mutant("B: another subgroup's columns", "half", "unit", of(fragment(1), digit_lost(1)), "value/"),
    Mutant("the unit reads A's slots in another order", "half", "unit", of(by_unit, operand(0, exchanged(-3, -2))), "unit/"),
    Mutant("the unit reads A's slots backwards", "half", "unit", of(by_unit, operand(0, exchanged(-3, -1))), "unit/"),
    Mutant("the unit reads B's slots backwards", "half", "unit", of(by_unit, operand(1, exchanged(-2, -1))), "unit/"),
    Mutant(
        "the unit reads B's columns of other lanes",
        "half",
        "unit",
        of(by_unit, operand(1, at_place(2, lambda i: Op("sub", (Const(7), i))))),
        "unit/",
    ),
    Mutant("the unit reads A of its own lane alone", "half", "unit", of(by_unit, operand(0, exchanged(2, 3))), "unit/"),
    Mutant(
        "the unit takes another subgroup's fragment",
        "half",
        "unit",
        of(by_unit, operand(0, at_place(0, lambda i: Op("sub", (ONE, i))))),
        "unit/",
    ),
    Mutant(
        "which fragment depends on the lane",
        "half",
        "unit",
        of(
            by_unit,
            lambda s: operand(0, at_place(4, lambda i: Op("mod", (Op("add", (i, Var(s.loops[2].axis.name))), Const(4)))))(s),
        ),
        "unit/",
    ),
    Mutant("which fragment depends on shared data", "half", "unit", data_dependent_fragment, "unit/"),
    Mutant(
        "factors swapped",
        "half",
        "unit",
        of(
            by_unit,
            value_of(lambda t: Op("mul", (t.args[1], t.args[0])) if is_op(t, "mul") and isinstance(t.args[1], Read) else None),
        ),
        "unit/",
    ),  # type: ignore[union-attr]
    Mutant("the unit subtracts", "half", "unit", of(by_unit, lambda s: replace(s, value=Op("sub", s.value.args))), "unit/"),  # type: ignore[union-attr]
    Mutant(
        "the unit forgets what was there", "half", "unit", of(by_unit, lambda s: replace(s, value=s.value.args[1])), "unit/"
    ),  # type: ignore[union-attr]
    Mutant(
        "the lane's digits the other way round",
        "half",
        "unit",
        of(by_unit, lambda s: replace(s, loops=(*s.loops[:2], s.loops[3], s.loops[2], *s.loops[4:]))),
        "unit/",
    ),
    Mutant(
        "a guard around the unit",
        "half",
        "unit",
        of(by_unit, lambda s: replace(s, guard=Op("lt", (Var(s.loops[0].axis.name), ONE)))),
        "unit/",
    ),
    Mutant(
        "a unit in a loop of some lanes",
        "half",
        "unit",
        of(
            by_unit,
            lambda s: replace(s, loops=(*s.loops, Loop(Axis("again", Op("min", (Var(s.loops[3].axis.name), ONE))), "seq"))),
        ),
        "unit/",
    ),
    Mutant("a unit without subgroups", "half", "unit", machine(subgroup=0), "unit/"),
    Mutant("a unit of half subgroups", "half", "unit", machine(subgroup=16), "unit/"),
    Mutant("threads that do not come to the unit", "half", "unit", machine(threads=512), "unit/"),
    Mutant("a unit that is not known", "half", "unit", of(by_unit, lambda s: replace(s, unit="mma")), "IllFormed"),
    Mutant("a unit that goes on by itself", "half", "unit", of(by_unit, lambda s: replace(s, asynchronous=True)), "async/copy"),
    Mutant("a unit for a constant", "half", "unit", of(starts, lambda s: replace(s, unit="mma.m16n8k16.f16.f32")), "unit/"),
    Mutant("the unit's statement by threads", "half", "unit", of(by_unit, lambda s: replace(s, unit="")), "no-race/owner"),
    Mutant(
        "a fragment of another dtype",
        "half",
        "unit",
        of_buffer(lambda b: owned(b) and b.dtype == "float16", lambda b: replace(b, dtype="float32")),
        "unit/",
    ),
    Mutant(
        "an accumulator of another dtype",
        "half",
        "unit",
        of_buffer(lambda b: owned(b) and b.dtype == "float32", lambda b: replace(b, dtype="float16")),
        "unit/",
    ),
    Mutant(
        "a fragment that is no register",
        "half",
        "unit",
        of_buffer(lambda b: owned(b) and b.dtype == "float16", rescoped("thread")),
        "unit/",
    ),
    Mutant(
        "a fragment of fewer owners",
        "half",
        "unit",
        of_buffer(lambda b: owned(b) and b.dtype == "float16", lambda b: replace(b, owners=3)),
        "no-race/owner",
    ),
    # -- guards, bounds, capacity, width
    Mutant("store guard dropped", "clip", "guard", store(lambda s: replace(s, guard=TRUE)), "in-bounds/"),
    Mutant("store guard drops the last cell", "clip", "guard", store(_in_guard(tightened(1))), "cover/"),
    Mutant("store guard drops a row", "matmul", "guard", store(_in_guard(tightened(1))), "cover/"),
    Mutant(
        "store guard on the thread",
        "matmul",
        "guard",
        store(lambda s: replace(s, guard=Op("and", (s.guard, Op("lt", (Var(s.loops[0].axis.name), ONE)))))),
        "cover/",
    ),
    Mutant("copy guard lets one more in", "matmul", "guard", of(copies, value_of(_in_load(_loosened))), "in-bounds/"),
    Mutant(
        "copy without its guard",
        "half",
        "guard",
        of(lambda s: padded(s.value), lambda s: replace(s, value=s.value.args[1])),
        "in-bounds/",
    ),  # type: ignore[union-attr]
    Mutant(
        "mask of the scores loosened",
        "causal",
        "guard",
        of(lambda s: s.target == "tile", value_of(tightened(-1, lambda t: is_op(t, "le")))),
        "value/",
    ),
    Mutant(
        "mask for a strict one", "causal", "guard", of(lambda s: s.target == "next", value_of(relation("le", "lt"))), "value/"
    ),
    Mutant("a shared tile one column short", "half", "capacity", of_buffer(shared, shorter(-1)), "in-bounds/"),
    Mutant("a shared tile one row short", "half", "capacity", of_buffer(shared, shorter(0)), "in-bounds/"),
    Mutant("partial results one short", "softmax", "capacity", of_buffer(shared, shorter(0)), "in-bounds/"),
    Mutant("shared memory over the limit by a byte", "matmul", "capacity", less_shared, "capacity/shared"),
    Mutant(
        "shared memory over the limit, in small change",
        "matmul",
        "capacity",
        in_first_block(*(scratch(f"small{k}", "bool") for k in range(4))),
        "capacity/shared",
    ),
    Mutant("shared memory over the limit, in two launches", "split", "capacity", less_shared, "capacity/shared"),
    Mutant(
        "a shared array of unknown size",
        "matmul",
        "capacity",
        of_buffer(shared, shape(0, lambda e: Var("n"))),
        "capacity/shared",
    ),
    Mutant(
        "a register array of unknown size", "matmul", "capacity", of_buffer(owned, shape(-1, lambda e: Var("n"))), "capacity/"
    ),
    Mutant("more shared memory than any machine has", "clip", "capacity", machine(shared_bytes=1 << 21), "IllFormed"),
    Mutant("more threads than any machine has", "clip", "capacity", machine(threads=2048), "IllFormed"),
    Mutant("no threads", "clip", "capacity", machine(threads=0, subgroup=0), "IllFormed"),
    Mutant("indices of 16 bits", "clip", "width", machine(index_bits=16), "IllFormed"),
    Mutant("an index beyond 32 bits", "matmul", "width", both(machine(index_bits=32), store(flat_guard)), "width/int32"),
    Mutant("int64 arrays, 32-bit integers", "long", "width", machine(index_bits=32), "width/int64"),
    Mutant(
        "an int64 buffer, 32-bit integers",
        "clip",
        "width",
        both(machine(index_bits=32, shared_bytes=8), in_first_block(scratch("wide", "int64"))),
        "width/int64",
    ),
    Mutant(
        "an int32 buffer given more than 31 bits",
        "matmul",
        "width",
        both(machine(shared_bytes=1 << 16), in_first_block(scratch("narrow", "int32"), Assign((), "narrow", (), BIG))),
        "width/int32",
    ),
    Mutant(
        "accumulators narrower than the arrays",
        "matmul",
        "width",
        of_buffer(owned, lambda b: replace(b, dtype="float16")),
        "width/real",
    ),
    Mutant(
        "scores narrower than the arrays",
        "causal",
        "width",
        of_buffer(lambda b: b.name == "raw", lambda b: replace(b, dtype="float16")),
        "width/real",
    ),
    # -- rows in registers
    Mutant("a vector that is not aligned", "row", "vector", of(into_registers, value_of(element_first)), "width/vector"),
    Mutant("a vector of what is far apart", "row", "vector", of(into_registers, wide_vector), "width/vector"),
    Mutant("a vector between two types", "row", "vector",
           of_buffer(lambda b: b.name.endswith("_row"), lambda b: replace(b, dtype="float32")), "width/vector"),
    Mutant("a vector that computes", "row", "vector", store(lambda s: element(s, lambda v: Op("neg", (v,)))), "width/vector"),
    Mutant("a row's vectors kept by other threads", "row", "owner", of(into_registers, threads_swapped), "no-race/owner"),
    Mutant("another thread's slots stored", "row", "owner", store(value_of(lambda t: neighbour(t, 1, 31))), "no-race/owner"),
    Mutant("another slot stored", "row", "value", store(value_of(lambda t: neighbour(t, 2, 3))), "value/"),
    Mutant("a fold of some slots", "row", "value", of(lambda s: s.target == "part", fewer_slots), "value/"),
    Mutant("what one subgroup found, for all", "row", "value",
           of(reads_own("all"), value_of(lambda t: at_place(0, lambda i: ZERO)(t) if isinstance(t, Read) else None)), "value/"),
    Mutant("a row's sum stored by every lane", "total", "guard", store(lambda s: replace(s, guard=_row_guard(s))), "no-race/"),
    Mutant("a row's sum stored by no such row", "total", "guard", store(lambda s: replace(s, guard=_lane_guard(s))), "in-bounds/"),
    Mutant("a row beyond the last one read", "total", "guard",
           of(into_registers, lambda s: replace(s, value=s.value.args[1])), "in-bounds/"),  # type: ignore[union-attr]
    # -- blocks and launches
    Mutant("a block's buffer used by all blocks", "matmul", "launch", hoisted, "no-race/scope"),
    Mutant("a block's buffer used by all blocks", "softmax", "launch", hoisted, "no-race/scope"),
    Mutant(
        "the sequential loop in parallel",
        "matmul",
        "launch",
        loop(lambda s: replace(s, kind="grid") if s.carried else None),
        "no-race/carried",
    ),
    Mutant("the merge before the parts", "split", "launch", launches_swapped, "stage/defined"),
    Mutant("the merge in the launch of the parts", "split", "launch", in_one_launch, "stage/defined"),
    Mutant(
        "one part missing",
        "split",
        "launch",
        loop(
            lambda s: replace(s, axis=Axis(s.axis.name, Const(3))) if s.axis.extent == Const(4) and s.kind == "grid" else None
        ),
        "cover/part_state",
    ),
    Mutant(
        "parts in shared memory",
        "split",
        "launch",
        of_buffer(lambda b: b.scope == "global", lambda b: replace(b, scope="shared", shape=(Const(4), Const(4)))),
        "no-race/scope",
    ),
    Mutant(
        "a part of the row twice",
        "split",
        "launch",
        of(lambda s: isinstance(s.value, Fold) and not over_lanes(s), lambda s: replace(s, value=everywhere(s.value, _nearer))),
        "value/",
    ),
)
