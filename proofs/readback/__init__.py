"""Reads a printed text back and compares it with the certified kernel: `read_back(kernel, text, "c")`.

    text ──front end──▶ syntax.Text ──machine──▶ nodes ◀──kernel_values── kernel
            strict; helpers known            compare, folds        statements: match, stores
            letter by letter

To add a dialect: (1) a front end that turns the whole file into a `syntax.Text`, refusing (`Unreadable`, with the line) all
that it does not know, built on `expressions.py` for C-like expressions; (2) a subclass of `Machine` whose `call` and
`effect` say what the dialect's functions compute; helpers that are printed at the head are believed, so their texts live
here and are compared letter by letter (`c_known.py`), and `proofs/TRUSTED.md` lists them; (3) a line in `DIALECTS`.
Statements that only a parallel kernel has (barriers, thread axes) are cases of `Matcher.block`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tang_verified.proofs.readback import c_text
from tang_verified.proofs.readback.c_known import ELEMENTS
from tang_verified.proofs.readback.c_meaning import CMachine
from tang_verified.proofs.readback.compare import Mismatch
from tang_verified.proofs.readback.nodes import Nodes
from tang_verified.proofs.readback.stores import Stores
from tang_verified.proofs.readback.syntax import Unreadable
from tang_verified.semantics.kernel import Kernel

DIALECTS = ("c",)


@dataclass(frozen=True)
class Difference:
    """Where a text is not its kernel."""

    line: int
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.why}"


def read_back(kernel: Kernel, text: str, dialect: str = "c") -> Difference | None:
    """None if the text says what the kernel says; else the first difference found."""
    if dialect not in DIALECTS:
        raise ValueError(f"no reader for {dialect!r}; there are {', '.join(DIALECTS)}")
    try:
        found = c_text.read(text)
        names = (kernel.name, f"{kernel.name}_kernel")
        if found.entry not in names:
            return Difference(found.line, f"the function is called {found.entry}, the kernel {kernel.name}")
        Stores(kernel, CMachine(Nodes(), helpers=found.helpers), ELEMENTS).whole(found)
    except (Unreadable, Mismatch) as problem:
        return Difference(problem.line, problem.why)
    return None
