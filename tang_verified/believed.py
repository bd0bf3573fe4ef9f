"""What is believed besides the provers: between the certified kernel and the number that comes out of a call."""

from __future__ import annotations

from collections.abc import Iterable

from tang_verified.backends.c.vector_math import ULPS
from tang_verified.proofs.counterexample import TABLED
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import Op, Term, children

OUTSIDE = (
    "the printer: its text does what the certified kernel says (proofs/TRUSTED.md says how far that is read back)",
    "the compiler of the printed text and the processor; products and sums may be contracted (fused multiply-add)",
    "the parallel runtime (OpenMP): it runs each iteration of a parallel loop once, and all before the next statement",
    "Python and NumPy: they hand over the arrays that the caller means, and nobody writes them during a call",
)
INPUTS = (
    "inputs are finite: what the kernel gives for inf or nan among them is not covered (check_finite=True looks at each call)",
    "x / 0 is nan in the proofs; the machine gives inf, -inf or nan",
    "rounding: the machine's sums and products are those of its dtypes, not exact",
    "integer data stays within its dtype: exact in the proofs, it overflows on the machine (indices are proved to fit)",
)
WIDTHS = {"f32": ("float", ("float16", "float32")), "f64": ("double", ("float64",))}
EXACT = frozenset("trunc floor ceil round sqrt".split())  # IEEE 754 says what these give


def believed(program: Program) -> list[str]:
    """One line for each thing, the accuracy of the program's functions among them."""
    return [*OUTSIDE, *_functions(program), *INPUTS]


def _functions(program: Program) -> list[str]:
    names = sorted({name for d in program.defs for name in _named(d.value)} - EXACT)
    dtypes = {tensor.dtype for tensor in (*program.inputs, *(d.tensor for d in program.defs))}
    kinds = [kind for kind, (_, those) in WIDTHS.items() if dtypes & set(those)]
    own = [f"{name} ({WIDTHS[kind][0]}) {ULPS[name, kind]} ulp" for name in names for kind in kinds if (name, kind) in ULPS]
    rest = sorted({name for name in names for kind in kinds if (name, kind) not in ULPS})
    out = [f"this package's vector functions (C), within: {', '.join(own)} (tested, not proved)"] if own else []
    return out + ([f"the platform's library, as accurate as it is: {', '.join(rest)}"] if rest else [])


def _named(term: Term) -> Iterable[str]:
    """Functions that the checker knows by axioms only."""
    if isinstance(term, Op) and term.name not in TABLED:
        yield term.name
    for part in children(term):
        yield from _named(part)
