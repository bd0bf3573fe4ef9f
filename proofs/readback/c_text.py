"""C: a printed file -> `syntax.Text`.

/* … */  #include …  helpers, each known letter by letter          head
int NAME(const int64_t *size, void *const *array) {                entry
  int failed = 0;  const int64_t n = size[0];  const float *restrict x = array[0];  …
  statements                                                       body
  return failed;
}
"""

from __future__ import annotations

import re

from tang_verified.proofs.readback import c_known
from tang_verified.proofs.readback.expressions import Token, plain, tokens
from tang_verified.proofs.readback.statements import Statements
from tang_verified.proofs.readback.syntax import (
    Array,
    Call,
    Expression,
    Fail,
    Free,
    If,
    Kind,
    Loop,
    Name,
    Number,
    Parameter,
    Region,
    Statement,
    Text,
    Unreadable,
)  # fmt: skip

SCALARS = {"float": Kind("f32"), "double": Kind("f64"), "int64_t": Kind("i64"), "int": Kind("bool")}
ELEMENTS = frozenset(c_known.ELEMENTS.values())
INCLUDES = ("#include <math.h>", "#include <stdint.h>", "#include <stdlib.h>", "#include <string.h>")
INTRINSICS = ("#if defined(__AVX__)", "#include <immintrin.h>", "#endif")
PARALLEL = re.compile(
    r"#pragma omp for schedule\(dynamic(?:, 1 \+ (\w+(?: \* \w+)*) / 256)?\)(?: collapse\(([1-9][0-9]?)\))?"
)
RESERVED = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
    size array failed free int64_t int32_t uint8_t uint16_t uint32_t uint64_t""".split()
)


def read(text: str) -> Text:
    """The file's contents, or `Unreadable`."""
    plain(text)
    entry = re.search(r"^int \w", text, re.MULTILINE)
    if entry is None:
        near = text.partition("(const int64_t *size")
        raise Unreadable(near[0].count("\n") + 1 if near[1] else 1, "no function that returns int")
    helpers = _head(text[: entry.start()])
    line = text.count("\n", 0, entry.start()) + 1
    if not text.endswith("}\n"):
        raise Unreadable(text.count("\n"), "the file does not end with its function")
    return _Reader(tokens(text[entry.start() :], line), helpers).function()


def _head(head: str) -> frozenset[str]:
    """Comment, includes, then one known helper a paragraph; their names."""
    if not head.endswith("\n\n"):
        raise Unreadable(head.count("\n") + 1, "no empty line in front of the function")
    first, *paragraphs = head[:-2].split("\n\n")
    comment = re.match(r"/\*(?:(?!\*/)[^#])*\*/\n", first)
    rest = first[comment.end() if comment else 0 :].split("\n")
    line = first[: comment.end() if comment else 0].count("\n") + 1
    if comment is None or "/*" in first[2 : comment.end()]:
        raise Unreadable(1, "no comment at the head")
    for expected, found in zip((*INCLUDES, *INTRINSICS), rest, strict=False):
        if expected != found:
            raise Unreadable(line, f"{found!r} where {expected!r} is expected")
        line += 1
    if len(rest) not in (len(INCLUDES), len(INCLUDES) + len(INTRINSICS)):
        raise Unreadable(line, "not the known list of #includes")
    line = first.count("\n") + 3
    names: dict[str, None] = {}
    for paragraph in paragraphs:
        name = c_known.name_in(paragraph)
        texts = c_known.known(name) if name else []
        if name is None or not texts or name in names:
            raise Unreadable(line, f"{name or paragraph.split(chr(10))[0][:60]!r} is not a helper that is known")
        needs = next((needs for known, needs in texts if known.rstrip() == paragraph), None)
        if needs is None:
            raise Unreadable(line + _differs(paragraph, texts[0][0]), f"helper {name} is not the known text")
        missing = [need for need in needs if need not in names]
        if missing:
            raise Unreadable(line, f"helper {name} stands before {missing[0]}, which it uses")
        names[name] = None
        line += paragraph.count("\n") + 2
    return frozenset(names)


def _differs(paragraph: str, known: str) -> int:
    lines = paragraph.split("\n")
    expected = known.rstrip().split("\n")
    last = min(len(lines), len(expected)) - 1
    return next((k for k, (a, b) in enumerate(zip(lines, expected, strict=False)) if a != b), last)


