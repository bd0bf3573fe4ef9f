"""Systematic changes to a printed text: every operator, literal, name and statement, one at a time.

Each gives (what was done, line, text). Changes that C itself would refuse are among them: a reader must refuse them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TOKEN = re.compile(r'[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|""|\+\+|--|<=|>=|==|!=|&&|\|\||\S')
FLIPS = {
    "+": "-", "-": "+", "*": "+", "/": "*", "<": "<=", "<=": "<", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "&": "|",
    "|": "&", "!": "-", "~": "-", "?": ":", "++": "--",
}  # fmt: skip
Change = tuple[str, int, str]


def body_of(text: str) -> int:
    """Where the function begins: in C behind the helpers, else behind the first empty line."""
    found = re.search(r"^int \w+\(const int64_t", text, re.MULTILINE)
    return found.start() if found else text.index("\n\n") + 2


def statements(text: str) -> Iterator[Change]:
    """Each line of the function left out, said twice, and exchanged with the next."""
    lines = text.split("\n")
    start = text.count("\n", 0, body_of(text))
    for k in range(start, len(lines) - 1):
        if lines[k].strip() in ("", "{", "}", "else {", "} else {"):
            continue
        yield "left out", k + 1, "\n".join(lines[:k] + lines[k + 1 :])
        yield "said twice", k + 1, "\n".join(lines[: k + 1] + lines[k:])


def tokens(text: str) -> Iterator[Change]:
    """Each token of the function: operators flipped, numbers off by one, names exchanged for their neighbours."""
    start = body_of(text)
    names = list(dict.fromkeys(re.findall(r"(?:\w+ \*?(?:restrict )?)([A-Za-z]\w*)(?:: \w+)? = ", text[start:])))
    for found in TOKEN.finditer(text, start):
        word, line = found.group(), text.count("\n", 0, found.start()) + 1
        for new in changed(word, names):
            yield f"{word} -> {new}", line, text[: found.start()] + new + text[found.end() :]


def changed(word: str, names: list[str]) -> list[str]:
    if word in FLIPS:
        return [FLIPS[word]]
    if word.isdigit():
        return [str(int(word) + 1), *([str(int(word) - 1)] if word != "0" else [])]
    if re.fullmatch(r"[\d.]+(e[+-]?\d+)?f?", word):
        bare = word.removesuffix("f")
        return [re.sub(r"\d(?!.*\d)", lambda d: str((int(d.group()) + 1) % 10), bare) + word[len(bare) :], bare if bare != word else word + "f"]
    if word in names:
        place = names.index(word)
        return [names[place - 1], names[(place + 1) % len(names)]]
    return []


def helpers(text: str) -> Iterator[Change]:
    """The last digit or operator of each line of the helpers."""
    lines = text[: body_of(text) - 1].split("\n")
    whole = text.split("\n")
    for k, line in enumerate(lines):
        if k < 4 or not (digits := list(re.finditer(r"\d|[-+*<>]", line))):
            continue
        at = digits[-1]
        new = str((int(at.group()) + 1) % 10) if at.group().isdigit() else {"+": "-", "-": "+", "*": "/", "<": ">", ">": "<"}[at.group()]
        yield f"helper: {at.group()} -> {new}", k + 1, "\n".join([*whole[:k], line[: at.start()] + new + line[at.end() :], *whole[k + 1 :]])
