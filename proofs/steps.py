"""Rewriting steps of a program, and what each rule obliges.

A step replaces the subterm at a path of one definition. The checker finds `before` there itself, gathers what holds at
that place (axes, guards, conditions of selects above), and proves `after` equal to it by the rule named:

    substitute   t[e]  ->  the value of t at e                       e within t's shape; the same term
    pointwise    a  ->  b                                            a = b for all reads and folds (Z3)
    distribute   ⊕_j H(f_j)  <->  H(⊕_j f_j)                         lemma `extend` without a rest
    reindex      ⊕_{x∈X} f  ->  ⊕_{y∈Y} g                            lemma `reindex`, identity padding included
    split        ⊕_E g  <->  H(⊕_D f) ⊕ r                            lemma `extend`
    tuple        ⊕_j f_j  ->  component k of ⊕_j (…, f_j, …)         a product monoid, component by component
    gather       ⊕_v (v = e ? f(v) : id)  <->  (0 <= e < V ? f(e) : id)
    rename       a  ->  a with bound axes renamed
    finite       a  ->  a, a whole definition: what it never is for any inputs (nan, infinite, negative, zero) is shown, as
                 far as it can be, and relied on from here on
    recall       the value of t at e  ->  t[e]                       the other way round
    define       (a new definition, in front of another)
    drop         (a definition that nothing reads)
    gradient, tangent                                                see gradient.py

While a derivative with respect to t is still to be written out, t is a variable of its own: nothing is substituted for
its elements, and no element is recalled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tang_verified.proofs.equality import Equality, Scope
from tang_verified.proofs.gradient import gradient, held, tangent, watched
from tang_verified.proofs.ledger import Ledger, show
from tang_verified.proofs.slopes import keeps_slope
from tang_verified.semantics.build import canonical, conj
from tang_verified.semantics.meaning import Kind
from tang_verified.semantics.program import Def, Program, Tensor, check_program
from tang_verified.semantics.terms import (
    TRUE,
    Axis,
    Const,
    Fold,
    Gradient,
    IllFormed,
    Op,
    Read,
    Sym,
    Tangent,
    Term,
    Var,
    alpha,
    at_path,
    children,
    free_vars,
    mentions,
    monoids,
    put_path,
    rename_apart,
    sort_of,
    substitute,
)  # fmt: skip
from tang_verified.semantics.wellformed import check_term


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a rule. `note` is for the reader; the checker does not look at it.

    `new` is the definition that `define` puts in front of `tensor`; `invariants` is the witness of a gradient or tangent.
    """

    rule: str
    tensor: str
    path: tuple[int, ...]
    before: Term | None
    after: Term | None
    note: str = ""
    new: Def | None = None
    invariants: tuple[tuple[str, tuple[tuple[str, tuple[Term, ...]], ...]], ...] = ()


def check_step(ledger: Ledger, program: Program, step: Step, number: int = 0) -> Program:
    """The program after the step, every obligation discharged; else `Refused` or `IllFormed`. `number` is for the reader."""
    ledger.place = f"step {number}/{step.tensor}/{step.rule}"
    if (step.new is not None and step.rule != "define") or (step.invariants and step.rule not in ("gradient", "tangent")):
        raise IllFormed(f"a step of rule {step.rule} takes no new definition and no invariants")
    if step.rule == "drop":
        return _drop(ledger, program, step)
    if step.rule == "define":
        return _define(ledger, program, step)
    if step.before is None or step.after is None:
        raise IllFormed(f"a step of rule {step.rule} needs before and after")
    if step.rule not in (*RULES, "gradient", "tangent"):
        raise IllFormed(f"unknown rule {step.rule!r}")
    check_term(step.after, ledger.place, sort_of(step.before))
    d = program.definition(step.tensor)
    here = at_path(d.value, step.path)
    if here != step.before:
        raise ledger.refuse(f"{step.rule}/before", f"found {show(here)}, the step says {show(step.before)}", "disproved")
    loose = free_vars(step.after) - free_vars(step.before) - set(_bound(program, d, step.path))
    if loose:
        raise ledger.refuse(f"{step.rule}/variables", f"{sorted(loose)} are not bound here", "disproved")
    scope = scope_at(ledger, program, d, step.path)
    Equality(ledger).reachable(f"{step.rule}/reachable", scope)
    if (step.rule in ("gradient", "tangent")) != isinstance(d.value, (Gradient, Tangent)):
        raise ledger.refuse(f"{step.rule}/before", f"{show(d.value)} does not follow this rule", "disproved")
    if held(program) and step.rule not in SAME_DERIVATIVE and not keeps_slope(
        step.rule, step.before, step.after, scope.facts
    ):  # fmt: skip
        raise ledger.refuse(f"{step.rule}/smooth", "a derivative is still to be written out, and here is a kink or a pole")
    equality = Equality(ledger, slopes=isinstance(d.value, (Gradient, Tangent)) and watched(program, step.tensor))
    if step.rule == "gradient":
        gradient(equality, program, d, step.after, scope, dict(step.invariants))
    elif step.rule == "tangent":
        tangent(equality, program, d, step.after, scope, dict(step.invariants))
    else:
        RULES[step.rule](equality, program, step.before, step.after, scope)
    if step.rule == "finite":
        if step.path:
            raise ledger.refuse("finite/whole", "only a whole definition can be remembered as finite", "disproved")
        ledger.never[step.tensor] = _kind(equality, step.before, scope)
    result = follow(program, step)
    check_program(result)
    return result


