"""Run a hand-written kernel through the C backend, and through a plain interpreter of the kernel language.

Arrays lie against pages that may not be touched, so that no access outside an array goes unseen, not even one whose
value is then thrown away.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.c.runtime import load_kernel
from tang_verified.backends.printer import print_kernel
from tang_verified.proofs.readback import read_back
from tang_verified.semantics.build import canonical, iadd, imul, integer, lt, op, var
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, For, Kernel, Loop
from tang_verified.semantics.program import Def, DType, Program, Size, Tensor, check_program
from tang_verified.semantics.terms import (
    ADD,
    FALSE,
    TRUE,
    ZERO,
    Axis,
    Const,
    Fold,
    Op,
    Read,
    Sym,
    Term,
    Var,
    children,
    rebuild,
    substitute,
)  # fmt: skip

Array = np.ndarray


def R(tensor: str, *index: Term, sort: str = "real") -> Read:
    return Read(tensor, tuple(index), sort)  # type: ignore[arg-type]


def axis(name: str, extent: int | Term, kind: str) -> Loop:
    return Loop(Axis(name, integer(extent) if isinstance(extent, int) else extent), kind)  # type: ignore[arg-type]


def for_(name: str, extent: int | Term, kind: str, *body: object) -> For:
    return For(Axis(name, integer(extent) if isinstance(extent, int) else extent), kind, tuple(body))  # type: ignore[arg-type]


def kernel(
    sizes: Sequence[str],
    inputs: dict[str, tuple[DType, Sequence[Term]]],
    outputs: dict[str, tuple[DType, Sequence[Term]]],
    *body: object,
) -> Kernel:
    """A kernel whose program's definitions are placeholders: the C backend does not look at them."""
    blank: dict[str, Term] = {"float16": Const(Fraction(0)), "float32": Const(Fraction(0)), "float64": Const(Fraction(0)),
                              "int32": ZERO, "int64": ZERO, "bool": FALSE}  # fmt: skip
    program = Program(
        "test", tuple(Size(name) for name in sizes),
        tuple(Tensor(name, dtype, tuple(shape)) for name, (dtype, shape) in inputs.items()),
        tuple(Def(Tensor(name, dtype, tuple(shape)), tuple(f"x{k}" for k in range(len(shape))), blank[dtype])
              for name, (dtype, shape) in outputs.items()),
        tuple(outputs),
    )  # fmt: skip
    check_program(program)
    return Kernel("run_test", program, tuple(inputs), tuple(outputs), body)  # type: ignore[arg-type]


def guarded(array: Array, at_end: bool) -> Array:
    """A copy of the array against a page that may not be touched: behind its end, or before its start."""
    page = mmap.PAGESIZE
    room = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for edge in (start, start + page + room):
        if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(page), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = page + (room - array.nbytes if at_end else 0)
    inner = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    inner[...] = array
    return inner


def run_c(k: Kernel, sizes: Sequence[int], *inputs: Array) -> list[Array]:
    """The outputs. A read or write outside an array kills the process (pytest then prints where)."""
    source = print_kernel(k, CDialect())
    assert source == print_kernel(k, CDialect()), "the text must be the same every time"
    assert (found := read_back(k, source)) is None, found
    function = load_kernel(k, source)
    values: dict[str, Term] = {size.name: Const(n) for size, n in zip(k.program.sizes, sizes, strict=True)}
    outputs = []
    for name in k.outputs:
        tensor = k.program.tensor(name)
        shape = [int(canonical(substitute(e, values)).value) for e in tensor.shape]  # type: ignore[union-attr]
        outputs.append(np.zeros(shape, tensor.dtype))
        if tensor.dtype.startswith("float"):
            outputs[-1].fill(np.nan)
    results = []
    for at_end in (True, False):
        arrays = [guarded(a, at_end) for a in (*inputs, *outputs)]
        function(sizes, arrays)
        for array, given in zip(arrays, inputs, strict=False):
            np.testing.assert_array_equal(array, given, "an input was written")
        results.append([array.copy() for array in arrays[len(inputs) :]])
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second, "the result depends on where the arrays lie")
    return results[0]


# The interpreter: Python floats and ints, one cell at a time


def interpret(k: Kernel, sizes: Sequence[int], *inputs: Array) -> list[Array]:
    env: dict[str, int] = {size.name: n for size, n in zip(k.program.sizes, sizes, strict=True)}
    cells: dict[str, Array] = {name: array.astype(object) for name, array in zip(k.reads, inputs, strict=True)}
    for name in k.outputs:
        tensor = k.program.tensor(name)
        cells[name] = np.full([evaluate(e, env, cells) for e in tensor.shape], None, object)
    _block(k.body, env, cells)
    return [cells[name].astype(np.float64) for name in k.outputs]


