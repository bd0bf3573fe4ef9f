"""The examples in the docstrings of this package run, and every public function has one."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import tang_verified as tv

FACE = Path(tv.__file__).parent
MODULES = sorted(
    ".".join(("tang_verified", *path.relative_to(FACE).with_suffix("").parts))
    for path in (*FACE.glob("*.py"), *(FACE / "tracing").glob("*.py"))
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    results = doctest.testmod(import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0 and results.failed == 0


@pytest.mark.parametrize("name", [name for name in tv.__all__ if inspect.isfunction(getattr(tv, name))])
def test_every_public_function_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(getattr(tv, name)) or "")
