"""Tokens and expressions of C-like languages, strictly: what a real compiler would read otherwise is refused.

ASCII only, no backslash, no tab, no trigraph or digraph, no comment in a body, no octal number; names start with a letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tang_verified.proofs.readback.syntax import (
    Binary,
    Call,
    Cast,
    Choice,
    Expression,
    Index,
    Kind,
    Lanes,
    Name,
    Number,
    TypeName,
    Unary,
    Unreadable,
    Vector,
)  # fmt: skip

TOKEN = re.compile(
    r"(?P<space>[ \n]+)|(?P<pragma>\#[^\n]*)|(?P<number>\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*)"
    r'|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<text>"")'
    r"|(?P<sign>\+\+|--|<=|>=|==|!=|&&|\|\||<<|>>|[-+*/%<>=!&|~?:;,(){}\[\]])"
)
NUMBER = re.compile(r"(0|[1-9][0-9]*)|([0-9]+\.[0-9]*(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)f?")
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LEVELS = (("||",), ("&&",), ("|",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/"))
DEPTH = 64  # brackets within brackets


class Token(NamedTuple):
    kind: str
    text: str
    line: int


def plain(text: str) -> None:
    """Refuse characters that the languages' own lexers treat in ways that this one does not."""
    for number, line in enumerate(text.split("\n"), 1):
        for bad in ("\\", "??", "<:", "%:", "<%"):  # lines that go on, trigraphs, digraphs
            if bad in line:
                raise Unreadable(number, f"{bad!r}")
        if not all(" " <= c <= "~" for c in line):
            raise Unreadable(number, "a character that is not printable ASCII")


def tokens(text: str, first_line: int, numbers: re.Pattern[str] = NUMBER) -> list[Token]:
    out, place, line = [], 0, first_line
    while place < len(text):
        found = TOKEN.match(text, place)
        if found is None:
            raise Unreadable(line, f"unexpected {text[place : place + 12]!r}")
        kind, word = found.lastgroup or "", found.group()
        if kind == "number" and not numbers.fullmatch(word):
            raise Unreadable(line, f"number {word!r}")
        if kind != "space":
            out.append(Token(kind, word, line))
        line += word.count("\n")
        place = found.end()
    out.append(Token("end", "", line))
    return out


class Expressions:
    """Reads expressions from a list of tokens. `kind_of` knows the type names."""

    def __init__(self, listed: list[Token], kind_of: Callable[[str], Kind | None]) -> None:
        self.listed, self.place, self.kind_of, self.depth = listed, 0, kind_of, 0

    @property
    def next(self) -> Token:
        return self.listed[self.place]

    def peek(self, ahead: int) -> str:
        return self.listed[min(self.place + ahead, len(self.listed) - 1)].text

    def take(self, *expected: str) -> Token:
        """The next token, which must be one of these (any, if none is named)."""
        token = self.next
        if token.kind == "end" or (expected and token.text not in expected):
            raise Unreadable(token.line, f"unexpected {token.text or 'end of the text'!r}, expected {' or '.join(expected)}")
        self.place += 1
        return token

    def words(self, *expected: str) -> Token:
        """These tokens, in this order; the first."""
        first = self.next
        for word in expected:
            self.take(word)
        return first

    def accept(self, *texts: str) -> bool:
        if self.next.kind != "end" and self.next.text in texts:
            self.place += 1
            return True
        return False

    def identifier(self) -> str:
        token = self.take()
        if token.kind != "name" or not IDENTIFIER.fullmatch(token.text) or self.kind_of(token.text) is not None:
            raise Unreadable(token.line, f"{token.text!r} where a name is expected")
        return token.text

    def type_name(self) -> Kind:
        token = self.take()
        kind = self.kind_of(token.text) if token.kind == "name" else None
        if kind is None:
            raise Unreadable(token.line, f"{token.text!r} where a type is expected")
        return kind

    # condition ? a : b,  then the binary operators from weak to strong,  then signs and brackets

    def expression(self) -> Expression:
        self.depth += 1
        if self.depth > DEPTH:
            raise Unreadable(self.next.line, "brackets nested too deep")
        condition = self.binary(0)
        if self.next.text == "?":
            line = self.take("?").line
            yes = self.expression()
            self.take(":")
            condition = Choice(line, condition, yes, self.expression())
        self.depth -= 1
        return condition

    def binary(self, level: int) -> Expression:
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.next.text in LEVELS[level]:
            sign = self.take()
            left = Binary(sign.line, sign.text, left, self.binary(level + 1))
        return left

    def unary(self) -> Expression:
        token = self.next
        if token.text in ("-", "!", "~"):
            self.take()
            if self.next.text in ("-", "!", "~"):
                raise Unreadable(token.line, "two signs in a row")
            return Unary(token.line, token.text, self.unary())
        if token.text == "*":
            self.words("*", "(")
            const = self.accept("const")
            kind = self.pointee()
            self.words("*", ")")
            return Vector(token.line, kind, const, self.bracketed())
        if token.text == "(" and self.kind_of(self.peek(1)) is not None:
            self.take("(")
            kind = self.type_name()
            self.take(")")
            if self.next.text == "{":
                self.take("{")
                return Lanes(token.line, kind, self.listed_until("}"))
            return Cast(token.line, kind, self.unary())
        return self.postfix()

    def pointee(self) -> Kind:
        """The type behind a pointer to a vector, `f32x16_u`."""
        token = self.take()
        kind = self.kind_of(token.text.removesuffix("_u")) if token.text.endswith("_u") else None
        if kind is None or kind.width == 1:
            raise Unreadable(token.line, f"a pointer to {token.text}")
        return kind

    def bracketed(self) -> Expression:
        self.take("(")
        inside = self.expression()
        self.take(")")
        return inside

    def listed_until(self, end: str) -> tuple[Expression, ...]:
        out: list[Expression] = []
        while not self.accept(end):
            if out:
                self.take(",")
            kind = self.kind_of(self.next.text)
            out.append(TypeName(self.take().line, kind) if kind is not None else self.expression())
        return tuple(out)

    def postfix(self) -> Expression:
        token = self.next
        if token.text == "(":
            found: Expression = self.bracketed()
        elif token.kind == "number":
            found = Number(token.line, self.take().text)
        elif token.kind == "name" and self.peek(1) == "(":
            self.words(token.text, "(")
            if token.text == "__builtin_nan" or token.text == "__builtin_nanf":
                if self.take().kind != "text":
                    raise Unreadable(token.line, f"{token.text} of something")
                self.take(")")
                return Call(token.line, token.text, ())
            found = Call(token.line, token.text, self.listed_until(")"))
        else:
            found = Name(token.line, self.identifier())
        while self.next.text == "[":
            line = self.take("[").line
            found = Index(line, found, self.expression())
            self.take("]")
        return found
