"""A certificate for a reader: the derivation step by step, what each step had to prove, the kernels and their invariants.

It shows what the file says. Whether it is so is the business of `audit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tang_verified.lines import elide
from tang_verified.proofs.certificate import CertificateData, Record, read
from tang_verified.semantics.kernel import Alloc, Assign, Claim, For, Kernel, Stmt
from tang_verified.semantics.program import BYTES, Program, Tensor
from tang_verified.semantics.show import show, show_kernel
from tang_verified.semantics.terms import Fold, Read, Term, mentions

RULES = {
    "substitute": "the element of a definition is replaced by that definition's value",
    "pointwise": "equal for all values of the reads and folds in it",
    "distribute": "a homomorphism moves through a fold",
    "split": "a fold is the fold over a part combined with the rest",
    "reindex": "the same elements under other indices; what is added is the identity",
    "tuple": "one component of several folds made together",
    "gather": "a one-hot fold is the one element that it picks",
    "rename": "bound axes are renamed",
    "finite": "what it never is for any inputs is shown, and relied on from here on",
    "define": "a new definition, in front of this one",
    "recall": "a definition's value is replaced by its element",
    "gradient": "what each reader of the source gives, transposed",
    "tangent": "the slope over the tangents of what is read",
    "drop": "nothing reads the definition",
}
WIDTH = 160


def explain(certificate: CertificateData | str, width: int = WIDTH) -> str:
    """The whole explanation as plain text."""
    data = read(certificate) if isinstance(certificate, str) else certificate
    out = [f"program {data.traced.name}", *_signature(data.traced, width)]
    if data.broken:
        out += ["", f"the chain of steps is broken: {data.broken}"]
    if prior := _of(data, "program"):
        out += _proved(prior)
    for number, step in enumerate(data.steps, 1):
        effect = data.body["steps"][number - 1]["ieee"]
        place = f"{step.tensor} at {'.'.join(map(str, step.path)) or 'the top'}"
        out += ["", f"step {number}: {step.rule}, in {place}   ({RULES.get(step.rule, '')}; IEEE: {effect})"]
        if step.before is not None and step.after is not None:
            out += [f"  before  {brief(step.before, width)}", f"  after   {brief(step.after, width)}"]
        if step.new is not None:
            out.append(f"  new     {_tensor(step.new.tensor)} [{', '.join(step.new.axes)}] = {brief(step.new.value, width)}")
        for name, ends in step.invariants:
            out.append(f"  left out, as {', '.join(g for g, _ in ends)} does not depend on it: {name}")
        if step.note:
            out.append(f"  note    {step.note}")
        out += _proved(_of(data, f"step {number}"))
    if stored := _stored(data):
        out += ["", "stored, and computed again", *stored]
    for number, kernel in enumerate(data.kernels):
        out += ["", *_kernel(kernel, data.body["kernels"][number]["ieee"], width)]
        out += _proved(_of(data, f"kernel {kernel.name}"))
    vacuous = sum(record.trust == "vacuous" for record in data.obligations)
    held = f"each set of them holds in one of {len(data.models)} models"
    out += ["", "hypotheses", f"  {held}; {vacuous or 'no'} proofs are vacuous"]
    out += ["axioms", *(f"  {name}: {text}" for name, text in sorted(data.axioms.items()))]
    out += ["conventions", *(f"  {text}" for text in data.conventions)]
    out += ["arithmetic of the texts, as their language states it", *(f"  {text}" for text in data.arithmetic)]
    out += ["sources", *(f"  {name} sha256 {digest}" for name, digest in sorted(data.sources.items()))]
    out += ["traffic", *_traffic(data)]
    out += ["rounding", *_rounding(data, width)]
    return "\n".join(out)


LONGEST = 24  # lines of one rounding bound that are shown


def _rounding(data: CertificateData, width: int) -> Iterator[str]:
    """The bounds to first order; the certificate holds them in full."""
    said = data.body["rounding"]
    if said is None:
        yield "  no bound is claimed"
        return
    for bound in said["bounds"]:
        if not bound["bound"]:
            yield f"  {bound['output']}: no bound: {'; '.join(bound['reasons']) or 'none is known'}"
            continue
        lines = bound["short"]
        yield f"  {bound['output']}, by kernel {bound['kernel']}: to first order, where nothing over- or underflows"
        if len(lines) > LONGEST:
            yield f"    … {len(lines) - LONGEST} lines more are in the certificate"
        yield from (f"    {elide(line, width)}" for line in lines[-LONGEST:])


def _traffic(data: CertificateData) -> list[str]:
    """The claims: each holds for every size and every capacity of M bytes."""
    out = []
    for name, claims in data.body["traffic"].items():
        out += [f"  kernel {name}: {claim['says']}" for claim in claims]
        if not claims:
            out.append(f"  kernel {name}: no more than its inputs once and its outputs once")
    return out


def _stored(data: CertificateData) -> list[str]:
    """What lies in memory between kernels, and what several kernels compute each for itself, by the bytes that this costs."""
    last = data.programs[-1]
    written: dict[str, set[str]] = {}  # definition -> what was written into it
    shapes = {d.tensor.name: d for program in data.programs for d in program.defs}
    for step in data.steps:
        if step.rule == "substitute" and isinstance(step.before, Read):
            held = {step.before.tensor} | written.get(step.before.tensor, set())
            written.setdefault(step.tensor, set()).update(held)
    out = []
    for d in last.defs:
        readers = [x.tensor.name for x in last.defs if d.tensor.name in mentions(x.value)]
        if d.tensor.name not in last.outputs:
            out.append(f"  stored {_tensor(d.tensor)} for {', '.join(readers)}: {_bytes(d.tensor)} written once, read by each")
    kept = {d.tensor.name for d in last.defs}
    rank = max((len(d.tensor.shape) for d in last.defs if d.tensor.name not in last.outputs), default=0)
    for name, d in shapes.items():
        users = [x for x in kept if name in written.get(x, ())]
        if name not in kept and len(users) > 1 and isinstance(d.value, Fold) and len(d.tensor.shape) >= rank:
            text = f"stored it would be {_bytes(d.tensor)} written and as many read by each"
            out.append(f"  computed again {_tensor(d.tensor)} in {', '.join(sorted(users))}: {text}")
    return out


def _bytes(tensor: Tensor) -> str:
    return " · ".join([str(BYTES[tensor.dtype]), *(show(extent, 6) for extent in tensor.shape)]) + " bytes"


def brief(term: Term, width: int = WIDTH) -> str:
    """One line, its middle left out where it is long."""
    return elide(show(term), width)


def _signature(program: Program, width: int) -> list[str]:
    out = [f"  size {s.name} in {s.low} … {s.high}" for s in program.sizes]
    out += [f"  input {_tensor(tensor)}" for tensor in program.inputs]
    for d in program.defs:
        kind = "output" if d.tensor.name in program.outputs else "where"
        out.append(f"  {kind} {_tensor(d.tensor)}   [{', '.join(d.axes)}] = {brief(d.value, width)}")
    return out


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name}: {tensor.dtype}[{', '.join(show(extent) for extent in tensor.shape)}]"


def _kernel(kernel: Kernel, effect: str, width: int) -> list[str]:
    out = [f"kernel {kernel.name}: {', '.join(kernel.outputs)} from {', '.join(kernel.reads) or 'nothing'}   (IEEE: {effect})"]
    out += [f"  {elide(line, width)}" for line in show_kernel(kernel).splitlines()]
    claims = list(_claims(kernel.body, ""))
    if claims:
        out.append("  invariants and contents")
        out += [f"    {where}: {name}[{', '.join(c.index)}] = {brief(c.value, width)}" for where, name, c in claims]
    return out + [f"  note {note}" for note in kernel.notes]


def _claims(body: Iterable[Stmt], where: str) -> Iterator[tuple[str, str, Claim]]:
    for statement in body:
        match statement:
            case For(axis, _, inner, carried):
                for held in carried:
                    yield f"at the head of each {axis.name}", held.buffer, held.claim
                yield from _claims(inner, axis.name)
            case Assign() if statement.claim is not None:
                yield f"once assigned{f' in {where}' if where else ''}", statement.target, statement.claim
            case Alloc() if statement.claim is not None:
                yield "once filled", statement.buffer.name, statement.claim


def _of(data: CertificateData, place: str) -> list[Record]:
    return [record for record in data.obligations if record.place == place or record.place.startswith(f"{place}/")]


def _proved(records: list[Record]) -> list[str]:
    """Obligations grouped by the last words of their names, with how many and by whom."""
    groups = Counter(
        (_kind(record.name), record.prover if record.trust != "vacuous" else f"{record.prover}, vacuous") for record in records
    )
    return [f"  proved  {kind} × {count} ({prover})" for (kind, prover), count in sorted(groups.items())]


def _kind(name: str) -> str:
    """The family and the claim: value/out/element/fold/onto -> value … onto."""
    parts = name.split("/")
    return name if len(parts) < 3 else f"{parts[0]} … {parts[-1]}"
