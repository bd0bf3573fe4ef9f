"""A result may bear any name: where it is a word of a language, its array bears another."""

from __future__ import annotations

from typing import Any

import pytest

import tang_verified as tv
from tang_verified.backends import REGISTRY


def words(x: Any) -> Any:
    out = x * 2.0
    kernel = x * 3.0
    group = x * 4.0
    local = x * 5.0
    return out, kernel, group, local


@pytest.mark.parametrize("backend", REGISTRY)
def test_results_named_like_words(backend: str) -> None:
    kernel = tv.compile(words, x="n", backend=backend)  # every text is read back
    assert kernel.program.outputs == ("out", "kernel", "group", "local")
