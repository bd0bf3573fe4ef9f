"""Causal attention and its online kernel, written by hand: the sample that certificates are tried on.

    out[i, e] = Σ_{j ≤ i + m − n} exp(s_ij − max_j s_ij) v_je / Σ_{j ≤ i + m − n} exp(s_ij − max_j s_ij),   s = q k^T

Rows run in tiles of 4, keys in tiles of 16; the maximum, the sum and the weighted sum are carried from tile to tile.
"""

from __future__ import annotations

from tang_verified.semantics.build import ceildiv, conj, iadd, imul, isub, lt, op, select, var
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, For, Kernel, Loop
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import ADD, MAX, NEG_INF, REAL_ZERO, TRUE, Axis, Const, Fold, Read, Term

ROWS, KEYS, WIDTH = 4, 16, 64
n, m, d = var("n"), var("m"), var("d")
i, j, e, t, r, c = map(var, "ijetrc")


def real(tensor: str, *index: Term) -> Read:
    return Read(tensor, index, "real")


def score(row: Term, key: Term) -> Fold:
    return Fold(ADD, (Axis("x", d),), TRUE, (op("mul", real("q", row, var("x")), real("k", key, var("x"))),))


def causal(row: Term, key: Term) -> Term:
    return op("le", key, iadd(row, isub(m, n)))


def over_keys(monoid: object, row: Term, body: Term, limit: Term, valid: Term) -> Fold:
    return Fold(monoid, (Axis("j", m),), conj(valid, causal(row, j), limit), (body,))  # type: ignore[arg-type]


def state(row: Term, limit: Term = TRUE, valid: Term = TRUE) -> tuple[Fold, Fold, Fold]:
    """Maximum, sum and weighted sum (at column e) of one row over the keys within a limit."""
    top = over_keys(MAX, row, score(row, j), limit, valid)
    weight = op("exp", op("sub", score(row, j), top))
    return (
        top, over_keys(ADD, row, weight, limit, valid), over_keys(ADD, row, op("mul", weight, real("v", j, e)), limit, valid),
    )  # fmt: skip


def attention() -> tuple[Program, Kernel]:
    """The program and a kernel that computes it in one pass over the keys."""
    _, total, weighted = state(i)
    inputs = (
        Tensor("q", "float32", (n, d)), Tensor("k", "float32", (m, d)), Tensor("v", "float32", (m, Const(WIDTH))),
    )  # fmt: skip
    out = Def(Tensor("out", "float32", (n, Const(WIDTH))), ("i", "e"), op("div", weighted, total))
    program = Program("attn", (Size("n", 1), Size("m", 1), Size("d", 1)), inputs, (out,), ("out",))
    return program, Kernel("attn", program, ("q", "k", "v"), ("out",), _body())


def _body() -> tuple[For, ...]:
    row, key = iadd(imul(var("it"), ROWS), r), iadd(imul(t, KEYS), c)
    valid = lt(row, n)
    rows, lanes, columns = _loop("r", ROWS, "seq"), _loop("c", KEYS, "lane"), _loop("e", WIDTH, "lane")

    def held(limit: Term) -> tuple[Claim, Claim, Claim]:
        top, total, weighted = state(row, limit, valid)
        return Claim(("r",), top), Claim(("r",), total), Claim(("r", "e"), weighted)

    def tile_fold(monoid: object, body: Term) -> Fold:
        return Fold(monoid, (Axis("c", Const(KEYS)),), TRUE, (body,))  # type: ignore[arg-type]

    before = held(lt(j, imul(t, KEYS)))
    after = held(lt(j, imul(iadd(t, Const(1)), KEYS)))
    inside = conj(valid, lt(key, m))
    seen = conj(inside, causal(row, key))
    weight = op("exp", op("sub", real("s", r, c), real("new", r)))
    value = select(lt(key, m), real("v", key, e), REAL_ZERO)
    rescale = op("exp", op("sub", real("top", r), real("new", r)))
    best = tile_fold(MAX, select(seen, real("s", r, c), NEG_INF))
    step = (
        Alloc(_buffer("s", ROWS, KEYS)),
        Assign((rows, lanes), "s", (r, c), select(inside, score(row, key), REAL_ZERO)),
        Alloc(_buffer("new", ROWS)),
        Assign((rows,), "new", (r,), op("max", real("top", r), best), claim=after[0]),
        Alloc(_buffer("scale", ROWS)),
        Assign((rows,), "scale", (r,), select(op("eq", real("top", r), NEG_INF), REAL_ZERO, rescale)),
        Alloc(_buffer("p", ROWS, KEYS)),
        Assign((rows, lanes), "p", (r, c), select(seen, weight, REAL_ZERO)),
        Assign((rows,), "sum", (r,), op("add", op("mul", real("sum", r), real("scale", r)), tile_fold(ADD, real("p", r, c)))),
        Assign(
            (rows, columns), "acc", (r, e),
            op("add", op("mul", real("acc", r, e), real("scale", r)), tile_fold(ADD, op("mul", real("p", r, c), value))),
        ),
        Assign((rows,), "top", (r,), real("new", r), claim=after[0]),
    )  # fmt: skip
    carried = tuple(Carried(name, claim) for name, claim in zip(("top", "sum", "acc"), before, strict=True))
    grid = (
        Alloc(_buffer("top", ROWS)), Alloc(_buffer("sum", ROWS)), Alloc(_buffer("acc", ROWS, WIDTH)),
        Assign((rows,), "top", (r,), NEG_INF), Assign((rows,), "sum", (r,), REAL_ZERO),
        Assign((rows, columns), "acc", (r, e), REAL_ZERO),
        For(Axis("t", ceildiv(m, KEYS)), "seq", step, carried),
        Assign((rows, columns), "out", (row, e), op("div", real("acc", r, e), real("sum", r)), guard=valid),
    )  # fmt: skip
    return (For(Axis("it", ceildiv(n, ROWS)), "grid", grid),)


def _loop(name: str, extent: int, kind: str) -> Loop:
    return Loop(Axis(name, Const(extent)), kind)  # type: ignore[arg-type]


def _buffer(name: str, *shape: int) -> Buffer:
    return Buffer(name, "float32", tuple(map(Const, shape)), "thread")
