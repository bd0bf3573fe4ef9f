"""False derivations that the checker once took, or might: each is refused, for the reason given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from tang_verified.proofs.check import certify
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.steps import Step
from tang_verified.semantics.build import iadd, imul, isub, lt, op, select, var
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, For, Kernel, Loop, Stmt
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    NEG_INF,
    POS_INF,
    TRUE,
    Axis,
    Const,
    Fold,
    IllFormed,
    Monoid,
    Op,
    Read,
    Sym,
    Term,
)

n, i, k = var("n"), var("i"), var("k")
A0, B0 = Sym("a0", "real"), Sym("b0", "real")


def real(value: int | Fraction) -> Const:
    return Const(Fraction(value))


def x(index: Term, name: str = "x") -> Read:
    return Read(name, (index,), "real")


def fold(monoid: Monoid, body: Term, guard: Term = TRUE, extent: Term = n) -> Fold:
    return Fold(monoid, (Axis("k", extent),), guard, (body,))


def define(name: str, value: Term, dtype: str = "float32", axis: str = "i") -> Def:
    return Def(Tensor(name, dtype, (n,)), (axis,), value)  # type: ignore[arg-type]


def program(*defs: Def, inputs: tuple[Tensor, ...] = (Tensor("x", "float32", (n,)),)) -> Program:
    return Program("p", (Size("n", 1),), inputs, defs, (defs[-1].tensor.name,))


def store(value: Term, extent: Term = n, kinds: tuple[tuple[str, str], ...] = ()) -> Assign:
    return Assign((Loop(Axis("i", extent), "seq"),), "out", (i,), value, TRUE, kinds)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    name: str
    says: str
    program: Program
    body: tuple[Stmt, ...]
    steps: tuple[Step, ...] = ()
    last: Program | None = None  # the program after the steps
    reads: tuple[str, ...] = ("x",)
    before: tuple[Kernel, ...] = field(default=())

    def __str__(self) -> str:
        return self.name

    def run(self) -> None:
        last = self.last or self.program
        certify(self.program, self.steps, [*self.before, Kernel("k", last, self.reads, ("out",), self.body)])


def plain(name: str, says: str, value: Term, computed: Term, dtype: str = "float32") -> Case:
    return Case(name, says, program(define("out", value, dtype)), (store(computed),))


def buffer(name: str, dtype: str = "float32", extent: Term = Const(1)) -> Alloc:  # noqa: B008
    return Alloc(Buffer(name, dtype, (extent,), "thread"))  # type: ignore[arg-type]


def positive(term: Term) -> Term:
    return select(op("lt", real(0), term), real(1), real(0))


# a ⊕ b = a + b − 1 with identity 1 is a monoid, whose folds of 1/2 are not positive, though ADD's are
SHIFTED = Monoid("add", (real(1),), (op("sub", op("add", A0, B0), real(1)),))
# not a monoid at all: −∞ is no identity of +
BOGUS = Monoid("bogus", (NEG_INF,), (op("add", A0, B0),))
FIRST = Monoid("first", (real(0),), (A0,), False)
OUTSIDE = Monoid("outside", (real(0),), (select(lt(i, Const(0)), op("max", A0, B0), op("add", A0, B0)),))
LATE = select(lt(var("t"), Const(10)), real(0), real(5))
READ_BACK = Read("t", (isub(n, iadd(i, Const(1))),), "real")


def renamed_onto_free() -> Case:
    """`.0` is what the checker calls the first bound axis: Σ_k x[k] must not become Σ_k x[.0]."""
    total, single = fold(ADD, x(k)), fold(ADD, x(var(".0")))
    first = program(define("out", total, axis=".0"))
    last = program(define("out", single, axis=".0"))
    return Case("an axis with the checker's name", "no name", first, (store(fold(ADD, x(i))),),
                (Step("rename", "out", (), total, single),), last)  # fmt: skip


def monoid_left_behind() -> Case:
    """A monoid that mentions i: substitution would not look into it."""
    inner = define("t", fold(OUTSIDE, x(k)))
    first, last = program(inner, define("out", READ_BACK)), program(inner, define("out", fold(OUTSIDE, x(k))))
    return Case("a monoid that mentions an axis", "lie outside it", first, (store(fold(OUTSIDE, x(k))),),
                (Step("substitute", "out", (), READ_BACK, fold(OUTSIDE, x(k))),), last)  # fmt: skip


def carried_past_a_loop() -> Case:
    """An inner loop carries acc through an outer one that does not; the claim's t would then escape its loop."""
    inner = For(Axis("u", Const(1)), "seq", (), (Carried("acc", Claim(("c",), LATE)),))
    body = (
        buffer("acc"), Assign((Loop(Axis("c", Const(1)), "seq"),), "acc", (var("c"),), real(0)),
        For(Axis("t", Const(10)), "seq", (inner,)),
        For(Axis("t", n), "seq", (Assign((), "out", (var("t"),), x(Const(0), "acc")),)),
    )  # fmt: skip
    value = select(lt(i, Const(10)), real(0), real(5))
    return Case("carried through a loop that does not carry", "does not carry it", program(define("out", value)), body)


