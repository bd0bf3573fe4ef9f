"""The mutants, as data: each breaks the checked output of `derive` and the scheduler for a program in one place.

To add one: write `Mutant(name, program, kind, change, refused)`. `program` is a key of `programs.FUNCTIONS` (or of
`programs.BY_HAND`). `change` takes a `Kernel` and gives the broken one; build it from the finders of `edits.py`, which go by
what stands at a place and not by the scheduler's names, and which raise when there is no such place. `refused` is the
beginning of the obligation that must refuse it, or "IllFormed". A change of the program or of the steps goes into `STEPS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from tang_verified.proofs.steps import Step
from tang_verified.semantics.kernel import Alloc, Assign, Claim, For, Kernel, Loop, Stmt
from tang_verified.semantics.program import Program, Size
from tang_verified.semantics.terms import (
    ADD,
    FALSE,
    MAX,
    MIN,
    MUL,
    NAN,
    NEG_INF,
    ONE,
    REAL_ONE,
    REAL_ZERO,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Monoid,
    Op,
    Read,
    Sym,
    Term,
    Var,
    free_vars,
    substitute,
)  # fmt: skip
from tests.refused.edits import (
    NoSuchPlace,
    assignment,
    buffer,
    claimed,
    claims,
    everywhere,
    first,
    is_op,
    loop,
    mentions,
    padded,
    plus,
    reads_of,
    refold,
    relation,
    resized,
    running,
    shifted,
    store,
    stored,
    tightened,
    value,
)  # fmt: skip
from tests.refused.programs import Case

Change = Callable[[Kernel], Kernel]


@dataclass(frozen=True)
class Mutant:
    """One broken kernel, and the obligation that must refuse it."""

    name: str
    program: str
    kind: str
    change: Change
    refused: str


# -- edits that several mutants share -------------------------------------------------------------------------------


def _const(old: Term, new: Term) -> Callable[[Term], Term | None]:
    return lambda t: new if t == old else None


def _unpad(t: Term) -> Term | None:
    return t.args[1] if padded(t) and mentions(t.args[1], lambda r: isinstance(r, Read)) else None  # type: ignore[union-attr]


def _padding(new: Term) -> Callable[[Term], Term | None]:
    return lambda t: Op("select", (*t.args[:2], new)) if padded(t) else None  # type: ignore[union-attr]


def _in_guard(edit: Callable[[Term], Term | None]) -> Callable[[Assign], Assign | None]:
    def guard(s: Assign) -> Assign | None:
        new = first(s.guard, edit)
        return None if new is None else replace(s, guard=new)

    return guard


def _in_index(edit: Callable[[Term], Term | None]) -> Callable[[Assign], Assign | None]:
    def index(s: Assign) -> Assign | None:
        for place, part in enumerate(s.index):
            new = first(part, edit)
            if new is not None:
                return replace(s, index=(*s.index[:place], new, *s.index[place + 1 :]))
        return None

    return index


def _in_load(edit: Callable[[Term], Term | None]) -> Callable[[Term], Term | None]:
    """An edit of the condition of a padded element."""

    def load(t: Term) -> Term | None:
        if not padded(t):
            return None
        condition = first(t.args[0], edit)  # type: ignore[union-attr]
        return None if condition is None else Op("select", (condition, *t.args[1:]))  # type: ignore[union-attr]

    return load


def _grid(edit: Callable[[Axis], Term], nth: int = 0) -> Change:
    return loop(lambda s: replace(s, axis=Axis(s.axis.name, edit(s.axis))) if s.kind == "grid" else None, nth=nth)


def _fewer(axis: Axis) -> Term:
    return plus(axis.extent, -1)


def _rounded_down(axis: Axis) -> Term:
    """ceil(n / T) -> floor(n / T)"""
    found = first(axis.extent, lambda t: Op("floordiv", (Var(min(free_vars(t))), t.args[1])) if is_op(t, "floordiv") else None)  # type: ignore[union-attr]
    if found is None:
        raise NoSuchPlace("no rounding up")
    return found


def _is_scale(s: Assign) -> bool:
    """scale := old = -inf ? 0 : exp(old - new)"""
    return is_op(s.value, "select") and is_op(s.value.args[2], "exp")  # type: ignore[union-attr]


def _rescales(s: Assign) -> bool:
    """state := state · scale + fold"""
    return is_op(s.value, "add") and is_op(s.value.args[0], "mul") and mentions(s.value.args[0], reads_of(s.target))  # type: ignore[union-attr]


def _drop_rescale(s: Assign) -> Assign | None:
    if not _rescales(s):
        return None
    scaled, rest = s.value.args  # type: ignore[union-attr]
    return replace(s, value=Op("add", (scaled.args[0], rest)))


def _twice(s: Assign) -> Assign | None:
    if not _rescales(s):
        return None
    scaled, rest = s.value.args  # type: ignore[union-attr]
    return replace(s, value=Op("add", (Op("mul", (scaled, scaled.args[1])), rest)))


def _scale_all(s: Assign) -> Assign | None:
    """state·scale + fold -> (state + fold)·scale"""
    if not _rescales(s):
        return None
    scaled, rest = s.value.args  # type: ignore[union-attr]
    return replace(s, value=Op("mul", (Op("add", (scaled.args[0], rest)), scaled.args[1])))


def _swapped(name: str) -> Callable[[Term], Term | None]:
    return lambda t: Op(name, (t.args[1], t.args[0])) if is_op(t, name) else None  # type: ignore[union-attr]


def _starts(s: Assign) -> bool:
    return isinstance(s.value, Const)


def _commits(s: Assign) -> bool:
    return isinstance(s.value, Read)


def _last_first(s: For) -> For | None:
    """The driver is overwritten before those that depend on its old value are updated."""
    if not s.carried:
        return None
    commit = s.body[-1]
    place = next(k for k, t in enumerate(s.body) if isinstance(t, Assign) and t.target.startswith("next"))
    return replace(s, body=(*s.body[: place + 1], commit, *s.body[place + 1 : -1]))


def _statements(s: For) -> list[Assign]:
    return [t for t in s.body if isinstance(t, Assign)]


def _drop_commit(s: For) -> For | None:
    return replace(s, body=s.body[:-1]) if s.carried and isinstance(s.body[-1], Assign) else None


def _reverse_states(s: For) -> For | None:
    """The updates of the running moments, lowest first: each then reads a lower one that is new already."""
    places = [k for k, t in enumerate(s.body) if isinstance(t, Assign) and mentions(t.value, reads_of(t.target))]
    if not s.carried or len(places) < 2:
        return None
    body = list(s.body)
    for k, old in zip(places, reversed(places), strict=True):
        body[k] = s.body[old]
    return replace(s, body=tuple(body))


def _add_claim(edit: Callable[[Term], Term | None]) -> Change:
    def one(c: object) -> object:
        new = first(c.claim.value, edit)  # type: ignore[attr-defined]
        return None if new is None else claimed(c, new)  # type: ignore[arg-type]

    return claims(one)  # type: ignore[arg-type]


def _swap_claims(s: For) -> For | None:
    if len(s.carried) < 2:
        return None
    a, b, *rest = s.carried
    swapped = (replace(a, claim=Claim(a.claim.index, b.claim.value)), replace(b, claim=Claim(b.claim.index, a.claim.value)))
    return replace(s, carried=(*swapped, *rest))


def _twice_over(s: Assign) -> tuple[Stmt, ...]:
    return (s, s)


def _repeated(s: Assign) -> tuple[Stmt, ...]:
    return (For(Axis("again", Const(2)), "seq", (s,)),)


def _one_cell(s: Assign) -> Assign | None:
    """Lanes l and l + 1 write one cell."""
    lane = next((k.axis.name for k in s.loops if k.kind == "lane"), None)
    if lane is None:
        return None
    half = Op("mul", (Const(2), Op("floordiv", (Var(lane), Const(2)))))
    return replace(s, index=tuple(substitute(i, {lane: half}) for i in s.index))


def _shorter(step: int) -> Callable[[Alloc], Alloc | None]:
    def edit(s: Alloc) -> Alloc | None:
        if not s.buffer.shape or not isinstance(s.buffer.shape[-1], Const):
            return None
        extent = Const(int(s.buffer.shape[-1].value) - step)  # type: ignore[arg-type]
        return replace(s, buffer=replace(s.buffer, shape=(*s.buffer.shape[:-1], extent)))

    return edit


def _outside(kernel: Kernel) -> Kernel:
    """The first buffer of the parallel loop is shared by all its instances, with its first value."""
    (grid,) = kernel.body
    if not isinstance(grid, For) or not isinstance(grid.body[0], Alloc):
        raise NoSuchPlace("no buffer inside a grid loop")
    rest = replace(grid, body=grid.body[2:])
    return replace(kernel, body=(grid.body[0], grid.body[1], rest))


def _parallel(s: For) -> For:
    return replace(s, kind="grid")


def _loops(edit: Callable[[Loop], Loop | None]) -> Callable[[Assign], Assign | None]:
    def statement(s: Assign) -> Assign | None:
        for place, k in enumerate(s.loops):
            new = edit(k)
            if new is not None:
                return replace(s, loops=(*s.loops[:place], new, *s.loops[place + 1 :]))
        return None

    return statement


def _lane_width(step: int) -> Callable[[Assign], Assign | None]:
    return _loops(lambda k: Loop(Axis(k.axis.name, plus(k.axis.extent, step)), "seq") if k.kind == "lane" else None)


def _shadow(s: Assign) -> Assign | None:
    """A fold's axis bears the name of a loop of the statement."""
    if not s.loops or not mentions(s.value, lambda t: isinstance(t, Fold)):
        return None
    name = s.loops[0].axis.name

    def rename(t: Term) -> Term | None:
        if not isinstance(t, Fold):
            return None
        old = t.axes[0].name
        new: dict[str, Term] = {old: Var(name)}
        body = tuple(everywhere(b, lambda v: new.get(v.name) if isinstance(v, Var) else None) for b in t.body)
        return Fold(t.monoid, (Axis(name, t.axes[0].extent), *t.axes[1:]), t.guard, body)

    new = first(s.value, rename)
    return None if new is None else replace(s, value=new)


