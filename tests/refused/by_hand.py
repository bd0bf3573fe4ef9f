"""Hand-made kernels for what the scheduler does not use yet: single-assignment buffers, register tiles, threads."""

from __future__ import annotations

from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Claim, For, Kernel, Loop
from tang_verified.semantics.program import Program
from tang_verified.semantics.terms import Axis, Const, Op, Read, Term, Var


def affine(*parts: Term | int) -> Term:
    """The sum of the parts."""
    terms = [Const(p) if isinstance(p, int) else p for p in parts]
    total = terms[0]
    for term in terms[1:]:
        total = Op("add", (total, term))
    return total


def times(factor: int, name: str) -> Term:
    return Op("mul", (Const(factor), Var(name)))


def below(a: Term, b: Term) -> Term:
    return Op("lt", (a, b))


def staged_transpose(program: Program) -> Kernel:
    """out[i, j] = x[j, i] by tiles of 8 columns: x's rows are copied to `tile` first, by two loops inside."""
    n, m = Var("n"), Var("m")
    row, column = Var("r"), affine(Var("c"), times(8, "t"))
    held = Op("select", (below(affine(Var("b"), times(8, "t")), m), Read("x", (Var("a"), affine(Var("b"), times(8, "t"))), "real"),
                         Const("-inf")))  # fmt: skip
    value = Op("select", (below(column, m), Read("x", (row, column), "real"), Const("-inf")))
    fill = For(Axis("r", n), "seq", (Assign((Loop(Axis("c", Const(8)), "lane"),), "tile", (row, Var("c")), value),))
    out = affine(Var("u"), times(8, "t"))
    store = Assign(
        (Loop(Axis("u", Const(8)), "seq"), Loop(Axis("w", n), "seq")), program.outputs[0], (out, Var("w")),
        Read("tile", (Var("w"), Var("u")), "real"), below(out, m),
    )  # fmt: skip
    tile = Alloc(Buffer("tile", "float32", (n, Const(8)), "global"), Claim(("a", "b"), held))
    tiles = Op("floordiv", (affine(m, 7), Const(8)))
    body = For(Axis("t", tiles), "grid", (tile, fill, store))
    return Kernel("staged", program, ("x",), program.outputs, (body,))
