"""Real constants as decimal literals: the nearest number of the type, in the fewest digits that give it back."""

from __future__ import annotations

import struct
from fractions import Fraction


def decimal(exact: Fraction, kind: str) -> str:
    """The literal without a suffix, of a number of kind "f32" or "f64"; "inf" or "-inf" for what lies beyond it."""
    try:
        value = float(exact)
        if kind == "f32":
            value = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return "inf" if exact > 0 else "-inf"
    if kind != "f32":
        return repr(value)
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            return repr(float(text))
    raise AssertionError("17 digits name every double")
