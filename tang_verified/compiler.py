"""compile(fn, q="n d", …)  ->  a kernel that runs, with its certificate.

trace     fn on traced arrays                                    a Program
derive    passes propose steps, each checked as it is proposed   a Program with one definition a kernel
plan      a schedule for each definition                         Kernels
certify   the checker proves the steps and the kernels           a Certified
print     the backend spells the certified kernels               text
load      the backend's runtime                                  something to call
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tang_verified.advice import advice
from tang_verified.arrays import WRITABLE, Memory, kind_of, memory_of
from tang_verified.errors import CompileError, place_of
from tang_verified.semantics.program import ELEMENT_LIMIT, SORTS, Program, Size, Tensor
from tang_verified.semantics.terms import Const, Var
from tang_verified.spec import Spec

if TYPE_CHECKING:
    from tang_verified.proofs.check import Certified
    from tang_verified.tracing.context import Narrowed

Empty = Literal["nan", "zero"]


@dataclass
class Timings:
    """Seconds spent in each stage, for reports and the demo (never part of a certificate)."""

    stages: dict[str, float] = field(default_factory=dict)

    def measure(self, name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start
        return result


class CompiledKernel:
    """A certified program, ready to be called with arrays in the order of the function's parameters."""

    def __init__(
        self, certified: Certified, backend: str, notes: tuple[str, ...], timings: Timings,
        narrowed: Mapping[str, Narrowed] | None = None,
    ) -> None:  # fmt: skip
        from tang_verified.backends import get

        self.certified, self.notes, self.timings = certified, notes, timings
        self._narrowed = dict(narrowed or {})
        self.program, self.backend = certified.program, backend
        self._backend = get(backend)
        self._loaded: dict[int, list[Any]] = {}  # by the GPU that the arrays lie on, -1 for arrays of the host
        self.sources: dict[str, str] = timings.measure("print", lambda: self._backend.emit(certified))

    def _functions(self, device: int) -> list[Any]:
        """The kernels, loaded when they are first called on a device: a text is printed where none runs it."""
        if device not in self._loaded:
            self._loaded[device] = self.timings.measure("load", lambda: self._backend.load(self.certified, self.sources))
        return self._loaded[device]

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

        into = Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        made = []
        title = f"{self.name}.{SUFFIX[self.backend]}" if beside else self.name
        for name, text in {**self.files, f"{title}.cert.json": self.certificate}.items():
            made.append(into / name)
            made[-1].write_text(text)
        return made

    @cached_property
    def certificate(self) -> str:
        """The certificate as JSON text; `audit` re-checks it."""
        from tang_verified.proofs.certificate import write

        return write(self.certified, self.files, self._backend.arithmetic().lines())

    def explain(self) -> str:
        """The derivation, step by step, in notation a person can read."""
        from tang_verified.explain import explain

        return explain(self.certificate)

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
            views = self._bind(memory, arrays)
            if check_finite:
                self._check_finite(views)
            sizes = self._sizes(views)
            self._reached_by_indices(sizes)
            inputs = {name: memory.contiguous(view) for name, view in views.items()}
            made = self._outputs(memory, sizes, given, inputs)
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

    def _bind(self, memory: Memory, arrays: tuple[Any, ...]) -> dict[str, Any]:
        expected = self.program.inputs
        if len(arrays) != len(expected):
            names = ", ".join(t.name for t in expected)
            raise CompileError(f"{self.name} takes {len(expected)} arrays ({names}), got {len(arrays)}")
        out = {}
        for tensor, given in zip(expected, arrays, strict=True):
            array = self._view(memory, tensor.name, given)
            if array.dtype != np.dtype(tensor.dtype):
                other = f", or compile for dtype '{array.dtype}'" if str(array.dtype) in SORTS else ""
                raise CompileError(
                    f"{self.name}: {tensor.name} has dtype {array.dtype}, the spec says {tensor.dtype}",
                    f"pass an array of dtype {tensor.dtype}, as {tensor.name}.astype('{tensor.dtype}') makes one{other}",
                )
            if array.ndim != len(tensor.shape):
                raise CompileError(
                    f"{self.name}: {tensor.name} has shape {array.shape}, the spec says {spell(tensor)}",
                    f"pass an array with {len(tensor.shape)} axes, or compile for another spec",
                )
            out[tensor.name] = array
        return out

    def _view(self, memory: Memory, label: str, array: Any) -> Any:
        try:
            return memory.view(array)
        except (BufferError, RuntimeError, TypeError, ValueError) as problem:
            raise CompileError(f"{self.name}: {label} gives no view of its memory: {problem}") from problem

    def _check_finite(self, inputs: Mapping[str, Any]) -> None:
        for name, array in inputs.items():
            finite = np.isfinite(array)
            if not finite.all():
                index = tuple(int(i) for i in np.unravel_index(int(np.argmin(finite)), array.shape))
                count = int(array.size - np.count_nonzero(finite))
                more = f", the first of {count} such elements" if count > 1 else ""
                at = f"{name}[{', '.join(map(str, index))}]" if index else name
                raise CompileError(
                    f"{self.name}: {at} is {array[index]}{more}; the certificate speaks of finite inputs",
                    "replace it before the call, as np.nan_to_num does, or put a mask into the function with xp.where",
                )

    def _sizes(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        where: dict[str, str] = {}
        for tensor in self.program.inputs:
            for axis, (extent, have) in enumerate(zip(tensor.shape, inputs[tensor.name].shape, strict=True)):
                if isinstance(extent, Const) and extent.value != have:
                    raise CompileError(
                        f"{self.name}: {tensor.name} has shape {inputs[tensor.name].shape}, the spec says {spell(tensor)}",
                        f"axis {axis} must have size {extent.value}",
                    )
                if isinstance(extent, Var):
                    if sizes.setdefault(extent.name, have) != have:
                        raise CompileError(
                            f"{self.name}: size {extent.name} is {sizes[extent.name]} in {where[extent.name]} and {have} "
                            f"in {tensor.name} {inputs[tensor.name].shape}",
                            "one name is one size; give sizes that may differ two names in the specs",
                        )
                    where.setdefault(extent.name, f"{tensor.name} {inputs[tensor.name].shape}")
        for size in self.program.sizes:
            have = sizes.get(size.name)
            if have is None or not size.low <= have <= size.high:
                raise self._outside(size, have)
        return sizes

    def _outside(self, size: Size, have: int | None) -> CompileError:
        """A size that the certificate does not cover: because the code has no meaning there, or was not asked for one."""
        reason = self._narrowed.get(size.name)
        if reason is not None and have is not None and have < size.low:
            where = f" ({reason.place})" if reason.place else ""
            return CompileError(
                f"{self.name}: size {size.name} is {have}, and the code needs {size.name} >= {size.low}: "
                f"below that, {reason.why}{where}",
                f"call it with {size.name} >= {size.low}, treat smaller arrays before the call, "
                "or change that line so that it means something for them",
            )
        wanted = f"{size.name}{'>=' if (have or 0) < size.low else '<='}{have}"
        return CompileError(
            f"{self.name}: size {size.name} is {have}, the certificate covers {size.low} to {size.high}",
            f"declare the range in the spec, as in '{wanted}', if the program has a meaning there",
        )

    def _reached_by_indices(self, sizes: Mapping[str, int]) -> None:
        """Refuse, before anything is copied, what the kernels' index arithmetic was not proved for."""
        from tang_verified.proofs.width import NARROW, NARROW_SIZE

        if all(kernel.machine.index_bits == 64 for kernel in self.certified.kernels):
            return
        remedy = "compile for a backend with 64-bit indices (c, opencl, cuda, metal), or call it part by part"
        for name, size in sizes.items():
            if size > NARROW_SIZE:
                message = f"{name} = {size}; indices of 32 bits are proved up to {NARROW_SIZE}"
                raise CompileError(f"{self.name}: {message}", remedy)
        for tensor in (*self.program.inputs, *(d.tensor for d in self.program.defs)):
            count = prod(shape_of(tensor, sizes))
            if count > NARROW:
                message = f"{tensor.name} has {count} elements; indices of 32 bits reach {NARROW}"
                raise CompileError(f"{self.name}: {message}", remedy)

    def _outputs(
        self, memory: Memory, sizes: Mapping[str, int], given: tuple[Any, ...], inputs: Mapping[str, Any]
    ) -> dict[str, Any]:  # fmt: skip
        """The arrays that the results go to, of the caller's kind: those of `out`, or new ones."""
        if given and len(given) != len(self.program.outputs):
            raise CompileError(f"{self.name} has {len(self.program.outputs)} outputs, out= has {len(given)}")
        made: dict[str, Any] = {}
        taken = dict(inputs)
        for place, name in enumerate(self.program.outputs):
            tensor = self.program.tensor(name)
            shape = shape_of(tensor, sizes)
            if not given:
                made[name] = memory.new(shape, tensor.dtype)
                continue
            if kind_of(given[place]) not in WRITABLE or not hasattr(given[place], "__dlpack__"):
                raise CompileError(f"{self.name}: out is a {type(given[place]).__name__}; nothing can be written into it")
            array = self._view(memory, "out", given[place])
            if array.shape != shape or array.dtype != np.dtype(tensor.dtype) or not array.flags.c_contiguous:
                raise CompileError(
                    f"{self.name}: out has shape {array.shape} and dtype {array.dtype}; needed is a contiguous "
                    f"array of shape {shape} and dtype {tensor.dtype}",
                )
            if isinstance(array, np.ndarray) and not (array.flags.writeable and array.flags.aligned):
                raise CompileError(f"{self.name}: out is {'not aligned' if array.flags.writeable else 'read-only'}")
            for other, there in taken.items():
                if memory.overlap(array, there):
                    raise CompileError(
                        f"{self.name}: out overlaps {other}: a kernel may write before it has read",
                        "give an array of its own, as np.empty_like makes one",
                    )
            made[name], taken[name] = given[place], array
        return made


def shape_of(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    from tang_verified.semantics.evaluate import tensor_shape

    shape = tuple(int(extent) for extent in tensor_shape(tensor, dict(sizes)))
    if prod(shape) > ELEMENT_LIMIT:
        raise CompileError(f"{tensor.name} would have {prod(shape)} elements, more than 2^62")
    return shape


def spell(tensor: Tensor) -> str:
    from tang_verified.semantics.show import show

    return f"({', '.join(show(extent) for extent in tensor.shape)}{',' if len(tensor.shape) == 1 else ''})"


def derive_and_certify(
    program: Program, timings: Timings, *, schedule: Mapping[str, Any] | None = None, backend: str = "c"
) -> tuple[Certified, tuple[str, ...]]:
    """From a traced program to a proved one, and notes on what was tried and refused on the way."""
    from tang_verified.backends import get
    from tang_verified.passes.derive import derive
    from tang_verified.passes.schedule.search import asked_plain, certified_plan

    asked = dict(schedule or {})
    derived = timings.measure("derive", lambda: derive(program, lambda name: asked_plain(asked, name)))
    target = get(backend).target()
    certified, notes = timings.measure("certify", lambda: certified_plan(program, derived, target, asked))
    return certified, (*derived.notes, *notes)


def compile(
    fn: Callable[..., Any], *, backend: str = "c", empty: Empty = "nan", name: str | None = None,
    schedule: Mapping[str, Any] | None = None, **specs: Spec | str,
) -> CompiledKernel:  # fmt: skip
    """Compile plain array code to a certified kernel. Refuses (`CompileError`) what it cannot prove.

    Parameters: `specs`, one for each array parameter, as `tv.spec("n 64")` or the string alone (annotations count too);
    `empty`, what a row without any element gives ("nan" as NumPy, or "zero"); `schedule`, tile sizes by definition.

    >>> import numpy as np
    >>> double = compile(lambda x: x + x, x="n", name="double")
    >>> double(np.array([1.5, 2.0], "float32"))
    array([3., 4.], dtype=float32)
    """
    from tang_verified.backends import REGISTRY
    from tang_verified.proofs.ledger import Refused
    from tang_verified.tracing.tracer import trace_and_reasons

    if backend not in REGISTRY:
        raise CompileError(f"no backend {backend!r}", f"there are: {', '.join(sorted(REGISTRY))}", place_of(fn))
    timings = Timings()
    program, narrowed = timings.measure("trace", lambda: trace_and_reasons(fn, specs, empty=empty, name=name))
    try:
        certified, notes = derive_and_certify(program, timings, schedule=schedule, backend=backend)
    except Refused as refusal:
        raise CompileError(
            f"{program.name} is not compiled: {refusal.obligation} is {refusal.verdict} at {refusal.place}: {refusal.why}",
            advice(refusal),
            place_of(fn),
        ) from refusal
    return CompiledKernel(certified, backend, notes, timings, narrowed)
