"""Kernels of several outputs, each broken in one place: an output not written, written twice, swapped with the other, …"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest

from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.plan import Choice, plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs import ledger
from tang_verified.proofs.check import certify
from tang_verified.proofs.steps import Step
from tang_verified.semantics.kernel import Assign, For, Kernel, Stmt
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import FALSE, TRUE, ZERO, Const, Op, Read, Term
from tang_verified.tracing.tracer import trace
from tests.refused.edits import assignment, change, first, running, shifted
from tests.refused.programs import Case
from tests.refused.test_kernels import BUDGET, verdict
from tests.schedule import several

Change = Callable[[Kernel], Kernel]
CPU, GPU = Target(), Target(lanes=16, threads=64, shared_bytes=32 << 10)
TARGETS = {"cpu": CPU, "gpu": GPU}


@cache
def derived(name: str) -> tuple[Program, Program, tuple[Step, ...]]:
    traced = trace(getattr(several, name), {})
    made = derive(traced)
    return traced, made.program, made.steps


@cache
def sound(name: str, target: str) -> Case:
    """The joint kernel, not yet certified."""
    traced, program, steps = derived(name)
    kernels = plan(program, TARGETS[target])
    assert len(kernels) == 1 and len(kernels[0].outputs) == 2
    return Case(traced, steps, kernels)


# -- edits: outputs are numbered as the kernel lists them -------------------------------------------------------------------


def stores(number: int, edit: Callable[[Assign, Kernel], Assign | tuple[Stmt, ...] | None]) -> Change:
    return lambda kernel: assignment(lambda s: edit(s, kernel) if s.target == kernel.outputs[number] else None)(kernel)


def unwritten(number: int) -> Change:
    return stores(number, lambda s, _: ())


def never(number: int) -> Change:
    return stores(number, lambda s, _: replace(s, guard=FALSE))


def twice(number: int) -> Change:
    return stores(number, lambda s, _: (s, s))


def swapped(kernel: Kernel) -> Kernel:
    """What belongs to the one is stored to the other."""
    a, b = kernel.outputs
    other = {a: b, b: a}

    def all_of(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            match s:
                case For():
                    out.append(replace(s, body=all_of(s.body)))
                case Assign():
                    out.append(replace(s, target=other.get(s.target, s.target)))
                case _:
                    out.append(s)
        return tuple(out)

    return replace(kernel, body=all_of(kernel.body))


def instead(number: int) -> Change:
    """The one output's store goes to the other."""
    return stores(number, lambda s, kernel: replace(s, target=kernel.outputs[1 - number]))


def other_value(kernel: Kernel) -> Kernel:
    """The first output is given the second's value (their loops have the same shape)."""
    found = [s for s in _assigns(kernel.body) if s.target in kernel.outputs]
    one, two = (next(s for s in found if s.target == name) for name in kernel.outputs)
    return change(kernel, lambda s: (replace(two, target=one.target),) if s is one else None)


def _assigns(body: tuple[Stmt, ...]) -> list[Assign]:
    return [a for s in body for a in ([s] if isinstance(s, Assign) else _assigns(s.body) if isinstance(s, For) else [])]


def of_the_other(listed: bool) -> Change:
    """The second output is computed from the first, in the same kernel."""

    def edit(s: Assign, kernel: Kernel) -> Assign:
        return replace(s, value=Read(kernel.outputs[0], s.index, "real"))

    def change_(kernel: Kernel) -> Kernel:
        broken = stores(1, edit)(kernel)
        return replace(broken, reads=(*broken.reads, broken.outputs[0])) if listed else broken

    return change_


def early(number: int) -> Change:
    """Stored from running states before the last tile: the pass ends one tile early for it, and it is stored in the loop."""

    def edit(kernel: Kernel) -> Kernel:
        store = next(s for s in _assigns(kernel.body) if s.target == kernel.outputs[number])
        without = unwritten(number)(kernel)
        return running(lambda s: replace(s, body=(*s.body, store)) if s.carried else None)(without)

    return edit


def unguarded(s: Assign, _: Kernel) -> Assign:
    return replace(s, guard=TRUE)


def everywhere_along_columns(s: Assign, _: Kernel) -> Assign | None:
    """Every tile of columns stores the rows' output, not the first alone."""

    def once(t: Term) -> Term | None:
        return TRUE if isinstance(t, Op) and t.name == "eq" and ZERO in t.args else None

    guard = first(s.guard, once)
    return None if guard is None else replace(s, guard=guard)


def in_the_second_tile(s: Assign, _: Kernel) -> Assign | None:
    def later(t: Term) -> Term | None:
        return Op("eq", (t.args[0], Const(1))) if isinstance(t, Op) and t.name == "eq" and t.args[1] == ZERO else None

    guard = first(s.guard, later)
    return None if guard is None else replace(s, guard=guard)


