"""Every kernel beside its floor on this CPU:  python benchmarks/floors.py [--json FILE] [--table FILE] [--only NAME]
or on this machine's GPU:                      python benchmarks/floors.py --backend cuda …

Run `tang-verified ceilings` (for a GPU: `--backend cuda`) first: a floor is made of this machine's ceilings. Exits with 1 if a
time lies below its floor, which would be a mistake in a bound or a ceiling. Cold rows rotate through arrays larger than all
caches; resident ones say so. OMP_NUM_THREADS chooses the threads; with one, the thread's own clock is read, and a busy machine
does not matter.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tang_verified as tv
from tang_verified.benching import document, measured, measured_on_gpu, read_rows
from tang_verified.ceilings import here
from tang_verified.device_file import DeviceError, find
from tang_verified.floor import UNEXPLAINED, State

ROOT = Path(__file__).resolve().parent.parent


def example(file: str, name: str = "") -> Callable[..., Any]:
    found = importlib.util.spec_from_file_location(file, ROOT / "examples" / f"{file}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, name or file)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def labels(count: int, below: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, below, count, dtype=np.int32)


def matmul(a, b):
    return a @ b


@dataclass
class Case:
    """One program, and the arguments it is measured with: (what the sizes are called, state, the arrays)."""

    name: str
    fn: Callable[..., Any]
    specs: dict[str, Any] = field(default_factory=dict)
    runs: list[tuple[str, State, Callable[[], list[np.ndarray]]]] = field(default_factory=list)
    exact: bool = True  # whether float64 results are worth their time: interpreted products of derivatives take minutes


def backward(fn: Callable[..., Any], weight: str = "dy") -> Callable[..., Any]:
    return tv.vjp(fn, weights=(weight,))


def cases() -> Iterator[Case]:
    square = lambda n: lambda: [normal(n, n)]  # noqa: E731
    yield Case("softmax", example("softmax"), {}, [
        ("4096 × 4096", "cold", square(4096)), ("1024 × 1024", "cold", square(1024)),
        ("64 × 256", "resident", lambda: [normal(64, 256)]),
    ])  # fmt: skip
    yield Case("logsumexp", example("logsumexp"), {}, [
        ("4096 × 4096", "cold", square(4096)), ("512 × 512", "resident", square(512)),
    ])  # fmt: skip
    yield Case("cross_entropy", example("cross_entropy"), {}, [
        ("2048 × 8192", "cold", lambda: [normal(2048, 8192), labels(2048, 8192)]),
    ])  # fmt: skip
    yield Case("rmsnorm", example("rmsnorm"), {}, [
        ("4096 × 4096", "cold", lambda: [normal(4096, 4096), normal(4096)]),
        ("256 × 1024", "resident", lambda: [normal(256, 1024), normal(1024)]),
    ])  # fmt: skip
    yield Case("layernorm", example("layernorm"), {}, [
        ("4096 × 4096", "cold", lambda: [normal(4096, 4096), normal(4096), normal(4096)]),
        ("1024 × 768", "resident", lambda: [normal(1024, 768), normal(768), normal(768)]),
    ])  # fmt: skip
    layer = lambda n, k, m: lambda: [normal(n, k), normal(k, m), normal(m)]  # noqa: E731
    yield Case("linear_gelu", example("linear_gelu"), {}, [
        ("1024 × 1024 × 1024", "cold", layer(1024, 1024, 1024)), ("512 × 512 × 512", "cold", layer(512, 512, 512)),
        ("174 × 1024 × 512", "resident", layer(174, 1024, 512)),
    ])  # fmt: skip
    yield Case("swiglu", example("swiglu"), {}, [
        ("1024 × 1024 × 1024", "cold", lambda: [normal(1024, 1024), normal(1024, 1024), normal(1024, 1024)]),
        ("256 × 512 × 512", "cold", lambda: [normal(256, 512), normal(512, 512), normal(512, 512)]),
    ])  # fmt: skip
    yield Case("matmul", matmul, {"a": "n k", "b": "k m"}, [
        ("1024", "cold", lambda: [normal(1024, 1024), normal(1024, 1024)]), ("2048", "cold", lambda: [normal(2048, 2048)] * 2),
    ])  # fmt: skip
    yield Case("matrix–vector", matmul, {"a": "n k", "b": "k"}, [
        ("8192", "cold", lambda: [normal(8192, 8192), normal(8192)]),
    ])  # fmt: skip
    heads = lambda h, n, m=0: lambda: [normal(h, n, 64), normal(h, m or n, 64), normal(h, m or n, 64)]  # noqa: E731
    yield Case("attention", example("attention", "heads"), {}, [
        ("8 × 1024 × 64", "cold", heads(8, 1024)), ("8 × 256 × 64", "cold", heads(8, 256)),
    ])  # fmt: skip
    yield Case("attention, causal", example("attention", "causal"), {}, [
        ("8 × 1024 × 64", "cold", heads(8, 1024)), ("4 × 2048 × 64", "cold", heads(4, 2048)),
    ])  # fmt: skip
    yield Case("attention, grouped query", example("attention", "grouped_query"), {}, [
        ("8 × 1024 × 64", "cold", lambda: [normal(8, 1024, 64), normal(2, 1024, 64), normal(2, 1024, 64)]),
    ])  # fmt: skip
    yield Case("attention, sigmoid", example("attention", "sigmoid"), {}, [
        ("2048 × 64", "cold", lambda: [normal(2048, 64)] * 3),
    ])  # fmt: skip
    yield Case("attention, decode", example("attention", "decode"), {}, [("32 × 1 × 4096 × 64", "cold", heads(32, 1, 4096))])
    image = lambda b, h, o: lambda: [normal(b, 3, h, h), normal(o, 3, 3, 3)]  # noqa: E731
    yield Case("conv2d", example("conv2d"), {}, [("4 × 3 × 128 × 128, 32", "cold", image(4, 128, 32))])
    for name in ("max_pool", "average_pool"):
        yield Case(name, example("pooling", name), {}, [("16 × 64 × 32 × 48", "cold", lambda: [normal(16, 64, 32, 48)])])
    yield Case("embedding", example("embedding"), {}, [
        ("16384 of 32768 × 512", "cold", lambda: [normal(32768, 512), labels(16384, 32768)]),
    ])  # fmt: skip
    pair = lambda *shape: lambda: [normal(*shape), normal(*shape) + 1]  # noqa: E731
    yield Case("softmax, backward", backward(example("softmax")), {"x": "n m", "dy": "n m"}, [
        ("2048 × 2048", "cold", pair(2048, 2048)), ("128 × 512", "resident", pair(128, 512)),
    ])  # fmt: skip
    yield Case("cross_entropy, backward", tv.grad(lambda x, label: example("cross_entropy")(x, label).mean()),
               {"x": "n>=1 c>=1", "label": tv.spec("n", "int32")}, [
        ("2048 × 4096", "cold", lambda: [normal(2048, 4096), labels(2048, 4096)]),
    ])  # fmt: skip
    yield Case("rmsnorm, backward", backward(example("rmsnorm")), {"x": "n d", "w": "d", "dy": "n d"}, [
        ("2048 × 2048", "cold", lambda: [normal(2048, 2048), normal(2048), normal(2048, 2048) + 1]),
    ])  # fmt: skip
    yield Case("layernorm, backward", backward(example("layernorm")), {"x": "n d", "w": "d", "b": "d", "dy": "n d"}, [
        ("2048 × 2048", "cold", lambda: [normal(2048, 2048), normal(2048), normal(2048), normal(2048, 2048) + 1]),
    ])  # fmt: skip
    yield Case("linear_gelu, backward", backward(example("linear_gelu")), {"x": "n k", "w": "k m", "b": "m", "dy": "n m"}, [
        ("512 × 512 × 512", "cold", lambda: [normal(512, 512), normal(512, 512), normal(512), normal(512, 512)]),
    ], exact=False)  # fmt: skip
    yield Case("attention, causal, backward", backward(example("attention", "causal"), "do"),
               dict.fromkeys(("q", "k", "v", "do"), "h n 64"), [
        ("4 × 512 × 64", "cold", lambda: [normal(4, 512, 64) for _ in range(4)]),
    ], exact=False)  # fmt: skip


def on_gpu() -> dict[str, list[tuple[str, Callable[[], list[np.ndarray]]]]]:
    """Sizes that take a GPU more than 100 µs."""
    square = [("8192 × 8192", lambda: [normal(8192, 8192)])]
    norm = lambda count: [("8192 × 8192", lambda: [normal(8192, 8192), *(normal(8192) for _ in range(count))])]  # noqa: E731
    heads = lambda h, n, d=64: lambda: [normal(h, n, d) for _ in range(3)]  # noqa: E731
    backward = lambda *shapes: lambda: [normal(*shape) + 1 for shape in shapes]  # noqa: E731
    wide = (4096, 4096)
    return {
        "softmax": square, "logsumexp": square, "rmsnorm": norm(1), "layernorm": norm(2),
        "cross_entropy": [("8192 × 32768", lambda: [normal(8192, 32768), labels(8192, 32768)])],
        "linear_gelu": [("4096 × 4096 × 4096", lambda: [normal(*wide), normal(*wide), normal(4096)])],
        "swiglu": [("4096 × 4096 × 4096", lambda: [normal(*wide), normal(*wide), normal(*wide)])],
        "matmul": [("4096", lambda: [normal(*wide), normal(*wide)]), ("2048", lambda: [normal(2048, 2048)] * 2)],
        "matrix–vector": [("16384", lambda: [normal(16384, 16384), normal(16384)])],
        "attention": [("32 × 4096 × 64", heads(32, 4096))],
        "attention, causal": [("32 × 4096 × 64", heads(32, 4096))],
        "attention, grouped query": [
            ("8 × 8192 × 64", lambda: [normal(8, 8192, 64), normal(2, 8192, 64), normal(2, 8192, 64)]),
        ],
        "attention, sigmoid": [("8192 × 64", lambda: [normal(8192, 64)] * 3)],
        "attention, decode": [
            ("256 × 1 × 8192 × 64", lambda: [normal(256, 1, 64), normal(256, 8192, 64), normal(256, 8192, 64)]),
        ],
        "conv2d": [("16 × 3 × 512 × 512, 32", lambda: [normal(16, 3, 512, 512), normal(32, 3, 3, 3)])],
        "max_pool": [("512 × 128 × 32 × 48", lambda: [normal(512, 128, 32, 48)])],
        "average_pool": [("512 × 128 × 32 × 48", lambda: [normal(512, 128, 32, 48)])],
        "embedding": [("131072 of 65536 × 1024", lambda: [normal(65536, 1024), labels(131072, 65536)])],
        "softmax, backward": [("8192 × 8192", backward((8192, 8192), (8192, 8192)))],
        "cross_entropy, backward": [("8192 × 16384", lambda: [normal(8192, 16384), labels(8192, 16384)])],
        "rmsnorm, backward": [("8192 × 4096", backward((8192, 4096), (4096,), (8192, 4096)))],
        "layernorm, backward": [("8192 × 4096", backward((8192, 4096), (4096,), (4096,), (8192, 4096)))],
        "linear_gelu, backward": [("2048 × 2048 × 2048", backward((2048, 2048), (2048, 2048), (2048,), (2048, 2048)))],
        "attention, causal, backward": [("16 × 2048 × 64", lambda: [normal(16, 2048, 64) for _ in range(4)])],
    }  # fmt: skip


def table(data: dict[str, Any]) -> str:
    """The rows in Markdown, with where and when they were measured."""
    device, rows = data["device"], data["rows"]
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items() if name != "flags")
    clock = "the thread's clock" if rows[0]["clock"] == "thread" else "the wall's clock"
    what = f"Times are of one call through Python, by {clock}."
    gpu = rows[0]["backend"] == "cuda"
    if gpu:
        what = "Times are of one call among many in a CUDA graph. Errors are of the sizes that the CPU's table has."
    ratios = sorted(row["ratio"] for row in rows)
    large = [row["ratio"] for row in rows if row["minimum"] > 1e-4]
    lines = [
        f"# Kernels beside their floors on a {'GPU' if gpu else 'CPU'}", "",
        f"`python benchmarks/floors.py{' --backend cuda' if gpu else ''}`, {data['date']}, "
        f"on {device['name']} (ceilings of {device['date']}; "
        f"{device['machine'].get('caches', '')}). {versions}.", "",
        "The floor is a time below which no run can be, from certified bounds and measured ceilings "
        f"(docs/performance_reports.md). {what}", "",
        f"{len(rows)} rows, {sum(r > 1 for r in ratios) or 'none'} below its floor. Floor over measured: median "
        f"{median(ratios):.2f}, of the {len(large)} rows over 100 µs {median(large):.2f}, from {ratios[0]:.2f} to "
        f"{ratios[-1]:.2f}. Hardware counters of traffic: none read.", "",
        "| program | sizes | caches | least ms | median ms | floor ms | floor/least | what binds | unexplained | "
        "the largest other part | error |",
        "|---|---|---|---:|---:|---:|---:|---|---:|---|---:|",
    ]  # fmt: skip
    for row in rows:
        parts = [(what, part) for what, part in row["attribution"] if what not in (UNEXPLAINED, row["binding"], "calls")]
        other = max(parts, key=lambda pair: pair[1], default=("", 0.0))
        rest = dict(row["attribution"])[UNEXPLAINED] / row["minimum"]
        error = "" if row["error"] is None else f"{row['error']:.1e}"
        lines.append(
            f"| {row['family']} | {row['name']} | {row['state']} | {row['minimum'] * 1e3:.3f} | {row['median'] * 1e3:.3f} | "
            f"{row['floor'] * 1e3:.3f} | {row['ratio']:.2f} | {row['binding']} | {rest:.0%} | "
            f"{other[0]} {other[1] / row['minimum']:.0%} | {error} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path, help="write the rows here (tang-verified report reads them)")
    options.add_argument("--table", type=Path, help="write a table in Markdown here")
    options.add_argument("--certificates", type=Path, help="write sources and certificates into this folder")
    options.add_argument("--missing", action="store_true", help="measure only what the JSON file has no row of")
    options.add_argument("--only", default="", help="programs whose name contains this")
    options.add_argument("--backend", choices=["c", "cuda"], default="c")
    options.add_argument("--device", help="a device file; this machine's by default")
    options.add_argument("--seconds", type=float, default=2.0, help="of measuring, a row")
    chosen = options.parse_args()
    try:
        device = find(chosen.device) if chosen.device else here() if chosen.backend == "c" else find("cuda")
    except DeviceError as problem:
        options.error(str(problem))
    rows = read_rows(chosen.json)["rows"] if chosen.missing and chosen.json and chosen.json.exists() else []
    print(f"{'':54} {'least ms':>9} {'median':>9} {'floor':>9} {'ratio':>6}  binds")
    for case in cases():
        every = case.runs if chosen.backend == "c" else [(what, "cold", make) for what, make in on_gpu().get(case.name, ())]
        runs = [run for run in every if (case.name, run[0]) not in {(row["family"], row["name"]) for row in rows}]
        if chosen.only not in case.name or not runs:
            continue
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in case.name)
        kernel = tv.compile(case.fn, name=name, backend=chosen.backend, **case.specs)
        if chosen.certificates:
            kernel.save(chosen.certificates)
        error = None
        if chosen.backend == "cuda" and case.exact:  # at the CPU's sizes: float64 takes long at a GPU's
            small = case.runs[-1][2]()
            wanted = case.fn(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in small))
            pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (kernel(*small), wanted)), strict=True)
            error = max(float(np.abs(got - exact).max() / np.abs(exact).max()) for got, exact in pairs)
        for what, state, make in runs:
            row = measured_on_gpu(
                what, kernel, make, device, seconds=chosen.seconds / 4, family=case.name, error=error
            ) if chosen.backend == "cuda" else measured(
                what, kernel, make, device, state=state, seconds=chosen.seconds,
                exact=(lambda a, fn=case.fn: fn(*a)) if case.exact else None, family=case.name,
            )  # fmt: skip
            rows.append(row)
            times = " ".join(f"{row[which] * 1e3:9.3f}" for which in ("minimum", "median", "floor"))
            below = "   BELOW ITS FLOOR" if row["ratio"] > 1 else ""
            print(f"{case.name + ' ' + what:54} {times} {row['ratio']:6.2f}  {row['binding']}{below}", flush=True)
            data = document(device, rows)  # written after each row: what was measured is not lost
            if chosen.json:
                chosen.json.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
            if chosen.table:
                chosen.table.write_text(table(data))
    if any(row["ratio"] > 1 for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
