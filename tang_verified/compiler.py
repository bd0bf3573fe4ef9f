"""compile(fn, q="n d", …)  ->  a kernel that runs, with its certificate.

trace     fn on traced arrays                                    a Program
derive    passes propose steps, each checked as it is proposed   a Program with one definition a kernel
plan      a schedule for each definition                         Kernels
certify   the checker proves the steps and the kernels           a Certified
print     the backend spells the certified kernels               text
read back the text is compared with the certified kernels        text, or back to a simpler plan
load      the backend's runtime                                  something to call
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tang_verified.advice import advice
from tang_verified.arrays import HostMemory, Memory, memory_of
from tang_verified.calling import Signature, shape_of
from tang_verified.errors import CompileError, place_of
from tang_verified.semantics.program import Program
from tang_verified.spec import Spec

if TYPE_CHECKING:
    from tang_verified.proofs.check import Certified
    from tang_verified.proofs.ledger import Verdict
    from tang_verified.proofs.rounding import Bound
    from tang_verified.proofs.steps import Step
    from tang_verified.tracing.context import Narrowed

Empty = Literal["nan", "zero"]
Made = TypeVar("Made")


@dataclass
class Timings:
    """Seconds spent in each stage, for reports and the demo (never part of a certificate)."""

    stages: dict[str, float] = field(default_factory=dict)

    def measure(self, name: str, work: Callable[[], Made]) -> Made:
        """Do the work; what it measures itself does not count twice."""
        before, start = sum(self.stages.values()), time.perf_counter()
        result = work()
        within = sum(self.stages.values()) - before
        self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start - within
        return result


class CompiledKernel:
    """A certified program, ready to be called with arrays in the order of the function's parameters.

    Making one raises `Refused`, at `kernel NAME/text`, where the reader does not find in a text what was certified.
    """

    def __init__(
        self, certified: Certified, backend: str, notes: tuple[str, ...], timings: Timings,
        narrowed: Mapping[str, Narrowed] | None = None,
    ) -> None:  # fmt: skip
        from tang_verified.backends import get

        self.certified, self.notes, self.timings = certified, notes, timings
        self.program, self.backend = certified.program, backend
        bits = min((kernel.machine.index_bits for kernel in certified.kernels), default=64)
        self._signature = Signature(self.name, self.program, dict(narrowed or {}), bits)
        self._backend = get(backend)
        self._loaded: dict[int, list[Any]] = {}  # by the GPU that the arrays lie on, -1 for arrays of the host
        self.sources: dict[str, str] = timings.measure("print", lambda: self._backend.emit(certified))
        timings.measure("read back", self._read_back)

    def _functions(self, device: int) -> list[Any]:
        """The kernels, loaded when they are first called on a device: a text is printed where none runs it."""
        if device not in self._loaded:
            self._loaded[device] = self.timings.measure("load", lambda: self._backend.load(self.certified, self.sources))
        return self._loaded[device]

    def _read_back(self) -> None:
        """No text is handed out that does not say what was certified."""
        from tang_verified.backends import SUFFIX
        from tang_verified.proofs.ledger import Refused
        from tang_verified.proofs.readback import DIALECTS, read_back

        dialect = SUFFIX[self.backend]
        for kernel in self.certified.kernels if dialect in DIALECTS else ():
            found = read_back(kernel, self.sources[kernel.name], dialect)
            if found is not None:
                verdict: Verdict = "unproved" if found.spent else "error"
                raise Refused("text/read-back", f"kernel {kernel.name}/text", verdict, f"not what was certified: {found}")

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def source(self) -> str:
        """The printed text, all kernels of the program one after the other."""
        return "\n".join(self.sources.values())

    @property
    def files(self) -> dict[str, str]:
        """The printed texts by the file names that the certificate knows them by."""
        from tang_verified.backends import SUFFIX

        suffix = SUFFIX[self.backend]
        if len(self.sources) == 1:
            return {f"{self.name}.{suffix}": self.source}
        return {f"{self.name}.{kernel}.{suffix}": text for kernel, text in self.sources.items()}

    def save(self, folder: str | Path, *, beside: bool = False) -> list[Path]:
        """Write the sources and NAME.cert.json into a folder, made if need be; returns the paths, the certificate last.

        `beside`: other backends' texts of this program lie there too, so that the certificate is NAME.SUFFIX.cert.json.
        """
        from tang_verified.backends import SUFFIX

        try:
            into = Path(folder)
            into.mkdir(parents=True, exist_ok=True)
        except (TypeError, FileExistsError, NotADirectoryError) as problem:
            raise CompileError(f"{self.name}: {folder!r} is no folder", "name a folder, which is made if need be") from problem
        made = []
        title = f"{self.name}.{SUFFIX[self.backend]}" if beside else self.name
        for name, text in {**self.files, f"{title}.cert.json": self.certificate}.items():
            made.append(into / name)
            made[-1].write_text(text)
        return made

    @cached_property
    def certificate(self) -> str:
        """The certificate as JSON text; `audit` re-checks it."""
        from tang_verified.passes.traffic import propose
        from tang_verified.proofs.certificate import write

        stated = self._backend.arithmetic()
        claims = {kernel.name: propose(kernel) for kernel in self.certified.kernels}
        return write(self.certified, self.files, stated.lines(), claims, stated.numbers())

    @cached_property
    def _bounds(self) -> tuple[Bound, ...]:
        from tang_verified.rounding import bounds_of

        return bounds_of(self.certified, self._backend.arithmetic().numbers())

    def explain(self) -> str:
        """The derivation, step by step, in notation a person can read."""
        from tang_verified.explain import explain

        return explain(self.certificate)

    def error_bound(self, *arrays: Any) -> Any:
        """For each element of each output, at least |computed − exact|: what rounding may do for these inputs, at most.

        Takes the arrays of a call, on the host. Returns a float64 array of the output's shape, in the output's own units (not
        relative, not units in the last place); a tuple of them for several outputs. `exact` is the function over the reals, on
        the inputs as they are, rounded to their dtype already. inf says that no bound is known there: an intermediate may
        overflow, a divisor, a logarithm's or a root's argument may be 0 within its own error, the exact result is infinite or
        nan; or, for all inputs, that the certificate states none (its `rounding` says why, as `explain` does).

        >>> import numpy as np
        >>> total = compile(lambda x: x.sum(), x="n", name="total")
        >>> x = np.array([0.1, 0.2, 0.3], "float32")
        >>> bool(abs(float(total(x)) - x.astype("float64").sum()) <= total.error_bound(x) < 1e-6)
        True
        """
        from tang_verified.rounding import error_bound

        views = self._signature.views(HostMemory(None, True), arrays)
        sizes = self._signature.sizes(views)
        found = error_bound(self.program, self._bounds, views, sizes)
        return found[0] if len(found) == 1 else found

    def __call__(self, *arrays: Any, out: Any = None, check_finite: bool = False) -> Any:
        """Run. Shapes and dtypes must fit the specs; the result is the caller's kind of array (a tuple for several outputs).

        NumPy arrays, and on the same device those of any library that speaks DLPack. On a GPU the call returns before the
        work is done, which is in the current stream.

        The certificate speaks of finite inputs. `check_finite` refuses others, at the price of one more pass over them.
        """
        given = tuple(out) if isinstance(out, (tuple, list)) else () if out is None else (out,)
        labelled = [(tensor.name, array) for tensor, array in zip(self.program.inputs, arrays, strict=False)]
        memory = memory_of(self.name, self._backend, [*labelled, *(("out", array) for array in given)])
        with memory:
            views = self._signature.views(memory, arrays)
            if check_finite:
                self._signature.check_finite(views)
            sizes = self._signature.sizes(views)
            self._signature.reached_by_indices(sizes)
            inputs = {name: memory.contiguous(view) for name, view in views.items()}
            made = self._signature.outputs(memory, sizes, given, inputs)
            self._run(memory, sizes, inputs, {name: memory.view(array) for name, array in made.items()})
            results = tuple(array if given else memory.give(array) for array in made.values())
        return results[0] if len(results) == 1 else results

    def _run(self, memory: Memory, sizes: Mapping[str, int], inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """All kernels in order. Arrays that are not used in place go to the device once, and the outputs come back."""
        here = memory.in_place
        values = {name: array if here else self._backend.put(array) for name, array in inputs.items()}
        for d in self.program.defs:
            name, shape = d.tensor.name, shape_of(d.tensor, sizes)
            if not here:
                values[name] = self._backend.empty(shape, d.tensor.dtype)
            else:
                values[name] = outputs[name] if name in outputs else memory.view(memory.new(shape, d.tensor.dtype))
        numbers = [sizes[size.name] for size in self.program.sizes]
        for kernel, function in zip(self.certified.kernels, self._functions(memory.number), strict=True):
            function(numbers, [values[name] for name in (*kernel.reads, *kernel.outputs)])
        for name, array in outputs.items():
            if not here and array.size:
                array[...] = self._backend.get(values[name])


def derive_and_certify(
    program: Program, timings: Timings, make: Callable[[Certified, tuple[str, ...]], Made], *,
    schedule: Mapping[str, Any] | None = None, backend: str = "c", first: tuple[Step, ...] = (),
) -> Made:  # fmt: skip
    """From a traced program, by way of the steps `first`, to what `make` makes of a proved one, and of notes on what was
    refused on the way.

    Where it refuses in its turn (`Refused`), a simpler schedule is tried.
    """
    from tang_verified.backends import get
    from tang_verified.passes.derive import derive
    from tang_verified.passes.schedule.search import asked_plain, made_of_plan
    from tang_verified.proofs.steps import follow

    asked = dict(schedule or {})
    start = program
    for step in first:
        start = follow(start, step)
    derived = timings.measure("derive", lambda: derive(start, lambda name: asked_plain(asked, name)))
    derived = replace(derived, steps=(*first, *derived.steps))
    target = get(backend).target()

    def noted(certified: Certified, notes: tuple[str, ...]) -> Made:
        return make(certified, (*derived.notes, *notes))

    return timings.measure("certify", lambda: made_of_plan(program, derived, target, asked, noted))


def compile(
    fn: Callable[..., Any], *, backend: str = "c", empty: Empty = "nan", name: str | None = None,
    schedule: Mapping[str, Any] | Literal["lab"] | None = None, **specs: Spec | str,
) -> CompiledKernel:  # fmt: skip
    """Compile plain array code to a certified kernel. Refuses (`CompileError`) what it cannot prove.

    Parameters: `specs`, one for each array parameter, as `tv.spec("n 64")` or the string alone (annotations count too);
    `empty`, what a row without any element gives ("nan" as NumPy, or "zero"); `schedule`, tile sizes by definition, or
    "lab" for what `tang-verified lab` found fastest on this machine (the default where it found nothing).

    >>> import numpy as np
    >>> double = compile(lambda x: x + x, x="n", name="double")
    >>> double(np.array([1.5, 2.0], "float32"))
    array([3., 4.], dtype=float32)
    """
    return compile_steps(fn, specs, backend, name, empty=empty, schedule=schedule)


def compile_steps(
    fn: Callable[..., Any], specs: Mapping[str, Spec | str], backend: str, name: str | None,
    first: Callable[[Program], tuple[Step, ...]] = lambda program: (), *, empty: Empty = "nan",
    schedule: Mapping[str, Any] | Literal["lab"] | None = None,
) -> CompiledKernel:  # fmt: skip
    """`compile`, beginning with steps that are already known; they are proved like all others."""
    from tang_verified.backends import REGISTRY
    from tang_verified.proofs.ledger import Refused
    from tang_verified.tracing.tracer import trace_and_reasons

    if backend not in REGISTRY:
        raise CompileError(f"no backend {backend!r}", f"there are: {', '.join(sorted(REGISTRY))}", place_of(fn))
    if not isinstance(schedule, (Mapping, NoneType)) and schedule != "lab":
        why = "give a dict of definitions' names, each with a dict of options"
        raise CompileError(f"schedule is a {type(schedule).__name__}", why, place_of(fn))
    timings = Timings()
    program, narrowed = timings.measure("trace", lambda: trace_and_reasons(fn, specs, empty=empty, name=name))
    if schedule == "lab":
        from tang_verified.lab import best

        schedule = best(program, backend)

    def kernel(certified: Certified, notes: tuple[str, ...]) -> CompiledKernel:
        return CompiledKernel(certified, backend, notes, timings, narrowed)

    try:
        return derive_and_certify(program, timings, kernel, schedule=schedule, backend=backend, first=first(program))
    except Refused as refusal:
        raise CompileError(
            f"{program.name} is not compiled: {refusal.obligation} is {refusal.verdict} at {refusal.place}: {refusal.why}",
            advice(refusal),
            place_of(fn),
        ) from refusal
    except RecursionError as problem:
        why = "return a part of the work from one function and go on in another"
        raise CompileError(f"{program.name} is nested too deep to be compiled as a whole", why, place_of(fn)) from problem
