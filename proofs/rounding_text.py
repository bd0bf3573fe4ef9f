"""A rounding bound as text, and a language's numbers as data: what a certificate holds, exact and in one way only.

    |out[i0] − exact| ≤ e3[i0]            e1[i0] = Σ_{j<n} abs(x[i0, j])
                                          e2 = real(n)·2^-24 …
                                          e3[i0] = e2·e1[i0] …

What stands several times in a bound has a line of its own, a function of the variables that occur in it; the last line is the
bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from tang_verified.proofs.rounding import Bound
from tang_verified.semantics.rounding import DIGITS, Rounding, Sharing, choose, rebuilt
from tang_verified.semantics.serial import BadData, fields, items, one_of, text
from tang_verified.semantics.show import show
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    POS_INF,
    REAL_ZERO,
    SIGNATURES,
    Const,
    Fold,
    Op,
    Read,
    Term,
    Var,
    children,
    free_vars,
    rebuild,
    sort_of,
)

LARGEST = frozenset(Rounding.largest(dtype) for dtype in DIGITS)
NEGLIGIBLE = Fraction(1, 2**100)  # an underflow's share, which the short form leaves out
NEAR = Fraction(1, 2**8)  # and how far from 1 a factor is that it leaves out


def spelled(bound: Bound) -> tuple[str, ...]:
    """The bound, line by line."""
    if bound.value == POS_INF:
        return ()
    return _lines(bound.value, bound)


def short(bound: Bound) -> tuple[str, ...]:
    """To first order: where nothing overflows or underflows, and without factors that are nearly 1."""
    return () if bound.value == POS_INF else _lines(Sharing()(_leading(bound.value)), bound)


def _lines(value: Term, bound: Bound) -> tuple[str, ...]:
    uses: dict[int, int] = {}
    order: list[Term] = []

    def count(term: Term) -> None:
        uses[id(term)] = uses.get(id(term), 0) + 1
        if uses[id(term)] == 1:
            for part in children(term):
                count(part)
            order.append(term)

    count(value)
    out: list[str] = []
    spelt: dict[int, Term] = {}
    for term in order:
        fresh = rebuild(term, tuple(spelt[id(part)] for part in children(term))) if children(term) else _leaf(term)
        worth = isinstance(term, (Op, Fold)) and sort_of(term) == "real" and not isinstance(_only(term), Const)
        if worth and uses[id(term)] > 1:
            name = Read(f"e{len(out) + 1}", tuple(Var(v) for v in sorted(free_vars(term))), "real")
            out.append(f"{show(name)} = {show(fresh)}")
            fresh = name
        spelt[id(term)] = fresh
    index = f"[{', '.join(bound.axes)}]" if bound.axes else ""
    return (*out, f"|{bound.output}{index} − exact| ≤ {show(spelt[id(value)])}")


def _only(term: Term) -> Term:
    return term.args[0] if isinstance(term, Op) and len(term.args) == 1 else term


def _leaf(term: Term) -> Term:
    """Rationals in full: a name that is the number's text."""
    if isinstance(term, Const) and isinstance(term.value, Fraction) and term.value.denominator != 1:
        return Read(rational(term.value), (), "real")
    if isinstance(term, Const) and isinstance(term.value, Fraction) and term.value in LARGEST:
        digits = next(d for t, d in DIGITS.items() if Rounding.largest(t) == term.value)
        return Read(f"largest{16 if digits == 11 else 32 if digits == 24 else 64}", (), "real")
    return term


def rational(value: Fraction) -> str:
    """p/q; powers of two as such."""
    top, bottom = value.numerator, value.denominator
    if bottom & (bottom - 1):
        return f"{top}/{bottom}"
    power = bottom.bit_length() - 1
    return f"2^-{power}" if top == 1 else f"{top}·2^-{power}"


def _leading(term: Term) -> Term:
    memo: dict[int, Term] = {}

    def walk(node: Term) -> Term:
        if id(node) not in memo:
            memo[id(node)] = anew(node)
        return memo[id(node)]

    def anew(node: Term) -> Term:
        match node:
            case Const(Fraction() as value) if 0 < value < NEGLIGIBLE:
                return REAL_ZERO
            case Const(Fraction() as value) if 0 < abs(value - 1) < NEAR and value > 1:
                return Const(Fraction(1))
            case Op("select", (Op("le", (_, Const(Fraction() as limit))), a, _)) if limit in LARGEST:
                return walk(a)
            case Op("select", (condition, a, b)) if sort_of(node) == "real":
                return choose(walk(condition), walk(a), walk(b))
            case Fold(monoid, _, _, (body,)) if monoid in (ADD, MAX) and walk(body) == REAL_ZERO:
                return REAL_ZERO
            case _:
                parts = tuple(map(walk, children(node)))
                return rebuilt(node, parts) if parts else node

    return walk(term)


