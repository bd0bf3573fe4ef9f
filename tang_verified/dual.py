"""Numbers that carry their slope: forward mode through plain Python and NumPy code.

    x = tv.Dual(3.0, 1.0)           x is 3, and moves at the rate 1
    y = x * np.exp(-x)              y.value = 3·e⁻³,  y.slope = (1 − 3)·e⁻³

a + ε·a' with ε² = 0, so that f(a + ε·a') = f(a) + ε·f'(a)·a': Clifford 1873; Griewank and Walther, Evaluating Derivatives
(SIAM 2008), chapter 3. The slope of each operation is that of `semantics/derivative.py`, with its values at ties and poles:
max(a, a) shares evenly, |x| has 0 at 0, sqrt has 0 at 0, x / 0 is nan; a comparison is one of values.

A value has any shape S, and a slope the shape T + S, T being directions that are followed at once (none, as a rule).
Numbers of different `level` keep their slopes apart: what is differentiated within what is differentiated.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from tang_verified.errors import ShapeError, UnsupportedError, user_place
from tang_verified.numeric import ARRAYS, differentiated

# NumPy's name -> the operation's; other names are those of the array API.
OPERATIONS = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg", "absolute": "abs",
    "fabs": "abs", "maximum": "max", "minimum": "min", "power": "pow", "float_power": "pow", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "rint": "round",
}  # fmt: skip
ELEMENTWISE = frozenset((
    "add", "sub", "mul", "div", "div0", "sub0", "neg", "abs", "max", "min", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt",
    "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "erf", "floor", "ceil", "round", "trunc", "exp2",
    "log2", "log10", "square", "sign", "positive", "logaddexp", "floor_divide", "remainder",
))  # fmt: skip
BY_VALUE = frozenset((
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isfinite", "isnan", "isinf", "signbit",
    "logical_and", "logical_or", "logical_xor", "logical_not",
))  # fmt: skip
ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}  # x ** 0.5 is a root, as in traced code: its slope at 0 is stated as 0
LEVELS = count(2**20, 2**20)  # of `slope`; Duals nested by hand count up between


class SlopeDropped(UserWarning):
    """A number with a slope was turned into one without."""


class Dual:
    """A number or array `value` that moves at the rate `slope`; operators and NumPy functions give both, exactly.

    `slope` has the value's shape, with further axes in front for several directions at once. Use NumPy's functions
    (`np.sin(x)`); `math.sin(x)` takes `float(x)`, which is the value alone, and warns (`SlopeDropped`).

    >>> x = Dual(3.0, 1.0)
    >>> y = x ** 2 / (1.0 + x)
    >>> y.value, y.slope
    (2.25, 0.9375)
    """

    __slots__ = ("level", "slope", "value")
    level: int
    slope: Any
    value: Any

    def __init__(self, value: Any, slope: Any = 0.0, level: int = 0) -> None:
        self.value, self.slope = _number(value), _number(slope)
        inner = value.level + 1 if type(value) is Dual else 0
        self.level = max(level, inner)
        have, want = np.shape(self.slope), np.shape(self.value)
        if want and have[len(have) - len(want) :] != want:
            try:
                self.slope = _number(np.broadcast_to(self.slope, want))
            except ValueError:
                raise ShapeError(
                    f"Dual: a slope of shape {have} for a value of shape {want}",
                    "a slope has the value's shape, with axes of directions in front",
                ) from None

    # What it is

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    @property
    def ndim(self) -> int:
        return np.ndim(self.value)

    @property
    def size(self) -> int:
        return np.size(self.value)

    @property
    def dtype(self) -> Any:
        return np.result_type(self.value.dtype if hasattr(self.value, "dtype") else float)

    @property
    def T(self) -> Any:
        return np.transpose(self)

    @property
    def mT(self) -> Any:
        return np.swapaxes(self, -1, -2)

    def __repr__(self) -> str:
        return f"Dual({self.value}, {self.slope})"

    def __format__(self, how: str) -> str:
        return format(self.value, how) if how else repr(self)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        if np.any(plain(self.slope)):
            place = user_place()
            warnings.warn(
                f"float() of a Dual drops its slope{f', at {place}' if place else ''}\n"
                "  Do: use np.sin(x), not math.sin(x); x.value where only the value is meant; np.stack to build an array",
                SlopeDropped, stacklevel=2,
            )  # fmt: skip
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)  # truncation has the slope 0, like the next three

    def __round__(self, digits: int = 0) -> Any:
        return round(self.value, digits) if digits else round(self.value)

    def __floor__(self) -> int:
        whole: int = math.floor(self.value)
        return whole

    def __ceil__(self) -> int:
        whole: int = math.ceil(self.value)
        return whole

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a Dual of one number")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter([self[number] for number in range(len(self))])

    def __getitem__(self, key: Any) -> Any:
        from tang_verified.dual_arrays import get_item

        return get_item(self, key)

    # Operators

    def __add__(self, other: Any) -> Any:
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return apply("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return apply("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return apply("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return apply("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return apply("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return apply("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return apply("remainder", other, self)

    def __pow__(self, other: Any) -> Any:
        return power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return power(other, self)

    def __neg__(self) -> Any:
        return apply("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return apply("abs", self)

    def __matmul__(self, other: Any) -> Any:
        return np.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return np.matmul(other, self)

    def __lt__(self, other: Any) -> Any:
        return plain(self) < plain(other)

    def __le__(self, other: Any) -> Any:
        return plain(self) <= plain(other)

    def __gt__(self, other: Any) -> Any:
        return plain(self) > plain(other)

    def __ge__(self, other: Any) -> Any:
        return plain(self) >= plain(other)

    def __eq__(self, other: object) -> Any:
        return plain(self) == plain(other)

    def __ne__(self, other: object) -> Any:
        return plain(self) != plain(other)

    __hash__ = None  # type: ignore[assignment]

    # NumPy

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return np

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from tang_verified.dual_arrays import call, reduced

        if any(isinstance(x, np.ndarray) and x.dtype == object for x in inputs):
            return NotImplemented  # an array of Duals: element by element
        name = OPERATIONS.get(ufunc.__name__, ufunc.__name__)
        options = {key: value for key, value in kwargs.items() if value is not None}
        if method == "reduce":
            return reduced(ufunc.__name__, inputs[0], options)
        if method != "__call__" or options:
            raise UnsupportedError(f"np.{ufunc.__name__} of a Dual with {', '.join(options) or method}", "leave it out")
        if name in BY_VALUE:
            return ufunc(*(plain(x) for x in inputs))
        if name == "pow":
            return power(*inputs)
        if name in ELEMENTWISE:
            return apply(name, *inputs)
        return call(ufunc.__name__, inputs, {})

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from tang_verified.dual_arrays import call

        return call(func.__name__, args, kwargs, func)

    def __getattr__(self, name: str) -> Any:
        """Methods of arrays: x.sum(axis), x.reshape(…). And, for NumPy's arrays of objects, x.exp() and the like."""
        from tang_verified.dual_arrays import METHODS

        if name in METHODS:
            return METHODS[name].__get__(self)
        own = OPERATIONS.get(name, name)
        if own in ELEMENTWISE:
            return lambda *others: apply(own, self, *others)
        raise AttributeError(f"a Dual has no {name!r}")