def _inner(t: Term) -> Term | None:
    """x · scale -> x, of a product with a constant or a reciprocal."""
    return t.args[0] if is_op(t, "mul") and is_op(t.args[1], "div") else None  # type: ignore[union-attr]


def _without(name: str) -> Callable[[Term], Term | None]:
    """a + (term with `name`) -> a"""
    return lambda t: t.args[0] if is_op(t, "add") and mentions(t.args[1], reads_of(name)) else None  # type: ignore[union-attr]


def _transposed(name: str) -> Callable[[Term], Term | None]:
    def edit(t: Term) -> Term | None:
        if not isinstance(t, Read) or t.tensor != name:
            return None
        return Read(t.tensor, (*t.index[:-2], t.index[-1], t.index[-2]), t.sort)

    return edit


def _other(old: str, new: str) -> Callable[[Term], Term | None]:
    return lambda t: Read(new, t.index, t.sort) if isinstance(t, Read) and t.tensor == old else None


def _as(sort: str) -> Callable[[Term], Term | None]:
    return lambda t: Read(t.tensor, t.index, sort) if isinstance(t, Read) else None  # type: ignore[arg-type]


def _mask(edit: Callable[[Term], Term | None]) -> Change:
    """An edit of the first comparison that is not the ragged edge, in the loads of the tile."""
    return value(_in_load(edit), of=lambda s: mentions(s.value, lambda t: is_op(t, "le")))


def _drop_mask(t: Term) -> Term | None:
    return TRUE if is_op(t, "le") else None


def _named(name: str) -> Callable[[Term], Term | None]:
    return lambda t: Op(name, t.args) if isinstance(t, Op) and t.name != name and len(t.args) == 1 else None


def _in_fold(edit: Callable[[Fold], Fold]) -> Callable[[Term], Term | None]:
    return lambda t: edit(t) if isinstance(t, Fold) else None


def _a(sort: str) -> tuple[Sym, Sym]:
    return Sym("a0", sort), Sym("b0", sort)  # type: ignore[arg-type]


AVERAGE = Monoid("average", (REAL_ZERO,), (Op("mul", (Const(Fraction(1, 2)), Op("add", _a("real")))),))
FROM_ONE = Monoid("from one", (REAL_ONE,), (Op("add", _a("real")),))
LAST = Monoid("last", (NAN,), (Op("select", (Op("ne", (_a("real")[1],) * 2), *_a("real"))),), True)  # b unless it is nan
ORDERED = replace(LAST, commutative=False)
STRAY = Monoid("stray", (REAL_ZERO,), (Op("add", (_a("real")[0], Op("mul", (_a("real")[1], Op("real", (Var("n"),)))))),))
LOOSE = Monoid("loose", (REAL_ZERO,), (Op("add", (_a("real")[0], Sym("c0", "real"))),))


def replace_extent(fold: Fold, extent: Term) -> Fold:
    return Fold(fold.monoid, (Axis(fold.axes[0].name, extent), *fold.axes[1:]), fold.guard, fold.body)


def _own(s: Assign, edit: Callable[[Term], Term | None]) -> Assign | None:
    """An edit of what the statement reads of its own target."""
    new = first(s.value, lambda t: edit(t) if isinstance(t, Read) and t.tensor == s.target else None)
    return None if new is None else replace(s, value=new)


