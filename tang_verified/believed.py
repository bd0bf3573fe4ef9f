"""What is believed besides the provers: between the certified kernel and the number that comes out of a call."""

from __future__ import annotations

OUTSIDE = (
    "the plan that a text for a GPU is started by (blocks, threads, arrays): it is printed with the text, and not read back",
    "the compiler of the printed text and the processor: they compute as their language's arithmetic says",
    "the parallel runtime (OpenMP): it runs each iteration of a parallel loop once, and all before the next statement",
    "Python and NumPy: they hand over the arrays that the caller means, and nobody writes them during a call",
)
INPUTS = (
    "inputs are finite: what the kernel gives for inf or nan among them is not covered (check_finite=True looks at each call)",
    "x / 0 is nan in the proofs; the machine gives inf, -inf or nan",
    "rounding: the machine's sums and products are those of its dtypes, not exact; a bound of its own speaks of that",
    "integer data stays within its dtype: exact in the proofs, it overflows on the machine (indices are proved to fit)",
)


def believed() -> list[str]:
    """One line for each thing. How far a language's numbers may be from the reals, the certificate says for its texts."""
    return [*OUTSIDE, *INPUTS]
