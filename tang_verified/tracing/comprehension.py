"""State a comprehension directly: out[i, j] = finish( ⊕_k body(i, j, k) ).

    comprehension(out="i j", reduce="k", monoid="add", body=lambda i, j, k: a[i, k] * b[k, j])

Indices are scalars: they add, multiply by ints, divide and compare, and a[i, k] reads an element. An axis' extent is read
off the arrays that it indexes alone (a[i, k], not a[i + k]), or given: extents={"k": 3}. `where` bounds the domain by
comparisons of indices; a condition on data goes into the body, as np.where. Where a bounded domain is empty, max and min of
reals are -inf and inf, those of integers 0. On NumPy arrays the value is computed at once (on_numpy.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tang_verified.errors import BoundsError, ConcreteRead, DTypeError, ShapeError, TraceError, UnsupportedError
from tang_verified.semantics.build import canonical
from tang_verified.semantics.program import SORTS, DType
from tang_verified.semantics.terms import (
    ADD,
    ALL,
    ANY,
    INT_ADD,
    INT_MUL,
    MAX,
    MIN,
    MUL,
    ONE,
    TRUE,
    ZERO,
    Axis,
    Fold,
    Monoid,
    Op,
    Read,
    Sort,
    Sym,
    Term,
    Var,
    children,
    reads,
    rebuild,
    sort_of,
)
from tang_verified.tracing.array import Scalar, Traced
from tang_verified.tracing.context import Tracing
from tang_verified.tracing.dtypes import INT_EXTREMES, cast, promote
from tang_verified.tracing.extent import as_term
from tang_verified.tracing.on_numpy import on_numpy
from tang_verified.tracing.sizes import is_affine, is_affine_condition, show, show_shape
from tang_verified.tracing.values import Lifted, lift, tracing_of

NAMED: dict[str, dict[Sort, Monoid]] = {
    "add": {"real": ADD, "int": INT_ADD},
    "mul": {"real": MUL, "int": INT_MUL},
    "max": {"real": MAX, "int": INT_EXTREMES[MAX]},
    "min": {"real": MIN, "int": INT_EXTREMES[MIN]},
    "any": {"bool": ANY},
    "all": {"bool": ALL},
}


def comprehension(
    *, out: str, body: Callable[..., Any], reduce: str = "", monoid: str | Monoid = "add",
    where: Callable[..., Any] | None = None, finish: Callable[..., Any] | None = None,
    extents: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The array with axes `out`; a tuple of arrays, one a field, for a monoid of several fields without `finish`.

    >>> import numpy as np
    >>> a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0])
    >>> comprehension(out="i", reduce="k", body=lambda i, k: a[i, k] * b[k])
    array([12., 34.])
    """
    kept, folded = tuple(out.split()), tuple(reduce.split())
    if len(set(kept + folded)) != len(kept + folded):
        raise ShapeError(f"comprehension: an axis is named twice in out={out!r}, reduce={reduce!r}")

    def stated(body: Callable[..., Any], where: Callable[..., Any] | None) -> Any:
        return _stated(kept, folded, body, monoid, where, finish, dict(extents or {}))

    try:
        return stated(body, where)
    except ConcreteRead:
        result = on_numpy(stated, body, where)
        if result is None:
            raise
        return result


