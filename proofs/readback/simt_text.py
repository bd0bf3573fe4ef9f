"""A GPU text in one of the languages of `simt_language.py` -> `syntax.Module`.

comment, known lines, arrays where the language has them here, helpers: each letter by letter        head
(empty line) entry point's lines, shared arrays, sizes, block and thread, statements                 each entry point

Everything around the statements is compared line by line with the language's table; statements are read by `_Reader`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tang_verified.proofs.readback import simt_helpers
from tang_verified.proofs.readback.expressions import plain, tokens
from tang_verified.proofs.readback.simt_language import Language
from tang_verified.proofs.readback.simt_statements import NUMBER, Reader
from tang_verified.proofs.readback.syntax import Array, Entry, Module, Number, Parameter, Unreadable


class _Lines:
    """The lines of a text, taken one after the other."""

    def __init__(self, text: str) -> None:
        self.lines, self.place = text.split("\n"), 0

    @property
    def number(self) -> int:
        return self.place + 1

    def peek(self) -> str:
        return self.lines[self.place] if self.place < len(self.lines) else ""

    def match(self, pattern: str) -> re.Match[str] | None:
        """The next line, if it is like this."""
        found = re.fullmatch(pattern, self.peek()) if self.place < len(self.lines) else None
        self.place += found is not None
        return found

    def need(self, pattern: str, what: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            raise Unreadable(self.number, f"{self.peek()[:70]!r} where {what} is expected")
        return found

    def accept(self, text: str) -> bool:
        same = self.peek() == text
        self.place += same
        return same


def read(text: str, language: Language) -> Module:
    """The file's contents, or `Unreadable`."""
    plain(text)
    lines = _Lines(text)
    names: set[str] = set()
    if language.name == "glsl" and not lines.accept("#version 450"):
        raise Unreadable(1, "not the known version")
    if language.name == "wgsl":
        lines.accept("enable f16;")
    lines.need(language.comment, "a comment")
    for place, known in enumerate(language.lines):
        if not lines.accept(known) and place < language.required:
            raise Unreadable(lines.number, f"{lines.peek()[:60]!r} where {known!r} is expected")
    arrays = _arrays_of_module(lines, language, names)
    helpers = _helpers(lines, language)
    entries: list[Entry] = []
    while lines.place < len(lines.lines) - 1:
        shared = _shared(lines, language, names) if language.name == "wgsl" else []
        lines.need("", "an empty line")
        entries.append(_entry(lines, language, helpers, arrays, shared, set() if arrays is None else names))
    if lines.peek() or not entries or len({entry.name for entry in entries}) != len(entries):
        raise Unreadable(lines.number, "the file does not end with its entry points, each of its own name")
    return Module(tuple(entries), helpers)


def _helpers(lines: _Lines, language: Language) -> frozenset[str]:
    found: dict[str, None] = {}
    while lines.peek() and not (language.name == "wgsl" and lines.peek().startswith("var<workgroup>")):
        named = simt_helpers.NAME.search(lines.peek())
        expected = simt_helpers.known(language, named[1]) if named else None
        if named is None or expected is None or named[1] in found:
            raise Unreadable(lines.number, f"{lines.peek()[:60]!r} is not a helper that is known")
        for line in expected.split("\n"):
            if not lines.accept(line):
                raise Unreadable(lines.number, f"helper {named[1]} is not the known text")
        found[named[1]] = None
    return frozenset(found)


def _fresh(names: set[str], language: Language, name: str, line: int) -> str:
    if name in names or taken(language, name):
        raise Unreadable(line, f"the name {name!r} is taken")
    names.add(name)
    return name


def taken(language: Language, name: str) -> bool:
    """Names that mean something else in the language."""
    return name in RESERVED or name in language.functions or simt_helpers.known(language, name) is not None


def _array(found: re.Match[str], line: int, name: str, language: Language, place: int) -> Parameter:
    groups = found.groupdict()
    for number in ("binding", "again"):
        if groups.get(number, str(place)) != str(place):
            raise Unreadable(line, f"{name} is bound to {groups[number]}, expected {place}")
    const = groups["access"] == "read" if "access" in groups else groups["const"] is not None
    return Parameter(line, name, _element(language, groups["element"], line), const)


def _element(language: Language, spelled: str, line: int) -> str:
    if spelled not in language.elements:
        raise Unreadable(line, f"{spelled!r} is no type of elements")
    return language.elements[spelled]


def _arrays_of_module(lines: _Lines, language: Language, names: set[str]) -> tuple[Parameter, ...] | None:
    """Arrays that stand in front of all entry points, then the sizes; None in the languages where they are parameters."""
    if len(language.fixed) != 1:
        return None
    out: list[Parameter] = []
    last = language.fixed[0]
    while lines.peek() != last.replace("#", str(len(out))) and (found := lines.match(language.array)) is not None:
        line = lines.number - 1
        out.append(_array(found, line, _fresh(names, language, found["name"], line), language, len(out)))
    lines.need(re.escape(last.replace("#", str(len(out)))), "the array of sizes")
    return tuple(out)


