"""Measure compiled kernels beside their floors; the rows are JSON that `tang-verified report` reads.

    row = measured("softmax", kernel, lambda: [x], device, state="cold")     # a dict, see `row_of`
    write_rows(path, device, [row])

Cold: each call is on the set of arrays that was used longest ago, and all sets together are larger than the caches. Resident:
short series of calls on one set, of which the average counts. On a GPU a time is of one call among many in a CUDA graph, each
on the set that was used longest ago, by events. With one thread the clock is that of the thread, so that a
busy machine does not count (such a time is at most the wall's, so it is no easier to stay above a floor); with more it is the
wall's.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np

from tang_verified import __version__
from tang_verified.calling import shape_of
from tang_verified.device_file import Device
from tang_verified.errors import TangError
from tang_verified.floor import Floor, State, attribution, floor_of

if TYPE_CHECKING:
    from tang_verified.compiler import CompiledKernel

FORMAT = "tang_verified bench 1"
Arrays = list[np.ndarray[Any, Any]]
LIMIT = 64 << 20  # bytes of a file of rows
MOST = 1 << 30  # bytes of all sets of arrays together
MOST_ON_GPU = 8 << 30


class BenchError(TangError, ValueError):
    """A file of rows that cannot be read."""


def measured(
    name: str, kernel: CompiledKernel, make: Callable[[], Arrays], device: Device, *, state: State = "cold",
    seconds: float = 2.0, exact: Callable[[Arrays], Any] | None = None, family: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Run a kernel on arrays that `make` makes, and put its floor beside. `exact` gives the results in float64."""
    first = make()
    outs = _outputs(kernel, first)
    size = sum(a.nbytes for a in (*first, *outs))
    held = device.boundaries[-1].fast_bytes * device.boundaries[-1].instances
    if state == "cold":
        count = max(1, min(3 * held // size + 1, MOST // size, 64))
        sets = [(first, outs), *((pair, _outputs(kernel, pair)) for pair in (make() for _ in range(count - 1)))]
        series = 1
    else:
        sets = [(first, outs)]
        series = max(1, min(64, int(3e-4 / _once(kernel, first, outs))))
    _once(kernel, first, outs)
    error = None
    if exact is not None:
        given = exact([a.astype(np.float64) if a.dtype.kind == "f" else a for a in first])
        wanted = given if isinstance(given, tuple) else (given,)
        error = max(_error(got, np.asarray(w)) for got, w in zip(outs, wanted, strict=True))
    clock = thread_time if device.units == 1 else perf_counter
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < 3 * len(sets) or (perf_counter() < end and len(times) < 2000):
        arrays, results = sets[len(times) % len(sets)]
        start = clock()
        for _ in range(series):
            kernel(*arrays, out=tuple(results))
        times.append((clock() - start) / series)
    sizes = kernel._signature.sizes({t.name: a for t, a in zip(kernel.program.inputs, first, strict=True)})
    floor = floor_of(kernel.certified.kernels, sizes, device, state, series)
    return row_of(name, kernel, floor, times, device, error, family)


def measured_on_gpu(
    name: str, kernel: CompiledKernel, make: Callable[[], Arrays], device: Device, *, seconds: float = 0.5, family: str = "",
    error: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The same for a kernel of backend "cuda", on CuPy's current GPU: cold, launched by a CUDA graph."""
    import cupy

    from tang_verified.backends.cuda.runtime import elapsed

    first = make()
    sizes = kernel._signature.sizes({t.name: a for t, a in zip(kernel.program.inputs, first, strict=True)})
    size = sum(a.nbytes for a in (*first, *_outputs(kernel, first)))
    held = device.boundaries[-1].fast_bytes * device.boundaries[-1].instances
    count = max(2, min(3 * held // size + 1, MOST_ON_GPU // size, 64))
    arrays = [cupy.asarray(a) for a in first]
    outs = [cupy.asarray(a) for a in _outputs(kernel, first)]
    sets = [(arrays, outs), *(([a.copy() for a in arrays], [o.copy() for o in outs]) for _ in range(count - 1))]
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    times: list[float] = []
    with stream:
        kernel(*sets[0][0], out=tuple(sets[0][1]))  # compiled, and its scratch in the stream's pool
        stream.synchronize()
        start = perf_counter()
        kernel(*sets[0][0], out=tuple(sets[0][1]))
        stream.synchronize()
        calls = max(count, min(256, int(5e-3 / max(perf_counter() - start, 1e-5))))
        stream.begin_capture()
        for place in range(calls):
            given, results = sets[place % count]
            kernel(*given, out=tuple(results))
        graph = stream.end_capture()
        graph.launch()
        end = perf_counter() + seconds
        while len(times) < 5 or (perf_counter() < end and len(times) < 500):
            times.append(elapsed(graph.launch) / calls)
    floor = floor_of(kernel.certified.kernels, sizes, device, "cold", calls)
    return row_of(name, kernel, floor, times, device, error, family)


def _outputs(kernel: CompiledKernel, arrays: Arrays) -> Arrays:
    sizes = kernel._signature.sizes({t.name: a for t, a in zip(kernel.program.inputs, arrays, strict=True)})
    tensors = [kernel.program.tensor(name) for name in kernel.program.outputs]
    return [np.zeros(shape_of(t, sizes), t.dtype) for t in tensors]


def _once(kernel: CompiledKernel, arrays: Arrays, outs: Arrays) -> float:
    kernel(*arrays, out=tuple(outs))
    start = perf_counter()
    kernel(*arrays, out=tuple(outs))
    return perf_counter() - start


def _error(got: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> float:
    """The largest difference over the largest value."""
    scale = float(np.abs(exact).max(initial=0.0))
    return float(np.abs(got - exact).max(initial=0.0)) / scale if scale else 0.0


def row_of(
    name: str, kernel: CompiledKernel, floor: Floor, times: Sequence[float], device: Device, error: float | None,
    family: str = "",
) -> dict[str, Any]:  # fmt: skip
    """What a report shows, as JSON; all times in seconds."""
    least = min(times)
    return {
        "name": name, "family": family or name, "backend": kernel.backend, "sizes": dict(floor.sizes), "state": floor.state,
        "calls": floor.calls, "series": len(times), "clock": "thread" if device.units == 1 else "wall",
        "minimum": least, "median": median(times), "floor": floor.seconds,
        "ratio": floor.seconds / least, "binding": floor.binding, "assumes": list(floor.assumes),
        "attribution": [[what, seconds] for what, seconds in attribution(floor, least, device)],
        "kernels": [_kernel_row(floor, k) for k in range(len(floor.kernels))],
        "error": error, "error_certified": None, "traffic_measured": None,
        "certificate": {"file": f"{kernel.name}.cert.json", "digest": json.loads(kernel.certificate)["digest"]},
    }  # fmt: skip


def _kernel_row(floor: Floor, place: int) -> dict[str, Any]:
    k = floor.kernels[place]
    far = next(term.name.split(" bytes")[0] for term in k.terms if " bytes" in term.name)
    bound = k.traffic[far].bound
    return {
        "name": k.name, "floor": k.seconds, "call": k.call, "blocks": k.blocks, "units": k.units, "dtype": k.dtype,
        "terms": [[t.name, t.seconds, t.why] for t in k.terms], "binding": k.binding,
        "operations": k.counted.multiply + k.counted.add + k.counted.other, "special": k.counted.special,
        "traffic": {
            name: {"both": b.both, "read": b.read, "written": b.written, "why": b.bound.why} for name, b in k.traffic.items()
        },
        "tile": {
            "boundary": far, "extents": dict(bound.tile), "bytes": bound.tile_bytes, "bound": bound.bytes,
            "fast_bytes": k.traffic[far].fast_bytes, "memories": k.traffic[far].memories,
        },
    }  # fmt: skip


def document(device: Device, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT, "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {"name": device.name, "kind": device.kind, "date": device.date, "machine": dict(device.machine)},
        "ceilings": {
            "memories": {b.name: b.bandwidth.all for b in device.boundaries},
            "rates": {k: r.all for k, r in device.rates.items()},
        },
        "versions": {
            "tang_verified": __version__, "numpy": np.__version__, "python": platform.python_version(), **device.versions,
        },
        "rows": list(rows),
    }  # fmt: skip


def write_rows(path: Path, device: Device, rows: Sequence[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(device, rows), indent=1, ensure_ascii=False) + "\n")


def read_rows(path: Path) -> dict[str, Any]:
    """The document; `BenchError` where it is none."""
    try:
        if path.stat().st_size > LIMIT:
            raise BenchError(f"{path}: larger than a file of rows is ({LIMIT} bytes)")
        data = json.loads(path.read_text())
    except OSError as problem:
        raise BenchError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BenchError(f"{path} is no JSON: {problem}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("rows"), list):
        raise BenchError(f"{path}: no file of measured rows (format {FORMAT!r}); benchmarks/floors.py --json writes one")
    needed = (
        "name", "family", "backend", "sizes", "state", "minimum", "median", "floor", "ratio", "binding", "attribution",
        "kernels", "certificate",
    )  # fmt: skip
    for place, row in enumerate(data["rows"]):
        missing = [field for field in needed if not isinstance(row, dict) or field not in row]
        if missing:
            raise BenchError(f"{path}: row {place} has no {', '.join(missing)}")
    return data
