"""The whole check: (traced program, steps, kernels) -> `Certified`, or a refusal. Nobody else can make a `Certified`.

1. every read of the traced program is in bounds, and what it folds by are monoids;
2. each step holds, and leads from one program to the next;
3. each kernel computes definitions of the last program, from inputs and from what earlier kernels computed;
4. the kernels together compute every output;
5. what each proof assumes has a model, or is shown to be contradictory and the proof marked vacuous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

from tang_verified.proofs.equality import Equality
from tang_verified.proofs.execute import Execution
from tang_verified.proofs.ledger import Ledger, Obligation, Solver
from tang_verified.proofs.steps import Step, check_bounds, check_finite, check_step
from tang_verified.semantics.exact import Model
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import Program, check_program
from tang_verified.semantics.terms import Gradient, IllFormed, Tangent, monoids

if __name__ != "tang_verified.proofs.check":
    raise ImportError("the trusted core must be imported as tang_verified.proofs")

_SEAL = object()


@dataclass(frozen=True)
class Certified:
    """A program, its derivation and its kernels, all proved. Made by `certify` alone."""

    traced: Program
    steps: tuple[Step, ...]
    program: Program
    kernels: tuple[Kernel, ...]
    obligations: tuple[Obligation, ...]
    axioms: tuple[str, ...]
    models: Mapping[str, Any]  # of the obligations' hypotheses, spelled, by digest
    seal: InitVar[object]  # not kept: a copy with other kernels (`dataclasses.replace`) has none to show

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise IllFormed("only the checker makes a Certified")


def check_monoids(ledger: Ledger, program: Program) -> None:
    """Every monoid that the program folds by obeys its laws."""
    facts = Equality(ledger).monoids
    for d in program.defs:
        ledger.place = d.tensor.name
        for monoid in monoids(d.value):
            facts.meaningful(monoid)


@dataclass(frozen=True)
class Followed:
    """A derivation whose steps all hold, and kernels of its last program, the first ones, that hold too. Made here alone."""

    traced: Program
    steps: tuple[Step, ...]
    program: Program
    kernels: tuple[Kernel, ...]
    ledger: Ledger
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise IllFormed("only the checker makes a Followed")


def follow_steps(
    traced: Program, steps: Sequence[Step], solver: Solver = "z3", recorded: Mapping[str, Model] | None = None
) -> Followed:  # fmt: skip
    """Discharge 1 and 2, or raise `Refused` or `IllFormed`."""
    check_program(traced)
    ledger = Ledger(traced, solver, recorded or {})
    check_bounds(ledger, traced)
    check_monoids(ledger, traced)
    program = traced
    for number, step in enumerate(steps, 1):
        program = check_step(ledger, program, step, number)
    if any(isinstance(d.value, (Gradient, Tangent)) for d in program.defs):
        raise IllFormed("a derivative has not been written out")
    return Followed(traced, tuple(steps), program, (), ledger, _SEAL)


def follow_kernel(before: Followed, kernel: Kernel) -> Followed:
    """Discharge 3 for one more kernel. One that is refused leaves no mark on what was followed before."""
    program, ledger = before.program, before.ledger.branch()
    done = [name for earlier in before.kernels for name in earlier.outputs]
    if before.kernels:
        check_finite(ledger, program, before.kernels[-1].outputs)
    if kernel.name in {earlier.name for earlier in before.kernels}:
        raise IllFormed("two kernels bear one name")
    if kernel.program != program:
        raise IllFormed(f"kernel {kernel.name} is for another program")
    available = {tensor.name for tensor in program.inputs} | set(done)
    if not set(kernel.reads) <= available:
        raise IllFormed(f"kernel {kernel.name} reads {sorted(set(kernel.reads) - available)} before they are computed")
    if set(kernel.outputs) & set(done):
        raise IllFormed(f"kernel {kernel.name} computes {sorted(set(kernel.outputs) & set(done))} again")
    Execution(ledger, kernel).run()
    return Followed(before.traced, before.steps, program, (*before.kernels, kernel), ledger, _SEAL)


def complete(followed: Followed) -> Certified:
    """Discharge 4 and 5."""
    program, ledger = followed.program, followed.ledger.branch()
    done = [name for kernel in followed.kernels for name in kernel.outputs]
    missing = [name for name in program.outputs if name not in done]
    if missing or program.outputs != followed.traced.outputs:
        raise IllFormed(f"no kernel computes {missing or program.outputs}")
    ledger.ground()
    ledger.confirm()
    proved, axioms = tuple(ledger.obligations), tuple(sorted(ledger.axioms))
    return Certified(
        followed.traced, followed.steps, program, followed.kernels, proved, axioms, ledger.models.data, _SEAL
    )  # fmt: skip


def certify(
    traced: Program, steps: Sequence[Step], kernels: Sequence[Kernel], solver: Solver = "z3",
    recorded: Mapping[str, Model] | None = None,
) -> Certified:  # fmt: skip
    """Discharge every obligation, or raise `Refused` or `IllFormed`. `recorded`: an audit's models (see `Models`)."""
    followed = follow_steps(traced, steps, solver, recorded)
    for kernel in kernels:
        followed = follow_kernel(followed, kernel)
    return complete(followed)


def is_certified(value: object) -> bool:
    """Whether a value came out of `certify`."""
    return isinstance(value, Certified)
