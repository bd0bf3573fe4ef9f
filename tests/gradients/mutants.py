"""Wrong derivatives: each is a step that the passes really make, changed in one place, and the obligation that must refuse it.

A mutant names its model and the step, by its number among those that write a derivative out (or by the rule and its number
there). `wrong` makes the step that is tried instead, from the program before it. `obligation` is how the refusal must start,
as the checker reports it or as the lemma that failed inside it; where what is offered is no program at all, its message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tang_verified.proofs.steps import Step
from tang_verified.semantics.program import Def, Program
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    ONE,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Gradient,
    Op,
    Read,
    Term,
    Var,
    children,
    reads,
    replace_reads,
)  # fmt: skip
from tests.refused.steps import after, fold, monoid, once, operation, other_branch, shorter, transposed, whole

Wrong = Callable[[Program, Step], Step]
Change = Callable[[Term], Term | None]


@dataclass(frozen=True)
class Mutant:
    name: str
    model: str
    which: int | tuple[str, int]  # the step: its number among derivatives, or (rule, number)
    wrong: Wrong
    obligation: str
    skip: str = ""  # leave out the definition that starts so


def put(change: Change) -> Wrong:
    """Change the step's result at the first place that fits."""
    return lambda program, step: after(change)(step)


def all_of(change: Callable[[Term], Term]) -> Wrong:
    """Another term in place of the step's result."""
    return lambda program, step: whole(change)(step)


def second(change: Change) -> Wrong:
    """Change the second summand."""

    def wrong(program: Program, step: Step) -> Step:
        assert isinstance(step.after, Op) and step.after.name == "add"
        return replace(step, after=Op("add", (step.after.args[0], once(step.after.args[1], change))))

    return wrong


def constant(value: Fraction | int, to: Fraction | int) -> Change:
    return lambda t: Const(Fraction(to)) if t == Const(Fraction(value)) else None


def drop_condition(*names: str) -> Change:
    """(c ? x : 0) -> x, for the first c that is an operation so named."""

    def change(t: Term) -> Term | None:
        match t:
            case Op("select", (Op(name, _), x, _)) if name in names:
                return x
        return None

    return change


def index(change: Callable[[tuple[Term, ...]], tuple[Term, ...]], ending: str = "_grad") -> Change:
    """Change where the first cotangent is read."""
    return lambda t: Read(t.tensor, change(t.index), t.sort) if isinstance(t, Read) and t.tensor.endswith(ending) else None


def digits(number: Term, base: int) -> tuple[Term, Term]:
    return Op("floordiv", (number, Const(base))), Op("mod", (number, Const(base)))


def exchanged(weight: int) -> Term:
    """i0 // 5 + weight·(i0 % 5)."""
    high, low = digits(Var("i0"), 5)
    return Op("add", (high, Op("mul", (Const(weight), low))))


def is_op(t: Term, name: str) -> bool:
    return isinstance(t, Op) and t.name == name


def value_read(change: Callable[[Read], Term]) -> Change:
    """Change the first read that is of no cotangent."""
    return lambda t: change(t) if isinstance(t, Read) and not t.tensor.endswith("_grad") else None


def first_window(read: Term, extreme: Term) -> Term | None:
    """x[…] = max over the window at hand   ->   x[…] = max over another."""
    if not (isinstance(read, Read) and isinstance(extreme, Fold)):
        return None
    elsewhere = Read(read.tensor, (Op("add", (Var("i0"), Var("j_0"))),), "real")
    return Op("eq", (read, Fold(MAX, extreme.axes, TRUE, (elsewhere,))))


def rename_reads(old: str, new: str) -> Change:
    return lambda t: Read(new, t.index, t.sort) if isinstance(t, Read) and t.tensor == old else None


def guard(change: Callable[[Term], Term]) -> Change:
    return lambda t: replace(t, guard=change(t.guard)) if isinstance(t, Fold) and t.guard != TRUE else None


def doubled(t: Term) -> Term:
    return Op("mul", (Const(Fraction(2)), t))


def argument(number: int) -> Callable[[Term], Term]:
    return lambda t: children(t)[number]