def _const_is(number: int) -> Callable[[Term], bool]:
    return lambda t: t == Const(number)


def _limit(t: Term, step: int) -> Term | None:
    """j < 1024 t  ->  j < 1024 t + step"""
    return Op("lt", (t.args[0], plus(t.args[1], step))) if is_op(t, "lt") and is_op(t.args[1], "mul", "add") else None  # type: ignore[union-attr]


def _claim(s: Assign, edit: Callable[[Term], Term | None]) -> Assign | None:
    new = None if s.claim is None else first(s.claim.value, edit)
    return None if new is None or s.claim is None else replace(s, claim=Claim(s.claim.index, new))


def _swap_reals(s: For) -> For | None:
    """The invariants of two states of different rank."""
    if len(s.carried) < 3:
        return None
    a, b, c = s.carried
    return replace(s, carried=(a, replace(b, claim=c.claim), replace(c, claim=b.claim)))


def _plain(t: Term) -> bool:
    return isinstance(t, Read) and not t.index


def _rename_grid(name: str) -> Change:
    def rename(s: For) -> For | None:
        if s.kind != "grid":
            return None
        return replace(s, axis=Axis(name, s.axis.extent))

    return loop(rename)


def _fold_axis(t: Term) -> str:
    found: list[str] = []
    mentions(t, lambda f: isinstance(f, Fold) and bool(found.append(f.axes[0].name)))
    return found[0]


def _again(kernel: Kernel) -> Kernel:
    """The loop that fills the tile runs a second time, under another name, once the tile is complete."""

    def twice(s: For) -> For | None:
        if s.kind != "grid":
            return None
        alloc, fill, rest = s.body
        if not isinstance(fill, For) or not isinstance(fill.body[0], Assign):
            return None
        statement = fill.body[0]
        new: dict[str, Term] = {"r": Var("r2"), "c": Var("c2")}
        other = Assign((Loop(Axis("c2", Const(8)), "lane"),), "tile", (Var("r2"), Var("c2")), substitute(statement.value, new))
        return replace(s, body=(alloc, fill, For(Axis("r2", fill.axis.extent), "seq", (other,)), rest))

    return loop(twice)(kernel)


HUGE = Const(2**62)
X = "x"
kept = stored  # an edit of what is stored


def _is(name: str) -> Callable[[Term], bool]:
    return lambda t: is_op(t, name)


