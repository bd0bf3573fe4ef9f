"""Errors against certified rounding bounds: every example on C, and dot products by length.

    kernel | inputs | worst error / bound | median | share of elements with a bound | the worst came from

    python benchmarks/rounding.py [--inputs 1000] [--dtype float32] [EXAMPLE …]

The error is the distance from the same function in NumPy's float64, on the same inputs: random ones, and those of
tests/rounding/inputs.py (cancellation, wide exponents, near ties, large scores, over- and underflow). Exits with 1 where an
error is above its bound, or where a dot product's bound is more than 100 times the worst error seen.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # arrays this small take microseconds; a second thread only waits
sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance.backends import kernel
from tests.conformance.programs import Case
from tests.rounding.inputs import inputs, worst
from tests.rounding.test_bounds import SEVERAL_TILES, dots
from tests.test_examples import BLOCK, EXAMPLES, reference

LENGTHS = (16, 64, 256, 1024, 4096)


def row(example: str, dtype: str, count: int, several: bool) -> bool:
    compiled = kernel(Case(example, dtype), "c")  # type: ignore[arg-type]
    begun, found, medians, shares = time.perf_counter(), (0.0, ""), [], []
    at = SEVERAL_TILES.get(example) if several else None
    for kind, arrays in inputs(compiled, example, count, 2, at=at):
        ratio, median, share = worst(compiled, lambda given: reference(example, given), arrays)
        found = max(found, (ratio, kind))
        medians.append(median)
        shares.append(share)
    reasons = sorted({reason for bound in compiled._bounds for reason in bound.reasons})
    middle, seconds = sorted(medians)[len(medians) // 2], time.perf_counter() - begun
    name = f"{example} {dtype}{' several tiles' if several else ''}"
    print(
        f"{name:44} {count:6} {found[0]:10.4f} {middle:10.2e} {sum(shares) / len(shares):7.0%}  {found[1]:14} {seconds:6.1f} s"
        f"{'  no bound: ' + '; '.join(reasons) if reasons else ''}",
        flush=True,
    )
    return found[0] <= 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", help="as softmax:softmax; all by default")
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    asked = parser.parse_args()
    print(f"{'kernel':44} {'inputs':>6} {'worst e/b':>10} {'median':>10} {'bounded':>7}  {'worst on':14}")
    good = True
    for example in asked.examples or [e for e in EXAMPLES if e != BLOCK]:
        good &= row(example, asked.dtype, asked.inputs, several=False)
        if example in SEVERAL_TILES and asked.dtype == "float32":
            good &= row(example, asked.dtype, max(13, asked.inputs // 20), several=True)
    if not asked.examples:
        print(f"\n{'length':>8} {'bound / worst error, x·y':>26} {'in x @ y':>12}")
        for length in LENGTHS:
            one, many = dots(length, 200, length)
            print(f"{length:8} {1 / one:26.1f} {1 / many:12.1f}", flush=True)
            good &= 0.01 <= one <= 1 and 0.01 <= many <= 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
