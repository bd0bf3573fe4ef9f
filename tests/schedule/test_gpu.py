"""What the schedules of a GPU make of a tile program, without proving it (tests/conformance and tests/refused prove)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import tang_verified as tv
from examples import attention, conv2d, layernorm, softmax
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.gpu.barriers import with_barriers
from tang_verified.passes.schedule.gpu.digits import Digit, deal, digits
from tang_verified.passes.schedule.plan import Choice, plan
from tang_verified.passes.schedule.target import Target
from tang_verified.semantics.build import iadd, imul
from tang_verified.semantics.kernel import Alloc, Assign, Barrier, Commit, For, Kernel, Loop, Stmt, Wait, assignments
from tang_verified.semantics.terms import Axis, Const, Read, Var
from tang_verified.tracing.tracer import trace

PLAIN = Target(lanes=16, threads=256, shared_bytes=32 << 10)
CUDA = replace(PLAIN, subgroup=32, asynchronous=True, vector_bytes=16, own_vectors=True, unit="mma.m16n8k16.f16.f32")


def matmul(x, w):  # type: ignore[no-untyped-def]
    return x @ w


@cache
def kernel(function, target: Target, dtype: str = "", **options: int) -> Kernel:  # type: ignore[no-untyped-def]
    specs = {"x": tv.spec("n k", dtype), "w": tv.spec("k m", dtype)} if dtype else {}
    program = derive(trace(function, specs)).program
    choices = {d.tensor.name: Choice(**options) for d in program.defs}  # type: ignore[arg-type]
    return plan(program, target, choices)[-1]


def every(body: tuple[Stmt, ...]) -> list[Stmt]:
    return [s for one in body for s in (one, *(every(one.body) if isinstance(one, For) else ()))]


def kinds(made: Kernel) -> set[type]:
    return {type(s) for s in every(made.body)}


def buffers(made: Kernel, scope: str) -> list[str]:
    return [s.buffer.name for s in every(made.body) if isinstance(s, Alloc) and s.buffer.scope == scope]


def test_digits_of_an_index_place() -> None:
    loops = {n: Loop(Axis(n, Const(e)), "seq") for n, e in (("a", 4), ("b", 16), ("c", 4))}
    place = iadd(imul(Var("a"), 16), Var("b"))
    assert digits(place, 64, loops) == [Digit("a", 4), Digit("b", 16)]
    assert digits(place, 128, loops) is None, "the place does not reach the extent"
    assert digits(iadd(imul(Var("a"), 8), Var("b")), 64, loops) is None, "two values of the loops are one place"
    assert digits(iadd(place, Const(1)), 64, loops) is None


def test_threads_are_dealt_from_the_innermost_loop_in_powers_of_two() -> None:
    loops = tuple(Loop(Axis(n, Const(e)), k) for n, e, k in (("r", 48, "seq"), ("u", 4, "unroll"), ("l", 16, "lane")))  # type: ignore[arg-type]
    assert deal(loops, 256) == {"l": 16, "r": 16}
    assert deal(loops, 32) == {"l": 16, "r": 2}


def test_barriers_only_where_a_buffer_is_shared_and_written() -> None:
    t = (Loop(Axis("t", Const(4)), "thread"),)
    write, read = (Assign(t, name, (Var("t"),), Read(source, (Var("t"),), "real")) for name, source in (("s", "x"), ("y", "s")))
    assert with_barriers((write, read), frozenset({"s"})) == (write, Barrier(), read)
    assert with_barriers((write, read), frozenset()) == (write, read)
    loop = For(Axis("k", Const(8)), "seq", (write, read))
    (inner,) = with_barriers((loop,), frozenset({"s"}))
    assert isinstance(inner, For) and inner.body == (write, Barrier(), read, Barrier()), "the next iteration writes again"


@pytest.mark.parametrize(("dtype", "unit"), [("float16", "mma.m16n8k16.f16.f32"), ("float32", "")])
def test_a_matrix_unit_takes_halves_alone(dtype: str, unit: str) -> None:
    assert {s.unit for s in assignments(kernel(matmul, CUDA, dtype).body)} == {"", unit}
    assert {s.unit for s in assignments(kernel(matmul, PLAIN, dtype).body)} == {""}


def test_accumulators_stay_in_registers_and_tiles_are_shared() -> None:
    made = kernel(matmul, PLAIN, "float32")
    assert buffers(made, "register") == ["state"] and buffers(made, "shared") == ["left", "right"]
    assert made.machine.shared_bytes <= PLAIN.shared_bytes


def test_a_ring_where_copies_go_on_by_themselves() -> None:
    assert {Commit, Wait} <= kinds(kernel(matmul, CUDA, "float32"))
    assert not {Commit, Wait} & kinds(kernel(matmul, PLAIN, "float32"))
    assert not any(s.asynchronous for s in assignments(kernel(layernorm.layernorm, CUDA).body)), "nothing is staged"


def test_vectors_where_rows_are_whole() -> None:
    def vectors(made: Kernel) -> list[str]:
        return [s.target for s in assignments(made.body) if any(loop.kind == "lane" for loop in s.loops)]

    assert vectors(kernel(attention.heads, CUDA)), "64 features"
    assert not vectors(kernel(matmul, CUDA, "float32")), "a row of k elements may begin anywhere"


def test_a_row_is_folded_in_parts() -> None:
    shuffled, staged = kernel(softmax.softmax, CUDA), kernel(softmax.softmax, PLAIN)
    assert any(kind == "thread" for s in assignments(shuffled.body) for _, kind in s.fold_kinds)
    assert not any(kind == "thread" for s in assignments(staged.body) for _, kind in s.fold_kinds)
    assert buffers(shuffled, "register") and not buffers(staged, "register")


def test_a_short_fold_is_no_tile() -> None:
    assert not buffers(kernel(conv2d.conv2d, PLAIN), "register"), "three channels"
