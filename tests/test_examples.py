"""Every example: one certified kernel, which agrees with NumPy in float64 on the same function, at sizes that fit no tile."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.semantics.kernel import Alloc, For, Stmt
from tang_verified.semantics.terms import Const, free_vars

FOLDER = Path(__file__).parents[1] / "examples"
BLOCK = "transformer_block:block"
# all others: 1. Two norms, q, k, v, two rotations, attention, its projection and residual, SwiGLU, its projection and residual
BLOCK_KERNELS = 11
SIZES: tuple[tuple[int, ...], ...] = ((37, 53, 41, 29, 19), (1, 1, 1, 1, 1), (2, 131, 3, 67, 1), (97, 2, 1, 5, 3))
# heads and batches stay few; a first size of 1 is one query, or one row
SMALL = {"h": 3, "b": 2}


@cache
def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def functions(name: str) -> list[str]:
    """Those whose parameters bear specs."""
    return [
        f"{name}:{key}" for key, value in vars(module(name)).items()
        if inspect.isfunction(value) and any(isinstance(a, tv.Spec) for a in value.__annotations__.values())
    ]  # fmt: skip


EXAMPLES = [example for path in sorted(FOLDER.glob("*.py")) for example in functions(path.stem)]


def function(example: str) -> Any:
    name, key = example.split(":")
    return getattr(module(name), key)


def compiled(example: str, empty: Any = "nan") -> Any:
    """Certified once a session, for the conformance suite and for this file."""
    from tests.conformance.backends import kernel
    from tests.conformance.programs import Case

    return kernel(Case(example, empty=empty), "c")


def arrays(example: str, chosen: tuple[int, ...], seed: int = 1) -> list[Any]:
    """Inputs at the chosen sizes, raised to what the program needs."""
    kernel, rng = compiled(example), np.random.default_rng(seed)
    ranges = getattr(module(example.split(":")[0]), "RANGES", {})
    few = SMALL if "attention" in example or "h" not in [s.name for s in kernel.program.sizes] else {"b": 2}
    sizes = {
        size.name: min(max(size.low, few.get(size.name, chosen[number % len(chosen)])), size.high)
        for number, size in enumerate(kernel.program.sizes)
    }
    out = []
    for tensor in kernel.program.inputs:
        shape = tuple(e.value if isinstance(e, Const) else sizes[e.name] for e in tensor.shape)
        if tensor.dtype.startswith("int"):
            out.append(rng.integers(0, sizes[ranges[tensor.name]], shape).astype(tensor.dtype))
        elif tensor.dtype == "bool":
            out.append(rng.random(shape) < 0.5)
        else:
            scale = np.sqrt(shape[0]) if example == BLOCK and len(shape) == 2 else 1.0
            out.append((rng.standard_normal(shape) / scale).astype(tensor.dtype))
    return out


def reference(example: str, inputs: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return function(example)(*[a.astype(np.float64) if a.dtype.kind == "f" else a for a in inputs])


def agrees(got: Any, known: Any) -> None:
    assert got.shape == known.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(known))
    scale = np.nanmax(np.abs(known), initial=0.0)
    np.testing.assert_allclose(got, known, rtol=2e-4, atol=2e-6 * max(scale, 1e-30))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("example", [e for e in EXAMPLES if e != BLOCK])
def test_agrees_with_numpy(example: str, sizes: tuple[int, ...]) -> None:
    inputs = arrays(example, sizes)
    agrees(compiled(example)(*inputs), reference(example, inputs))


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e != BLOCK])
def test_one_kernel_without_intermediates(example: str) -> None:
    assert len(compiled(example).certified.kernels) == 1
    assert large_buffers(example) == []
    fallbacks = [note for note in compiled(example).notes if note.startswith("schedule")]
    assert not fallbacks, fallbacks


@pytest.mark.parametrize("example", [BLOCK])
def test_transformer_block(example: str) -> None:
    """Its compile time is long: everything about it in one test."""
    kernel = compiled(example)
    assert len(kernel.certified.kernels) == BLOCK_KERNELS
    assert all(sum(bool(free_vars(e)) for e in d.tensor.shape) == 1 for d in kernel.program.defs)  # nothing of n by n is kept
    assert large_buffers(BLOCK) == []
    for sizes in ((37,), (1,), (2,)):
        inputs = arrays(BLOCK, sizes)
        got, known = kernel(*inputs), reference(BLOCK, inputs)
        np.testing.assert_allclose(got, known, rtol=1e-3, atol=1e-4 * np.abs(known).max())


def large_buffers(example: str) -> list[str]:
    """Buffers with two symbolic extents: an n by m intermediate."""

    def walk(body: tuple[Stmt, ...]) -> Iterator[str]:
        for statement in body:
            if isinstance(statement, Alloc) and sum(bool(free_vars(e)) for e in statement.buffer.shape) > 1:
                yield statement.buffer.name
            if isinstance(statement, For):
                yield from walk(statement.body)

    return [name for kernel in compiled(example).certified.kernels for name in walk(kernel.body)]


# -- what a row without any element gives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ["attention:masked"])  # its id says what it shares
def test_fully_masked_rows_are_nan(example: str) -> None:
    q, k, v, keep = arrays(example, (11, 23))
    keep[4], keep[7] = False, False
    got = compiled(example)(q, k, v, keep)
    assert np.isnan(got[[4, 7]]).all()
    agrees(got, reference(example, [q, k, v, keep]))


@pytest.mark.parametrize("example", ["attention:masked"])
def test_fully_masked_rows_are_zero_on_request(example: str) -> None:
    q, k, v, keep = arrays(example, (11, 23))
    keep[4], keep[7] = False, False
    got = compiled(example, "zero")(q, k, v, keep)
    known = reference(example, [q, k, v, keep])
    known[[4, 7]] = 0.0
    agrees(got, known)


@pytest.mark.parametrize("empty", ["nan", "zero"])
@pytest.mark.parametrize(("queries", "keys"), [(9, 4), (50, 3), (130, 1)])
@pytest.mark.parametrize("example", ["attention:causal"])
def test_causal_with_fewer_keys_than_queries(example: str, queries: int, keys: int, empty: str) -> None:
    """Query i is level with key i + keys - queries: the first queries see no key."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 64)).astype(np.float32) for n in (queries, keys, keys))
    known = reference(example, [q, k, v])
    blind = slice(0, queries - keys)
    assert np.isnan(known[:, blind]).all()
    if empty == "zero":
        known[:, blind] = 0.0
    agrees(compiled(example, empty)(q, k, v), known)


@pytest.mark.parametrize("shape", [(0, 7), (5, 0)])
@pytest.mark.parametrize("example", ["rmsnorm:rmsnorm"])
def test_empty_arrays(example: str, shape: tuple[int, int]) -> None:
    kernel = compiled(example)
    x, w = np.ones(shape, np.float32), np.ones(shape[1], np.float32)
    assert kernel(x, w).shape == shape


@pytest.mark.parametrize("example", ["softmax:softmax"])
def test_sizes_out_of_order_keep_the_kernel_pure(example: str) -> None:
    """The same kernel at large, small and large sizes again: nothing is left over from a call."""
    for sizes in ((61, 257), (1, 1), (61, 257)):
        inputs = arrays(example, sizes)
        agrees(compiled(example)(*inputs), reference(example, inputs))
