"""The arrays and scalars that a traced function computes with: operators and methods, each naming its operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tang_verified.errors import ConcreteRead, ControlFlowError
from tang_verified.semantics.program import SORTS, DType, Tensor
from tang_verified.semantics.terms import Read, Term
from tang_verified.tracing.extent import from_term
from tang_verified.tracing.operators import Operators
from tang_verified.tracing.sizes import show_shape

if TYPE_CHECKING:
    from tang_verified.tracing.context import Tracing


class Scalar(Operators):
    """One element: an index of a comprehension, an element read there, or a monoid's placeholder."""

    def __init__(self, term: Term, dtype: DType, tracing: Tracing | None, weak: bool = False) -> None:
        self.term = term
        self.dtype_name = dtype
        self.tracing = tracing
        self.weak = weak

    def like(self, term: Term, dtype: DType, weak: bool) -> Scalar:
        """A scalar of the same kind: what an operation makes of this one."""
        return Scalar(term, dtype, self.tracing, weak)

    def __repr__(self) -> str:
        return f"Scalar({self.term}, {self.dtype_name})"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """What NumPy asks of an index."""
        raise ConcreteRead(
            f"np.asarray of a traced {self.dtype_name} value, perhaps as an index of a concrete array: it has no value here",
            "let the body read arrays that are variables of the function around it (a[i, k], not self.a[i, k])",
        )

    @property
    def dtype(self) -> Any:
        return _numpy_dtype(self.dtype_name)


class Traced(Operators):
    """An array of a program being traced: a name, a dtype and a shape, and no values."""

    def __init__(self, tracing: Tracing, tensor: Tensor, weak: bool = False) -> None:
        self.tracing = tracing
        self.tensor = tensor
        self.weak = weak

    def at(self, *index: Term) -> Read:
        """The element at an index."""
        return Read(self.tensor.name, index, SORTS[self.tensor.dtype])

    @property
    def dtype_name(self) -> DType:
        return self.tensor.dtype

    @property
    def extents(self) -> tuple[Term, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> Any:
        return _numpy_dtype(self.tensor.dtype)

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(from_term(self.tracing, extent) for extent in self.tensor.shape)

    @property
    def ndim(self) -> int:
        return len(self.tensor.shape)

    @property
    def size(self) -> Any:
        total: Any = 1
        for extent in self.shape:
            total = total * extent
        return total

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def T(self) -> Any:
        return self.transpose()

    @property
    def mT(self) -> Any:
        return self._call("matrix_transpose")

    def __repr__(self) -> str:
        return f"Traced({self.tensor.name}, {show_shape(self.extents)}, {self.dtype_name})"

    def __getattr__(self, name: str) -> Any:
        from tang_verified.tracing.namespace import no_such

        raise AttributeError(name) if name.startswith("_") else no_such(f"the method .{name}")

    def __len__(self) -> int:
        if not self.ndim:
            raise ControlFlowError("len of a scalar array", "use x.ndim")
        first = self.shape[0]
        if isinstance(first, int):
            return first
        raise ControlFlowError(f"len of an array of shape {show_shape(self.extents)} is symbolic", "use x.shape[0]")

    def __iter__(self) -> Any:
        if not self.ndim or not isinstance(self.shape[0], int):
            raise ControlFlowError(
                f"iterating over an axis of unknown size: the shape is {show_shape(self.extents)}",
                "compute on the whole array, reduce with x.sum(axis=0), or fix the size in the spec",
            )
        return iter([self[number] for number in range(self.shape[0])])

    def __getitem__(self, key: Any) -> Any:
        from tang_verified.tracing.indexing import get_item

        return get_item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ControlFlowError("a traced array cannot be assigned to", "build the result with xp.where, xp.concat or xp.stack")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        from tang_verified.tracing.namespace import Namespace

        return Namespace(self.tracing)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        from tang_verified.tracing.namespace import FUNCTIONS

        return FUNCTIONS[name](self, *args, **kwargs)

    def sum(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("sum", axis=axis, **kwargs)

    def prod(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("prod", axis=axis, **kwargs)

    def max(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("max", axis=axis, **kwargs)

    def min(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("min", axis=axis, **kwargs)

    def mean(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("mean", axis=axis, **kwargs)

    def var(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("var", axis=axis, **kwargs)

    def std(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("std", axis=axis, **kwargs)

    def any(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("any", axis=axis, **kwargs)

    def all(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("all", axis=axis, **kwargs)

    def cumsum(self, axis: Any = None, **kwargs: Any) -> Any:
        return self._call("cumulative_sum", axis=axis, **kwargs)

    def argmax(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("argmax", *args, **kwargs)

    def argmin(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("argmin", *args, **kwargs)

    def dot(self, other: Any) -> Any:
        return self._call("dot", other)

    def clip(self, *args: Any, **kwargs: Any) -> Any:
        return self._call("clip", *args, **kwargs)

    def round(self, decimals: int = 0) -> Any:
        return self._call("round", decimals)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return self._call("astype", dtype)

    def copy(self) -> Traced:
        return self

    def reshape(self, *shape: Any) -> Any:
        return self._call("reshape", shape[0] if len(shape) == 1 else shape)

    def ravel(self) -> Any:
        return self._call("reshape", (-1,))

    def flatten(self) -> Any:
        return self._call("reshape", (-1,))

    def squeeze(self, axis: Any = None) -> Any:
        return self._call("squeeze", axis)

    def swapaxes(self, a: int, b: int) -> Any:
        return self._call("swapaxes", a, b)

    def repeat(self, repeats: int, axis: int | None = None) -> Any:
        return self._call("repeat", repeats, axis=axis)

    def take(self, indices: Any, axis: int | None = None) -> Any:
        return self._call("take", indices, axis=axis)

    def transpose(self, *axes: Any) -> Any:
        order = axes[0] if len(axes) == 1 and axes[0] is not None and not isinstance(axes[0], int) else axes
        return self._call("permute_dims", order if axes and axes[0] is not None else tuple(reversed(range(self.ndim))))


def _numpy_dtype(name: DType) -> Any:
    import numpy as np

    return np.dtype(name)
