"""Certificates as files: which ones a path names, and the printed sources that stand beside each."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tang_verified.proofs.ledger import Solver
from tang_verified.proofs.replay import Finding, Report, audit_text
from tang_verified.proofs.strict_json import BYTE_LIMIT

SUFFIX = ".cert.json"
SOURCE_SUFFIXES = (".c", ".cl", ".wgsl", ".comp", ".cu", ".metal")


def audit(path: str | Path, solver: Solver = "z3") -> Report:
    """Prove again everything that a certificate claims, from the file alone, and compare the sources beside it.

    >>> audit("no-such-file.cert.json").exit_code
    2
    """
    reports = [audit_file(file, solver) for file in certificates([path])]
    if len(reports) == 1:
        return reports[0]
    found = tuple(finding for report in reports for finding in report.findings)
    if not reports:
        found = (Finding(str(path), "certificate", "", "read", "bad call", f"no file or folder with *{SUFFIX} files"),)
    return Report(str(path), solver, found, sum(report.proved for report in reports))


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
        return audit_text(content, solver, Beside(file), str(file))


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
    """The texts in a certificate's folder, read when asked for; it lists only those that bear the certificate's name."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.folder = file.parent
        stem = file.name.removesuffix(SUFFIX)
        for suffix in SOURCE_SUFFIXES:
            if file.name.endswith(SUFFIX) and (self.folder / (stem + suffix)).is_file():
                self[stem + suffix] = self._text(stem + suffix)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and (self.folder / name).is_file())

    def __missing__(self, name: str) -> str:
        return self._text(name)

    def _text(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode("utf-8", "backslashreplace")
