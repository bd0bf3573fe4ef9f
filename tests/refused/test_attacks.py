"""Ways in which the checker was once made to accept something false, each as small as it gets."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.calling import Signature
from tang_verified.proofs.check import certify
from tang_verified.proofs.effects import kernel_effect, step_effect
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.steps import Step
from tang_verified.semantics.evaluate import evaluate
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Carried, Claim, For, Kernel, Loop
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import (
    ADD,
    INT_ADD,
    MAX,
    NEG_INF,
    ONE,
    POS_INF,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    IllFormed,
    Monoid,
    Op,
    Read,
    Sym,
    Term,
    Var,
)  # fmt: skip

I, J, N = Var("i"), Var("j"), Var("n")


def op(name: str, *args: Term) -> Op:
    return Op(name, args)


def read(name: str, *index: Term, sort: str = "real") -> Read:
    return Read(name, index, sort)  # type: ignore[arg-type]


def program(value: Term, *, axes: str = "i", out: str = "float32", **inputs: str) -> Program:
    """y[axes] = value, every axis and every input of size n."""
    given = tuple(Tensor(name, dtype, (N,)) for name, dtype in (inputs or {"x": "float32"}).items())  # type: ignore[arg-type]
    y = Tensor("y", out, (N,) * len(axes))  # type: ignore[arg-type]
    return Program("p", (Size("n"),), given, (Def(y, tuple(axes), value),), ("y",))


def kernel(p: Program, *body: object) -> Kernel:
    return Kernel("k", p, tuple(t.name for t in p.inputs), ("y",), body)  # type: ignore[arg-type]


def whole(p: Program, value: Term, axis: str = "i") -> Kernel:
    """y[axis] := value"""
    return kernel(p, Assign((Loop(Axis(axis, N), "seq"),), "y", (Var(axis),), value))


def refused(p: Program, k: Kernel, by: str, *steps: Step) -> None:
    with pytest.raises(Refused) as found:
        certify(p, steps, (k,))
    assert found.value.obligation.startswith(by), found.value


def test_combine_with_the_same_head() -> None:
    """a ∘ b = a + b + a·b. The lemma `extend` read acc + r as acc ∘ r, since both are additions."""
    a, b = Sym("a0", "int"), Sym("b0", "int")
    circ = Monoid("circ", (ZERO,), (op("add", op("add", a, b), op("mul", a, b)),))
    elements = read("x", J, sort="int")
    prefix = Fold(circ, (Axis("j", Var("t")),), TRUE, (elements,))
    p = program(Fold(circ, (Axis("j", N),), TRUE, (elements,)), axes="", out="int64", x="int64")
    one = Fold(circ, (Axis("c", ONE),), TRUE, (read("x", op("add", Var("t"), Var("c")), sort="int"),))

    def summed(step: Term) -> Kernel:
        loop = For(Axis("t", N), "seq", (Assign((), "acc", (), step),), (Carried("acc", Claim((), prefix)),))
        start = (Alloc(Buffer("acc", "int64", (), "thread")), Assign((), "acc", (), ZERO))
        return kernel(p, *start, loop, Assign((), "y", (), read("acc", sort="int")))

    refused(p, summed(op("add", read("acc", sort="int"), one)), "carried/step")


def test_tuple_field_that_uses_another() -> None:
    """Field 1 combines as a1 + b1 + a0·b1: with a1 renamed to a0, that looked like a0 + b0 + a0·b0."""
    a0, b0, a1, b1 = (Sym(name, "int") for name in ("a0", "b0", "a1", "b1"))
    circ = Monoid("circ", (ZERO,), (op("add", op("add", a0, b0), op("mul", a0, b0)),))
    pair = Monoid("pair", (ZERO, ZERO), (circ.combine[0], op("add", op("add", a1, b1), op("mul", a0, b1))), False)
    axes = (Axis("j", N),)
    before = Fold(circ, axes, TRUE, (read("x", J, sort="int"),))
    after = Fold(pair, axes, TRUE, (read("z", J, sort="int"), read("x", J, sort="int")), 1)
    p = program(before, axes="", out="int64", x="int64", z="int64")
    q = replace(p, defs=(replace(p.defs[0], value=after),))
    data = {"x": np.array([1, 2, 3]), "z": np.array([5, 7, 9])}
    assert evaluate(p, data)["y"] != evaluate(q, data)["y"]
    refused(p, kernel(q, Assign((), "y", (), after)), "tuple/component", Step("tuple", "y", (), before, after))


@pytest.mark.parametrize("kind", ["seq", "unroll", "lane"])
def test_laws_that_nobody_proved(kind: str) -> None:
    """The kernel's fold is the program's own, so that no lemma was needed; a printer still groups and reorders it."""
    average = Monoid(
        "average", (REAL_ZERO,), (op("mul", Const(Fraction(1, 2)), op("add", Sym("a0", "real"), Sym("b0", "real"))),)
    )
    body = op("mul", op("real", Var("u")), read("x", J))
    fold = Fold(average, (Axis("j", N), Axis("u", Const(4))), TRUE, (body,))
    p = program(fold, axes="")
    refused(p, kernel(p, Assign((), "y", (), fold, TRUE, (("u", kind),))), "monoid/average/")  # type: ignore[arg-type]


def test_extent_that_names_a_later_axis() -> None:
    """Σ_{i < j, j < n} with j of the definition in the first extent. It was read as Σ_{i < j < n}."""
    outer = Fold(ADD, (Axis("i", J), Axis("j", N)), TRUE, (read("x", I),))
    triangle = Fold(ADD, (Axis("a", N), Axis("b", N)), op("lt", Var("a"), Var("b")), (read("x", Var("a")),))
    p = program(outer, axes="j")
    q = replace(p, defs=(replace(p.defs[0], value=triangle),))
    x = np.arange(1.0, 5.0)
    assert not np.array_equal(evaluate(p, {"x": x})["y"], evaluate(q, {"x": x})["y"])
    refused(p, whole(q, triangle, "j"), "reindex/", Step("reindex", "y", (), outer, triangle))


def test_certified_copy_with_another_kernel() -> None:
    p = program(op("neg", read("x", I)))
    certified = certify(p, (), (whole(p, op("neg", read("x", I))),))
    with pytest.raises((ValueError, TypeError)):
        replace(certified, kernels=(whole(p, read("x", I)),))


@pytest.mark.parametrize(
    ("value", "dtype", "by"),
    [
        (op("mul", read("x", I, sort="int"), Const(10**6)), "int32", "width/int32"),
        (Fold(INT_ADD, (Axis("j", N),), TRUE, (read("x", J, sort="int"),)), "int32", "width/int32"),
        (op("trunc", op("mul", op("real", read("x", I, sort="int")), Const(Fraction(10**6)))), "int32", "width/int32"),
    ],
    ids=["product", "sum", "trunc"],
)
def test_narrow_integers(value: Term, dtype: str, by: str) -> None:
    """What fits int64 went through an int32 buffer."""
    p = program(value, out="int64", x="int32")
    body = (Alloc(Buffer("b", dtype, (), "thread")), Assign((), "b", (), value), Assign((), "y", (I,), read("b", sort="int")))  # type: ignore[arg-type]
    refused(p, kernel(p, For(Axis("i", N), "grid", body)), by)


def test_int32_buffer_of_int32_data() -> None:
    """The sound twin: elements as they are, or index arithmetic."""
    value = op("select", op("lt", I, Const(3)), read("x", I, sort="int"), op("add", I, ONE))
    p = program(value, out="int64", x="int32")
    body = (Alloc(Buffer("b", "int32", (), "thread")), Assign((), "b", (), value), Assign((), "y", (I,), read("b", sort="int")))
    with pytest.raises(Refused, match="width/int32"):
        certify(p, (), (kernel(p, For(Axis("i", N), "grid", body)),))  # i + 1 may be 2^31
    small = replace(p, sizes=(Size("n", 0, 1000),))
    certify(small, (), (kernel(small, For(Axis("i", N), "grid", body)),))


@pytest.mark.parametrize(("dtype", "given"), [("float16", "float32"), ("float32", "float64")])
def test_narrow_reals(dtype: str, given: str) -> None:
    """Less precision is a bound to be shown, not an equality."""
    value = op("mul", read("x", I), read("x", I))
    p = program(value, out=given, x=given)
    body = (Alloc(Buffer("b", dtype, (), "thread")), Assign((), "b", (), value), Assign((), "y", (I,), read("b")))  # type: ignore[arg-type]
    refused(p, kernel(p, For(Axis("i", N), "grid", body)), "width/real")


def test_buffer_of_negative_extent() -> None:
    p = program(read("x", I))
    scratch = Alloc(Buffer("b", "float32", (op("sub", N, Const(5)),), "global"))
    k = whole(p, read("x", I))
    refused(p, replace(k, body=(scratch, *k.body)), "capacity/extent")


def test_inner_loop_that_carries_for_an_outer_one() -> None:
    """The outer loop does not carry `acc`: its axis was left in the content, to be bound again by the next loop."""
    stale = op("select", op("lt", I, N), REAL_ZERO, Const(Fraction(42)))
    p = program(REAL_ZERO)
    inner = For(Axis("t", ONE), "seq", (), (Carried("acc", Claim((), stale)),))
    start = (Alloc(Buffer("acc", "float32", (), "thread")), Assign((), "acc", (), REAL_ZERO))
    refused(p, kernel(p, *start, For(Axis("i", N), "seq", (inner,)), *whole(p, read("acc")).body), "no-race/shared")


@pytest.mark.parametrize(
    ("want", "value", "out"),
    [
        (ZERO, op("trunc", POS_INF), "int64"),
        (ZERO, op("trunc", op("log", REAL_ZERO)), "int64"),
        (POS_INF, op("rsqrt", NEG_INF), "float32"),
        (ZERO, op("floordiv", ONE, op("sub", N, N)), "int64"),
        (ZERO, op("mod", ZERO, op("sub", N, N)), "int64"),
    ],
    ids=["trunc inf", "trunc log 0", "rsqrt -inf", "1 // 0", "0 % 0"],
)
def test_values_of_what_has_none(want: Term, value: Term, out: str) -> None:
    p = program(want, out=out)
    refused(p, whole(p, value), "value/")


def test_monoid_named_as_another() -> None:
    """Facts about monoids were once remembered by name: this `add` gives +inf, the other keeps finite what is finite."""
    a, b = Sym("a0", "real"), Sym("b0", "real")
    odd = Monoid(
        "add", (REAL_ZERO,), (op("select", op("eq", a, REAL_ZERO), b, op("select", op("eq", b, REAL_ZERO), a, POS_INF)),)
    )
    good = Fold(ADD, (Axis("j", N),), TRUE, (read("x", J),))
    bad = Fold(odd, (Axis("j", N),), TRUE, (read("x", J),))
    p = program(op("add", op("sub", good, good), op("sub", bad, bad)), axes="")
    refused(p, kernel(p, Assign((), "y", (), REAL_ZERO)), "value/")


def test_buffer_named_as_an_input_that_is_not_read() -> None:
    """Inputs are known to be finite. A buffer of that name is not."""
    p = program(read("x", I), x="float32", z="float32")
    body = (Alloc(Buffer("z", "float32", (), "thread")), Assign((), "z", (), POS_INF))
    k = replace(whole(p, read("x", I)), reads=("x",))
    with pytest.raises(IllFormed, match="declared twice"):
        certify(p, (), (replace(k, body=(*body, *k.body)),))


def test_output_that_shares_memory() -> None:
    """The proof takes arrays for separate; the call has to see to it."""
    double = tv.compile(lambda x: x + x, x="n", name="twice")
    memory = np.zeros(12, "float32")
    with pytest.raises(tv.CompileError, match="overlaps x"):
        double(memory[:8], out=memory[4:])
    fixed = np.zeros(8, "float32")
    fixed.flags.writeable = False
    with pytest.raises(tv.CompileError, match="read-only"):
        double(memory[:8], out=fixed)


def test_arrays_named_twice() -> None:
    """The text has a parameter for each array once, the call gave one for each name."""
    value = op("add", read("x", I), Const(Fraction(1)))
    p = program(value)
    k = whole(p, value)
    certify(p, (), (k,))
    for twice in (replace(k, reads=("x", "x")), replace(k, outputs=("y", "y"))):
        with pytest.raises(IllFormed, match="each array once"):
            certify(p, (), (twice,))


def test_sum_of_indices_that_overflows() -> None:
    """Σ 2^61 over n: every fold was taken for an element of an array, which has its own width."""
    total = Fold(INT_ADD, (Axis("j", N),), TRUE, (op("add", J, Const(2**61)),))
    p = program(op("real", total))
    refused(p, whole(p, op("real", total)), "width/int64")


def test_sums_that_overflow_in_a_buffer() -> None:
    """What a buffer holds counts as what was computed into it."""
    value = op("real", op("floordiv", op("mul", N, Const(2**61)), Const(2**61)))
    p = program(value)
    body = (
        Alloc(Buffer("b", "int64", (), "thread")), Assign((), "b", (), op("mul", N, Const(2**30))),
        Assign((Loop(Axis("i", N), "seq"),), "y", (I,), op("real", op("floordiv", op("mul", read("b", sort="int"), Const(2**31)), Const(2**61)))),
    )  # fmt: skip
    refused(p, kernel(p, *body), "width/int64")


def test_sums_of_indices_that_fit() -> None:
    """The sound twins: Σ j, how many elements are positive, the largest index of such."""
    positive = op("lt", REAL_ZERO, read("x", J))
    count = Fold(INT_ADD, (Axis("j", N),), TRUE, (op("select", positive, ONE, ZERO),))
    for total in (Fold(INT_ADD, (Axis("j", N),), TRUE, (J,)), count):
        p = program(op("real", total))
        certify(p, (), (whole(p, op("real", total)),))


def test_registers_count_together() -> None:
    """Each was within the limit, all of them were not."""
    value = op("add", read("x", I), read("x", I))
    p = replace(program(value), sizes=())
    x, y = (Tensor(name, "float32", (Const(4096),)) for name in "xy")
    p = replace(p, inputs=(x,), defs=(replace(p.defs[0], tensor=y),))

    def copies(count: int) -> Kernel:
        names = [f"b{k}" for k in range(count)]
        loops = (Loop(Axis("r", Const(4096)), "seq"),)
        body = [Alloc(Buffer(name, "float32", (Const(4096),), "register")) for name in names]
        fill = [Assign(loops, name, (Var("r"),), read("x", Var("r"))) for name in names]
        return kernel(p, *body, *fill, Assign((Loop(Axis("i", Const(4096)), "seq"),), "y", (I,), op("add", read("b0", I), read("b1", I))))

    certify(p, (), (copies(4),))
    refused(p, copies(5), "capacity/register")


def test_fields_that_a_rule_does_not_use() -> None:
    """A certificate could say anything there."""
    value = op("neg", read("x", I))
    p = program(value)
    more = replace(p, defs=(Def(Tensor("z", "float32", (N,)), ("i",), read("x", I)), *p.defs))
    drop = Step("drop", "z", (), None, None)
    certify(more, (drop,), (whole(p, value),))
    for step in (replace(drop, path=(0,)), replace(drop, before=REAL_ZERO), replace(drop, after=REAL_ZERO)):
        with pytest.raises(IllFormed, match="takes no path"):
            certify(more, (step,), (whole(p, value),))


@pytest.mark.parametrize(
    ("monoid", "kind", "effect"),
    [(ADD, "seq", "exact"), (ADD, "lane", "reassociates"), (ADD, "unroll", "reassociates"), (MAX, "lane", "exact")],
)
def test_effect_of_a_fold_over_lanes(monoid: Monoid, kind: str, effect: str) -> None:
    """No lemma is needed where kernel and program have the same fold; a printer still keeps a state for each lane."""
    fold = Fold(monoid, (Axis("u", Const(64)),), TRUE, (read("x", Var("u")),))
    y, x = Tensor("y", "float32", (N,)), Tensor("x", "float32", (Const(64),))
    p = Program("p", (Size("n"),), (x,), (Def(y, ("i",), fold),), ("y",))
    k = kernel(p, Assign((Loop(Axis("i", N), "seq"),), "y", (I,), fold, TRUE, (("u", kind),)))  # type: ignore[arg-type]
    assert kernel_effect(k, certify(p, (), (k,)).obligations) == effect


@pytest.mark.parametrize(
    ("first", "second", "made", "effect"),
    [
        ("float16", "float32", "copy", "range"),  # x, a float32, was rounded to a float16
        ("float32", "float32", "sum", "exact"),
        ("float32", "float64", "sum", "range"),  # computed in float32, then in float64
        ("float16", "float16", "sum", "range"),  # a float16 is computed in float32, and rounded when it is stored
        ("float32", "float32", "copy", "exact"),
    ],
)
def test_effect_of_a_definition_written_in(first: str, second: str, made: str, effect: str) -> None:
    value = read("x", I) if made == "copy" else op("add", read("x", I), read("x", I))
    given = first if made == "sum" else "float32"
    x, t, y = (Tensor(name, dtype, (N,)) for name, dtype in (("x", given), ("t", first), ("y", second)))  # type: ignore[arg-type]
    p = Program("p", (Size("n"),), (x,), (Def(t, ("i",), value), Def(y, ("i",), op("neg", read("t", I)))), ("y",))
    assert step_effect(Step("substitute", "y", (0,), read("t", I), value), p) == effect


def test_extents_that_are_terms() -> None:
    """x has 2 n elements: only numbers and names were compared with the arrays."""
    y, z = Tensor("y", "float32", (N,)), Tensor("z", "float32", (N,))
    x = Tensor("x", "float32", (op("mul", Const(2), N),))
    signature = Signature("p", Program("p", (Size("n"),), (x, z), (Def(y, ("i",), read("z", I)),), ("y",)), {}, 64)
    assert signature.sizes({"x": np.zeros(10), "z": np.zeros(5)}) == {"n": 5}
    with pytest.raises(tv.CompileError, match="x has shape"):
        signature.sizes({"x": np.zeros(1), "z": np.zeros(5)})


@pytest.mark.parametrize("name", ["linux", "M_PI", "tv_times", "half_to_float", "f32x16", "exp_f32x16", "NAN"])
def test_names_of_the_language(name: str) -> None:
    """Each names something else in the text: the printer has to choose another."""
    scope: dict[str, object] = {}
    exec(f"def f({name}):\n    return {name} + 1.0", scope)
    x = np.zeros(3, "float32")
    assert np.array_equal(tv.compile(scope["f"], **{name: "n"})(x), x + 1)  # type: ignore[arg-type]
