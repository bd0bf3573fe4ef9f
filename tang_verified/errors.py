"""What goes wrong, said in the user's terms: the problem with its shapes, the user's own line, and what to do.

    ShapeError: matmul: shapes (n, d) and (m, d) do not fit: d and m differ
      model.py:12:  scores = q @ k
      Do: multiply by k.T, or give both sizes one name in their specs.
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass

OURS = ("tang_verified", "numpy")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's source."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:  {self.text}"


def user_place() -> Place | None:
    """The innermost frame that is neither this package's nor NumPy's."""
    frame = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.split(".")[0] not in OURS:
            file, line = frame.f_code.co_filename, frame.f_lineno
            return Place(file, line, linecache.getline(file, line).strip())
        frame = frame.f_back  # type: ignore[assignment]
    return None


class TangError(Exception):
    """Every error that this package raises on purpose."""


class SpecError(TangError, ValueError):
    """A spec string that cannot be read."""


class TraceError(TangError):
    """A function that cannot be traced. `problem`, `advice` and `place` are what the message is made of."""

    def __init__(self, problem: str, advice: str = "", place: Place | None = None) -> None:
        self.problem = problem
        self.advice = advice
        self.place = place or user_place()
        lines = [problem]
        if self.place is not None:
            lines.append(f"  {self.place}")
        if advice:
            lines.append(f"  Do: {advice}")
        super().__init__("\n".join(lines))


class ShapeError(TraceError):
    """Shapes that do not fit together."""


class BoundsError(TraceError):
    """An index or a slice that leaves its array."""


class DTypeError(TraceError):
    """A dtype that the operation, or this package, does not take."""


class ControlFlowError(TraceError):
    """Python asked a traced value for a number that is not known while tracing."""


class ConcreteRead(ControlFlowError):
    """NumPy asked an index of a comprehension for its number, to read an array of its own."""


class UnsupportedError(TraceError):
    """An operation, or an option of one, that has no meaning here."""


class CompileError(TraceError):
    """A program that is not compiled, or a compiled one called with what it was not compiled for."""


def place_of(fn: object) -> Place | None:
    """Where a function of the user's begins."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return None
    return Place(code.co_filename, code.co_firstlineno, linecache.getline(code.co_filename, code.co_firstlineno).strip())
