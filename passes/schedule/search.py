"""Plan, certify, and fall back: a schedule that the checker refuses gives way to a simpler one, never to an unproved one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from tang_verified.errors import CompileError
from tang_verified.passes.derive import Derived
from tang_verified.passes.schedule.plan import STYLES, Choice, Unplanned, common_choice, kernel_name, plan
from tang_verified.passes.schedule.target import Target
from tang_verified.passes.schedule.together import Together, parted, together
from tang_verified.proofs.check import Certified, Followed, complete, follow_kernel, follow_steps
from tang_verified.proofs.ledger import Refused
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import IllFormed

OPTIONS = tuple(field.name for field in fields(Choice))
Made = TypeVar("Made")


def certified_plan(
    traced: Program, derived: Derived, target: Target, schedule: dict[str, Any]
) -> tuple[Certified, tuple[str, ...]]:
    """The first style whose kernels are proved, and what was refused before it."""
    return made_of_plan(traced, derived, target, schedule, lambda certified, notes: (certified, notes))


def made_of_plan(
    traced: Program, derived: Derived, target: Target, schedule: dict[str, Any],
    make: Callable[[Certified, tuple[str, ...]], Made],
) -> Made:  # fmt: skip
    """What `make` makes of the first style that is proved and that it does not refuse; it is told what was refused before.

    A kernel of several definitions gives way to one for each, then each to a simpler style.
    """
    program, steps = derived.program, derived.steps
    check_options(program, schedule)
    styles = {d.tensor.name: 0 for d in program.defs}
    common = {option: value for option, value in schedule.items() if option not in styles}  # for every definition
    notes: list[str] = []
    refused: set[tuple[frozenset[str], str]] = set()
    followed: list[Followed] = []  # the steps, then one kernel more each: what stays is not proved again
    while True:
        choices = {name: _choice(STYLES[level], {**common, **schedule.get(name, {})}) for name, level in styles.items()}
        groups = together(program, target, choices, refused)
        try:
            kernels = plan(program, target, choices, groups)
            if not followed:
                followed.append(follow_steps(traced, steps))
            _follow(followed, kernels)
            return make(complete(followed[-1]), tuple(notes))
        except (Refused, IllFormed, LookupError) as problem:
            blamed = _blamed(problem, program, groups)
            several = [group for group in groups if len(group) > 1 and group[0].tensor.name in blamed]
            for group in several:
                names, choice = [d.tensor.name for d in group], common_choice(group, choices)
                refused |= {(apart, choice.style if choice else "") for apart in parted(program, group)}
                notes.append(f"schedule together of {', '.join(names)}: {problem}")
            if several:
                continue
            notes.append(f"schedule {STYLES[max(styles[b] for b in blamed)]} of {', '.join(blamed)}: {problem}")
            if all(styles[b] == len(STYLES) - 1 for b in blamed):
                if isinstance(problem, Refused):
                    raise
                raise Refused("schedule", traced.name, "error", str(problem)) from None
            for name in blamed:
                styles[name] = min(styles[name] + 1, len(STYLES) - 1)


def _follow(followed: list[Followed], kernels: Sequence[Kernel]) -> None:
    """Go on from the kernels that were proved already, as far as they are the same."""
    before = followed[-1].kernels
    same = next((n for n, (a, b) in enumerate(zip(before, kernels, strict=False)) if a != b), min(len(before), len(kernels)))
    del followed[same + 1 :]
    for kernel in kernels[same:]:
        followed.append(follow_kernel(followed[-1], kernel))


def asked_plain(schedule: dict[str, Any], name: str) -> bool:
    """Whether a definition is asked for in plain style."""
    own = schedule.get(name, {})
    style = own.get("style", schedule.get("style")) if isinstance(own, dict) else None
    return bool(style == "plain")


def _blamed(problem: Exception, program: Program, groups: list[Together]) -> list[str]:
    """The definitions whose kernel was refused; all of them when the refusal names none."""
    place = problem.place if isinstance(problem, (Refused, Unplanned)) else str(problem)
    names = [tuple(d.tensor.name for d in group) for group in groups]
    named = [group for group in names if place.startswith(tuple(f"kernel {kernel_name(program, group)}{end}" for end in "/ "))]
    return [name for group in named or names for name in group]


def _choice(style: str, options: dict[str, Any]) -> Choice:
    """The options, in the style to try, or in the one asked for where that is simpler."""
    return Choice(**{**options, "style": max(style, options.get("style", style), key=STYLES.index)})


def check_options(program: Program, schedule: dict[str, Any]) -> None:
    """Refuse options for what is not there: they would be left out without a word."""
    names = [d.tensor.name for d in program.defs]
    common = {name: value for name, value in schedule.items() if name in OPTIONS}
    for name, options in {**schedule, "every definition": common}.items():
        if name in common:
            continue
        if name not in (*names, "every definition"):
            there = f"there are: {', '.join(names)}; or an option for all: {', '.join(OPTIONS)}"
            raise CompileError(f"schedule: no definition {name!r} is left to compute", there)
        if not isinstance(options, dict):
            raise CompileError(f"schedule: {name}={options!r}", f"give a dict of options: {', '.join(OPTIONS)}")
        for option, value in options.items():
            if option not in OPTIONS:
                raise CompileError(f"schedule: {name} has no option {option!r}", f"there are: {', '.join(OPTIONS)}")
            if option == "style" and value not in STYLES:
                raise CompileError(f"schedule: {name}: no style {value!r}", f"there are: {', '.join(STYLES)}")
            if option != "style" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise CompileError(f"schedule: {name}: {option}={value!r} is not a positive int")
