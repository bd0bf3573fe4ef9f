"""`tang-verified demo`: the main job, end to end, in under a minute.

Attention as a textbook writes it -> its derivation -> a certified kernel -> run and compared -> memory against the naive
form -> the certificate audited from the file alone -> an unsound kernel refused.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tang_verified.advice import telling
from tang_verified.compiler import CompiledKernel, compile
from tang_verified.lines import elide, wrapped
from tang_verified.spec import spec

SOURCE = '''\
def attention(q, k, v):
    xp = q.__array_namespace__()
    s = q @ k.mT / 8.0
    i, j = xp.arange(q.shape[1])[:, None], xp.arange(k.shape[1])[None, :]
    s = xp.where(j <= i, s, -xp.inf)
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return (p / p.sum(axis=-1, keepdims=True)) @ v
'''
MEASURE = '''\
import ctypes, pathlib, sys
import tang_verified.demo as demo
arrays = demo.inputs(4, 2048)
work = demo.attention if sys.argv[1] == "naive" else demo.compiled()
status = pathlib.Path("/proc/self/status")
peak = lambda: int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")))
work(*demo.inputs(1, 16))
ctypes.CDLL(None).malloc_trim(0)  # what the proofs have freed goes back: used again, it would not show
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak so far, which is that of the proofs, is forgotten
before = peak()
work(*arrays)
print((peak() - before) * 1024)
'''


def attention(q: Any, k: Any, v: Any) -> Any:
    """The text above, as a function."""
    names: dict[str, Any] = {}
    exec(SOURCE, names)
    return names["attention"](q, k, v)


def compiled() -> CompiledKernel:
    q, k, v = (spec("h n 64") for _ in range(3))
    return compile(attention, name="attention", q=q, k=k, v=v)


def inputs(heads: int, length: int) -> list[np.ndarray[Any, Any]]:
    """Fresh normal arrays q, k, v of shape (heads, length, 64)."""
    rng = np.random.default_rng()
    return [rng.standard_normal((heads, length, 64), dtype=np.float32) for _ in range(3)]


def run(folder: Path, console: Console) -> bool:
    """Runs the demo, writing into `folder`. True when everything came out as it should."""
    console.rule("1. Attention, as a textbook writes it")
    console.print(SOURCE, highlight=False, markup=False)
    with console.status("tracing, rewriting, proving, printing, compiling …"):
        kernel = compiled()
    _derivation(kernel, console)
    *_, certificate = kernel.save(folder)
    console.rule("3. The kernel")
    from tang_verified.semantics.show import show_kernel

    _text(console, show_kernel(kernel.certified.kernels[0]))
    console.print(f"\nwritten: {folder / 'attention.c'} ({len(kernel.source.splitlines())} lines), {certificate}")
    good = _compare(kernel, console)
    _memory(console)
    good &= _audit(certificate, folder, console)
    good &= _refuse(kernel, console)
    console.rule("done" if good else "something did not come out as it should")
    return good


def _derivation(kernel: CompiledKernel, console: Console) -> None:
    from tang_verified.proofs.ledger import Ledger
    from tang_verified.proofs.steps import check_step
    from tang_verified.semantics.show import show, show_program

    certified = kernel.certified
    console.rule("2. The derivation")
    ledger, program = Ledger(certified.traced), certified.traced
    skipped: Counter[str] = Counter()
    for step in certified.steps:
        mark, start = len(ledger.obligations), time.perf_counter()
        program = check_step(ledger, program, step)
        spent = (time.perf_counter() - start) * 1e3
        made = ledger.obligations[mark:]
        if step.rule in ("substitute", "drop", "rename") or step.before is None or step.after is None:
            skipped[step.rule] += 1
            continue
        provers = ", ".join(sorted({o.prover for o in made}))
        shown = f"{len(made)} obligations proved by {provers} in {spent:.0f} ms"
        console.print(f"[bold]{step.rule}[/bold] in {step.tensor}: {shown}", highlight=False)
        for sign, term in (("  ", step.before), ("→ ", step.after)):
            _text(console, sign + elide(show(term), 150))
    console.print(", ".join(f"{count} × {rule}" for rule, count in skipped.items()), "are not listed")
    console.print("\nwhat is left, in one definition:", highlight=False)
    _text(console, show_program(certified.program))
    proved = Counter(o.prover for o in certified.obligations)
    console.print(
        f"\n{len(certified.obligations)} obligations proved for all sizes: "
        + ", ".join(f"{count} by {prover}" for prover, count in proved.most_common())
    )
    console.print("axioms: " + ", ".join(certified.axioms))
    console.print("seconds: " + ", ".join(f"{stage} {spent:.2f}" for stage, spent in kernel.timings.stages.items()))


def _text(console: Console, text: str) -> None:
    console.print(wrapped(text, console.width), highlight=False, markup=False, soft_wrap=True)


def _compare(kernel: CompiledKernel, console: Console) -> bool:
    console.rule("4. Run, and compared with NumPy in float64")
    arrays = inputs(4, 1021)
    kernel(*inputs(1, 16))  # the text is compiled when it is first called
    start = time.perf_counter()
    out = kernel(*arrays)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    attention(*arrays)
    naive = time.perf_counter() - start
    with np.errstate(invalid="ignore"):
        exact = attention(*(a.astype(np.float64) for a in arrays))
    error = float(np.abs(out - exact).max() / np.abs(exact).max())
    console.print(f"4 heads, 1021 queries and keys: largest error {error:.1e} of the largest value")
    console.print(f"{ours * 1e3:.1f} ms; the same text run by NumPy in float32: {naive * 1e3:.1f} ms")
    return error < 1e-5


def _memory(console: Console) -> None:
    console.rule("5. Peak memory, 4 heads of 2048")
    if not all(Path("/proc/self", name).exists() for name in ("status", "clear_refs")):
        console.print("this system does not tell a process its peak memory")
        return
    used = {}
    for kind in ("naive", "compiled"):
        done = subprocess.run([sys.executable, "-c", MEASURE, kind], capture_output=True, text=True, check=True)
        used[kind] = int(done.stdout)
    naive, ours = (used[kind] / 2**20 for kind in ("naive", "compiled"))
    result = inputs(4, 2048)[0].nbytes / 2**20
    console.print(f"NumPy {naive:.1f} MiB, this kernel {ours:.1f} MiB, of which the result takes {result:.1f}")


def _audit(certificate: Path, folder: Path, console: Console) -> bool:
    console.rule("6. The certificate, audited from the file alone")
    from tang_verified.auditing import audit
    from tang_verified.report import text

    start = time.perf_counter()
    report = audit(certificate)
    _text(console, f"{text(report)}\nin {time.perf_counter() - start:.1f} s")
    return report.exit_code == 0


def _refuse(kernel: CompiledKernel, console: Console) -> bool:
    console.rule("7. An unsound kernel, which must be refused")
    console.print("the running sum is not rescaled when the maximum moves")
    from tang_verified.proofs.check import certify
    from tang_verified.proofs.ledger import Refused
    from tang_verified.semantics.kernel import Assign, For, Stmt
    from tang_verified.semantics.terms import REAL_ONE, Op, Read, Term, children, rebuild

    def unscaled(term: Term) -> Term:
        if isinstance(term, Op) and term.name == "mul" and isinstance(term.args[1], Read) and "scale" in term.args[1].tensor:
            return Op("mul", (term.args[0], REAL_ONE))
        return rebuild(term, tuple(unscaled(part) for part in children(term))) if children(term) else term

    def broken(statement: Stmt) -> Stmt:
        if isinstance(statement, For):
            return replace(statement, body=tuple(broken(s) for s in statement.body))
        if isinstance(statement, Assign):
            return replace(statement, value=unscaled(statement.value))
        return statement

    original = kernel.certified.kernels[0]
    mutant = replace(original, body=tuple(broken(s) for s in original.body))
    try:
        certify(kernel.certified.traced, kernel.certified.steps, [mutant])
    except Refused as refusal:
        found = telling(refusal)
        console.print(f"refused at {refusal.place}: {found.obligation} is {found.verdict} by", highlight=False)
        console.print("(folds, and functions such as exp, take any values that the facts and axioms in use admit)")
        for name, value in found.values:
            console.print(f"  {elide(name, console.width - len(value) - 5)} = {value}", highlight=False, markup=False)
        return True
    console.print("it was accepted, which is a bug in the checker")
    return False
