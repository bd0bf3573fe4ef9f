"""What a call brings, against what the specs say: arrays, sizes, results. Errors name the user's array and what to do.

    views   = signature.views(memory, arrays)          number, dtypes and axes fit
    sizes   = signature.sizes(views)                   {"n": 5}: one name is one size, within the certified range
    results = signature.outputs(memory, sizes, out, views)     those of `out`, checked, or new ones
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tang_verified.arrays import WRITABLE, Memory, kind_of
from tang_verified.errors import CompileError
from tang_verified.semantics.program import ELEMENT_LIMIT, SORTS, Program, Size, Tensor
from tang_verified.semantics.terms import Const, Var

if TYPE_CHECKING:
    from tang_verified.tracing.context import Narrowed


@dataclass(frozen=True)
class Signature:
    """A certified program's inputs, sizes and outputs. `narrowed`: why the code gives a size a smaller range."""

    name: str
    program: Program
    narrowed: Mapping[str, Narrowed]
    index_bits: int  # the narrowest of its kernels

    def views(self, memory: Memory, arrays: tuple[Any, ...]) -> dict[str, Any]:
        expected = self.program.inputs
        if len(arrays) != len(expected):
            names = ", ".join(t.name for t in expected)
            raise CompileError(f"{self.name} takes {len(expected)} arrays ({names}), got {len(arrays)}")
        out = {}
        for tensor, given in zip(expected, arrays, strict=True):
            array = self._view(memory, tensor.name, given)
            if array.dtype != np.dtype(tensor.dtype):
                other = f", or compile for dtype '{array.dtype}'" if str(array.dtype) in SORTS else ""
                raise CompileError(
                    f"{self.name}: {tensor.name} has dtype {array.dtype}, the spec says {tensor.dtype}",
                    f"pass an array of dtype {tensor.dtype}, as {tensor.name}.astype('{tensor.dtype}') makes one{other}",
                )
            if array.ndim != len(tensor.shape):
                raise CompileError(
                    f"{self.name}: {tensor.name} has shape {array.shape}, the spec says {spell(tensor)}",
                    f"pass an array with {len(tensor.shape)} axes, or compile for another spec",
                )
            out[tensor.name] = array
        return out

    def _view(self, memory: Memory, label: str, array: Any) -> Any:
        try:
            return memory.view(array)
        except (BufferError, RuntimeError, TypeError, ValueError) as problem:
            raise CompileError(f"{self.name}: {label} gives no view of its memory: {problem}") from problem

    def check_finite(self, inputs: Mapping[str, Any]) -> None:
        for name, array in inputs.items():
            finite = np.isfinite(array)
            if not finite.all():
                index = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape))
                count = int(array.size - np.count_nonzero(finite))
                more = f", the first of {count} such elements" if count > 1 else ""
                at = f"{name}[{', '.join(map(str, index))}]" if index else name
                raise CompileError(
                    f"{self.name}: {at} is {array[index]}{more}; the certificate speaks of finite inputs",
                    "replace it before the call, as np.nan_to_num does, or put a mask into the function with xp.where",
                )

    def sizes(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        where: dict[str, str] = {}
        for tensor in self.program.inputs:
            for axis, (extent, have) in enumerate(zip(tensor.shape, inputs[tensor.name].shape, strict=True)):
                if isinstance(extent, Const) and extent.value != have:
                    raise CompileError(
                        f"{self.name}: {tensor.name} has shape {inputs[tensor.name].shape}, the spec says {spell(tensor)}",
                        f"axis {axis} must have size {extent.value}",
                    )
                if isinstance(extent, Var):
                    if sizes.setdefault(extent.name, have) != have:
                        raise CompileError(
                            f"{self.name}: size {extent.name} is {sizes[extent.name]} in {where[extent.name]} and {have} "
                            f"in {tensor.name} {inputs[tensor.name].shape}",
                            "one name is one size; give sizes that may differ two names in the specs",
                        )
                    where.setdefault(extent.name, f"{tensor.name} {inputs[tensor.name].shape}")
        for size in self.program.sizes:
            have = sizes.get(size.name)
            if have is None or not size.low <= have <= size.high:
                raise self._outside(size, have)
        for tensor in self.program.inputs:  # the extents that are terms, too: 2 n
            if shape_of(tensor, sizes) != tuple(inputs[tensor.name].shape):
                raise CompileError(
                    f"{self.name}: {tensor.name} has shape {inputs[tensor.name].shape}, the spec says {spell(tensor)}",
                    f"at these sizes that is {shape_of(tensor, sizes)}",
                )
        return sizes

    def _outside(self, size: Size, have: int | None) -> CompileError:
        """A size that the certificate does not cover: because the code has no meaning there, or was not asked for one."""
        reason = self.narrowed.get(size.name)
        if reason is not None and have is not None and have < size.low:
            where = f" ({reason.place})" if reason.place else ""
            return CompileError(
                f"{self.name}: size {size.name} is {have}, and the code needs {size.name} >= {size.low}: "
                f"below that, {reason.why}{where}",
                f"call it with {size.name} >= {size.low}, treat smaller arrays before the call, "
                "or change that line so that it means something for them",
            )
        wanted = f"{size.name}{'>=' if (have or 0) < size.low else '<='}{have}"
        return CompileError(
            f"{self.name}: size {size.name} is {have}, the certificate covers {size.low} to {size.high}",
            f"declare the range in the spec, as in '{wanted}', if the program has a meaning there",
        )

    def reached_by_indices(self, sizes: Mapping[str, int]) -> None:
        """Refuse, before anything is copied, what the kernels' index arithmetic was not proved for."""
        from tang_verified.proofs.width import NARROW, NARROW_SIZE

        if self.index_bits == 64:
            return
        remedy = "compile for a backend with 64-bit indices (c, opencl, cuda, metal), or call it part by part"
        for name, size in sizes.items():
            if size > NARROW_SIZE:
                message = f"{name} = {size}; indices of 32 bits are proved up to {NARROW_SIZE}"
                raise CompileError(f"{self.name}: {message}", remedy)
        for tensor in (*self.program.inputs, *(d.tensor for d in self.program.defs)):
            count = prod(shape_of(tensor, sizes))
            if count > NARROW:
                message = f"{tensor.name} has {count} elements; indices of 32 bits reach {NARROW}"
                raise CompileError(f"{self.name}: {message}", remedy)

    def outputs(
        self, memory: Memory, sizes: Mapping[str, int], given: tuple[Any, ...], inputs: Mapping[str, Any]
    ) -> dict[str, Any]:  # fmt: skip
        """The arrays that the results go to, of the caller's kind: those of `out`, or new ones."""
        if given and len(given) != len(self.program.outputs):
            raise CompileError(f"{self.name} has {len(self.program.outputs)} outputs, out= has {len(given)}")
        made: dict[str, Any] = {}
        taken = dict(inputs)
        for place, name in enumerate(self.program.outputs):
            tensor = self.program.tensor(name)
            shape = shape_of(tensor, sizes)
            if not given:
                made[name] = memory.new(shape, tensor.dtype)
                continue
            if kind_of(given[place]) not in WRITABLE or not hasattr(given[place], "__dlpack__"):
                raise CompileError(f"{self.name}: out is a {type(given[place]).__name__}; nothing can be written into it")
            array = self._view(memory, "out", given[place])
            if array.shape != shape or array.dtype != np.dtype(tensor.dtype) or not array.flags.c_contiguous:
                raise CompileError(
                    f"{self.name}: out has shape {array.shape} and dtype {array.dtype}; needed is a contiguous "
                    f"array of shape {shape} and dtype {tensor.dtype}",
                )
            if isinstance(array, np.ndarray) and not (array.flags.writeable and array.flags.aligned):
                raise CompileError(f"{self.name}: out is {'not aligned' if array.flags.writeable else 'read-only'}")
            for other, there in taken.items():
                if memory.overlap(array, there):
                    raise CompileError(
                        f"{self.name}: out overlaps {other}: a kernel may write before it has read",
                        "give an array of its own, as np.empty_like makes one",
                    )
            made[name], taken[name] = given[place], array
        return made


def shape_of(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    from tang_verified.semantics.evaluate import tensor_shape

    shape = tensor_shape(tensor, dict(sizes))
    if prod(shape) > ELEMENT_LIMIT:
        raise CompileError(f"{tensor.name} would have {prod(shape)} elements, more than 2^62")
    return shape


def spell(tensor: Tensor) -> str:
    from tang_verified.semantics.show import show

    return f"({', '.join(show(extent) for extent in tensor.shape)}{',' if len(tensor.shape) == 1 else ''})"
