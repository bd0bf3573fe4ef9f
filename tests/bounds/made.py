"""Devices of round numbers, and the examples' functions."""

import importlib.util
from pathlib import Path

from tang_verified.device_file import NEEDED, Boundary, Device, Rate

ROOT = Path(__file__).resolve().parent.parent.parent


def programs(file, name=""):
    found = importlib.util.spec_from_file_location(file, ROOT / "examples" / f"{file}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, name or file)


def device_of(units):
    """A CPU of `units` threads: 64 GB/s of L1 and 16 G operations/s each."""

    def boundary(name, fast, instances, rate):
        return Boundary(name, fast, instances, Rate(rate, rate * units), Rate(rate, rate * units), Rate(rate, rate * units))

    return Device(
        "made", "described, not measured", "c", "2026-01-01", units,
        (boundary("L1", 2048, units, 64e9), boundary("L2", 32 << 10, units, 32e9), boundary("DRAM", (1 << 20) * units, 1, 8e9)),
        {name: Rate(16e9, 16e9 * units) for name in NEEDED}, {"call": 1e-6},
    )  # fmt: skip
