"""Python's operators, each as the array operation it stands for, and what a traced value refuses to be."""

from __future__ import annotations

from typing import Any

from tang_verified.errors import ControlFlowError


def _do(name: str, *operands: Any) -> Any:
    from tang_verified.tracing.namespace import FUNCTIONS

    return FUNCTIONS[name](*operands)


class Operators:
    """Operators of arrays and of scalars alike."""

    dtype_name: Any

    def __add__(self, other: Any) -> Any:
        return _do("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _do("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _do("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _do("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _do("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _do("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _do("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _do("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _do("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _do("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return _do("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _do("remainder", other, self)

    def __pow__(self, other: Any) -> Any:
        return _do("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _do("pow", other, self)

    def __matmul__(self, other: Any) -> Any:
        return _do("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _do("matmul", other, self)

    def __neg__(self) -> Any:
        return _do("negative", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return _do("abs", self)

    def __eq__(self, other: object) -> Any:
        return _do("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return _do("not_equal", self, other)

    __hash__ = object.__hash__

    def __lt__(self, other: Any) -> Any:
        return _do("less", self, other)

    def __le__(self, other: Any) -> Any:
        return _do("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _do("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return _do("greater_equal", self, other)

    def __and__(self, other: Any) -> Any:
        return _do("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return _do("bitwise_and", other, self)

    def __or__(self, other: Any) -> Any:
        return _do("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return _do("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Any:
        return _do("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return _do("bitwise_xor", other, self)

    def __invert__(self) -> Any:
        return _do("bitwise_invert", self)

    def __bool__(self) -> bool:
        raise ControlFlowError(
            f"a traced {self.dtype_name} value has no truth value: Python's if, while, and, or, not need one while tracing",
            "choose elementwise with xp.where(condition, a, b), and combine masks with & | ~",
        )

    def _refuse(self, wanted: str) -> ControlFlowError:
        return ControlFlowError(
            f"{wanted} of a traced {self.dtype_name} value: it has no value while tracing",
            "keep it an array (x.astype(...) converts), or pass the number as a plain argument without a spec",
        )

    def __int__(self) -> int:
        raise self._refuse("int()")

    def __float__(self) -> float:
        raise self._refuse("float()")

    def __index__(self) -> int:
        raise self._refuse("an index or range()")

    def __format__(self, how: str) -> str:
        if how:
            raise self._refuse("formatting")
        return repr(self)

    def item(self) -> float:
        raise self._refuse("item()")

    def tolist(self) -> list[Any]:
        raise self._refuse("tolist()")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._refuse("np.asarray")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from tang_verified.tracing.numpy_protocol import call_ufunc

        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from tang_verified.tracing.numpy_protocol import call_function

        return call_function(func, args, kwargs)
