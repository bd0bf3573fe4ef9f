"""How a running fold is re-based when the value that its body depends on changes (DESIGN section 4). A guess, untrusted.

    body = w·exp(u - c)          Σ w·exp(u - c')  = exp(c - c')·Σ w·exp(u - c)
    body = w·(y - c)^p           Σ w·(y - c')^p   = Σ_q C(p, q)·(c - c')^(p-q)·S_q,     S_q = Σ w·(y - c)^q

so the state is one number in the first case, and the vector of the lower moments in the second: softmax and the one-pass
variance are the same rule. c is the largest part of the body that depends on the driving fold and not on the axis.

A mean c = (Σ x)/n runs better as (Σ_{prefix} x)/(prefix length): the centre then stays close to the data from the start.
It is as good a claim as any other, and at the end of the loop the prefix is the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

from tang_verified.passes.schedule.analysis import depends, factors, key, product
from tang_verified.semantics.build import canonical, real
from tang_verified.semantics.terms import (
    ADD,
    MAX,
    NEG_INF,
    ONE,
    REAL_ONE,
    REAL_ZERO,
    Const,
    Fold,
    Op,
    Term,
    children,
    free_vars,
    rebuild,
)  # fmt: skip


@dataclass(frozen=True)
class Rebase:
    """`driver` is the fold that the body depends on, `centre` its value as the body uses it (c above)."""

    driver: Fold
    centre: Term
    exponential: bool
    lower: tuple[Fold, ...]  # S_0 … S_{p-1} (empty for the exponential)

    def update(self, states: list[Term], delta: Term) -> list[Term]:
        """New states from old ones. `delta` is c - c' (moments) or the factor exp(c - c') itself (exponential)."""
        if self.exponential:
            return [Op("mul", (states[0], delta))]
        out = []
        for p in range(len(states)):
            total: Term = states[p]
            power: Term = delta
            for q in range(p - 1, -1, -1):
                term: Term = Op("mul", (power, states[q]))
                if comb(p, q) != 1:
                    term = Op("mul", (real(comb(p, q)), term))
                total = Op("add", (total, term))
                power = Op("mul", (power, delta))
            out.append(total)
        return out


def find_rebase(fold: Fold, drivers: list[Fold]) -> Rebase | None:
    """How `fold` follows its driver, if one of the two shapes fits."""
    needed = [driver for driver in drivers if depends(fold.body[0], driver)]
    if len(needed) != 1 or fold.monoid != ADD:
        return None
    driver = needed[0]
    body = fold.body[0]
    conditions = []
    while isinstance(body, Op) and body.name == "select" and body.args[2] == REAL_ZERO and not depends(body.args[0], driver):
        conditions.append(body.args[0])
        body = body.args[1]
    own = {axis.name for axis in fold.axes}
    free: list[Term] = []
    bound: list[Term] = []
    for factor in factors(body):
        (bound if depends(factor, driver) else free).append(factor)
    centres = [_centre(factor, driver, own) for factor in bound]
    if not bound or any(c is None or key(c) != key(centres[0]) for c in centres):  # type: ignore[arg-type]
        return None
    centre = centres[0]
    if centre is None:
        return None
    if all(isinstance(f, Op) and f.name == "exp" for f in bound) and len(bound) == 1:
        return Rebase(driver, centre, True, ())
    if all(isinstance(f, Op) and f.name == "sub" for f in bound) and len({key(f) for f in bound}) == 1:
        lower = []
        for q in range(len(bound)):
            term = product(free + bound[:q])
            for condition in conditions:
                term = Op("select", (condition, term, REAL_ZERO))
            lower.append(Fold(fold.monoid, fold.axes, fold.guard, (term,)))
        return Rebase(driver, centre, False, tuple(lower))
    return None


def _centre(factor: Term, driver: Fold, own: set[str]) -> Term | None:
    """c in exp(u - c) or y - c, when nothing else in the factor depends on the driver."""
    inner = factor.args[0] if isinstance(factor, Op) and factor.name == "exp" else factor
    match inner:
        case Op("sub" | "sub0", (u, c)) if not depends(u, driver) and not free_vars(c) & own:
            return c
        case _:
            return None


def factor_between(rebase: Rebase, old: Term, new: Term, old_driver: Term) -> Term:
    """exp(c - c'), or 0 where nothing has been seen (the driver is still -inf); c - c' for moments."""
    if not rebase.exponential:
        return Op("sub", (old, new))
    scale = Op("exp", (Op("sub", (old, new)),))
    if rebase.driver.monoid == MAX:
        return Op("select", (Op("eq", (old_driver, NEG_INF)), REAL_ZERO, scale))
    return scale


def running(centre: Term, driver: Fold, limit: Term) -> Term:
    """The centre over a prefix of `limit` elements: a mean divides by the number of elements so far (at least one)."""
    if driver.monoid != ADD or len(driver.axes) != 1:
        return centre
    extent = driver.axes[0].extent
    count = Op("real", (Op("max", (Op("min", (limit, extent)), ONE)),))

    def walk(node: Term) -> Term:
        match node:
            case Op("div", (a, Op("real", (n,)))) if canonical(n) == canonical(extent) and key(a) == key(driver):
                return Op("div", (a, count))
            case Op("div", (a, Const(n))) if n == _constant(extent) and key(a) == key(driver):
                return Op("div", (a, count))
            case Fold():
                return node
            case _:
                parts = children(node)
                return rebuild(node, tuple(walk(part) for part in parts)) if parts else node

    return walk(centre)


def _constant(extent: Term) -> object:
    return real(extent.value).value if isinstance(extent, Const) and isinstance(extent.value, int) else None


def replace_terms(term: Term, table: dict[Term, Term]) -> Term:
    """Replace subterms by key, outermost first."""
    if key(term) in table:
        return table[key(term)]
    parts = children(term)
    return rebuild(term, tuple(replace_terms(part, table) for part in parts)) if parts else term


__all__ = ["REAL_ONE", "Rebase", "factor_between", "find_rebase", "replace_terms", "running"]
