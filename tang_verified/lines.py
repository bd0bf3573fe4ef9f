"""Long lines for a reader: the middle left out, or broken at a terminal's width under a hanging indent."""

from __future__ import annotations

import textwrap

HANG = 4


def elide(text: str, width: int) -> str:
    """At most `width` characters: the beginning and the end."""
    if len(text) <= width:
        return text
    head = (width - 3) * 2 // 3
    return f"{text[:head]} … {text[len(text) - (width - 3 - head):]}"


def wrapped(text: str, width: int) -> str:
    """Each line broken at spaces into lines of at most `width`, those that follow indented by HANG more. Words stay whole."""
    return "\n".join(part for line in text.splitlines() for part in _wrap(line, width))


def _wrap(line: str, width: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    hanging = indent + " " * HANG
    if len(line) <= width or len(hanging) * 2 > width:
        return [line]
    return textwrap.wrap(
        line.strip(), width, initial_indent=indent, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )
