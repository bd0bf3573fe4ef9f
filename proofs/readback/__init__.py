"""Reads a printed text back and compares it with the certified kernel: `read_back(kernel, text, "c")`.

    text ──c_text──▶ syntax.Text ──text_values, machine──▶ nodes ◀──kernel_values── kernel
                          └────── match, stores: statement by statement ──────────────┘
                                  compare, folds, facts: value by value

    GPU text ──simt_text──▶ syntax.Module ──simt_machine──▶ nodes       simt_match: threads, blocks, barriers

To add a language for GPUs: a table in `simt_language.py`, its name in `simt_machine.py` where it computes otherwise.
To add another dialect: (1) a front end that turns the whole file into a `syntax.Text`, refusing (`Unreadable`, with the
line) all that it does not know; `expressions.py` has tokens and expressions of C-like languages; (2) a subclass of `Machine`
whose `call` and `effect` say what the dialect's functions compute (`c_meaning.py`); helpers that are printed at the head are
believed, so their texts live here, are compared letter by letter (`c_known.py`, `simt_helpers.py`) and stand in
`proofs/TRUSTED.md`; (3) its name in `DIALECTS`, which chooses both in `read_back`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tang_verified.proofs.readback import c_text, simt_text
from tang_verified.proofs.readback.c_known import ELEMENTS
from tang_verified.proofs.readback.c_meaning import CMachine
from tang_verified.proofs.readback.compare import Mismatch, Spent
from tang_verified.proofs.readback.nodes import Nodes
from tang_verified.proofs.readback.origin import comes_from
from tang_verified.proofs.readback.simt_language import LANGUAGES
from tang_verified.proofs.readback.simt_machine import SimtMachine
from tang_verified.proofs.readback.simt_match import Threads
from tang_verified.proofs.readback.stores import Stores
from tang_verified.proofs.readback.syntax import Array, Parameter, Statement, Unreadable
from tang_verified.semantics.kernel import Kernel

DIALECTS = ("c", *LANGUAGES)  # by the ending of a file's name


@dataclass(frozen=True)
class Difference:
    """Where a text is not its kernel. `spent`: nothing was found, but the comparison is not finished."""

    line: int
    why: str
    origin: tuple[int, ...] = ()  # lines that the value at that line comes from
    spent: bool = False

    def __str__(self) -> str:
        near = self.origin[-12:]
        more = f" (it comes from line{'s' if len(near) > 1 else ''} {', '.join(map(str, near))})" if near else ""
        return f"line {self.line}: {self.why}{more}"


def read_back(kernel: Kernel, text: str, dialect: str = "c") -> Difference | None:
    """None if the text says what the kernel says; else the first difference found."""
    if dialect not in DIALECTS:
        raise ValueError(f"no reader for {dialect!r}; there are {', '.join(DIALECTS)}")
    body: Sequence[Statement] = ()
    try:
        if dialect in LANGUAGES:
            language = LANGUAGES[dialect]
            module = simt_text.read(text, language)
            body = [s for entry in module.entries for s in (*map(_given, (*entry.sizes, *entry.arrays)), *entry.body)]
            machine = SimtMachine(Nodes(), bits=language.bits, language=language, helpers=module.helpers)
            Threads(kernel, machine, ELEMENTS, language=language).module(module)
            return None
        found = c_text.read(text)
        body = found.body
        if found.entry not in (kernel.name, f"{kernel.name}_kernel"):
            return Difference(found.line, f"the function is called {found.entry}, the kernel {kernel.name}")
        Stores(kernel, CMachine(Nodes(), helpers=found.helpers), ELEMENTS).whole(found)
    except (Unreadable, Mismatch) as problem:
        return Difference(problem.line, problem.why, comes_from(body, problem.line), isinstance(problem, Spent))
    except RecursionError:
        return Difference(1, "the values are nested too deep to be compared", spent=True)
    return None


def _given(parameter: Parameter) -> Statement:
    """A parameter among the lines that a value may come from."""
    return Array(parameter.line, parameter.element, parameter.name, (), False)
