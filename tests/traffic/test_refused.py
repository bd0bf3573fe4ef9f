"""Bounds that do not hold are refused, each for its reason; their sound twins are accepted. So are certificates with other bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction as F
from functools import cache
from typing import Any

import pytest

import tang_verified as tv
from tang_verified.passes.traffic import propose
from tang_verified.proofs.certificate import spell
from tang_verified.proofs.ledger import Refused
from tang_verified.proofs.replay import audit_text
from tang_verified.proofs.traffic import Claim, bound, lattice, tile_bytes
from tang_verified.semantics.statements import Statement, work
from tests.traffic.test_bounds import attention, kernel, matmul, window

HALF, ZERO = F(1, 2), F(0)


def first(fn: Callable[..., Any], theorem: str) -> tuple[tuple[Statement, ...], Claim]:
    return tuple(work(kernel(fn)).statements), next(c for c in propose(kernel(fn)) if c.theorem == theorem)


def changed(fn: Callable[..., Any], by: str, **parts: Any) -> None:
    statements, claim = first(fn, by)
    bound(statements, claim)  # the sound twin
    bound(statements, replace(claim, **parts))


CLAIMS: dict[str, tuple[Callable[[], None], str]] = {
    "a weight lowered": (lambda: changed(matmul, "stored", arrays=(HALF, HALF, F(1, 4)), tile=()), "do not cover"),
    "a weight moved": (lambda: changed(matmul, "stored", arrays=(F(1), HALF, ZERO), tile=()), "do not cover"),
    "a negative weight": (lambda: changed(matmul, "stored", arrays=(F(-1, 2), F(3, 2), F(3, 2)), tile=()), "do not have"),
    "a weight raised beside the tile": (lambda: changed(matmul, "stored", arrays=(HALF, HALF, F(1))), "the tile has M"),
    "an axis' weight dropped": (lambda: changed(window, "stored", arrays=(HALF,) * 3, axes=(ZERO,) * 4), "do not cover"),
    "weights of axes for theorem used": (
        lambda: changed(attention, "used", outer=((F(1), ZERO), (ZERO,) * 2)), "do not cover"),
    "another support: fewer arrays": (lambda: changed(matmul, "stored", arrays=(HALF, HALF), tile=()), "do not have"),
    "another support: the result left out": (
        lambda: changed(matmul, "stored", theorem="operands"), "do not have"),
    "results that are no outputs": (lambda: changed(attention, "used", theorem="stored", outer=((), ())), "are not the output"),
    "weights of whole results for stored ones": (
        lambda: changed(matmul, "stored", outer=((F(1), F(1)), (ZERO, ZERO))), "does not have"),
    "no pace": (lambda: changed(matmul, "stored", pace=ZERO), "pieces of 0 M"),
    "a pace beyond reason": (lambda: changed(matmul, "stored", pace=F(10**9)), "pieces of"),
    "a statement that is not there": (lambda: changed(matmul, "stored", statement=7), "no statement 7"),
    "a statement before the first": (lambda: changed(matmul, "stored", statement=-1), "no statement -1"),
    "a tile too large": (lambda: changed(matmul, "stored", tile=(F(1), HALF, ZERO)), "more than M elements"),
    "a tile too small": (lambda: changed(matmul, "stored", tile=(HALF, HALF, ZERO)), "the tile has M"),
    "a tile of another nest": (lambda: changed(matmul, "stored", tile=(HALF, HALF)), "one exponent for each axis"),
    "denominators without end": (
        lambda: changed(matmul, "stored", arrays=(F(50001, 100000), HALF, HALF), tile=()), "multiples of 1/k"),
    "weights without end": (lambda: changed(matmul, "stored", arrays=(F(10**6), HALF, HALF), tile=()), "multiples of 1/k"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_is_refused(name: str) -> None:
    run, reason = CLAIMS[name]
    with pytest.raises(Refused, match=reason):
        run()


def test_whole_results_of_a_window_are_refused() -> None:
    """Theorem used asks for operands that select axes."""
    statements, claim = first(window, "stored")
    with pytest.raises(Refused, match="select axes"):
        bound(statements, replace(claim, theorem="used", tile=(), outer=((HALF, HALF), (HALF, HALF))))


def test_results_of_other_points_are_refused() -> None:
    """A guard on the fold's own axis: fibres differ."""
    def triangle(a: tv.spec("n"), b: tv.spec("n n")):  # type: ignore[valid-type]
        return tv.comprehension(out="i", reduce="j", body=lambda i, j: a[j] * b[i, j], where=lambda i, j: j <= i).sum()

    (only,) = tv.compile(triangle).certified.kernels
    statements = work(only).statements
    inner = next(k for k, s in enumerate(statements) if s.operands and not s.whole_inside())
    s = statements[inner]
    claim = Claim(inner, "used", (F(1), F(1), F(1)), (F(1),) * len(s.axes), F(1), ((F(1), F(1)), (F(1),) * len(s.outer)))
    with pytest.raises(Refused, match="folds other points"):
        bound(statements, claim)