def _shared(lines: _Lines, language: Language, names: set[str]) -> list[Array]:
    out: list[Array] = []
    if language.dynamic[0] and lines.match(language.dynamic[0]) is not None:
        return _dynamic(lines, language, names)
    while (found := lines.match(language.shared)) is not None:
        line = lines.number - 1
        name, element = _fresh(names, language, found["name"], line), _element(language, found["element"], line)
        out.append(Array(line, element, name, (Number(line, found["count"]),), False))
    return out


def _dynamic(lines: _Lines, language: Language, names: set[str]) -> list[Array]:
    """Arrays one behind the other in the memory that the launch gives."""
    out: list[Array] = []
    end = 0
    while (found := lines.match(language.dynamic[1])) is not None:
        line = lines.number - 1
        name, element = _fresh(names, language, found["name"], line), _element(language, found["element"], line)
        if int(found["offset"]) != end:
            raise Unreadable(line, f"{name} begins at {found['offset']}, the one before it ends at {end}")
        out.append(Array(line, element, name, (Number(line, found["count"]),), False, end))
        end += -(-int(found["count"]) * SIZES[element] // 16) * 16
    return out


def _entry(
    lines: _Lines, language: Language, helpers: frozenset[str], arrays: tuple[Parameter, ...] | None, shared: list[Array],
    names: set[str],
) -> Entry:  # fmt: skip
    first = lines.number
    groups: dict[str, str] = {}
    told = first
    for pattern in language.entry:
        found = lines.need(pattern, "an entry point")
        told = lines.number - 1 if "threads" in found.groupdict() else told
        groups |= found.groupdict()
    if taken(language, groups["name"]):
        raise Unreadable(first, f"the name {groups['name']!r} is taken")
    names = set(names)
    take: Callable[[str, int], str] = lambda name, line: _fresh(names, language, name, line)  # noqa: E731
    sizes: list[Parameter] = []
    if arrays is None:
        arrays = _parameters(groups["parameters"], lines.number - 1, language, sizes, take)
    if language.name != "wgsl":
        shared = _shared(lines, language, names)
    if language.name == "glsl":
        lines.need(r"void main\(\) \{", "the entry point")
    while language.fixed and (size := lines.match(language.size)) is not None:
        if size["place"] != str(len(sizes)):
            raise Unreadable(lines.number - 1, f"size {size['place']}, expected {len(sizes)}")
        sizes.append(Parameter(lines.number - 1, take(size["name"], lines.number - 1), "int64_t", True))
    block = lines.need(language.block, "the block's number")[1]
    thread = lines.need(language.thread, "the thread's number")[1]
    take(block, lines.number - 2)
    take(thread, lines.number - 1)
    start = lines.place
    while lines.place < len(lines.lines) and lines.peek() != "}":
        lines.place += 1
    listed = tokens("\n".join(lines.lines[start : lines.place]), start + 1, NUMBER)
    body = Reader(listed, language, helpers, take).body()
    for text in language.end:
        if not lines.accept(text):
            raise Unreadable(lines.number, f"{text!r} is expected")
    threads = int(groups["threads"]) if "threads" in groups else None
    return Entry(groups["name"], first, threads, told, tuple(sizes), arrays, tuple(shared), block, thread, body)


def _parameters(
    text: str, line: int, language: Language, sizes: list[Parameter], take: Callable[[str, int], str]
) -> tuple[Parameter, ...]:
    """Arrays, then what the language fixes, or the sizes."""
    parts, out = text.split(", "), list[Parameter]()
    while parts and (found := re.fullmatch(language.array, parts[0])) is not None:
        out.append(_array(found, line, take(found["name"], line), language, len(out)))
        parts.pop(0)
    if language.fixed:
        if parts != [part.replace("#", str(len(out))) for part in language.fixed]:
            raise Unreadable(line, "not the known parameters")
        return tuple(out)
    for part in parts:
        found = re.fullmatch(language.size, part)
        if found is None:
            raise Unreadable(line, f"parameter {part[:60]!r}")
        sizes.append(Parameter(line, take(found[1], line), "int64_t", True))
    return tuple(out)


SIZES = {"uint16_t": 2, "float": 4, "int32_t": 4, "double": 8, "int64_t": 8, "uint8_t": 4}  # of bools, at most
RESERVED = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm bool true false
    half uint uchar kernel global local constant private device threadgroup shared buffer layout in out inout main size
    group groups barrier select bitcast let var fn array INFINITY NAN vload_half vstore_half thread block i32 u32 f32 f16
    blockIdx threadIdx gridDim blockDim make_float2 make_float4 make_uint2 make_uint4 make_int2 make_int4 workgroupBarrier
    get_group_id get_local_id get_num_groups get_global_id threadgroup_barrier mem_flags simd_shuffle_xor uintBitsToFloat
    tv_shared discard loop CLK_LOCAL_MEM_FENCE CLK_GLOBAL_MEM_FENCE float16_t pow""".split()
)
