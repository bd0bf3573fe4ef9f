"""A program: sizes, inputs, and definitions in order. Each definition is a comprehension: out[axes] = value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tang_verified.semantics.terms import Gradient, IllFormed, Read, Sort, Tangent, Term, Var, free_vars, reads, sort_of
from tang_verified.semantics.wellformed import check_extent, check_names, check_term

DType: TypeAlias = Literal["float16", "float32", "float64", "int32", "int64", "bool"]
SORTS: dict[DType, Sort] = {
    "float16": "real", "float32": "real", "float64": "real", "int32": "int", "int64": "int", "bool": "bool",
}  # fmt: skip
BYTES: dict[DType, int] = {"float16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1}
SIZE_LIMIT = 2**31 - 1  # the largest extent of one axis that a program may be called with
ELEMENT_LIMIT = 2**62  # the largest number of elements of one array


@dataclass(frozen=True, slots=True)
class Size:
    """A symbolic size and its declared range, both ends included."""

    name: str
    low: int = 0
    high: int = SIZE_LIMIT

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= SIZE_LIMIT:
            raise IllFormed(f"size {self.name}: range {self.low}..{self.high} is not within 0..{SIZE_LIMIT}")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named array: dtype and extents (affine int terms over the sizes), row-major."""

    name: str
    dtype: DType
    shape: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Def:
    """tensor[axes] = value, for every index within the tensor's shape."""

    tensor: Tensor
    axes: tuple[str, ...]
    value: Term


@dataclass(frozen=True, slots=True)
class Program:
    """Definitions may read inputs and earlier definitions. Inputs of sort real hold finite values."""

    name: str
    sizes: tuple[Size, ...]
    inputs: tuple[Tensor, ...]
    defs: tuple[Def, ...]
    outputs: tuple[str, ...]

    def tensor(self, name: str) -> Tensor:
        for tensor in (*self.inputs, *(d.tensor for d in self.defs)):
            if tensor.name == name:
                return tensor
        raise IllFormed(f"program {self.name} has no tensor {name!r}")

    def definition(self, name: str) -> Def:
        for d in self.defs:
            if d.tensor.name == name:
                return d
        raise IllFormed(f"program {self.name} has no definition of {name!r}")


def check_program(program: Program) -> None:
    """Raise `IllFormed` unless names are unique, sorts agree, and each definition reads only what comes before it."""
    check_names((program.name, *(size.name for size in program.sizes)), "program")
    sizes = {size.name for size in program.sizes}
    if len(sizes) != len(program.sizes):
        raise IllFormed("a size is declared twice")
    known: dict[str, Tensor] = {}
    for tensor in program.inputs:
        _declare(tensor, known, sizes)
    for d in program.defs:
        if len(d.axes) != len(d.tensor.shape) or len(set(d.axes)) != len(d.axes):
            raise IllFormed(f"{d.tensor.name}: {len(d.axes)} axes for rank {len(d.tensor.shape)}")
        if set(d.axes) & sizes:
            raise IllFormed(f"{d.tensor.name}: an axis bears a size's name")
        loose = free_vars(d.value) - sizes - set(d.axes)
        if loose:
            raise IllFormed(f"{d.tensor.name}: unbound {sorted(loose)}")
        check_names(d.axes, d.tensor.name)
        _check_dtype(d.tensor)
        check_term(d.value, d.tensor.name, SORTS[d.tensor.dtype])
        for read in reads(d.value):
            check_read(read, known, d.tensor.name)
        check_derivative(d, known)
        _declare(d.tensor, known, sizes)
    if not program.outputs or len(set(program.outputs)) != len(program.outputs):
        raise IllFormed("a program needs outputs, each named once")
    for name in program.outputs:
        if name not in {d.tensor.name for d in program.defs}:
            raise IllFormed(f"output {name!r} is not defined")


def check_derivative(d: Def, known: dict[str, Tensor]) -> None:
    """Raise unless the tensors that a derivative speaks of come before it, real, and of shapes that fit."""
    match d.value:
        case Gradient(outputs, source):
            pairs = [*outputs, (source, "")]
        case Tangent(tensor, along):
            pairs = [*along, (tensor, "")]
        case _:
            return
    for names in pairs:
        for name in filter(None, names):
            if name not in known or SORTS[known[name].dtype] != "real":
                raise IllFormed(f"{d.tensor.name}: a derivative of or along {name!r}, which is no tensor of reals before it")
        other = known[names[1]].shape if names[1] else d.tensor.shape
        if known[names[0]].shape != other:
            raise IllFormed(f"{d.tensor.name}: {names[0]} and {names[1] or d.tensor.name} differ in shape")


def check_read(read: Read, known: dict[str, Tensor], where: str) -> None:
    """Raise unless the tensor is known, with the read's rank and sort."""
    if read.tensor not in known:
        raise IllFormed(f"{where}: reads unknown tensor {read.tensor!r}")
    tensor = known[read.tensor]
    if len(read.index) != len(tensor.shape) or read.sort != SORTS[tensor.dtype]:
        raise IllFormed(f"{where}: read of {read.tensor} with rank {len(read.index)}, sort {read.sort}")
    for index in read.index:
        if sort_of(index) != "int":
            raise IllFormed(f"{where}: index of {read.tensor} is not an integer")


def _declare(tensor: Tensor, known: dict[str, Tensor], sizes: set[str]) -> None:
    check_names((tensor.name,), "tensor")
    _check_dtype(tensor)
    if tensor.name in known or tensor.name in sizes:
        raise IllFormed(f"{tensor.name!r} is declared twice")
    for extent in tensor.shape:
        check_extent(extent, tensor.name)
        if free_vars(extent) - sizes:
            raise IllFormed(f"{tensor.name}: extent must be an integer term over the sizes")
    known[tensor.name] = tensor


def _check_dtype(tensor: Tensor) -> None:
    if tensor.dtype not in SORTS:
        raise IllFormed(f"{tensor.name}: unknown dtype {tensor.dtype!r}")


def size_term(value: int | str) -> Term:
    """An int or a size's name as a term."""
    from tang_verified.semantics.terms import Const

    return Const(value) if isinstance(value, int) else Var(value)