def test_too_many_subspaces_are_refused() -> None:
    """Four lines of space in general position generate lines without end."""
    lines = [((F(1), ZERO, ZERO),), ((ZERO, F(1), ZERO),), ((ZERO, ZERO, F(1)),), ((F(1), F(1), F(1)),)]
    assert len(lattice(lines[:3], 3)) == 8
    with pytest.raises(Refused, match="more than 512 subspaces"):
        lattice(lines, 3)


def test_a_tile_that_does_not_fit() -> None:
    (s,) = work(kernel(matmul)).statements
    ends = dict.fromkeys(s.axes, 64)
    assert tile_bytes(s, dict.fromkeys(s.axes, 8), ends, 4 * 192) == 4 * (2 * 64 * 64 * 8 + 64 * 64)
    with pytest.raises(Refused, match="takes 768 bytes of 767"):
        tile_bytes(s, dict.fromkeys(s.axes, 8), ends, 767)
    with pytest.raises(Refused, match="from 1 to that of the axis"):
        tile_bytes(s, dict.fromkeys(s.axes, 65), ends, 1 << 20)


# -- in a certificate ----------------------------------------------------------------------------------------------------


@cache
def certificate() -> str:
    return tv.compile(matmul).certificate


def tampered(change: Callable[[Any], None]) -> str:
    whole = json.loads(certificate())
    change(whole["body"]["traffic"]["t0_matmul"])
    return spell(whole["body"], whole["provers"])  # with the digest of what it is now


def put(claim: dict[str, Any], **parts: Any) -> None:
    claim.update(parts)


FILES: dict[str, tuple[Callable[[Any], None], int, str]] = {
    "another capacity in the words": (
        lambda t: put(t[0], says=t[0]["says"].replace("2·M", "4·M")), 1, "the claim says only"),
    "a bound of one's own": (lambda t: put(t[0], says="Q ≥ 10^9 bytes"), 1, "the claim says only"),
    "a pace that is not in the words": (lambda t: put(t[0], pace="3"), 1, "the claim says only"),
    "a weight lowered": (lambda t: put(t[0], arrays=["1/2", "1/2", "1/4"], tile=[]), 1, "do not cover"),
    "a weight raised": (lambda t: put(t[0], arrays=["1/2", "1/2", "1"]), 1, "the tile has M"),
    "a rounded float for a rational": (lambda t: put(t[0], pace=2.0), 4, "2.0 is no integer"),
    "a decimal for a rational": (lambda t: put(t[0], arrays=["0.5", "1/2", "1/2"]), 4, "no rational"),
    "not in lowest terms": (lambda t: put(t[0], arrays=["2/4", "1/2", "1/2"]), 4, "lowest terms"),
    "infinity": (lambda t: put(t[0], pace="inf"), 4, "not finite"),
    "a theorem that there is not": (lambda t: put(t[0], theorem="Strassen"), 4, "is not one of"),
    "a theorem whose hypotheses fail": (
        lambda t: put(t[0], theorem="used", outer=[["1", "0"], ["0", "0"]], tile=[]), 1, "do not cover"),
    "another statement": (lambda t: put(t[0], statement=3), 1, "no statement 3"),
    "a claim in a form of its own": (lambda t: put(t[0], bytes=10**9), 4, "unknown key 'bytes'"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_refused(name: str) -> None:
    change, code, reason = FILES[name]
    report = audit_text(tampered(change))
    assert report.exit_code == code and any(reason in finding.message for finding in report.findings), report.findings
    if code == 1:
        assert all(finding.obligation.startswith("traffic/") for finding in report.findings)


def test_the_file_as_it_was() -> None:
    assert audit_text(tampered(lambda t: None)).exit_code == 0
    assert audit_text(tampered(lambda t: t.pop())).exit_code == 0  # fewer claims are fewer claims
    assert "Q ≥ 2·M·(⌈N / 1/8·M^(3/2)⌉ − 1)" in tv.compile(matmul).explain()
