"""How fast a compiled program can possibly run on a device: the largest of several certified terms, kernel by kernel.

    floor = floor_of(kernel.certified.kernels, {"n": 4096, "m": 4096}, device)
    floor.seconds, floor.binding           # no run is faster; which term says so
    attribution(floor, 0.0123, device)     # [("read and written once: DRAM", 0.0101), …, ("unexplained", 0.0004)]

A kernel's floor is the cost of a call (the call returns when the work is done, so it comes on top) and the largest of
    bytes / bandwidth         for each memory, by the theorems of docs/traffic_bounds.md and by what is touched once
    operations / rate         multiplications, additions, all together (semantics/operations.py); an exp counts as the bare one
    special functions / rate
    the longest chain         of full blocks that one unit does in turn
all with the ceilings of a device file. A program's kernels run one after the other: their floors add up.

What is assumed of caches: **cold**: `calls` calls in a row, each on arrays of its own, none of which lies in a cache before;
results may stay there at the end. **resident**: `calls` calls in a row on the same arrays. The floor is that of one call, on
average. What one kernel of a program leaves in fast memory, the next may find there, and an intermediate need never leave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from tang_verified.bounds import TrafficBound, touched, traffic
from tang_verified.device_file import Boundary, Device
from tang_verified.passes.traffic import propose
from tang_verified.proofs.traffic import Claim
from tang_verified.semantics.evaluate_term import integer_at
from tang_verified.semantics.kernel import For, Kernel, Stmt
from tang_verified.semantics.operations import Operations, operations
from tang_verified.semantics.statements import work
from tang_verified.semantics.terms import Const, Op, Term, free_vars

State = Literal["cold", "resident"]
BARE = {"multiply": 4, "add": 5, "operations": 9}  # of the bare exp: no special function of ours does with fewer


@dataclass(frozen=True)
class Bytes:
    """What must cross a boundary in one call: in all, and by direction where that is known."""

    both: float
    read: float
    written: float
    bound: TrafficBound
    fast_bytes: int  # of each of `memories` fast memories, for which the bound is stated
    memories: int


@dataclass(frozen=True)
class LowerBound:
    """One lower bound on a kernel's time. `why`: its numbers, in words."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True)
class KernelFloor:
    """A kernel's terms, the largest first, and the cost of its call beside them."""

    name: str
    call: float
    terms: tuple[LowerBound, ...]
    blocks: int | None
    units: int
    counted: Operations
    traffic: Mapping[str, Bytes]
    dtype: str
    assumes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return self.call + self.terms[0].seconds

    @property
    def binding(self) -> str:
        return self.terms[0].name if self.terms[0].seconds >= self.call else "call"


@dataclass(frozen=True)
class Floor:
    """A program's floor at given sizes on a device."""

    kernels: tuple[KernelFloor, ...]
    whole: tuple[LowerBound, ...]  # what its kernels must do together
    state: State
    calls: int
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return max(sum(k.seconds for k in self.kernels), max((t.seconds for t in self.whole), default=0.0))

    @property
    def binding(self) -> str:
        """The term that gives most of it."""
        if max((t.seconds for t in self.whole), default=0.0) > sum(k.seconds for k in self.kernels):
            return self.whole[0].name
        shares: dict[str, float] = {}
        for k in self.kernels:
            shares[k.binding] = shares.get(k.binding, 0.0) + k.seconds
        return max(shares, key=lambda name: shares[name])

    @property
    def assumes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for k in self.kernels for text in k.assumes))


def floor_of(
    kernels: Sequence[Kernel], sizes: Mapping[str, int], device: Device, state: State = "cold", calls: int = 1
) -> Floor:
    """The floor of kernels that run one after the other. `calls`: how many calls in a row are timed together."""
    known: set[str] = set()  # what an earlier kernel of the call has read or written
    made, need = [], dict[str, int]()
    alone = len(kernels) == 1
    for kernel in kernels:
        bytes_ = touched(kernel, sizes)
        made.append(_kernel_floor(kernel, sizes, device, state, calls if alone else None, bytes_, known))
        known |= bytes_.keys()
        need |= {name: max(size, need.get(name, 0)) for name, size in bytes_.items()}
    return Floor(tuple(made), () if alone else _whole(kernels, need, device, state, calls), state, calls, dict(sizes))


def _whole(
    kernels: Sequence[Kernel], need: Mapping[str, int], device: Device, state: State, calls: int
) -> tuple[LowerBound, ...]:
    """Inputs and outputs of the program, whatever its kernels leave in caches for each other."""
    program = kernels[0].program
    read = sum(need.get(t.name, 0) for t in program.inputs)
    written = sum(need.get(name, 0) for name in program.outputs)
    out = []
    for b in device.boundaries:
        held = b.fast_bytes * b.instances
        if state == "cold":
            both = read + max(0.0, written - held / calls)
        else:
            both = max(0.0, read + written - held * (1 + 1 / calls))
        why = f"the program's inputs and results, {both:.4g} bytes at {b.bandwidth.all:.4g} a second"
        out.append(LowerBound(f"{b.name} bytes, whole program", both / b.bandwidth.all, why))
    return tuple(sorted(out, key=lambda term: -term.seconds))


