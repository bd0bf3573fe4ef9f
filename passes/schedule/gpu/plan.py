"""The kernel of one definition for a GPU: the tile program of one worker, with tiles that fit, dealt to threads."""

from __future__ import annotations

from dataclasses import replace

from tang_verified.passes.schedule.gpu.threads import distribute
from tang_verified.passes.schedule.plan import Choice, Planner
from tang_verified.passes.schedule.target import Target
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import Def, Program

TILES = ((64, 32, 256), (64, 16, 256), (32, 32, 128), (32, 16, 128), (16, 16, 64), (16, 8, 32))  # rows, tile, threads


def gpu_kernel(program: Program, d: Def, target: Target, choice: Choice) -> Kernel:
    """The first tile size whose buffers fit in shared memory. Raises `LookupError` if none does."""
    if target.subgroup and target.threads % target.subgroup:
        target = replace(target, subgroup=0)
    if choice.style != "tiled" or not Planner(program, d, target, choice).tiles():
        return _fitting(distribute(Planner(program, d, target, choice).kernel(), target), target)
    for rows, tile, threads in TILES:
        sized = replace(choice, rows=choice.rows or rows, tile=choice.tile or tile)
        here = replace(target, threads=min(threads, target.threads))
        try:
            return _fitting(distribute(Planner(program, d, here, sized).kernel(), here), here)
        except LookupError as problem:
            reason = problem
    raise reason


def _fitting(kernel: Kernel, target: Target) -> Kernel:
    if kernel.machine.shared_bytes > target.shared_bytes:
        raise LookupError(f"{kernel.machine.shared_bytes} bytes of shared memory; the machine has {target.shared_bytes}")
    return kernel
