"""What the README shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tang_verified.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(compile(block, "README.md", "exec"), space)
    shown = capsys.readouterr().out
    assert "exit code 0" in shown and "(x · x − 1) · exp(-0.5 · x · x)" in shown and "[-236.0, 0.0]" in shown
    assert sorted(p.name for p in (tmp_path / "kernels").iterdir()) == ["attention.c", "attention.cert.json"]


def test_the_commands_run(tmp_path: Path) -> None:
    run = CliRunner()
    out = str(tmp_path / "kernels")
    done = run.invoke(main, ["compile", str(ROOT / "examples" / "attention.py") + ":causal", "--out", out])
    assert done.exit_code == 0, done.output
    for command in (["audit", out], ["explain", f"{out}/causal.cert.json"], ["assumptions", f"{out}/causal.cert.json"]):
        assert run.invoke(main, command).exit_code == 0, command
    assert run.invoke(main, ["diff", f"{out}/causal.cert.json", f"{out}/causal.cert.json"]).exit_code == 0
    text = (tmp_path / "kernels" / "causal.c").read_text()
    (tmp_path / "kernels" / "causal.c").write_text(text.replace("+ s", "- s", 1))
    assert run.invoke(main, ["audit", out]).exit_code == 1


def test_refusals_exit_1_and_bad_calls_2(tmp_path: Path) -> None:
    run = CliRunner()
    file = tmp_path / "model.py"
    file.write_text("import tang_verified as tv\ndef bad(x: tv.spec('n')):\n    return x if x.sum() > 0 else -x\n")
    done = run.invoke(main, ["compile", f"{file}:bad", "--out", str(tmp_path)])
    assert done.exit_code == 1 and "where" in done.output and "model.py:3" in done.output
    assert run.invoke(main, ["compile", f"{file}:missing"]).exit_code == 2
    assert run.invoke(main, ["compile", str(file)]).exit_code == 2
