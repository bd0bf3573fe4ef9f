"""Printed texts are accepted as they are, and refused, with the line, when anything in them is changed."""

from __future__ import annotations

import re

import pytest

from tang_verified.backends.c.dialect import CDialect
from tang_verified.backends.printer import print_kernel
from tang_verified.proofs.readback import read_back
from tang_verified.semantics.kernel import Alloc, Assign, Buffer, Kernel, Loop
from tang_verified.semantics.program import Def, Program, Size, Tensor
from tang_verified.semantics.terms import Axis, Const, Read, Term, Var

from . import sweep
from .mutants import MUTANTS, Mutant
from .texts import PROGRAMS, kernel, text

# Changes after which the text still means the kernel, so that only the digest tells: the test for whole vectors is stricter
# than it needs to be, or it is another value that is used on no lane.
HARMLESS = (r"(\d+) -> (\d+)", r"if \(.* \+ \d+ < [a-z]+\) \{"), (r"0(\.0f)? -> .*", r"(int|int64_t|float) t\d+ = 0(\.0f)?;")


def harmless(what: str, line: str) -> bool:
    return any(re.fullmatch(change, what) and re.fullmatch(place, line.strip()) for change, place in HARMLESS)


@pytest.mark.parametrize("name", [*PROGRAMS, "softmax", "attention"])
def test_what_is_printed_is_accepted(name: str) -> None:
    assert read_back(kernel(name), text(name)) is None


def test_there_are_many_mutants() -> None:
    assert len(MUTANTS) >= 60 and len({mutant.what for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_mutants_are_refused_with_their_line(mutant: Mutant) -> None:
    changed, line = mutant.made()
    found = read_back(kernel(mutant.base), changed)
    assert found is not None and not found.spent
    assert mutant.gone or named(found.line, found.origin, line), f"changed line {line}, but: {found}"


def named(found: int, origin: tuple[int, ...], line: int) -> bool:
    """The changed line, the one after it (where something is missing), or where the named line's value comes from."""
    return line <= found <= line + 1 or line in origin


@pytest.mark.parametrize("name", ["embedding", "softmax"])
@pytest.mark.parametrize("way", [sweep.statements, sweep.tokens, sweep.helpers])
def test_every_change_is_refused(name: str, way) -> None:  # type: ignore[no-untyped-def]
    """Every third of all changes to the text, one at a time; most are blamed on their line."""
    lines, count, right = text(name).split("\n"), 0, 0
    for what, line, changed in list(way(text(name)))[::3]:
        if changed == text(name):
            continue
        count += 1
        found = read_back(kernel(name), changed)
        if found is None:
            assert harmless(what, lines[line - 1]), f"{what} in line {line}: {lines[line - 1]}"
            continue
        right += named(found.line, found.origin, line)
    assert count > 8 and right >= 0.75 * count, (count, right)


def test_another_kernels_text() -> None:
    found = read_back(kernel("softmax"), text("attention"))
    assert found is not None


@pytest.mark.parametrize("hostile", ["", "\n", "int x", "(" * 100000, "int f(" + "(" * 5000, "/*" * 5000, "\0", "int f() {" + "{" * 3000])
def test_what_is_no_text(hostile: str) -> None:
    found = read_back(kernel("softmax"), hostile)
    assert found is not None and found.line >= 1


def test_deep_brackets_in_a_good_text() -> None:
    deep = text("softmax").replace("= i0 * m", "= " + "(" * 3000 + "i0" + ")" * 3000 + " * m")
    found = read_back(kernel("softmax"), deep)
    assert found is not None and "deep" in found.why


def test_an_unknown_dialect() -> None:
    with pytest.raises(ValueError, match="no reader"):
        read_back(kernel("softmax"), text("softmax"), "fortran")


def copied_through(extent: Term) -> Kernel:
    """y = x, by way of a buffer of that extent."""
    x, y = (Tensor(name, "float32", (extent,)) for name in "xy")
    p = Program("p", (Size("n"),), (x,), (Def(y, ("i",), Read("x", (Var("i"),), "real")),), ("y",))

    def copy(source: str, target: str) -> Assign:
        return Assign((Loop(Axis("i", extent), "seq"),), target, (Var("i"),), Read(source, (Var("i"),), "real"))

    return Kernel("k", p, ("x",), ("y",), (Alloc(Buffer("t", "float32", (extent,), "global")), copy("x", "t"), copy("t", "y")))


@pytest.mark.parametrize(("extent", "said"), [(Var("n"), "n"), (Const(100_000), "100000"), (Const(100), "")])
def test_arrays_on_the_stack(extent: Term, said: str) -> None:
    """Memory that there may be too little of is asked for, and tested; a small array of constant size needs no test."""
    made = copied_through(extent)
    whole = print_kernel(made, CDialect())
    assert read_back(made, whole) is None
    start, asked, rest = re.split(r"(  float \*restrict t = [^\n]*\n  if \(t\) \{\n)", whole)
    assert asked
    inside = rest.replace("  } else {\n    failed = 1;\n  }\n  free(t);\n", "")
    count = said or "100"
    found = read_back(made, f"{start}  float t[{count}] __attribute__((aligned(64)));\n{inside}")
    assert (found is None) is (said == ""), found