def first_axis(f: Fold) -> Term:
    """The sum over one element only."""
    return Fold(f.monoid, (Axis(f.axes[0].name, ONE), *f.axes[1:]), f.guard, f.body)


def without_case(t: Term) -> Term | None:
    """(c ? 0 : x) -> x."""
    return t.args[2] if isinstance(t, Op) and t.name == "select" and t.args[1] == REAL_ZERO else None


def times_to_first(t: Term) -> Term | None:
    return t.args[0] if isinstance(t, Op) and t.name == "mul" else None


def share_all(t: Term) -> Term | None:
    """1 / N -> 1 / m, N the ties and m the row."""
    match t:
        case Op("div", (one, Fold(ADD_, (Axis(_, extent),)))) if one == REAL_ONE and ADD_ == ADD:
            return Op("div", (REAL_ONE, Op("real", (extent,))))
    return None


def no_share(t: Term) -> Term | None:
    """1 / N -> 1: each tie the whole slope."""
    return REAL_ONE if isinstance(t, Op) and t.name == "div" and t.args[0] == REAL_ONE and isinstance(t.args[1], Fold) else None


# -- invariance -------------------------------------------------------------------------------------------------------


def witness(change: Callable[[tuple[tuple[str, tuple[Term, ...]], ...]], tuple[tuple[str, tuple[Term, ...]], ...]]) -> Wrong:
    """Change the ends that the step gives for its first invariant definition."""

    def wrong(program: Program, step: Step) -> Step:
        (name, ends), *others = step.invariants
        return replace(step, invariants=((name, change(ends)), *others))

    return wrong


def folds(change: Change) -> Wrong:
    return witness(lambda ends: tuple((g, tuple(once(t, change) for t in given)) for g, given in ends))


def stopped(name: str, end: str, kept: int | None = None) -> Wrong:
    """Leave out a definition as invariant; of the sum, one summand is kept or none."""

    def wrong(program: Program, step: Step) -> Step:
        assert step.after is not None
        after = REAL_ZERO if kept is None else children(step.after)[kept]
        return replace(step, after=after, invariants=(*step.invariants, (name, ((end, ()),))))

    return wrong


def claim_rebased(name: str, end: str) -> Wrong:
    """The maximum of `also the maximum` as if it were softmax's: re-based denominators, and its summand left out."""

    def wrong(program: Program, step: Step) -> Step:
        assert isinstance(step.after, Op)
        (_, tail), last = step.after.args[0].args, step.after.args[1]  # type: ignore[union-attr]
        denominator = next(d.value for d in program.defs if d.tensor.name.endswith("_add"))
        difference = Op("sub", (Read(name, (Var("i0"),), "real"), Read(f"{name}_other", (Var("i0"),), "real")))
        told = Op("mul", (denominator, Op("exp", (difference,))))
        return replace(step, after=Op("add", (tail, last)), invariants=((name, ((end, (told,)),)),))

    return wrong


def at_rest(name: str, end: str) -> Wrong:
    """A definition that does not move, as if its end were the same without it; its slopes are left out."""

    def wrong(program: Program, step: Step) -> Step:
        assert step.after is not None
        after = replace_reads(step.after, f"{name}_dot", lambda index: REAL_ZERO)
        return replace(step, after=after, invariants=((name, ((end, ()),)),))

    return wrong


# -- other rules ------------------------------------------------------------------------------------------------------


def at(program: Program, wanted: Callable[[Term], bool], inside: Callable[[Def], bool]) -> tuple[str, tuple[int, ...], Term]:
    """The first definition `inside` with a subterm `wanted`, and its path."""

    def find(t: Term, path: tuple[int, ...]) -> tuple[tuple[int, ...], Term] | None:
        if wanted(t):
            return path, t
        return next((hit for n, part in enumerate(children(t)) if (hit := find(part, (*path, n)))), None)

    for d in program.defs:
        if inside(d) and (hit := find(d.value, ())):
            return d.tensor.name, *hit
    raise LookupError("nothing to change")


