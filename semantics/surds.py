"""Sums of square roots with rational coefficients, exactly: a model's value of sqrt(3) is no rational.

    1/2 + 2/3 √3 - √6     {1: 1/2, 3: 2/3, 6: -1}        √m √n = g √(m n / g²)  with g = gcd(m, n)

The keys are squarefree. Roots of distinct squarefree integers are linearly independent over the rationals (Besicovitch
1940), so a sum is 0 only when it is empty, and the sign of any other is found by ever closer rational bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt

LIMIT = 1 << 20  # of a number under a root, so that it is factored at once


@dataclass(frozen=True)
class Surd:
    """An irrational sum: (squarefree number, coefficient) in order, none of them 0. Made by `total` alone."""

    parts: tuple[tuple[int, Fraction], ...]

    def __add__(self, other: Fraction | Surd) -> Fraction | Surd:
        parts = dict(self.parts)
        for n, c in terms(other):
            parts[n] = parts.get(n, Fraction(0)) + c
        return total(parts)

    def __mul__(self, other: Fraction | Surd) -> Fraction | Surd:
        parts: dict[int, Fraction] = {}
        for m, a in self.parts:
            for n, b in terms(other):
                g = gcd(m, n)
                parts[m * n // g**2] = parts.get(m * n // g**2, Fraction(0)) + a * b * g
        return total(parts)

    def __neg__(self) -> Surd:
        return Surd(tuple((n, -c) for n, c in self.parts))

    def __sub__(self, other: Fraction | Surd) -> Fraction | Surd:
        return self + -other

    def __rsub__(self, other: Fraction) -> Fraction | Surd:
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: Fraction | Surd) -> bool:
        return negative(self - other)

    def __gt__(self, other: Fraction | Surd) -> bool:
        return negative(-(self - other))

    def __le__(self, other: Fraction | Surd) -> bool:
        return self == other or self < other

    def __ge__(self, other: Fraction | Surd) -> bool:
        return self == other or self > other


def terms(value: Fraction | Surd) -> tuple[tuple[int, Fraction], ...]:
    return value.parts if isinstance(value, Surd) else ((1, value),)


def total(parts: Mapping[int, Fraction]) -> Fraction | Surd:
    """Σ c √n over squarefree n."""
    kept = tuple(sorted((n, c) for n, c in parts.items() if c))
    return Surd(kept) if any(n != 1 for n, _ in kept) else dict(kept).get(1, Fraction(0))


def negative(value: Fraction | Surd) -> bool:
    """Whether it is below 0. c √n lies between c r / 2^k and c (r + 1) / 2^k with r = floor(2^k √n)."""
    if isinstance(value, Fraction):
        return value < 0
    k = 16
    while True:
        ends = [sorted((c * isqrt(n << 2 * k), c * (isqrt(n << 2 * k) + (n != 1)))) for n, c in value.parts]
        low, high = (sum(end[side] for end in ends) for side in (0, 1))
        if low > 0 or high < 0:
            return high < 0
        k *= 2


def squarefree(n: int) -> bool:
    return 0 < n <= LIMIT and all(n % (p * p) for p in range(2, isqrt(n) + 1))
