"""Measure what this CPU can do at most: bandwidth of each memory, rates of arithmetic and of exp, the cost of a call.

    device = measure(Effort())         # about 20 s
    write(device, path)                # a device file; `tang-verified ceilings` does both

A ceiling must be one that no kernel beats. So each is the best of several access patterns or mixes of instructions, of many
short trials (a trial shorter than a time slice is undisturbed at times even on a busy machine), and never lower than what
an earlier run on the same machine saw. The bandwidth to a memory is the largest of it and of all memories beyond. Sizes
of caches come from the operating system.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from tang_verified import __version__
from tang_verified.backends.c.compiler import Compiler, compiler
from tang_verified.backends.c.runtime import CFunction, lanes, load, threads
from tang_verified.device_file import KINDS, Boundary, Device, DeviceError, Rate, folder, read
from tang_verified.proofs.readback import c_math
from tang_verified.proofs.readback.syntax import Kind

Said = Callable[[str, float], None]  # a step, and the part of the whole that is done
BLOCK = 1024  # a pass goes in such steps
SHARE = 0.5  # of a cache that the arrays of a pattern take: all of them stay in it
# pattern -> arrays that it reads, and that it writes, in the order of PASSES in ceilings.c
PATTERNS = {
    "read": (1, 0), "read, half vectors": (1, 0), "read, prefetched": (1, 0), "read, four streams": (1, 0), "write": (0, 1),
    "write, non-temporal": (0, 1), "memset": (0, 1), "copy": (1, 1), "copy, non-temporal": (1, 1), "memcpy": (1, 1),
    "triad": (2, 1), "triad, non-temporal": (2, 1), "three reads, a write": (3, 1),
    "three reads, a write, non-temporal": (3, 1), "update": (1, 1),
}  # fmt: skip
IN_PLACE = ("update",)  # what is read is written: one array
# mix -> of sixteen instructions: multiplications, additions (a fused one is both), maxima; and vectors of half width
MIXES: dict[str, tuple[int, int, int, bool]] = {
    "multiply-add": (16, 16, 0, False), "multiply-add, half vectors": (16, 16, 0, True), "multiply": (16, 0, 0, False),
    "add": (0, 16, 0, False), "multiply-add and add": (8, 16, 0, False), "multiply-add and add, half vectors": (8, 16, 0, True),
    "three multiply-adds to an add": (12, 16, 0, False), "multiply-add and max": (8, 8, 8, False),
    "multiply-add, add and max": (8, 12, 4, False),
}  # fmt: skip
TYPES = {"float32": "float", "float64": "double"}
NONE = Rate(0, 0)
KINDS_OF = {"float32": "f32", "float64": "f64"}


@dataclass(frozen=True)
class Effort:
    """How long to measure: trials of each pattern, the bytes (instructions) of one, and rounds of everything."""

    trials: int = 30
    volume: int = 24 << 20
    rounds: int = 2

    @staticmethod
    def quick() -> Effort:
        return Effort(trials=6, volume=8 << 20, rounds=1)


@dataclass(frozen=True)
class Cache:
    """A data cache of one level: bytes of one, and how many the threads in use have."""

    level: int
    bytes: int
    instances: int


# -- what the operating system says ---------------------------------------------------------------------------------


def caches(count: int) -> tuple[Cache, ...]:
    """The data caches of the processors that `count` threads run on, the nearest first."""
    cpus = sorted(os.sched_getaffinity(0))[:count] if hasattr(os, "sched_getaffinity") else list(range(count))
    found: dict[int, dict[str, int]] = {}
    for cpu in cpus:
        for index in Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
            told = {name: _line(index / name) for name in ("level", "type", "size", "shared_cpu_list")}
            if told["type"] in ("Data", "Unified") and told["level"].isdigit() and (size := _bytes(told["size"])):
                found.setdefault(int(told["level"]), {})[told["shared_cpu_list"]] = size
    if found:
        return tuple(Cache(level, min(sizes.values()), len(sizes)) for level, sizes in sorted(found.items()))
    made = []
    for level, name in ((1, "LEVEL1_DCACHE_SIZE"), (2, "LEVEL2_CACHE_SIZE"), (3, "LEVEL3_CACHE_SIZE")):
        if size := _bytes(_said(["getconf", name])):
            made.append(Cache(level, size, 1 if level == 3 else count))
    if not made:
        raise DeviceError("the operating system does not say what caches there are (neither sysfs nor getconf)")
    return tuple(made)


def _said(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _bytes(text: str) -> int:
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 0)
    return int(text[:-1]) * scale if scale and text[:-1].isdigit() else int(text) if text.isdigit() else 0


def register_bytes(found: Compiler) -> int:
    """What the registers of one thread hold: vectors, general registers, masks."""
    if "__AVX512F__" in found.macros:
        return 32 * 64 + 16 * 8 + 8 * 8
    if "__x86_64__" in found.macros:
        return 16 * (32 if "__AVX__" in found.macros else 16) + 16 * 8
    return 32 * 16 + 31 * 8


def machine(found: Compiler, count: int) -> dict[str, str]:
    """What must be the same for two measurements to be of one machine."""
    model = next((line.split(":", 1)[1].strip() for line in found.processor.splitlines() if line.startswith("model name")), "")
    sizes = ", ".join(f"L{c.level} {c.instances} × {c.bytes} bytes" for c in caches(count))
    return {
        "processor": model or platform.processor() or platform.machine(), "architecture": platform.machine(),
        "threads": str(count), "vectors": f"{lanes('float32')} × float32", "caches": sizes, "system": platform.system(),
    }  # fmt: skip


def default_path(backend: str = "c") -> Path:
    """Where this machine's measurement lies; of a CPU, one for each number of threads."""
    return folder() / (f"c-{threads()}.json" if backend == "c" else f"{backend}.json")