def _stated(
    kept: tuple[str, ...], folded: tuple[str, ...], body: Callable[..., Any], monoid: str | Monoid,
    where: Callable[..., Any] | None, finish: Callable[..., Any] | None, given: dict[str, Any],
) -> Any:  # fmt: skip
    """The comprehension over traced arrays."""
    indices = [Scalar(Var(f"@{name}"), "int64", None, True) for name in kept + folded]
    results = body(*indices)
    fields = list(results) if isinstance(results, tuple) else [results]
    condition = where(*indices) if where is not None else True
    tracing = tracing_of([*fields, condition, *given.values()], "comprehension")
    if tracing is None:
        raise TraceError("comprehension: the body reads no traced array", "read elements of the arguments, as in a[i, k]")
    lifted = [lift(field, tracing, "comprehension") for field in fields]
    guard = lift(condition, tracing, "where").at()
    terms = [part.at() for part in lifted]
    sizes = _extents(tracing, kept + folded, given, [*terms, guard])
    _check_guard(guard)
    box = {f"@{name}": extent for name, extent in sizes.items()}
    for term in terms:
        _check_reads(tracing, term, box, guard)
    states, dtypes = _states(tracing, lifted, monoid, folded, sizes, guard, where is not None)
    if finish is not None:
        ended = finish(*(Scalar(state, dtype, tracing) for state, dtype in zip(states, dtypes, strict=True)))
        last = lift(ended, tracing, "finish")
        states, dtypes = [last.at()], [last.dtype]
    arrays = [_define(tracing, kept, folded, sizes, state, dtype) for state, dtype in zip(states, dtypes, strict=True)]
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def monoid(name: str, *, identity: Any, combine: Callable[[Any, Any], Any], commutative: bool = True) -> Monoid:
    """A monoid from plain functions. Fields are tuples, or single values for one field.

    An identity of 0.0 makes a real field, 0 an integer one, False a bool one. Compiling proves that the identity is one
    on both sides, that combine is associative and, where claimed, commutative; it refuses with values where that fails.

    >>> import numpy as np
    >>> import tang_verified as tv
    >>> affine = tv.monoid(  # of the maps s -> s·x + y: what comes first is applied first
    ...     "affine", identity=(1.0, 0.0), combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), commutative=False
    ... )
    >>> def recurrence(x, y):
    ...     maps = tv.comprehension(out="", reduce="k", monoid=affine, body=lambda k: (x[k], y[k]))
    ...     return maps[1]
    >>> kernel = tv.compile(recurrence, x="n", y="n")
    >>> x, y = np.array([2, 3, 5], "float32"), np.array([1, 1, 1], "float32")
    >>> float(kernel(x, y)), float(recurrence(x, y)), (1.0 * 3 + 1) * 5 + 1
    (21.0, 21.0, 21.0)
    """
    single = not isinstance(identity, tuple)
    values = [lift(value, None, "monoid identity") for value in ((identity,) if single else identity)]
    left = tuple(_placeholder(f"a{number}", value) for number, value in enumerate(values))
    right = tuple(_placeholder(f"b{number}", value) for number, value in enumerate(values))
    result = combine(left[0], right[0]) if single else combine(left, right)
    parts = (result,) if single else tuple(result)
    if len(parts) != len(values):
        raise TraceError(f"monoid {name}: combine gives {len(parts)} fields, identity has {len(values)}")
    combined = [lift(part, None, "monoid combine") for part in parts]
    terms = []
    for number, (value, part) in enumerate(zip(values, combined, strict=True)):
        if part.sort != value.sort and not (part.sort == "int" and value.sort == "real"):
            raise DTypeError(
                f"monoid {name}: field {number} is {value.sort} by its identity and {part.sort} by combine",
                "write 0.0 for a real field, 0 for an integer one, False for a bool one",
            )
        terms.append(cast(part.at(), part.sort, value.sort))
    return Monoid(name, tuple(value.at() for value in values), tuple(terms), commutative)


def _placeholder(name: str, value: Lifted) -> Scalar:
    return Scalar(Sym(name, value.sort), value.dtype, None)


def _states(
    tracing: Tracing, fields: list[Lifted], monoid: str | Monoid, folded: tuple[str, ...], sizes: dict[str, Term],
    guard: Term, guarded: bool,
) -> tuple[list[Term], list[DType]]:  # fmt: skip
    """The final state, one term and dtype a field."""
    dtypes = [promote([(part.dtype, False)], tracing.default_float)[0] for part in fields]
    dtypes = [tracing.default_float if part.weak and part.sort == "real" else d for part, d in zip(fields, dtypes, strict=True)]
    terms = [part.at() for part in fields]
    if not folded:
        if guarded:
            raise UnsupportedError("where without reduce", "use np.where in the body")
        return terms, dtypes
    axes = tuple(Axis(f"@{name}", sizes[name]) for name in folded)
    if isinstance(monoid, str):
        if monoid not in NAMED:
            raise UnsupportedError(f"monoid {monoid!r}", f"use one of {', '.join(NAMED)}, or make one with tv.monoid(...)")
        if len(fields) != 1:
            raise ShapeError(f"comprehension: {len(fields)} fields for the monoid {monoid!r}", "use tv.monoid(...) for a tuple")
        own = fields[0].sort
        sort: Sort = own if own in NAMED[monoid] else "int" if own == "bool" else "real"
        if sort not in NAMED[monoid] or (own != "bool" and sort == "bool"):
            raise DTypeError(f"comprehension: a body of dtype {fields[0].dtype} for the monoid {monoid!r}")
        chosen = NAMED[monoid][sort]
        if monoid in ("max", "min") and not guarded:
            for axis in axes:
                tracing.require(Op("le", (ONE, axis.extent)), f"{monoid} over {axis.name[1:]}, which may be empty")
        body = cast(terms[0], own, sort)
        final = Fold(chosen, axes, guard, (TRUE, body) if len(chosen.identity) == 2 else (body,), len(chosen.identity) - 1)
        dtype: DType = dtypes[0] if own == sort else ("int64" if sort == "int" else tracing.default_float)
        return [final], [dtype]
    sorts = [sort_of(part) for part in monoid.identity]
    if len(sorts) != len(fields):
        raise ShapeError(f"comprehension: {len(fields)} fields for monoid {monoid.name}, which has {len(sorts)}")
    bodies = tuple(cast(term, part.sort, sort) for term, part, sort in zip(terms, fields, sorts, strict=True))
    names: dict[Sort, DType] = {"real": tracing.default_float, "int": "int64", "bool": "bool"}
    kinds = [d if SORTS[d] == sort else names[sort] for d, sort in zip(dtypes, sorts, strict=True)]
    return [Fold(monoid, axes, guard, bodies, number) for number in range(len(sorts))], kinds