def lists(edit: Callable[[tuple[str, ...]], tuple[str, ...]], field: str = "outputs") -> Change:
    return lambda kernel: replace(kernel, **{field: edit(getattr(kernel, field))})  # type: ignore[arg-type]


def value(number: int, edit: Callable[[Term], Term | None]) -> Change:
    def one(s: Assign, _: Kernel) -> Assign | None:
        new = first(s.value, edit)
        return None if new is None else replace(s, value=new)

    return stores(number, one)


# -- the mutants ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    name: str
    program: str
    target: str
    change: Change
    refused: str  # the beginning of the obligation


MUTANTS = (
    *(Mutant(f"output {k} not written", program, target, unwritten(k), "cover/")
      for program in ("statistics", "gradients_of_keys") for target in TARGETS for k in (0, 1)),
    Mutant("output 1 not written", "attention", "gpu", unwritten(1), "cover/"),
    *(Mutant(f"output {k} never written", program, "cpu", never(k), "cover/")
      for program in ("statistics", "gradients_of_keys") for k in (0, 1)),
    *(Mutant(f"output {k} written twice", program, target, twice(k), "no-race/")
      for program in ("statistics", "gradients_of_keys") for target in TARGETS for k in (0, 1)),
    Mutant("output 0 written twice", "attention", "gpu", twice(0), "no-race/"),
    *(Mutant("outputs swapped", program, target, swapped, "value/")
      for program in ("statistics", "gradients_of_keys", "two_of_a_product", "maps") for target in TARGETS),
    Mutant("outputs of other ranks swapped", "attention", "cpu", swapped, ""),
    *(Mutant(f"output {k} goes to the other", program, "cpu", instead(k), "value/")
      for program in ("statistics", "gradients_of_keys") for k in (0, 1)),
    *(Mutant("the second's value in the first", program, target, other_value, "value/")
      for program in ("statistics", "maps") for target in TARGETS),
    *(Mutant(f"one output of the other, {'listed' if listed else 'not listed'}", "statistics", "cpu", of_the_other(listed), "IllFormed")
      for listed in (False, True)),
    *(Mutant(f"output {k} stored after every tile", program, target, early(k), "")
      for program in ("statistics", "gradients_of_keys") for target in TARGETS for k in (0, 1)),
    Mutant("rows stored by every tile of columns", "attention_of_any_width", "cpu", stores(0, everywhere_along_columns), "no-race/"),
    Mutant("rows stored by the second tile of columns", "attention_of_any_width", "cpu", stores(0, in_the_second_tile), "cover/"),
    Mutant("rows stored beyond the last", "attention", "cpu", stores(0, unguarded), "in-bounds/"),
    Mutant("an output listed twice", "statistics", "cpu", lists(lambda o: (*o, o[0])), "IllFormed"),
    Mutant("an input listed twice", "statistics", "cpu", lists(lambda r: (*r, *r), "reads"), "IllFormed"),
    Mutant("an output not listed", "statistics", "cpu", lists(lambda o: o[:1]), "IllFormed"),
    Mutant("an output that is no definition", "statistics", "cpu", lists(lambda o: (*o, "elsewhere")), "IllFormed"),
    Mutant("the first of another row", "statistics", "cpu", value(0, lambda t: Op("neg", (t,))), "value/"),
    Mutant("rows' output of the next row", "attention", "cpu", value(0, shifted(None, 1)), ""),
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted({mutant.program for mutant in MUTANTS}))
def test_sound_twin(name: str, target: str) -> None:
    if (name, target) in {(mutant.program, mutant.target) for mutant in MUTANTS}:
        case = sound(name, target)
        certify(case.traced, case.steps, case.kernels)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.program}-{m.target}: {m.name}")
def test_refused(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = sound(mutant.program, mutant.target).kernels[0]
    broken = mutant.change(kernel)
    assert broken != kernel, "the mutant changes nothing"
    monkeypatch.setattr(ledger, "Z3_BUDGET", BUDGET)
    got = verdict(Case(kernel.program, (), (broken,)))
    assert got != "accepted" and got.startswith(mutant.refused), got


def test_two_kernels_of_one_output() -> None:
    """A kernel of both, and one more of the second."""
    case = sound("statistics", "cpu")
    alone = plan(case.kernels[0].program, CPU, {d.tensor.name: Choice(apart=1) for d in case.kernels[0].program.defs})
    got = verdict(replace(case, kernels=(*case.kernels, replace(alone[1], name="again"))))
    assert got.startswith("IllFormed") and "again" in got


def test_the_order_of_outputs_is_free() -> None:
    """It says how arrays are passed, and no more."""
    case = sound("statistics", "cpu")
    (kernel,) = case.kernels
    certify(case.traced, case.steps, [replace(kernel, outputs=kernel.outputs[::-1])])
