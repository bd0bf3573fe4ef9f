"""The helper functions that a C text may carry at its head: known by name, accepted only letter by letter.

"exp_f32x16"  ->  the text of exp on 16 floats, and before it the names of what it uses
"""

from __future__ import annotations

import re

from tang_verified.proofs.readback import c_helpers, c_math
from tang_verified.proofs.readback.syntax import Kind

ELEMENTS: dict[str, str] = {
    "float16": "uint16_t", "float32": "float", "float64": "double", "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t",
}  # fmt: skip
WHOLE = {"TV_SHUFFLE": c_helpers.SHUFFLE, "TV_HALF": c_helpers.HALF, "tv_allocate": c_helpers.ALLOCATE}
FIRST = re.compile(r"typedef \w+ (\w+) |static inline (?:__attribute__\(\(always_inline\)\) )?\w+ (\w+)\(|#define (\w+)\(")
ALIASES = {"tv_times": "tv_allocate", "half_to_float": "TV_HALF"}
ACCESS = re.compile(r"(load|store)_(float16|float32|float64|int32|int64|bool)_([fim]\d+x\d+)(_strided)?(_if)?")
LANES = 64  # the most lanes of a vector
Known = tuple[str, tuple[str, ...]]  # text, and what must stand before it


def vector(name: str) -> Kind | None:
    """f32x16, i64x8, m32x16 as types."""
    found = re.fullmatch(r"(f32|f64|i64|m32|m64)x([1-9]\d?)", name)
    if found is None or not 1 < int(found[2]) <= LANES:
        return None
    if found[1][0] == "m":
        return Kind("bool", int(found[2]), int(found[1][1:]))
    return Kind(found[1], int(found[2]))


def name_in(paragraph: str) -> str | None:
    """What a paragraph defines, as it claims."""
    found = FIRST.search(paragraph)
    name = next((group for group in found.groups() if group), None) if found else None
    return ALIASES.get(name, name) if name else None


def known(name: str) -> list[Known]:
    """The texts that a helper of that name may have (more than one: the lane size of a mask differs)."""
    if name in WHOLE:
        return [(WHOLE[name], ())]
    kind = vector(name)
    if kind is not None:
        return [(c_helpers.typedef(kind), ())]
    if (found := ACCESS.fullmatch(name)) is not None and (kind := vector(found[3])) is not None:
        return [_access(found, kind._replace(bits=bits)) for bits in ([kind.bits] if kind.kind == "bool" else [32, 64])]
    operation, _, last = name.rpartition("_")
    kind = vector(last)
    if kind is None:
        if operation in c_helpers.SCALAR and last in c_helpers.ELEMENT:
            return [(c_helpers.scalar(operation, last), ())]
        return []
    own = (c_helpers.name_of(kind),)
    if operation == "splat":
        return [(c_helpers.splat(kind), own)]
    if operation in ("below", "from", "equal") and kind.kind == "bool":
        return [(c_helpers.lane_mask(operation, kind), own)]
    if operation == "any" and kind.kind == "bool":
        return [(c_helpers.any_lane(kind), own)]
    if operation in ("select_m32", "select_m64"):
        listed = [c_helpers.vector("select", kind._replace(bits=int(operation[-2:])))] if kind.kind != "bool" else []
        listed += [c_helpers.vector("select", kind)] if kind.kind == "bool" and kind.bits == int(operation[-2:]) else []
    elif (operation, kind.kind) in c_math.AVAILABLE:
        listed = [c_math.definition(operation, kind)]
    elif kind.kind != "bool" and operation in (*c_helpers.SCALAR, *c_helpers.UNARY, "pow"):
        listed = [c_helpers.vector(operation, kind)]
    elif operation == "clamp" and kind.kind in ("f32", "f64"):
        listed = [[*c_helpers.vector("select", kind._replace(bits=int(kind.kind[1:]))), (name, c_math.clamp(kind))]]
    else:
        listed = []
    return [(parts[-1][1], tuple(part for part, _ in parts[:-1])) for parts in listed]


def _access(found: re.Match[str], kind: Kind) -> Known:
    verb, dtype, name, strided, masked = found.groups()
    needs = [name, *([f"m{kind.bits}x{kind.width}"] if masked else []), *(["TV_HALF"] if dtype == "float16" else [])]
    return c_helpers.access(verb, dtype, ELEMENTS[dtype], kind, bool(strided), bool(masked)), tuple(needs)
