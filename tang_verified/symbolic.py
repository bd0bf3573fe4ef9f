"""Symbolic scalar expressions: differentiated, simplified by proved steps, evaluated, and printed by every backend.

    x, y = tv.expr("x y")                          symbols
    f = tv.expr(lambda x, y: np.exp(x) * y)        or a function, traced
    f.diff("x")   f.simplify()   f(x=1.0, y=2.0)   f.source("wgsl")

Variables stand for finite reals. A derivative is that of `semantics/derivative.py`. A simplification is a step of the
checker's rule `pointwise`: `passes/algebra.py` proposes, Z3 proves, and what is not proved is not done.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tang_verified.dual import Dual
from tang_verified.errors import CompileError, DTypeError, Place, TraceError
from tang_verified.numeric import function, slope_in
from tang_verified.semantics.program import SORTS, Def, DType, Program, Tensor
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import (
    REAL_ZERO,
    Const,
    Op,
    Read,
    Sym,
    Term,
    at_path,
    children,
    fill,
    reads,
    rebuild,
    sort_of,
)  # fmt: skip
from tang_verified.tracing.array import Scalar
from tang_verified.tracing.operators import Operators

if TYPE_CHECKING:
    from tang_verified.compiler import CompiledKernel
    from tang_verified.proofs.ledger import Obligation
    from tang_verified.proofs.steps import Step

RESULT = "out"


@dataclass(frozen=True, slots=True)
class Proof:
    """Why one expression equals another: steps, each a part replaced by an equal one, and what the checker discharged."""

    start: Term
    given: Term | None  # it is assumed to hold
    steps: tuple[Step, ...]
    obligations: tuple[Obligation, ...]
    axioms: tuple[str, ...]

    def __str__(self) -> str:
        lines = [show(self.start) + (f"   where {show(self.given)}" if self.given is not None else "")]
        for number, step in enumerate(self.steps, 1):
            own = [o for o in self.obligations if o.place.startswith(f"step {number}/")]
            lines.append(f"step {number}: {step.note or 'stated'}")
            lines += [f"  {word}  {show(term)}" for word, term in (("before", step.before), ("after ", step.after)) if term]
            lines += [f"  proved  {o.name} ({o.prover})" for o in own]
        lines += [f"axiom {name}: {text}" for name, text in _axioms(self.axioms)]
        return "\n".join(lines)


class Expr(Scalar):
    """A scalar expression in named variables; operators and NumPy's functions make further ones. See `expr`."""

    def __init__(
        self, term: Term, dtype: DType = "float64", order: tuple[str, ...] | None = None, proof: Proof | None = None
    ) -> None:  # fmt: skip
        super().__init__(term, dtype, None)
        self.names: tuple[str, ...] = tuple(sorted(_names(term))) if order is None else order
        self.proof = proof

    def like(self, term: Term, dtype: DType, weak: bool) -> Expr:
        return Expr(term, dtype)

    def __repr__(self) -> str:
        return show(self.term)

    # Mathematics

    def diff(self, *variables: str | Expr) -> Expr:
        """The derivative in a variable, and of that in the next. Values at ties and poles: `semantics/derivative.py`.

        >>> expr(lambda x: x * x * x).diff("x", "x").simplify()
        6 · x
        """
        out = self.term
        for variable in variables:
            name = str(variable)
            if name not in self.names:
                raise TraceError(f"diff: {self} has no variable {name!r}", f"it has {', '.join(self.names) or 'none'}")
            out = slope_in(self._real(out), Sym(name, "real"))
        return Expr(out, "float64", self.names)

    def simplify(self, given: Expr | None = None) -> Expr:
        """An expression that costs less, by proved steps (`.proof`); this one where nothing better is proved.

        `given`: a condition that may be assumed. The result equals this one where it holds.

        >>> x, y = expr("x y")
        >>> (np.exp(x) * np.exp(y) + 0 * x).simplify()
        exp(x + y)
        >>> np.sqrt(x * x).simplify(), np.sqrt(x * x).simplify(given=x > 0)
        (abs(x), x)
        """
        from tang_verified.passes.algebra import Quick, simplify
        from tang_verified.passes.rule import Derivation
        from tang_verified.proofs.ledger import Refused

        program, path = self._program(given)
        derivation = Derivation(program, Quick(program))
        simplify(derivation, RESULT, path)
        steps = tuple(derivation.steps)
        while True:
            try:
                return self._after(program, path, steps, given)
            except Refused:  # the checker's own answer counts, whatever was answered before
                if not steps:
                    raise
                steps = steps[:-1]

    def rewrite(self, other: Any, given: Expr | None = None) -> Expr:
        """This expression as `other`, if the checker proves them equal (where `given` holds); else `CompileError`.

        >>> x, y = expr("x y")
        >>> ((x + y) * (x - y)).rewrite(x * x - y * y)
        x · x − y · y
        """
        from tang_verified.proofs.ledger import Refused
        from tang_verified.proofs.steps import Step

        program, path = self._program(given)
        step = Step("pointwise", RESULT, path, _reads(self.term), _reads(_term(other, self.dtype_name)))
        try:
            return self._after(program, path, (step,), given)
        except Refused as refusal:
            raise CompileError(
                f"{self} is not rewritten to {other}: {refusal.verdict}: {refusal.why}",
                "see whether they differ where a value is infinite or nan; `given` may exclude it",
            ) from refusal

    def _after(self, program: Program, path: tuple[int, ...], steps: tuple[Step, ...], given: Expr | None) -> Expr:
        """The result of steps once the checker has proved them on a ledger of its own."""
        from tang_verified.proofs.ledger import Ledger
        from tang_verified.proofs.steps import check_step

        ledger, at = Ledger(program), program
        for number, step in enumerate(steps, 1):
            at = check_step(ledger, at, step, number)
        ledger.ground()
        proof = Proof(
            self.term, None if given is None else given.term, steps, tuple(ledger.obligations), tuple(sorted(ledger.axioms))
        )
        return Expr(_symbols(at_path(at.definition(RESULT).value, path)), self.dtype_name, self.names, proof)

    def _program(self, given: Expr | None) -> tuple[Program, tuple[int, ...]]:
        """out = this expression, a program of scalars; or (given ? this : 0), and the path to it."""
        value, path = _reads(self.term), tuple[int, ...]()
        names = dict.fromkeys(self.names)
        if given is not None:
            if given.dtype_name != "bool":
                raise DTypeError(f"given: {given} is no condition", "compare, as in x > 0")
            nothing: Term = REAL_ZERO if sort_of(value) == "real" else Const(False)
            value, path = Op("select", (_reads(given.term), value, nothing)), (1,)
            names |= dict.fromkeys(given.names)
        inputs = tuple(Tensor(name, "float64", ()) for name in names)
        return Program("expression", (), inputs, (Def(Tensor(RESULT, self.dtype_name, ()), (), value),), (RESULT,)), path

    @staticmethod
    def _real(term: Term) -> Term:
        if sort_of(term) != "real":
            raise DTypeError(f"diff: {show(term)} is no real number", "only real expressions have a derivative")
        return term

    # Numbers

    def __call__(self, *values: Any, **named: Any) -> Any:
        """The value at numbers, arrays or Duals, in the order of `names` or by name; an expression or traced array of such.

        >>> expr(lambda x, y: np.exp(x) * y)(0.0, y=np.array([1.0, 2.0]))
        array([1., 2.])
        """
        given = dict(zip(self.names, values, strict=False)) | named
        wrong = [name for name in self.names if name not in given] or [name for name in named if name not in self.names]
        if wrong or len(values) + len(named) != len(self.names):
            takes, got = ", ".join(self.names) or "no values", ", ".join(given) or "none"
            raise TraceError(f"{self} takes {takes}, got {got}", "give each variable one value")
        own = [given[name] for name in self.names]
        if any(isinstance(value, Operators) for value in own):
            return self._elementwise(self.term, own)
        if any(isinstance(value, Dual) for value in own):
            return self._functions["nested"](*own)
        if all(isinstance(value, (float, int)) for value in own):
            try:
                return self._functions["float"](*map(float, own))
            except (ArithmeticError, ValueError):
                pass  # a pole: the tables say what comes out
        with np.errstate(all="ignore"):
            arrays = [np.asarray(value, dtype=float) if isinstance(value, (list, int)) else value for value in own]
            out = self._functions["array"](*arrays)
        return out if np.ndim(out) else np.asarray(out).item()

    def _elementwise(self, term: Term, operands: Sequence[Any]) -> Any:
        from tang_verified.tracing.pointwise import elementwise

        result = None if SORTS[self.dtype_name] == "real" else self.dtype_name

        def put(*parts: Term) -> Term:
            return fill(term, dict(zip(self.names, parts, strict=True)))

        return elementwise(RESULT, "real", put, tuple(operands), result)

    @cached_property
    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        return {kind: function(self.term, self.names, kind) for kind in ("float", "array", "nested")}

    # Kernels

    def compile(self, backend: str = "c", dtype: str = "float32", name: str = "expression") -> CompiledKernel:
        """The elementwise kernel of this expression over arrays of one length, one for each name of `names` in that order.

        Certified as every kernel is. If this came of `simplify()` or `rewrite` without `given`, the certificate begins with
        the expression that it was, and holds those steps too.
        """
        from tang_verified.compiler import compile_steps
        from tang_verified.spec import spec

        if not self.names:
            raise CompileError(f"{self} has no variable, so a kernel has no array to take", "it is a number: call it")
        start = self.term if self.proof is None or self.proof.given is not None else self.proof.start

        def fn(*arrays: Any) -> Any:
            made = self._elementwise(start, arrays)
            made.tracing.places[made.tensor.name] = Place("", 0, f"{name} = {self}")  # not the caller's `kernel = …`
            return made

        parameters = [inspect.Parameter(own, inspect.Parameter.POSITIONAL_OR_KEYWORD) for own in self.names]
        fn.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        size = next(free for free in ("n", "size", "extent") if free not in self.names)
        specs = {own: spec(size, dtype) for own in self.names}
        return compile_steps(fn, specs, backend, name, self._steps_on)

    def _steps_on(self, program: Program) -> tuple[Step, ...]:
        """The steps of this expression's proof, on the program of its kernel: reads of scalars are reads of elements."""
        if self.proof is None or self.proof.given is not None:
            return ()
        d = program.definition(program.outputs[0])
        elements = {read.tensor: read for read in reads(d.value)}
        return tuple(
            replace(step, tensor=d.tensor.name, before=_elements(step.before, elements), after=_elements(step.after, elements))
            for step in self.proof.steps
        )

    def source(self, backend: str = "c", dtype: str = "float32", name: str = "expression") -> str:
        """The certified text of this expression's elementwise kernel in a backend's language.

        >>> x = expr("x")
        >>> "exp(" in (x * np.exp(-x)).source("opencl")
        True
        """
        return self.compile(backend, dtype, name).source