def _kernel_floor(
    kernel: Kernel, sizes: Mapping[str, int], device: Device, state: State, calls: int | None, bytes_: Mapping[str, int],
    known: set[str],
) -> KernelFloor:  # fmt: skip
    grid = grid_of(kernel, sizes)
    units = device.units if grid.blocks is None else max(1, min(grid.blocks, device.units))
    tensors = [kernel.program.tensor(name).dtype for name in (*kernel.reads, *kernel.outputs)]
    dtype = "float64" if "float64" in tensors else "float32"
    terms: list[LowerBound] = []
    claims, moved = propose(kernel), {}
    for b in device.boundaries:
        found = moved[b.name] = _crossing(kernel, sizes, b, units, state, calls, bytes_, known, claims)
        ways = (("", found.both, b.bandwidth), (" read", found.read, b.read), (" written", found.written, b.written))
        for what, number, rate in ways:
            why = f"{number:.4g} bytes{what or ' in all'} at {rate.of(units):.4g} a second"
            terms.append(LowerBound(f"{b.name} bytes{what}", number / rate.of(units), why))
    todo = operations(kernel, sizes)
    terms += _arithmetic(todo, device, dtype, units)
    if (share := grid.longest(device.units)) is not None and not any(s.place.conditions for s in work(kernel).statements):
        own = operations(kernel, sizes, frozenset(grid.axes))
        longest = max(_arithmetic(own, device, dtype, 1), key=lambda term: term.seconds)
        why = f"{share:.4g} of the work is one unit's ({grid.blocks} blocks, {device.units} units); {longest.why}"
        terms.append(LowerBound("longest chain", longest.seconds * share, why))
    assumes = tuple(dict.fromkeys(text for found in moved.values() for text in found.bound.assumes))
    ordered = tuple(sorted(terms, key=lambda term: -term.seconds))
    far = next(term.name.split(" bytes")[0] for term in ordered if " bytes" in term.name)
    if moved[far].bound.claim is not None:  # a tile is worth looking for where memory matters most
        b = device.boundary(far)
        tiled = traffic(kernel, sizes, b.fast_bytes, min(b.instances, units), claims=claims)
        moved[far] = replace(moved[far], bound=tiled)
    return KernelFloor(kernel.name, device.launch["call"], ordered, grid.blocks, units, todo, moved, dtype, assumes)


def _crossing(
    kernel: Kernel, sizes: Mapping[str, int], b: Boundary, units: int, state: State, calls: int | None,
    bytes_: Mapping[str, int], known: set[str], claims: Sequence[Claim],
) -> Bytes:  # fmt: skip
    """`calls` is None in a program of several kernels: then what stays in fast memory is taken off each."""
    memories = min(b.instances, units)
    held = b.fast_bytes * memories
    bound = traffic(kernel, sizes, b.fast_bytes, memories, claims=claims, tiled=False)
    outputs = set(kernel.outputs)
    fresh = sum(size for name, size in bytes_.items() if name not in outputs | known)
    again = sum(size for name, size in bytes_.items() if name not in outputs and name in known)
    written: float = sum(size for name, size in bytes_.items() if name in outputs)
    stays = held / calls if calls else held
    if state == "cold":
        read, written = fresh + max(0.0, again - held), max(0.0, written - stays)
        both = read + written
    else:
        together = fresh + again + written - (held + stays)
        read, written = max(0.0, fresh + again - held), max(0.0, written - held)
        both = max(together, read + written if calls is None else 0.0, 0.0)
    if bound.claim is not None:
        both = max(both, bound.bytes - (0.0 if bound.claim.theorem == "operands" else stays))
    return Bytes(both, read, written, bound, b.fast_bytes, memories)


def _arithmetic(todo: Operations, device: Device, dtype: str, units: int) -> list[LowerBound]:
    out = []
    whole = todo.multiply + todo.add + todo.other
    for what, number in (("multiply", todo.multiply), ("add", todo.add), ("operations", whole)):
        number += BARE[what] * todo.specials
        rate = device.rate(f"{what} {dtype}").of(units)
        word = {"multiply": "multiplications", "add": "additions"}.get(what, what)
        out.append(LowerBound(word, number / rate, f"{number:.4g} {word} at {rate:.4g} a second"))
    rate = device.rate(f"special {dtype}").of(units)
    why = f"{todo.specials:.4g} special functions ({', '.join(todo.special) or 'none'}) at {rate:.4g} a second"
    return [*out, LowerBound("special functions", todo.specials / rate, why)]


