"""Memory-bound kernels of rows and elements on a GPU: ours, PyTorch's, torch.compile's, and a copy of as many bytes.

    python benchmarks/h200_rows.py [--only 'softmax or adam'] [--sizes 4096,8192] [--no-compile]

Each program is first checked against NumPy in float64 on fresh random inputs (rows at random). Then it is timed by CUDA
events, as launches of a CUDA graph, so that no caller in Python counts: sets of buffers that together are larger than L2 take
turns, the median counts. A line: microseconds, TB/s (the bytes that must move: every input once, every output once), and our
speed relative to a copy of as many bytes, PyTorch's and torch.compile's (at the largest size); "call": without a graph.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import tang_verified as tv

L2 = 60 << 20
CALLS, LEAST, SECONDS = 60, 60, 0.05


def softmax(x):
    xp = x.__array_namespace__()
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_sum_exp(x):
    xp = x.__array_namespace__()
    m = x.max(axis=-1, keepdims=True)
    return (m + xp.log(xp.exp(x - m).sum(axis=-1, keepdims=True)))[:, 0]


def rms_norm(x, w):
    xp = x.__array_namespace__()
    return x / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * w


def layer_norm(x, w, b):
    xp = x.__array_namespace__()
    c = x - x.mean(axis=-1, keepdims=True)
    return c / xp.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5) * w + b


def cross_entropy(x, label):
    xp = x.__array_namespace__()
    m = x.max(axis=-1, keepdims=True)
    lse = m[:, 0] + xp.log(xp.exp(x - m).sum(axis=-1))
    picked = xp.where(xp.arange(x.shape[-1]) == label[:, None], x, 0.0).sum(axis=-1)
    return lse - picked


def add(x, y):
    return x + y


def gelu(x):
    xp = x.__array_namespace__()
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def momentum(p, g, v):
    moved = 0.9 * v + g
    return p - 0.01 * moved, moved


def matvec(a, x):
    return a @ x


@dataclass(frozen=True)
class Case:
    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: dict[str, str]  # of n rows and m columns, as "n m"; "int" is a label


def torch_momentum(p, g, v):
    moved = 0.9 * v + g
    return p - 0.01 * moved, moved


CASES = (
    Case("softmax", softmax, lambda x: torch.softmax(x, -1), {"x": "n m"}),
    Case("log-sum-exp", log_sum_exp, lambda x: torch.logsumexp(x, -1), {"x": "n m"}),
    Case("RMSNorm", rms_norm, lambda x, w: functional.rms_norm(x, w.shape, w, 1e-5), {"x": "n m", "w": "m"}),
    Case("LayerNorm", layer_norm, lambda x, w, b: functional.layer_norm(x, w.shape, w, b, 1e-5),
         {"x": "n m", "w": "m", "b": "m"}),
    Case("cross-entropy", cross_entropy, lambda x, label: functional.cross_entropy(x, label.long(), reduction="none"),
         {"x": "n m", "label": "int"}),
    Case("add", add, lambda x, y: x + y, {"x": "n m", "y": "n m"}),
    Case("GELU", gelu, lambda x: functional.gelu(x, approximate="tanh"), {"x": "n m"}),
    Case("momentum", momentum, torch_momentum, {"p": "nm", "g": "nm", "v": "nm"}),
    Case("matrix-vector", matvec, lambda a, x: a @ x, {"a": "n m", "x": "m"}),
)  # fmt: skip


def spec_of(shape: str, n: int, dtype: str) -> Any:
    """Rows are any number, their length is fixed, so that vectors are known to be aligned; flat arrays have any length."""
    return tv.spec("n", "int32") if shape == "int" else tv.spec({"n m": f"n {n}", "m": f"{n}", "nm": "k"}[shape], dtype)


def made(shape: str, n: int, dtype: str) -> Any:
    if shape == "int":
        return torch.randint(0, n, (n,), dtype=torch.int32, device="cuda")
    return torch.randn({"n m": (n, n), "m": (n,), "nm": (n * n,)}[shape], device="cuda").to(getattr(torch, dtype))


def arrays_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check(case: Case, kernel: Any, arrays: dict[str, Any], dtype: str) -> float:
    """The largest error of some rows relative to 1 + |expected|; raises where it is too large for the dtype."""
    found = arrays_of(kernel(*arrays.values()))
    torch.cuda.synchronize()
    flat = any(s == "nm" for s in case.shapes.values())
    first = next(iter(arrays.values()))
    some = np.random.default_rng().integers(0, first.shape[0], 100_000 if flat else 97)
    some[:2] = 0, first.shape[0] - 1
    place = torch.as_tensor(some, device="cuda")
    given = {}
    for name, shape in case.shapes.items():
        part = arrays[name] if shape == "m" else arrays[name][place]
        given[name] = part.cpu().numpy() if shape == "int" else part.double().cpu().numpy()
    expected = arrays_of(case.ours(**given))
    worst = 0.0
    for have, want in zip(found, expected, strict=True):
        got = have[place].double().cpu().numpy()
        # a sum of products is judged by what its terms amount to
        scale = 1 + np.abs(want) + (np.sqrt(first.shape[-1]) if case.name == "matrix-vector" else 0)
        worst = max(worst, float(np.max(np.abs(got - want) / scale)))
        if not np.isfinite(got).all() or worst > {"float16": 2e-3, "float32": 2e-5}[dtype]:
            raise SystemExit(f"{case.name} {dtype}: wrong by {worst:.2e}")
    return worst


def timed(call: Callable[..., Any], sets: list[list[Any]]) -> float:
    """Microseconds of a call, the median; sets of arguments take turns."""
    kept: list[Any] = [None] * len(sets)  # results live until their turn comes again, so that the outputs rotate, too
    for k, arguments in enumerate(sets):
        kept[k] = call(*arguments)
    torch.cuda.synchronize()
    began, times = time.perf_counter(), list[float]()
    while len(times) < LEAST or (len(times) < 1000 and time.perf_counter() - began < SECONDS):
        events = []
        for k in range(CALLS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            kept[k % len(sets)] = call(*sets[k % len(sets)])
            end.record()
            events.append((start, end))
        torch.cuda.synchronize()
        times += [1e3 * start.elapsed_time(end) for start, end in events]
    return statistics.median(times)


def launched(call: Callable[..., Any], sets: list[list[Any]]) -> float:
    """The same without the time that a caller in Python takes: all turns in one CUDA graph. Falls back to `timed`."""
    try:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for arguments in sets:
                call(*arguments)
        torch.cuda.synchronize()
        graph, turns = torch.cuda.CUDAGraph(), max(1, 16 // len(sets))
        with torch.cuda.graph(graph, stream=stream):
            kept = [call(*arguments) for _ in range(turns) for arguments in sets]
        for _ in range(2):
            graph.replay()
        torch.cuda.synchronize()
        times = []
        for _ in range(15):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end) / len(kept))
        return statistics.median(times)
    except RuntimeError:
        torch.cuda.synchronize()
        return timed(call, sets)


def size_of(arrays: list[Any]) -> int:
    return sum(a.numel() * a.element_size() for a in arrays)


def row(case: Case, n: int, dtype: str, compiled: bool) -> str:
    kernel = tv.compile(case.ours, backend="cuda", **{k: spec_of(shape, n, dtype) for k, shape in case.shapes.items()})

    def fresh() -> dict[str, Any]:
        return {name: made(shape, n, dtype) for name, shape in case.shapes.items()}

    given = fresh()
    error = check(case, kernel, given, dtype)
    moved = size_of(list(given.values())) + size_of(arrays_of(kernel(*given.values())))
    count = max(2, -(-2 * L2 // moved))
    sets = [list(given.values()), *(list(fresh().values()) for _ in range(count - 1))]
    pairs = [[torch.empty(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(2)] for _ in range(count)]
    ours, copy = launched(lambda *a: kernel(*a), sets), launched(lambda to, source: to.copy_(source), pairs)
    theirs = launched(case.theirs, sets)
    line = f"{case.name:14}{n:6}  {dtype:8}{ours:9.1f}{moved / ours / 1e6:7.2f}{copy / ours:8.2f}"
    line += f"{theirs:10.1f}{theirs / ours:8.2f}"
    if compiled:
        other = launched(torch.compile(case.theirs), sets)
        line += f"{other:10.1f}{other / ours:8.2f}"
    else:
        line += f"{'-':>10}{'-':>8}"
    called = timed(lambda *a: kernel(*a), sets)
    line += f"{called:10.1f}   {error:.0e}"
    notes = getattr(kernel, "notes", ())
    return line + (f"   note: {str(notes[0])[:80]}" if notes else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="names, joined by ' or '")
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--dtypes", default="float16,float32")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    names = [name for name in options.only.lower().split(" or ") if name]
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print(f"{'':28}{'µs':>9}{'TB/s':>7}{'/copy':>8}{'torch µs':>10}{'/torch':>8}{'comp. µs':>10}{'/comp.':>8}"
          f"{'call µs':>10}   error")  # fmt: skip
    largest = max(map(int, options.sizes.split(",")))
    for case in CASES:
        if names and case.name.lower() not in names:
            continue
        for n in map(int, options.sizes.split(",")):
            for dtype in options.dtypes.split(","):
                try:
                    print(row(case, n, dtype, n == largest and not options.no_compile), flush=True)
                except Exception as problem:  # one line, and on with the next
                    print(f"{case.name:14}{n:6}  {dtype:8} {type(problem).__name__}: {str(problem)[:200]}", flush=True)


if __name__ == "__main__":
    main()
