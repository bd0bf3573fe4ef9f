"""A recorded run of the conformance suite as a table:  python benchmarks/conformance_table.py RUN.xml… > docs/measured/NAME.md

    python -m pytest tests/conformance --junitxml=RUN.xml        records it; a later file's tests take the place of an earlier's
    lines: of the dialect's file and of the runtime's files, blank ones and comments included
    1.0: passed, the largest error in units of the tolerance;  FAILED;  skipped;  -: not run
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORDER = (
    "c", "opencl", "wgsl", "glsl", "cuda", "cuda-sm90a", "cuda-shim", "cuda-shim-reversed", "cuda-sm90a-shim", "metal",
    "metal-shim", "metal-shim-reversed",
)  # fmt: skip
RUNTIMES = {  # beside NAME/runtime.py
    "c": ("c/compiler.py", "c/cache.py"), "wgsl": ("webgpu.py", "queued.py"), "glsl": ("webgpu.py", "queued.py"),
    "opencl": ("queued.py",), "metal": ("queued.py",), "cuda": ("cuda/memory.py",),
}  # fmt: skip
DIALECTS = {"c": ("../proofs/readback/c_helpers.py", "../proofs/readback/c_math.py")}  # beside NAME/dialect.py
SHARED = "simt scalar assign expressions folds places reads scopes storage printer special device launch gpu arithmetic".split()


@dataclass(frozen=True)
class Outcome:
    """One test of the run."""

    test: str
    verdict: str  # "passed", "FAILED" or "skipped"
    why: str
    properties: dict[str, str]


def outcomes(paths: Sequence[Path]) -> list[Outcome]:
    found: dict[tuple[str | None, str | None], Outcome] = {}
    for path in paths:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            properties = {p.get("name", ""): p.get("value", "") for p in case.iter("property")}
            bad = next((part for kind in ("failure", "error", "skipped") for part in case.iter(kind)), None)
            verdict = "passed" if bad is None else "skipped" if bad.tag == "skipped" else "FAILED"
            why = "" if bad is None else (bad.get("message") or "").splitlines()[0]
            key = (case.get("classname"), (case.get("name") or "").split("@")[0])
            found[key] = Outcome(key[1] or "", verdict, why, properties)
    return list(found.values())


def lines(files: Sequence[str]) -> int:
    return sum(len((ROOT / "backends" / file).read_text().splitlines()) for file in files)


def table(found: Sequence[Outcome]) -> Iterator[str]:
    """Markdown, line by line."""
    programs = [o for o in found if "program" in o.properties]
    names = [name for name in ORDER if any(o.properties["backend"] == name for o in programs)]
    devices = {o.properties["backend"]: o.properties["device"] for o in found if "device" in o.properties}
    yield "| backend | dialect, lines | runtime, lines | device | programs passed | largest error / tolerance |"
    yield "|---|---:|---:|---|---:|---:|"
    for name in names:
        base = name.split("-")[0]
        mine = [o for o in programs if o.properties["backend"] == name]
        good = [o for o in mine if o.verdict == "passed"]
        worst = max((float(o.properties["error over tolerance"]) for o in good), default=0.0)
        if name == base or name.endswith("-shim"):
            dialect, runtime = (f"{base}/dialect.py", *DIALECTS.get(base, ())), (f"{base}/runtime.py", *RUNTIMES[base])
            size = f"{lines(dialect)} | {lines(runtime)}"
        else:
            size = "as above | as above"
        device = "the host, through tests/shims" if "-shim" in name else devices.get(name, "missing")
        yield f"| {name} | {size} | {device} | {len(good)} of {len(mine)} | {worst:.2f} |"
    shared = lines([f"{file}.py" for file in SHARED])
    yield f"\nAll printers and runtimes share {shared} lines more (`backends/*.py`). The shims' runtime is the tests' own.\n"
    yield "| program | " + " | ".join(names) + " |"
    yield "|---|" + "---:|" * len(names)
    cells = {(o.properties["program"], o.properties["backend"]): o for o in programs}
    for program in dict.fromkeys(o.properties["program"] for o in programs):
        row = [_cell(cells.get((program, name))) for name in names]
        yield f"| {program} | {' | '.join(row)} |"
    others = [o for o in found if "program" not in o.properties and "device" not in o.properties]
    counts = {verdict: sum(o.verdict == verdict for o in others) for verdict in ("passed", "FAILED", "skipped")}
    yield f"\nBeside the programs: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}.\n"
    for o in found:
        if o.verdict == "FAILED":
            yield f"- FAILED: {o.test}: {o.why[:300]}"
    reasons = Counter(o.why for o in found if o.verdict == "skipped")
    yield from (f"- skipped, {count}: {why[:300]}" for why, count in reasons.items())


def _cell(found: Outcome | None) -> str:
    if found is None:
        return "-"
    return f"{float(found.properties['error over tolerance']):.2f}" if found.verdict == "passed" else found.verdict


def main(paths: Sequence[str]) -> int:
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    found = outcomes([Path(path) for path in paths])
    print(f"Made by `python benchmarks/conformance_table.py`, which says what the numbers are.\n\n{chr(10).join(table(found))}")
    return 1 if any(o.verdict == "FAILED" for o in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