def here() -> Device:
    """This machine's ceilings as measured before; `DeviceError` says how to measure them."""
    try:
        device = read(default_path())
    except DeviceError:
        raise DeviceError("this machine's ceilings are not measured yet; run: tang-verified ceilings") from None
    found = compiler()
    if dict(device.machine) != machine(found, threads() if found.openmp else 1):
        raise DeviceError(f"{default_path()} is of another machine, or of other threads; run: tang-verified ceilings")
    return device


# -- measuring ------------------------------------------------------------------------------------------------------


def measure(effort: Effort, said: Said = lambda text, part: None) -> Device:
    """All ceilings of this CPU. `said` is told each step and the part done."""
    found = compiler()
    count = threads() if found.openmp else 1
    bench = Bench(count)
    boundaries: list[Boundary] = []
    places = list(bench.places(register_bytes(found)))
    rates: dict[str, Rate] = {}
    ours: dict[str, Rate] = {}
    for turn in range(effort.rounds):
        made = []
        for k, (name, fast, instances, sizes) in enumerate(places):
            said(f"round {turn + 1} of {effort.rounds}: bandwidth to {name}", (turn + 0.7 * k / len(places)) / effort.rounds)
            reached = bench.patterns(sizes, effort)
            if instances == count:  # nothing is shared: together they reach what one does, each, on a machine that is not busy
                reached = {n: Rate(r.one, max(r.all, count * r.one)) for n, r in reached.items()}
            made.append(Boundary(name, fast, instances, NONE, NONE, NONE, reached))
        boundaries = [_highest(*pair) for pair in zip(boundaries or made, made, strict=True)]
        said(f"round {turn + 1} of {effort.rounds}: arithmetic", (turn + 0.7) / effort.rounds)
        for table, fresh in zip((rates, ours), bench.arithmetic(effort), strict=True):
            for name, rate in fresh.items():
                old = table.get(name, rate)
                table[name] = Rate(max(old.one, rate.one), max(old.all, rate.all))
    said("the cost of a call", 0.98)
    launch = bench.launch(effort)
    facts = machine(found, count)
    return Device(
        f"{facts['processor']}, {count} thread{'s' * (count > 1)}", KINDS["measured"], "c",
        datetime.now(UTC).isoformat(timespec="seconds"), count, tuple(_nested(boundaries)), rates, launch, ours, facts,
        {"tang_verified": __version__, "compiler": found.version, "flags": " ".join(found.flags),
         "system": f"{platform.system()} {platform.release()}", "numpy": np.__version__},
        HOW,
    )  # fmt: skip


HOW = {
    "bandwidth": "bytes that instructions load and store, a second; each thread on arrays of its own that fit in that memory "
    "and not in nearer ones (DRAM: four times the caches); the best of all patterns, trials and rounds, here and in memories "
    "beyond; of memories and units that threads do not share, all is at least so many times one",
    "rates": "sixteen independent chains in registers; the best of all mixes of instructions, trials and rounds; a fused "
    "multiply-add is a multiplication and an addition, and two operations; operations: those and maxima, together",
    "special": "the least that an exp costs: a parabola for 2^r and an addition to the exponent's bits (relative error 1e-3)",
    "ours": "functions as the C backend prints them, on arrays in L1",
    "launch": "call: an empty kernel from Python; region: into an OpenMP parallel region and out; python: out[i] = x[i] of one "
    "element, as a user calls it; the shortest of all trials",
}