def _bound(program: Program, d: Def, path: tuple[int, ...]) -> list[str]:
    names = [size.name for size in program.sizes] + list(d.axes)
    term = d.value
    for number in path:
        if isinstance(term, Fold):
            k = len(term.axes)
            names += [axis.name for axis in term.axes[: number if number < k else k]]
        term = children(term)[number]
    return names


def scope_at(ledger: Ledger, program: Program, d: Def, path: tuple[int, ...]) -> Scope:
    """What holds at a path: ranges of the axes around it, guards of folds, conditions of selects."""
    scope = Scope(ledger.base).over(tuple(Axis(n, e) for n, e in zip(d.axes, d.tensor.shape, strict=True)))
    taken = {size.name for size in program.sizes} | set(d.axes)
    term = d.value
    for number in path:
        scope = enter(ledger, term, number, scope, taken)
        term = children(term)[number]
    return scope


def enter(ledger: Ledger, term: Term, number: int, scope: Scope, taken: set[str]) -> Scope:
    """The scope of child `number` of a term. Names bound on the way are added to `taken`."""
    match term:
        case Op("select", (c, _, _)) if number == 1:
            return scope.given(c)
        case Op("select", (c, _, _)) if number == 2:
            return scope.given(canonical(Op("not", (c,))))
        case Fold(_, axes, guard, _, _):
            inner = axes[: min(number, len(axes))]
            for axis in inner:
                if axis.name in taken:
                    raise ledger.refuse("rename/shadow", f"axis {axis.name} is bound twice on one path; rename it first")
                taken.add(axis.name)
            return scope.over(inner, guard if number > len(axes) else TRUE)
        case _:
            return scope


def check_bounds(ledger: Ledger, program: Program) -> None:
    """Every read of every definition lies within its tensor, under the conditions above it."""
    for d in program.defs:
        ledger.place = f"program/{d.tensor.name}"
        start = Scope(ledger.base).over(tuple(Axis(n, e) for n, e in zip(d.axes, d.tensor.shape, strict=True)))
        seen: set[tuple[Term, Scope]] = set()

        def visit(term: Term, scope: Scope, taken: frozenset[str], seen: set[tuple[Term, Scope]] = seen) -> None:
            if (term, scope) in seen:
                return
            seen.add((term, scope))
            if isinstance(term, Read):
                within(ledger, f"in-bounds/{term.tensor}", program.tensor(term.tensor), term.index, scope)
            if isinstance(term, Fold) and any(axis.name in taken for axis in term.axes):
                term = rename_apart(term, taken)
            for number, part in enumerate(children(term)):
                names = set(taken)
                visit(part, enter(ledger, term, number, scope, names), frozenset(names))

        visit(d.value, start, frozenset({s.name for s in program.sizes} | set(d.axes)))


def within(ledger: Ledger, name: str, tensor: Tensor, index: tuple[Term, ...], scope: Scope) -> None:
    for i, extent in zip(index, tensor.shape, strict=True):
        ledger.holds(name, scope.facts, conj(Op("le", (Const(0), i)), Op("lt", (i, extent))))