def apply(name: str, *args: Any) -> Any:
    """An elementwise operation on numbers of which some are Duals."""
    level = max([x.level for x in args if type(x) is Dual])
    active = tuple([type(x) is Dual and x.level == level for x in args])
    values = [x.value if on else x.item() if isinstance(x, np.generic) else x for x, on in zip(args, active, strict=True)]
    slopes = [x.slope for x, on in zip(args, active, strict=True) if on]
    if all([type(x) is float for x in values]) or all([isinstance(x, (float, int)) for x in values]):
        try:
            value, *partials = differentiated(name, active, "float")(*map(float, values))
            total = partials[0] * slopes[0]
            if len(slopes) == 2:
                total = total + partials[1] * slopes[1]
            return _make(value, total, level)
        except (ArithmeticError, ValueError):
            pass  # a pole, or an overflow: the tables say what comes out
    return _general(name, active, values, slopes, level)


def _general(name: str, active: tuple[bool, ...], values: list[Any], slopes: list[Any], level: int) -> Any:
    """On arrays, and on Duals of a lower level."""
    if any(type(x) is Dual for x in values):
        value, *partials = differentiated(name, active, "nested")(*values)
    else:
        with np.errstate(all="ignore"):
            arrays = (np.asarray(x) if isinstance(x, list) else x for x in values)
            value, *partials = differentiated(name, active, "array")(*arrays)
    ndim, total = np.ndim(value), None
    with np.errstate(all="ignore"):
        own = [np.ndim(x) for x, on in zip(values, active, strict=True) if on]
        for partial, slope, have in zip(partials, slopes, own, strict=True):
            part = partial * aligned(slope, have, ndim)
            total = part if total is None else total + part
    return Dual(value, spread(total, value), level)


