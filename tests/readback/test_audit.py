"""Audits of folders in which a source was changed, and its digest in the certificate with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tang_verified.auditing import audit
from tang_verified.compiler import compile
from tang_verified.proofs.certificate import spell, text_digest
from tests.proofs.samples import certificate, softmax, sources

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


def test_texts_of_several_kernels_that_no_certificate_names(tmp_path: Path) -> None:
    """NAME.KERNEL.c bears the certificate's name as NAME.c does."""
    made = compile(lambda x: (x + x, x.sum(axis=0)), x="n m", name="two")
    saved = made.save(tmp_path)
    assert len(saved) == 3 and audit(tmp_path).exit_code == 0
    data = json.loads(saved[-1].read_text("utf-8"))
    data["body"]["sources"] = {}
    saved[-1].write_text(spell(data["body"], data["provers"]), "utf-8")
    assert [f.verdict for f in audit(tmp_path).findings] == ["mismatch", "mismatch"]


def test_another_word_on_rounding(tmp_path: Path) -> None:
    forge(tmp_path, str)
    path = tmp_path / "softmax.cert.json"
    data = json.loads(path.read_text("utf-8"))
    data["body"]["arithmetic"][0] = "C: every result is exact"
    path.write_text(spell(data["body"], data["provers"]), "utf-8")
    (finding,) = audit(path).findings
    assert finding.obligation == "arithmetic" and audit(path).exit_code == 1


def test_a_node_of_the_wrong_sort(tmp_path: Path) -> None:
    """A finding, no traceback."""
    forge(tmp_path, str)
    path = tmp_path / "softmax.cert.json"
    data = json.loads(path.read_text("utf-8"))
    nodes = data["body"]["nodes"]
    number = next(k for k, node in enumerate(nodes) if node[0] == "var")
    for node in nodes:
        if node[:2] == ["op", "sub"]:
            node[2][1] = number
    path.write_text(spell(data["body"], data["provers"]), "utf-8")
    assert audit(path).exit_code in (1, 4)


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


def test_a_text_of_another_language_than_the_table(tmp_path: Path) -> None:
    """One kernel may have texts in CUDA and Metal; what their languages say of rounding differs."""
    made = compile(softmax, x="n m", backend="cuda")
    path = made.save(tmp_path)[-1]
    assert audit(path).exit_code == 0
    data = json.loads(path.read_text("utf-8"))
    (name,) = data["body"]["sources"]
    other = name.removesuffix(".cu") + ".metal"
    metal = text("softmax.metal").replace("t4_div_1", next(re.finditer(r"(\w+)\(const float", made.source))[1])
    data["body"]["sources"][other] = text_digest(metal)
    (tmp_path / other).write_text(metal, "utf-8")
    path.write_text(spell(data["body"], data["provers"]), "utf-8")
    (finding,) = audit(path).findings
    assert finding.obligation == "arithmetic" and audit(path).exit_code == 1


@pytest.mark.parametrize("name", ["softmax.wgsl", "other.c", "softmax.a-b.cl", "softmax.x.y.cl", "SOFTMAX.CL", "more.comp"])
def test_texts_in_a_folder_that_no_certificate_names(tmp_path: Path, name: str) -> None:
    made = compile(softmax, x="n m", backend="opencl", name="softmax")
    made.save(tmp_path, beside=True)
    assert audit(tmp_path).exit_code == 0
    (tmp_path / name).write_text("int evil;\n", "utf-8")
    report = audit(tmp_path)
    assert report.exit_code == 1 and [finding.obligation for finding in report.findings] == [name]
