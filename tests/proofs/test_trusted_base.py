"""What the trusted core imports, and that the package itself loads no solver."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tang_verified.trusted_base import OUTSIDE, files, measure

ROOT = Path(__file__).parents[2]
ALLOWED = {"islpy", "z3", "cvc5", "numpy", "scipy"} | set(sys.stdlib_module_names)
FILES = sorted((*(ROOT / "proofs").rglob("*.py"), *(ROOT / "semantics").rglob("*.py")))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_core_imports_only_itself_the_solvers_and_the_standard_library(path: Path) -> None:
    for name in imported(path):
        first = name.split(".")[0]
        if first == "tang_verified":
            assert name.split(".")[1] in ("proofs", "semantics"), f"{path.name} imports {name}"
            assert path.parent.name != "semantics" or name.split(".")[1] == "semantics", f"semantics imports {name}"
        else:
            assert first in ALLOWED, f"{path.name} imports {name}"
        if first in ("numpy", "scipy"):
            assert path.name in ("evaluate.py", "evaluate_term.py", "scalar_tables.py"), f"{path.name} imports {name}"


def test_nothing_evaluates_text() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
            assert not isinstance(node, ast.Assert), f"{path}: a bare assert is gone under python -O"


def test_lines_are_counted_without_comments_and_docstrings() -> None:
    source = '"""Two\nlines."""\n\n# a comment\nx = [\n    1,\n]\n\n\ndef f():\n    """Doc."""\n    return """a\nb"""\n'
    assert (measure("f.py", source).code, measure("f.py", source).total) == (6, 13)


def test_what_is_not_trusted_exists_and_is_left_out() -> None:
    assert all((ROOT / name).is_file() for name in OUTSIDE)
    assert not {file.name for file in files()} & set(OUTSIDE)


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, time; start = time.process_time(); import tang_verified; spent = time.process_time() - start\n"
        "heavy = {'z3', 'islpy', 'cvc5', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\nassert spent < 0.3, spent"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
