"""Device files: what is written is read; what cannot be is refused, and the field is named."""

import copy
import json
from dataclasses import asdict, replace
from itertools import pairwise

import pytest

from tang_verified.ceilings import caches, described
from tang_verified.device_file import FORMAT, DeviceError, Rate, better, find, parse, read, shipped, write


@pytest.fixture
def device(measured_here):
    return measured_here


def test_round_trip(device, tmp_path):
    path = write(device, tmp_path / "d.json")
    assert read(path) == device == find(path)
    assert "DRAM" in "\n".join(described(device))


def test_memories_are_nested_and_caches_come_from_the_system(device):
    assert [b.name for b in device.boundaries] == [*(f"L{c.level}" for c in caches(device.units)), "DRAM"]
    assert all(a.bandwidth.all >= b.bandwidth.all for a, b in pairwise(device.boundaries))
    assert device.rates["operations float32"].one > device.rates["multiply float32"].one > device.rates["special float32"].one


def test_no_ceiling_falls(device):
    slow = replace(device, rates={name: Rate(r.one / 2, r.all / 2) for name, r in device.rates.items()}, launch={"call": 1.0})
    assert better(device, slow).rates == device.rates == better(slow, device).rates
    assert better(device, slow).launch["call"] == device.launch["call"]
    with pytest.raises(DeviceError, match="two machines"):
        better(device, replace(device, machine={"processor": "another"}))


@pytest.mark.parametrize(("change", "named"), [
    (lambda d: d.update(format="2"), "format"),
    (lambda d: d.pop("launch"), "launch"),
    (lambda d: d.update(surprise=1), "surprise"),
    (lambda d: d.update(kind="guessed"), "kind"),
    (lambda d: d.update(units=0), "units"),
    (lambda d: d["rates"].pop("multiply float32"), "multiply float32"),
    (lambda d: d["rates"]["add float32"].update(one=-1.0), "add float32"),
    (lambda d: d["rates"]["add float32"].update(one=float("nan")), "add float32"),
    (lambda d: d["rates"]["add float32"].update(all=True), "add float32"),
    (lambda d: d["boundaries"].reverse(), "nearer"),
    (lambda d: d["boundaries"][0].update(fast_bytes=1.5), "fast_bytes"),
    (lambda d: d["boundaries"][0]["bandwidth"].update(all=1.0), "faster"),
    (lambda d: d.update(boundaries=[]), "boundaries"),
])  # fmt: skip
def test_malformed(device, change, named):
    data = {"format": FORMAT, **copy.deepcopy(json.loads(json.dumps(asdict(device))))}
    parse(data)
    change(data)
    with pytest.raises(DeviceError, match=named):
        parse(data)


def test_files_that_are_none(tmp_path):
    for text in ("", "[1, 2", "3", "[" * 100_000):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(DeviceError):
            read(tmp_path / "x.json")
    with pytest.raises(DeviceError, match="no device"):
        find("abacus")


def test_descriptions_say_that_they_are_not_measured():
    assert shipped()
    assert all(read(path).kind == "described, not measured" for path in shipped().values())
