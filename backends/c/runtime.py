"""Compile printed C, keep it on disk, call it with NumPy arrays.

text = print_kernel(kernel, CDialect())
function = load(text, kernel.name, dtypes)
function([n, m], [x, out])
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tang_verified.backends.c import cache
from tang_verified.backends.c.compiler import INSTALL, CompilerError, compiler, run
from tang_verified.backends.c.dialect import entry
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import BYTES, DType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CFunction:
    """A compiled kernel. Calling it releases the interpreter lock."""

    name: str
    path: Path
    dtypes: tuple[DType, ...] | None
    _library: ctypes.CDLL  # keeps the code mapped
    _function: Any

    def __call__(self, sizes: Sequence[int], arrays: Sequence[Array]) -> None:
        """Run on arrays in the kernel's order (reads, then outputs), which must be contiguous and of the right dtype."""
        if self.dtypes is not None and len(arrays) != len(self.dtypes):
            raise TypeError(f"{self.name} takes {len(self.dtypes)} arrays, got {len(arrays)}")
        for place, array in enumerate(arrays):
            if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.dtype.isnative:
                raise TypeError(f"{self.name}: array {place} must be a C-contiguous NumPy array; use numpy.ascontiguousarray")
            if self.dtypes is not None and array.dtype != np.dtype(self.dtypes[place]):
                raise TypeError(f"{self.name}: array {place} has dtype {array.dtype}, expected {self.dtypes[place]}")
        numbers = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
        pointers = (ctypes.c_void_p * max(len(arrays), 1))(*(array.ctypes.data for array in arrays))
        if self._function(numbers, pointers) != 0:
            raise MemoryError(f"{self.name}: no memory for its buffers at sizes {list(sizes)}")


def load(source: str, name: str, dtypes: Sequence[DType] | None = None) -> CFunction:
    """The function `name` of a printed text, compiled now or taken from the cache."""
    found = compiler()
    key = cache.key_of(source, "\0".join(found.command), "\0".join(found.flags), found.version, found.processor)

    def build(target: Path) -> None:
        run([*found.command, *found.flags, "-o", str(target), "-xc", "-", "-lm"], source)

    path = cache.fetch(key, build)
    library = ctypes.CDLL(str(path))
    function = getattr(library, name)
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return CFunction(name, path, None if dtypes is None else tuple(dtypes), library, function)


def load_kernel(kernel: Kernel, source: str) -> CFunction:
    """As `load`, with the arrays' dtypes taken from the kernel."""
    return load(source, entry(kernel), [kernel.program.tensor(name).dtype for name in (*kernel.reads, *kernel.outputs)])


def lanes(dtype: DType) -> int:
    """How many numbers a statement of this target dtype computes at once (half precision computes in single)."""
    macros = compiler().macros
    size = 64 if "__AVX512F__" in macros else 32 if macros & {"__AVX2__", "__AVX__"} else 16
    return size // max(BYTES[dtype], 4)


def threads() -> int:
    """How many threads a parallel loop gets."""
    try:
        if (chosen := int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0])) > 0:
            return chosen
    except ValueError:
        pass
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, str]:
    """What `doctor` says of this backend. `usable` is "yes", or the one command that would make it so."""
    try:
        found = compiler()
    except CompilerError as error:
        return {"backend": "c", "usable": f"no; run: {INSTALL}", "problem": str(error)}
    return {
        "backend": "c",
        "usable": "yes",
        "compiler": " ".join(found.command),
        "version": found.version,
        "flags": " ".join(found.flags),
        "lanes": f"float32 {lanes('float32')}, float64 {lanes('float64')}",
        "openmp": "yes" if found.openmp else "no: one thread only (install a compiler with OpenMP, such as gcc)",
        "threads": str(threads() if found.openmp else 1),
        "cache": str(cache.cache_folder()),
    }
