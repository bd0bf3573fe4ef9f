"""`tang-verified bound`: the traffic bound of each kernel of a certificate, at given sizes, in lines to read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tang_verified.bounds import traffic
from tang_verified.device_file import Device
from tang_verified.errors import TangError
from tang_verified.floor import floor_of
from tang_verified.proofs.certificate import CertificateData
from tang_verified.semantics.program import Program

UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 10**6, "GB": 10**9}


class BoundError(TangError, ValueError):
    """A size or a capacity that means nothing, or is missing."""


def capacity_of(text: str) -> int:
    """Bytes: 32768, 32KiB, 1.5MiB.

    >>> capacity_of("32KiB")
    32768
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if found is None or found[2] not in UNITS or not (size := int(float(found[1]) * UNITS[found[2]])):
        raise BoundError(f"capacity {text!r}: write bytes, as 32768, 32KiB or 1.5MiB")
    return size


def sizes_of(program: Program, given: Sequence[str]) -> dict[str, int]:
    """{"n": 4096} of ["n=4096"]: every size of the program, within its range."""
    sizes: dict[str, int] = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not equals or not number.isdecimal() or len(number) > 18:
            raise BoundError(f"--size {text!r}: write NAME=NUMBER, as n=4096")
        sizes[name] = int(number)
    known = {size.name: size for size in program.sizes}
    if missing := [name for name in known if name not in sizes]:
        raise BoundError(f"{program.name} needs {' '.join(f'--size {name}=…' for name in missing)}")
    for name, value in sizes.items():
        if name not in known:
            raise BoundError(f"{program.name} has no size {name!r}; it has {', '.join(known) or 'none'}")
        if not known[name].low <= value <= known[name].high:
            raise BoundError(f"{name} = {value}; the certificate covers {known[name].low} to {known[name].high}")
    return sizes


def bounds(
    certificate: CertificateData, given: Sequence[str], capacity: str, processors: int, resident: bool, device: Device | None
) -> list[str]:  # fmt: skip
    kernels = certificate.kernels
    program = kernels[0].program
    sizes, held = sizes_of(program, given), capacity_of(capacity)
    out = [f"certificate sha256:{certificate.digest}"]
    for kernel in kernels:
        found = traffic(kernel, sizes, held, processors, resident=resident)
        where = f"{held} bytes" + (f" of each of {processors} processors" if processors > 1 else "")
        out += [
            f"kernel {kernel.name}: at least {found.bytes} bytes to and from a fast memory of {where}"
            f"{', operands resident' if resident else ', caches cold'}",
            f"  why: {found.why}",
            f"  touched at least once: {found.compulsory} bytes",
        ]
        out += [f"  assumed of data: {text}" for text in found.assumes]
        if found.tile and found.tile_bytes is not None:
            tile = ", ".join(f"{axis} {extent}" for axis, extent in found.tile.items())
            ratio = found.tile_bytes / max(found.bytes, 1)
            out.append(f"  a tile: {tile}; tile by tile {found.tile_bytes} bytes, {ratio:.2f} × the bound")
    if device is not None:
        floor = floor_of(kernels, sizes, device, "resident" if resident else "cold")
        out.append(f"floor on {device.name} ({device.kind}): {floor.seconds:.4g} s, {floor.binding}")
        out += [f"  {k.name}: {term.name}: {term.seconds:.4g} s ({term.why})" for k in floor.kernels for term in k.terms[:3]]
    return out
