"""What a device can do at most, in a file: written by `tang-verified ceilings`, or a description from a datasheet.

    device = find("measured.json")          # or a name: a device measured before, or one of devices/*.json
    device.boundary("DRAM").bandwidth.all   # bytes a second
    device.rates["multiply float32"].one    # multiplications a second of one thread

A *boundary* is named for the memory beyond it: what crosses "L2" goes between L1 with the registers, and L2. `fast_bytes` is
all that one fast memory holds, nearer ones and registers included; there are `instances` of them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from tang_verified.errors import TangError

FORMAT = "tang_verified device 1"
KINDS = {"measured": "measured", "described": "described, not measured"}
NEEDED = tuple(f"{what} {dtype}" for dtype in ("float32", "float64") for what in ("multiply", "add", "operations", "special"))
LIMIT = 1 << 20  # bytes of a device file


class DeviceError(TangError, ValueError):
    """A device file that is missing, or says something that cannot be."""


@dataclass(frozen=True)
class Rate:
    """A second, at most: of one unit (a CPU's thread, a GPU's multiprocessor), and of all together."""

    one: float
    all: float

    def of(self, units: int) -> float:
        """Of some units: not more than all, nor than so many times one."""
        return min(self.all, units * self.one)


@dataclass(frozen=True)
class Boundary:
    """The way to a memory, in bytes a second: `bandwidth` in both directions together, `read` and `written` of each.

    `patterns`: what each pattern of access reached, in both together.
    """

    name: str
    fast_bytes: int
    instances: int
    bandwidth: Rate
    read: Rate
    written: Rate
    patterns: Mapping[str, Rate] = field(default_factory=dict)


@dataclass(frozen=True)
class Device:
    """Ceilings. `rates` are those no kernel exceeds; `ours` what this backend's functions reach, to explain a gap with.

    `launch`: seconds of "call" (an empty kernel), "region" (into a parallel region and out again), "python" (the smallest
    kernel, called as a user calls it).
    """

    name: str
    kind: str  # "measured" or "described, not measured"
    backend: str
    date: str
    units: int
    boundaries: tuple[Boundary, ...]
    rates: Mapping[str, Rate]
    launch: Mapping[str, float]
    ours: Mapping[str, Rate] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    how: Mapping[str, str] = field(default_factory=dict)

    def boundary(self, name: str) -> Boundary:
        for boundary in self.boundaries:
            if boundary.name == name:
                return boundary
        raise DeviceError(f"{self.name} has no memory {name!r}; it has {', '.join(b.name for b in self.boundaries)}")

    def rate(self, name: str) -> Rate:
        if name not in self.rates:
            raise DeviceError(f"{self.name} has no rate {name!r}; it has {', '.join(sorted(self.rates))}")
        return self.rates[name]


def better(old: Device, new: Device) -> Device:
    """The new measurement, with each ceiling as high as the old one saw it: a busy machine must not lower a ceiling."""

    def rates(a: Mapping[str, Rate], b: Mapping[str, Rate]) -> dict[str, Rate]:
        return {k: Rate(max(r.one, b[k].one), max(r.all, b[k].all)) if k in b else r for k, r in {**b, **a}.items()}

    if (old.backend, old.units, old.machine) != (new.backend, new.units, new.machine):
        raise DeviceError(f"{old.name} and {new.name} are two machines")
    past = {b.name: b for b in old.boundaries}
    boundaries = []
    for b in new.boundaries:
        before = past.get(b.name, b)
        patterns = rates(b.patterns, before.patterns)
        both, read, written = (rates({"": now}, {"": then})[""] for now, then in zip(_three(b), _three(before), strict=True))
        boundaries.append(Boundary(b.name, b.fast_bytes, b.instances, both, read, written, patterns))
    launch = {k: min(cost, old.launch.get(k, cost)) for k, cost in new.launch.items()}
    return Device(
        new.name, new.kind, new.backend, new.date, new.units, tuple(boundaries), rates(new.rates, old.rates), launch,
        rates(new.ours, old.ours), new.machine, new.versions, new.how,
    )  # fmt: skip


def _three(b: Boundary) -> tuple[Rate, Rate, Rate]:
    return b.bandwidth, b.read, b.written


# -- files ----------------------------------------------------------------------------------------------------------


def folder() -> Path:
    """`$XDG_CACHE_HOME/tang_verified/devices`."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tang_verified" / "devices"