def expr(what: str | Callable[..., Any]) -> Any:
    """Symbols by their names, or the expression that a function of numbers computes.

    `expr("x")` is one `Expr`, `expr("x y")` a tuple of them; `expr(f)` is f's expression in its parameters (a tuple of
    expressions if f returns one). Python operators and NumPy's functions make further expressions.

    >>> x, y = expr("x y")
    >>> (x * y + y * x).diff("x").simplify()
    2 · y
    >>> expr(lambda x: np.tanh(x))(0.0)
    0.0
    """
    if isinstance(what, str):
        names = what.replace(",", " ").split()
        for name in names:
            if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
                raise TraceError(f"expr: {name!r} is not a variable's name", "use Python names, as in tv.expr('x y')")
        made = tuple(Expr(Sym(name, "real")) for name in names)
        if not made:
            raise TraceError("expr: no name is given", "as in tv.expr('x y')")
        return made[0] if len(made) == 1 else made
    order = tuple(inspect.signature(what).parameters)
    result = what(*(Expr(Sym(name, "real")) for name in order))
    parts = result if isinstance(result, tuple) else (result,)
    found = tuple(_ordered(part, order) for part in parts)
    return found if isinstance(result, tuple) else found[0]


def _ordered(part: Any, order: tuple[str, ...]) -> Expr:
    dtype: DType = part.dtype_name if isinstance(part, Expr) else "float64"
    return Expr(_term(part, dtype), dtype, order)


def _term(value: Any, dtype: DType) -> Term:
    from tang_verified.tracing.values import lift

    return lift(value, None, "expr").broadcast((), SORTS[dtype])


def _names(term: Term) -> set[str]:
    return {term.name} if isinstance(term, Sym) else set().union(*map(_names, children(term)))


def _reads(term: Term) -> Term:
    """Symbols as elements of scalar arrays."""
    return fill(term, {name: Read(name, (), "real") for name in _names(term)})


def _elements(term: Term | None, elements: Mapping[str, Read]) -> Term | None:
    """Elements of scalar arrays as the elements that a kernel reads."""
    return None if term is None else fill(_symbols(term), dict(elements))


def _symbols(term: Term) -> Term:
    """The other way round."""
    if isinstance(term, Read):
        return Sym(term.tensor, "real")
    parts = children(term)
    return rebuild(term, tuple(map(_symbols, parts))) if parts else term


def _axioms(names: Sequence[str]) -> list[tuple[str, str]]:
    from tang_verified.semantics.meaning import AXIOMS

    return [(name, AXIOMS[name]) for name in names]