def shared_private_buffer() -> Case:
    fill = For(Axis("g", n), "grid", (Assign((), "b", (var("g"),), x(var("g"))),))
    use = For(Axis("h", n), "grid", (Assign((), "out", (var("h"),), x(var("h"), "b")),))
    alloc = Alloc(Buffer("b", "float32", (n,), "thread"), Claim(("c",), x(var("c"))))
    return Case("a private buffer filled in parallel", "no-race/scope", program(define("out", x(i))), (alloc, fill, use))


def narrow_buffer() -> Case:
    big = imul(var("t"), 1 << 20)
    one = Assign((Loop(Axis("c", Const(1)), "seq"),), "b", (var("c"),), big)
    body = (
        For(Axis("t", n), "seq", (buffer("b", "int32"), one, Assign((), "out", (var("t"),), Read("b", (Const(0),), "int")))),
    )
    return Case(
        "an index beyond 32 bits in an int32 buffer", "width/int32", program(define("out", imul(i, 1 << 20), "int64")), body
    )


def data_in_an_extent() -> Case:
    extent = Op("max", (Const(0), Read("z", (iadd(n, Const(5)),), "int")))
    inputs = (Tensor("x", "float32", (n,)), Tensor("z", "int32", (n,)))
    body = (store(x(i)), For(Axis("q", extent), "seq", ()))
    return Case("an extent that reads out of bounds", "depends on data", program(define("out", x(i)), inputs=inputs), body,
                reads=("x", "z"))  # fmt: skip


def minus_itself() -> Case:
    """t − t is 0 only where t is finite, and 1/x is not at 0."""
    inverse = define("t", op("div", real(1), x(i)))
    whole = program(inverse, define("out", op("sub", x(i, "t"), x(i, "t"))))
    first = Kernel("k0", whole, ("x",), ("t",), (Assign((Loop(Axis("i", n), "seq"),), "t", (i,), op("div", real(1), x(i))),))
    return Case("t - t where t may be nan", "disproved", whole, (store(real(0)),), reads=("x", "t"), before=(first,))