def shipped() -> dict[str, Path]:
    """Descriptions that come with the package, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "devices").glob("*.json"))}


def measured() -> dict[str, Path]:
    """Devices that were measured here, by name."""
    return {path.stem: path for path in sorted(folder().glob("*.json"))}


def find(name: str | Path) -> Device:
    """A device by file, or by the name of one measured here or described in the package."""
    known = {**shipped(), **measured()}
    path = Path(name)
    if path.suffix == ".json" or path.is_file():
        return read(path)
    if str(name) in known:
        return read(known[str(name)])
    there = f"there are: {', '.join(known)}" if known else "run: tang-verified ceilings"
    raise DeviceError(f"no device {str(name)!r}: neither a file nor a name ({there})")


def write(device: Device, path: Path) -> Path:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **asdict(device)}, indent=1, ensure_ascii=False) + "\n"
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".device-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def read(path: Path) -> Device:
    try:
        if path.stat().st_size > LIMIT:
            raise DeviceError(f"{path}: larger than a device file is ({LIMIT} bytes)")
        data = json.loads(path.read_text())
    except OSError as problem:
        raise DeviceError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DeviceError(f"{path} is no JSON: {problem}") from None
    try:
        return parse(data)
    except DeviceError as problem:
        raise DeviceError(f"{path}: {problem}") from None


def parse(data: Any) -> Device:
    """A device from JSON; `DeviceError` names the field that is wrong."""
    fields = ("format", *(field.name for field in dataclass_fields(Device)))
    top = _table(data, "the file")
    if top.get("format") != FORMAT:
        raise DeviceError(f"format is {top.get('format')!r}, not {FORMAT!r}")
    if set(top) != set(fields):
        odd = sorted(set(top) ^ set(fields))
        raise DeviceError(f"{', '.join(odd)}: {'missing' if odd[0] in fields else 'unknown'}")
    kind = _text(top["kind"], "kind")
    if kind not in KINDS.values():
        raise DeviceError(f"kind is {kind!r}, not one of {', '.join(KINDS.values())}")
    boundaries = top["boundaries"]
    if not isinstance(boundaries, list) or not boundaries:
        raise DeviceError("boundaries: a list of one at least")
    made = tuple(_boundary(entry, f"boundaries[{k}]") for k, entry in enumerate(boundaries))
    if len({b.name for b in made}) != len(made):
        raise DeviceError("boundaries: two of one name")
    for near, far in pairwise(made):
        if near.fast_bytes * near.instances > far.fast_bytes * far.instances or near.bandwidth.all < far.bandwidth.all:
            raise DeviceError(f"boundaries: {near.name} is not nearer than {far.name} (less capacity, more bandwidth)")
    rates = _rates(top["rates"], "rates")
    if missing := [name for name in NEEDED if name not in rates]:
        raise DeviceError(f"rates: missing {', '.join(missing)}")
    launch = {k: _positive(v, f"launch.{k}") for k, v in _table(top["launch"], "launch").items()}
    if "call" not in launch:
        raise DeviceError("launch: missing call")
    return Device(
        _text(top["name"], "name"), kind, _text(top["backend"], "backend"), _text(top["date"], "date"),
        _whole(top["units"], "units"), made, rates, launch, _rates(top["ours"], "ours"), _texts(top["machine"], "machine"),
        _texts(top["versions"], "versions"), _texts(top["how"], "how"),
    )  # fmt: skip


def _boundary(data: Any, what: str) -> Boundary:
    entry = _table(data, what)
    fields = ("name", "fast_bytes", "instances", "bandwidth", "read", "written", "patterns")
    if set(entry) != set(fields):
        raise DeviceError(f"{what}: {', '.join(fields)}, not {', '.join(sorted(entry))}")
    rate, read, written = (_rate(entry[name], f"{what}.{name}") for name in ("bandwidth", "read", "written"))
    if max(read.one, written.one) > rate.one or max(read.all, written.all) > rate.all:
        raise DeviceError(f"{what}: one direction is faster than both together")
    patterns = _rates(entry["patterns"], f"{what}.patterns")
    if any(p.one > rate.one or p.all > rate.all for p in patterns.values()):
        raise DeviceError(f"{what}: a pattern is faster than the bandwidth, which is the best of them")
    return Boundary(
        _text(entry["name"], what), _whole(entry["fast_bytes"], f"{what}.fast_bytes"),
        _whole(entry["instances"], f"{what}.instances"), rate, read, written, patterns,
    )  # fmt: skip


def _rates(data: Any, what: str) -> dict[str, Rate]:
    return {name: _rate(entry, f"{what}.{name}") for name, entry in _table(data, what).items()}


def _rate(data: Any, what: str) -> Rate:
    entry = _table(data, what)
    if set(entry) != {"one", "all"}:
        raise DeviceError(f"{what}: one and all")
    return Rate(_positive(entry["one"], f"{what}.one"), _positive(entry["all"], f"{what}.all"))


def _positive(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value <= 0:
        raise DeviceError(f"{what} is {value!r}, not a positive number")
    return float(value)


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise DeviceError(f"{what} is {value!r}, not a positive whole number")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise DeviceError(f"{what} is {value!r}, not a text")
    return value


def _texts(data: Any, what: str) -> dict[str, str]:
    return {name: _text(entry, f"{what}.{name}") for name, entry in _table(data, what).items()}


def _table(data: Any, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise DeviceError(f"{what} is not an object of JSON")
    return data