def check_finite(ledger: Ledger, program: Program, names: tuple[str, ...]) -> None:
    """Remember what these definitions never are, for all inputs; kernels that read them may rely on it."""
    equality = Equality(ledger)
    for name in names:
        d = program.definition(name)
        ledger.place = f"program/{name}"
        scope = Scope(ledger.base).over(tuple(Axis(n, e) for n, e in zip(d.axes, d.tensor.shape, strict=True)))
        kind = equality.kind("value/never", d.value, scope)
        if kind is not None:
            ledger.never[name] = kind


# -- rules ----------------------------------------------------------------------------------------------------------


def _substitute(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    ledger = equality.ledger
    if not isinstance(before, Read):
        raise ledger.refuse("substitute/read", f"{show(before)} is not an element of a definition", "disproved")
    value = _value(ledger, "substitute", program, before, scope)
    if alpha(canonical(value)) != alpha(canonical(after)):
        raise ledger.refuse("substitute/same", f"{show(after)} is not the value {show(value)}", "disproved")
    ledger.record("substitute/same", "structure", show(after))


def _recall(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    ledger = equality.ledger
    if not isinstance(after, Read):
        raise ledger.refuse("recall/read", f"{show(after)} is not an element of a definition", "disproved")
    value = _value(ledger, "recall", program, after, scope)
    if alpha(canonical(value)) != alpha(canonical(before)):
        raise ledger.refuse("recall/same", f"{show(before)} is not the value {show(value)}", "disproved")
    ledger.record("recall/same", "structure", show(value))


def _value(ledger: Ledger, rule: str, program: Program, read: Read, scope: Scope) -> Term:
    """The value of a definition's element, which lies within it."""
    d = program.definition(read.tensor)
    if isinstance(d.value, (Gradient, Tangent)):
        raise ledger.refuse(f"{rule}/written-out", f"{read.tensor} is a derivative that has not been written out yet")
    if read.tensor in held(program):
        raise ledger.refuse(f"{rule}/variable", f"{read.tensor} is what a derivative varies: it counts as a variable")
    within(ledger, f"{rule}/in-bounds", d.tensor, read.index, scope)
    return substitute(d.value, dict(zip(d.axes, read.index, strict=True)))


def _pointwise(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    equality.pointwise("pointwise", before, after, scope)


def _distribute(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    whole, other = (before, after) if isinstance(before, Fold) else (after, before)
    if not isinstance(whole, Fold):
        raise equality.ledger.refuse("distribute/fold", "neither side is a fold", "disproved")
    equality.extend("distribute", other, whole, scope)


def _reindex(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    if not isinstance(before, Fold) or not isinstance(after, Fold):
        raise equality.ledger.refuse("reindex/fold", "both sides must be folds", "disproved")
    equality.either("reindex", before, after, scope)


def _tuple(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    ledger = equality.ledger
    if not isinstance(before, Fold) or not isinstance(after, Fold) or len(before.body) != 1:
        raise ledger.refuse("tuple/fold", "both sides must be folds, the first of one field", "disproved")
    equality.monoids.laws(after.monoid)
    k = after.component
    names = {f"a{k}": Sym("a0", sort_of(before)), f"b{k}": Sym("b0", sort_of(before))}
    if _syms(after.monoid.combine[k]) - names.keys():
        raise ledger.refuse("tuple/component", f"field {k} of {after.monoid.name} depends on other fields", "disproved")
    combine = _rename_syms(after.monoid.combine[k], names)
    alone = Fold(before.monoid, after.axes, after.guard, (after.body[k],))
    if combine != before.monoid.combine[0] or after.monoid.identity[k] != before.monoid.identity[0]:
        raise ledger.refuse("tuple/component", f"field {k} of {after.monoid.name} is not {before.monoid.name}", "disproved")
    if alpha(canonical(alone)) != alpha(canonical(before)):
        raise ledger.refuse("tuple/same", f"field {k} folds {show(alone)}, not {show(before)}", "disproved")
    ledger.record("tuple/same", "structure", show(before))


def _syms(term: Term) -> set[str]:
    return {term.name} if isinstance(term, Sym) else set().union(*(_syms(part) for part in children(term)))


def _rename_syms(term: Term, names: dict[str, Sym]) -> Term:
    from tang_verified.semantics.terms import rebuild

    if isinstance(term, Sym):
        return names.get(term.name, term)
    return rebuild(term, tuple(_rename_syms(part, names) for part in children(term))) if children(term) else term


def _gather(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    """At most one v equals e, and every other element is the identity: the fold is its one element, or the identity."""
    fold, other = (before, after) if isinstance(before, Fold) else (after, before)
    ledger = equality.ledger
    match fold:
        case Fold(monoid, (Axis(v, extent),), guard, (Op("select", (Op("eq", (a, b)), f, identity)),), 0) if (
            identity == monoid.identity[0] and (a == Var(v) or b == Var(v))
        ):
            e = b if a == Var(v) else a
        case _:
            raise ledger.refuse("gather/one-hot", f"{show(fold)} is no one-hot reduction", "disproved")
    if v in free_vars(e):
        raise ledger.refuse("gather/one-hot", f"the index {show(e)} depends on {v}", "disproved")
    equality.monoids.laws(monoid)
    inside = conj(Op("le", (Const(0), e)), Op("lt", (e, extent)), substitute(guard, {v: e}))
    want = Op("select", (inside, substitute(f, {v: e}), identity))
    if alpha(canonical(want)) != alpha(canonical(other)):
        raise ledger.refuse("gather/same", f"{show(other)} is not {show(want)}", "disproved")
    ledger.record("gather/same", "structure", show(want))


def _rename(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    if alpha(canonical(before)) != alpha(canonical(after)):
        raise equality.ledger.refuse("rename/same", f"{show(after)} is not {show(before)} renamed", "disproved")
    equality.ledger.record("rename/same", "structure", show(after))


def _finite(equality: Equality, program: Program, before: Term, after: Term, scope: Scope) -> None:
    ledger = equality.ledger
    if before != after:
        raise ledger.refuse("finite/same", f"{show(after)} is not {show(before)}", "disproved")


def _kind(equality: Equality, term: Term, scope: Scope) -> Kind:
    kind = equality.kind("finite/value", term, scope)
    if kind is None:
        raise equality.ledger.refuse("finite/value", f"of {show(term)} nothing is shown: it may be nan")
    return kind


def _drop(ledger: Ledger, program: Program, step: Step) -> Program:
    if step.path or step.before is not None or step.after is not None:
        raise IllFormed(f"dropping {step.tensor} takes no path, before or after")
    d = program.definition(step.tensor)
    users = [x.tensor.name for x in program.defs if step.tensor in mentions(x.value)]
    if users or step.tensor in program.outputs:
        raise ledger.refuse("drop/unused", f"{step.tensor} is an output or is read by {users}", "disproved")
    ledger.record("drop/unused", "structure", step.tensor)
    return replace(program, defs=tuple(x for x in program.defs if x is not d))


def _define(ledger: Ledger, program: Program, step: Step) -> Program:
    if step.new is None or step.path or step.before is not None or step.after is not None:
        raise IllFormed("a step of rule define needs the definition, and takes no path, before or after")
    if step.new.tensor.name in ledger.names:
        raise ledger.refuse("define/name", f"{step.new.tensor.name} was a definition before", "disproved")
    result = follow(program, step)
    check_program(result)
    ledger.names.add(step.new.tensor.name)
    facts = Equality(ledger).monoids
    for monoid in monoids(step.new.value):
        facts.meaningful(monoid)
    ledger.record("define/new", "structure", show(step.new.value))
    return result


def follow(program: Program, step: Step) -> Program:
    """The program that a step leads to, by its shape alone: nothing is proved here."""
    d = program.definition(step.tensor)
    if step.rule == "drop":
        return replace(program, defs=tuple(x for x in program.defs if x is not d))
    if step.rule == "define" and step.new is not None:
        place = program.defs.index(d)
        return replace(program, defs=(*program.defs[:place], step.new, *program.defs[place:]))
    if step.before is None or step.after is None or at_path(d.value, step.path) != step.before:
        raise IllFormed(f"{step.tensor}: what the step names as before does not stand at its path")
    value = put_path(d.value, step.path, step.after)
    return replace(program, defs=tuple(Def(x.tensor, x.axes, value) if x is d else x for x in program.defs))


SAME_DERIVATIVE = ("substitute", "recall", "rename", "finite", "gradient", "tangent")  # definitions and names alone
RULES = {
    "substitute": _substitute,
    "recall": _recall,
    "pointwise": _pointwise,
    "distribute": _distribute,
    "split": _distribute,
    "reindex": _reindex,
    "tuple": _tuple,
    "gather": _gather,
    "rename": _rename,
    "finite": _finite,
}
