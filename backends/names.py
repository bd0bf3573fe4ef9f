"""Identifiers for a C-like target: legal, unlike any word of the target, unique within a function."""

from __future__ import annotations

import re


class Names:
    """Hands out identifiers: `take("x")` is `x`, then `x_1`, `x_2`, …"""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._taken = set(reserved)
        self._next: dict[str, int] = {}

    def take(self, stem: str) -> str:
        clean = re.sub(r"[^A-Za-z0-9_]", "_", stem)
        clean = clean if re.match(r"[A-Za-z]", clean) else f"v{clean}"
        name = clean
        while name in self._taken:
            number = self._next.get(clean, 0) + 1
            self._next[clean] = number
            name = f"{clean}_{number}"
        self._taken.add(name)
        return name
