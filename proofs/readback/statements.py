"""What blocks, declarations and effects look like in all C-like languages; a reader says what else is a statement."""

from __future__ import annotations

from tang_verified.proofs.readback.expressions import Expressions
from tang_verified.proofs.readback.syntax import Call, Declare, Do, Index, Name, Set, Statement, Unreadable, Vector

NESTED = 60


class Statements(Expressions):
    """Reads blocks of statements from a list of tokens."""

    def statement(self) -> Statement:
        raise NotImplementedError

    def fresh(self) -> str:
        """A name that is declared here, and nowhere else."""
        raise NotImplementedError

    def block(self) -> tuple[Statement, ...]:
        self.depth += 1
        if self.depth > NESTED:
            raise Unreadable(self.next.line, "blocks nested too deep")
        self.take("{")
        out = []
        while not self.accept("}"):
            out.append(self.statement())
        self.depth -= 1
        return tuple(out)

    def declaration(self) -> Declare:
        line, const = self.next.line, self.accept("const")
        kind = self.type_name()
        name = self.fresh()
        value = self.expression() if self.accept("=") else None
        self.take(";")
        if const and value is None:
            raise Unreadable(line, f"constant {name} without a value")
        return Declare(line, kind, name, value, const)

    def effect(self) -> Set | Do:
        line, target = self.next.line, self.unary()
        if isinstance(target, Call):
            self.take(";")
            return Do(line, target)
        if not isinstance(target, (Name, Index, Vector)) or (isinstance(target, Vector) and target.const):
            raise Unreadable(line, "not a statement")
        self.take("=")
        value = self.expression()
        self.take(";")
        return Set(line, target, value)
