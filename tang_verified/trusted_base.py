"""What must be believed, counted: lines of the trusted files, axioms, provers."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
# In the same folders, but nothing is believed of them: what they propose is proved, what they print is for the reader.
OUTSIDE = {
    "semantics/evaluate.py": "the reference interpreter, compared with in tests",
    "semantics/evaluate_term.py": "the reference interpreter, compared with in tests",
    "semantics/scalar_tables.py": "the reference interpreter, compared with in tests",
    "semantics/show.py": "for the reader",
    "proofs/counterexample.py": "for the reader",
    "proofs/propose.py": "guesses, each proved",
    "proofs/propose_model.py": "models, each evaluated",
    "proofs/effects.py": "a label for the reader",
    "proofs/readback/origin.py": "line numbers for the reader",
}


@dataclass(frozen=True)
class File:
    name: str
    code: int  # lines that hold code: no blank lines, comments or docstrings
    total: int


def files() -> list[File]:
    """The trusted files, in order."""
    found = sorted(path for folder in ("proofs", "semantics") for path in (ROOT / folder).rglob("*.py"))
    names = [(str(path.relative_to(ROOT).as_posix()), path) for path in found]
    return [measure(name, path.read_text("utf-8")) for name, path in names if name not in OUTSIDE]


def measure(name: str, source: str) -> File:
    lines: set[int] = set()
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in skip:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return File(name, len(lines), len(source.splitlines()))


def describe() -> str:
    """The trusted core's size, as `tang-verified audit --trusted-base` prints it."""
    from tang_verified import believed
    from tang_verified.proofs.certificate import versions
    from tang_verified.semantics.meaning import AXIOMS

    measured = files()
    out = ["trusted files (lines of code, all lines)"]
    out += [f"  {f.code:5d} {f.total:5d}  {f.name}" for f in measured if f.code]
    out.append(f"  {sum(f.code for f in measured):5d} {sum(f.total for f in measured):5d}  together")
    out.append("not trusted, though beside them")
    out += [f"  {name}: {why}" for name, why in sorted(OUTSIDE.items())]
    out.append(f"axioms ({len(AXIOMS)})")
    out += [f"  {name}: {statement}" for name, statement in AXIOMS.items()]
    out.append("provers")
    out += [f"  {name} {version}" for name, version in versions().items()]
    out.append("outside the proofs")
    out += [f"  {text}" for text in (*believed.OUTSIDE, *believed.INPUTS)]
    out.append("  functions such as exp: `tang-verified assumptions` names those of a certificate, with their accuracy")
    return "\n".join(out)