def _block(body: Sequence[object], env: dict[str, int], cells: dict[str, Array]) -> None:
    for stmt in body:
        match stmt:
            case Alloc(Buffer(name, _, shape, _)):
                cells[name] = np.full([evaluate(e, env, cells) for e in shape], None, object)
            case For(Axis(name, extent), _, inner):
                for n in range(evaluate(extent, env, cells)):
                    _block(inner, {**env, name: n}, cells)
            case Assign(loops, target, index, value, guard):
                found = {}
                for here in _points([loop.axis for loop in loops], env, cells):
                    if evaluate(guard, here, cells):
                        found[tuple(evaluate(e, here, cells) for e in index)] = evaluate(value, here, cells)
                for place, result in found.items():
                    assert all(0 <= n < m for n, m in zip(place, cells[target].shape, strict=True)), "write out of bounds"
                    cells[target][place] = result


def _points(axes: Sequence[Axis], env: dict[str, int], cells: dict[str, Array]) -> Iterator[dict[str, int]]:
    if not axes:
        yield env
        return
    for n in range(evaluate(axes[0].extent, env, cells)):
        yield from _points(axes[1:], {**env, axes[0].name: n}, cells)


def evaluate(term: Term, env: dict[str, int], cells: dict[str, Array]):  # type: ignore[no-untyped-def]
    match term:
        case Var(name):
            return env[name]
        case Const(value):
            return float(value) if isinstance(value, (str, Fraction)) else value
        case Op("select", (c, a, b)):
            return evaluate(a if evaluate(c, env, cells) else b, env, cells)
        case Op("and", (a, b)):
            return evaluate(a, env, cells) and evaluate(b, env, cells)
        case Op("or", (a, b)):
            return evaluate(a, env, cells) or evaluate(b, env, cells)
        case Op(name, args):
            return _operate(name, *(evaluate(a, env, cells) for a in args))
        case Read(tensor, index, _):
            place = tuple(evaluate(e, env, cells) for e in index)
            assert all(0 <= n < m for n, m in zip(place, cells[tensor].shape, strict=True)), f"{tensor}{place} out of bounds"
            assert cells[tensor][place] is not None, f"{tensor}{place} was never written"
            return cells[tensor][place]
        case Fold(monoid, axes, guard, body, component):
            state = [evaluate(e, env, cells) for e in monoid.identity]
            for here in _points(axes, env, cells):
                if evaluate(guard, here, cells):
                    new = [evaluate(e, here, cells) for e in body]
                    values = {f"a{k}": v for k, v in enumerate(state)} | {f"b{k}": v for k, v in enumerate(new)}
                    state = [evaluate(_filled(e, values), env, cells) for e in monoid.combine]
            return state[component]
    raise TypeError(term)


class _Given(Const):
    """A value of the interpreter as a term."""

    __slots__ = ()

    def __post_init__(self) -> None:
        pass


def _filled(term: Term, values: dict[str, object]) -> Term:
    if isinstance(term, Sym):
        value = values[term.name]
        if isinstance(value, float):
            return Const(Fraction(value)) if math.isfinite(value) else Const(str(value).replace("nan", "nan"))
        return Const(value)  # type: ignore[arg-type]
    return rebuild(term, tuple(_filled(p, values) for p in children(term)))


def _operate(name: str, *a):  # type: ignore[no-untyped-def]
    if name in ("max", "min"):
        return math.nan if any(v != v for v in a) else max(a) if name == "max" else min(a)
    simple = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "neg": lambda x: -x, "abs": abs,
        "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
        "not": lambda x: not x, "floordiv": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
        "real": float, "int": int, "trunc": int,
        "div0": lambda x, y: 0.0 if y == 0 else x / y,
        "sub0": lambda x, y: -math.inf if x == y == -math.inf else x - y,
        "exp": lambda x: float(np.exp(np.float64(x))), "tanh": math.tanh,
        "div": lambda x, y: float(np.float64(x) / np.float64(y)),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        return simple[name](*a)


def close(got: Array, want: Array, tolerance: float = 1e-5) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance)


__all__ = [
    "ADD", "FALSE", "TRUE", "Alloc", "Array", "Assign", "Axis", "Buffer", "Const", "Fold", "For", "Kernel", "Loop", "Op", "R",
    "Read", "Term", "Var", "axis", "canonical", "close", "for_", "iadd", "imul", "integer", "interpret", "kernel", "lt", "op",
    "product", "run_c", "var",
]  # fmt: skip
