"""∂(Σ⟨w, y⟩)/∂x of a program  ->  definitions that compute it, by checked steps. Reverse mode; nothing is known of operators.

    1. open      the definitions between x and y become small: each fold a definition of its own, bodies scalar
    2. define    t_grad := ∂(Σ⟨w, y⟩)/∂t for every t between, the last first
    3. write out from x to y, each as the sum of what its readers give (rule `gradient`); an index equation
                 i·s + r = k is solved for an axis, so that sums run over what is left
    4. recall    what the forward program has computed already: exp(s − m), p / l, a product's value

A maximum that the outputs do not depend on (softmax's) is left out, by the rule of invariance: tried for every definition
that is a maximum or minimum. Tangents are written out alike, from what they read (rule `tangent`); where one end of all
paths does not depend on a maximum, its tangent is that of its value with what lies between written in, the maximum at rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tang_verified.passes.policy import materialised
from tang_verified.passes.recall import matched, recall
from tang_verified.passes.rename import tidy
from tang_verified.passes.rule import Derivation, Note
from tang_verified.passes.simplify import Simplifier, written_in
from tang_verified.passes.solve import solved
from tang_verified.proofs.equality import Equality
from tang_verified.proofs.gradient import Invariance, consumers, held, leaves, live, names_at, primed, shares, written
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.steps import Step
from tang_verified.semantics.derivative import slope
from tang_verified.semantics.program import SORTS, Def, DType, Program, Tensor
from tang_verified.semantics.terms import (
    MAX,
    MIN,
    REAL_ZERO,
    Axis,
    Fold,
    Gradient,
    IllFormed,
    Op,
    Read,
    Tangent,
    Term,
    Var,
    bound_names,
    children,
    free_vars,
    mentions,
    reads,
    replace_reads,
    sort_of,
    substitute,
)  # fmt: skip

Ends = tuple[tuple[str, tuple[Term, ...]], ...]


def write_out(derivation: Derivation) -> None:
    """Replace every derivative of the program, those that others depend on first."""
    for name in [d.tensor.name for d in derivation.program.defs if d.tensor.name in held(derivation.program)]:
        remember(derivation, name)  # copies of the arguments: as finite as these
    while (first := next((d for d in derivation.program.defs if isinstance(d.value, (Gradient, Tangent))), None)) is not None:
        if isinstance(first.value, Gradient):
            Reverse(derivation, first.value.outputs, first.tensor.name).run()
        elif isinstance(first.value, Tangent):
            forward(derivation, first, first.value)
        if isinstance(derivation.program.definition(first.tensor.name).value, (Gradient, Tangent)):
            return  # the checker refused: certification will say so


def remember(derivation: Derivation, name: str) -> None:
    """Let what reads a definition rely on what it never is."""
    value = derivation.value(name)
    derivation.take(Step("finite", name, (), value, value, "finite"))


def between(program: Program, sources: Iterable[str], outputs: Iterable[str]) -> list[str]:
    """The real definitions on paths from the sources to the outputs, in order, the outputs among them."""
    alive, reached = live(program, frozenset(outputs)), set(sources)
    out = []
    for d in program.defs:
        name = d.tensor.name
        if name in alive and SORTS[d.tensor.dtype] == "real" and mentions(d.value) & reached:
            reached.add(name)
            out.append(name)
    return out


# -- reverse mode ---------------------------------------------------------------------------------------------------


class Reverse:
    """All gradients of one weighted sum of outputs."""

    def __init__(self, derivation: Derivation, outputs: tuple[tuple[str, str], ...], first: str) -> None:
        self.derivation, self.outputs, self.first = derivation, outputs, first
        self.invariants: dict[str, Ends] = {}

    @property
    def program(self) -> Program:
        return self.derivation.program

    def run(self) -> None:
        asked = [d.value for d in self.program.defs if isinstance(d.value, Gradient)]
        sources = [value.source for value in asked if value.outputs == self.outputs]
        open_folds(self.derivation, self._between(sources))
        inner = self._between(sources)
        for name in inner:
            if name not in sources and is_extreme(self.program, name):
                self._try_invariance(name)
        needed = [name for name in inner if name not in self.invariants]
        made = []
        for name in reversed(needed):
            if name not in sources:
                self._define(name)
                made.append(name)
        pending = [d for d in self.program.defs if isinstance(d.value, Gradient)]
        targets = [d.tensor.name for d in pending if d.value.outputs == self.outputs]  # type: ignore[union-attr]
        if all(self._write(name) for name in (*sources, *reversed(made))):  # from x to y
            for name in targets:
                recall(self.derivation, name, inner)

    def _between(self, sources: Sequence[str]) -> list[str]:
        return between(self.program, sources, [y for y, _ in self.outputs])

    def _define(self, name: str) -> None:
        tensor = self.program.tensor(name)
        d = self.program.definition(name)
        new = fresh(self.program, f"{name}_grad")
        value = Gradient(self.outputs, name)
        added = Def(Tensor(new, tensor.dtype, tensor.shape), d.axes, value)
        self.derivation.take(Step("define", self.first, (), None, None, f"∂/∂{name}", added))

    def _write(self, source: str) -> bool:
        """The rule `gradient` for each definition that asks for this gradient."""
        wanted = Gradient(self.outputs, source)
        done = True
        for d in [d for d in self.program.defs if d.value == wanted]:
            parts: list[Term] = [Read(w, tuple(map(Var, d.axes)), "real") for y, w in self.outputs if y == source]
            used = []
            for user in consumers(self.program, wanted):
                name = user.tensor.name
                if SORTS[user.tensor.dtype] != "real":
                    continue
                if name in self.invariants:
                    used.append((name, self.invariants[name]))
                    continue
                cotangent = next((x.tensor.name for x in self.program.defs if x.value == Gradient(self.outputs, name)), None)
                if cotangent is not None:
                    parts += shares(user, source, cotangent, d.axes, names_at(self.program, d))
            after = total([solved(part, d) for part in parts])
            step = Step("gradient", d.tensor.name, (), d.value, after, f"∂/∂{source}", None, tuple(used))
            plain = Step("gradient", d.tensor.name, (), d.value, total(parts), f"∂/∂{source}", None, tuple(used))
            done = (self.derivation.take(step) or self.derivation.take(plain)) and done
        return done

    def _try_invariance(self, name: str) -> None:
        """Remember the nearest ends for which the checker shows it, if any; what is refused leaves nothing behind."""
        outputs = frozenset(y for y, _ in self.outputs)
        for ends, path in ends_of(self.program, name, outputs):
            witness = tuple((g, tuple(changed(self.program, name, g, path))) for g in ends)
            if shows(self.derivation, name, outputs, witness):
                self.invariants[name] = witness
                return


# -- invariance -----------------------------------------------------------------------------------------------------


def is_extreme(program: Program, name: str) -> bool:
    value = program.definition(name).value
    return isinstance(value, Fold) and value.monoid in (MAX, MIN)


def shows(derivation: Derivation, name: str, outputs: frozenset[str], witness: Ends) -> bool:
    """Whether the checker sees that the outputs do not depend on a definition."""
    ledger, program = derivation.ledger, derivation.program
    try:
        with ledger.trial():
            Invariance(Equality(ledger), program, program.definition(name), outputs).show(dict(witness))
        return True
    except (Refused, IllFormed) as problem:
        derivation.notes.append(_note(name, problem))
        return False


def ends_of(program: Program, name: str, outputs: frozenset[str]) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Sets of definitions that every path meets, the nearest first, and what lies before them."""
    alive = live(program, outputs)
    between: set[str] = {name}
    order = [d.tensor.name for d in program.defs if d.tensor.name in alive]
    for _ in range(8):
        ends = [
            d.tensor.name for d in program.defs
            if d.tensor.name in alive and d.tensor.name not in between and mentions(d.value) & between
        ]  # fmt: skip
        if not ends:
            return
        yield tuple(ends), frozenset(between - {name})
        inner = [end for end in ends if end not in outputs]
        if not inner:
            return
        between.add(min(inner, key=order.index))


