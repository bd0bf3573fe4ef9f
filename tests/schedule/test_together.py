"""Definitions whose passes do the same work become one kernel, with one loop over what they fold; others do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.plan import Choice, plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.certificate import read
from tang_verified.semantics.kernel import Assign, For, Kernel, Stmt
from tang_verified.semantics.terms import Const, Op, Term, children
from tang_verified.tracing.tracer import trace
from tests.schedule import several

GPU = Target(lanes=16, threads=256, shared_bytes=48 << 10)


def kernels(fn: Callable[..., Any], target: Target, **options: Any) -> tuple[Kernel, ...]:
    program = derive(trace(fn, {})).program
    return plan(program, target, {d.tensor.name: Choice(**options) for d in program.defs})


def every(body: tuple[Stmt, ...]) -> list[Stmt]:
    return [s for one in body for s in (one, *(every(one.body) if isinstance(one, For) else ()))]


def passes(made: Kernel) -> int:
    """Loops that carry running states."""
    return sum(isinstance(s, For) and bool(s.carried) for s in every(made.body))


def exponentials(made: Kernel) -> int:
    """Places in the program's text where an exponential is computed."""

    def count(term: Term) -> int:
        return (isinstance(term, Op) and term.name == "exp") + sum(count(part) for part in children(term))

    return sum(count(s.value) for s in every(made.body) if isinstance(s, Assign))


# not on a GPU: rows of any width have no tile in shared memory (the search falls back to another style, together again)
ON_BOTH = [(fn, target) for fn in several.TOGETHER for target in (Target(), GPU)
           if not (target.threads and fn is several.attention_of_any_width)]  # fmt: skip


@pytest.mark.parametrize(("fn", "target"), ON_BOTH, ids=lambda v: "gpu" if v is GPU else getattr(v, "__name__", "cpu"))
def test_one_kernel(fn: Callable[..., Any], target: Target) -> None:
    (made,) = kernels(fn, target)
    assert sorted(made.outputs) == sorted(made.program.outputs)
    alone = kernels(fn, target, apart=1)
    assert [kernel.outputs for kernel in alone] == [(name,) for name in made.outputs]
    assert passes(made) <= 1 or passes(made) < sum(map(passes, alone))
    if target.threads == 0 and any(map(passes, alone)):
        assert passes(made) == 1


@pytest.mark.parametrize("fn", several.APART, ids=lambda fn: fn.__name__)
def test_a_kernel_each(fn: Callable[..., Any]) -> None:
    assert all(len(kernel.outputs) == 1 for kernel in kernels(fn, Target()))


def test_all_of_attention_s_gradients() -> None:
    """dk and dv fold over the queries; dq, over the keys, runs across their pass, but not on a GPU or on many cores."""
    (made,) = kernels(several.gradients, Target())
    assert len(made.outputs) == 3 and exponentials(made) == 1
    for target in (GPU, Target(cores=64)):
        assert [len(kernel.outputs) for kernel in kernels(several.gradients, target)] == [1, 2]
    assert [len(kernel.outputs) for kernel in kernels(several.gradients_of_many_heads, Target(cores=64))] == [3]


def test_what_elements_share_is_computed_once_a_tile() -> None:
    (joint,) = kernels(several.gradients_of_keys, Target())
    assert exponentials(joint) == 1
    assert [exponentials(kernel) for kernel in kernels(several.gradients_of_keys, Target(), apart=1)] == [1, 1]


@pytest.mark.parametrize("fn", several.ACROSS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (63, 64), (130, 65), (1, 300), (300, 1), (1030, 129), (129, 1030), (0, 5), (5, 0)])
def test_across_a_pass(fn: Callable[..., Any], n: int, m: int) -> None:
    kernel = compiled(fn)
    assert len(kernel.certified.kernels) == 1 and not [note for note in kernel.notes if note.startswith("schedule")]
    rng, inputs = np.random.default_rng(n + m), []
    for tensor in kernel.program.inputs:
        sizes = {"n": n, "m": m, "h": 2}
        shape = [e.value if isinstance(e, Const) else sizes[e.name] for e in tensor.shape]
        inputs.append(rng.standard_normal(shape).astype("float32") / 2)
    for got, want in zip(kernel(*inputs), fn(*(x.astype("float64") for x in inputs)), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(want).max(initial=0))))


@cache
def compiled(fn: Callable[..., Any]) -> tv.CompiledKernel:
    return tv.compile(fn)


def test_what_runs_across_keeps_its_bound_and_its_audit(tmp_path: Any) -> None:
    kernel = compiled(several.all_causal_gradients)
    *_, path = kernel.save(tmp_path)
    assert tv.audit(path).exit_code == 0
    assert "no bound" not in kernel.explain()


@pytest.mark.parametrize("options", [{"apart": 1}, {"style": "plain"}], ids=str)
def test_as_asked(options: dict[str, Any]) -> None:
    assert len(kernels(several.statistics, Target(), **options)) == 2


def test_definitions_that_are_scheduled_differently() -> None:
    program = derive(trace(several.statistics, {})).program
    assert len(plan(program, Target(), {program.outputs[0]: Choice(tile=64)})) == 2


def test_order() -> None:
    """The kernel of two stands after what the second of them reads."""
    made = kernels(several.in_between, Target())
    done: set[str] = {tensor.name for tensor in made[0].program.inputs}
    for kernel in made:
        assert set(kernel.reads) <= done
        done |= set(kernel.outputs)


def test_the_certificate_of_a_kernel_of_two(tmp_path: Any) -> None:
    kernel = tv.compile(several.statistics)
    assert len(kernel.certified.kernels) == 1 and not [n for n in kernel.notes if n.startswith("schedule")]
    *_, path = kernel.save(tmp_path)
    assert read(path.read_text()).kernels == kernel.certified.kernels
    assert tv.audit(path).exit_code == 0
    assert f": {', '.join(kernel.certified.kernels[0].outputs)} from x" in kernel.explain()
    text = next(p for p in tmp_path.iterdir() if p.suffix == ".c")
    swapped = text.read_text()
    for a, b in (("array[1]", "array[x]"), ("array[2]", "array[1]"), ("array[x]", "array[2]")):
        swapped = swapped.replace(a, b)
    assert swapped != text.read_text()
    text.write_text(swapped)
    assert tv.audit(path).exit_code == 1


def test_where_the_joint_kernel_is_refused_each_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from tang_verified.passes.schedule import search
    from tang_verified.proofs.ledger import Refused

    real = search.follow_kernel

    def follow(before: Any, kernel: Any) -> Any:
        if len(kernel.outputs) > 1:
            raise Refused("value/x", f"kernel {kernel.name}/x:1", "unproved", "for the test")
        return real(before, kernel)

    monkeypatch.setattr(search, "follow_kernel", follow)
    kernel = tv.compile(several.statistics)
    assert [len(k.outputs) for k in kernel.certified.kernels] == [1, 1]
    assert [n for n in kernel.notes if n.startswith("schedule together of ")]
    x = np.random.default_rng(0).standard_normal((5, 19)).astype(np.float32)
    np.testing.assert_allclose(kernel(x)[1], x.astype(float).var(axis=-1), rtol=1e-5)
