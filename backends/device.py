"""What every GPU runtime does alike: a plan against a device's limits, arrays against the plan, rows of blocks as grids.

    checked = Checked(plan, limits)          at load: threads, shared bytes, dtypes, index width
    call = checked.at(sizes)                 shapes of all arrays, and each launch's blocks as (x, y), None for no blocks
    checked.arrays(call, arrays)             number, shapes, dtypes and contiguity of what is passed

100000 blocks, at most 65535 along an axis   ->   (50000, 2);   100001   ->   (50001, 2), whose last block does nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from tang_verified.backends.launch import Binding, Plan
from tang_verified.errors import TangError
from tang_verified.proofs.width import NARROW_SIZE
from tang_verified.semantics.evaluate_term import integer_at
from tang_verified.semantics.program import BYTES, DType


class DeviceError(TangError, RuntimeError):
    """There is no usable device, or it cannot do what a kernel asks for; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device offers to one launch. `subgroup` is the size of a subgroup, 0 where its operations are missing."""

    device: str
    threads: int
    shared_bytes: int
    subgroup: int
    dtypes: frozenset[DType]  # those that arrays may have
    binding_bytes: int
    bindings: int = 2**31 - 1
    blocks: int = 65535  # along x
    blocks_y: int = 65535
    index_bits: tuple[int, ...] = (32, 64)

    @property
    def half_storage(self) -> bool:
        return "float16" in self.dtypes


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array that stays on the device between calls: made by a runtime's `put`, read by its `get`."""

    buffer: Any
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A plan at given sizes: a shape a binding, a grid a launch."""

    sizes: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    grids: tuple[tuple[int, int] | None, ...]


class Checked:
    """A plan that a device can start. Raises `DeviceError` for one that it cannot."""

    def __init__(self, plan: Plan, limits: Limits) -> None:
        self.plan, self.limits = plan, limits
        self.passed = tuple(binding for binding in plan.bindings if not binding.scratch)
        self.at = lru_cache(maxsize=256)(self._at)
        for launch in plan.launches:
            self._within(f"{launch.entry}: threads of a block", launch.threads, limits.threads)
            self._within(f"{launch.entry}: bytes of shared memory", launch.shared_bytes, limits.shared_bytes)
        self._within("arrays and sizes to bind", len(plan.bindings) + 1, limits.bindings)
        if plan.index_bits not in limits.index_bits:
            raise DeviceError(f"{plan.name}: indices of {plan.index_bits} bits; {limits.device} takes {limits.index_bits}")
        if plan.subgroup not in (0, limits.subgroup):
            raise DeviceError(
                f"{plan.name}: printed for subgroups of {plan.subgroup}; {limits.device} has {limits.subgroup or 'none'}"
            )
        for binding in plan.bindings:
            if binding.dtype not in limits.dtypes:
                raise DeviceError(
                    f"{plan.name}: {binding.name} is {binding.dtype}, which {limits.device} does not store; "
                    f"it stores {', '.join(sorted(limits.dtypes))}"
                )

    def _within(self, what: str, needed: int, most: int) -> None:
        if needed > most:
            raise DeviceError(f"{self.plan.name}: {what}: {needed} needed, {most} on {self.limits.device}")

    def _at(self, sizes: tuple[int, ...]) -> Call:
        plan = self.plan
        if len(sizes) != len(plan.sizes):
            raise TypeError(f"{plan.name} takes the sizes {', '.join(plan.sizes) or '()'}, got {len(sizes)}")
        most = 2 ** (plan.index_bits - 1) - 1
        env = dict(zip(plan.sizes, sizes, strict=True))
        largest = NARROW_SIZE if plan.index_bits == 32 else most
        for name, size in env.items():
            if not 0 <= size <= largest:
                raise DeviceError(f"{plan.name}: {name} = {size}; indices of {plan.index_bits} bits are proved up to {largest}")
        shapes = tuple(tuple(integer_at(extent, env) for extent in binding.shape) for binding in plan.bindings)
        for binding, shape in zip(plan.bindings, shapes, strict=True):
            if any(extent < 0 for extent in shape):
                raise DeviceError(f"{plan.name}: {binding.name} has the shape {shape} at {env}")
            self._within(f"{binding.name}, elements for {plan.index_bits}-bit indices", prod(shape), most)
            self._within(f"{binding.name}, bytes of one array", prod(shape) * BYTES[binding.dtype], self.limits.binding_bytes)
        return Call(sizes, shapes, tuple(self._grid(launch.entry, integer_at(launch.blocks, env)) for launch in plan.launches))

    def _grid(self, entry: str, blocks: int) -> tuple[int, int] | None:
        if blocks <= 0:
            return None
        rows = -(-blocks // self.limits.blocks)
        self._within(f"{entry}: rows of blocks", rows, self.limits.blocks_y)
        columns = -(-blocks // rows)
        self._within(f"{entry}: blocks, which are numbered in 32 bits", rows * columns, 2**31 - 1)
        return columns, rows

    def arrays(self, call: Call, arrays: Sequence[Any]) -> None:
        """Raise unless these are the arrays that the plan takes, in order (`DeviceArray` is contiguous by construction)."""
        name = self.plan.name
        if len(arrays) != len(self.passed):
            names = ", ".join(binding.name for binding in self.passed)
            raise TypeError(f"{name} takes {len(self.passed)} arrays ({names}), got {len(arrays)}")
        shapes = [shape for binding, shape in zip(self.plan.bindings, call.shapes, strict=True) if not binding.scratch]
        for binding, shape, array in zip(self.passed, shapes, arrays, strict=True):
            if str(array.dtype) != binding.dtype or tuple(array.shape) != shape:
                got = f"{array.dtype} of shape {tuple(array.shape)}"
                raise TypeError(f"{name}: {binding.name} must be {binding.dtype} of shape {shape}, got {got}")
            if not isinstance(array, DeviceArray):
                _check_host(name, binding, array)


def _check_host(name: str, binding: Binding, array: Any) -> None:
    flags = getattr(array, "flags", None)
    if flags is None or not flags.c_contiguous:
        raise TypeError(f"{name}: {binding.name} must be C-contiguous; use numpy.ascontiguousarray")
    if isinstance(array, np.ndarray) and binding.written and not flags.writeable:
        raise TypeError(f"{name}: {binding.name} is an output and must be writeable")


def yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def told(backend: str, limits: Limits, **more: str) -> dict[str, str]:
    """What `describe()` says of a usable device."""
    return {
        "backend": backend,
        "usable": "yes",
        "device": limits.device,
        **more,
        "f16": yes_or_no(limits.half_storage),
        "subgroup": str(limits.subgroup) if limits.subgroup else "no",
        "threads": str(limits.threads),
        "shared": f"{limits.shared_bytes} bytes",
        "array": f"{limits.binding_bytes} bytes at most",
    }
