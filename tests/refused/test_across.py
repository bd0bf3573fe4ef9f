"""Kernels with a definition that runs across their pass (`passes/schedule/across.py`), each broken in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.plan import plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs import ledger
from tang_verified.proofs.check import certify
from tang_verified.semantics.kernel import Alloc, Assign, For, Kernel
from tang_verified.semantics.terms import ONE, Axis, Const, Fold, Op, Read, Term, Var
from tang_verified.tracing.tracer import trace
from tests.refused.edits import assignment, buffer, everywhere, first, loop
from tests.refused.programs import Case
from tests.refused.test_kernels import BUDGET, verdict
from tests.schedule import several

Change = Callable[[Kernel], Kernel]


@cache
def sound(name: str) -> Case:
    traced = trace(getattr(several, name), {})
    made = derive(traced)
    kernels = plan(made.program, Target())
    assert len(kernels) == 1 and len(kernels[0].outputs) == 3
    return Case(traced, made.steps, kernels)


def into(target: str, edit: Callable[[Assign], Assign | None], nth: int = 0) -> Change:
    return assignment(lambda s: edit(s) if s.target == target else None, nth=nth)


def no_more(target: str, nth: int = 0) -> Change:
    return assignment(lambda s: () if s.target == target else None, nth=nth)


def twice(target: str, nth: int) -> Change:
    return assignment(lambda s: (s, s) if s.target == target else None, nth=nth)


def value(target: str, edit: Callable[[Term], Term | None], nth: int = 0) -> Change:
    def one(s: Assign) -> Assign | None:
        new = first(s.value, edit)
        return None if new is None else replace(s, value=new)

    return into(target, one, nth)


def next_tile(s: Assign) -> Assign:
    return replace(s, index=(Op("add", (s.index[0], ONE)), *s.index[1:]))


def one_less(name: str) -> Callable[[Term], Term | None]:
    """Folds over one element less than they should."""

    def edit(t: Term) -> Term | None:
        if isinstance(t, Fold) and t.axes[0].name == name and isinstance(t.axes[0].extent, Const):
            return Fold(t.monoid, (Axis(name, Const(int(t.axes[0].extent.value) - 1)),), t.guard, t.body)
        return None

    return edit


def other_operand(t: Term) -> Term | None:
    """The tile's element of the row beside it."""
    if isinstance(t, Read) and t.tensor.startswith("tile") and len(t.index) == 2:
        return Read(t.tensor, (t.index[1], t.index[0]), t.sort)
    return None


def carries(name: str, edit: Callable[[For], For]) -> Change:
    return loop(lambda s: edit(s) if any(c.buffer == name for c in s.carried) else None)


def shifted_claim(s: For) -> For:
    """The loop claims a tile more than was done."""
    def later(name: str) -> Callable[[Term], Term | None]:
        return lambda t: Op("add", (t, ONE)) if isinstance(t, Var) and t.name == name else None

    made = []
    for c in s.carried:
        new = first(c.claim.value, later(s.axis.name))
        made.append(replace(c, claim=replace(c.claim, value=new)) if new is not None and c.buffer in ("across", "share") else c)
    return replace(s, carried=tuple(made))


def total_of_fewer(s: Assign) -> Assign | None:
    new = first(s.value, lambda t: Fold(t.monoid, (Axis(t.axes[0].name, Const(15)),), t.guard, t.body)
                if isinstance(t, Fold) and t.axes[0].extent == Const(16) else None)  # fmt: skip
    return None if new is None else replace(s, value=new)


def without_part(s: For) -> For | None:
    """The number of a part's tiles, its share and its rows are those of part 0."""
    if s.axis.extent != Const(16):
        return None

    def edit(t: Term) -> Term | None:
        return Const(0) if t == Var(s.axis.name) else None

    def walk(b: tuple) -> tuple:
        return tuple(replace(x, body=walk(x.body), axis=Axis(x.axis.name, everywhere(x.axis.extent, edit))) if isinstance(x, For)
                     else replace(x, value=everywhere(x.value, edit), guard=everywhere(x.guard, edit),
                                  index=x.index if x.target == "part_across" else tuple(everywhere(i, edit) for i in x.index))
                     if isinstance(x, Assign) else x for x in b)  # fmt: skip

    return replace(s, body=walk(s.body))


def dq(kernel: Kernel) -> str:
    return kernel.outputs[0]