# -- blocks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A kernel's parallel loops at given sizes. `blocks`: None where their number depends on more than the sizes.

    `parts`: for each loop of one nest, (full blocks, part of the extent that one of them is); `axes`: whose tiles these are.
    """

    blocks: int | None
    parts: tuple[tuple[int, float], ...] = ()
    axes: tuple[str, ...] = ()

    def longest(self, units: int) -> float | None:
        """The part of all work that some unit must do in turn: full blocks are alike. None where that is not known."""
        full = prod(count for count, _ in self.parts)
        if not self.parts or full == 0:
            return None
        return -(-full // units) * prod(part for _, part in self.parts)


def grid_of(kernel: Kernel, sizes: Mapping[str, int]) -> Grid:
    """Its parallel loops; nests one after the other run as many blocks at once as the widest has."""
    nests = [nest for stmt in kernel.body if (nest := _nest(stmt))]
    if not nests:
        return Grid(None if any(_inner_grid(stmt) for stmt in kernel.body) else 1)
    counts = []
    for nest in nests:
        if any(free_vars(loop.axis.extent) - set(sizes) for loop in nest):
            return Grid(None)
        counts.append(prod(integer_at(loop.axis.extent, sizes) for loop in nest))
    parts, axes = [], []
    outputs = [set(kernel.program.definition(name).axes) for name in kernel.outputs]
    for loop in nests[0] if len(nests) == 1 else ():
        tile, extent = _tile(loop.axis.extent, sizes)
        name = loop.axis.name.removesuffix("_t")
        if extent <= 0 or not all(name in of for of in outputs):
            return Grid(max(counts))
        parts.append((extent // tile, tile / extent))
        axes.append(name)
    return Grid(max(counts), tuple(parts), tuple(axes))


def _nest(stmt: Stmt) -> list[For]:
    found = []
    while isinstance(stmt, For) and stmt.kind == "grid":
        found.append(stmt)
        if len(stmt.body) != 1:
            break
        stmt = stmt.body[0]
    return found


def _inner_grid(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and (stmt.kind == "grid" or any(map(_inner_grid, stmt.body)))


def _tile(extent: Term, sizes: Mapping[str, int]) -> tuple[int, int]:
    """(T, n) of ⌈n/T⌉ = (n + T − 1) // T."""
    match extent:
        case Op("floordiv", (inside, Const(int(tile)))):
            return tile, integer_at(inside, sizes) - tile + 1
        case _:
            return 1, integer_at(extent, sizes)


# -- the gap --------------------------------------------------------------------------------------------------------

UNEXPLAINED = "unexplained"


def attribution(floor: Floor, seconds: float, device: Device) -> list[tuple[str, float]]:
    """A measured time, part by part: the floor by its terms, then what else may explain it, each at most, and the rest.

    The explanations are no bounds: each is what it would cost if it did not overlap with anything. They add up to `seconds`
    (the rest is negative where a time lies below the floor).
    """
    parts: dict[str, float] = {}

    def put(name: str, part: float) -> None:
        if part > 0:
            parts[name] = parts.get(name, 0.0) + part

    whole = max((t.seconds for t in floor.whole), default=0.0)
    own = sum(k.seconds for k in floor.kernels)
    if whole > own:
        put(floor.whole[0].name, whole)
    else:
        for k in floor.kernels:
            put("calls", k.call)
            put(k.terms[0].name, k.terms[0].seconds)
    left = seconds - max(whole, own)
    for name, most in _explanations(floor, device):
        part = max(0.0, min(most, left))
        put(name, part)
        left -= part
    return [*parts.items(), (UNEXPLAINED, left)]


def _explanations(floor: Floor, device: Device) -> list[tuple[str, float]]:
    """What is not in the floor and takes time: the surest first."""
    out = []
    if "python" in device.launch:
        out.append(("the call through Python", device.launch["python"] - device.launch["call"]))
    parallel = sum(k.units > 1 for k in floor.kernels)
    out.append(("entering parallel regions", parallel * device.launch.get("region", 0.0)))
    functions = sum(_functions(k, device) for k in floor.kernels)
    out.append(("functions as they are computed here, beyond the bare exp", functions))
    if floor.state == "cold":
        last = device.boundaries[-1]
        written = sum(k.traffic[last.name].written / last.read.of(k.units) for k in floor.kernels)
        out.append((f"lines of results that are read from {last.name} before they are written", written))
    second = sum(_second(k) for k in floor.kernels)
    out.append(("the next term, not overlapped", second))
    return out


def _functions(k: KernelFloor, device: Device) -> float:
    """What functions take here beyond their share in the floor, which is arithmetic's or nothing."""
    spent = 0.0
    for name, number in k.counted.special.items():
        rate = device.ours.get(f"{name} {k.dtype}")
        bare = number / device.rate(f"special {k.dtype}").of(k.units) if _kind(k.terms[0].name) == "arithmetic" else 0.0
        spent += max(0.0, number / rate.of(k.units) - bare) if rate else 0.0
    return spent


def _second(k: KernelFloor) -> float:
    """The largest term of another kind than the first."""
    return next((term.seconds for term in k.terms if _kind(term.name) != _kind(k.terms[0].name)), 0.0)


def _kind(name: str) -> str:
    return "memory" if " bytes" in name else "arithmetic"
