"""The programs that the mutants break: examples, and a few lines each for what no example has. Compiled once a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import tang_verified as tv
from examples import attention, conv2d, cross_entropy, embedding, layernorm, linear_gelu, pooling, softmax
from tang_verified.passes.derive import derive
from tang_verified.passes.schedule.search import certified_plan
from tang_verified.passes.schedule.target import Target
from tang_verified.proofs.steps import Step
from tang_verified.semantics.kernel import Kernel
from tang_verified.semantics.program import Program
from tang_verified.tracing.tracer import trace
from tests.refused.by_hand import staged_transpose


@dataclass(frozen=True)
class Case:
    """What `certify` is given."""

    traced: Program
    steps: tuple[Step, ...]
    kernels: tuple[Kernel, ...]


def small_plain(q: tv.spec("n 4"), k: tv.spec("m>=1 4"), v: tv.spec("m>=1 4")):
    return attention.weights(q @ k.T / 2.0) @ v


def small_causal(q: tv.spec("n 4"), k: tv.spec("m 4"), v: tv.spec("m 4")):
    xp = q.__array_namespace__()
    i, j = attention.positions(q, k)
    return attention.weights(xp.where(j <= i, q @ k.T / 2.0, -xp.inf)) @ v


def small_window(q: tv.spec("n 4"), k: tv.spec("m 4"), v: tv.spec("m 4")):
    xp = q.__array_namespace__()
    i, j = attention.positions(q, k)
    return attention.weights(xp.where((j <= i) & (i < j + 5), q @ k.T / 2.0, -xp.inf)) @ v


def small_masked(q: tv.spec("n 4"), k: tv.spec("m 4"), v: tv.spec("m 4"), keep: tv.spec("n m", "bool")):
    xp = q.__array_namespace__()
    return attention.weights(xp.where(keep, q @ k.T / 2.0, -xp.inf)) @ v


def halve(x: tv.spec("n", "int32")):
    return x // 2


def remainder(x: tv.spec("n", "int32")):
    return x % 4


def times_zero(x: tv.spec("n")):
    return x.__array_namespace__().log(x) * 0.0


def difference(x: tv.spec("n")):
    return x.__array_namespace__().log(x) - 1.0


def ratio(x: tv.spec("n"), y: tv.spec("n")):
    return x / y


def there_and_back(x: tv.spec("n")):
    xp = x.__array_namespace__()
    return xp.exp(xp.log(x))


def root(x: tv.spec("n")):
    xp = x.__array_namespace__()
    return xp.sqrt(x) * xp.sqrt(x)


def clip(x: tv.spec("n")):
    xp = x.__array_namespace__()
    return xp.minimum(xp.maximum(x, -1.0), 1.0)


def transpose(x: tv.spec("n m")):
    return x.T


def column_sums(x: tv.spec("n m")):
    return x.sum(axis=0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softmax": softmax.softmax,
    "layernorm": layernorm.layernorm,
    "linear_gelu": linear_gelu.linear_gelu,
    "plain": small_plain,
    "causal": small_causal,
    "window": small_window,
    "masked": small_masked,
    "conv2d": conv2d.conv2d,
    "max_pool": pooling.max_pool,
    "average_pool": pooling.average_pool,
    "embedding": embedding.embedding,
    "cross_entropy": cross_entropy.cross_entropy,
    "column_sums": column_sums,
    "transpose": transpose,
    "clip": clip,
    "halve": halve,
    "remainder": remainder,
    "times_zero": times_zero,
    "difference": difference,
    "ratio": ratio,
    "there_and_back": there_and_back,
    "root": root,
}


STYLES = {"conv2d": "plain"}  # the nine products in one statement: its guards are what is broken


@cache
def case(name: str) -> Case:
    """The sound twin: traced, derived, planned and certified."""
    traced = trace(FUNCTIONS[name], {})
    derived = derive(traced)
    style = {d.tensor.name: {"style": STYLES[name]} for d in derived.program.defs} if name in STYLES else {}
    certified, _ = certified_plan(traced, derived, Target(), style)
    return Case(certified.traced, certified.steps, certified.kernels)


def staged() -> Case:
    sound = case("transpose")
    return Case(sound.traced, sound.steps, (staged_transpose(sound.kernels[0].program),))


BY_HAND: dict[str, Callable[[], Case]] = {"staged": staged}


def sound(name: str) -> Case:
    """The sound twin of any mutant."""
    return BY_HAND[name]() if name in BY_HAND else case(name)
