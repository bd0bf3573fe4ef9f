"""Certificates as files: which ones a path names, the printed sources beside each, and the tables of their languages."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path

from tang_verified.backends import SUFFIX as DIALECTS
from tang_verified.backends import get
from tang_verified.proofs.ledger import Solver
from tang_verified.proofs.replay import Finding, Report, audit_text
from tang_verified.proofs.strict_json import BYTE_LIMIT

SUFFIX = ".cert.json"


def audit(path: str | Path, solver: Solver = "z3") -> Report:
    """Prove again everything that a certificate claims, from the file alone, and compare the sources beside it.

    >>> audit("no-such-file.cert.json").exit_code
    2
    """
    if not isinstance(path, (str, PathLike)):
        why = f"a path is expected, not a {type(path).__name__}"
        return Report(str(path), solver, (Finding(str(path), "certificate", "", "read", "bad call", why),))
    reports = audited([path], solver)
    if len(reports) == 1:
        return reports[0]
    found = tuple(finding for report in reports for finding in report.findings)
    if not reports:
        found = (Finding(str(path), "certificate", "", "read", "bad call", f"no file or folder with *{SUFFIX} files"),)
    return Report(str(path), solver, found, sum(report.proved for report in reports))


def audited(paths: Sequence[str | Path], solver: Solver = "z3") -> list[Report]:
    """A report for each certificate, then one for each folder in which a text lies that none of its certificates names."""
    reports = [audit_file(file, solver) for file in certificates(paths)]
    for folder in dict.fromkeys(path for path in map(Path, paths) if path.is_dir()):
        here = [report for report in reports if Path(report.file).parent == folder]
        named = {name for report in here if report.data is not None for name in report.data.sources}
        named |= {finding.obligation for report in here for finding in report.findings if finding.step == "source"}
        lost = [there.name for there in sorted(folder.iterdir()) if is_text(there) and there.name not in named]
        if here and lost:
            found = [
                Finding(str(folder), "source", "", name, "mismatch", f"no certificate in the folder says anything about {name}")
                for name in lost
            ]
            reports.append(Report(str(folder), solver, tuple(found)))
    return reports


def is_text(file: Path) -> bool:
    """Whether the file's name ends as a kernel's text does, in whatever letters."""
    return file.suffix.lower().removeprefix(".") in DIALECTS.values() and file.is_file()


def certificates(paths: Sequence[str | Path]) -> list[Path]:
    """The files named, and every certificate directly in the folders named."""
    out: dict[Path, None] = {}
    for path in map(Path, paths):
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        out.update(dict.fromkeys(found))
    return list(out)


def audit_file(file: Path, solver: Solver = "z3") -> Report:
    try:
        content = load(file)
    except OSError as problem:
        why = f"cannot be read: {problem.strerror or problem}"
        return Report(str(file), solver, (Finding(str(file), "certificate", "", "read", "bad call", why),))
    with no_collection():
        return _with_arithmetic(audit_text(content, solver, Beside(file), str(file)))


def _with_arithmetic(report: Report) -> Report:
    """What a certificate says of rounding must be the table of the language that its texts are in. The proofs do not use it."""
    if report.data is None or not report.data.arithmetic:
        return report
    suffixes = {name.rpartition(".")[2] for name in report.data.sources} or set(DIALECTS.values())
    tables = [get(backend).arithmetic() for backend, suffix in DIALECTS.items() if suffix in suffixes]
    named = [table for table in tables if table.lines() == report.data.arithmetic]
    if tables and (not named or (report.data.sources and len(named) < len(tables))):  # one language's table is no other's
        message = "what is said of rounding is not the table of the texts' language"
        found = Finding(report.file, "certificate", "", "arithmetic", "mismatch", message)
    elif named and report.data.rounding is not None and report.data.rounding not in [table.numbers() for table in named]:
        message = "the numbers that the rounding bounds follow from are not those of the texts' language"
        found = Finding(report.file, "certificate", "", "rounding/numbers", "mismatch", message)
    else:
        return report
    return replace(report, findings=(*report.findings, found), certified=None)


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's cycle collector, which would walk millions of live terms for nothing: a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def load(file: Path) -> bytes:
    """The file's bytes, and one more than the limit where there are more: enough for the reader to refuse it."""
    with file.open("rb") as stream:
        return stream.read(BYTE_LIMIT + 1)


class Beside(dict[str, str]):
    """The texts in a certificate's folder, read when asked for; it lists only those that bear the certificate's name:
    NAME.c and NAME.KERNEL.c beside NAME.cert.json, those alone that end in .c beside NAME.c.cert.json."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.folder = file.parent
        if not file.name.endswith(SUFFIX):
            return
        stem = file.name.removesuffix(SUFFIX)
        suffixes = [suffix for suffix in DIALECTS.values() if stem.endswith(f".{suffix}")] or list(DIALECTS.values())
        stem = stem.removesuffix(f".{suffixes[0]}") if len(suffixes) == 1 else stem
        bears = re.compile(rf"{re.escape(stem)}(\.\w+)?\.({'|'.join(suffixes)})", re.ASCII)
        for there in sorted(self.folder.iterdir()):
            if bears.fullmatch(there.name) and there.is_file():
                self[there.name] = self._text(there.name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and (self.folder / name).is_file())

    def __missing__(self, name: str) -> str:
        return self._text(name)

    def _text(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode("utf-8", "backslashreplace")