def _extents(tracing: Tracing, names: tuple[str, ...], given: dict[str, Any], terms: list[Term]) -> dict[str, Term]:
    """Each axis' extent, as given or as the arrays that it indexes alone have it."""
    strange = [name for name in given if name not in names]
    if strange:
        raise ShapeError(f"comprehension: extents name {strange[0]!r}, which is not an axis of {' '.join(names)}")
    tensors = {t.name: t for t in (*tracing.inputs, *(d.tensor for d in tracing.defs))}
    seen: dict[str, list[tuple[Term, str]]] = {name: [] for name in names}
    for term in terms:
        for read in reads(term):
            tensor = tensors[read.tensor]
            for index, extent in zip(read.index, tensor.shape, strict=True):
                if isinstance(index, Var) and index.name[1:] in seen:
                    seen[index.name[1:]].append((extent, f"{tensor.name} of shape {show_shape(tensor.shape)}"))
    sizes: dict[str, Term] = {}
    for name in names:
        if name in given:
            size = as_term(given[name])
            if size is None:
                raise ShapeError(f"comprehension: extent {given[name]!r} of {name} is not an int or a size")
            tracing.require(Op("le", (ZERO, size)), f"the extent {show(size)} of {name} may be negative")
            sizes[name] = canonical(size)
            continue
        if not seen[name]:
            raise ShapeError(
                f"comprehension: the extent of {name} is not told by any read", f"give it: extents={{{name!r}: x.shape[0]}}"
            )
        first, source = seen[name][0]
        for extent, other in seen[name][1:]:
            if not tracing.same(first, extent):
                raise ShapeError(
                    f"comprehension: {name} indexes {source} and {other}: {show(first)} and {show(extent)} differ",
                    f"give the extent: extents={{{name!r}: ...}}",
                )
        sizes[name] = first
    return sizes


def _check_guard(guard: Term) -> None:
    if guard != TRUE and not is_affine_condition(guard):
        raise UnsupportedError(
            "where: the condition is not made of comparisons of affine indices",
            "put a condition on data into the body: np.where(condition, value, identity)",
        )


def _check_reads(tracing: Tracing, term: Term, box: dict[str, Term], known: Term) -> None:
    """Every read in bounds, under the domain's guard and the affine conditions of the selects above it."""
    if isinstance(term, Op) and term.name == "select":
        test, yes, no = term.args
        _check_reads(tracing, test, box, known)
        if is_affine_condition(test):
            _check_reads(tracing, yes, box, Op("and", (known, test)))
            _check_reads(tracing, no, box, Op("and", (known, Op("not", (test,)))))
            return
        _check_reads(tracing, yes, box, known)
        _check_reads(tracing, no, box, known)
        return
    if isinstance(term, Read):
        tensor = next(t for t in (*tracing.inputs, *(d.tensor for d in tracing.defs)) if t.name == term.tensor)
        for index, extent in zip(term.index, tensor.shape, strict=True):
            if not is_affine(index):
                raise UnsupportedError(
                    f"comprehension: {tensor.name} is read at an index that is data or a product of indices",
                    "gather first, with x[ids] or xp.take, and read the result",
                )
            inside = Op("and", (Op("le", (ZERO, index)), Op("lt", (index, extent))))
            if not tracing.always_over(Op("or", (Op("not", (known,)), inside)), box):
                raise BoundsError(
                    f"comprehension: index {show(index).replace('@', '')} leaves an axis of extent {show(extent)} "
                    f"of {tensor.name}, of shape {show_shape(tensor.shape)}",
                    "shorten an axis with extents=..., bound the domain with where=..., or pad the array",
                )
    for part in children(term):
        _check_reads(tracing, part, box, known)


def _define(
    tracing: Tracing, kept: tuple[str, ...], folded: tuple[str, ...], sizes: dict[str, Term], value: Term, dtype: DType
) -> Traced:
    """The definition, its axes under the user's names where those are free."""
    names = {name: tracing.fresh(name) for name in kept + folded}

    def rename(node: Term) -> Term:
        if isinstance(node, Fold):
            axes = tuple(Axis(names.get(a.name[1:], a.name), rename(a.extent)) for a in node.axes)
            return Fold(node.monoid, axes, rename(node.guard), tuple(rename(b) for b in node.body), node.component)
        if isinstance(node, Var):
            return Var(names.get(node.name[1:], node.name)) if node.name.startswith("@") else node
        return rebuild(node, tuple(rename(part) for part in children(node)))

    shape = tuple(sizes[name] for name in kept)
    return tracing.define("comprehension", dtype, shape, lambda *_: rename(value), axes=tuple(names[name] for name in kept))