def changed(program: Program, name: str, g: str, inside: frozenset[str]) -> Iterator[Term]:
    """exp(m − m')·F(m) for each fold F of g that changes with m, where g has those inside written in."""
    value, other = written(program, program.definition(g).value, inside), primed(name)
    there = replace_reads(value, name, lambda index: Read(other, index, "real"))
    for fold in leaves(there, other):
        at = next(read.index for read in reads(fold) if read.tensor == other)
        here = replace_reads(fold, other, lambda index: Read(name, index, "real"))
        difference = Op("sub", (Read(name, at, "real"), Read(other, at, "real")))
        yield Op("mul", (here, Op("exp", (difference,))))


def _note(name: str, problem: Exception) -> Note:
    return Note(Step("gradient", name, (), None, None, "invariance"), "invariance", str(problem))


def total(parts: Sequence[Term]) -> Term:
    """((a + b) + c); nothing is 0."""
    if not parts:
        return REAL_ZERO
    out = parts[0]
    for part in parts[1:]:
        out = Op("add", (out, part))
    return out


def fresh(program: Program, stem: str) -> str:
    """A name that the program does not use."""
    taken = {s.name for s in program.sizes} | {t.name for t in program.inputs} | {d.tensor.name for d in program.defs}
    taken |= {axis for d in program.defs for axis in (*d.axes, *bound_names(d.value))}
    name, number = stem[:56], 0
    while name in taken:
        number += 1
        name = f"{stem[:56]}_{number}"
    return name


