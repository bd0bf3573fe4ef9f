"""Audit a certificate from its text alone: prove everything again, and compare.

    text -> data -> certify(traced, steps, kernels) -> body        recorded body = body, line by line

Nobody is believed. What the file says was proved is not looked at until the checker has found, stated and discharged every
obligation itself; then a recorded obligation that is missing, extra or altered is a finding, like a digest, a link of the
chain, an axiom or a source text that does not match. The models alone are taken from the file, and evaluated: a model is
good if it makes every hypothesis true, whoever found it. A solver named "cvc5" must refute every statement, the integer ones
too, from its SMT-LIB text (Z3 and isl then only guide the search: their yes counts for nothing without cvc5's).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tang_verified.proofs import certificate
from tang_verified.proofs.certificate import CertificateData, program_digest, text_digest
from tang_verified.proofs.check import Certified, certify
from tang_verified.proofs.effects import step_effect
from tang_verified.proofs.ledger import Refused, Solver
from tang_verified.proofs.readback import DIALECTS, read_back
from tang_verified.proofs.rounding_text import difference
from tang_verified.proofs.strict_json import digest
from tang_verified.proofs.traffic import bound
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.meaning import AXIOMS
from tang_verified.semantics.serial import BadData
from tang_verified.semantics.statements import work
from tang_verified.semantics.terms import IllFormed

Verdict: TypeAlias = Literal["proved", "disproved", "unproved", "error", "mismatch", "missing", "unreadable", "bad call"]
EXITS: dict[str, int] = {
    "proved": 0, "disproved": 1, "mismatch": 1, "unproved": 3, "error": 3, "missing": 3, "unreadable": 4, "bad call": 2,
}  # fmt: skip
WORST = (2, 1, 4, 3, 0)  # the exit code of several findings: the first of these that one of them has


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    file: str
    step: str  # "step 3", "kernel attn", "program", "certificate" or "source"
    rule: str
    obligation: str
    verdict: Verdict
    message: str
    counterexample: str = ""

    @property
    def exit_code(self) -> int:
        return EXITS[self.verdict]

    def __str__(self) -> str:
        where = " / ".join(part for part in (self.file, self.step, self.rule, self.obligation) if part)
        return f"{where}: {self.verdict}: {self.message}"


@dataclass(frozen=True)
class Report:
    """What an audit found in one file. `certified` is there only when everything was proved again."""

    file: str
    solver: Solver
    findings: tuple[Finding, ...]
    proved: int = 0
    data: CertificateData | None = field(default=None, repr=False)
    certified: Certified | None = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        return worst(finding.exit_code for finding in self.findings)


def worst(codes: Any) -> int:
    found = {*codes, 0}
    return next(code for code in WORST if code in found)


def audit_text(
    text: str | bytes, solver: Solver = "z3", sources: Mapping[str, str] | None = None, file: str = "certificate"
) -> Report:
    """Prove again what the certificate claims. `sources`: the texts beside it, by file name (None: they are not looked at)."""
    if solver not in ("z3", "cvc5", "both"):
        return _failed(file, "z3", "bad call", f"solver {solver!r} is not one of z3, cvc5, both")
    if solver != "z3" and certificate.versions()["cvc5"] == "missing":
        return _failed(file, solver, "bad call", "cvc5 is not installed; run: pip install cvc5")
    try:
        data = certificate.read(text)
    except BadData as problem:
        return _failed(file, solver, "unreadable", str(problem))
    findings = [*_digests(data, file), *_sources(data, sources, file)]
    notes = () if sources is not None else ("the printed sources were not looked at",)
    try:
        findings += _chain(data, file)
        if data.broken:
            return Report(file, solver, tuple(findings), 0, data, None, notes)
        models = {r.statement: data.models[r.model] for r in data.obligations if r.model in data.models}
        certified = certify(data.traced, data.steps, data.kernels, solver, models)
    except Refused as refusal:
        findings.append(_refusal(refusal, file))
    except IllFormed as problem:
        findings.append(Finding(file, "certificate", "", "well-formed", "mismatch", str(problem)))
    except RecursionError:
        findings.append(Finding(file, "certificate", "", "limits", "error", "the terms grow too deep on the way"))
    except KeyError as name:
        message = f"nothing declares {name}, which is spoken of"
        findings.append(Finding(file, "certificate", "", "well-formed", "mismatch", message))
    else:
        findings += _rounding(data, certified, file)
        findings += _traffic(data, certified.kernels, file) or _compare(data, certified, file)
        findings += _read_back(data, certified.kernels, sources or {}, file)
        proved = len(certified.obligations)
        return Report(file, solver, tuple(findings), proved, data, None if findings else certified, notes)
    return Report(file, solver, tuple(findings), 0, data, None, notes)


def _failed(file: str, solver: Solver, verdict: Verdict, message: str) -> Report:
    return Report(file, solver, (Finding(file, "certificate", "", "read", verdict, message),))


def _refusal(refusal: Refused, file: str) -> Finding:
    step, _, rest = refusal.place.partition("/")
    counterexample = refusal.why if refusal.why.startswith(("counterexample", "false at")) else ""
    rule = rest.rsplit("/", 1)[-1] if step.startswith("step ") else rest
    return Finding(file, step, rule, refusal.obligation, refusal.verdict, refusal.why, counterexample)


def _digests(data: CertificateData, file: str) -> list[Finding]:
    out = []
    if digest(data.body) != data.digest:
        message = f"the body's digest is {digest(data.body)[:16]}…, the file says {data.digest[:16]}…"
        out.append(Finding(file, "certificate", "", "digest", "mismatch", message))
    for name, content in data.statements.items():
        if text_digest(content) != name:
            out.append(Finding(file, "certificate", "", "statement/digest", "mismatch", f"statement {name[:16]}… was altered"))
    return out


def _chain(data: CertificateData, file: str) -> list[Finding]:
    """Each step starts from the program that the one before it led to; each kernel is for the last."""
    out = []

    def expect(step: str, rule: str, key: str, recorded: object, actual: str) -> None:
        if recorded != actual:
            message = f"{key!r} is {str(recorded)[:16]!r}, the file's own contents give {actual[:16]!r}"
            out.append(Finding(file, step, rule, f"chain/{key}", "mismatch", message))

    for number, (step, program) in enumerate(zip(data.steps, data.programs, strict=False)):
        entry = data.body["steps"][number]
        expect(f"step {number + 1}", step.rule, "from", entry["from"], program_digest(program))
        if number + 1 < len(data.programs):
            expect(f"step {number + 1}", step.rule, "to", entry["to"], program_digest(data.programs[number + 1]))
        expect(f"step {number + 1}", step.rule, "ieee", entry["ieee"], step_effect(step, program))
    if data.broken:
        step_name, _, message = data.broken.partition(": ")
        out.append(Finding(file, step_name, "", "chain/before", "mismatch", message))
        return out
    last = program_digest(data.programs[-1])
    expect("certificate", "", "result", data.body["result"], last)
    for kernel, entry in zip(data.kernels, data.body["kernels"], strict=True):
        expect(f"kernel {kernel.name}", "", "program", entry["program"], last)
    return out


def _sources(data: CertificateData, sources: Mapping[str, str] | None, file: str) -> list[Finding]:
    out: list[Finding] = []
    if data.sources and not data.arithmetic:
        message = "texts are named, but not what their language says of rounding"
        out.append(Finding(file, "certificate", "", "arithmetic", "missing", message))
    if sources is None:
        return out
    for name, recorded in data.sources.items():
        if name not in sources:
            out.append(Finding(file, "source", "", name, "missing", f"{name} is not beside the certificate"))
        elif text_digest(sources[name]) != recorded:
            out.append(Finding(file, "source", "", name, "mismatch", f"{name} is not the text that was certified"))
    for name in sources:
        if name not in data.sources:
            out.append(Finding(file, "source", "", name, "mismatch", f"the certificate says nothing about {name}"))
    return out


def _by(prover: str) -> str:
    return prover if prover in ("structure", "model") else "solver"


def _read_back(
    data: CertificateData, kernels: tuple[Kernel, ...], sources: Mapping[str, str], file: str
) -> list[Finding]:
    """Each source against the kernel that it is named for; each dialect has a source for every kernel."""
    out: list[Finding] = []
    told: dict[str, set[str]] = {}
    for name in data.sources:
        stem, _, dialect = name.rpartition(".")
        kernel = next((k for k in kernels if len(kernels) == 1 or stem.endswith(f".{k.name}")), None)
        if kernel is None:
            out.append(Finding(file, "source", "", name, "mismatch", f"{name} is named for no kernel"))
            continue
        told.setdefault(dialect, set()).add(kernel.name)
        if dialect not in DIALECTS:
            out.append(Finding(file, "source", "read-back", name, "unproved", f"{name}: no reader for this language"))
            continue
        if name not in sources:
            continue  # found missing above
        found = read_back(kernel, sources[name], dialect)
        if found is not None:
            verdict: Verdict = "unproved" if found.spent else "mismatch"
            out.append(Finding(file, "source", "read-back", name, verdict, f"{name}, {found}"))
    for dialect, names in told.items():
        for lost in sorted({k.name for k in kernels} - names):
            message = f"kernel {lost} has no source, though others have one in .{dialect}"
            out.append(Finding(file, "source", "", lost, "missing", message))
    return out


def _compare(data: CertificateData, certified: Certified, file: str) -> list[Finding]:
    """What the file records against what was proved just now."""
    out = _obligations(data, certified, file)
    for name in sorted(set(data.axioms) | set(certified.axioms)):
        if name not in data.axioms:
            out.append(Finding(file, "certificate", "", f"axiom {name}", "missing", "used, but not listed"))
        elif name not in certified.axioms:
            out.append(Finding(file, "certificate", "", f"axiom {name}", "mismatch", "listed, but nothing uses it"))
        elif data.axioms[name] != AXIOMS[name]:
            out.append(Finding(file, "certificate", "", f"axiom {name}", "mismatch", f"reads {data.axioms[name]!r}"))
    fresh = certificate.body_of(certified, data.sources, data.arithmetic, data.claims)
    told = {"obligations", "statements", "axioms", "sources", "rounding"}
    for part in sorted(set(fresh) - told):
        if fresh[part] != data.body[part] and not out:
            out.append(Finding(file, "certificate", "", part, "mismatch", f"{part} is not as the checker writes it"))
    return out


def _rounding(data: CertificateData, certified: Certified, file: str) -> list[Finding]:
    """The rounding bounds, derived again from the kernels just proved and the numbers recorded."""
    said = data.body["rounding"]
    derived = certificate.rounding_of(certified.kernels, data.rounding)
    found = difference(said, derived) if derived is not None else []
    return [Finding(file, "certificate", "", f"rounding/{which}", "mismatch", message) for which, message in found]


def _traffic(data: CertificateData, kernels: tuple[Kernel, ...], file: str) -> list[Finding]:
    """Claims that do not hold, and words that are not what a claim says."""
    out = []
    for kernel in kernels:
        statements = work(kernel).statements
        for number, claim in enumerate(data.claims[kernel.name]):
            place = f"traffic/{number + 1}"
            try:
                says = bound(statements, claim).said(statements[claim.statement])
            except Refused as refusal:
                out.append(Finding(file, f"kernel {kernel.name}", "", place, refusal.verdict, refusal.why))
                continue
            if says != data.body["traffic"][kernel.name][number]["says"]:
                out.append(Finding(file, f"kernel {kernel.name}", "", place, "mismatch", f"the claim says only: {says}"))
    return out


def _obligations(data: CertificateData, certified: Certified, file: str) -> list[Finding]:
    here = Counter((o.place, o.name, text_digest(o.statement)) for o in certified.obligations)
    there = Counter((r.place, r.name, r.statement) for r in data.obligations)
    lost, extra = here - there, there - here
    altered = {key[:2] for key in lost} & {key[:2] for key in extra}
    out = []
    for verdict, unlike in (("missing", lost), ("mismatch", extra)):
        for place, name, _ in unlike:
            if (place, name) in altered:
                if verdict == "missing":
                    continue
                message = "its statement is not the one that is to be proved"
            else:
                message = "proved here, absent in the file" if verdict == "missing" else "in the file, but nothing asks for it"
            step, _, rest = place.partition("/")
            out.append(Finding(file, step, rest, name, verdict, message))  # type: ignore[arg-type]
    shown = {(o.place, o.name, text_digest(o.statement)): o for o in certified.obligations}
    for r in data.obligations:
        o = shown.get((r.place, r.name, r.statement))
        if o is None:
            continue
        step, _, rest = r.place.partition("/")
        if (r.trust, _by(r.prover)) != (o.trust, _by(o.prover)):
            message = f"prover {r.prover}, trust {r.trust} is not how it is shown: {o.prover}, {o.trust}"
            out.append(Finding(file, step, rest, r.name, "mismatch", message))
        elif o.model and r.model not in data.models:
            message = f"the model of its hypotheses, {o.model[:16]}…, is not recorded"
            out.append(Finding(file, step, rest, r.name, "missing", message))
        elif r.model != o.model:
            message = f"the model {r.model[:16]}… is not what the file has under that name"
            out.append(Finding(file, step, rest, r.name, "mismatch", message))
    for name in sorted({r.statement for r in data.obligations} ^ set(data.statements)):
        message = f"statement {name[:16]}… has no text, or no obligation uses it"
        out.append(Finding(file, "certificate", "", "statement", "missing", message))
    return out
