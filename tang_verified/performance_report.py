"""A performance report that can be cited: floors, measured times, the parts of each gap, bounds with their certificates.

    data = gather(Path("bench.json"))                # or a folder with such a file and certificates
    text = render(data, "html")                      # html, md, latex, json

HTML is one file: its style is inline, its roofline plot an inline SVG (by matplotlib: pip install 'tang_verified[report]').
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from tang_verified.benching import BenchError, read_rows
from tang_verified.device_file import Device
from tang_verified.floor import BARE, UNEXPLAINED, State, attribution, floor_of

Form = Literal["html", "md", "latex", "json"]
COLOURS = ("#0b6e4f", "#3a7ca5", "#e0a458", "#a23b72", "#7a6c5d", "#5c80bc", "#9bc53d", "#c3423f")
REST = "#d9d9d9"  # what is unexplained


@dataclass
class Entry:
    """One row of a report. Times in seconds; None where something is not known, and the report says so."""

    name: str
    family: str
    sizes: dict[str, int]
    state: str
    floor: float
    minimum: float
    median: float
    ratio: float
    binding: str
    parts: list[tuple[str, float]]
    tile: str
    predicted: str
    traffic_measured: str
    error: float | None
    error_certified: float | None
    intensity: float
    speed: float
    citation: dict[str, str]
    assumes: list[str] = field(default_factory=list)


@dataclass
class Report:
    entries: list[Entry]
    date: str
    device: str
    versions: dict[str, str]
    memories: dict[str, float]
    rates: dict[str, float]
    unmeasured: list[dict[str, str]] = field(default_factory=list)


def gather(path: Path, device: Device | None = None) -> Report:
    """Rows from a file or a folder; `BenchError` where there is none.  `device`: floors anew, from the certificates there."""
    files = [path] if path.is_file() else sorted(p for p in path.glob("*.json") if not p.name.endswith(".cert.json"))
    certificates = {p.name: p for p in (path.parent if path.is_file() else path).rglob("*.cert.json")}
    documents, problems = [], []
    for file in files:
        try:
            documents.append(read_rows(file))
        except BenchError as problem:
            problems.append(problem)
    if not documents and (problems or not certificates):
        raise problems[0] if problems else BenchError(f"{path}: neither measured rows nor certificates")
    try:
        entries = [_entry(row, document, certificates, device) for document in documents for row in document["rows"]]
    except (KeyError, IndexError, TypeError, AttributeError) as problem:
        raise BenchError(f"{path}: a row is not as benchmarks/floors.py writes it: {problem!r}") from None
    used = {entry.citation["file"] for entry in entries}
    unmeasured = [_unmeasured(p) for name, p in sorted(certificates.items()) if name not in used]
    first = documents[0] if documents else {}
    ceilings = first.get("ceilings", {})
    memories, rates = ceilings.get("memories", {}), ceilings.get("rates", {})
    if device is not None:
        memories = {b.name: b.bandwidth.all for b in device.boundaries}
        rates = {name: rate.all for name, rate in device.rates.items()}
    name = f"{device.name} ({device.kind})" if device else str(first.get("device", {}).get("name", "none"))
    return Report(entries, str(first.get("date", "")), name, dict(first.get("versions", {})), memories, rates, unmeasured)


def _entry(row: dict[str, Any], document: Mapping[str, Any], certificates: Mapping[str, Path], device: Device | None) -> Entry:
    floor, binding, parts = row["floor"], row["binding"], [(str(w), float(s)) for w, s in row["attribution"]]
    if device is not None:
        floor, binding, parts = _anew(row, certificates, device)
    kernels = row["kernels"]
    tiles = [t for k in kernels if (t := _tile(k))]
    moved = [_predicted(k) for k in kernels]
    todo = sum(k["operations"] + BARE["operations"] * sum(k["special"].values()) for k in kernels)
    crossing = sum(list(k["traffic"].values())[-1]["both"] for k in kernels)
    measured = row.get("traffic_measured")
    return Entry(
        row["name"], row["family"], dict(row["sizes"]), row["state"], floor, row["minimum"], row["median"],
        floor / row["minimum"], binding, parts, "; ".join(tiles) or "none: each element is used once", "; ".join(moved),
        "no counters on this machine" if measured is None else str(measured), row.get("error"), row.get("error_certified"),
        todo / crossing if crossing else float("inf"), todo / row["minimum"], _citation(row, document),
        list(row.get("assumes", [])),
    )  # fmt: skip


def _anew(row: dict[str, Any], certificates: Mapping[str, Path], device: Device) -> tuple[float, str, list[tuple[str, float]]]:
    from tang_verified.auditing import load
    from tang_verified.proofs.certificate import read

    name = row["certificate"]["file"]
    if name not in certificates:
        raise BenchError(f"{name} is not there; a floor on another device is made from the certificate")
    certificate = read(load(certificates[name]))
    state: State = "resident" if row["state"] == "resident" else "cold"
    floor = floor_of(certificate.kernels, row["sizes"], device, state, int(row.get("calls", 1)))
    return floor.seconds, floor.binding, attribution(floor, row["minimum"], device)


def _tile(kernel: Mapping[str, Any]) -> str:
    tile = kernel["tile"]
    if not tile["extents"]:
        return ""
    extents = " × ".join(f"{axis} {extent}" for axis, extent in tile["extents"].items())
    ratio = tile["bytes"] / max(tile["bound"], 1)
    return f"{extents}: {tile['bytes']:.3g} bytes to {tile['boundary']}, {ratio:.2f} × the bound"


def _predicted(kernel: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ≥ {entry['both']:.3g}" for name, entry in kernel["traffic"].items())


def _citation(row: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, str]:
    """What to put into a paper, and how a reader checks it."""
    file, digest = row["certificate"]["file"], row["certificate"]["digest"]
    sizes = " ".join(f"--size {name}={value}" for name, value in row["sizes"].items())
    tile = row["kernels"][0]["tile"]
    memory = f"--capacity {tile['fast_bytes']} --processors {tile['memories']}"
    said = []
    for k in row["kernels"]:
        binding = next((term for term in k["terms"]), ["", 0.0, ""])
        far = k["tile"]["boundary"]
        said.append(
            f"Kernel {k['name']} at {', '.join(f'{n} = {v}' for n, v in row['sizes'].items()) or 'its sizes'} takes at least "
            f"{k['floor']:.4g} s on {document.get('device', {}).get('name', 'the device')}: {binding[2]}. At least "
            f"{k['traffic'][far]['both']:.4g} bytes cross the boundary to {far}, {k['tile']['memories']} × "
            f"{k['tile']['fast_bytes']} bytes before it ({k['traffic'][far]['why']})."
        )
    at = "".join(f":{name}{value}" for name, value in row["sizes"].items())
    key = f"tang_verified:{Path(file).name.removesuffix('.cert.json')}:{digest[:8]}{at}"
    year = str(document.get("date", ""))[:4] or "n.d."
    version = document.get("versions", {}).get("tang_verified", "")
    bibtex = (
        f"@misc{{{key},\n  title = {{Certified lower bound on the time of {row['family']} ({row['name']})}},\n"
        f"  howpublished = {{certificate sha256:{digest}}},\n  note = {{tang\\_verified {version}; "
        f"check with \\texttt{{tang-verified audit {file}}}}},\n  year = {{{year}}}\n}}"
    )
    return {
        "file": file, "digest": f"sha256:{digest}", "bound": " ".join(said), "bibtex": bibtex,
        "audit": f"tang-verified audit {file}", "check": " ".join(filter(None, (f"tang-verified bound {file}", sizes, memory))),
    }  # fmt: skip


def _unmeasured(path: Path) -> dict[str, str]:
    from tang_verified.auditing import load
    from tang_verified.proofs.certificate import read

    certificate = read(load(path))
    return {"file": path.name, "digest": f"sha256:{certificate.digest}", "audit": f"tang-verified audit {path.name}"}


# -- forms ----------------------------------------------------------------------------------------------------------


def render(report: Report, form: Form) -> str:
    match form:
        case "json":
            return json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n"
        case "md":
            return _markdown(report)
        case "latex":
            return _latex(report)
        case "html":
            return _html(report)


HEADS = (
    "program", "sizes", "caches", "measured", "floor", "floor / measured", "what binds", "unexplained", "error measured",
    "error certified",
)  # fmt: skip


def _cells(e: Entry) -> list[str]:
    rest = dict(e.parts).get(UNEXPLAINED, 0.0) / e.minimum
    return [
        e.family, e.name, e.state, _time(e.minimum), _time(e.floor), f"{e.ratio:.2f}", e.binding, f"{100 * rest:.0f} %",
        "not measured" if e.error is None else f"{e.error:.1e}",
        "none in this file" if e.error_certified is None else f"{e.error_certified:.1e}",
    ]  # fmt: skip


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _head(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items() if name != "flags")
    return f"{report.device}; measured {report.date or 'never'}; {versions}"


def _markdown(report: Report) -> str:
    lines = ["# Performance report", "", _head(report), "", f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    lines += [f"| {' | '.join(cell.replace('|', '∣') for cell in _cells(e))} |" for e in report.entries]
    for e in report.entries:
        lines += ["", f"## {e.family}, {e.name}", ""]
        lines += [f"- {what}: {_time(part)} ({part / e.minimum:.0%})" for what, part in e.parts if part]
        lines += [f"- tile: {e.tile}", f"- traffic predicted, bytes: {e.predicted}; measured: {e.traffic_measured}"]
        lines += [f"- assumed of data: {text}" for text in e.assumes]
        lines += ["", e.citation["bound"], "", "```bibtex", e.citation["bibtex"], "```", "", "```sh", e.citation["audit"],
                  e.citation["check"], "```"]  # fmt: skip
    lines += [f"\nNot measured: {u['file']}, {u['digest']} (`{u['audit']}`)" for u in report.unmeasured]
    return "\n".join(lines) + "\n"


LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "×": r"$\times$", "µ": r"$\mu$", "≥": r"$\ge$", "–": "--",
    "Σ": r"$\Sigma$", "⌈": r"$\lceil$", "⌉": r"$\rceil$", "−": r"$-$", "·": r"$\cdot$", "≤": r"$\le$", "∞": r"$\infty$",
    "…": r"\dots{}",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in text)


def _latex(report: Report) -> str:
    lines = [f"% {_head(report)}", rf"\begin{{tabular}}{{{'l' * 3}{'r' * 3}l{'r' * 3}}}", r"\hline"]
    lines += [" & ".join(map(_tex, HEADS)) + r" \\", r"\hline"]
    lines += [" & ".join(map(_tex, _cells(e))) + r" \\" for e in report.entries]
    lines += [r"\hline", r"\end{tabular}", ""]
    for e in report.entries:
        cite = {what: _tex(text) for what, text in e.citation.items()}
        lines += [
            rf"\paragraph{{{_tex(f'{e.family}, {e.name}')}}} {cite['bound']}",
            rf"Tile: {_tex(e.tile)}. Certificate: \texttt{{{cite['digest']}}};",
            rf"check with \texttt{{{cite['audit']}}} and \texttt{{{cite['check']}}}.", "",
        ]  # fmt: skip
    lines += ["% BibTeX"] + [f"% {line}" for e in report.entries for line in e.citation["bibtex"].splitlines()]
    return "\n".join(lines) + "\n"


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; font-size: 13px; } th { text-align: left; vertical-align: bottom; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid #ddd; } td.n { text-align: right; white-space: nowrap; }
.bar { display: flex; height: 1.1rem; width: 100%; background: #eee; margin: .4rem 0; } .bar span { display: block; }
.key b { font-weight: normal; white-space: nowrap; }
.key span { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 1rem; vertical-align: -1px; }
pre { background: #f6f6f6; padding: .6rem; overflow-x: auto; font-size: 12px; } .plot svg { width: 100%; height: auto; }
section { margin-top: 2rem; border-top: 1px solid #ddd; }
h2 { font-size: 1.05rem; margin: .8rem 0 .2rem; } small { color: #666; }
"""


