"""The statements and expressions of one thread, in any language of `simt_language.py`.

const long t0 = …;   let t0: i32 = …;          Declare
if (c) *(float4 *)&a[o] = …; else …;           If of two moves
cp_async_wait<1>();   barrier(…);              Sync
select(b, a, c)                                Choice, where the language has no ?:
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tang_verified.proofs.readback.expressions import Token
from tang_verified.proofs.readback.simt_language import WORDS, Language, kinds
from tang_verified.proofs.readback.statements import Statements
from tang_verified.proofs.readback.syntax import (
    Array,
    Binary,
    Call,
    Cast,
    Choice,
    Declare,
    Do,
    Expression,
    If,
    Index,
    Kind,
    Loop,
    Name,
    Number,
    Statement,
    Sync,
    TypeName,
    Unary,
    Unreadable,
    Vector,
)  # fmt: skip

NUMBER = re.compile(r"(0|[1-9][0-9]*)u?|0x[0-9a-f]{8}u?|([0-9]+\.[0-9]*(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)f?")
VECTORS = frozenset(name for name, _ in WORDS)
TWO_WORDS = (("long", "long"), ("unsigned", "char"))


class Reader(Statements):
    """`fresh` takes a name that is declared, with its line."""

    def __init__(
        self, listed: list[Token], language: Language, helpers: frozenset[str], fresh: Callable[[str, int], str]
    ) -> None:
        known = kinds(language)
        super().__init__(_joined(listed) if language.name == "cuda" else listed, known.get)
        self.language, self.helpers, self.name_taken = language, helpers, fresh

    def fresh(self) -> str:
        line = self.next.line
        return self.name_taken(self.identifier(), line)

    def body(self) -> tuple[Statement, ...]:
        out: list[Statement] = []
        while self.next.kind != "end":
            out.append(self.statement())
        return tuple(out)

    def statement(self) -> Statement:
        token, barrier = self.next, self.language.barrier
        if [self.peek(k) for k in range(len(barrier))] == list(barrier):
            self.words(*barrier)
            return Sync(token.line, "barrier")
        match token.text:
            case "barrier_async":
                self.words("barrier_async", "(", ")", ";")
                return self.helped(Sync(token.line, "barrier for units"), "barrier_async")
            case "if":
                return self.branch()
            case "for":
                return self.loop()
            case "cp_async_commit":
                self.words("cp_async_commit", "(", ")", ";")
                return self.helped(Sync(token.line, "commit"), "cp_async_commit")
            case "cp_async_wait":
                self.words("cp_async_wait", "<")
                keep = self.take().text
                self.words(">", "(", ")", ";")
                if not re.fullmatch("0|[1-9][0-9]?", keep):
                    raise Unreadable(token.line, f"a wait for {keep!r}")
                return self.helped(Sync(token.line, "wait", int(keep)), "cp_async_wait")
            case "__stcg" if self.language.name == "cuda":
                return self.put()
            case "let" | "var" if self.language.name == "wgsl":
                return self.declared()
        own = self.language.own
        if own and token.text == own[0]:
            self.words(*own)
            return self.array()
        if not own and token.text in self.language.elements and self.peek(2) == "[":
            return self.array()
        if token.text == "const" or (self.kind_of(token.text) is not None and self.language.name != "wgsl"):
            return self.declaration()
        return self.effect()

    def put(self) -> Do:
        """__stcg((float4 *)&array[offset], *(const float4 *)&other[place]);"""
        line = self.words("__stcg", "(", "(").line
        name = self.take(*VECTORS).text
        self.words("*", ")", "&")
        address = self.postfix()
        self.take(",")
        if not isinstance(address, Index):
            raise Unreadable(line, "the address of what is no element")
        value = self.vector()
        self.words(")", ";")
        return Do(line, Call(line, "__stcg", (Vector(line, Kind(name), False, address), value)))

    def helped(self, s: Sync, name: str) -> Sync:
        if name not in self.helpers:
            raise Unreadable(s.line, f"{name} is not defined")
        return s

    def branch(self) -> If:
        line = self.take("if").line
        condition = self.bracketed()
        if self.next.text == "{":
            yes = self.block()
            return If(line, condition, yes, self.block() if self.accept("else") else None)
        first = self.effect()
        self.take("else")
        return If(line, condition, (first,), (self.effect(),))

    def loop(self) -> Loop:
        line, index = self.words("for", "(").line, self.language.spelled["i64"]
        if self.language.name == "wgsl":
            self.take("var")
            variable = self.fresh()
            self.words(":", index, "=")
        else:
            self.take(index)
            variable = self.fresh()
            self.take("=")
        self.words("0", ";", variable, "<")
        high = self.binary(6)
        self.words(";", *((variable, "++") if self.language.name == "wgsl" else ("++", variable)), ")")
        return Loop(line, variable, Number(line, "0"), high, self.block())

    def array(self) -> Array:
        token = self.take(*self.language.elements)
        name = self.fresh()
        self.take("[")
        count = self.expression()
        self.words("]", ";")
        return Array(token.line, self.language.elements[token.text], name, (count,), False)

    def declared(self) -> Declare | Array:
        """let name: type = value;  var name: type;  var name: array<type, count>;"""
        token = self.take("let", "var")
        name = self.fresh()
        self.take(":")
        if token.text == "var" and self.accept("array"):
            self.take("<")
            element = self.take(*self.language.elements).text
            self.take(",")
            count = Number(token.line, self.take().text)
            self.words(">", ";")
            return Array(token.line, self.language.elements[element], name, (count,), False)
        kind = self.type_name()
        value = self.expression() if self.accept("=") else None
        self.take(";")
        if token.text == "let" and value is None:
            raise Unreadable(token.line, f"constant {name} without a value")
        return Declare(token.line, kind, name, value, token.text == "let")

    # Expressions

    def binary(self, level: int) -> Expression:
        """As in C, and % beside * and /; the bits' operators are left to helpers."""
        if level == 7:
            left = self.unary()
            while self.next.text in ("*", "/", "%"):
                sign = self.take()
                left = Binary(sign.line, sign.text, left, self.unary())
            return left
        return super().binary(level)

    def unary(self) -> Expression:
        token = self.next
        if token.text == "~":
            raise Unreadable(token.line, "'~'")
        if token.text == "*":
            return self.vector()
        if token.text == "(" and self.peek(1) in VECTORS and self.peek(2) == ")" and self.kind_of(self.peek(1)) is None:
            self.take("(")
            kind = Kind(self.take().text)
            self.take(")")
            return Cast(token.line, kind, self.bracketed())
        if token.text == "&":
            self.take("&")
            found = self.postfix()
            if not isinstance(found, Index):
                raise Unreadable(token.line, "the address of what is no element")
            return Unary(token.line, "&", found)
        return super().unary()

    def vector(self) -> Vector:
        """*(__global const float4 *)&array[offset]"""
        line = self.words("*", "(").line
        shared, given = (space.split() for space in self.language.spaces)
        if not self.language.vectors:
            raise Unreadable(line, "a pointer")
        const = [self.peek(k) for k in range(len(given))] == given
        self.words(*(given if const else shared))
        name = self.take().text
        if name not in VECTORS:
            raise Unreadable(line, f"a pointer to {name}")
        self.words("*", ")", "&")
        address = self.postfix()
        if not isinstance(address, Index):
            raise Unreadable(line, "the address of what is no element")
        return Vector(line, Kind(name), const, address)

    def postfix(self) -> Expression:
        token = self.next
        if token.kind == "name" and token.text in ("true", "false"):
            return Name(self.take().line, token.text)
        if token.kind == "name" and self.peek(1) == "(" and self.language.constructors:
            kind = {"float16_t": Kind("half"), "f16": Kind("half")}.get(token.text) or self.kind_of(token.text)
            if kind is not None:
                self.take()
                return Cast(token.line, kind, self.bracketed())
        if token.text == "(" and self.peek(1) == "half" and self.peek(2) == ")" and self.language.name == "metal":
            self.words("(", "half", ")")
            return Cast(token.line, Kind("half"), self.bracketed())
        if token.text == "bitcast" and self.language.name == "wgsl":
            self.words("bitcast", "<", "u32", ">")
            return Call(token.line, "bitcast", (self.bracketed(),))
        if token.kind == "name" and not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", token.text) and self.peek(1) != "(":
            raise Unreadable(token.line, f"{token.text!r} where a name is expected")
        found = super().postfix()
        if isinstance(found, Call) and found.function == "select" and self.language.name == "wgsl":
            if len(found.args) != 3:
                raise Unreadable(token.line, "select of other than three")
            return Choice(found.line, found.args[2], found.args[1], found.args[0])
        if isinstance(found, Call) and any(isinstance(arg, TypeName) for arg in found.args):
            raise Unreadable(token.line, "a type among the arguments")
        return found


def _joined(listed: list[Token]) -> list[Token]:
    """Types of two words as one token."""
    out: list[Token] = []
    for token in listed:
        if out and (out[-1].text, token.text) in TWO_WORDS and out[-1].line == token.line:
            out[-1] = Token("name", f"{out[-1].text} {token.text}", token.line)
        else:
            out.append(token)
    return out
