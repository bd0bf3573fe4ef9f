"""Certificates state the bounds; an audit derives them again, and refuses a bound, or a number, that is not what follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.auditing import audit
from tang_verified.backends import get
from tang_verified.proofs.certificate import read, rounding_of, spell
from tang_verified.proofs.rounding_text import numbers, rational

Data = dict[str, Any]


def two(x: Any) -> Any:
    """Two kernels, of which the second reads what the first stores."""
    xp = x.__array_namespace__()
    y = xp.exp(x)
    return y, y.sum(axis=0)


@cache
def compiled() -> tv.CompiledKernel:
    return tv.compile(two, x="n m", name="two")


def bound(part: Data, number: int = -1) -> Data:
    found: Data = part["rounding"]["bounds"][number]
    return found


def in_bound(change: Callable[[list[str]], None], key: str = "bound") -> Callable[[Data], None]:
    return lambda part: change(bound(part)[key])


def swap(old: str, new: str, key: str = "bound") -> Callable[[Data], None]:
    def edit(part: Data) -> None:
        lines = bound(part)[key]
        assert any(old in line for line in lines), lines
        lines[:] = [line.replace(old, new) for line in lines]

    return edit


def of_another_kernel(part: Data) -> None:
    bound(part)["bound"] = bound(part, 0)["bound"]


def in_numbers(key: str, value: Any) -> Callable[[Data], None]:
    return lambda part: part["rounding"]["numbers"].__setitem__(key, value)


def ulp_of_exp(part: Data) -> None:
    for entry in part["rounding"]["numbers"]["ulps"]:
        if entry[0] == "exp":
            entry[2] = "1"


ALTERED: dict[str, tuple[Callable[[Data], None], int, str]] = {
    "a smaller unit roundoff in a bound": (swap("2^-24", "2^-53"), 1, "rounding/{last}/{last}"),
    "a smaller depth": (swap("− 1) · 2^-24", "− 9) · 2^-24"), 1, "rounding/{last}/{last}"),
    "no error of what is read": (swap(".error[", "["), 1, "rounding/{last}/{last}"),
    "a first-order bound that is smaller": (swap("2^-24", "2^-25", "short"), 1, "rounding/{last}/{last}"),
    "a line left out": (in_bound(lambda lines: lines.pop(0)), 1, "rounding/{last}/{last}"),
    "a line more": (in_bound(lambda lines: lines.append("|xp − exact| ≤ 0")), 1, "rounding/{last}/{last}"),
    "the bound of another kernel": (of_another_kernel, 1, "rounding/{last}/{last}"),
    "a reason for no bound": (in_bound(lambda lines: lines.append("none"), "reasons"), 1, "rounding/{last}/{last}"),
    "other axes": (in_bound(lambda axes: axes.append("i9"), "axes"), 1, "rounding/{last}/{last}"),
    "a bound left out": (lambda part: part["rounding"]["bounds"].pop(), 1, "rounding/{last}/{last}"),
    "a bound twice": (lambda part: part["rounding"]["bounds"].append(bound(part)), 1, "rounding/bounds"),
    "a bound of nothing": (
        lambda part: part["rounding"]["bounds"].append({**bound(part), "output": "gone"}), 1, "rounding/{last}/gone"
    ),
    "another unit roundoff": (lambda part: part["rounding"]["numbers"]["units"].update(float32="1/2"), 1, "rounding/numbers"),
    "exp within 1 ulp": (ulp_of_exp, 1, "rounding/{first}/{first}"),
    "results are neighbours": (in_numbers("neighbours", True), 1, "rounding/numbers"),
    "a flag that is no bool": (in_numbers("flushed", 0), 4, "read"),
    "an ulp that is no rational": (lambda part: part["rounding"]["numbers"]["ulps"][0].__setitem__(2, "1/0"), 4, "read"),
    "a dtype that is none": (lambda part: part["rounding"]["numbers"]["ulps"][0].__setitem__(1, "float8"), 4, "read"),
    "bounds that are no list": (lambda part: part["rounding"].__setitem__("bounds", {}), 4, "read"),
    "lines that are no text": (in_bound(lambda lines: lines.__setitem__(0, 7)), 4, "read"),  # type: ignore[call-overload]
}  # fmt: skip


def saved(folder: Path, change: Callable[[Data], None]) -> Path:
    path = compiled().save(folder)[-1]
    data = json.loads(path.read_text("utf-8"))
    change(data["body"])
    path.write_text(spell(data["body"], data["provers"]), "utf-8")
    return path


def test_as_it_was_written(tmp_path: Path) -> None:
    assert audit(saved(tmp_path, lambda part: None)).exit_code == 0


@pytest.mark.parametrize("name", ALTERED)
def test_altered(name: str, tmp_path: Path) -> None:
    change, code, obligation = ALTERED[name]
    report = audit(saved(tmp_path, change))
    assert report.exit_code == code and report.certified is None
    names = {"first": compiled().certified.kernels[0].name, "last": compiled().certified.kernels[-1].name}
    assert obligation.format(**names) in [finding.obligation for finding in report.findings], report.findings


def test_numbers_that_no_language_states(tmp_path: Path) -> None:
    """The bounds follow from the numbers, but the numbers are not those of the language."""
    stated = get("c").arithmetic().numbers()
    made = replace(stated, functions={key: Fraction(1, 2) for key in stated.functions})

    def change(part: Data) -> None:
        part["rounding"] = rounding_of(compiled().certified.kernels, made)

    (finding,) = audit(saved(tmp_path, change)).findings
    assert finding.obligation == "rounding/numbers" and finding.verdict == "mismatch"


def test_no_bound_is_a_bound_given_up(tmp_path: Path) -> None:
    """Nothing is claimed then, and nothing refused; `diff` tells it."""
    from tang_verified.compare import compare

    path = saved(tmp_path, lambda part: part.__setitem__("rounding", None))
    assert audit(path).exit_code == 0
    found = compare(read(compiled().certificate), read(path.read_text("utf-8")))
    assert "weaker: rounding bound" in map(str, found)


def test_explain_shows_it() -> None:
    text, last = compiled().explain(), compiled().certified.kernels[-1].name
    assert f"{last}, by kernel {last}" in text and f"|{last}[i0] − exact| ≤" in text


def test_the_bound_of_a_dot_product_is_gamma_times_the_sum_of_sizes() -> None:
    """|fl − exact| ≤ γ_n Σ|a||b| and a rounding of each product, with n of the kernel's own loops."""
    kernel = tv.compile(lambda x, y: (x * y).sum(), x="n", y="n", name="dot")
    x, y = np.random.default_rng(0).standard_normal((2, 4096)).astype("float32")
    got, total = float(kernel.error_bound(x, y)), float(np.abs(x.astype(float) * y).sum())
    unit, depth = 2.0**-24, 4 * 64 - 1 + 4
    expected = (depth * unit / (1 - depth * unit) * (1 + unit) + unit) * total
    assert expected <= got <= 1.00001 * expected + 1e-30


def test_a_language_without_numbers_has_no_bound() -> None:
    kernel = tv.compile(lambda x: x + x, x="n", backend="wgsl")
    (said,) = json.loads(kernel.certificate)["body"]["rounding"]["bounds"]
    assert said["bound"] == [] and said["reasons"] == ["WGSL lets sums be reassociated"]
    assert np.isinf(kernel.error_bound(np.ones(3, "float32"))).all()
    assert "no bound: WGSL lets sums be reassociated" in kernel.explain()


@pytest.mark.parametrize(("value", "text"), [(Fraction(1, 2**24), "2^-24"), (Fraction(3, 8), "3·2^-3"), (Fraction(1, 3), "1/3")])
def test_rationals_in_full(value: Fraction, text: str) -> None:
    assert rational(value) == text


@pytest.mark.parametrize("name", ["c", "opencl", "cuda", "metal", "glsl", "wgsl"])
def test_numbers_of_every_language(name: str) -> None:
    stated = get(name).arithmetic().numbers()
    said = numbers(stated)
    assert said["neighbours"] == (name in ("glsl", "wgsl")) and said["flushed"] == (name not in ("c", "cuda"))
    assert bool(said["unsaid"]) == (name == "wgsl")