def rewrite(rule: str, wanted: Callable[[Term], bool], to: Callable[[Program, Term], Term], inside: str = "") -> Wrong:
    """A step by another rule, tried while the derivative is pending."""

    def wrong(program: Program, step: Step) -> Step:
        name, path, before = at(program, wanted, lambda d: inside in d.tensor.name)
        return Step(rule, name, path, before, to(program, before))

    return wrong


def variable(program: Program) -> Def:
    """The copied argument that a pending derivative varies."""
    sources = [d.value.source for d in program.defs if isinstance(d.value, Gradient)]
    return next(d for d in program.defs if d.tensor.name in sources)


def through(program: Program, read: Term) -> Term:
    """What the copy is a copy of."""
    assert isinstance(read, Read)
    value = variable(program).value
    assert isinstance(value, Read)
    return Read(value.tensor, read.index, "real")


def is_read(name: str) -> Callable[[Term], bool]:
    return lambda t: isinstance(t, Read) and t.tensor == name


def defined(change: Callable[[Program, Def], Def]) -> Wrong:
    def wrong(program: Program, step: Step) -> Step:
        assert step.new is not None
        return replace(step, new=change(program, step.new))

    return wrong


def kink(t: Term) -> Term | None:
    """f·x -> (x = 0 ? f·(x·x) : f·x): the same value everywhere, another slope at 0."""
    match t:
        case Op("mul", (f, Read() as x)) if len(x.index) == 1:
            return Op("select", (Op("eq", (x, REAL_ZERO)), Op("mul", (f, Op("mul", (x, x)))), t))
    return None


def chosen(a: Term, b: Term) -> Term:
    """max(a, b) as a choice: another slope at a tie."""
    return Op("select", (Op("lt", (a, b)), b, a))


def zero_at_zero(x: Term, t: Term) -> Term:
    """t, but 0 where x is."""
    return Op("select", (Op("eq", (x, REAL_ZERO)), REAL_ZERO, t))


def nested(program: Program, step: Step) -> Step:
    """A derivative inside a term."""
    assert step.before is not None
    return replace(step, after=Op("mul", (step.before, REAL_ONE)))


PART = "gradient/part-0"

