"""A unit's statement is printed by what its places say, whatever the order of its loops."""

from __future__ import annotations

from dataclasses import replace

from tang_verified.backends.cuda.dialect import CudaDialect
from tang_verified.backends.simt import print_simt
from tang_verified.semantics.kernel import Assign, Kernel
from tests.refused.edits import assignment
from tests.refused.gpu import case


def multiplications(kernel: Kernel) -> list[str]:
    return sorted(line.strip() for line in print_simt(kernel, CudaDialect())[0].splitlines() if "mma_m16n8k16(" in line)


def other_order(s: Assign) -> Assign | None:
    """The slots of a lane in front of the fragments, the last first."""
    return replace(s, loops=(*s.loops[:4], s.loops[7], s.loops[6], *s.loops[4:6])) if s.unit else None


def test_loops_of_a_unit_in_another_order() -> None:
    kernel = case("half").kernels[0]
    lines = multiplications(kernel)
    assert len(lines) > 16
    assert multiplications(assignment(other_order)(kernel)) == lines
