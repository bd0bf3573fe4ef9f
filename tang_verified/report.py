"""What an audit found, as text, JSON, JUnit XML or SARIF 2.1.0. The same findings in each; no times, no absolute clocks."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tang_verified import __version__
from tang_verified.proofs.replay import Finding, Report, worst

FORMATS = ("text", "json", "junit", "sarif")
MEANINGS = {
    "disproved": "an obligation is false; the counterexample says where",
    "mismatch": "a text, digest, chain or record is not what the contents give",
    "unproved": "no prover shows the obligation within its budget",
    "error": "an obligation could not be stated or checked",
    "missing": "something that the certificate needs is not there",
    "unreadable": "the file is no certificate",
    "bad call": "the audit could not be started",
}


def render(reports: Sequence[Report], form: str) -> str:
    """The reports in one of `FORMATS`."""
    match form:
        case "text":
            return "\n".join(text(report) for report in reports)
        case "json":
            files = [as_data(report) for report in reports]
            data = {"tang_verified": __version__, "exit_code": exit_code(reports), "files": files}
            return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False)
        case "junit":
            return junit(reports)
        case "sarif":
            return json.dumps(sarif(reports), indent=2, sort_keys=True, ensure_ascii=False)
        case _:
            raise ValueError(f"format {form!r} is not one of {FORMATS}")


def exit_code(reports: Sequence[Report]) -> int:
    return worst(report.exit_code for report in reports)


def text(report: Report) -> str:
    if not report.findings:
        provers = Counter(o.prover for o in report.certified.obligations) if report.certified else Counter[str]()
        shown = ", ".join(f"{count} by {name}" for name, count in sorted(provers.items()))
        lines = [f"{report.file}: proved: {report.proved} obligations ({shown})"]
        made = report.certified.obligations if report.certified else ()
        vacuous = Counter(o.place.split("/")[0] for o in made if o.vacuous)
        lines += [f"  vacuous, as what they assume is contradictory: {n} in {where}" for where, n in vacuous.items()]
    else:
        lines = [f"{report.file}: {len(report.findings)} finding{'s' if len(report.findings) > 1 else ''}"]
        lines += [f"  {line(finding)}" for finding in report.findings]
    return "\n".join([*lines, *(f"  note: {note}" for note in report.notes)])


def line(finding: Finding) -> str:
    where = " / ".join(part for part in (finding.step, finding.rule, finding.obligation) if part)
    return f"{finding.verdict}: {where}: {finding.message}"


def as_data(report: Report) -> dict[str, Any]:
    return {
        "file": report.file, "solver": report.solver, "exit_code": report.exit_code, "proved": report.proved,
        "vacuous": sum(o.vacuous for o in report.certified.obligations) if report.certified else 0,
        "notes": list(report.notes),
        "findings": [
            {
                "file": f.file, "step": f.step, "rule": f.rule, "obligation": f.obligation, "verdict": f.verdict,
                "message": f.message, "counterexample": f.counterexample,
            }
            for f in report.findings
        ],
    }  # fmt: skip


def junit(reports: Sequence[Report]) -> str:
    """One suite a file; one case a place whose obligations were proved, and one a finding."""
    root = ET.Element("testsuites", name="tang-verified audit")
    for report in reports:
        places = Counter(o.place for o in report.certified.obligations) if report.certified else Counter[str]()
        failures = [f for f in report.findings if f.exit_code == 1]
        errors = [f for f in report.findings if f.exit_code != 1]
        suite = ET.SubElement(
            root, "testsuite", name=_xml(report.file), tests=str(len(places) + len(report.findings)),
            failures=str(len(failures)), errors=str(len(errors)),
        )  # fmt: skip
        for place, count in places.items():
            ET.SubElement(suite, "testcase", classname=_xml(place), name=f"{count} obligations proved")
        for finding in report.findings:
            name = finding.obligation or finding.verdict
            case = ET.SubElement(suite, "testcase", classname=_xml(finding.step), name=_xml(name))
            kind = "failure" if finding.exit_code == 1 else "error"
            ET.SubElement(case, kind, type=finding.verdict, message=_xml(finding.message)).text = _xml(str(finding))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _xml(value: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in value)


def sarif(reports: Sequence[Report]) -> dict[str, Any]:
    rules = [{"id": _rule(v), "shortDescription": {"text": meaning}} for v, meaning in MEANINGS.items()]
    results = [
        {
            "ruleId": _rule(f.verdict), "ruleIndex": list(MEANINGS).index(f.verdict), "level": "error",
            "message": {"text": line(f)},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(f.file)}}}],
            "properties": {
                "step": f.step, "rule": f.rule, "obligation": f.obligation, "counterexample": f.counterexample,
            },
        }
        for report in reports for f in report.findings
    ]  # fmt: skip
    driver = {"name": "tang-verified", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}],
    }


def _rule(verdict: str) -> str:
    return f"audit/{verdict.replace(' ', '-')}"


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path.replace("\\", "/"))