MUTANTS = (
    # -- sign, factor, chain
    Mutant("sign", "product", 0, all_of(lambda t: Op("neg", (t,))), PART),
    Mutant("a factor too many", "product", 0, all_of(doubled), PART),
    Mutant("the argument itself for its partner", "product", 0, put(rename_reads("traced", "t0_variable")), PART),
    Mutant("nothing at all", "product", 0, all_of(lambda t: REAL_ZERO), PART),
    Mutant("sign of a divisor's", "quotient", 1, put(operation("neg", lambda a: a)), PART),
    Mutant("divisor not squared", "quotient", 1, put(operation("div", lambda a, b: a)), PART),
    Mutant("times for over", "quotient", 0, put(operation("div", lambda a, b: b)), PART),
    Mutant("exponent not lowered", "power", 0, put(operation("sub", lambda a, b: a)), PART),
    Mutant("exponent for factor", "power", 0,
           put(operation("mul", lambda a, b: b if is_op(b, "pow") else None)), PART),
    Mutant("logarithm forgotten", "power", 1,
           put(operation("mul", lambda a, b: a if is_op(b, "log") else None)), PART),
    Mutant("inner slope missing", "chain", 0, put(operation("exp", lambda a: REAL_ONE)), PART),
    Mutant("one term of a product's", "chain", 0, all_of(argument(0)), "gradient/sum"),
    Mutant("the same term twice", "chain", 0, all_of(lambda t: Op("add", (children(t)[0], children(t)[0]))), "gradient/part-1"),
    Mutant("cosine's sign", "cosine", 0, put(operation("neg", lambda a: a)), PART),
    Mutant("cosine for sine", "cosine", 0, put(operation("sin", lambda a: Op("cos", (a,)))), PART),
    Mutant("tanh: plus", "tanh", 0, put(operation("sub", lambda a, b: Op("add", (a, b)))), PART),
    Mutant("tanh: not squared", "tanh", 0,
           put(operation("mul", lambda a, b: a if a == b else None)), PART),
    Mutant("erf without its constant", "error function", 0,
           put(lambda t: REAL_ONE if isinstance(t, Const) and t.value != 1 else None), PART),
    Mutant("erf: growing", "error function", 0, put(operation("neg", lambda a: a)), PART),
    Mutant("logarithm: x for 1/x", "logarithm", 0, put(operation("div0", lambda a, b: b)), PART),
    Mutant("square root: twice", "square root", 0, put(constant(Fraction(1, 2), 1)), PART),
    # -- kinks and poles
    Mutant("square root: a pole at 0", "square root", 0, put(operation("div0", lambda a, b: Op("div", (a, b)))), PART),
    Mutant("power: x to the −1 at 0", "power", 0, put(without_case), PART),
    Mutant("tie counted twice", "larger", 0, put(constant(Fraction(1, 2), 1)), PART),
    Mutant("tie not shared", "larger", 1, put(constant(Fraction(1, 2), 0)), PART),
    Mutant("the smaller one", "larger", 0, put(other_branch), PART),
    Mutant("relu: all at 0", "relu", 0, put(constant(Fraction(1, 2), 1)), PART),
    Mutant("relu: straight through", "relu", 0, put(lambda t: REAL_ONE if isinstance(t, Op) and t.name == "select" else None),
           PART),
    Mutant("absolute: a side chosen at 0", "absolute", 0, put(lambda t: REAL_ONE if t == REAL_ZERO and t is not None else None),
           PART),
    Mutant("absolute: sign", "absolute", 0, put(operation("lt", lambda a, b: Op("lt", (b, a)))), PART),
    Mutant("log-add-exp: nothing at a tie", "log-add-exp", 0,
           all_of(lambda t: Op("add", (Op("add", (REAL_ZERO, children(children(t)[0])[1])), children(t)[1]))), PART),
    Mutant("condition of a branch dropped", "branches", 1, put(drop_condition("not")), PART),
    Mutant("the other branch", "branches", 1, put(operation("not", lambda a: a)), PART),
    Mutant("a site of two dropped", "branches", 0, all_of(argument(0)), "gradient/sum"),
    # -- views
    Mutant("mirrored site dropped", "with its mirror", 0, all_of(argument(0)), "gradient/sum"),
    Mutant("mirrored site not mirrored", "with its mirror", 0, second(index(lambda i: (Var("i0"),))), "gradient/part-1"),
    Mutant("a site too many", "with its mirror", 0, all_of(lambda t: Op("add", (t, children(t)[0]))), PART),
    Mutant("x @ x.T: both sites alike", "gram", 0, all_of(lambda t: Op("add", (children(t)[0], children(t)[0]))),
           "gradient/part-1"),
    Mutant("x @ x.T: one site, doubled", "gram", 0, all_of(lambda t: doubled(children(t)[0])), "gradient/sum"),
    Mutant("operand not transposed", "square matmul", 0,
           put(lambda t: None if isinstance(t, Read) and t.tensor.endswith("_grad") else transposed(t)), PART),
    Mutant("cotangent transposed", "square matmul", 0, put(index(lambda i: i[::-1])), PART),
    Mutant("sum one short", "matmul", 0, put(fold(shorter)), PART),
    Mutant("cotangent of a transpose not transposed", "transposed", 0, put(index(lambda i: i[::-1])), PART),
    Mutant("mean for sum", "row sums", 0, all_of(lambda t: Op("div", (t, Op("real", (Var("m"),))))), PART),
    Mutant("another row's", "row sums", 0, put(index(lambda i: (ZERO,))), PART),
    Mutant("not summed over what was stretched", "broadcast", 0, put(fold(first_axis)), PART),
    Mutant("stretched over nothing", "broadcast", 1, put(index(lambda i: (i[0], ZERO))), PART),
    Mutant("condition of a stride dropped", "every other", 0, put(drop_condition("eq")), PART),
    Mutant("the odd ones", "every other", 0, put(operation("eq", lambda a, b: Op("eq", (a, ONE)))), PART),
    Mutant("stride forgotten", "every other", 0, put(index(lambda i: (Var("i0"),))), PART),
    Mutant("padding not counted", "padded", 0, put(index(lambda i: (Var("i0"),))), PART),
    Mutant("digits swapped", "reshaped", 0, put(index(lambda i: digits(Var("i0"), 4))), PART),
    Mutant("digits of two reshapes not exchanged", "reshaped twice", 0, put(index(lambda i: digits(Var("i0"), 15))), PART),
    Mutant("digits of two reshapes weighted alike", "reshaped twice", 0, put(index(lambda i: digits(exchanged(5), 15))), PART),
    Mutant("a digit of two lost", "reshaped twice", 0, put(index(lambda i: (ZERO, i[1]))), PART),
    Mutant("a part's beginning not looked at", "a part of a reshape", 0, put(drop_condition("le")), PART),
    Mutant("a part's end not looked at", "a part of a reshape", 0, put(drop_condition("lt")), PART),
    Mutant("index repeated: once", "gathered", 0, put(monoid(MAX)), PART),
    Mutant("the next row", "gathered", 0,
           put(operation("eq", lambda a, b: Op("eq", (Op("add", (a, ONE)), b)))), PART),
    Mutant("every row", "gathered", 0, put(drop_condition("eq")), PART),
    # -- folds
    Mutant("each tie the whole slope", "row maxima", 0, put(no_share), PART),
    Mutant("shared by the row", "row maxima", 0, put(share_all), PART),
    Mutant("all but the maximum", "row maxima", 0, put(operation("eq", lambda a, b: Op("lt", (a, b)))), PART),
    Mutant("everything is the maximum", "row maxima", 0, put(drop_condition("eq")), PART),
    Mutant("maximum of the others", "row minima", 0, put(monoid(MAX)), PART),
    Mutant("product with its own element", "row products", 0, put(guard(lambda g: TRUE)), PART),
    Mutant("sum of the others", "row products", 0, put(monoid(ADD)), PART),
    Mutant("windows' overlap dropped", "window", 0, put(fold(first_axis)), PART),
    Mutant("guard of a ragged edge dropped", "window", 0, put(drop_condition("le")), PART),
    Mutant("the other edge's guard dropped", "window", 0, put(drop_condition("lt")), PART),
    Mutant("window not turned round", "window", 0,
           put(index(lambda i: (Op("sub", (Var("i0"), Op("sub", (Const(2), Var("j"))))),))), PART),
    Mutant("a window short", "window", 1, put(fold(shorter)), PART),
    Mutant("stride's condition dropped", "strided", 0, put(drop_condition("eq")), PART),
    Mutant("stride of one", "strided", 1,
           put(value_read(lambda t: Read(t.tensor, (Op("add", (Var("i_0"), Var("i0"))),), "real"))), PART),
    Mutant("pools' overlap dropped", "pool", 0, put(fold(shorter)), PART),
    Mutant("pools' ties counted twice", "pool", 0, put(no_share), PART),
    Mutant("maximum of the first window", "pool", 0,
           put(operation("eq", first_window)), PART),
    Mutant("triangle's guard dropped", "triangle", 0, put(drop_condition("le")), PART),
    Mutant("triangle off by one", "triangle", 0, put(operation("le", lambda a, b: Op("lt", (a, b)))), PART),
    Mutant("before for after", "recurrence", 0, put(operation("lt", lambda a, b: Op("lt", (b, a)))), PART),
    Mutant("its own step included", "recurrence", 1, put(operation("lt", lambda a, b: Op("le", (a, b)))), PART),
    Mutant("the state's other field", "recurrence", 1, put(lambda t: replace(t, component=1) if isinstance(t, Fold) else None),
           PART),
    # -- chains of definitions
    Mutant("denominator's share forgotten", "softmax", 0, all_of(argument(1)), "gradient/sum"),
    Mutant("denominator's sign", "softmax", 1, put(operation("neg", lambda a: a)), PART),
    Mutant("another definition's cotangent", "softmax", 0, put(rename_reads("t5_div_add_grad", "t5_div_add")), PART),
    Mutant("summed over nothing", "softmax", 1, put(fold(first_axis)), PART),
    Mutant("mean's share forgotten", "layer norm", 0,
           all_of(lambda t: once(t, operation("add", lambda a, b: b if isinstance(a, Read) else None))), "gradient/sum"),
    Mutant("deviation: −1 for −1/2", "layer norm", 3, put(constant(Fraction(-1, 2), -1)), PART),
    Mutant("weights of the other output", "two outputs", 2, put(rename_reads("u", "v")), PART),
    Mutant("one output alone", "two outputs", 0, all_of(argument(0)), "gradient/sum"),
    Mutant("a reader without its gradient", "softmax", 0, lambda program, step: step, "gradient/chain", skip="t5_div_add_grad"),
    # -- invariance
    Mutant("re-based the wrong way", "softmax", 0, folds(operation("sub", lambda a, b: Op("sub", (b, a)))), "invariance/fold"),
    Mutant("not re-based", "softmax", 0, folds(operation("exp", lambda a: REAL_ONE)), "invariance/fold"),
    Mutant("re-based twice", "log-sum-exp", 0, folds(operation("exp", lambda a: Op("exp", (doubled(a),)))), "invariance/fold"),
    Mutant("a fold is missing", "softmax", 0, witness(lambda ends: tuple((g, ()) for g, _ in ends)), "invariance/folds"),
    Mutant("a path misses the ends", "softmax", 0, witness(lambda ends: (("t5_div_add", ends[0][1]),)), "invariance/paths"),
    Mutant("no ends", "softmax", 0, witness(lambda ends: ()), "invariance/paths"),
    Mutant("an index of nowhere", "softmax", 0,
           folds(index(lambda i: (Var("j9"),), "_other")), "invariance/variables"),
    Mutant("the maximum is used elsewhere too", "also the maximum", 0, claim_rebased("t7_mul_max", "t7_mul"),
           "invariance/value"),
    Mutant("gradient stopped at a denominator", "softmax", 0, stopped("t5_div_add", "t5_div", 1), "invariance/value"),
    Mutant("gradient stopped at a mean", "layer norm", 2, stopped("t11_mul", "t11_mul"), "invariance/"),
    Mutant("gradient stopped at a sum", "log-sum-exp", 0, stopped("t7_add_add", "t7_add"), "invariance/value"),
    # -- tangents
    Mutant("tangent: one argument stays", "tangent of a product", 0, all_of(argument(0)), "tangent"),
    Mutant("tangent along the other", "tangent of a product", 0, put(rename_reads("d_y", "d_x")), "tangent"),
    Mutant("tangent of the wrong tensor", "tangent of a matmul", 0,
           put(lambda t: Read("d_x", t.index, "real") if isinstance(t, Read) and t.tensor.endswith("_dot") else None),
           "tangent"),
    Mutant("tangent without tanh's slope", "tangent of a matmul", 0, all_of(argument(1)), "tangent"),
    Mutant("tangent of a product: once", "tangent of a matmul", 1, put(operation("add", lambda a, b: a)), "tangent"),
    Mutant("tangent: each tie the whole slope", "tangent of maxima", 0, put(no_share), "tangent"),
    Mutant("tangent: a reader without", "tangent of a matmul", 0, lambda program, step: step, "tangent/chain",
           skip="t2_matmul_dot"),
    # -- invariance in tangents
    Mutant("tangent: re-based the wrong way", "tangent of a softmax", 0,
           folds(operation("sub", lambda a, b: Op("sub", (b, a)))), "invariance/fold"),
    Mutant("tangent: not re-based", "tangent of a softmax", 0, folds(operation("exp", lambda a: REAL_ONE)), "invariance/fold"),
    Mutant("tangent: re-based twice", "tangent of a log-sum-exp", 0,
           folds(operation("exp", lambda a: Op("exp", (doubled(a),)))), "invariance/fold"),
    Mutant("tangent: a fold is missing", "tangent of a softmax", 0, witness(lambda ends: tuple((g, ()) for g, _ in ends)),
           "invariance/folds"),
    Mutant("tangent: an end before it", "tangent of a softmax", 0, witness(lambda ends: (("t4_sum", ends[0][1]),)),
           "tangent/ends"),
    Mutant("tangent: two ends", "tangent of a softmax", 0, witness(lambda ends: (*ends, ("t4_sum", ends[0][1]))),
           "tangent/ends"),
    Mutant("tangent: no ends", "tangent of a softmax", 0, witness(lambda ends: ()), "tangent/ends"),
    Mutant("tangent: nothing shown of the maximum", "tangent of a softmax", 0,
           lambda program, step: replace(step, invariants=()), "tangent/chain"),
    Mutant("tangent: the denominator at rest", "tangent of a softmax", 0, all_of(argument(0)), "tangent"),
    Mutant("tangent: the denominator is no matter", "tangent of a softmax", 0, at_rest("t4_sum", "t5_div"), "invariance/value"),
    Mutant("tangent: itself at rest", "tangent of a softmax", 0, at_rest("t5_div", "t5_div"), "invariance/paths"),
    Mutant("tangent: the maximum is used elsewhere too", "tangent, also of the maximum", 0, at_rest("t6_max", "t7_mul"),
           "invariance/value"),
    Mutant("tangent: the maximum of an end that is another's", "tangent, also of the maximum", 0, at_rest("t1_max", "t5_div"),
           "tangent/ends"),
    # -- what may not be done while a derivative is pending
    Mutant("substituted through a variable", "closure", 0,
           rewrite("substitute", lambda t: isinstance(t, Read) and "variable" in t.tensor, through, "mul"),
           "substitute/variable"),
    Mutant("a variable recalled", "closure", 0,
           rewrite("recall", is_read("traced"), lambda program, t: Read("t1_variable", children(t), "real"), "mul"),
           "recall/variable"),
    Mutant("a kink rewritten", "relu", 0,
           rewrite("pointwise", lambda t: is_op(t, "max"), lambda program, t: chosen(*children(t))), "pointwise/smooth"),
    Mutant("a kink brought in", "square root", 0,
           rewrite("pointwise", lambda t: isinstance(t, Read), lambda program, t: zero_at_zero(t, t), "sqrt"),
           "pointwise/smooth"),
    Mutant("what holds at one point", "branch at a point", 0,
           rewrite("pointwise", lambda t: is_op(t, "mul"), lambda program, t: children(t)[1], "sum"), "pointwise"),
    Mutant("what holds at one point, told by a logarithm", "branch at a pole", 0,
           rewrite("pointwise", lambda t: is_op(t, "mul"), lambda program, t: REAL_ZERO, "sum"),
           "pointwise/smooth"),
    Mutant("a kink in a derivative that is differentiated", "gradient of a gradient", 0, put(kink), "gradient/part-0/smooth"),
    Mutant("a kink in a tangent that is differentiated", "gradient of a tangent", 0,
           put(operation("add", lambda a, b: zero_at_zero(reads(a)[0], Op("add", (a, b))))), "tangent/smooth"),
    Mutant("a definition's name taken", "softmax", ("define", 2),
           defined(lambda program, d: replace(d, tensor=replace(d.tensor, name="t5_div"))), "define/name"),
    Mutant("a definition that reads later ones", "softmax", ("define", 2),
           lambda program, step: replace(step, tensor=program.defs[0].tensor.name), "no tensor of reals before it"),
    Mutant("weights of another shape", "softmax", ("define", 3),
           defined(lambda program, d: replace(d, value=Gradient((("t5_div_add", "ct"),), "t5_div_add"))), "differ in shape"),
    Mutant("a definition left unread by its derivative alone", "softmax", 0,
           lambda program, step: Step("drop", "t5_div_add", (), None, None), "drop/unused"),
    Mutant("a derivative inside a term", "product", 0, nested, "stands inside a term"),
    Mutant("a derivative written out by another rule", "product", 0, lambda program, step: replace(step, rule="pointwise"),
           "pointwise/before"),
    Mutant("a tangent's rule for a gradient", "product", 0, lambda program, step: replace(step, rule="tangent"),
           "tangent/before"),
    Mutant("substituted into a derivative", "closure", 1,
           rewrite("substitute", lambda t: isinstance(t, Read) and "gradient" in t.tensor, lambda program, t: REAL_ONE),
           "substitute/"),
)  # fmt: skip

__all__ = ["MUTANTS", "Mutant"]
