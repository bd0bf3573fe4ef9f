"""Integer sets: the meaning of index conditions in isl, for every size at once.

    facts 0 <= t, t < floor((n+3)/4), 4t + c < n   become   [c, n, t] -> { : 0 <= t and t < floor((n + 3)/4) and … }

All variables, sizes included, are isl parameters of a set without dimensions: a claim holds when a set is empty, or when
one set lies within the projection of another. Texts are made here from terms with names of our own choosing; nothing that
a user or a file wrote reaches isl's parser. What is not quasi-affine (an element of an index array, a product of two
sizes) is an opaque parameter when asked for: it then stands for *any* integer, which only makes a claim stronger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import islpy as isl

from tang_verified.semantics.build import linear
from tang_verified.semantics.terms import Const, Op, Term, Var, free_vars, sort_of

BUDGET = 50_000_000  # isl's own operations a question, some seconds; the verdict does not depend on the machine


class NotAffine(ValueError):
    """A term that is not quasi-affine where only such terms have a meaning."""


class Unanswered(NotAffine):
    """A question on which isl spent its budget, or failed."""


@contextmanager
def budget() -> Iterator[None]:
    """isl stops, and says so, when a question takes more than `BUDGET` operations."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(BUDGET)
    try:
        yield
    except isl.Error as problem:
        raise Unanswered(f"isl gives no answer: {str(problem).splitlines()[0]}") from None
    finally:
        context.set_max_operations(0)


class Writer:
    """Spells terms as isl text, with one numbered name a variable or opaque term."""

    def __init__(self, *, opaque: bool) -> None:
        self.opaque = opaque
        self.names: dict[Term, str] = {}

    def name(self, term: Term) -> str:
        return self.names.setdefault(term, f"x{len(self.names)}")

    def integer(self, term: Term) -> str:
        parts, constant = linear(term)
        pieces = [f"{c} * {self.atom(atom)}" for atom, c in parts.items()] + [str(constant)]
        return "(" + " + ".join(pieces) + ")"

    def atom(self, term: Term) -> str:
        match term:
            case Var():
                return self.name(term)
            case Op("floordiv", (a, Const(d))) if isinstance(d, int) and d > 0:
                return f"floor({self.integer(a)} / {d})"
            case Op("mod", (a, Const(d))) if isinstance(d, int) and d > 0:
                return f"({self.integer(a)} mod {d})"
            case Op("max" | "min" as name, (a, b)):
                return f"{name}({self.integer(a)}, {self.integer(b)})"
            case _:
                if self.opaque and sort_of(term) == "int":
                    return self.name(term)
                raise NotAffine(f"not quasi-affine: {type(term).__name__} {getattr(term, 'name', '')}")

    def condition(self, term: Term) -> str:
        match term:
            case Const(value) if isinstance(value, bool):
                return "0 = 0" if value else "0 = 1"
            case Op("and" | "or" as name, (a, b)):
                return f"(({self.condition(a)}) {name} ({self.condition(b)}))"
            case Op("not", (a,)):
                return f"(not ({self.condition(a)}))"
            case Op("lt" | "le" | "eq" | "ne" as name, (a, b)) if sort_of(a) == "int":
                sign = {"lt": "<", "le": "<=", "eq": "=", "ne": "!="}[name]
                return f"{self.integer(a)} {sign} {self.integer(b)}"
            case Op("select", (c, a, b)):
                c_text, a_text, b_text = self.condition(c), self.condition(a), self.condition(b)
                return f"((({c_text}) and ({a_text})) or ((not ({c_text})) and ({b_text})))"
            case _:
                raise NotAffine(f"no affine condition: {type(term).__name__} {getattr(term, 'name', '')}")


def is_affine(condition: Term, *, opaque: bool = False) -> bool:
    """Whether a condition is a Boolean combination of quasi-affine comparisons (of opaque integers too, if asked)."""
    try:
        Writer(opaque=opaque).condition(condition)
    except NotAffine:
        return False
    return True