class Bench:
    """The compiled microbenchmarks, for one number of threads."""

    def __init__(self, count: int) -> None:
        self.count = count
        text, self.functions = source()
        self.run: dict[str, CFunction] = {name: load(text, name) for name in ("bandwidth", "arithmetic", "empty", "region")}
        self.best = np.zeros(1)

    def places(self, registers: int) -> Iterator[tuple[str, int, int, dict[int, int]]]:
        """(name, bytes on the fast side of one instance, instances, bytes of all arrays of one thread by number of threads)."""
        fast, instances = registers, self.count
        total = 0
        for cache in caches(self.count):
            own = int(cache.bytes * SHARE)
            yield f"L{cache.level}", fast, instances, {1: own, self.count: own * cache.instances // self.count}
            fast, instances = cache.bytes + fast * instances // cache.instances, cache.instances
            total += cache.bytes * cache.instances
        yield "DRAM", fast, instances, {1: 4 * total, self.count: 4 * total // self.count}

    def patterns(self, sizes: dict[int, int], effort: Effort) -> dict[str, Rate]:
        memory = aligned(max(count * (4 * size + 8192) for count, size in sizes.items()))
        memory.fill(1)
        found = {}
        for number, (name, (reads, writes)) in enumerate(PATTERNS.items()):
            arrays, reached = 1 if name in IN_PLACE else reads + writes, []
            for count, size in sizes.items():
                each = max(size // arrays // BLOCK * BLOCK, BLOCK)
                passes = max(1, effort.volume // (each * arrays))
                trials = effort.trials if passes > 1 else max(3, effort.trials // 4)
                self.run["bandwidth"]([count, each, passes, number, trials], [memory, self.best])
                reached.append(count * passes * each * (reads + writes) / float(self.best[0]))
            found[name] = Rate(reached[0], max(reached))
        return found

    def arithmetic(self, effort: Effort) -> tuple[dict[str, Rate], dict[str, Rate]]:
        rates: dict[str, Rate] = {}
        ours: dict[str, Rate] = {}
        for k, dtype in enumerate(TYPES):
            width, table = lanes("float32") * 4 // np.dtype(dtype).itemsize, k * (len(MIXES) + 1)
            best: dict[str, list[float]] = {}
            for number, (mul, add, other, half) in enumerate(MIXES.values()):
                instructions = self._instructions(dtype, table + number, effort)
                scale = (width // 2 if half else width) / 16
                for what, lanes_ in (("multiply", mul), ("add", add), ("operations", mul + add + other)):
                    now = [n * scale * lanes_ for n in instructions]
                    best[what] = [max(pair) for pair in zip(best.get(what, [0.0, 0.0]), now, strict=True)]
            best["special"] = [n * width for n in self._instructions(dtype, table + len(MIXES), effort)]
            rates |= {f"{what} {dtype}": self._alone(one, both) for what, (one, both) in best.items()}
        for number, (name, dtype) in enumerate(self.functions, 2 * (len(MIXES) + 1)):
            width = lanes("float32") * 4 // np.dtype(dtype).itemsize
            one, both = (n * width for n in self._instructions(dtype, number, effort))
            ours[f"{name} {dtype}"] = self._alone(one, both)
        return rates, ours

    def _alone(self, one: float, together: float) -> Rate:
        """Threads share no unit of arithmetic: together they reach what one does, each, on a machine that is not busy."""
        return Rate(one, max(self.count * one, together))

    def _instructions(self, dtype: str, number: int, effort: Effort) -> list[float]:
        """How often a second the vector statement of a table's entry is executed: by one thread, by all."""
        memory = aligned(self.count * 8192).view(dtype)
        memory.fill(0.5)
        steps = max(1000, effort.volume // 400)
        out = []
        for count in (1, self.count):
            self.run["arithmetic"]([count, steps, number, effort.trials], [memory, self.best])
            out.append(count * steps * 16 / float(self.best[0]))
        return out

    def launch(self, effort: Effort) -> dict[str, float]:
        empty, trials = self.run["empty"], 2000 * effort.rounds
        made = {"call": _shortest(lambda: empty((), ()), trials)}
        if self.count > 1:
            made["region"] = float("inf")
            for _ in range(10):  # threads that another process keeps waiting are slow for a while
                self.run["region"]([self.count, trials], [self.best])
                made["region"] = min(made["region"], float(self.best[0]))
                sleep(0.05)
        from tang_verified.compiler import compile

        one, x = compile(lambda x: x, x="n", name="one"), np.ones(1, np.float32)
        out = np.empty_like(x)
        made["python"] = _shortest(lambda: one(x, out=out), trials)
        return made


def aligned(count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Bytes that begin at a cache line."""
    memory = np.empty(count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count]


def _shortest(call: Callable[[], object], trials: int, together: int = 10) -> float:
    call()
    best = float("inf")
    for _ in range(trials // together):
        start = perf_counter()
        for _ in range(together):
            call()
        best = min(best, (perf_counter() - start) / together)
    return best


def source() -> tuple[str, list[tuple[str, str]]]:
    """The text of the microbenchmarks, with this backend's vector functions put in; and those functions, in their order."""
    parts: dict[str, str] = {}
    made: list[tuple[str, str]] = []
    wrappers = []
    for dtype, word in TYPES.items():
        width = lanes("float32") * 4 // np.dtype(dtype).itemsize
        kind = Kind(KINDS_OF[dtype], width, 64 if dtype == "float64" else 32)
        vector = f"{kind.kind}x{width}"
        for name in c_math.FUNCTIONS:
            if (name, kind.kind) in c_math.AVAILABLE:
                for part, text in c_math.definition(name, kind):
                    parts.setdefault(part, text)
                made.append((name, dtype))
                wrappers.append(f"FUNCTION(ours_{name}_{word}, {word}, {vector}, {name}_{vector})")
    text = (files("tang_verified.backends.c") / "ceilings.c").read_text()
    table = ", ".join(f"(work *)ours_{name}_{TYPES[dtype]}" for name, dtype in made)
    text = text.replace("\nFUNCTIONS\n", "\n" + "\n".join(wrappers) + "\n").replace("FUNCTION_TABLE", table)
    head = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n#if defined(__AVX__)\n#include <immintrin.h>\n#endif\n"
    return head + "\n".join(parts.values()) + "\n" + text, made


def _highest(a: Boundary, b: Boundary) -> Boundary:
    best = {n: Rate(max(r.one, b.patterns[n].one), max(r.all, b.patterns[n].all)) for n, r in a.patterns.items()}
    return Boundary(a.name, a.fast_bytes, a.instances, NONE, NONE, NONE, best)


def _nested(boundaries: list[Boundary]) -> list[Boundary]:
    """With the rates of each: the best of its patterns and of those beyond, as data may come from there directly."""
    out: list[Boundary] = []
    beyond = [NONE, NONE, NONE]
    for b in reversed(boundaries):
        for name, r in b.patterns.items():
            reads, writes = PATTERNS[name]
            for k, part in enumerate((1.0, reads / (reads + writes), writes / (reads + writes))):
                beyond[k] = Rate(max(beyond[k].one, r.one * part), max(beyond[k].all, r.all * part))
        both, read, written = beyond
        out.insert(0, Boundary(b.name, b.fast_bytes, b.instances, both, read, written, b.patterns))
    return out


def described(device: Device) -> list[str]:
    """A device in lines for a terminal."""

    def giga(rate: Rate) -> str:
        return f"{rate.one / 1e9:9.1f} {rate.all / 1e9:9.1f}"

    out = [f"{device.name} ({device.kind}, {device.date}, backend {device.backend})", f"{'':34}    one       all"]
    for b in device.boundaries:
        best = max(b.patterns, key=lambda name: b.patterns[name].all) if b.patterns else ""
        out.append(f"{b.name + ', GB/s':34}{giga(b.bandwidth)}   {best}; {b.instances} × {b.fast_bytes} bytes before it")
        out += [f"{f'  {word}, GB/s':34}{giga(rate)}" for word, rate in (("read", b.read), ("written", b.written))]
    out += [f"{name + ', G/s':34}{giga(rate)}" for name, rate in device.rates.items()]
    out += [f"{'our ' + name + ', G/s':34}{giga(rate)}" for name, rate in device.ours.items()]
    out += [f"{'launch: ' + name + ', µs':34}{cost * 1e6:9.2f}" for name, cost in device.launch.items()]
    return out
