"""The little language that every dialect's text is parsed into: expressions and statements, each with its line.

A front end understands every character of its file or refuses; what a name means is not its business. Types are scalar or
vector: `Kind("f32", 16)`. A vector's lanes stand in the text as one value; SIMT texts have scalars only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Unreadable(ValueError):
    """A text that is not in the language that its dialect's reader knows."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line, self.why = line, why


class Kind(NamedTuple):
    """A register type: kind is "f32", "f64", "i64" or "bool"; width 1 is a scalar. `bits` is the lane size of a mask."""

    kind: str
    width: int = 1
    bits: int = 32


@dataclass(frozen=True, slots=True)
class Number:
    """A literal as it is spelled, suffix and all."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Name:
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    line: int
    function: str
    args: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type among a call's arguments."""

    line: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Index:
    """base[index]: an element of an array, or a lane of a vector."""

    line: int
    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Vector:
    """A whole vector in memory, from an element on: *(const f32x16_u *)(base + offset)."""

    line: int
    kind: Kind
    const: bool
    address: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    line: int
    sign: str
    of: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    line: int
    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Choice:
    """condition ? yes : no"""

    line: int
    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    line: int
    kind: Kind
    of: Expression


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector spelled lane by lane."""

    line: int
    kind: Kind
    values: tuple[Expression, ...]


Expression: TypeAlias = Number | Name | Call | TypeName | Index | Vector | Unary | Binary | Choice | Cast | Lanes


@dataclass(frozen=True, slots=True)
class Declare:
    """A variable; `value` is None where it is set later. One that is `const` is never set again."""

    line: int
    kind: Kind
    name: str
    value: Expression | None
    const: bool


@dataclass(frozen=True, slots=True)
class Array:
    """A private array of `count` elements: a number, or extents whose product it is (None: there may be no memory).
    `start`: its first byte in the memory that a launch gives; less than 0: it has memory of its own."""

    line: int
    element: str
    name: str
    extents: tuple[Expression, ...]
    fallible: bool
    start: int = -1


@dataclass(frozen=True, slots=True)
class Set:
    """variable = value, array[index] = value, *(vector *)(address) = value."""

    line: int
    target: Name | Index | Vector
    value: Expression


@dataclass(frozen=True, slots=True)
class Do:
    """A call for its effect."""

    line: int
    call: Call


@dataclass(frozen=True, slots=True)
class Loop:
    """for low <= variable < high, in steps of one. `parallel`: it and the next `parallel - 1` loops inside run at once, a
    share of all their iterations at a time, whose number is the product of `portion` (if it is stated)."""

    line: int
    variable: str
    low: Expression
    high: Expression
    body: tuple[Statement, ...]
    parallel: int = 0
    portion: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class If:
    line: int
    condition: Expression
    yes: tuple[Statement, ...]
    no: tuple[Statement, ...] | None


@dataclass(frozen=True, slots=True)
class Region:
    """What each parallel worker runs, with variables and arrays of its own."""

    line: int
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    """Report that there was no memory."""

    line: int
    atomic: bool


@dataclass(frozen=True, slots=True)
class Free:
    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """What the threads of a block do together: "barrier", "commit" (a group of copies), "wait" (until `keep` are pending)."""

    line: int
    what: str
    keep: int = 0


Statement: TypeAlias = Declare | Array | Set | Do | Loop | If | Region | Fail | Free | Sync


@dataclass(frozen=True, slots=True)
class Parameter:
    """An array that the text is given: the elements' type, and whether it may write them."""

    line: int
    name: str
    element: str
    const: bool


@dataclass(frozen=True, slots=True)
class Text:
    """A whole file: its entry point, what it is given, what it does, and the helpers that stand at its head."""

    entry: str
    line: int
    sizes: tuple[str, ...]
    arrays: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    helpers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry point of a GPU text. `threads` is None where the language leaves their number to the caller, else said in line
    `told`; `block` and `thread` are the names of the numbers; `shared` are the arrays of the block."""

    name: str
    line: int
    threads: int | None
    told: int
    sizes: tuple[Parameter, ...]
    arrays: tuple[Parameter, ...]
    shared: tuple[Array, ...]
    block: str
    thread: str
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A whole GPU text."""

    entries: tuple[Entry, ...]
    helpers: frozenset[str]
