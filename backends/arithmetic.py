"""What a language does to real arithmetic, as its own documents state it: a table in each dialect.

    Arithmetic(document=…, rounding="to nearest, ties to even", contraction="never (FP_CONTRACT OFF)", errors={"exp": Error(3)})
    lines()   ->   ("OpenCL C: a + b, a - b and a * b are rounded to nearest, ties to even", …, "OpenCL C: exp within 3 ulp")

No equality is proved from it. A certificate carries the lines of the backend whose texts it names, as conventions are carried:
the equalities are over the reals, and this is how far the machine's numbers may be from them, operation by operation. The
bounds on rounding follow from its `numbers`, as far as these say something that holds for all arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tang_verified.semantics.rounding import RULES, Rounding


@dataclass(frozen=True, slots=True)
class Error:
    """The largest error of a float32 result: ulp + slope·|x| units in the last place, or `absolute` where that is more.

    `note`: where it holds, or what is said in place of a bound. `partly`: it does not hold for all arguments.
    """

    ulp: float | None = None
    slope: float = 0.0
    absolute: float = 0.0
    note: str = ""
    partly: bool = False

    def __str__(self) -> str:
        parts = []
        if self.ulp is not None:
            parts.append(f"within {self.ulp:g}{f' + {self.slope:g}|x|' if self.slope else ''} ulp")
        if self.absolute:
            parts.append(f"within {self.absolute:g}")
        return " ".join(filter(None, [" or ".join(parts), self.note]))


LIBRARY = tuple(name for name in RULES if name not in (
    "add", "sub", "sub0", "mul", "div", "div0", "neg", "abs", "max", "min", "floor", "ceil", "round", "sqrt", "rsqrt",
))  # fmt: skip
CORRECT = Error(0.5)
EITHER = Error(1.0)  # rounded to one of the two neighbours


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """One language's, with the options that its runtime compiles with."""

    language: str
    document: str
    rounding: str  # of + - *
    contraction: str  # whether a * b + c may be rounded once
    reassociation: str
    subnormals: str
    special: str  # infinities and nan
    half: str  # how a float32 becomes a float16
    errors: Mapping[str, Error]
    double: str = "there is no float64"
    others: str = ""  # the entry of `errors` that holds wherever a function is computed by a library

    def numbers(self) -> Rounding:
        """What bounds follow from: the largest error wherever a function may be computed, in each dtype."""
        ulps: dict[tuple[str, str], Fraction] = {}
        library = self.errors[self.others].ulp if self.others else None
        for name in RULES:
            error = self.errors.get("a / b" if name == "div" else name)
            known = error is not None and error.ulp is not None and not (error.slope or error.absolute or error.partly)
            own = [error.ulp] if error is not None and error.ulp is not None and known else []
            if library is not None and name in LIBRARY and (known or error is None):
                own.append(library)
            for dtype in ("float32", "float64") if own and not self.double.startswith("there is no") else ("float32",):
                if own:
                    ulps[name, dtype] = Fraction(max(own)).limit_denominator(1000)
        unsaid = "" if self.reassociation.startswith("never") else f"{self.language} lets sums be reassociated"
        nearest = self.rounding.startswith("to nearest")
        kept = self.subnormals.partition(" (")[0] == "kept"
        return Rounding(ulps, not nearest, not kept, unsaid)

    def lines(self) -> tuple[str, ...]:
        """The statement that a certificate carries."""
        facts = {
            "as stated by": self.document,
            "a + b, a - b, a * b are rounded": self.rounding,
            "a * b + c rounded once": self.contraction,
            "sums reassociated": self.reassociation,
            "subnormal numbers": self.subnormals,
            "infinities and nan": self.special,
            "float32 to float16": self.half,
            "float64": self.double,
        }
        out = [f"{self.language}: {name}: {fact}" for name, fact in facts.items()]
        by_error: dict[str, list[str]] = {}
        for name, error in self.errors.items():
            by_error.setdefault(str(error), []).append(name)
        return (*out, *(f"{self.language}: {', '.join(names)}: {error}" for error, names in by_error.items()))
