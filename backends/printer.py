"""Kernel -> text, for C-like languages. It decides nothing: loops, lanes and buffers are the kernel's.

    for i [grid]: for j [grid]: body       ->   #pragma omp parallel { buffers; #pragma omp for collapse(2) for … for … }
    for r < 4 [unroll]: body               ->   body with r = 0, 1, 2, 3
    alloc b[256, 16] : thread              ->   an array of the worker that runs the grid instance
    alloc acc[4, 16] : register            ->   variables (see storage.py)
    target[…] := value                     ->   see assign.py

Only the outermost grid nest is parallel. Arrays of computed size come from the heap, once a worker if their extents are
known there; the statements after an allocation stand in a block that is skipped when there is no memory.
"""

from __future__ import annotations

from math import prod

from tang_verified.backends.assign import Assigns
from tang_verified.backends.dialect import Dialect, Unsupported
from tang_verified.backends.names import Names
from tang_verified.backends.scopes import Context, Line, Scope, flatten
from tang_verified.backends.storage import Memory, Registers, Variables, settled
from tang_verified.semantics.build import canonical
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, For, Kernel, Stmt
from tang_verified.semantics.program import BYTES, DType
from tang_verified.semantics.terms import Const, Term, Var, free_vars, substitute

STACK_BYTES = 64 * 1024  # for all small private arrays of a function


def print_kernel(kernel: Kernel, dialect: Dialect) -> str:
    """The kernel's source text in the dialect's language."""
    return settled(dialect, lambda registers: _Printer(kernel, dialect, registers).print())