HEADS = (
    ("the sums do not begin at 0", no_more("across", 0), "stage/"),
    ("a tile's share is not added", no_more("across", 1), "carried/step"),
    ("a tile's share is added twice", twice("across", 1), ""),
    ("a tile's share is subtracted", value("across", lambda t: Op("sub", t.args) if isinstance(t, Op) and t.name == "add" else None), ""),
    ("the share alone is kept", value("across", lambda t: t.args[1] if isinstance(t, Op) and t.name == "add" else None), ""),
    ("the share goes to the next tile", into("share", next_tile), ""),
    ("the share is never written", no_more("share"), "stage/"),
    ("the tile is read the other way", value("share", other_operand), ""),
    ("the rows' loop claims a tile more", carries("across", shifted_claim), "carried/"),
    ("the rows run in parallel", carries("across", lambda s: replace(s, kind="grid")), "no-race/carried"),
    ("a tile of rows is left out", carries("across", lambda s: replace(s, axis=Axis(s.axis.name, Op("max", (Const(0), Op("sub", (s.axis.extent, ONE))))))), ""),
    ("the sums are shared by all heads", lambda k: replace(k, body=(Alloc(replace(_alloc(k, "across"), scope="global")), *buffer(lambda s: () if s.buffer.name == "across" else None)(k).body)), "no-race/shared"),
    ("the result is stored before the last tile", lambda k: _early(k), ""),
    ("the result is not stored", lambda k: no_more(dq(k))(k), "cover/"),
    ("the result's place is the next tile's", lambda k: into(dq(k), lambda s: replace(s, index=(s.index[0], Op("add", (s.index[1], Const(128))), s.index[2])))(k), ""),
)  # fmt: skip
CAUSAL = (
    ("the share does not begin at 0", no_more("share", 0), "stage/"),
    ("the pass' loop claims a tile more", carries("share", shifted_claim), ""),
    ("a tile is updated for the one before", into("share", lambda s: replace(s, index=(Op("max", (Const(0), Op("sub", (s.index[0], ONE)))), *s.index[1:])), 1), ""),
    ("the pass does not carry the share", carries("share", lambda s: replace(s, carried=tuple(c for c in s.carried if c.buffer != "share"))), "no-race/shared"),
)  # fmt: skip
MATRIX = (
    ("a part is left out of the sum", lambda k: into(dq(k), total_of_fewer)(k), ""),
    ("a part's sums are kept in the next part's place", into("part_across", lambda s: replace(s, index=(Op("add", (s.index[0], ONE)), *s.index[1:]))), ""),
    ("a part's sums are not kept", no_more("part_across"), "stage/"),
    ("a part too many", loop(lambda s: replace(s, axis=Axis(s.axis.name, Const(17))) if s.axis.extent == Const(16) else None), ""),
    ("every part takes the first one's tiles", loop(without_part), ""),
)  # fmt: skip
ALL = [(program, *one) for program, some in (("gradients", HEADS), ("all_causal_gradients", CAUSAL),
                                             ("all_gradients_of_a_matrix", MATRIX)) for one in some]  # fmt: skip


def _alloc(kernel: Kernel, name: str):
    def walk(body):
        for s in body:
            if isinstance(s, Alloc) and s.buffer.name == name:
                return s.buffer
            if isinstance(s, For) and (found := walk(s.body)):
                return found
        return None

    return walk(kernel.body)


def _early(kernel: Kernel) -> Kernel:
    """The store moves into the loop over tiles of rows."""
    found: list[Assign] = []
    without = assignment(lambda s: found.append(s) or () if s.target == dq(kernel) else None)(kernel)
    return carries("across", lambda s: replace(s, body=(*s.body, found[0])))(without)


@pytest.mark.parametrize("name", sorted({program for program, *_ in ALL}))
def test_sound_twin(name: str) -> None:
    case = sound(name)
    certify(case.traced, case.steps, case.kernels)


@pytest.mark.parametrize(("program", "name", "change", "refused"), ALL, ids=lambda v: v.replace(" ", "-") if isinstance(v, str) else "")
def test_refused(program: str, name: str, change: Change, refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = sound(program).kernels[0]
    broken = change(kernel)
    assert broken != kernel, "the mutant changes nothing"
    monkeypatch.setattr(ledger, "Z3_BUDGET", BUDGET)
    got = verdict(Case(kernel.program, (), (broken,)))
    assert got != "accepted" and got.startswith(refused), got
