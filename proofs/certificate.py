"""The certificate: one JSON file that says what was proved, of what, and what it rests on.

    {"body": {"traced": program, "steps": [...], "kernels": [...], "obligations": [...], …},
     "digest": sha256 of the body, "format": "tang_verified certificate 2", "provers": {versions}}

Canonical: sorted keys, one node, step or obligation a line, ids that are digests of the contents, rationals as "p/q"; no
floats, dates, durations or paths; the same input gives the same bytes. The provers' versions stand outside the digest.
A statement (a monoid's law, say) that several obligations share is stored once and named by its digest. So is the model
that shows a statement's hypotheses satisfiable: sizes and axes are ints, reals "p/q", functions tables.

`arithmetic` is what the language of the printed texts says of rounding, line by line: stated by the printer, not proved.

`traffic` holds, kernel by kernel, the claims of lower bounds on traffic, and the words for what each says. `rounding` holds the
rounding bound of every kernel, a text, and the numbers of the language that it follows from (unit roundoffs, units in the last
place); null: no bound is claimed.

Reading checks spelling, types, limits and constructors. It believes nothing else: `replay.py` proves everything again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tang_verified.proofs import rounding_text
from tang_verified.proofs.check import Certified
from tang_verified.proofs.effects import kernel_effect, step_effect
from tang_verified.proofs.ledger import Obligation
from tang_verified.proofs.models import read_model
from tang_verified.proofs.rounding import bounds
from tang_verified.proofs.steps import RULES, Step, follow
from tang_verified.proofs.strict_json import canonical, digest, parse
from tang_verified.proofs.traffic import Claim, read_claim, recorded
from tang_verified.semantics.exact import Model
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.meaning import AXIOMS
from tang_verified.semantics.program import Program
from tang_verified.semantics.rounding import Rounding
from tang_verified.semantics.serial import (
    BadData,
    Decoder,
    Encoder,
    fields,
    identifier,
    items,
    one_of,
    text,
    whole,
)  # fmt: skip
from tang_verified.semantics.terms import IllFormed, Term

FORMAT = "tang_verified certificate 2"
PARTS = (
    "arithmetic", "axioms", "conventions", "kernels", "models", "nodes", "obligations", "result", "rounding", "sources",
    "statements", "steps", "traced", "traffic",
)  # fmt: skip
PROVERS = ("structure", "model", "isl", "z3", "cvc5", "isl+cvc5", "z3+cvc5")
CONVENTIONS = (
    "reals are exact numbers, -inf, +inf or nan; rounding is not in the equalities",
    "real inputs are finite",
    "x / 0 is nan; zeros have no sign",
    "sizes lie within the declared ranges; arrays have at most 2^62 elements",
)
NONE: Mapping[str, Sequence[Claim]] = {}
EMPTY_ZERO = "empty=zero: -inf minus -inf is -inf (sub0), x over 0 is 0 (div0)"


@dataclass(frozen=True)
class Record:
    """An obligation as the file states it."""

    name: str
    place: str
    prover: str
    trust: str  # "checked": one term, or evaluated; "replayed": refuted by the prover; "vacuous": from contradictory facts
    statement: str  # digest
    model: str  # digest of a model of its hypotheses; empty where there is nothing to satisfy


@dataclass(frozen=True)
class CertificateData:
    """What a file says, well formed and not believed. `broken` says where the chain of steps does not lead on."""

    traced: Program
    steps: tuple[Step, ...]
    programs: tuple[Program, ...]  # before each step, and after the last, as far as the chain holds
    kernels: tuple[Kernel, ...]
    obligations: tuple[Record, ...]
    statements: dict[str, str]
    models: dict[str, Model]
    axioms: dict[str, str]
    conventions: tuple[str, ...]
    arithmetic: tuple[str, ...]
    sources: dict[str, str]
    provers: dict[str, str]
    digest: str
    claims: dict[str, tuple[Claim, ...]]  # on the traffic of each kernel
    body: dict[str, Any]
    broken: str = ""
    rounding: Rounding | None = None


# -- writing --------------------------------------------------------------------------------------------------------


def write(
    certified: Certified, sources: Mapping[str, str], arithmetic: Sequence[str], claims: Mapping[str, Sequence[Claim]] = NONE,
    rounding: Rounding | None = None,
) -> str:  # fmt: skip
    """The certificate of what was proved, beside printed `sources` (file name -> text), their language's `arithmetic` in words
    and, for bounds on `rounding`, in numbers, and `claims` on each kernel's traffic. Raises `Refused` where one of these does
    not hold."""
    digests = {identifier_of_file(name): text_digest(content) for name, content in sources.items()}
    return spell(body_of(certified, digests, arithmetic, claims, rounding), versions())


def body_of(
    certified: Certified, sources: Mapping[str, str], arithmetic: Sequence[str], claims: Mapping[str, Sequence[Claim]] = NONE,
    rounding: Rounding | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The digested part, from what the checker proved, the digests of the sources, what is said of their arithmetic, and
    claims on traffic."""
    table = Encoder()
    traced = table.program(certified.traced)
    program, steps = certified.traced, []
    for step in certified.steps:
        following = follow(program, step)
        steps.append({
            "rule": step.rule, "tensor": step.tensor, "path": list(step.path),
            "before": None if step.before is None else table.term(step.before),
            "after": None if step.after is None else table.term(step.after),
            "new": None if step.new is None else table.definition(step.new),
            "invariants": [[m, [[g, table.terms(changed)] for g, changed in ends]] for m, ends in step.invariants],
            "note": step.note, "from": program_digest(program), "to": program_digest(following),
            "ieee": step_effect(step, program),
        })  # fmt: skip
        program = following
    last = program_digest(program)
    kernels = [
        {**table.kernel(kernel), "program": last, "ieee": kernel_effect(kernel, certified.obligations)}
        for kernel in certified.kernels
    ]
    return {
        "traced": traced, "steps": steps, "kernels": kernels, "result": last, "nodes": table.nodes,
        "obligations": [record(o) for o in certified.obligations],
        "statements": {text_digest(o.statement): o.statement for o in certified.obligations},
        "models": dict(certified.models),
        "axioms": {name: AXIOMS[name] for name in certified.axioms},
        "conventions": list(conventions(table)), "sources": dict(sources), "arithmetic": list(arithmetic),
        "rounding": rounding_of(certified.kernels, rounding),
        "traffic": {kernel.name: recorded(kernel, claims.get(kernel.name, ())) for kernel in certified.kernels},
    }  # fmt: skip