# -- data ----------------------------------------------------------------------------------------------------------------


def numbers(rounding: Rounding) -> dict[str, Any]:
    return {
        "ulps": [[name, dtype, str(ulps)] for (name, dtype), ulps in sorted(rounding.functions.items())],
        "neighbours": rounding.neighbours, "flushed": rounding.flushed, "unsaid": rounding.unsaid,
        "units": {dtype: str(rounding.unit(dtype)) for dtype in DIGITS},
        "underflow": {dtype: str(rounding.tiny(dtype)) for dtype in DIGITS},
    }  # fmt: skip


def data(rounding: Rounding, bounds: tuple[Bound, ...]) -> dict[str, Any]:
    """What a certificate says."""
    return {
        "numbers": numbers(rounding),
        "bounds": [
            {
                "kernel": b.kernel, "output": b.output, "axes": list(b.axes), "bound": list(spelled(b)),
                "short": list(short(b)), "reasons": list(b.reasons),
            }
            for b in bounds
        ],
    }  # fmt: skip


def read(value: Any) -> Rounding | None:
    """The numbers of a certificate; that its bounds follow from them is the audit's business."""
    if value is None:
        return None
    top = fields(value, ("numbers", "bounds"), "rounding")
    d = fields(top["numbers"], ("ulps", "neighbours", "flushed", "unsaid", "units", "underflow"), "rounding.numbers")
    for key in ("neighbours", "flushed"):
        if type(d[key]) is not bool:
            raise BadData(f"rounding.{key}: expected a bool")
    ulps = {}
    for entry in items(d["ulps"], "rounding.ulps"):
        name, dtype, ulp = items(entry, "rounding.ulps", 3)
        ulps[one_of(name, tuple(SIGNATURES), "rounding.ulps"), one_of(dtype, tuple(DIGITS), "rounding.ulps")] = _ratio(ulp)
    for bound in items(top["bounds"], "rounding.bounds"):
        b = fields(bound, ("kernel", "output", "axes", "bound", "short", "reasons"), "rounding.bounds")
        for key in ("kernel", "output"):
            text(b[key], f"rounding.{key}", 200)
        for key in ("axes", "bound", "short", "reasons"):
            for line in items(b[key], f"rounding.{key}"):
                text(line, f"rounding.{key}", 1 << 20)
    return Rounding(ulps, d["neighbours"], d["flushed"], text(d["unsaid"], "rounding.unsaid", 500))


def _ratio(value: Any) -> Fraction:
    content = text(value, "rounding.ulps", 40)
    top, _, bottom = content.partition("/")
    if not top.isascii() or not top.isdigit() or (bottom and not (bottom.isascii() and bottom.isdigit() and int(bottom))):
        raise BadData(f"rounding.ulps: {content!r} is no positive rational")
    return Fraction(int(top), int(bottom or 1))


def difference(said: Mapping[str, Any], derived: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where a certificate's bounds are not those that follow from its kernels: (which, what)."""
    out: list[tuple[str, str]] = []
    if said["numbers"] != derived["numbers"]:
        wrong = [key for key in derived["numbers"] if said["numbers"].get(key) != derived["numbers"][key]]
        out.append(("numbers", f"{', '.join(wrong)} do not follow from the arithmetic that is named"))
    name: Callable[[Mapping[str, Any]], tuple[str, str]] = lambda b: (b["kernel"], b["output"])  # noqa: E731
    here, there = {name(b): b for b in derived["bounds"]}, {name(b): b for b in said["bounds"]}
    for which in (*here, *(k for k in there if k not in here)):
        label = "/".join(which)
        if which not in there:
            out.append((label, "no bound is recorded"))
        elif which not in here:
            out.append((label, "a bound of what no kernel computes"))
        elif here[which] != there[which]:
            for key in ("axes", "bound", "short", "reasons"):
                a, b = here[which][key], there[which][key]
                if a != b:
                    line = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
                    shown = str(b[line])[:200] if line < len(b) else "nothing"
                    out.append((label, f"{key}, line {line + 1}: {shown!r} is not what follows from the kernel"))
                    break
    if len(said["bounds"]) != len(there):
        out.append(("bounds", "one is recorded twice"))
    return out
