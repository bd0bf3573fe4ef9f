"""Audits of folders in which a source was changed, and its digest in the certificate with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tang_verified.auditing import audit
from tang_verified.proofs.certificate import spell, text_digest
from tests.proofs.samples import certificate, sources

from .texts import text

Change = Callable[[str], str]


def forge(folder: Path, change: Change, suffix: str = "c") -> None:
    """A folder whose certificate vouches for the changed text."""
    changed = change(sources("softmax")["softmax.c"])
    data = json.loads(certificate("softmax"))
    data["body"]["sources"] = {f"softmax.{suffix}": text_digest(changed)}
    (folder / "softmax.cert.json").write_text(spell(data["body"], data["provers"]), "utf-8")
    (folder / f"softmax.{suffix}").write_text(changed, "utf-8")


def test_the_text_as_it_was_printed(tmp_path: Path) -> None:
    forge(tmp_path, str)
    assert audit(tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [(" = expf(", " = logf("), ("k < 16", "k < 15"), ("0x1.5558c6p-5f", "0x1.5558c7p-5f"), ("#include <math.h>", "#define expf logf")],
)
def test_a_forged_text_and_digest(tmp_path: Path, old: str, new: str) -> None:
    forge(tmp_path, lambda text: text.replace(old, new, 1))
    line = sources("softmax")["softmax.c"].split(old)[0].count("\n") + 1
    report = audit(tmp_path)
    assert report.exit_code == 1
    (finding,) = report.findings
    assert finding.rule == "read-back" and str(line) in re.findall(r"\d+", finding.message), finding


def test_a_language_without_a_reader(tmp_path: Path) -> None:
    forge(tmp_path, str, "spv")
    report = audit(tmp_path)
    assert report.exit_code == 3 and "no reader" in report.findings[0].message


@pytest.mark.parametrize("suffix", ["cl", "cu", "metal", "comp", "wgsl"])
def test_a_forged_text_for_a_gpu(tmp_path: Path, suffix: str) -> None:
    """The certificate's kernel is C's; a text for a GPU beside it does not say what it says."""
    forge(tmp_path, lambda _: text(f"softmax.{suffix}"), suffix)
    report = audit(tmp_path)
    assert report.exit_code == 1 and report.findings[0].rule == "read-back"


def test_a_text_alone_changed_is_named_twice(tmp_path: Path) -> None:
    forge(tmp_path, str)
    path = tmp_path / "softmax.c"
    path.write_text(path.read_text("utf-8").replace(" = expf(", " = logf("), "utf-8")
    rules = [finding.rule for finding in audit(tmp_path).findings]
    assert rules == ["", "read-back"]
