"""Two certificates side by side: what was added, removed, changed, and what is *weaker* in the new one.

Weaker is: an obligation that has become vacuous; one gone or shown by less while steps and kernels are the same; a family
of the kernels' obligations (in-bounds, cover, no-race, …) without a member left; an axiom, a convention or a statement on
arithmetic more; a range of sizes narrower; an IEEE effect worse; a source or output no longer covered; a bound given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tang_verified.proofs.certificate import CertificateData, Record, program_digest
from tang_verified.semantics.show import show

EFFECTS = ("exact", "reassociates", "range")


@dataclass(frozen=True)
class Difference:
    kind: str  # "added", "removed", "changed" or "weaker"
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def compare(old: CertificateData, new: CertificateData) -> list[Difference]:
    """Every difference, weaker ones last."""
    out = [*_program(old, new), *_steps(old, new), *_kernels(old, new), *_obligations(old, new)]
    out += _named("axiom", old.axioms, new.axioms, more_is_weaker=True)
    out += _named("convention", old.conventions, new.conventions, more_is_weaker=True)
    out += _named("arithmetic", old.arithmetic, new.arithmetic, more_is_weaker=True)
    out += _named("source", old.sources, new.sources, more_is_weaker=False)
    both = [name for name in old.sources if name in new.sources]
    out += [Difference("changed", f"source {name}") for name in both if new.sources[name] != old.sources[name]]
    for kernel in old.claims.keys() & new.claims.keys():
        before, after = ([claim["says"] for claim in data.body["traffic"][kernel]] for data in (old, new))
        out += [Difference("weaker", f"kernel {kernel}: traffic {says}") for says in before if says not in after]
        out += [Difference("added", f"kernel {kernel}: traffic {says}") for says in after if says not in before]
    if old.body["rounding"] != new.body["rounding"]:
        out.append(Difference("weaker" if new.body["rounding"] is None else "changed", "rounding bound"))
    return sorted(out, key=lambda d: d.kind == "weaker")


def report(old: CertificateData, new: CertificateData, most: int | None = 10) -> str:
    """The differences as text: how many of each kind, then at most `most` of each (None: all), weaker ones last."""
    found = compare(old, new)
    if not found:
        return "no difference"
    counts = Counter(d.kind for d in found)
    lines = [", ".join(f"{counts[kind]} {kind}" for kind in ("added", "removed", "changed", "weaker") if counts[kind])]
    if signature(old) != signature(new):
        lines.append(f"these are different programs: {signature(old)} and {signature(new)}")
    if most is None:
        return "\n".join([*lines, *map(str, found)])
    shown: Counter[str] = Counter()
    for difference in found:
        shown[difference.kind] += 1
        if shown[difference.kind] <= most:
            lines.append(str(difference))
    left = sum(max(0, count - most) for count in counts.values())
    return "\n".join([*lines, f"{left} more are not listed; --verbose lists them"] if left else lines)


def signature(data: CertificateData) -> str:
    """softmax(x[n, m]) -> t4_div[n, m]: what a caller sees of a program."""
    program = data.traced

    def spelt(name: str) -> str:
        tensor = program.tensor(name)
        return f"{name} {tensor.dtype}[{', '.join(show(extent) for extent in tensor.shape)}]"

    inputs = ", ".join(spelt(tensor.name) for tensor in program.inputs)
    return f"{program.name}({inputs}) -> {', '.join(spelt(name) for name in program.outputs)}"


def _program(old: CertificateData, new: CertificateData) -> list[Difference]:
    out: list[Difference] = []
    if program_digest(old.traced) == program_digest(new.traced):
        return out
    out.append(Difference("changed", "the traced program"))
    ranges = {size.name: size for size in new.traced.sizes}
    for size in old.traced.sizes:
        after = ranges.get(size.name)
        if after is not None and (after.low > size.low or after.high < size.high):
            what = f"size {size.name} ranges over {after.low} … {after.high}, before over {size.low} … {size.high}"
            out.append(Difference("weaker", what))
    out += _named("output", old.traced.outputs, new.traced.outputs, more_is_weaker=False)
    return out


def _steps(old: CertificateData, new: CertificateData) -> list[Difference]:
    def lines(data: CertificateData) -> list[str]:
        return [f"{step.rule} in {step.tensor} at {list(step.path)}" for step in data.steps]

    out = _counted("step", lines(old), lines(new))
    if not out and old.steps != new.steps:
        out = [Difference("changed", "the terms of the steps")]
    before, after = _worst(old, "steps"), _worst(new, "steps")
    return [*out, *_effect("the derivation", before, after)]


def _kernels(old: CertificateData, new: CertificateData) -> list[Difference]:
    before, after = {k.name: k for k in old.kernels}, {k.name: k for k in new.kernels}
    out = _named("kernel", before, after, more_is_weaker=None)
    effects = [{entry["name"]: str(entry["ieee"]) for entry in data.body["kernels"]} for data in (old, new)]
    for name in before:
        if name in after:
            if before[name].body != after[name].body:
                out.append(Difference("changed", f"kernel {name}"))
            out += _effect(f"kernel {name}", effects[0][name], effects[1][name])
    return out


def _obligations(old: CertificateData, new: CertificateData) -> list[Difference]:
    same = old.steps == new.steps and [k.body for k in old.kernels] == [k.body for k in new.kernels]
    before, after = Counter(map(_name, old.obligations)), Counter(map(_name, new.obligations))
    out = [Difference("added", f"obligation {name}{_times(n)}") for name, n in (after - before).items()]
    families = {_family(record) for record in new.obligations}
    lost = before - after
    for record in {_name(r): r for r in old.obligations}.values():
        if n := lost[_name(record)]:
            gone = _family(record) not in families and not record.place.startswith("step ")
            kind = "weaker" if same or gone else "removed"
            out.append(Difference(kind, f"obligation {_name(record)}{_times(n)}" + (" is gone" if kind == "weaker" else "")))
    provers = {(r.place, r.name, r.statement): set(r.prover.split("+")) for r in new.obligations}
    for record in old.obligations:
        by = provers.get((record.place, record.name, record.statement))
        if by is not None and not set(record.prover.split("+")) <= by and "structure" not in by:
            what = f"obligation {_name(record)} is shown by {'+'.join(sorted(by))}, before by {record.prover}"
            out.append(Difference("weaker", what))
    vacuous = [Counter(_name(r) for r in data.obligations if r.trust == "vacuous") for data in (old, new)]
    out += [Difference("weaker", f"obligation {name}{_times(n)} is vacuous") for name, n in (vacuous[1] - vacuous[0]).items()]
    if same and not lost and before == after:
        texts = [Counter((_name(r), r.statement) for r in data.obligations) for data in (old, new)]
        out += [Difference("changed", f"statement of {name}") for name, _ in texts[0] - texts[1]]
    return out


def _name(record: Record) -> str:
    return f"{record.place}: {record.name}"


def _family(record: Record) -> str:
    return record.name.split("/")[0]


def _times(count: int) -> str:
    return f" × {count}" if count > 1 else ""


def _worst(data: CertificateData, part: str) -> str:
    return max((str(entry["ieee"]) for entry in data.body[part]), key=_rank, default="exact")


def _rank(effect: str) -> int:
    return EFFECTS.index(effect) if effect in EFFECTS else len(EFFECTS)


def _effect(what: str, before: str, after: str) -> list[Difference]:
    if before == after:
        return []
    return [Difference("weaker" if _rank(after) > _rank(before) else "changed", f"IEEE effect of {what}: {before} → {after}")]


def _counted(what: str, old: Iterable[str], new: Iterable[str]) -> list[Difference]:
    before, after = Counter(old), Counter(new)
    out = [Difference("removed", f"{what} {name}{_times(n)}") for name, n in (before - after).items()]
    return out + [Difference("added", f"{what} {name}{_times(n)}") for name, n in (after - before).items()]


def _named(what: str, old: Iterable[str], new: Iterable[str], *, more_is_weaker: bool | None) -> list[Difference]:
    before, after = list(old), list(new)
    gained, lost = [n for n in after if n not in before], [n for n in before if n not in after]
    out = [Difference("weaker", f"{what} {n} is new") if more_is_weaker else Difference("added", f"{what} {n}") for n in gained]
    return out + [Difference("weaker" if more_is_weaker is False else "removed", f"{what} {n}") for n in lost]
