"""Ours beside the peers on this CPU, in one run:  python benchmarks/cpu.py [--json FILE] [--only NAME]

Float32, the machine's threads (set OMP_NUM_THREADS to change), results written into preallocated arrays on both sides
where the peer can. Blocks of calls alternate between ours and the peer; the median of each is reported, and the ratio is
the peer's time over ours: at least 1 means as fast. Errors are against float64, relative to the largest value.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import tang_verified as tv

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def example(file: str, name: str) -> Callable[..., Any]:
    found = importlib.util.spec_from_file_location(file, ROOT / "examples" / f"{file}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, name)


@dataclass
class Row:
    """One comparison. Times are seconds; `aim` is the ratio wanted."""

    name: str
    peer: str
    ours: float
    theirs: float
    aim: float
    error: float | None = None

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def race(ours: Callable[[], Any], theirs: Callable[[], Any], *, seconds: float = 2.0) -> tuple[float, float]:
    """Medians of calls in alternating blocks of five. Before a block the thread pool of the other side is let go idle
    (OpenBLAS and OpenMP threads spin for a while after a call), and one call warms up."""
    a: list[float] = []
    b: list[float] = []
    end = time.perf_counter() + seconds
    while len(a) < 10 or (time.perf_counter() < end and len(a) < 200):
        for times, call in ((a, ours), (b, theirs)):
            time.sleep(0.1)
            call()
            for _ in range(5):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
    return median(a), median(b)


def error(out: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(out - exact).max() / np.abs(exact).max())


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def matmul(n: int) -> Row:
    kernel = tv.compile(lambda a, b: a @ b, a="n k", b="k m", name="matmul")
    a, b, out, other = normal(n, n), normal(n, n).T.copy(), np.empty((n, n), "f"), np.empty((n, n), "f")
    ours, theirs = race(lambda: kernel(a, b, out=out), lambda: np.matmul(a, b, out=other))
    return Row(f"matmul {n}", "NumPy/OpenBLAS", ours, theirs, 0.8, error(out, a.astype("d") @ b.astype("d")))


def attention(n: int, causal: bool) -> Row:
    kernel = tv.compile(example("attention", "causal" if causal else "heads"))
    q, k, v = (normal(8, n, 64) * s for s in (1, 1.1, 0.9))
    out = np.empty_like(q)
    tq, tk, tv_ = (torch.from_numpy(x)[None] for x in (q, k, v))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    ours, theirs = race(lambda: kernel(q, k, v, out=out), lambda: sdpa(tq, tk, tv_, is_causal=causal), seconds=4)
    part = [x[:1].astype("d") for x in (q, k, v)]
    exact = example("attention", "causal" if causal else "heads")(*part)
    return Row(f"attention 8×{n}×64{' causal' if causal else ''}", "torch SDPA", ours, theirs, 1.0, error(out[:1], exact))


def attention_backward(n: int, causal: bool) -> Row:
    """Forward and backward: o, and dq, dk, dv from do."""
    name = "causal" if causal else "heads"
    step = tv.vjp(example("attention", name), weights=("do",), value=True)
    kernel = tv.compile(step, name="step", **dict.fromkeys(("q", "k", "v", "do"), "h n 64"))
    q, k, v, do = (normal(8, n, 64) * s for s in (1, 1.1, 0.9, 1.2))
    out = tuple(np.empty_like(q) for _ in range(4))
    tq, tk, tv_ = (torch.from_numpy(x)[None].requires_grad_() for x in (q, k, v))
    tdo = torch.from_numpy(do)[None]

    def peer(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor) -> Any:
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return torch.autograd.grad(o, (q, k, v), do)

    ours, theirs = race(lambda: kernel(q, k, v, do, out=out), lambda: peer(tq, tk, tv_, tdo), seconds=6)
    part = [torch.from_numpy(x[:1].astype("d")) for x in (q, k, v, do)]
    exact = peer(*(x.requires_grad_() for x in part[:3]), part[3])
    worst = max(error(mine[:1], theirs.numpy()) for mine, theirs in zip(out[1:], exact, strict=True))
    return Row(f"attention fwd+bwd 8×{n}×64{' causal' if causal else ''}", "torch SDPA + autograd", ours, theirs, 1.0, worst)


def rowwise(name: str, peer: Callable[[torch.Tensor, torch.Tensor], Any], note: str, *extra: np.ndarray) -> Row:
    kernel = tv.compile(example(name, name))
    x = normal(4096, 4096)
    out, other = np.empty_like(x), torch.empty(4096, 4096)
    tx = torch.from_numpy(x)
    ours, theirs = race(lambda: kernel(x, *extra, out=out), lambda: peer(tx, other))
    exact = example(name, name)(x.astype("d"), *(e.astype("d") for e in extra))
    return Row(f"{name} 4096×4096", note, ours, theirs, 1.0, error(out, exact))


def softmax() -> Row:
    return rowwise("softmax", lambda x, o: torch.softmax(x, -1, out=o), "torch, out=")


def rmsnorm() -> Row:
    w = normal(4096)
    tw = torch.from_numpy(w)
    return rowwise("rmsnorm", lambda x, o: torch.mul(x, torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5), out=o).mul_(tw),
                   "torch, composed, out=", w)  # fmt: skip


def rmsnorm_fused() -> Row:
    w = normal(4096)
    tw = torch.from_numpy(w)
    row = rowwise("rmsnorm", lambda x, o: torch.nn.functional.rms_norm(x, (4096,), tw, 1e-5), "torch rms_norm (allocates)", w)
    return row


def layernorm() -> Row:
    w, b = normal(4096), normal(4096) + 1
    tw, tb = torch.from_numpy(w), torch.from_numpy(b)
    mean, rstd = torch.empty(4096, 1), torch.empty(4096, 1)
    run = torch.ops.aten.native_layer_norm.out
    return rowwise("layernorm", lambda x, o: run(x, [4096], tw, tb, 1e-5, out0=o, out1=mean, out2=rstd), "torch, out=", w, b)


def matvec() -> Row:
    n = 8192
    kernel = tv.compile(lambda a, x: a @ x, a="n k", x="k", name="matvec")
    a, x, out = normal(n, n), normal(n), np.empty(n, "f")
    ta = torch.from_numpy(a)
    ours, theirs = race(lambda: kernel(a, x, out=out), lambda: ta.sum())
    return Row(f"matrix–vector {n}", "a plain read (torch sum)", ours, theirs, 0.9, error(out, a.astype("d") @ x.astype("d")))


def stages() -> list[Row]:
    """Compile, audit and import times against their limits (the "peer" is the limit)."""
    kernel = tv.compile(example("attention", "heads"))
    kernel.certificate  # noqa: B018
    stages_ = kernel.timings.stages
    prove = sum(stages_[s] for s in ("trace", "derive", "certify"))
    with tempfile.TemporaryDirectory() as folder:
        *_, path = kernel.save(folder)
        start = time.perf_counter()
        report = tv.audit(path)
        audited = time.perf_counter() - start
    if report.exit_code:
        raise SystemExit(f"the audit failed: {[str(f) for f in report.findings][:3]}")
    loads = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import tang_verified"], check=True, cwd=ROOT)
        loads.append(time.perf_counter() - start)
    bare = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(time.perf_counter() - start)
    return [
        Row("trace + rewrite + prove, attention", "limit 5 s", prove, 5.0, 1.0),
        Row("audit of its certificate", "limit 3 s", audited, 3.0, 1.0),
        Row("import tang_verified", "limit 0.3 s", median(loads) - median(bare), 0.3, 1.0),
    ]


ROWS: dict[str, Callable[[], Row | list[Row]]] = {
    "matmul1024": lambda: matmul(1024),
    "matmul2048": lambda: matmul(2048),
    "attention1024": lambda: attention(1024, False),
    "attention1024causal": lambda: attention(1024, True),
    "attention4096": lambda: attention(4096, False),
    "attention4096causal": lambda: attention(4096, True),
    "backward1024": lambda: attention_backward(1024, False),
    "backward1024causal": lambda: attention_backward(1024, True),
    "backward4096causal": lambda: attention_backward(4096, True),
    "softmax": softmax,
    "rmsnorm": rmsnorm,
    "rmsnorm_fused": rmsnorm_fused,
    "layernorm": layernorm,
    "matvec": matvec,
    "stages": stages,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path, help="write the rows here too")
    options.add_argument("--only", help="rows whose name contains this")
    chosen = options.parse_args()
    threads = int(os.environ.get("OMP_NUM_THREADS", 0)) or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    print(f"{threads} threads, float32, torch {torch.__version__}, NumPy {np.__version__}")
    print(f"{'':36} {'peer':28} {'ours ms':>9} {'peer ms':>9} {'ratio':>6} {'aim':>5}  error")
    rows: list[Row] = []
    for name, make in ROWS.items():
        if chosen.only and chosen.only not in name:
            continue
        made = make()
        for row in made if isinstance(made, list) else [made]:
            rows.append(row)
            shown = "" if row.error is None else f"{row.error:.1e}"
            mark = "" if row.ratio >= row.aim else "  short"
            print(f"{row.name:36} {row.peer:28} {row.ours * 1e3:9.2f} {row.theirs * 1e3:9.2f} {row.ratio:6.2f} {row.aim:5.1f}  "
                  f"{shown}{mark}", flush=True)  # fmt: skip
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
