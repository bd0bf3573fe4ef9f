"""Identifiers for a C-like target: legal, unlike any word of the target, unique within a function."""

from __future__ import annotations

import re

# Macros of the languages' own headers, and what stands at the head of a text. No list can name them all.
FOREIGN = re.compile(
    r"[A-Z][A-Z0-9_]+|linux|unix|i386|errno|(tv|cp_async|mma)_\w*|\w*[fim](32|64)x\d+\w*|\w+_(f32|f64|i64)|u?int\d+_t"
    r"|half_to_float|float_to_half"
)


class Names:
    """Hands out identifiers: `take("x")` is `x`, then `x_1`, `x_2`, …; `take("M_PI")` is `vM_PI` (M_PI_2 is a macro, too)."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._taken = set(reserved)
        self._next: dict[str, int] = {}

    def take(self, stem: str) -> str:
        clean = re.sub(r"[^A-Za-z0-9_]", "_", stem)
        return self._new(clean if re.match(r"[A-Za-z]", clean) and not FOREIGN.fullmatch(clean) else f"v{clean}")

    def entry(self, name: str) -> str:
        """For an entry point, which keeps its name at the front: `M_PI_kernel`."""
        return self._new(f"{name}_kernel" if FOREIGN.fullmatch(name) else name)

    def _new(self, clean: str) -> str:
        name = clean
        while name in self._taken:
            number = self._next.get(clean, 0) + 1
            self._next[clean] = number
            name = f"{clean}_{number}"
        self._taken.add(name)
        return name