def rounding_of(kernels: Sequence[Kernel], rounding: Rounding | None) -> dict[str, Any] | None:
    """The rounding bounds of kernels in a language's arithmetic."""
    if rounding is None:
        return None
    return rounding_text.data(rounding, tuple(bound for kernel in kernels for bound in bounds(kernel, rounding)))


def record(obligation: Obligation) -> dict[str, str]:
    return {
        "name": obligation.name, "place": obligation.place, "prover": obligation.prover,
        "trust": obligation.trust, "statement": text_digest(obligation.statement), "model": obligation.model,
    }  # fmt: skip


def conventions(table: Encoder) -> tuple[str, ...]:
    zero = any(entry[0] == "op" and entry[1] in ("sub0", "div0") for entry in table.nodes)
    return (*CONVENTIONS, EMPTY_ZERO) if zero else CONVENTIONS


def spell(body: Mapping[str, Any], provers: Mapping[str, str]) -> str:
    """The file's text: JSON with sorted keys, one entry of each list or table a line."""
    parts = ",\n".join(f'  {json.dumps(key)}: {_lines(body[key])}' for key in sorted(body))
    head = f'{{\n"body": {{\n{parts}\n}},\n"digest": "{digest(body)}",\n'
    return head + f'"format": {json.dumps(FORMAT)},\n"provers": {canonical(provers)}\n}}\n'


def _lines(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n    " + ",\n    ".join(canonical(entry) for entry in value) + "\n  ]"
    if isinstance(value, dict) and value:
        pairs = (f"{json.dumps(key, ensure_ascii=False)}: {canonical(value[key])}" for key in sorted(value))
        return "{\n    " + ",\n    ".join(pairs) + "\n  }"
    return canonical(value)


def text_digest(content: str) -> str:
    return sha256(content.encode("utf-8")).hexdigest()


@lru_cache(maxsize=4)  # a step's end is the next one's start
def program_digest(program: Program) -> str:
    """A digest of the program alone, whatever else the file holds."""
    table = Encoder()
    data = table.program(program)
    return digest([table.nodes, data])


def versions() -> dict[str, str]:
    """Versions of the provers that this process would use."""
    out = {}
    for package in ("cvc5", "islpy", "z3-solver"):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = "missing"
    return out


def identifier_of_file(name: str) -> str:
    """A file's name: an identifier and extensions, no folder, so that reading one never leaves the certificate's folder."""
    for part in _name(name).split("."):
        identifier(part, f"source {name[:80]!r}")
    return name


def _name(data: Any) -> str:
    return text(data, "source's name", 200)


# -- reading --------------------------------------------------------------------------------------------------------


def read(content: str | bytes) -> CertificateData:
    """The file's data, or `BadData`: nothing is executed, and nothing is believed."""
    try:
        return _read(fields(parse(content), ("body", "digest", "format", "provers"), "certificate"))
    except RecursionError:
        raise BadData("nested too deep") from None


