"""How fast the printed C is on one thread: exp, the packed matmul micro-kernel, a row of softmax.

    python benchmarks/c_micro.py

The peak is measured, not looked up: independent multiply-adds on registers.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable, Sequence

import numpy as np

from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.c.runtime import describe, lanes, load, load_kernel
from tang_verified.backends.printer import print_kernel
from tang_verified.semantics.build import ceildiv, iadd, imul, integer, lt, op, var
from tang_verified.semantics.kernel import Assign, For, Kernel, Loop
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import ADD, TRUE, Axis, Fold, Read, Term

n, depth = var("n"), var("depth")
Array = np.ndarray


def best(run: Callable[[], None], repeat: int = 40) -> float:
    """The shortest time of a run, in seconds."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def aligned(shape: Sequence[int], dtype: str = "float32") -> Array:
    """Random numbers that start on a cache line, as the runtime's own buffers do."""
    count = int(np.prod(shape))
    whole = np.empty(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -whole.ctypes.data % 64
    array = whole[start : start + count * np.dtype(dtype).itemsize].view(dtype).reshape(shape)
    array[...] = np.random.default_rng(0).standard_normal(shape)
    return array


def peak(width: int) -> float:
    """Multiply-adds a second on registers, in GFLOP/s."""
    size, count, times = 4 * width, 12, 2_000_000
    names = [f"a{k}" for k in range(count)]
    text = f"""#include <stdint.h>
typedef float vec __attribute__((vector_size({size})));
int peak(const int64_t *size, void *const *array) {{
  vec x = {{0}}, y = {{0}}, {", ".join(f"{name} = {{{k}}}" for k, name in enumerate(names))};
  x += 0.999f; y += ((float *)array[0])[0];
  for (int64_t k = 0; k < size[0]; ++k) {{ {" ".join(f"{a} = {a} * x + y;" for a in names)} }}
  ((float *)array[0])[1] = ({" + ".join(names)})[0];
  return 0;
}}"""
    function, out = load(text, "peak", ["float32"]), np.zeros(2, np.float32)
    return 2 * width * count * times / best(lambda: function([times], [out]), 10) / 1e9


def elementwise(value: Callable[[Term], Term], dtype: str, width: int) -> Kernel:
    column = iadd(imul(var("v"), width), var("l"))
    x = Tensor("x", dtype, (n,))  # type: ignore[arg-type]
    y = Tensor("y", dtype, (n,))  # type: ignore[arg-type]
    program = Program("map", (Size("n"),), (x,), (Def(y, ("i",), value(Read("x", (var("i"),), "real"))),), ("y",))
    loops = (Loop(Axis("v", ceildiv(n, width)), "seq"), Loop(Axis("l", integer(width)), "lane"))
    return Kernel(
        "map", program, ("x",), ("y",), (Assign(loops, "y", (column,), value(Read("x", (column,), "real")), lt(column, n)),)
    )


def micro_kernel(rows: int, vectors: int, width: int) -> Kernel:
    """c[t] = Σ_k a[t, k, r] b[k, c] with rows × vectors accumulators in registers."""
    columns = vectors * width
    t, r, k = var("t"), var("r"), var("k")

    def product(column: Term) -> Term:
        term = op("mul", Read("a", (t, k, r), "real"), Read("b", (k, column), "real"))
        return Fold(ADD, (Axis("k", depth),), TRUE, (term,))

    a = Tensor("a", "float32", (n, depth, integer(rows)))
    b = Tensor("b", "float32", (depth, integer(columns)))
    c = Tensor("c", "float32", (n, integer(rows), integer(columns)))
    program = Program("tiles", (Size("n"), Size("depth")), (a, b), (Def(c, ("t", "r", "j"), product(var("j"))),), ("c",))
    column = iadd(imul(var("v"), width), var("l"))
    loops = (
        Loop(Axis("r", integer(rows)), "unroll"),
        Loop(Axis("v", integer(vectors)), "unroll"),
        Loop(Axis("l", integer(width)), "lane"),
    )
    body = Assign(loops, "c", (t, r, column), product(column))
    return Kernel("tiles", program, ("a", "b"), ("c",), (For(Axis("t", n), "seq", (body,)),))


def main() -> None:
    width = lanes("float32")
    print(describe()["version"], "|", width, "float lanes")
    for name in ("exp", "log", "tanh", "erf"):
        for dtype in ("float32", "float64"):
            if (name, dtype) == ("erf", "float64"):
                continue
            kernel = elementwise(lambda a, name=name: op(name, a), dtype, lanes(dtype))  # type: ignore[misc]
            function = load_kernel(kernel, print_kernel(kernel, CDialect()))
            x, y = np.abs(aligned([65536], dtype)), aligned([65536], dtype)
            seconds = best(lambda: [function([65536], [x, y]) for _ in range(20)], 20) / 20  # type: ignore[misc]  # noqa: B023
            print(f"{name:5s} {dtype}: {65536 / seconds / 1e9:5.2f} G elements/s")
    top = peak(width)
    print(f"multiply-add peak: {top:.1f} GFLOP/s")
    forms = [(6, 4), (8, 2), (8, 3), (12, 2), (14, 2)] if width == 16 else [(4, 2), (4, 3), (6, 2)]
    for rows, vectors in forms:
        kernel = micro_kernel(rows, vectors, width)
        function = load_kernel(kernel, print_kernel(kernel, CDialect()))
        tiles, k = 64, 256
        a, b, c = aligned([tiles, k, rows]), aligned([k, vectors * width]), aligned([tiles, rows, vectors * width])
        seconds = best(lambda: [function([tiles, k], [a, b, c]) for _ in range(4)]) / 4  # type: ignore[misc]  # noqa: B023
        speed = 2 * tiles * k * rows * vectors * width / seconds / 1e9
        print(f"micro-kernel {rows:2d} x {vectors} vectors: {speed:6.1f} GFLOP/s, {100 * speed / top:.0f} % of peak")
    a, b = aligned([1024, 1024]), aligned([1024, 1024])
    out = aligned([1024, 1024])
    seconds = best(lambda: np.matmul(a, b, out=out), 10)  # type: ignore[arg-type, return-value]
    print(f"NumPy matmul 1024, one thread: {2 * 1024**3 / seconds / 1e9:.1f} GFLOP/s")


if __name__ == "__main__":
    main()
