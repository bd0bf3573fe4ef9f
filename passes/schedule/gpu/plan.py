"""The kernel of a group of definitions for a GPU: the tile program of one worker, with tiles that fit, dealt to threads."""

from __future__ import annotations

from dataclasses import replace

from tang_verified.passes.schedule.gpu.elements import element_kernel
from tang_verified.passes.schedule.gpu.rows import row_kernel
from tang_verified.passes.schedule.gpu.threads import distribute
from tang_verified.passes.schedule.plan import Choice, Planner
from tang_verified.passes.schedule.target import Target
from tang_verified.passes.schedule.together import Together
from tang_verified.semantics.kernel import Kernel, assignments
from tang_verified.semantics.program import Program
from tang_verified.semantics.units import UNITS

UNIT_TILES = ((128, 128, 32, 256), (64, 64, 32, 128), (32, 32, 32, 64))  # rows, columns, tile, threads
BELOW = ((128, 256), (64, 128))  # rows, threads, over a unit's columns and depth where it takes operands from shared memory
TILES = ((64, 32, 256), (64, 16, 256), (32, 32, 128), (32, 16, 128), (16, 16, 64), (16, 8, 32))  # rows, tile, threads


def gpu_kernel(program: Program, group: Together, target: Target, choice: Choice) -> Kernel:
    """The first tile size whose buffers fit in shared memory. Raises `LookupError` if none does."""
    if choice.style == "tiled" and not Planner(program, group, target, choice).tiles():
        for make in (element_kernel, row_kernel):
            try:
                return make(Planner(program, group, target, choice))
            except LookupError:
                continue
    if choice.style != "tiled" or not Planner(program, group, target, choice).tiles():
        return _made(program, group, _with_whole_subgroups(target, target.threads), choice)
    tried = [(rows, u.columns, u.depth, threads, u.name) for u in map(UNITS.get, target.units) if u for rows, threads in BELOW]
    tried += [(rows, columns, tile, threads, target.unit) for rows, columns, tile, threads in UNIT_TILES if target.unit]
    for rows, columns, tile, threads, unit in [*tried, *((rows, None, tile, threads, "") for rows, tile, threads in TILES)]:
        sized = replace(choice, rows=choice.rows or rows, columns=choice.columns or columns, tile=choice.tile or tile)
        here = replace(_with_whole_subgroups(target, threads), unit=unit)
        try:
            kernel = _made(program, group, here, sized)
        except LookupError as problem:
            reason = problem
            continue
        if not unit or any(s.unit for s in assignments(kernel.body)):
            return kernel
    raise reason


def _with_whole_subgroups(target: Target, threads: int) -> Target:
    threads = min(threads, target.threads)
    whole = target.subgroup and threads % target.subgroup == 0
    return replace(target, threads=threads, subgroup=target.subgroup if whole else 0, unit="")


def _made(program: Program, group: Together, target: Target, choice: Choice) -> Kernel:
    kernel = distribute(Planner(program, group, target, choice).kernel(), target)
    if kernel.machine.shared_bytes > target.shared_bytes:
        raise LookupError(f"{kernel.machine.shared_bytes} bytes of shared memory; the machine has {target.shared_bytes}")
    return kernel