# -- opening --------------------------------------------------------------------------------------------------------


def open_folds(derivation: Derivation, names: Sequence[str]) -> None:
    """Simplify the definitions named, one by one, then make each fold in them a definition of its own."""
    kept = materialised(derivation.program) | held(derivation.program)
    program = derivation.program
    kept |= {name for d in program.defs if isinstance(d.value, (Gradient, Tangent)) for name in mentions(d.value)}
    simplifier = Simplifier(derivation)
    order = [d.tensor.name for d in derivation.program.defs]
    needed = live(derivation.program, frozenset(names))
    for name in order:
        if name in needed and not isinstance(derivation.program.definition(name).value, (Gradient, Tangent)):
            written_in(simplifier, name, kept)
    for name in names:
        if name in kept:
            _open(derivation, name)
            simplifier.simplify(name)  # what no longer holds a kink may be factored
            _open(derivation, name)


def _open(derivation: Derivation, name: str) -> None:
    """Inner folds first; a fold met before is recalled. One that reads within its tensors only under a condition stays."""
    stay: set[Fold] = set()
    while True:
        d = derivation.program.definition(name)
        found = next((found for found in _closed_folds(d) if found[1] not in stay), None)
        if found is None:
            return
        path, fold, axes = found
        known = _known(derivation.program, d, fold)
        if known is None:
            stem = fresh(derivation.program, f"{name}_{fold.monoid.name}")
            tensor = Tensor(stem, _dtype(derivation.program, d, fold), tuple(a.extent for a in axes))
            own = tidy(fold, {s.name for s in derivation.program.sizes} | {a.name for a in axes})
            new = Def(tensor, tuple(a.name for a in axes), own)
            if not derivation.take_all([Step("define", name, (), None, None, "open", new)], moves_reads=True):
                stay.add(fold)
                continue
            known = Read(stem, tuple(Var(a.name) for a in axes), sort_of(fold))
        if not derivation.rewrite("recall", name, path, known, "open"):
            return


def _closed_folds(d: Def) -> Iterator[tuple[tuple[int, ...], Fold, tuple[Axis, ...]]]:
    """Folds without folds inside, other than d's whole value, with the axes that they depend on."""
    outer = [Axis(n, e) for n, e in zip(d.axes, d.tensor.shape, strict=True)]

    def walk(term: Term, path: tuple[int, ...], axes: list[Axis]) -> Iterator[tuple[tuple[int, ...], Fold, tuple[Axis, ...]]]:
        inside = axes + list(term.axes) if isinstance(term, Fold) else axes
        for number, part in enumerate(children(term)):
            yield from walk(part, (*path, number), inside)
        if isinstance(term, Fold) and path and sort_of(term) == "real":
            used = tuple(axis for axis in axes if axis.name in free_vars(term))
            names = {axis.name for axis in axes}
            if not any(free_vars(axis.extent) & names for axis in used):
                yield path, term, used

    yield from walk(d.value, (), outer)