class _Reader(Statements):
    def __init__(self, listed: list[Token], helpers: frozenset[str]) -> None:
        super().__init__(listed, self.kind)
        self.helpers = helpers
        self.names: set[str] = set()

    def kind(self, name: str) -> Kind | None:
        return SCALARS.get(name) or (c_known.vector(name) if name in self.helpers else None)

    def function(self) -> Text:
        line = self.words("int").line
        entry = self.identifier()  # an array may bear the same name: nothing calls the entry
        self.words(*"( const int64_t * size , void * const * array ) { int failed = 0 ;".split())
        sizes: list[str] = []
        arrays: list[Parameter] = []
        while [self.peek(k) for k in (0, 1, 3, 4)] == ["const", "int64_t", "=", "size"]:
            self.words("const", "int64_t")
            sizes.append(self.fresh())
            self.words("=", "size", "[", str(len(sizes) - 1), "]", ";")
        while self.peek(k := int(self.peek(0) == "const")) in ELEMENTS and self.peek(k + 5) == "array":
            start, const = self.next.line, self.accept("const")
            element = self.take(*ELEMENTS).text
            self.words("*", "restrict")
            arrays.append(Parameter(start, self.fresh(), element, const))
            self.words("=", "array", "[", str(len(arrays) - 1), "]", ";")
        body: list[Statement] = []
        while self.next.text != "return":
            body.append(self.statement())
        self.words("return", "failed", ";", "}")
        if self.next.kind != "end":
            raise Unreadable(self.next.line, f"{self.next.text!r} after the function")
        return Text(entry, line, tuple(sizes), tuple(arrays), tuple(body), self.helpers)

    def fresh(self) -> str:
        """A name that is declared here, and nowhere else."""
        line, name = self.next.line, self.identifier()
        if name in RESERVED or name in self.names or c_known.known(name) or name in c_known.ALIASES:
            raise Unreadable(line, f"the name {name!r} is taken")
        self.names.add(name)
        return name

    def statement(self) -> Statement:
        token = self.next
        if token.kind == "pragma":
            return self.pragma()
        match token.text:
            case "if":
                return self.branch()
            case "for":
                return self.loop(0, ())
            case "free":
                self.words("free", "(")
                name = self.identifier()
                self.words(")", ";")
                return Free(token.line, name)
            case "failed":
                self.words("failed", "=", "1", ";")
                return Fail(token.line, False)
        if self.peek(1) == "*" and token.text in ELEMENTS:
            return self.heap()
        if token.text in ELEMENTS and self.peek(2) == "[":
            return self.private()
        if token.text == "const" or self.kind(token.text) is not None:
            return self.declaration()
        return self.effect()

    def pragma(self) -> Statement:
        token = self.take()
        if token.text == "#pragma omp parallel":
            return Region(token.line, self.block())
        if token.text == "#pragma omp atomic write":
            self.words("failed", "=", "1", ";")
            return Fail(token.line, True)
        found = PARALLEL.fullmatch(token.text)
        if found is None:
            raise Unreadable(token.line, f"{token.text!r}")
        portions = tokens(found[1] or "", token.line)[:-1:2]  # a worker takes 1 + all iterations / 256 at once
        factors = [Number(t.line, t.text) if t.kind == "number" else Name(t.line, t.text) for t in portions]
        return self.loop(int(found[2] or 1), tuple(factors))

    def branch(self) -> If:
        line = self.take("if").line
        condition = self.bracketed()
        yes = self.block()
        return If(line, condition, yes, self.block() if self.accept("else") else None)

    def loop(self, parallel: int, portion: tuple[Expression, ...]) -> Loop:
        line = self.words("for", "(", "int64_t").line
        variable = self.fresh()
        self.take("=")
        low = self.expression()
        self.words(";", variable, "<")
        high = self.binary(6)
        self.words(";", "++", variable, ")")
        return Loop(line, variable, low, high, self.block(), parallel, portion)

    def private(self) -> Array:
        token = self.take()
        name = self.fresh()
        self.take("[")
        count = self.expression()
        self.words("]", "__attribute__", "(", "(", "aligned", "(", "64", ")", ")", ")", ";")
        return Array(token.line, token.text, name, (count,), False)

    def heap(self) -> Array:
        """T *restrict name = tv_allocate(tv_times(tv_times(a, b), sizeof(T)));"""
        token = self.words(self.next.text, "*", "restrict")
        name = self.fresh()
        self.words("=", "tv_allocate", "(", "tv_times", "(")
        if "tv_allocate" not in self.helpers:
            raise Unreadable(token.line, "tv_allocate is not defined")
        extents = self.product(token.line)
        self.words(",", "sizeof", "(", token.text, ")", ")", ")", ";")
        return Array(token.line, token.text, name, extents, True)

    def product(self, line: int) -> tuple[Expression, ...]:
        found = self.expression()
        out: list[Expression] = []
        while isinstance(found, Call) and found.function == "tv_times" and len(found.args) == 2:
            out.insert(0, found.args[1])
            found = found.args[0]
        return (found, *out)
