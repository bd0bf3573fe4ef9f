"""Plan, certify, and fall back: a schedule that the checker refuses gives way to a simpler one, never to an unproved one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tang_verified.errors import CompileError
from tang_verified.passes.derive import Derived
from tang_verified.passes.schedule.plan import Choice, plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.check import Certified, certify
from tang_verified.proofs.ledger import Refused
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import IllFormed

OPTIONS = tuple(field.name for field in fields(Choice))
STYLES = ("tiled", "rows", "plain")  # from the fastest to the simplest


def certified_plan(
    traced: Program, derived: Derived, target: Target, schedule: dict[str, Any]
) -> tuple[Certified, tuple[str, ...]]:
    """The first style whose kernels are proved, and what was refused before it."""
    program, steps = derived.program, derived.steps
    check_options(program, schedule)
    notes: list[str] = []
    refusal: Exception | None = None
    for style in STYLES:
        choices = {name: Choice(**{**options, "style": _simpler(style, options)}) for name, options in _all(program, schedule).items()}
        try:
            kernels = plan(program, target, choices)
            return certify(traced, steps, kernels), tuple(notes)
        except (Refused, IllFormed, LookupError) as problem:
            notes.append(f"schedule {style}: {problem}")
            refusal = problem
    raise refusal if isinstance(refusal, Refused) else Refused("schedule", traced.name, "error", str(refusal))


def _simpler(style: str, options: dict[str, Any]) -> str:
    """The style to try, or the one asked for where that is simpler."""
    return max(style, options.get("style", style), key=STYLES.index)


def check_options(program: Program, schedule: dict[str, Any]) -> None:
    """Refuse options for what is not there: they would be left out without a word."""
    names = [d.tensor.name for d in program.defs]
    for name, options in schedule.items():
        if name not in names:
            raise CompileError(f"schedule: no definition {name!r} is left to compute", f"there are: {', '.join(names)}")
        for option, value in options.items():
            if option not in OPTIONS:
                raise CompileError(f"schedule: {name} has no option {option!r}", f"there are: {', '.join(OPTIONS)}")
            if option == "style" and value not in STYLES:
                raise CompileError(f"schedule: {name}: no style {value!r}", f"there are: {', '.join(STYLES)}")
            if option != "style" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise CompileError(f"schedule: {name}: {option}={value!r} is not a positive int")


def _all(program: Program, schedule: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {d.tensor.name: dict(schedule.get(d.tensor.name, {})) for d in program.defs}