class _Printer(Assigns):
    def __init__(self, kernel: Kernel, dialect: Dialect, registers: Registers) -> None:
        super().__init__(dialect, Names(dialect.reserved), registers)
        self.kernel = kernel
        self.parallel = False  # within the parallel region
        self.stack_bytes = 0
        self.mutable: set[str] = set()
        self.hoisted: dict[Buffer, Memory] = {}  # arrays already allocated for the worker

    def print(self) -> str:
        kernel, program = self.kernel, self.kernel.program
        sizes = [self.names.take(size.name) for size in program.sizes]
        names: dict[str, Term] = {size.name: Var(text) for size, text in zip(program.sizes, sizes, strict=True)}
        arrays: list[tuple[str, DType, bool]] = []
        for name in dict.fromkeys((*kernel.reads, *kernel.outputs)):
            tensor = program.tensor(name)
            place = Memory(self.names.take(name), tensor.dtype, tuple(substitute(e, names) for e in tensor.shape))
            self.storage[name] = place
            arrays.append((place.variable, tensor.dtype, name in kernel.outputs))
        if set(kernel.reads) & set(kernel.outputs):
            raise Unsupported(f"kernel {kernel.name}: an output is listed among the reads")
        body = self.block(kernel.body, names)
        return self.dialect.source(kernel, arrays, sizes, list(flatten(body, 1)))

    def block(self, body: tuple[Stmt, ...], names: dict[str, Term]) -> list[Line]:
        """The statements in order. Buffers are known until the block ends."""
        saved, saved_mutable = dict(self.storage), set(self.mutable)
        lines: list[Line] = []
        for place, stmt in enumerate(body):
            match stmt:
                case Assign():
                    lines += self.assign(stmt, names, frozenset(self.mutable)).lines
                case For():
                    lines += self.for_loop(stmt, names)
                case Alloc():
                    variable = self.alloc(stmt, names, lines)
                    if variable is not None:
                        rest = self.block(body[place + 1 :], names)
                        lines.append((0, f"if ({variable}) {{"))
                        lines += [(level + 1, text) for level, text in rest]
                        lines += [(0, "} else {"), *((1, text) for text in self.dialect.fail(self.parallel)), (0, "}")]
                        lines.append((0, self.dialect.release(variable)))
                        break
                case _:
                    raise Unsupported(f"statement {type(stmt).__name__}")
        self.storage, self.mutable = saved, saved_mutable
        return lines

    # Loops

    def for_loop(self, stmt: For, names: dict[str, Term]) -> list[Line]:
        extent = canonical(substitute(stmt.axis.extent, names))
        if stmt.kind == "unroll":
            if not isinstance(extent, Const) or not isinstance(extent.value, int):
                raise Unsupported(f"unrolled loop {stmt.axis.name!r} needs a constant extent")
            copies = (self.block(stmt.body, {**names, stmt.axis.name: Const(k)}) for k in range(extent.value))
            return [line for copy in copies for line in copy]
        if stmt.kind == "grid" and not self.parallel:
            return self.grid(stmt, names)
        variable = self.names.take(stmt.axis.name)
        if isinstance(extent, Const) and isinstance(extent.value, int):
            self.reach[variable] = extent.value
        body = self.block(stmt.body, {**names, stmt.axis.name: Var(variable)})
        scope = Scope()
        head = self.dialect.loop(variable, self.extent(scope, extent))
        return [*scope.lines, (0, f"{head} {{"), *((level + 1, text) for level, text in body), (0, "}")]

    def grid(self, stmt: For, names: dict[str, Term]) -> list[Line]:
        """The outermost grid nest: one parallel region."""
        nest, body = [stmt], stmt.body
        axes = {stmt.axis.name}
        while (
            len(body) == 1
            and isinstance(inner := body[0], For)
            and inner.kind == "grid"
            and not free_vars(inner.axis.extent) & axes
        ):
            nest.append(inner)
            axes.add(inner.axis.name)
            body = inner.body
        scope = Scope()
        heads = []
        extents = []
        inside = dict(names)
        for loop in nest:
            variable = self.names.take(loop.axis.name)
            extents.append(self.extent(scope, canonical(substitute(loop.axis.extent, names))))
            heads.append(self.dialect.loop(variable, extents[-1]))
            inside[loop.axis.name] = Var(variable)
        self.parallel, kept = True, self.hoisted
        self.hoisted = {}
        arrays: list[Line] = []
        self.worker_arrays(body, names, arrays)
        lines = self.block(body, inside)
        if self.hoisted:
            ready = " && ".join(place.variable for place in self.hoisted.values())
            lines = [(0, f"if ({ready}) {{"), *((level + 1, text) for level, text in lines), (0, "} else {")]
            lines += [*((1, text) for text in self.dialect.fail(True)), (0, "}")]
        region = [*arrays, *((0, text) for text in self.dialect.grid(extents))]
        for depth, head in enumerate(heads):
            region.append((depth, f"{head} {{"))
        region += [(level + len(heads), text) for level, text in lines]
        region += [(depth, "}") for depth in reversed(range(len(heads)))]
        region += [(0, self.dialect.release(place.variable)) for place in self.hoisted.values()]
        self.parallel, self.hoisted = False, kept
        heads = self.dialect.region()
        return [*scope.lines, *((0, text) for text in heads), *((level + 1, text) for level, text in region), (0, "}")]

    def extent(self, scope: Scope, extent: Term) -> str:
        self._safe = {}
        return self.bound(extent, Context(scope)).text

    # Buffers

    def worker_arrays(self, body: tuple[Stmt, ...], names: dict[str, Term], lines: list[Line]) -> None:
        """Allocate the heap arrays of a grid body whose extents depend on nothing inside, once for each worker."""
        for stmt in body:
            if isinstance(stmt, For):
                self.worker_arrays(stmt.body, names, lines)
            elif isinstance(stmt, Alloc) and self.on_heap(stmt.buffer) and stmt.buffer not in self.hoisted:
                if all(free_vars(extent) <= names.keys() for extent in stmt.buffer.shape):
                    self.hoisted[stmt.buffer] = self.heap(stmt.buffer, names, lines)

    def alloc(self, stmt: Alloc, names: dict[str, Term], lines: list[Line]) -> str | None:
        """Declare the buffer; its variable if there may be no memory for it and it must be released after the block."""
        buffer = stmt.buffer
        if stmt.claim is None:
            self.mutable.add(buffer.name)
        else:
            self.mutable.discard(buffer.name)
        if buffer.scope == "register":
            self.registers.declare(buffer.name)
            if self.registers.holds(buffer.name):
                cells = Variables(buffer.name, buffer.dtype, self.registers.width[buffer.name], self.names.take)
                self.storage[buffer.name] = cells
                lines.append((0, cells.slot))
                return None
        if buffer in self.hoisted:
            self.storage[buffer.name] = self.hoisted[buffer]
            return None
        if not self.on_heap(buffer):
            variable = self.names.take(buffer.name)
            extents = tuple(substitute(e, names) for e in buffer.shape)
            self.storage[buffer.name] = Memory(variable, buffer.dtype, extents, own=True)
            self.stack_bytes += _bytes(buffer) or 0
            lines.append((0, self.dialect.private_array(buffer.dtype, variable, (_bytes(buffer) or 0) // BYTES[buffer.dtype])))
            return None
        place = self.heap(buffer, names, lines)
        self.storage[buffer.name] = place
        return place.variable

    def on_heap(self, buffer: Buffer) -> bool:
        if buffer.scope == "register":
            return False
        small = _bytes(buffer)
        return buffer.scope == "global" or not self.parallel or small is None or small + self.stack_bytes > STACK_BYTES

    def heap(self, buffer: Buffer, names: dict[str, Term], lines: list[Line]) -> Memory:
        scope = Scope()
        extents = tuple(substitute(e, names) for e in buffer.shape)
        place = Memory(self.names.take(buffer.name), buffer.dtype, extents, own=True)
        texts = [self.extent(scope, canonical(e)) for e in extents]
        scope.add(self.dialect.heap_array(buffer.dtype, place.variable, texts))
        lines += scope.lines
        return place


def _bytes(buffer: Buffer) -> int | None:
    """The size of a buffer of constant extents."""
    extents = [canonical(e) for e in buffer.shape]
    if not all(isinstance(e, Const) for e in extents):
        return None
    return prod(int(e.value) for e in extents if isinstance(e, Const)) * BYTES[buffer.dtype]
