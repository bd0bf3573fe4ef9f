"""From the definitions of a trace to its program: drop what no output needs, and give readable names.

The last definition made by a source line `scores = q @ k.T / 8` is called scores; the others keep t3_matmul and the like.
"""

from __future__ import annotations

import re

from tang_verified.errors import Place
from tang_verified.semantics.program import Def, Program, Tensor, check_program
from tang_verified.semantics.terms import Gradient, Read, Tangent, Term, bound_names, children, fresh_name, mentions, rebuild
from tang_verified.tracing.context import Tracing

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\s*(?::[^=]+)?(?:[-+*/@&|^]|\*\*|//)?=(?!=)")


def finish(tracing: Tracing, name: str, outputs: list[str]) -> Program:
    """The checked program."""
    defs = _live(tracing.defs, outputs)
    names = _names(tracing, defs)
    renamed = tuple(_rename(d, names) for d in defs)
    program = Program(name, tuple(tracing.sizes.values()), tracing.inputs, renamed, tuple(names[output] for output in outputs))
    check_program(program)
    return program


def _live(defs: list[Def], outputs: list[str]) -> list[Def]:
    needed = set(outputs)
    kept = []
    for d in reversed(defs):
        if d.tensor.name in needed:
            kept.append(d)
            needed |= mentions(d.value)
    return kept[::-1]


def _names(tracing: Tracing, defs: list[Def]) -> dict[str, str]:
    taken = tracing.taken | {axis for d in defs for axis in (*d.axes, *bound_names(d.value))}
    names: dict[str, str] = {}
    for number, d in enumerate(defs):
        place = tracing.places[d.tensor.name]
        following = tracing.places[defs[number + 1].tensor.name] if number + 1 < len(defs) else None
        name = _assigned(place) if place != following else None
        if name is None:
            name = f"t{number}_{d.tensor.name.split('_', 1)[1]}"
        name = fresh_name(name, taken) if name in taken else name
        taken |= {name}
        names[d.tensor.name] = name
    return names


def _assigned(place: Place | None) -> str | None:
    found = ASSIGNMENT.match(place.text) if place is not None else None
    return found[1] if found else None


def _rename(d: Def, names: dict[str, str]) -> Def:
    def named(name: str) -> str:
        return names.get(name, name)

    def walk(node: Term) -> Term:
        fresh = tuple(walk(part) for part in children(node))
        if isinstance(node, Read):
            return Read(named(node.tensor), fresh, node.sort)
        if isinstance(node, Gradient):
            return Gradient(tuple((named(y), named(w)) for y, w in node.outputs), named(node.source))
        if isinstance(node, Tangent):
            return Tangent(named(node.tensor), tuple((named(x), named(dx)) for x, dx in node.along))
        return rebuild(node, fresh)

    return Def(Tensor(names[d.tensor.name], d.tensor.dtype, d.tensor.shape), d.axes, walk(d.value))
