"""Roots of positive rationals, exactly: (p/q)^(1/k), with rational bounds as close as asked.

    2^(3/2) · 3^(-1/2)  =  (8/3)^(1/2)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

BITS = 64  # of the bounds, relative


@dataclass(frozen=True, order=False)
class Radical:
    """value^(1/root), value > 0, root ≥ 1 as small as can be. Made by `power_product`."""

    value: Fraction
    root: int = 1

    def lower(self) -> Fraction:
        """A rational not above it, and within 2^-63 of it, relatively."""
        return self._bound(0)

    def upper(self) -> Fraction:
        """A rational not below it, and within 2^-63 of it, relatively."""
        return self._bound(1)

    def _bound(self, up: int) -> Fraction:
        if self.root == 1:
            return self.value
        p, q = self.value.numerator, self.value.denominator
        magnitude = (p.bit_length() - q.bit_length()) // self.root  # of the root, within 2
        shift = BITS + 1 - magnitude
        scaled = p << shift * self.root if shift >= 0 else p
        below = q if shift >= 0 else q << -shift * self.root
        return Fraction(floor_root(scaled // below, self.root) + up) / Fraction(2) ** shift

    def __str__(self) -> str:
        return str(self.value) if self.root == 1 else f"({self.value})^(1/{self.root})"


def power_product(factors: Iterable[tuple[Fraction | int, Fraction | int]]) -> Radical:
    """Π base^exponent over positive rational bases and rational exponents, in lowest terms."""
    pairs = [(Fraction(base), Fraction(exponent)) for base, exponent in factors]
    root = lcm(*(exponent.denominator for _, exponent in pairs)) if pairs else 1
    value = Fraction(1)
    for base, exponent in pairs:
        if base <= 0:
            raise ValueError(f"a power of {base}, which is not positive")
        value *= base ** int(exponent * root)
    for divisor in sorted((d for d in range(2, root + 1) if root % d == 0), reverse=True):
        p, q = floor_root(value.numerator, divisor), floor_root(value.denominator, divisor)
        if p**divisor == value.numerator and q**divisor == value.denominator:
            return Radical(Fraction(p, q), root // divisor)
    return Radical(value, root)


def floor_root(n: int, k: int) -> int:
    """The largest integer r ≥ 0 with r^k ≤ n, by Newton's iteration from above."""
    if n < 2 or k == 1:
        return n
    r = 1 << -(-n.bit_length() // k)
    while True:
        closer = ((k - 1) * r + n // r ** (k - 1)) // k
        if closer >= r:
            return r
        r = closer
