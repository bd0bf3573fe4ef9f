"""Terms, programs and kernels in notation that a person reads:  Σ_{j<m} exp(s[i, j] − max_{k<m} s[i, k])."""

from __future__ import annotations

from fractions import Fraction

from tang_verified.semantics.kernel import Alloc, Assign, Barrier, Commit, For, Kernel, Stmt, Wait
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import (
    ADD,
    ALL,
    ANY,
    INT_ADD,
    INT_MUL,
    MAX,
    MIN,
    MUL,
    TRUE,
    Axis,
    Const,
    Fold,
    Gradient,
    Op,
    Read,
    Sym,
    Tangent,
    Term,
    Var,
)  # fmt: skip

INFIX = {
    "add": ("+", 4), "sub": ("−", 4), "sub0": ("−", 4), "mul": ("·", 5), "div": ("/", 5), "div0": ("/₀", 5),
    "floordiv": ("//", 5), "mod": ("%", 5), "lt": ("<", 3), "le": ("≤", 3), "eq": ("=", 3), "ne": ("≠", 3),
    "and": ("∧", 2), "or": ("∨", 1), "pow": ("**", 7),
}  # fmt: skip
# By the monoid itself: one that only bears the name "max" is not shown as a maximum.
SIGNS = {ADD: "Σ", MUL: "Π", MAX: "max", MIN: "min", INT_ADD: "Σ", INT_MUL: "Π", ANY: "∃", ALL: "∀"}


def show(term: Term, level: int = 0) -> str:
    """One line for a term; parentheses only where precedence needs them."""
    match term:
        case Var(name) | Sym(name, _):
            return name
        case Const(value):
            return _constant(value)
        case Read(tensor, index, _):
            return tensor + ("[" + ", ".join(show(i) for i in index) + "]" if index else "")
        case Fold():
            return _fold(term, level)
        case Gradient(outputs, source):
            return f"∂({' + '.join(f'⟨{w}, {y}⟩' for y, w in outputs)})/∂{source}"
        case Tangent(tensor, along):
            return f"∂{tensor} along {', '.join(f'{x} + ε·{dx}' for x, dx in along)}"
        case Op("neg", (a,)):
            return f"−{show(a, 6)}"
        case Op("not", (a,)):
            return f"¬{show(a, 6)}"
        case Op("select", (c, a, b)):
            text = f"{show(c, 1)} ? {show(a, 1)} : {show(b)}"
            return f"({text})" if level > 0 else text
        case Op("real" | "int", (a,)):
            return show(a, level)
        case Op("add", (a, b)) if (opposite := _opposite(b)) is not None:
            return show(Op("sub", (a, opposite)), level)
        case Op("add", (a, b)) if (opposite := _opposite(a)) is not None:  # canonical order puts −1·i before n
            return show(Op("sub", (b, opposite)), level)
        case Op("mul", (Const(int(-1)), a)):
            return show(Op("neg", (a,)), level)
        case Op(name, (a, b)) if name in INFIX:
            sign, own = INFIX[name]
            text = f"{show(a, own)} {sign} {show(b, own + 1)}"
            return f"({text})" if own < level else text
        case Op(name, args):
            return f"{name}({', '.join(show(a) for a in args)})"
    raise TypeError(f"cannot show {type(term).__name__}")


def _opposite(term: Term) -> Term | None:
    """n for the integers −1 · n and -n: what is subtracted where the term is added. Reals are shown as they stand."""
    match term:
        case Const(int() as value) if value < 0 and not isinstance(value, bool):
            return Const(-value)
        case Op("mul", (Const(int() as value), a)) if value < 0:
            return a if value == -1 else Op("mul", (Const(-value), a))
        case _:
            return None


def _constant(value: int | bool | Fraction | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return {"inf": "∞", "-inf": "−∞", "nan": "nan"}[value]
    if isinstance(value, Fraction) and value.denominator != 1:
        short = f"{float(value):.6g}"
        return short if Fraction(short) == value else f"{short}…"
    return str(value)


def domain(axes: tuple[Axis, ...], guard: Term) -> str:
    text = ", ".join(f"{axis.name}<{show(axis.extent, 4)}" for axis in axes)
    return text if guard == TRUE else f"{text} : {show(guard)}"


def _fold(fold: Fold, level: int) -> str:
    sign = SIGNS.get(fold.monoid, f"⊕{fold.monoid.name}")
    body = show(fold.body[0], 5) if len(fold.body) == 1 else f"({', '.join(show(b) for b in fold.body)})"
    part = f".{fold.component}" if len(fold.body) > 1 else ""
    text = f"{sign}_{{{domain(fold.axes, fold.guard)}}}{part} {body}"
    return f"({text})" if level > 4 else text


def show_program(program: Program) -> str:
    """One line a definition."""
    lines = []
    for d in program.defs:
        lines.append(f"{d.tensor.name}[{', '.join(d.axes)}] = {show(d.value)}")
    return "\n".join(lines)


def show_kernel(kernel: Kernel) -> str:
    """The loops and tile assignments of a kernel, indented."""
    out: list[str] = []
    _statements(kernel.body, 0, out)
    return "\n".join(out)


def _statements(body: tuple[Stmt, ...], depth: int, out: list[str]) -> None:
    pad = "  " * depth
    for statement in body:
        match statement:
            case Alloc(buffer, _):
                shape = ", ".join(show(e) for e in buffer.shape)
                owners = f" of {buffer.owners}" if buffer.owners else " swizzled" if buffer.swizzled else ""
                out.append(f"{pad}alloc {buffer.name}[{shape}] : {buffer.dtype} {buffer.scope}{owners}")
            case Barrier() | Commit():
                out.append(pad + type(statement).__name__.lower())
            case Wait(keep):
                out.append(f"{pad}wait {keep}")
            case For(axis, kind, inner, carried):
                kept = f"  carrying {', '.join(c.buffer for c in carried)}" if carried else ""
                out.append(f"{pad}for {axis.name} < {show(axis.extent)} [{kind}]{kept}:")
                _statements(inner, depth + 1, out)
            case Assign():
                loops = ", ".join(f"{loop.axis.name}<{show(loop.axis.extent)} {loop.kind}" for loop in statement.loops)
                guard = "" if statement.guard == TRUE else f"  if {show(statement.guard)}"
                index = ", ".join(show(i) for i in statement.index)
                how = f"  by {statement.unit}" if statement.unit else "  asynchronously" if statement.asynchronous else ""
                out.append(f"{pad}{statement.target}[{index}] := {show(statement.value)}{guard}   ({loops}){how}")