def _read(top: dict[str, Any]) -> CertificateData:
    if top["format"] != FORMAT:
        raise BadData(f"format {str(top['format'])[:80]!r}, this reads {FORMAT!r}")
    body = fields(top["body"], PARTS, "body")
    table = Decoder(body["nodes"])
    traced = table.program(body["traced"], "traced")
    steps = tuple(_step(table, entry, f"steps[{k}]") for k, entry in enumerate(items(body["steps"], "steps")))
    programs, broken = _chain(traced, steps)
    kernels, obligations = items(body["kernels"], "kernels"), items(body["obligations"], "obligations")
    return CertificateData(
        traced, steps, programs,
        tuple(_kernel(table, entry, programs[-1], f"kernels[{k}]") for k, entry in enumerate(kernels)),
        tuple(_record(entry, f"obligations[{k}]") for k, entry in enumerate(obligations)),
        _texts(body["statements"], "statements", 1 << 20), _models(body["models"]), _texts(body["axioms"], "axioms", 500),
        tuple(text(entry, "conventions", 500) for entry in items(body["conventions"], "conventions")),
        tuple(text(entry, "arithmetic", 500) for entry in items(body["arithmetic"], "arithmetic")),
        {identifier_of_file(k): v for k, v in _texts(body["sources"], "sources", 64).items()},
        _texts(top["provers"], "provers", 100), text(top["digest"], "digest"), _claims(body["traffic"], kernels), body, broken,
        rounding_text.read(body["rounding"]),
    )  # fmt: skip


def _chain(traced: Program, steps: tuple[Step, ...]) -> tuple[tuple[Program, ...], str]:
    programs = [traced]
    for number, step in enumerate(steps):
        try:
            programs.append(follow(programs[-1], step))
        except IllFormed as problem:
            return tuple(programs), f"step {number + 1}: {problem}"
    return tuple(programs), ""


def _step(table: Decoder, data: Any, what: str) -> Step:
    d = fields(
        data, ("rule", "tensor", "path", "before", "after", "new", "invariants", "note", "from", "to", "ieee"), what
    )  # fmt: skip
    before = None if d["before"] is None else table.term(d["before"], what)
    after = None if d["after"] is None else table.term(d["after"], what)
    path = tuple(whole(number, f"{what}.path") for number in items(d["path"], f"{what}.path"))
    for key in ("from", "to", "ieee"):
        text(d[key], f"{what}.{key}")
    rule = one_of(d["rule"], (*RULES, "drop", "define", "gradient", "tangent"), f"{what}.rule")
    new = None if d["new"] is None else table.definition(d["new"], f"{what}.new")
    return Step(
        rule, identifier(d["tensor"], f"{what}.tensor"), path, before, after, text(d["note"], f"{what}.note", 500), new,
        tuple(_invariant(table, entry, what) for entry in items(d["invariants"], what)),
    )  # fmt: skip


def _invariant(table: Decoder, data: Any, what: str) -> tuple[str, tuple[tuple[str, tuple[Term, ...]], ...]]:
    name, ends = items(data, what, 2)
    pairs = [items(end, what, 2) for end in items(ends, what)]
    return identifier(name, what), tuple((identifier(g, what), table.terms(changed, what)) for g, changed in pairs)


def _kernel(table: Decoder, data: Any, program: Program, what: str) -> Kernel:
    d = dict(fields(data, ("name", "reads", "outputs", "body", "notes", "machine", "program", "ieee"), what))
    for key in ("program", "ieee"):
        text(d.pop(key), f"{what}.{key}")
    return table.kernel(d, program, what)


def _record(data: Any, what: str) -> Record:
    d = fields(data, ("name", "place", "prover", "trust", "statement", "model"), what)
    return Record(
        text(d["name"], what, 1000), text(d["place"], what, 1000), one_of(d["prover"], PROVERS, f"{what}.prover"),
        one_of(d["trust"], ("checked", "replayed", "vacuous"), f"{what}.trust"), text(d["statement"], what, 64),
        text(d["model"], what, 64),
    )  # fmt: skip


def _models(data: Any) -> dict[str, Model]:
    if type(data) is not dict:
        raise BadData("models: expected an object")
    return {text(key, "models", 64): read_model(value, f"model {key[:16]}") for key, value in data.items()}


def _claims(data: Any, kernels: list[Any]) -> dict[str, tuple[Claim, ...]]:
    entries = fields(data, [kernel["name"] for kernel in kernels], "traffic")
    return {name: tuple(read_claim(c, name) for c in items(told, name)) for name, told in entries.items()}


def _texts(data: Any, what: str, limit: int) -> dict[str, str]:
    if type(data) is not dict:
        raise BadData(f"{what}: expected an object")
    return {text(key, what): _text(value, what, limit) for key, value in data.items()}


def _text(value: Any, what: str, limit: int) -> str:
    if type(value) is not str or len(value) > limit or not value.replace("\n", "").isprintable():
        raise BadData(f"{what}: a value is not a printable text of at most {limit} characters")
    return value


