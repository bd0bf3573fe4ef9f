"""JSON text that may be hostile: limits first, then a parse that accepts one spelling of each thing.

Refused before parsing: too many bytes, not UTF-8, brackets nested too deep (so that no recursion runs away). Refused while
parsing: floats, NaN and Infinity, integers of absurd length, a key twice in one object.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NoReturn

from tang_verified.semantics.serial import BadData

BYTE_LIMIT = 64 << 20
NESTING_LIMIT = 64
DIGIT_LIMIT = 40
TOKEN = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)  # one pass: a string never closed ends the text


def parse(text: str | bytes) -> Any:
    """The data, or `BadData` saying what is wrong."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(raw) > BYTE_LIMIT:
        raise BadData(f"{len(raw)} bytes, the limit is {BYTE_LIMIT}")
    try:
        decoded = raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise BadData(f"not UTF-8 at byte {problem.start}") from None
    _check_nesting(decoded)
    try:
        data = json.loads(
            decoded, object_pairs_hook=_object, parse_float=_refuse_float, parse_int=_integer, parse_constant=_refuse_float
        )
        canonical(data).encode("utf-8")
    except json.JSONDecodeError as problem:
        raise BadData(f"not JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}") from None
    except UnicodeEncodeError:
        raise BadData("a text holds half of a surrogate pair") from None
    return data


def canonical(data: Any) -> str:
    """The one spelling that digests are taken of."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(data: Any) -> str:
    return hashlib.sha256(canonical(data).encode("utf-8")).hexdigest()


def _check_nesting(text: str) -> None:
    depth = 0
    for token in TOKEN.finditer(text):
        sign = text[token.start()]
        if sign in "[{":
            depth += 1
            if depth > NESTING_LIMIT:
                raise BadData(f"nested deeper than {NESTING_LIMIT} levels at character {token.start()}")
        elif sign in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1}) if len(names) < 1000 else ["…"]
        raise BadData(f"key {twice[0][:80]!r} stands twice in one object")
    return out


def _integer(digits: str) -> int:
    if len(digits) > DIGIT_LIMIT:
        raise BadData(f"an integer of {len(digits)} digits, the limit is {DIGIT_LIMIT}")
    return int(digits)


def _refuse_float(spelling: str) -> NoReturn:
    raise BadData(f"{spelling[:40]} is no integer; rationals are spelled as \"p/q\"")
