"""Reports in every form, from rows that stand here: what they hold, and that HTML needs nothing else."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

import tang_verified as tv
from tang_verified.benching import BenchError, measured, write_rows
from tang_verified.cli import main
from tang_verified.device_file import write
from tang_verified.performance_report import gather, render
from tests.bounds.made import device_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two rows of a product, its certificate, and a device file."""
    into = tmp_path_factory.mktemp("report")
    kernel = tv.compile(lambda a, b: a @ b, a="n k", b="k m", name="product")
    kernel.save(into)
    device = device_of(2)
    rows = [
        measured(f"{n} < & \\ _", kernel, lambda n=n: [np.ones((n, n), "f")] * 2, device, state=state, seconds=0.01, family="product")
        for n, state in ((40, "cold"), (64, "resident"))
    ]
    write_rows(into / "rows.json", device, rows)
    write(device, into.parent / "device.json")
    return into


def test_json(folder):
    data = json.loads(render(gather(folder), "json"))
    assert [entry["family"] for entry in data["entries"]] == ["product", "product"]
    for entry in data["entries"]:
        assert entry["floor"] <= entry["minimum"]
        assert sum(part for _, part in entry["parts"]) == pytest.approx(entry["minimum"])
        assert entry["traffic_measured"].startswith("no counters")
        assert entry["error_certified"] is None


def test_the_certified_error_is_shown_where_the_rows_have_it(folder, tmp_path):
    data = json.loads((folder / "rows.json").read_text())
    for row in data["rows"]:
        row["error_certified"] = 3.25e-6
    (tmp_path / "rows.json").write_text(json.dumps(data))
    assert "3.2e-06" in render(gather(tmp_path / "rows.json"), "md")


def test_citation(folder):
    digest = json.loads((folder / "product.cert.json").read_text())["digest"]
    for form in ("md", "html", "latex", "json"):
        text = render(gather(folder / "rows.json"), form)
        assert digest in text
        assert "@misc{tang_verified:product" in text
        assert "tang-verified audit product.cert.json" in text
        assert "tang-verified bound product.cert.json" in text or form == "latex"
        assert "takes at least" in text


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_html_is_one_file(folder):
    text = render(gather(folder), "html")
    tags = Tags()
    tags.feed(text)
    names = {tag for tag, _ in tags.found}
    assert not names & {"script", "link", "img", "iframe", "object", "embed"}
    for _, attributes in tags.found:
        for name in ("src", "href", "xlink:href", "data"):
            assert attributes.get(name, "#").startswith("#")
    assert not re.search(r"url\((?!#)|@import", text)
    assert "svg" in names
    assert "40 &lt; &amp;" in text


def test_latex_escapes(folder):
    text = render(gather(folder), "latex")
    assert r"40 $<$" in text or r"40 < \& \textbackslash{} \_" in text


def test_another_device(folder):
    slow = gather(folder, device_of(1))
    fast = gather(folder, device_of(2))
    assert slow.entries[1].floor >= fast.entries[1].floor


def test_certificates_without_rows(folder, tmp_path):
    (tmp_path / "product.cert.json").write_text((folder / "product.cert.json").read_text())
    report = gather(tmp_path)
    assert not report.entries and report.unmeasured[0]["file"] == "product.cert.json"
    for form in ("md", "html", "latex", "json"):
        render(report, form)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "tang_verified bench 1", "rows": [{}]}', '{"rows": 3}'])
def test_rows_that_are_none(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(BenchError):
        gather(tmp_path / "x.json")


def test_bound_on_the_command_line(folder):
    run = CliRunner().invoke(main, [
        "bound", str(folder / "product.cert.json"), "--size", "n=512", "--size", "k=512", "--size", "m=512", "--capacity", "32KiB",
        "--device", str(folder.parent / "device.json"),
    ])  # fmt: skip
    assert run.exit_code == 0, run.output
    assert "at least" in run.output and "a tile" in run.output and "floor on made" in run.output
    ratio = float(re.search(r"([\d.]+) × the bound", run.output)[1])
    assert 1 <= ratio < 4


@pytest.mark.parametrize(("options", "said"), [
    (["--size", "n=4"], "--size k"), (["--size", "n"], "NAME=NUMBER"), (["--size", "n=4", "--size", "k=4", "--size", "m=4", "--size", "z=1"], "no size"),
    (["--size", "n=4", "--size", "k=4", "--size", "m=4", "--capacity", "12 parsecs"], "capacity"),
    (["--size", "n=4", "--size", "k=4", "--size", "m=4", "--device", "abacus"], "no device"),
])  # fmt: skip
def test_bound_refuses(folder, options, said):
    run = CliRunner().invoke(main, ["bound", str(folder / "product.cert.json"), *options])
    assert run.exit_code == 2 and said in run.output


@pytest.mark.parametrize("command", ["ceilings", "report", "bound", "lab"])
def test_help_has_examples(command):
    run = CliRunner().invoke(main, [command, "--help"])
    assert run.exit_code == 0 and run.output.count(f"tang-verified {command}") >= 2
