"""Text for a terminal: elided and wrapped; what is piped keeps its lines."""

from __future__ import annotations

import io
import sys

import pytest

from tang_verified.cli import say
from tang_verified.lines import elide, wrapped

LONG = "  before  " + " + ".join(f"x[{k}]" for k in range(40))


def test_wrapped_under_a_hanging_indent() -> None:
    lines = wrapped(f"step 1: pointwise\n{LONG}", 60).splitlines()
    assert lines[0] == "step 1: pointwise" and lines[1].startswith("  before  x[0] + ") and len(lines) > 4
    assert all(len(line) <= 60 for line in lines) and all(line.startswith("      ") for line in lines[2:])
    assert " ".join(line.strip() for line in lines[1:]) == LONG.strip()


def test_words_stay_whole() -> None:
    name = "a" * 90
    assert wrapped(f"sha256 {name}", 60).splitlines() == ["sha256", f"    {name}"]
    assert wrapped("x" * 90, 60) == "x" * 90 and wrapped("", 60) == ""


def test_elided() -> None:
    assert elide("abc", 3) == "abc"
    short = elide("a" * 50 + "b" * 50, 30)
    assert len(short) == 30 and short.startswith("aaa") and short.endswith("bbb") and " … " in short


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "most"), [(Terminal(), 50), (io.StringIO(), len(LONG))])
def test_say_wraps_on_a_terminal_only(stream: io.StringIO, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    say(f"program p\n{LONG}\n")
    assert max(len(line) for line in stream.getvalue().splitlines()) <= most
    assert (LONG in stream.getvalue()) == (most > 50)
