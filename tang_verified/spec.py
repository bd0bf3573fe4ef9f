"""spec("b h n>=1 64", "float16")  ->  the shape (b, h, n, 64) with n in 1.., and a dtype.

Tokens are names and positive integers, separated by spaces; `""` is a scalar. A name may bear `>=K` and `<=K`.
The same name in several specs is the same size; different names are different sizes, never broadcast together.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from typing import get_args

from tang_verified.errors import SpecError
from tang_verified.semantics.program import SIZE_LIMIT, DType, Size

DTYPES: tuple[DType, ...] = get_args(DType)
BOUND = re.compile(r"(>=|<=)(\d+)")
TOKEN = re.compile(rf"(?P<name>[A-Za-z_]\w*)(?P<bounds>(?:{BOUND.pattern})*)|(?P<number>\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spec:
    """An argument's shape and dtype; `ranges` are the sizes whose range was stated."""

    shape: tuple[int | str, ...]
    dtype: DType = "float32"
    ranges: tuple[Size, ...] = ()

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.shape))}{',' if len(self.shape) == 1 else ''}) {self.dtype}"


def spec(text: str, dtype: str | None = None) -> Spec:
    """Read a spec. The dtype is float32 where none is given: as the second argument, or as the last word.

    >>> spec("n 64 float16").dtype
    'float16'

    >>> spec("n 64", "float16").shape
    ('n', 64)
    >>> str(spec("n"))
    '(n,) float32'
    """
    if not isinstance(text, str):
        raise SpecError(f"spec takes a string such as 'n d', got {type(text).__name__}")
    words = text.split()
    if words and words[-1] in DTYPES:
        if dtype is not None and _dtype(dtype) != words[-1]:
            raise SpecError(f"spec: dtype {words[-1]} in {text!r}, and {_dtype(dtype)} beside it")
        text, dtype = text[: text.rindex(words[-1])], words[-1]
    shape: list[int | str] = []
    ranges: dict[str, Size] = {}
    for found in re.finditer(r"\S+", text):
        token = TOKEN.fullmatch(found.group())
        if token is None:
            _refuse(text, found, "not a name, a positive integer, or a name with >=K or <=K")
        elif token["number"] is not None:
            if not 1 <= int(token["number"]) <= SIZE_LIMIT:
                _refuse(text, found, f"a fixed size is between 1 and {SIZE_LIMIT}")
            shape.append(int(token["number"]))
        elif token["name"] in DTYPES:
            _refuse(text, found, "a dtype stands last, and no size has its name")
        elif keyword.iskeyword(token["name"]):
            _refuse(text, found, "a Python keyword cannot name a size")
        else:
            name, low, high = token["name"], 0, SIZE_LIMIT
            for sign, bound in BOUND.findall(token["bounds"]):
                low, high = (max(low, int(bound)), high) if sign == ">=" else (low, min(high, int(bound)))
            if name in ranges:
                low, high = max(low, ranges[name].low), min(high, ranges[name].high)
            if low > high:
                _refuse(text, found, f"no size is at least {low} and at most {high}")
            if token["bounds"]:
                ranges[name] = Size(name, low, high)
            shape.append(name)
    return Spec(tuple(shape), _dtype("float32" if dtype is None else dtype), tuple(ranges.values()))


def _dtype(dtype: object) -> DType:
    for known in DTYPES:
        if dtype == known or getattr(dtype, "__name__", None) == known or getattr(dtype, "name", None) == known:
            return known
    raise SpecError(f"dtype {dtype!r} is not supported; use one of {', '.join(DTYPES)}")


def _refuse(text: str, found: re.Match[str], why: str) -> None:
    raise SpecError(f"spec: {why}\n  {text}\n  {' ' * found.start()}{'^' * len(found.group())}")