MUTANTS: tuple[Mutant, ...] = (
    # -- tiles: too few, shifted, overlapping, uncovered
    Mutant("grid one short", "softmax", "tile", _grid(_fewer), "carried/extent"),
    Mutant("grid at most one short", "column_sums", "tile", _grid(_rounded_down), "cover/"),
    Mutant("row tiles rounded down", "linear_gelu", "tile", _grid(_rounded_down), "cover/"),
    Mutant("column tiles rounded down", "linear_gelu", "tile", _grid(_rounded_down, nth=1), "cover/"),
    Mutant("row tiles too many, unguarded", "max_pool", "tile", _grid(lambda a: plus(a.extent, 1), nth=2), "in-bounds/"),
    Mutant(
        "fold tiles rounded down",
        "softmax",
        "tile",
        running(lambda s: replace(s, axis=Axis(s.axis.name, _rounded_down(s.axis))) if s.carried else None),
        "value/",
    ),
    Mutant(
        "key tiles rounded down",
        "plain",
        "tile",
        running(lambda s: replace(s, axis=Axis(s.axis.name, _rounded_down(s.axis))) if s.carried else None),
        "value/",
    ),
    Mutant("tile base shifted", "softmax", "tile", value(shifted(X, 1), nth=0), "in-bounds/x"),
    Mutant("tile base shifted back", "softmax", "tile", value(shifted(X, -1), nth=0), "in-bounds/x"),
    Mutant(
        "maximum over a shorter tile",
        "softmax",
        "tile",
        value(resized(-1), of=lambda s: mentions(s.value, _is("max"))),
        "value/next",
    ),
    Mutant("sum over a shorter tile", "softmax", "tile", value(resized(-1), of=_rescales), "value/state"),
    Mutant("sum over an overlapping tile", "softmax", "tile", value(resized(1), of=_rescales), "value/state"),
    Mutant("lanes overlap in the sum", "softmax", "tile", value(resized(1, place=2), of=_rescales), "value/state"),
    Mutant("a part of the product uncovered", "linear_gelu", "tile", value(resized(-1)), "value/state"),
    Mutant("a part of the scores uncovered", "plain", "tile", value(resized(-1)), "value/"),
    Mutant("pooling window one short", "max_pool", "tile", value(resized(-1)), "value/"),
    Mutant("pooling windows overlap", "average_pool", "tile", value(resized(1)), "in-bounds/x"),
    Mutant("average over the wrong window", "average_pool", "tile", value(resized(-1)), "value/"),
    Mutant(
        "column sum stops early",
        "column_sums",
        "tile",
        value(_in_fold(lambda f: replace_extent(f, plus(f.axes[0].extent, -1)))),
        "value/",
    ),
    Mutant(
        "column sum runs on",
        "column_sums",
        "tile",
        value(_in_fold(lambda f: replace_extent(f, plus(f.axes[0].extent, 1)))),
        "in-bounds/x",
    ),
    # -- guards
    Mutant("load guard lets one more in", "softmax", "guard", value(_in_load(relation("lt", "le"))), "in-bounds/x"),
    Mutant("load guard missing", "softmax", "guard", value(_unpad), "in-bounds/x"),
    Mutant("packing without its guard", "linear_gelu", "guard", value(_unpad), "in-bounds/x"),
    Mutant("packing guard off by one", "linear_gelu", "guard", value(_in_load(relation("lt", "le"))), "in-bounds/x"),
    Mutant("packing guard drops a row", "linear_gelu", "guard", value(_in_load(tightened(1))), "value/"),
    Mutant("load guard drops an element", "softmax", "guard", value(_in_load(tightened(1))), "value/next"),
    Mutant("store guard dropped", "softmax", "guard", store(lambda s: replace(s, guard=TRUE)), "in-bounds/"),
    Mutant("store guard lets one more in", "transpose", "guard", store(_in_guard(relation("lt", "le"))), "in-bounds/"),
    Mutant("store guard drops the last cell", "clip", "guard", store(_in_guard(tightened(1))), "cover/"),
    Mutant("store guard never holds", "clip", "guard", store(lambda s: replace(s, guard=FALSE)), "cover/"),
    Mutant(
        "store guard contradicts itself",
        "clip",
        "guard",
        store(lambda s: replace(s, guard=Op("and", (s.guard, Op("lt", (Var("n"), ZERO)))))),
        "cover/",
    ),
    Mutant(
        "store guard on data",
        "clip",
        "guard",
        store(lambda s: replace(s, guard=Op("and", (s.guard, Op("le", (Read("x", s.index, "real"), REAL_ONE)))))),
        "in-bounds/",
    ),
    Mutant(
        "row guard dropped",
        "linear_gelu",
        "guard",
        store(_in_guard(lambda t: t.args[1] if is_op(t, "and") else None)),
        "in-bounds/",
    ),  # type: ignore[union-attr]
    Mutant("convolution without its padding", "conv2d", "guard", kept(_unpad), "in-bounds/image"),
    Mutant("convolution's padding off by one", "conv2d", "guard", kept(_in_load(relation("le", "lt"))), "value/"),
    Mutant(
        "convolution's padding loosened",
        "conv2d",
        "guard",
        kept(_in_load(tightened(-1, lambda t: is_op(t, "le")))),
        "in-bounds/",
    ),
    Mutant(
        "gather without its lower bound",
        "embedding",
        "guard",
        kept(_in_load(lambda t: TRUE if is_op(t, "le") else None)),
        "in-bounds/table",
    ),
    Mutant(
        "gather without its upper bound",
        "embedding",
        "guard",
        kept(_in_load(lambda t: TRUE if is_op(t, "lt") else None)),
        "in-bounds/table",
    ),
    Mutant("gather without its check", "cross_entropy", "guard", kept(_unpad), "in-bounds/logits"),
    # -- coverage and races
    Mutant("cells never written", "clip", "cover", store(lambda s: ()), "cover/"),
    Mutant(
        "every other cell",
        "transpose",
        "cover",
        store(_in_index(lambda t: Op("mul", (Const(2), t)) if is_op(t, "add") else None)),
        "in-bounds/",
    ),
    Mutant("lanes one short", "softmax", "cover", store(_lane_width(-1)), "cover/"),
    Mutant("lanes overlap", "softmax", "race", store(_lane_width(1)), "no-race/"),
    Mutant("two lanes write one cell", "transpose", "race", store(_one_cell), "value/"),
    Mutant(
        "two iterations write one cell",
        "max_pool",
        "race",
        store(lambda s: (For(Axis("r", Const(2)), "grid", (s,)),)),
        "no-race/",
    ),
    Mutant("written twice", "clip", "race", store(_twice_over), "no-race/"),
    Mutant("written in a loop again", "softmax", "race", store(_repeated), "no-race/"),
    Mutant(
        "a buffer's cells written twice",
        "linear_gelu",
        "race",
        assignment(lambda s: _lane_width(1)(s) if _starts(s) else None),
        "in-bounds/",
    ),
    Mutant(
        "a buffer's last lane unwritten",
        "linear_gelu",
        "cover",
        assignment(lambda s: _lane_width(-1)(s) if _starts(s) else None),
        "cover/",
    ),
    Mutant(
        "a buffer assigned under a guard",
        "linear_gelu",
        "cover",
        assignment(lambda s: replace(s, guard=Op("lt", (Var(s.loops[0].axis.name), Const(3)))) if _starts(s) else None),
        "cover/whole",
    ),
    Mutant("a state shared by parallel rows", "softmax", "race", _outside, "no-race/shared"),
    Mutant(
        "a parallel loop carries", "softmax", "race", running(lambda s: _parallel(s) if s.carried else None), "no-race/carried"
    ),
    Mutant(
        "a state the loop does not carry",
        "softmax",
        "race",
        running(lambda s: replace(s, carried=s.carried[:1])),
        "no-race/shared",
    ),
    Mutant(
        "reads the neighbour's cell",
        "linear_gelu",
        "race",
        assignment(lambda s: _own(s, shifted(s.target, 1, 0))),
        "stage/own-cell",
    ),
    # -- running states
    Mutant("rescale dropped", "softmax", "state", assignment(_drop_rescale), "value/state"),
    Mutant("rescale dropped", "plain", "state", assignment(_drop_rescale), "value/state"),
    Mutant("rescale dropped, of the denominator", "plain", "state", assignment(_drop_rescale, nth=1), "value/state"),
    Mutant("rescale twice", "softmax", "state", assignment(_twice), "value/state"),
    Mutant("rescales what is new too", "softmax", "state", assignment(_scale_all), "value/state"),
    Mutant("scale with old and new swapped", "softmax", "state", value(_swapped("sub"), of=_is_scale), "value/state"),
    Mutant(
        "scale without its empty case",
        "masked",
        "state",
        value(lambda t: t.args[2] if is_op(t, "select") else None, of=_is_scale),
        "value/state",
    ),  # type: ignore[union-attr]
    Mutant("maximum committed too early", "softmax", "state", running(_last_first), "value/state"),
    Mutant("maximum never committed", "softmax", "state", running(_drop_commit), "carried/step"),
    Mutant("maximum starts at 0", "softmax", "identity", value(_const(NEG_INF, REAL_ZERO), of=_starts), "carried/entry"),
    Mutant(
        "maximum starts at -1e9",
        "softmax",
        "identity",
        value(_const(NEG_INF, Const(Fraction(-(10**9)))), of=_starts),
        "carried/entry",
    ),
    Mutant(
        "maximum starts at -1e9",
        "causal",
        "identity",
        value(_const(NEG_INF, Const(Fraction(-(10**9)))), of=_starts),
        "carried/entry",
    ),
    Mutant("sum starts at 1", "softmax", "identity", value(_const(REAL_ZERO, REAL_ONE), of=_starts), "carried/entry"),
    Mutant("sum starts at nan", "linear_gelu", "identity", value(_const(REAL_ZERO, NAN), of=_starts), "carried/entry"),
    Mutant("maximum padded with 0", "softmax", "identity", value(_padding(REAL_ZERO)), "value/next"),
    Mutant("maximum padded with -1e9", "softmax", "identity", value(_padding(Const(Fraction(-(10**9))))), "value/next"),
    Mutant(
        "sum padded with 1",
        "softmax",
        "identity",
        value(_padding(REAL_ONE), nth=1, of=lambda s: not _is_scale(s)),
        "value/state",
    ),
    Mutant("product padded with 1", "linear_gelu", "identity", value(_padding(REAL_ONE)), "value/state"),
    Mutant("product padded with nan", "linear_gelu", "identity", value(_padding(NAN)), "value/state"),
    Mutant("scores padded with -1e9", "causal", "identity", value(_padding(Const(Fraction(-(10**9))))), "value/"),
    Mutant("moments, lowest first", "layernorm", "state", running(_reverse_states), "value/"),
    Mutant(
        "shift of the centre backwards",
        "layernorm",
        "state",
        value(_swapped("sub"), of=lambda s: is_op(s.value, "sub") and not mentions(s.value, lambda t: isinstance(t, Fold))),
        "value/",
    ),
    Mutant("binomial 2 forgotten", "layernorm", "state", value(_const(Const(Fraction(2)), REAL_ONE)), "value/"),
    Mutant(
        "centre of the prefix before",
        "layernorm",
        "state",
        value(lambda t: _other("next", "state")(t), of=lambda s: is_op(s.value, "div")),
        "value/",
    ),
    Mutant(
        "square of the shift forgotten",
        "layernorm",
        "state",
        value(lambda t: t.args[0] if is_op(t, "add") and is_op(t.args[1], "mul") and is_op(t.args[1].args[0], "mul") else None),  # type: ignore[union-attr]
        "value/",
    ),
    # -- what is folded and stored
    Mutant("sum for maximum", "softmax", "value", value(refold(ADD), of=lambda s: mentions(s.value, _is("max"))), "value/next"),
    Mutant(
        "minimum for maximum", "softmax", "value", value(refold(MIN), of=lambda s: mentions(s.value, _is("max"))), "value/next"
    ),
    Mutant("minimum for maximum", "max_pool", "value", value(refold(MIN)), "value/"),
    Mutant("sum for maximum", "max_pool", "value", value(refold(ADD)), "value/"),
    Mutant("product for sum", "column_sums", "value", value(refold(MUL)), "value/"),
    Mutant("maximum for minimum", "clip", "value", kept(relation("min", "max")), "value/"),
    Mutant(
        "bounds swapped",
        "clip",
        "value",
        kept(
            lambda t: Op("max", (Op("min", (t.args[0].args[0], t.args[1])), Const(Fraction(-2)))) if is_op(t, "min") else None
        ),  # type: ignore[union-attr]
        "value/",
    ),
    Mutant("index swapped", "transpose", "value", kept(_transposed("x")), "in-bounds/x"),
    Mutant("operand transposed", "linear_gelu", "value", value(_transposed("w")), "in-bounds/w"),
    Mutant("wrong operand", "plain", "value", value(_other("k", "v")), "value/"),
    Mutant("wrong operand of the ratio", "ratio", "value", kept(_other("y", "x")), "value/"),
    Mutant("operands swapped", "ratio", "value", kept(_swapped("div")), "value/"),
    Mutant("operands swapped", "difference", "value", kept(_swapped("sub")), "value/"),
    Mutant("bias dropped", "linear_gelu", "value", kept(_without("b")), "value/"),
    Mutant("bias of the neighbour", "layernorm", "value", kept(shifted("b", 1)), "in-bounds/b"),
    Mutant(
        "weight and bias swapped",
        "layernorm",
        "value",
        kept(lambda t: everywhere(t, lambda r: _other("w", "tmp")(r) or _other("b", "w")(r)) if is_op(t, "add") else None),
        "IllFormed",
    ),
    Mutant("reciprocal missing", "softmax", "value", kept(_inner), "value/"),
    Mutant("reciprocal missing", "plain", "value", kept(_inner), "value/"),
    Mutant("divisor off by one", "average_pool", "value", kept(_const(Const(Fraction(4)), Const(Fraction(5)))), "value/"),
    Mutant(
        "epsilon dropped",
        "layernorm",
        "value",
        kept(lambda t: t.args[0] if is_op(t, "add") and isinstance(t.args[1], Const) else None),
        "value/",
    ),  # type: ignore[union-attr]
    Mutant(
        "another function", "linear_gelu", "value", kept(lambda t: _named("erf")(t) if is_op(t, "tanh") else None), "value/"
    ),
    Mutant(
        "another function of the same values",
        "softmax",
        "value",
        value(lambda t: _named("expm1")(t) if is_op(t, "exp") else None, of=_rescales),
        "value/state",
    ),
    Mutant("the row's nan made 0", "causal", "value", kept(_const(NAN, REAL_ZERO)), "value/"),
    Mutant(
        "the fully masked row's case dropped",
        "masked",
        "value",
        kept(lambda t: t.args[2] if is_op(t, "select") else None),
        "value/",
    ),  # type: ignore[union-attr]
    Mutant("mask dropped", "causal", "mask", _mask(_drop_mask), "value/"),
    Mutant("mask loosened by one", "causal", "mask", _mask(tightened(-1, lambda t: is_op(t, "le"))), "value/"),
    Mutant("mask tightened by one", "causal", "mask", _mask(relation("le", "lt")), "value/"),
    Mutant("mask dropped", "window", "mask", _mask(_drop_mask), "value/"),
    Mutant(
        "window wider by one",
        "window",
        "mask",
        _mask(lambda t: Op("le", t.args) if is_op(t, "lt") and mentions(t.args[1], _const_is(5)) else None),
        "value/",
    ),  # type: ignore[union-attr]
    Mutant(
        "mask inverted",
        "masked",
        "mask",
        value(lambda t: Op("not", (t,)) if isinstance(t, Read) and t.tensor == "keep" else None),
        "value/",
    ),
    Mutant("mask transposed", "masked", "mask", value(_transposed("keep")), "in-bounds/keep"),
    # -- numbers: floor and truncation, nan, infinities
    Mutant(
        "truncates for floor",
        "halve",
        "number",
        kept(
            lambda t: (
                Op("trunc", (Op("div", (Op("real", (t.args[0],)), Const(Fraction(2)))),)) if is_op(t, "floordiv") else None
            )
        ),  # type: ignore[union-attr]
        "value/",
    ),
    Mutant(
        "rounds up",
        "halve",
        "number",
        kept(lambda t: Op("floordiv", (plus(t.args[0], 1), t.args[1])) if is_op(t, "floordiv") else None),
        "value/",
    ),  # type: ignore[union-attr]
    Mutant(
        "remainder with the dividend's sign",
        "remainder",
        "number",
        kept(
            lambda t: (
                Op(
                    "sub",
                    (
                        t.args[0],
                        Op("mul", (Const(4), Op("trunc", (Op("div", (Op("real", (t.args[0],)), Const(Fraction(4)))),)))),
                    ),
                )
                if is_op(t, "mod")
                else None
            )
        ),  # type: ignore[union-attr]
        "value/",
    ),
    Mutant("divisor negated", "remainder", "number", kept(_const(Const(4), Const(-4))), "value/"),
    Mutant("x · 0 is 0, for nan too", "times_zero", "number", kept(lambda t: REAL_ZERO if is_op(t, "mul") else None), "value/"),
    Mutant(
        "x / x is 1",
        "ratio",
        "number",
        kept(lambda t: Op("mul", (Op("div", (t.args[0], t.args[0])), Op("div", t.args))) if is_op(t, "div") else None),  # type: ignore[union-attr]
        "value/",
    ),
    Mutant("x / 0 is 0", "ratio", "number", kept(relation("div", "div0")), "value/"),
    Mutant(
        "2 a - (a + 1) is a - 1, at -inf too",
        "difference",
        "number",
        kept(
            lambda t: (
                Op("sub", (Op("add", (t.args[0], t.args[0])), Op("add", (t.args[0], t.args[1])))) if is_op(t, "sub") else None
            )
        ),  # type: ignore[union-attr]
        "value/",
    ),
    Mutant(
        "exp(log x) is x, below 0 too",
        "there_and_back",
        "number",
        kept(lambda t: t.args[0].args[0] if is_op(t, "exp") else None),
        "value/",
    ),  # type: ignore[union-attr]
    Mutant(
        "sqrt(x)^2 is x, below 0 too",
        "root",
        "number",
        kept(lambda t: t.args[0].args[0] if is_op(t, "mul") else None),
        "value/",
    ),  # type: ignore[union-attr]
    Mutant(
        "sqrt(x)^2 is |x|",
        "root",
        "number",
        kept(lambda t: Op("abs", (t.args[0].args[0],)) if is_op(t, "mul") else None),
        "value/",
    ),  # type: ignore[union-attr]
    Mutant(
        "the same but for nan",
        "difference",
        "number",
        kept(lambda t: Op("select", (Op("le", (t, t)), t, REAL_ZERO)) if is_op(t, "sub") else None),
        "value/",
    ),
    # -- claims
    Mutant("invariant one tile ahead", "softmax", "claim", _add_claim(lambda t: _limit(t, 1)), "carried/"),
    Mutant("invariant of a shorter prefix", "softmax", "claim", _add_claim(tightened(1)), "value/next"),
    Mutant("invariant of the other buffer", "softmax", "claim", running(_swap_claims), "carried/entry"),
    Mutant("invariants of two states swapped", "plain", "claim", running(_swap_reals), "IllFormed"),
    Mutant(
        "invariant names a stray variable",
        "softmax",
        "claim",
        _add_claim(lambda t: Var("zz") if t == Var("m") else None),
        "IllFormed",
    ),
    Mutant(
        "invariant names a placeholder",
        "softmax",
        "claim",
        _add_claim(lambda t: Sym("u0", "real") if isinstance(t, Read) else None),
        "IllFormed",
    ),
    Mutant("invariant by another monoid", "softmax", "claim", _add_claim(refold(MIN)), "carried/"),
    Mutant("invariant of another row", "softmax", "claim", _add_claim(shifted("x", 1, 0)), "value/next"),
    Mutant("invariant of an array not read", "softmax", "claim", _add_claim(_other("x", "y")), "IllFormed"),
    Mutant(
        "a statement's claim one tile behind",
        "softmax",
        "claim",
        assignment(lambda s: _claim(s, lambda t: _limit(t, -1))),
        "value/",
    ),
    Mutant(
        "a statement's claim of another row",
        "linear_gelu",
        "claim",
        assignment(lambda s: _claim(s, shifted("x", 1, 0))),
        "value/",
    ),
    Mutant("an invariant true of no buffer", "softmax", "claim", claims(lambda c: replace(c, buffer="nothing")), "IllFormed"),
    # -- buffers and names
    Mutant("buffer one element short", "linear_gelu", "buffer", buffer(_shorter(1)), "in-bounds/"),
    Mutant("packed buffer one element short", "linear_gelu", "buffer", buffer(_shorter(1), nth=1), "in-bounds/"),
    Mutant(
        "tile of scores one element short",
        "causal",
        "buffer",
        buffer(lambda s: _shorter(1)(s) if s.buffer.name == "tile" else None),
        "in-bounds/",
    ),
    Mutant(
        "register tile of no constant size",
        "linear_gelu",
        "buffer",
        buffer(lambda s: replace(s, buffer=replace(s.buffer, scope="register", shape=(Var("n"),) * len(s.buffer.shape)))),
        "capacity/register",
    ),
    Mutant(
        "register tile too large",
        "linear_gelu",
        "buffer",
        buffer(lambda s: replace(s, buffer=replace(s.buffer, scope="register"))),
        "capacity/register",
    ),
    Mutant(
        "buffer that no address reaches",
        "linear_gelu",
        "buffer",
        buffer(lambda s: replace(s, buffer=replace(s.buffer, shape=(HUGE, HUGE)))),
        "capacity/",
    ),
    Mutant(
        "buffer of negative size",
        "linear_gelu",
        "buffer",
        buffer(lambda s: replace(s, buffer=replace(s.buffer, shape=(plus(Var("n"), -2), *s.buffer.shape[1:])))),
        "capacity/extent",
    ),
    Mutant(
        "accumulator of half precision",
        "softmax",
        "buffer",
        buffer(lambda s: replace(s, buffer=replace(s.buffer, dtype="float16"))),
        "width/real",
    ),
    Mutant(
        "accumulator of integers",
        "softmax",
        "buffer",
        buffer(lambda s: replace(s, buffer=replace(s.buffer, dtype="int64"))),
        "IllFormed",
    ),
    Mutant("a buffer declared twice", "softmax", "buffer", buffer(lambda s: (s, s)), "IllFormed"),
    Mutant(
        "a buffer named as an input",
        "softmax",
        "buffer",
        buffer(lambda s: replace(s, buffer=replace(s.buffer, name="x"))),
        "IllFormed",
    ),
    Mutant("a buffer never set", "softmax", "buffer", assignment(lambda s: () if _starts(s) else None), "stage/defined"),
    Mutant(
        "a buffer read before it is set",
        "softmax",
        "buffer",
        running(lambda s: replace(s, body=(s.body[0], *s.body[2:], s.body[1]))),
        "stage/defined",
    ),
    Mutant(
        "a buffer that does not exist",
        "softmax",
        "buffer",
        kept(lambda t: Read("ghost", (), "real") if _plain(t) else None),
        "IllFormed",
    ),
    Mutant("an axis bound twice", "column_sums", "name", store(_shadow), "IllFormed"),
    Mutant("a loop named as a size", "softmax", "name", _rename_grid("n"), "IllFormed"),
    Mutant("a loop named as the prover's own", "softmax", "name", _rename_grid("j!7"), "IllFormed"),
    Mutant("a loop named as a bound axis", "softmax", "name", _rename_grid(".0"), "IllFormed"),
    Mutant(
        "an unbound variable",
        "clip",
        "name",
        store(_in_index(lambda t: Var("zz") if isinstance(t, Var) else None)),
        "IllFormed",
    ),
    Mutant("reads its own output", "clip", "name", lambda k: replace(k, reads=(*k.reads, *k.outputs)), "IllFormed"),
    Mutant("reads what it does not list", "softmax", "name", lambda k: replace(k, reads=()), "IllFormed"),
    Mutant("reads what nobody computed", "softmax", "name", lambda k: replace(k, reads=(*k.reads, "ghost")), "IllFormed"),
    Mutant("computes nothing", "clip", "name", lambda k: replace(k, outputs=()), "IllFormed"),
    Mutant("an element of the wrong sort", "clip", "name", kept(_as("int")), "IllFormed"),
    Mutant(
        "an element with an index too many",
        "clip",
        "name",
        kept(lambda t: Read(t.tensor, (*t.index, ZERO), t.sort) if isinstance(t, Read) else None),
        "IllFormed",
    ),
    Mutant(
        "a kernel for another program",
        "softmax",
        "name",
        lambda k: replace(k, program=replace(k.program, name="other")),
        "IllFormed",
    ),
    Mutant(
        "a size's range widened",
        "plain",
        "name",
        lambda k: replace(k, program=replace(k.program, sizes=tuple(replace(s, low=0) for s in k.program.sizes))),
        "IllFormed",
    ),
    Mutant(
        "a lane is no loop",
        "softmax",
        "name",
        loop(lambda s: replace(s, kind="lane") if s.kind == "grid" else None),
        "IllFormed",
    ),
    Mutant(
        "an extent read from data",
        "embedding",
        "name",
        store(_loops(lambda k: Loop(Axis(k.axis.name, Op("max", (ZERO, Read("ids", (ZERO,), "int")))), "seq"))),
        "IllFormed",
    ),
    # -- index width
    Mutant(
        "an index beyond 2^62",
        "clip",
        "width",
        kept(
            lambda t: (
                Read(t.tensor, (Op("sub", (Op("add", (t.index[0], HUGE)), HUGE)),), t.sort) if isinstance(t, Read) else None
            )
        ),
        "width/int64",
    ),
    Mutant(
        "a product of sizes beyond 2^62",
        "transpose",
        "width",
        kept(
            lambda t: (
                Read(
                    t.tensor,
                    (Op("mod", (Op("mul", (Op("mul", (Var("n"), Var("m"))), Op("mul", (Var("n"), Var("m"))))), ONE)), ZERO),
                    t.sort,
                )
                if isinstance(t, Read)
                else None
            )
        ),
        "width/int64",
    ),
    # -- monoids
    Mutant("a law that fails: average", "column_sums", "monoid", value(refold(AVERAGE)), "monoid/average/"),
    Mutant("a law that fails: identity", "column_sums", "monoid", value(refold(FROM_ONE)), "monoid/from one/"),
    Mutant("a law that fails: commutative", "column_sums", "monoid", value(refold(LAST)), "monoid/last/"),
    Mutant(
        "lanes reorder what is ordered",
        "column_sums",
        "monoid",
        lambda k: store(lambda s: replace(s, fold_kinds=((_fold_axis(s.value), "lane"),)))(value(refold(ORDERED))(k)),
        "parallelise/",
    ),
    Mutant("a monoid that looks outside", "column_sums", "monoid", value(refold(STRAY)), "IllFormed"),
    Mutant("a monoid over a third state", "column_sums", "monoid", value(refold(LOOSE)), "IllFormed"),
    Mutant(
        "a fold guarded by data",
        "column_sums",
        "monoid",
        value(_in_fold(lambda f: Fold(f.monoid, f.axes, Op("le", (REAL_ZERO, f.body[0])), f.body))),
        "value/",
    ),
    # -- single-assignment buffers, by hand
    Mutant(
        "staged tile written twice",
        "staged",
        "stage",
        assignment(lambda s: (s, s) if s.target == "tile" else None),
        "no-race/tile",
    ),
    Mutant("staged tile written again when complete", "staged", "stage", lambda k: _again(k), "stage/single-assignment"),
    Mutant(
        "staged tile read before it is filled",
        "staged",
        "stage",
        loop(lambda s: replace(s, body=(s.body[0], s.body[2], s.body[1])) if s.kind == "grid" else None),
        "stage/defined",
    ),
    Mutant(
        "staged tile with a column missing",
        "staged",
        "stage",
        assignment(lambda s: replace(s, loops=(Loop(Axis("c", Const(7)), "seq"),)) if s.target == "tile" else None),
        "cover/tile",
    ),
    Mutant(
        "staged tile with a row missing",
        "staged",
        "stage",
        loop(lambda s: replace(s, axis=Axis("r", Op("max", (ZERO, plus(Var("n"), -1))))) if s.kind == "seq" else None),
        "cover/tile",
    ),
    Mutant(
        "staged tile not what it claims",
        "staged",
        "stage",
        assignment(lambda s: replace(s, value=first(s.value, _padding(REAL_ZERO))) if s.target == "tile" else None),
        "value/tile",
    ),  # type: ignore[arg-type]
    Mutant(
        "staged tile claims another row",
        "staged",
        "stage",
        buffer(lambda s: replace(s, claim=Claim(s.claim.index, first(s.claim.value, shifted("x", 1, 0)))) if s.claim else None),
        "value/tile",
    ),  # type: ignore[arg-type]
    Mutant(
        "staged tile private to its writers",
        "staged",
        "stage",
        lambda k: loop(lambda s: replace(s, kind="grid") if s.kind == "seq" else None)(
            buffer(lambda s: replace(s, buffer=replace(s.buffer, scope="thread")))(k)
        ),
        "no-race/scope",
    ),
    Mutant("staged tile read transposed", "staged", "stage", kept(_transposed("tile")), "in-bounds/tile"),
    Mutant("staged tile's last tile skipped", "staged", "stage", _grid(_rounded_down), "cover/"),
)