SHORT = fold(MAX, x(k), extent=isub(n, Const(1)))  # of nothing where n = 1
GUESSED = iadd(op("mod", var("x!1"), Const(1 << 40)), Const(1))
CASES: Sequence[Case] = (
    plain("a monoid that bears another's name", "value/out", op("add", positive(fold(ADD, op("exp", x(k)))),
          positive(fold(SHIFTED, real(Fraction(1, 2))))), op("add", real(1), real(1))),
    carried_past_a_loop(),
    monoid_left_behind(),
    renamed_onto_free(),
    plain("a placeholder outside a monoid", "no meaning here", Sym("u0", "real"), Sym("u0", "real")),
    plain("an integer folded by a real monoid", "of sort int", fold(ADD, Const(3)), fold(ADD, Const(3))),
    plain("an integer for a guard", "a guard of sort int", fold(ADD, x(k), Const(1)), fold(ADD, x(k), Const(1))),
    Case("a fold on lanes whose order matters", "monoid/first", program(define("out", fold(FIRST, x(k)))),
         (store(fold(FIRST, x(k)), kinds=(("k", "lane"),)),)),
    Case("a loop bound that names the checker's cell", "no name", program(define("out", x(i))),
         (store(x(i), Op("min", (n, GUESSED))),)),
    Case("a loop bound that nothing binds", "unbound ['free']", program(define("out", x(i))), (store(x(i), var("free")),)),
    data_in_an_extent(),
    narrow_buffer(),
    plain("the integer of an infinity", "disproved", op("trunc", POS_INF), Const(0), "int64"),
    plain("induction without an identity", "disproved",
          select(op("eq", fold(BOGUS, select(lt(k, Const(1)), real(1), NEG_INF), extent=iadd(n, Const(1))), NEG_INF), real(1), real(0)),
          real(0)),
    shared_private_buffer(),
    minus_itself(),
    Case("written twice", "no-race/out", program(define("out", x(i))), (store(x(i)), store(x(i)))),
    plain("a guard on data dropped", "disproved", fold(ADD, x(k), op("lt", real(0), x(k))), fold(ADD, x(k))),
    plain("a guard on data added", "disproved", fold(ADD, x(k)), fold(ADD, x(k), op("lt", real(0), x(k)))),
    plain("the maximum of nothing taken for finite", "disproved", op("sub", SHORT, SHORT), real(0)),
    Case("a rule that does not exist", "unknown rule", program(define("out", x(i))), (store(x(i)),),
         (Step("trust_me", "out", (), x(i), real(0)),)),
    plain("nan equal to itself", "disproved", op("eq", Const("nan"), Const("nan")), TRUE, "bool"),
    plain("zero times what may be infinite", "disproved", op("mul", real(0), SHORT), real(0)),
    plain("x over x", "disproved", op("div", x(i), x(i)), real(1)),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_false_derivation_is_refused(case: Case) -> None:
    with pytest.raises((Refused, IllFormed)) as refusal:
        case.run()
    assert case.says in str(refusal.value)


def test_the_sound_twins_are_accepted() -> None:
    plain("max, never of nothing", "", op("sub", fold(MAX, x(k)), fold(MAX, x(k))), real(0)).run()
    plain("positive", "", positive(fold(ADD, op("exp", x(k)))), real(1)).run()
    plain("lanes", "", fold(ADD, x(k)), fold(ADD, x(k))).run()
    Case("lanes", "", program(define("out", fold(ADD, x(k)))), (store(fold(ADD, x(k)), kinds=(("k", "lane"),)),)).run()
    plain("div0", "", op("div0", Const("nan"), real(0)), real(0)).run()


def test_a_program_needs_outputs() -> None:
    with pytest.raises(IllFormed, match="needs outputs"):
        certify(Program("p", (), (), (), ()), [], [])


def test_sealed() -> None:
    from tang_verified.proofs.check import Certified

    with pytest.raises(IllFormed, match="only the checker"):
        Certified(program(define("out", x(i))), (), program(define("out", x(i))), (), (), (), {}, object())


def test_only_the_checker_says_what_was_followed() -> None:
    """Nothing can be made `complete` that was not followed step by step and kernel by kernel."""
    from dataclasses import replace

    from tang_verified.proofs.check import Followed, follow_steps
    from tang_verified.proofs.ledger import Ledger

    p = program(define("out", x(i)))
    with pytest.raises(IllFormed, match="only the checker"):
        Followed(p, (), p, (), Ledger(p), object())
    followed = follow_steps(p, ())
    with pytest.raises((IllFormed, TypeError, ValueError)):
        replace(followed, kernels=())