def _usable(facts: Iterable[Term], writer: Writer) -> list[str]:
    """The affine facts as text. Others are left out: fewer hypotheses can only make a claim harder to prove."""
    out = []
    for fact in facts:
        before = dict(writer.names)
        try:
            out.append(writer.condition(fact))
        except NotAffine:
            writer.names = before
    return out


def usable(facts: Iterable[Term]) -> list[Term]:
    """The facts that `implies` does not leave out."""
    return [fact for fact in facts if is_affine(fact, opaque=True)]


def implies(facts: Sequence[Term], goal: Term) -> bool:
    """Whether `goal` holds for all integers that satisfy the affine ones among `facts`. Raises `NotAffine` on the goal."""
    writer = Writer(opaque=True)
    negated = f"not ({writer.condition(goal)})"
    return _is_empty(set_text(writer, (), [*_usable(facts, writer), negated]))


def witness(facts: Sequence[Term], goal: Term) -> dict[str, int]:
    """Integers that satisfy the affine facts and not the goal (empty when there are none), by variable name."""
    writer = Writer(opaque=True)
    negated = f"not ({writer.condition(goal)})"
    texts = [*_usable(facts, writer), negated]
    out = {}
    with budget():
        point = parameter_set(writer, (), texts).sample_point()
        if point.is_void():
            return {}
        for position, term in enumerate(writer.names):
            value = point.get_coordinate_val(isl.dim_type.param, position)
            out[term.name if isinstance(term, Var) else "an index read from data"] = int(value.to_python())
    return out


def covers(facts: Sequence[Term], parts: Sequence[tuple[tuple[str, ...], Sequence[Term]]]) -> bool:
    """Whether for all integers satisfying `facts` some part has values of its own variables with all its conditions.

    Here every fact and condition must be affine (`NotAffine` otherwise): leaving one out would weaken the claim.
    """
    writer = Writer(opaque=False)
    for fact in facts:
        writer.condition(fact)
    for names, conditions in parts:  # name what is free in any part once, so that all parts mean the same by it
        for name in sorted(frozenset().union(*(free_vars(c) for c in conditions)) - set(names)):
            writer.name(Var(name))
    for names, _ in parts:
        if any(Var(name) in writer.names for name in names):
            raise ValueError(f"a part binds {names}, of which one is free outside")
    images = []
    for names, conditions in parts:
        inner = Writer(opaque=False)
        inner.names = dict(writer.names)
        texts = [inner.condition(condition) for condition in conditions]
        bound = [inner.name(Var(name)) for name in names]
        images.append((set_text(inner, bound, texts), bool(bound)))
    return _covered(set_text(writer, (), [writer.condition(fact) for fact in facts]), tuple(images))


# A text is asked about once: the same claims come again for each backend, and a pass's steps again when they are certified.


@lru_cache(maxsize=1 << 14)
def _is_empty(text: str) -> bool:
    with budget():
        return bool(isl.Set(text).is_empty())


@lru_cache(maxsize=1 << 12)
def _covered(text: str, parts: tuple[tuple[str, bool], ...]) -> bool:
    """Whether the set lies in the union of the parts' projections on the parameters (of those that have dimensions)."""
    with budget():
        given, union = isl.Set(text), None
        for part, bound in parts:
            image = _project(isl.Set(part)) if bound else isl.Set(part)
            union = image if union is None else union.union(image)
        return bool(given.is_empty()) if union is None else bool(given.is_subset(union))


def parameter_set(writer: Writer, dims: Sequence[str], texts: Sequence[str]) -> isl.Set:
    return isl.Set(set_text(writer, dims, texts))


def set_text(writer: Writer, dims: Sequence[str], texts: Sequence[str]) -> str:
    names = ", ".join(name for name in writer.names.values() if name not in dims)
    body = " and ".join(f"({text})" for text in texts) or "0 = 0"
    return f"[{names}] -> {{ [{', '.join(dims)}] : {body} }}"


def _project(full: isl.Set) -> isl.Set:
    """The parameters for which the set is not empty, as a set without dimensions."""
    return isl.Set.from_params(full.params())