def _known(program: Program, d: Def, fold: Fold) -> Read | None:
    """An element of an earlier definition that is this fold."""
    for other in program.defs:
        if other.tensor.name == d.tensor.name:
            return None
        if not isinstance(other.value, Fold) or len(free_vars(other.value)) != len(free_vars(fold)):
            continue
        names = matched(other.value, fold, other.axes)
        if names is not None:
            return Read(other.tensor.name, tuple(names[axis] for axis in other.axes), sort_of(fold))
    return None


def _dtype(program: Program, d: Def, fold: Fold) -> DType:
    wide = {program.tensor(r.tensor).dtype for r in reads(fold)} | {d.tensor.dtype}
    return "float64" if "float64" in wide else "float32"


# -- forward mode ---------------------------------------------------------------------------------------------------


def forward(derivation: Derivation, first: Def, wanted: Tangent) -> None:
    """Define the tangents of all that the output is computed from, in order, and write each out, the last first."""
    tangents = dict(wanted.along)
    names = between(derivation.program, tangents, [wanted.tensor])
    still: dict[str, dict[str, Ends]] = {}  # y -> the extremes that it does not depend on
    inside: dict[str, frozenset[str]] = {}  # y -> what lies between these and it
    for name in names:
        if is_extreme(derivation.program, name) and name not in tangents:
            for end, path in _single_ends(derivation, name, wanted.tensor):
                still.setdefault(end, {})[name] = ((end, tuple(changed(derivation.program, name, end, path))),)
                inside[end] = inside.get(end, frozenset()) | path
    values = {y: written(derivation.program, derivation.value(y), inside.get(y, frozenset())) for y in names}
    needed = {wanted.tensor}
    for name in reversed(names):
        if name in needed and name not in tangents:
            needed |= mentions(values[name]) - set(still.get(name, ()))
    for name in names:
        if name == wanted.tensor or name not in needed:
            continue
        d = derivation.program.definition(name)
        value = Tangent(d.tensor.name, wanted.along)
        existing = next((x.tensor.name for x in derivation.program.defs if x.value == value), None)
        if existing is None:
            existing = fresh(derivation.program, f"{d.tensor.name}_dot")
            new = Def(Tensor(existing, d.tensor.dtype, d.tensor.shape), d.axes, value)
            derivation.take(Step("define", first.tensor.name, (), None, None, f"∂{d.tensor.name}", new))
        tangents[d.tensor.name] = existing
    pending = [d for d in derivation.program.defs if isinstance(d.value, Tangent) and d.value.along == wanted.along]
    for d in reversed(pending):
        of = d.value.tensor  # type: ignore[union-attr]
        fixed = still.get(of, {})
        known = {name: tensor for name, tensor in tangents.items() if name not in fixed}
        after = _tangent(derivation.program, d, known, inside.get(of, frozenset()))
        derivation.take(Step("tangent", d.tensor.name, (), d.value, after, f"∂{of}", None, tuple(fixed.items())))


def _single_ends(derivation: Derivation, name: str, output: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The nearest definition through which all paths go, and that does not depend on `name`, if there is one."""
    for ends, path in ends_of(derivation.program, name, frozenset((output,))):
        witness = ((ends[0], tuple(changed(derivation.program, name, ends[0], path))),)
        if len(ends) == 1 and path and shows(derivation, name, frozenset(ends), witness):
            yield ends[0], path
            return


def _tangent(program: Program, d: Def, tangents: Mapping[str, str], inside: frozenset[str]) -> Term:
    name, moving = d.value.tensor, dict(d.value.along)  # type: ignore[union-attr]
    if name in moving:
        return Read(moving[name], tuple(map(Var, d.axes)), "real")
    if name in {t.name for t in program.inputs}:
        return REAL_ZERO
    user = program.definition(name)
    taken = names_at(program, d)

    def of(read: Read) -> Term:
        return Read(tangents[read.tensor], read.index, "real") if read.tensor in tangents else REAL_ZERO

    value = slope(written(program, user.value, inside), of, taken | set(user.axes))
    return substitute(value, dict(zip(user.axes, map(Var, d.axes), strict=True)))
