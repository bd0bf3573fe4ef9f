"""The command line over real certificates in a folder."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tang_verified.auditing import audit
from tang_verified.cli import main
from tests.proofs.samples import ARITHMETIC, certificate, sources
from tests.refused.certificates import MUTANTS, Mutant


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "softmax.cert.json").write_text(certificate("softmax"), "utf-8")
    for name, text in sources("softmax").items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def mutant(name: str) -> Mutant:
    return next(m for m in MUTANTS if m.name == name)


def put(folder: Path, name: str) -> Path:
    text = mutant(name).text()
    path = folder / "mutant.cert.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_audit_of_a_folder(folder: Path) -> None:
    result = run("audit", folder)
    assert result.exit_code == 0, result.output
    assert "softmax.cert.json: proved: 121 obligations" in result.output


def test_several_backends_side_by_side(tmp_path: Path) -> None:
    made = run("compile", "examples/rmsnorm.py:rmsnorm", "--backend", "c,opencl", "--out", tmp_path, "--quiet")
    assert made.exit_code == 0, made.output
    assert {path.name for path in tmp_path.iterdir()} == {"rmsnorm.c", "rmsnorm.c.cert.json", "rmsnorm.cl", "rmsnorm.cl.cert.json"}
    assert run("audit", tmp_path).exit_code == 0


def test_audit_is_a_function_too(folder: Path) -> None:
    assert audit(folder).exit_code == 0 and audit(folder / "softmax.cert.json").proved == audit(folder).proved


@pytest.mark.parametrize(
    ("name", "code"), [("step removed", 1), ("truncated", 4), ("all obligations removed", 3), ("steps swapped", 1)]
)
def test_exit_codes(folder: Path, name: str, code: int) -> None:
    path = put(folder, name)
    assert run("audit", path).exit_code == code
    report = json.loads(run("audit", "--format", "json", path).output)
    assert report["exit_code"] == code and report["files"][0]["findings"][0]["file"] == str(path)


def test_a_changed_source_beside_it(folder: Path) -> None:
    (folder / "softmax.c").write_text("int Softmax;\n", "utf-8")
    result = run("audit", folder)
    assert result.exit_code == 1 and "softmax.c is not the text that was certified" in result.output
    (folder / "softmax.c").unlink()
    assert run("audit", folder).exit_code == 3
    (folder / "softmax.cl").write_text("kernel", "utf-8")
    assert run("audit", folder).exit_code == 1  # a source of this name that the certificate says nothing about


def test_wrong_calls(tmp_path: Path) -> None:
    assert run("audit").exit_code == 2
    assert run("audit", tmp_path).exit_code == 2
    assert run("audit", tmp_path / "no.cert.json").exit_code == 2
    assert run("audit", "--solver", "guess", tmp_path).exit_code == 2
    assert run("explain", tmp_path / "no.cert.json").exit_code == 2


def test_junit(folder: Path) -> None:
    root = ET.fromstring(run("audit", "--format", "junit", folder).output)
    assert root[0].get("failures") == "0" and len(root[0]) == int(root[0].get("tests", 0)) > 10
    put(folder, "step removed")
    root = ET.fromstring(run("audit", "--format", "junit", folder).output)
    failed = [case for suite in root for case in suite if case.find("failure") is not None]
    assert any(case.get("name") == "chain/from" for case in failed)


def test_sarif(folder: Path) -> None:
    path = put(folder, "step removed")
    log = json.loads(run("audit", "--format", "sarif", folder).output)
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    rules = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    for result in only["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == path.as_posix()
    assert only["results"]


def test_explain(folder: Path) -> None:
    text = run("explain", folder / "softmax.cert.json").output
    assert "step 2: substitute, in t1_sub at 1" in text
    assert "before  t0_max[i0, 0]" in text and "max_{" in text
    assert "kernel t4_div" in text and "invariants and contents" in text and "proved  substitute/same × 1 (structure)" in text


def test_explain_and_assumptions_refuse_what_is_no_certificate(folder: Path) -> None:
    path = put(folder, "deeply nested")
    assert run("explain", path).exit_code == run("assumptions", path).exit_code == run("diff", path, path).exit_code == 4


def test_assumptions(folder: Path) -> None:
    text = run("assumptions", folder / "softmax.cert.json").output
    assert "exp/positive: exp(x) > 0   [real analysis" in text
    outside = text.split("outside the proofs\n")[1]
    assert f"  {next(line for line in ARITHMETIC if 'exp:' in line)}" in text.split("conventions\n")[0]
    for word in ("plan", "compiler", "OpenMP", "check_finite=True", "x / 0", "integer data", "rounding"):
        assert word in outside
    assert "real inputs are finite" in text and "1 <= m <= 2147483647" in text and "z3-solver" in text


def test_diff(folder: Path) -> None:
    same = folder / "softmax.cert.json"
    assert (run("diff", same, same).exit_code, run("diff", same, same).output) == (0, "no difference\n")
    worse = put(folder, "all obligations removed")
    result = run("diff", same, worse)
    assert result.exit_code == 1 and "weaker: obligation" in result.output
    assert run("diff", worse, same).exit_code == 0
    result = run("diff", same, put(folder, "an axiom too many"))
    assert result.exit_code == 1 and "weaker: axiom log/inverse is new" in result.output


def test_diff_of_different_programs_is_a_summary(folder: Path) -> None:
    other = folder / "attention.cert.json"
    other.write_text(certificate("attention"), "utf-8")
    result = run("diff", folder / "softmax.cert.json", other)
    lines = result.output.splitlines()
    counts = re.fullmatch(r"(\d+) added, (\d+) removed, (\d+) changed, (\d+) weaker", lines[0])
    assert counts is not None and result.exit_code == 1
    assert lines[1].startswith("these are different programs: softmax(x float32[n, m]) -> ") and " and attn(q " in lines[1]
    assert len(lines) <= 2 + 4 * 10 + 1 and lines[-1].endswith("more are not listed; --verbose lists them")
    every = run("diff", "--verbose", folder / "softmax.cert.json", other).output.splitlines()
    assert every[:2] == lines[:2] and len(every) == 2 + sum(map(int, counts.groups()))
    assert int(lines[-1].split()[0]) == len(every) - len(lines) + 1 and set(lines[:-1]) <= set(every)


def test_diff_of_one_program_does_not_call_it_another(folder: Path) -> None:
    result = run("diff", folder / "softmax.cert.json", put(folder, "all obligations removed"))
    assert "different programs" not in result.output and re.match(r"\d+ weaker", result.output)


def test_trusted_base() -> None:
    text = run("audit", "--trusted-base").output
    assert "OpenMP" in text and "integer data" in text
    assert "proofs/check.py" in text and "exp/sum: x + y = z implies" in text and "z3-solver" in text


def test_doctor() -> None:
    result = run("doctor")
    assert result.exit_code in (0, 1)
    for word in ("python", "z3-solver", "islpy", "cvc5", "threads"):
        assert word in result.output
    for backend in ("opencl", "wgsl", "glsl", "cuda", "metal"):
        (line,) = [line for line in result.output.splitlines() if f" {backend}: " in line]
        assert line.startswith("ok ") or "run: " in line


@pytest.mark.parametrize("command", ["audit", "explain", "diff", "assumptions", "doctor"])
def test_help_has_an_example(command: str) -> None:
    text = run(command, "--help").output
    assert f"tang-verified {command}" in text and "xit codes" in text