def _html(report: Report) -> str:
    body = [f"<h1>Performance report</h1><p>{escape(_head(report))}</p>", f'<div class="plot">{_roofline(report)}</div>']
    rows = []
    for number, e in enumerate(report.entries, 1):
        kinds = ["" if k in (0, 1, 2, 6) else " class=n" for k in range(len(HEADS))]
        cells = "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, _cells(e), strict=True))
        rows.append(f'<tr><td class=n><a href="#k{number}">{number}</a></td>{cells}</tr>')
    heads = "".join(f"<th>{escape(head)}</th>" for head in ("", *HEADS))
    body.append(f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>")
    names = dict.fromkeys(what for e in report.entries for what, _ in e.parts if what != UNEXPLAINED)
    colours = {what: COLOURS[k % len(COLOURS)] for k, what in enumerate(names)} | {UNEXPLAINED: REST}
    for number, e in enumerate(report.entries, 1):
        body.append(_section(number, e, colours))
    body += [f"<p>Not measured: {escape(u['file'])}, {escape(u['digest'])}, <code>{escape(u['audit'])}</code></p>"
             for u in report.unmeasured]  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Performance report</title>'
        f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _section(number: int, e: Entry, colours: Mapping[str, str]) -> str:
    spans, keys = [], []
    for what, part in e.parts:
        if part <= 0:
            continue
        share = 100 * part / e.minimum
        title = escape(f"{what}: {_time(part)}, {share:.0f} %")
        spans.append(f'<span style="width:{share:.2f}%;background:{colours[what]}" title="{title}"></span>')
        keys.append(f'<b><span style="background:{colours[what]}"></span>{title}</b> ')
    assumed = "".join(f"<br>Assumed of data: <code>{escape(text)}</code>" for text in e.assumes)
    cite = e.citation
    return (
        f'<section id="k{number}"><h2>{number}. {escape(e.family)}, {escape(e.name)}</h2>'
        f"<div>{_time(e.minimum)} measured ({_time(e.median)} median), floor {_time(e.floor)}, ratio {e.ratio:.2f}, "
        f"{escape(e.binding)} binds</div>"
        f'<div class="bar">{"".join(spans)}</div><div class="key"><small>{"".join(keys)}</small></div>'
        f"<p>Tile: {escape(e.tile)}.<br>Traffic predicted, bytes: {escape(e.predicted)}; "
        f"measured: {escape(e.traffic_measured)}.{assumed}</p>"
        f"<p>{escape(cite['bound'])}</p><p><code>{escape(cite['digest'])}</code></p>"
        f"<pre>{escape(cite['audit'])}\n{escape(cite['check'])}</pre><pre>{escape(cite['bibtex'])}</pre></section>"
    )


def _roofline(report: Report) -> str:
    """Operations a second over operations a byte, with the roofs; an inline SVG."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return "<p>No plot: matplotlib is not installed (pip install 'tang_verified[report]').</p>"
    peak = report.rates.get("operations float32", 0.0)
    points = [(k, e) for k, e in enumerate(report.entries, 1) if 0 < e.intensity < float("inf") and e.speed > 0]
    if not points or not peak or not report.memories:
        return ""
    low = min(*(e.intensity for _, e in points), peak / max(report.memories.values())) / 2
    high = max(*(e.intensity for _, e in points), peak / min(report.memories.values())) * 2
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tang_verified", "font.size": 9}):
        figure = Figure(figsize=(10, 5.2), layout="constrained")
        axes = figure.add_subplot()
        far = list(report.memories)[-1]
        axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel=f"operations a byte that must cross to {far}",
                 ylabel="operations a second")  # fmt: skip
        for colour, (name, rate) in zip(COLOURS, reversed(report.memories.items()), strict=False):
            knee = peak / rate
            ends = [low, max(knee, low)]
            axes.plot(ends, [rate * x for x in ends], color=colour, lw=1, label=f"{name}, {rate / 1e9:.0f} GB/s")
        axes.axhline(peak, color="#222", lw=1, label=f"arithmetic, {peak / 1e9:.0f} G operations/s")
        for state, marker in (("cold", "o"), ("resident", "s")):
            own = [e for _, e in points if e.state == state]
            if own:
                axes.scatter([e.intensity for e in own], [e.speed for e in own], marker=marker, s=22, color="#c3423f", zorder=3,
                             label=f"measured, caches {state}")  # fmt: skip
        for number, e in points:
            axes.annotate(str(number), (e.intensity, e.speed), xytext=(3, 3), textcoords="offset points", fontsize=7)
        axes.grid(alpha=0.25)
        axes.legend(loc="lower right", fontsize=8)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = out.getvalue()
    hidden = len(report.entries) - len(points)
    note = f"<small>{hidden} rows of which no byte must cross are not in the plot.</small>" if hidden else ""
    return text[text.index("<svg") :] + note