def operate(name: str, *args: Any) -> Any:
    """An operation of `terms.SIGNATURES` on numbers of any kind."""
    from tang_verified.dual_arrays import where

    if name == "select":
        return where(*args)
    if name in ELEMENTWISE or name == "pow":
        return apply(name, *args) if any(type(x) is Dual for x in args) else ARRAYS[name](*args)
    return ARRAYS[name](*map(plain, args))


def aligned(slope: Any, have: int, want: int) -> Any:
    """A slope whose value of `have` axes is broadcast to `want`: new axes come between directions and the value's own."""
    directions = np.ndim(slope) - have
    if directions <= 0 or have >= want:
        return slope
    shape = np.shape(slope)
    return np.reshape(slope, (*shape[:directions], *(1,) * (want - have), *shape[directions:]))


def spread(slope: Any, value: Any) -> Any:
    """A slope that broadcasts to its value's shape, behind the axes of directions, in that shape."""
    if type(slope) is Dual or type(value) is Dual or not np.ndim(value):
        return slope
    shape = (*np.shape(slope)[: max(np.ndim(slope) - np.ndim(value), 0)], *np.shape(value))
    return slope if np.shape(slope) == shape else np.broadcast_to(slope, shape)


def _make(value: float, slope: Any, level: int) -> Dual:
    """A Dual of one float; nothing need be looked at."""
    out = Dual.__new__(Dual)
    out.value, out.slope, out.level = value, slope, level
    return out


def power(a: Any, b: Any) -> Any:
    """a ** b; a root where b is ±1/2."""
    if type(a) is Dual and isinstance(b, (int, float, np.generic)) and float(b) in ROOTS:
        return apply(ROOTS[float(b)], a)
    return apply("pow", a, b)


def _number(x: Any) -> Any:
    """A float, an array of floats, or a Dual of a lower level."""
    if type(x) is float or type(x) is Dual:
        return x
    array = np.asarray(x)
    if array.dtype == object or array.dtype.kind not in "fiub":
        raise UnsupportedError(f"a Dual of {array.dtype} values", "use real numbers; join Duals with np.stack")
    if not array.ndim:
        return float(array)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def plain(x: Any) -> Any:
    """The value alone, through all levels."""
    while type(x) is Dual:
        x = x.value
    return x


def slope(fn: Callable[..., Any], at: Any, along: Any = None) -> tuple[Any, Any]:
    """(fn(at), its slope as `at` moves along `along`), in one pass. fn is plain Python and NumPy code.

    `at`: a number, or an array of shape S. `along`: a direction of shape S, or several, of shape T + S. Without it each
    number moves by itself: a number gives the derivative, a vector the transposed Jacobian. The slope has the value's
    shape with the directions' axes in front; fn may return a tuple or list, and both then are tuples or lists.

    >>> slope(lambda x: x * x * x, 2.0)
    (8.0, 12.0)
    >>> slope(lambda p: p[0] * np.sin(p[1]), np.array([2.0, 0.0]))
    (0.0, array([0., 2.]))
    """
    values = plain(at)
    if along is None:
        along = np.eye(np.size(values)).reshape(2 * np.shape(values)) if np.ndim(values) else 1.0
    level = next(LEVELS)
    result = fn(Dual(at, along, level))
    directions = np.shape(along)[: np.ndim(along) - np.ndim(values)]
    return _taken(result, level, directions, True), _taken(result, level, directions, False)


def _taken(result: Any, level: int, directions: tuple[int, ...], value: bool) -> Any:
    """The values, or the slopes, of a result; what does not depend on the number of that level has the slope 0."""
    if isinstance(result, (tuple, list)):
        return type(result)(_taken(part, level, directions, value) for part in result)
    if isinstance(result, np.ndarray) and result.dtype == object:
        return _taken(np.stack([*result]), level, directions, value)
    if type(result) is Dual and result.level == level:
        return result.value if value else result.slope
    return result if value else _number(np.zeros((*directions, *np.shape(plain(result)))))