# -- mutants of the program, the steps and the set of kernels ----------------------------------------------------------


@dataclass(frozen=True)
class CaseMutant:
    """A broken derivation: what `certify` is given, changed before or between the kernels."""

    name: str
    program: str
    change: Callable[[Case], Case]
    refused: str


def _steps(edit: Callable[[list[Step]], list[Step]]) -> Callable[[Case], Case]:
    return lambda case: replace(case, steps=tuple(edit(list(case.steps))))


def _step(rule: str, edit: Callable[[Step], Step | None]) -> Callable[[Case], Case]:
    """The first step of a rule for which `edit` gives something (and another after) is replaced."""

    def one(steps: list[Step]) -> list[Step]:
        for place, step in enumerate(steps):
            new = edit(step) if step.rule == rule else None
            if new is not None and new != step:
                return [*steps[:place], new, *steps[place + 1 :]]
        raise NoSuchPlace(f"no step {rule}")

    return _steps(one)


def _after(edit: Callable[[Term], Term | None]) -> Callable[[Step], Step | None]:
    def after(step: Step) -> Step | None:
        new = None if step.after is None else first(step.after, edit)
        return None if new is None else replace(step, after=new)

    return after


def _extra(rule: str, after: Callable[[Term], Term], name: int = -1) -> Callable[[Case], Case]:
    """One more step at the end, on the whole value of a definition."""

    def one(case: Case) -> Case:
        d = case.kernels[0].program.defs[name]
        return replace(case, steps=(*case.steps, Step(rule, d.tensor.name, (), d.value, after(d.value))))

    return one


