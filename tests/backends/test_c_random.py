"""Random statements against the harness's interpreter: guards, masks, folds in folds, copies, lanes, all kinds mixed.

Every read lies in its array only under the conditions around it; one that escapes them kills the process
(see `harness.guarded`).
"""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from tang_verified.semantics.build import ceildiv, conj, iadd, imul, integer, isub, le, lt, mod, op, real, var
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Kernel
from tang_verified.semantics.terms import ADD, MAX, TRUE, ZERO, Axis, Const, Fold, Monoid, Op, Sym, Term

from .harness import R, axis, for_, interpret, kernel, run_c

n, m = var("n"), var("m")
A, B = [Sym(f"a{k}", "real") for k in (0, 1)], [Sym(f"b{k}", "real") for k in (0, 1)]
MEAN = Monoid("count_and_sum", (real(0), real(0)), (op("add", A[0], B[0]), op("add", A[1], B[1])))
LAST = Monoid("last", (real(0),), (op("select", op("eq", B[0], real(0)), A[0], B[0]),), commutative=False)


class Maker:
    """Terms over the integer variables in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds: dict[str, str] = {}

    def pick(self, *choices):  # type: ignore[no-untyped-def]
        return self.random.choice(choices)

    def index(self, names: list[str]) -> Term:
        name = var(self.random.choice(names))
        other = var(self.random.choice(names))
        shift = integer(self.pick(-1, 0, 0, 0, 1, 3))
        return self.pick(
            iadd(name, shift),
            iadd(iadd(name, other), shift),
            isub(name, other),
            iadd(imul(name, 2), shift),
            isub(isub(m, name), integer(1)),
            mod(iadd(name, other), 5),
        )

    def read(self, names: list[str]) -> Term:
        a, b = self.index(names), self.index(names)
        tensor, rows, columns = self.pick(("x", n, m), ("w", m, n))
        inside = conj(le(ZERO, a), lt(a, rows), le(ZERO, b), lt(b, columns))
        if self.random.random() < 0.2:
            inside = op("and", inside, R("flag", mod(var(self.random.choice(names)), 7), sort="bool"))
        if self.random.random() < 0.15:
            return op("select", op("not", inside), real(self.pick(0, 1, -2)), R(tensor, a, b))
        return op("select", inside, R(tensor, a, b), real(self.pick(0, 1, Fraction(1, 3))))

    def condition(self, names: list[str]) -> Term:
        a, b = self.index(names), self.index(names)
        simple = self.pick(lt(a, b), le(a, integer(3)), op("eq", a, b), op("ne", a, integer(2)), lt(integer(1), a))
        if self.random.random() < 0.25:
            return self.pick(
                op("and", simple, self.condition(names)), op("or", simple, self.condition(names)), op("not", simple)
            )
        if self.random.random() < 0.2:
            return op("lt", self.read(names), real(Fraction(1, 4)))
        return simple

    def term(self, names: list[str], depth: int) -> Term:
        if depth == 0 or self.random.random() < 0.15:
            return self.pick(
                self.read(names), self.read(names), self.read(names), op("real", self.index(names)), real(Fraction(3, 4))
            )
        shape = self.random.random()
        if shape < 0.3:
            return self.fold(names, depth)
        if shape < 0.5:
            return op("select", self.condition(names), self.term(names, depth - 1), self.term(names, depth - 1))
        if shape < 0.6:
            return op("tanh", self.term(names, depth - 1))
        a = self.term(names, depth - 1)
        b = a if self.random.random() < 0.2 else self.term(names, depth - 1)
        return op(self.pick("add", "sub", "mul", "max", "min"), a, b)

    def fold(self, names: list[str], depth: int) -> Term:
        axes, inner = [], list(names)
        for _ in range(self.pick(1, 1, 2)):
            name = f"k{len(self.kinds)}"
            kind = self.pick("seq", "lane", "unroll")
            self.kinds[name] = kind
            extent = integer(self.pick(2, 4, 3)) if kind == "unroll" else integer(self.pick(4, 8)) if kind == "lane" else m
            if kind == "seq" and axes and self.random.random() < 0.4:
                extent = var(axes[-1].name)
            axes.append(Axis(name, extent))
            inner.append(name)
        guard = TRUE if self.random.random() < 0.5 else self.affine(inner)
        monoid = self.pick(ADD, ADD, MAX, MEAN, LAST)
        body = tuple(op("tanh", self.term(inner, depth - 1)) for _ in monoid.identity)
        if monoid is MAX:
            return op("max", Fold(monoid, tuple(axes), guard, body), real(-1))
        return Fold(monoid, tuple(axes), guard, body, self.random.randrange(len(body)))

    def affine(self, names: list[str]) -> Term:
        a, b = var(self.random.choice(names)), var(self.random.choice(names))
        return self.pick(lt(a, integer(3)), le(b, a), lt(iadd(a, b), m), conj(lt(a, m), le(integer(1), b)))


def random_kernel(seed: int) -> Kernel:
    make = Maker(seed)
    rows = make.pick(1, 2, 3)
    width = make.pick(4, 8, 16)
    lanes_first = make.random.random() < 0.2
    row, column = iadd(imul(var("i"), rows), var("r")), iadd(imul(var("v"), width), var("l"))
    guard = conj(lt(row, n), lt(column, m))
    names = ["i", "r", "v", "l", "n"]
    loops = [axis("v", ceildiv(m, width), "seq"), axis("r", rows, make.pick("unroll", "seq")), axis("l", width, "lane")]
    if lanes_first:
        loops = [loops[0], loops[2], loops[1]]
    value = make.term(names, 3)
    scope = make.pick("register", "thread", None)
    kinds = tuple(make.kinds.items())
    inside: list[object] = [Assign(tuple(loops), "y", (row, column), value, guard, kinds)]  # type: ignore[arg-type]
    if scope is not None:
        first = make.term([*names[:2], "n"], 2)
        kinds = tuple(make.kinds.items())
        held = R("b", var("r"))
        inside = [
            Alloc(Buffer("b", "float32", (integer(rows),), scope)),
            Assign((axis("r", rows, "unroll"),), "b", (var("r"),), first, TRUE, kinds),  # type: ignore[arg-type]
            Assign(tuple(loops), "y", (row, column), op("add", held, op("mul", value, held)), guard, kinds),  # type: ignore[arg-type]
        ]
    return kernel(
        ["n", "m"],
        {"x": ("float32", [n, m]), "w": ("float32", [m, n]), "flag": ("bool", [integer(7)])},
        {"y": ("float32", [n, m])},
        for_("i", ceildiv(n, rows), "grid", *inside),
    )


def check(seed: int) -> None:
    test = random_kernel(seed)
    rng = np.random.default_rng(seed)
    for shape in ((3, 5), (1, 9), (4, 0)):
        x, w = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(shape[::-1]).astype(np.float32)
        flag = rng.random(7) < 0.6
        want = interpret(test, shape, x, w, flag)[0]
        got = run_c(test, shape, x, w, flag)[0]
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3, err_msg=f"seed {seed}, shape {shape}")


@pytest.mark.parametrize("seed", range(20))
def test_random_kernel(seed: int) -> None:
    check(seed)


_ = (Const, Op)
