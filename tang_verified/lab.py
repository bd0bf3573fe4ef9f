"""Look for a faster schedule around the best tile: compile, check, time, measure the error, keep a log.

    found = search(fn, specs, {"n": 1024, …}, Limits(), said)     # list of `Trial`, the fastest first
    kernel = tv.compile(fn, schedule="lab", **specs)              # the fastest that was found on this machine

Candidates: the tile of the traffic bound (the linear program's primal side at the capacities of this machine's caches),
rounded to what a schedule takes, and its neighbours; then those of the fastest so far. A candidate counts only
if the checker proves it in the form asked for, and its error against float64 is within the tolerance. The log (JSON lines, one
a trial, synced before the next begins) survives a kill: a search goes on where it stopped, and a torn last line is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np

from tang_verified.bounds import traffic
from tang_verified.ceilings import caches
from tang_verified.device_file import folder
from tang_verified.proofs.certificate import program_digest
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.traffic import tile_bytes
from tang_verified.semantics.counting import extents
from tang_verified.semantics.evaluate import tensor_shape
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import Program
from tang_verified.semantics.statements import Statement, work
from tang_verified.spec import Spec

if TYPE_CHECKING:
    from tang_verified.compiler import CompiledKernel

Options = dict[str, int]
Schedule = dict[str, Options]
Said = Callable[[str, int, int], None]
STEP = {"rows": 6, "columns": 16, "tile": 16}  # what a schedule's register tiles divide well
MOST = {"rows": 384, "columns": 1024, "tile": 1024}


@dataclass(frozen=True)
class Limits:
    """How far a search goes: candidates in all, seconds of timing each, the error that is allowed (relative to the largest)."""

    candidates: int = 24
    seconds: float = 0.4
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Trial:
    """One candidate. `verdict`: "timed", "refused" (no proof in this form), "inexact" (over the tolerance)."""

    schedule: Schedule
    sizes: dict[str, int]
    verdict: str
    seconds: float | None
    error: float | None
    why: str


# -- the log --------------------------------------------------------------------------------------------------------


def log_path(program: Program, backend: str = "c") -> Path:
    """One log for a program on this machine with its number of threads."""
    from tang_verified.backends.c.runtime import threads

    return folder().parent / "lab" / f"{backend}-{threads()}" / f"{program.name}-{program_digest(program)[:24]}.jsonl"


def read_log(path: Path) -> list[Trial]:
    """The trials that were logged whole."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]  # what follows the last newline was never finished
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(Trial(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def append(path: Path, trial: Trial) -> None:
    """A line that is on the disk when this returns; what a killed writer left half is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            if whole != end:
                file.truncate(whole)
        file.write(json.dumps(asdict(trial), ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def best(program: Program, backend: str = "c") -> Schedule | None:
    """The schedule that a search on this machine found fastest, at the largest sizes that were searched; None if none was."""
    timed = [trial for trial in read_log(log_path(program, backend)) if trial.verdict == "timed" and trial.seconds]
    if not timed:
        return None
    largest = max(timed, key=lambda trial: prod(trial.sizes.values())).sizes
    return min((t for t in timed if t.sizes == largest), key=lambda trial: trial.seconds or 0.0).schedule


# -- candidates -----------------------------------------------------------------------------------------------------


def primal(kernel: Kernel, sizes: Mapping[str, int]) -> Iterator[tuple[Options, str]]:
    """The bound's tiles at this machine's caches, as options of a schedule, each with what the rounding costs."""
    d = kernel.program.definition(kernel.outputs[0])
    for cache in caches(1):
        found = traffic(kernel, sizes, cache.bytes)
        if found.claim is None or not found.tile or not found.bytes:
            continue
        s = work(kernel).statements[found.claim.statement]
        axes = {"rows": s.outer[-2:-1], "columns": s.outer[-1:], "tile": s.inner[-1:]}
        options = {}
        rounded = dict(found.tile)
        for option, names in axes.items():
            if names and (option == "tile" or names[0] in d.axes):
                options[option] = below(found.tile[names[0]], STEP[option], MOST[option])
                rounded[names[0]] = min(options[option], max(extents(s, sizes)[names[0]], 1))
        if options:
            tile = " × ".join(f"{axis} {extent}" for axis, extent in found.tile.items())
            yield options, f"the tile of L{cache.level}, {tile}; {_loss(s, rounded, found.tile_bytes, sizes, cache.bytes)}"


def _loss(s: Statement, rounded: Mapping[str, int], moved: int | None, sizes: Mapping[str, int], capacity: int) -> str:
    try:
        return f"rounded, {tile_bytes(s, rounded, extents(s, sizes), capacity) / (moved or 1):.2f} × its bytes"
    except Refused as problem:
        return f"rounded, it does not fit: {problem.why}"


def below(value: int, step: int, most: int) -> int:
    """The multiple that is not larger, so that the tile still fits; one step at least.

    >>> below(61, 16, 1024)
    48
    """
    return max(step, min(most, value) // step * step)


def near(value: int, step: int, most: int) -> int:
    """The nearest multiple, from one step to `most`.

    >>> near(50, 16, 1024)
    48
    """
    return max(step, min(most // step * step, (value + step // 2) // step * step))


def neighbours(options: Options) -> Iterator[Options]:
    """Each option doubled and halved; another number of partial sums; a row kept or not."""
    for option, value in options.items():
        if option in STEP:
            for other in (near(2 * value, STEP[option], MOST[option]), near(value // 2, STEP[option], MOST[option])):
                if other != value:
                    yield {**options, option: other}


PLAIN: tuple[Options, ...] = ({}, {"keep": 1}, {"splits": 4}, {"tile": 256}, {"tile": 2048})


def proposals(name: str, kernel: Kernel, sizes: Mapping[str, int], seen: list[Trial]) -> Iterator[tuple[Schedule, str]]:
    """For one definition: as it is by default, the bound's tiles, and the neighbours of the fastest so far."""
    yield {}, "the default"
    tiles = list(primal(kernel, sizes))
    for options, why in tiles:
        yield {name: options}, why
        if len(options) > 1 and "tile" in options:  # operands are copied tile by tile: a longer tile moves no more of them
            yield {name: {k: v for k, v in options.items() if k != "tile"}}, f"{why}; the fold's tile by default"
    if not tiles:
        yield from (({name: options}, "another form") for options in PLAIN[1:])
    tried = 0
    while True:  # `seen` grows as the candidates are tried
        timed = [t for t in seen if t.verdict == "timed" and t.seconds and set(t.schedule) <= {name}]
        ranked = sorted(timed, key=lambda trial: trial.seconds or 0.0)
        known = [t.schedule for t in seen]
        around = [{name: o} for t in ranked[:2] for o in neighbours(t.schedule.get(name, {}))]
        fresh = [schedule for schedule in around if schedule not in known]
        if not fresh or tried > 1000:
            return
        tried += 1
        yield fresh[0], "a neighbour of the fastest so far"


# -- the search -----------------------------------------------------------------------------------------------------


def search(
    fn: Callable[..., Any], specs: Mapping[str, Spec | str], sizes: Mapping[str, int], limits: Limits,
    said: Said = lambda *_: None,
) -> list[Trial]:  # fmt: skip
    """Try candidates until none is left or there were enough; the trials that count, the fastest first."""
    from tang_verified.compiler import compile_steps

    plain = compile_steps(fn, specs, "c", None)
    path, sizes = log_path(plain.certified.traced), dict(sizes)
    arrays = inputs(plain.program, sizes)
    results = fn(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays.values()))
    exact = dict(zip(plain.program.outputs, results if isinstance(results, tuple) else (results,), strict=True))
    done = [trial for trial in read_log(path) if trial.sizes == sizes]
    for kernel in plain.certified.kernels:
        for schedule, why in proposals(kernel.outputs[0], kernel, sizes, done):
            if len(done) >= limits.candidates:
                break
            if any(trial.schedule == schedule for trial in done):
                continue
            said(f"{schedule or 'default'}: {why}", len(done), limits.candidates)
            trial = attempt(fn, specs, schedule, sizes, arrays, exact, limits, why)
            append(path, trial)
            done.append(trial)
    said("done", limits.candidates, limits.candidates)
    return sorted((t for t in done if t.verdict == "timed"), key=lambda t: t.seconds or 0.0) + [
        t for t in done if t.verdict != "timed"
    ]


def attempt(
    fn: Callable[..., Any], specs: Mapping[str, Spec | str], schedule: Schedule, sizes: dict[str, int],
    arrays: Mapping[str, np.ndarray[Any, Any]], exact: Mapping[str, Any], limits: Limits, why: str,
) -> Trial:  # fmt: skip
    from tang_verified.compiler import compile_steps
    from tang_verified.errors import CompileError

    try:
        kernel = compile_steps(fn, specs, "c", None, schedule=schedule)
    except CompileError as problem:
        return Trial(schedule, sizes, "refused", None, None, f"{why}; {problem}"[:300])
    if refusals := [note for note in kernel.notes if note.startswith("schedule")]:
        return Trial(schedule, sizes, "refused", None, None, f"{why}; {refusals[0]}"[:300])
    seconds, error = timed(kernel, arrays, exact, limits.seconds)
    if error > limits.tolerance:
        return Trial(schedule, sizes, "inexact", seconds, error, f"{why}; over the tolerance {limits.tolerance:g}")
    return Trial(schedule, sizes, "timed", seconds, error, why)


def timed(
    kernel: CompiledKernel, arrays: Mapping[str, np.ndarray[Any, Any]], exact: Mapping[str, Any], seconds: float
) -> tuple[float, float]:
    """The least time of a call, and the largest error over the largest value."""
    from tang_verified.backends.c.runtime import threads

    clock = thread_time if threads() == 1 else perf_counter  # a thread's own clock does not count what others do
    given = list(arrays.values())
    outs = kernel(*given)
    found = outs if isinstance(outs, tuple) else (outs,)
    best_time, end = float("inf"), perf_counter() + seconds
    tries = 0
    while tries < 5 or perf_counter() < end:
        start = clock()
        kernel(*given, out=found)
        best_time = min(best_time, clock() - start)
        tries += 1
    error = 0.0
    for name, got in zip(kernel.program.outputs, found, strict=True):
        wanted = np.asarray(exact[name])
        scale = float(np.abs(wanted).max(initial=0.0)) or 1.0
        error = max(error, float(np.abs(got - wanted).max(initial=0.0)) / scale)
    return best_time, error


def inputs(program: Program, sizes: Mapping[str, int]) -> dict[str, np.ndarray[Any, Any]]:
    """Normal numbers; zeros for integers, which may be places in an array."""
    draw = np.random.default_rng(0)
    out: dict[str, np.ndarray[Any, Any]] = {}
    for tensor in program.inputs:
        shape, dtype = tensor_shape(tensor, dict(sizes)), np.dtype(tensor.dtype)
        real = dtype.kind == "f"
        out[tensor.name] = draw.standard_normal(shape).astype(dtype) if real else np.full(shape, dtype.kind == "b", dtype)
    return out
