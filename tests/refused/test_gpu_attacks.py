"""Ways in which the checker was once made to accept a kernel of threads that races, each as small as it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tang_verified.proofs.check import certify
from tang_verified.proofs.ledger import Refused
from tang_verified.semantics.kernel import (
    Alloc,
    Assign,
    Barrier,
    Buffer,
    Carried,
    Claim,
    Commit,
    For,
    Kernel,
    Kind,
    Loop,
    Machine,
    Stmt,
    Wait,
)  # fmt: skip
from tang_verified.semantics.program import Def, DType, Program, Tensor
from tang_verified.semantics.terms import ADD, ONE, REAL_ZERO, TRUE, ZERO, Axis, Const, Fold, IllFormed, Op, Read, Term, Var

BLOCK = Machine(threads=16, subgroup=16, shared_bytes=1 << 12)
T, U = Var("t"), Var("u")


def op(name: str, *args: Term | int) -> Op:
    return Op(name, tuple(Const(a) if isinstance(a, int) else a for a in args))


def read(name: str, *index: Term, sort: str = "real") -> Read:
    return Read(name, index, sort)  # type: ignore[arg-type]


def loops(**extents: int | Term) -> tuple[Loop, ...]:
    """Axes of threads where the name is t or y, else sequential."""
    kinds: dict[str, Kind] = {"t": "thread", "y": "thread"}
    return tuple(Loop(axis(name, extent), kinds.get(name, "seq")) for name, extent in extents.items())


def axis(name: str, extent: int | Term) -> Axis:
    return Axis(name, Const(extent) if isinstance(extent, int) else extent)


def program(value: Term, *, length: int = 64) -> Program:
    """z[i] = value for i < length; and x, of as many."""
    x, z = (Tensor(name, "float32", (Const(length),)) for name in "xz")
    return Program("p", (), (x,), (Def(z, ("i",), value),), ("z",))


def kernel(p: Program, *body: Stmt, machine: Machine = BLOCK) -> Kernel:
    return Kernel("k", p, ("x",), ("z",), body, (), machine)


def shared(name: str, *shape: int, dtype: DType = "float32") -> Alloc:
    return Alloc(Buffer(name, dtype, tuple(map(Const, shape)), "shared"))


def verdict(k: Kernel) -> str:
    try:
        certify(k.program, (), (k,))
    except Refused as refusal:
        return refusal.obligation
    except IllFormed as problem:
        return f"IllFormed: {problem}"
    return "accepted"


COPY = program(read("x", Var("i")))
AT = op("add", op("mul", 16, U), T)  # 16 u + t
BACK = op("sub", 15, T)
LOAD = Assign(loops(t=16), "s", (T,), read("x", op("add", op("mul", 16, U), T)))
STORE = Assign(loops(t=16), "z", (op("add", op("mul", 16, U), BACK),), read("s", BACK))


def rounds(*after: Stmt, outer: str = "") -> Kernel:
    """s[t] := x[16 u + t]; barrier; z[16 u + 15 - t] := s[15 - t]; and then?"""
    body: Stmt = For(axis("u", 4), "seq", (shared("s", 16), LOAD, Barrier(), STORE, *after))
    return kernel(COPY, For(axis(outer, 1), "seq", (body,)) if outer else body)


def test_rounds() -> None:
    assert verdict(rounds(Barrier())) == "accepted"
    assert verdict(rounds()).startswith("no-race/s")


@pytest.mark.parametrize("outer", ["u'", "u!later"])
def test_a_loop_named_as_the_checker_names_a_later_iteration(outer: str) -> None:
    assert verdict(rounds(outer=outer)).startswith("IllFormed: axis")


def test_a_blocks_memory_is_gone_at_the_next_launch() -> None:
    """s is filled in one launch, and read in a later one."""
    first = Assign(loops(t=16), "s", (T,), read("x", T))
    between = For(axis("u", 3), "grid", (Assign(loops(t=16), "z", (op("add", AT, 16),), read("x", op("add", AT, 16))),))
    last = Assign(loops(t=16), "z", (T,), read("s", T))
    assert verdict(kernel(COPY, Alloc(Buffer("s", "float32", (Const(16),), "global")), first, between, last)) == "accepted"
    assert verdict(kernel(COPY, shared("s", 16), first, between, last)).startswith("no-race/scope")
    own = Alloc(Buffer("s", "float32", (Const(16),), "register", 1))
    assert verdict(kernel(COPY, own, first, between, last)).startswith("no-race/scope")


def ring(keep: int, *before: Stmt) -> Kernel:
    """z[16 u + t] := ring[u mod 2, t], filled one round ahead by copies that go on by themselves."""
    slot, following = op("mod", U, 2), op("add", U, 1)

    def tile(u: Term, t: Term) -> Term:
        return op("select", op("lt", u, 4), read("x", op("add", op("mul", 16, u), t)), REAL_ZERO)

    a, b = Var("a"), Var("b")
    held = op("add", U, op("mod", op("sub", a, U), 2))
    start = Claim(("a", "b"), tile(ZERO, b), op("eq", a, 0))
    fill = Assign(loops(t=16), "ring", (ZERO, T), tile(ZERO, T), claim=start, asynchronous=True)
    one = Claim(("a", "b"), tile(U, b), op("eq", a, slot))
    both = Claim(("a", "b"), tile(held, b))
    more = Assign(loops(t=16), "ring", (op("mod", following, 2), T), tile(following, T), claim=both, asynchronous=True)
    use = Assign(loops(t=16), "z", (op("add", op("mul", 16, U), BACK),), read("ring", slot, BACK))
    body = (more, Commit(), Wait(keep), Barrier(), use, Barrier())
    return kernel(COPY, shared("ring", 2, 16), fill, Commit(), *before, For(axis("u", 4), "seq", body, (Carried("ring", one),)))


def test_ring() -> None:
    assert verdict(ring(1)) == "accepted"
    assert verdict(ring(2)).startswith("async/ring")


def test_groups_counted_by_a_loop_whose_rounds_differ() -> None:
    """for u < 8: for v < u: commit          closes 0 + 1 + … + 7 groups, not u · 8 for the u of another loop."""
    nest = For(axis("u", 8), "seq", (For(axis("v", U), "seq", (Commit(),)),))
    assert verdict(ring(2, Commit(), Commit(), nest)).startswith("async/groups")


def rows(value: Term) -> Program:
    """z[y, t] = value, of 4 rows of 4."""
    x, z = (Tensor(name, "float32", (Const(4), Const(4))) for name in "xz")
    return Program("p", (), (x,), (Def(z, ("i", "j"), value),), ("z",))


def total(row: Term, name: str = "k", tensor: str = "x") -> Fold:
    return Fold(ADD, (axis(name, 4),), TRUE, (read(tensor, row, Var(name)),))


Y = Var("y")
SUMS = rows(total(Var("i")))
OWN = Alloc(Buffer("p", "float32", (Const(4), Const(4)), "register", 2))
TAKE = Assign(loops(y=4, t=4), "p", (Y, T), read("x", Y, T))
LANES: tuple[tuple[str, Kind], ...] = (("k", "thread"),)


def test_lanes_fold() -> None:
    store = Assign(loops(y=4, t=4), "z", (Y, T), total(Y, tensor="p"), fold_kinds=LANES)
    assert verdict(kernel(SUMS, OWN, TAKE, store)) == "accepted"


def test_lanes_that_run_a_loop_for_different_times() -> None:
    """The fold over lanes stands in a loop that lane 0 does not enter."""
    times = op("min", T, 1)
    some = Assign(loops(y=4, t=4, s=times), "z", (Y, T), total(Y, tensor="p"), fold_kinds=LANES)
    rest = Assign(loops(y=4), "z", (Y, ZERO), total(Y))
    assert verdict(kernel(SUMS, OWN, TAKE, some, rest)).startswith("parallelise/subgroup")


def test_a_fold_over_lanes_that_stands_below_a_condition_too() -> None:
    fold = total(Y, tensor="p")
    branch = op("max", fold, op("select", op("lt", T, 2), fold, fold))
    store = Assign(loops(y=4, t=4), "z", (Y, T), branch, fold_kinds=LANES)
    assert verdict(kernel(SUMS, OWN, TAKE, store)).startswith("parallelise/subgroup")


def test_an_asynchronous_copy_of_a_lone_thread() -> None:
    """Nobody waits for it."""
    fill = Assign(loops(u=64), "s", (U,), read("x", U), asynchronous=True)
    store = Assign(loops(u=64), "z", (U,), read("s", U))
    alone = kernel(COPY, shared("s", 64), fill, store, machine=Machine(shared_bytes=1 << 12))
    assert verdict(alone).startswith("async/")
    assert verdict(replace(alone, body=(shared("s", 64), replace(fill, asynchronous=False), store))) == "accepted"


def test_siblings_of_one_name() -> None:
    """Two buffers of one name are two, also where their ranks are the same."""
    one = For(axis("u", 2), "seq", (shared("s", 16), LOAD, Barrier(), STORE, Barrier()))
    index = op("add", AT, 32)
    two = (
        shared("s", 1, 16), Assign(loops(w=1, t=16), "s", (Var("w"), T), read("x", index)), Barrier(),
        Assign(loops(t=16), "z", (op("sub", op("add", op("mul", 16, U), 47), T),), read("s", ZERO, BACK)), Barrier(),
    )  # fmt: skip
    assert verdict(kernel(COPY, one, For(axis("u", 2), "seq", two))) == "accepted"
    assert verdict(kernel(COPY, one, For(axis("u", 2), "seq", two[:2] + two[3:]))).startswith("no-race/s")


def test_int64_in_a_kernel_of_32_bit_integers() -> None:
    buffer = Alloc(Buffer("n", "int64", (), "shared"))
    store = Assign(loops(t=16, u=4), "z", (AT,), read("x", AT))
    narrow = replace(BLOCK, index_bits=32)
    assert verdict(kernel(COPY, store, machine=narrow)) == "accepted"
    assert verdict(kernel(COPY, buffer, Assign((), "n", (), ONE), store, machine=narrow)).startswith("width/int64")


def test_a_vector_whose_lanes_run_a_loop_for_different_times() -> None:
    """Lane 0 does not enter the loop, but a vector has all its lanes or none."""
    lanes = (*loops(t=16), Loop(axis("v", 4), "lane"))
    index = op("add", op("mul", 4, T), Var("v"))
    whole = Assign(lanes, "z", (index,), read("x", index))
    assert verdict(kernel(COPY, whole)) == "accepted"
    some = replace(whole, loops=(*lanes, Loop(axis("w", op("min", Var("v"), 1)), "seq")))
    rest = Assign(loops(t=16), "z", (op("mul", 4, T),), read("x", op("mul", 4, T)))
    assert verdict(kernel(COPY, some, rest)).startswith("width/vector")
