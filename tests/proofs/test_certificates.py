"""Certificates: sound ones pass with each solver, every mutant is refused for its own reason, bytes never vary."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from tang_verified.proofs.certificate import read, spell, write
from tang_verified.proofs.check import certify
from tang_verified.proofs.replay import audit_text
from tang_verified.proofs.strict_json import canonical, parse
from tang_verified.semantics.serial import BadData, Decoder, Encoder
from tang_verified.semantics.terms import Const, Op, Read, Var
from tests.proofs.samples import ARITHMETIC, ROUNDING, certificate, certified, sources
from tests.refused.certificates import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("solver", ["z3", "cvc5", "both"])
@pytest.mark.parametrize("name", ["attention", "softmax", "one tile"])
def test_the_sound_twin_is_accepted(name: str, solver: str) -> None:
    report = audit_text(certificate(name), solver, sources(name))  # type: ignore[arg-type]
    assert (report.exit_code, report.findings) == (0, ())
    assert report.proved == len(json.loads(certificate(name))["body"]["obligations"]) > 100
    provers = {o.prover for o in report.certified.obligations}  # type: ignore[union-attr]
    assert provers == {"z3": {"isl", "z3", "structure", "model"}, "cvc5": {"cvc5", "structure", "model"},
                       "both": {"isl+cvc5", "z3+cvc5", "structure", "model"}}[solver]  # fmt: skip


def test_indices_read_from_data() -> None:
    """isl took 0 <= t and t < 100 for an index t read from data; the statements once left such facts out, and cvc5 saw it."""
    assert audit_text(certificate("embedding"), "both", sources("embedding")).exit_code == 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutant_is_refused_for_its_reason(mutant: Mutant) -> None:
    report = audit_text(mutant.text(), "z3", mutant.beside(), mutant.base)
    assert report.exit_code == mutant.exit_code, report.findings
    assert report.certified is None
    assert any(all(part in str(finding) for part in mutant.says) for finding in report.findings), report.findings


def test_mutants_are_many_and_distinct() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 80


def test_reading_gives_back_what_was_certified() -> None:
    for name in ("attention", "softmax"):
        data, proved = read(certificate(name)), certified(name)
        assert (data.traced, data.steps, data.kernels) == (proved.traced, proved.steps, proved.kernels)
        assert data.programs[-1] == proved.program
        assert spell(data.body, data.provers) == certificate(name)


def test_two_runs_in_one_process_give_the_same_bytes() -> None:
    for name in ("softmax", "attention"):
        first = certified(name)
        again = certify(first.traced, first.steps, first.kernels)
        assert write(again, sources(name), ARITHMETIC, rounding=ROUNDING) == certificate(name)


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_hash_seeds_change_nothing(seed: str) -> None:
    code = "from tests.proofs.samples import certificate; print(certificate('attention') + certificate('softmax'), end='')"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, encoding="utf-8",
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert result.stdout == certificate("attention") + certificate("softmax")


def test_no_floats_paths_or_times() -> None:
    text = certificate("attention")
    parse(text)  # refuses floats
    assert str(ROOT) not in text and "/tmp" not in text


def test_cvc5_missing_is_a_wrong_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tang_verified.proofs.certificate.versions", lambda: {"cvc5": "missing"})
    report = audit_text(certificate("softmax"), "both")
    assert report.exit_code == 2 and "pip install cvc5" in report.findings[0].message


def test_what_cvc5_cannot_show_is_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tang_verified.proofs.second.refuted", lambda statement, budget: "unknown")
    report = audit_text(certificate("softmax"), "both", sources("softmax"))
    assert report.exit_code == 3 and report.findings[0].verdict == "unproved"


def test_terms_survive_the_round_trip() -> None:
    index = Op("floordiv", (Op("add", (Var("i"), Const(-(10**30)))), Const(2)))
    term = Op("select", (Const(True), Read("x", (index,), "real"), Const(Fraction(-22, 7))))
    table = Encoder()
    number = table.term(term)
    assert Decoder(json.loads(json.dumps(table.nodes))).term(number, "term") == term
    assert ["int", -(10**30)] in table.nodes and ["bool", True] in table.nodes and ["real", "-22/7"] in table.nodes


def test_equal_terms_give_equal_tables_whatever_is_shared() -> None:
    def product(shared: bool) -> Op:
        a = Op("exp", (Read("x", (Var("i"),), "real"),))
        b = a if shared else Op("exp", (Read("x", (Var("i"),), "real"),))
        return Op("mul", (a, b))

    tables = [Encoder(), Encoder()]
    assert tables[0].term(product(True)) == tables[1].term(product(False))
    assert canonical(tables[0].nodes) == canonical(tables[1].nodes)


@pytest.mark.parametrize(
    "entry", [["int", True], ["int", "1"], ["bool", 1], ["real", 1], ["real", "1.5"], ["real", "0x1"], [], 7]
)
def test_constants_have_one_spelling(entry: object) -> None:
    with pytest.raises(BadData):
        Decoder([entry])
