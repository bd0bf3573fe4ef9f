"""What a schedule needs to know of the machine. Facts about speed only: no proof depends on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU: SIMD lanes of float32, vector registers, how many accumulators a micro-kernel may hold, and cores to keep at work.

    With `threads`, a GPU: threads of a block, lanes of a subgroup (0: none to rely on), bytes of shared memory, and the
    width of its index arithmetic. `lanes` are then the threads that lie along the innermost axis of a tile.
    """

    lanes: int = 16
    registers: int = 32
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    cores: int = 1
    threads: int = 0
    subgroup: int = 0
    shared_bytes: int = 0
    index_bits: int = 64
    unit: str = ""  # a matrix unit, by its name in semantics/units.py
    units: tuple[str, ...] = ()  # those that take operands from shared memory
    vector_bytes: int = 0  # the widest access of a thread that the language has
    own_vectors: bool = False  # also to and from a thread's registers
    asynchronous: bool = False  # copies to shared memory go on by themselves
    stages: int = 2  # tiles that a ring of such copies holds

    @property
    def accumulators(self) -> int:
        if self.threads:
            return 16
        return 24 if self.registers >= 32 else 12


def micro_tile(target: Target, lanes: int, rows: int, columns: int) -> tuple[int, int]:
    """(rows, vectors) of the register tile: as square as the registers allow, dividing the tile rows × columns.

    One step of the fold loads `vectors` vectors and broadcasts `rows` scalars for rows·vectors multiply-adds.
    """
    best, best_score = (1, 1), 0.0
    most = min(target.accumulators, rows * columns // target.threads) if target.threads else target.accumulators
    for vectors in range(1, 5):
        if columns % (vectors * lanes):
            continue
        for height in range(1, 17):
            if rows % height or height * vectors > most:
                continue
            score = height * vectors / (vectors + height / 2 + 0.5)  # work over loads; a broadcast is the cheaper load
            if score > best_score:
                best, best_score = (height, vectors), score
    return best