def _kernels(edit: Callable[[tuple[Kernel, ...]], tuple[Kernel, ...]]) -> Callable[[Case], Case]:
    return lambda case: replace(case, kernels=edit(case.kernels))


CASES: tuple[CaseMutant, ...] = (
    CaseMutant("the last step removed", "softmax", _steps(lambda s: s[:-1]), "IllFormed"),
    CaseMutant("a step from the middle removed", "softmax", _steps(lambda s: _less(s)), "rename/before"),
    CaseMutant("a step taken twice", "softmax", _steps(lambda s: [s[0], *s]), ""),
    CaseMutant("the steps from last to first", "layernorm", _steps(lambda s: s[::-1]), ""),
    CaseMutant("all steps removed", "softmax", _steps(lambda s: []), "IllFormed"),
    CaseMutant("substitutes another element", "softmax", _step("substitute", _after(shifted("x", 1))), "substitute/same"),
    CaseMutant("substitutes the other index", "softmax", _step("substitute", _after(_transposed("x"))), "substitute/same"),
    CaseMutant("names what is not bound", "softmax",
               _step("substitute", _after(lambda t: Var("zz") if isinstance(t, Var) else None)), "substitute/variables"),
    CaseMutant("renames to another term", "softmax", _step("rename", _after(shifted("x", 1))), "rename/same"),
    CaseMutant("a rule that there is not", "softmax", _step("substitute", lambda s: replace(s, rule="believe")), "IllFormed"),
    CaseMutant("another rule's name", "softmax", _step("substitute", lambda s: replace(s, rule="rename")), "rename/same"),
    CaseMutant("before is not what stands there", "softmax",
               _step("substitute", lambda s: replace(s, before=s.after)), "substitute/before"),
    CaseMutant("drops the output", "softmax", _steps(lambda s: [*s, replace(s[-1], rule="drop", tensor=_output(s))]), ""),
    CaseMutant("drops what is read", "softmax", _steps(lambda s: [replace(t, path=()) for t in s if t.rule == "drop"][:1] + s), "drop/unused"),
    CaseMutant("a gather without its bounds", "cross_entropy", _step("gather", _after(_unpad)), "gather/same"),
    CaseMutant("a gather of the next element", "cross_entropy", _step("gather", _after(shifted("logits", 1))), "gather/same"),
    CaseMutant("simplifies exp(log x)", "there_and_back", _extra("pointwise", lambda v: v.args[0].args[0]), "pointwise"),  # type: ignore[union-attr]
    CaseMutant("simplifies x · 0", "times_zero", _extra("pointwise", lambda v: REAL_ZERO), "pointwise"),
    CaseMutant("simplifies sqrt(x)^2", "root", _extra("pointwise", lambda v: v.args[0].args[0]), "pointwise"),  # type: ignore[union-attr]
    CaseMutant("cancels a difference that may be nan", "difference",
               _extra("pointwise", lambda v: Op("add", (v, Op("sub", (v, v))))), "pointwise"),
    CaseMutant("a fold over one element fewer", "column_sums",
               _extra("reindex", lambda v: replace_extent(v, plus(v.axes[0].extent, -1))), "reindex/"),  # type: ignore[union-attr,arg-type]
    CaseMutant("a fold over one element more", "column_sums",
               _extra("reindex", lambda v: replace_extent(v, plus(v.axes[0].extent, 1))), "reindex/"),  # type: ignore[union-attr,arg-type]
    CaseMutant("a fold by another monoid", "column_sums", _extra("reindex", lambda v: refold(MAX)(v) or v), "reindex/monoid"),
    CaseMutant("half of a fold", "column_sums",
               _extra("split", lambda v: replace_extent(v, Op("floordiv", (v.axes[0].extent, Const(2))))), "distribute/extend"),  # type: ignore[union-attr,arg-type]
    CaseMutant("a square drawn out of a sum", "column_sums", _extra("distribute", lambda v: Op("mul", (v, v))), "distribute/"),
    CaseMutant("an exponential drawn out of a sum", "column_sums", _extra("distribute", lambda v: Op("exp", (v,))), "distribute/"),
    CaseMutant("no kernel", "clip", _kernels(lambda k: ()), "IllFormed"),
    CaseMutant("a kernel twice", "clip", _kernels(lambda k: (*k, *k)), "IllFormed"),
    CaseMutant("an output computed twice", "clip", _kernels(lambda k: (*k, replace(k[0], name="again"))), "IllFormed"),
    CaseMutant("a program that reads beyond its input", "transpose",
               lambda c: replace(c, traced=_program(c.traced, shifted("x", 1))), "in-bounds/x"),
    CaseMutant("a program that reads before its input", "clip",
               lambda c: replace(c, traced=_program(c.traced, shifted("x", -1))), "in-bounds/x"),
    CaseMutant("an output that is not the traced one", "clip",
               lambda c: replace(c, traced=replace(c.traced, outputs=())), "IllFormed"),
    CaseMutant("two sizes of one name", "transpose",
               lambda c: replace(c, traced=replace(c.traced, sizes=(*c.traced.sizes, c.traced.sizes[0]))), "IllFormed"),
    CaseMutant("a size with the prover's own name", "clip",
               lambda c: replace(c, traced=replace(c.traced, sizes=(*c.traced.sizes, Size(".0")))), "IllFormed"),
)  # fmt: skip


def _less(steps: list[Step]) -> list[Step]:
    """Without the first step on the output's definition: what it substituted is not there for the next one."""
    place = next(k for k, s in enumerate(steps) if s.tensor == _output(steps))
    return [*steps[:place], *steps[place + 1 :]]


def _output(steps: list[Step]) -> str:
    return steps[0].tensor if not steps else next(s.tensor for s in reversed(steps) if s.rule != "drop")


def _program(program: Program, edit: Callable[[Term], Term | None]) -> Program:
    for place, d in enumerate(program.defs):
        new = first(d.value, edit)
        if new is not None:
            return replace(program, defs=(*program.defs[:place], replace(d, value=new), *program.defs[place + 1 :]))
    raise NoSuchPlace("no such read")
