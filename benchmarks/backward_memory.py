"""Peak memory of attention's forward and backward over its length:  python benchmarks/backward_memory.py

One head of 64, causal, float32, each in a process of its own. Beside it PyTorch's, composed (its scores are stored), where
there is memory for them.
"""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from pathlib import Path

LENGTHS = (2048, 4096, 8192, 16384)
ROOT = Path(__file__).resolve().parent.parent


def ours(n: int) -> None:
    import numpy as np

    import tang_verified as tv

    sys.path.insert(0, str(ROOT / "examples"))
    from attention import causal

    step = tv.vjp(causal, weights=("do",), value=True)
    kernel = tv.compile(step, name="step", **dict.fromkeys(("q", "k", "v", "do"), "h n 64"))
    small = [np.random.default_rng(i).standard_normal((1, 64, 64), dtype=np.float32) for i in range(4)]
    kernel(*small)
    q, k, v, do = (np.random.default_rng(i).standard_normal((1, n, 64), dtype=np.float32) for i in range(4))
    before = settled()
    kernel(q, k, v, do)
    print(peak() - before)


def settled() -> int:
    """The memory in use, with what the allocator keeps given back and the peak so far forgotten."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """The peak of this process's memory since the last reset, in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def theirs(n: int) -> None:
    import torch

    q, k, v, do = (torch.randn(1, n, 64) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    before = settled()
    s = (q @ k.mT / 8).masked_fill(~mask, float("-inf"))
    torch.autograd.grad(torch.softmax(s, -1) @ v, (q, k, v), do)
    print(peak() - before)


def main() -> None:
    if len(sys.argv) == 3:
        return (ours if sys.argv[1] == "ours" else theirs)(int(sys.argv[2]))
    print(f"{'n':>6} {'ours MiB':>9} {'a row KiB':>9} {'composed in torch MiB':>22}")
    for n in LENGTHS:
        found = []
        for who in ("ours", "theirs"):
            done = subprocess.run([sys.executable, __file__, who, str(n)], capture_output=True, text=True, cwd=ROOT)
            found.append(int(done.stdout.split()[-1]) if done.returncode == 0 and done.stdout else None)
        mine, other = found
        if mine is None:
            raise SystemExit(f"our run of {n} failed")
        print(f"{n:6} {mine / 1024:9.1f} {mine / n:9.2f} {'no memory' if other is None else f'{other / 1024:.1f}':>22}")


if __name__ == "__main__":
    main()
