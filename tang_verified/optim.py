"""p, g, memory  ->  p', memory': optimisers as array functions, compiled like everything else.

    sgd      u' = μ·u + g                                                p' = p − η·u'
    adam     m' = β₁·m + (1 − β₁)·g,   v' = β₂·v + (1 − β₂)·g²           p' = p − η·m̂ / (√v̂ + ε)
    adamw    as adam, and the parameter itself decays                    p' = p − η·(m̂ / (√v̂ + ε) + λ·p)

m̂ = m'/(1 − β₁ᵗ), v̂ = v'/(1 − β₂ᵗ) in step t = 1, 2, … (Kingma and Ba 2015; Loshchilov and Hutter 2019). sgd and adam take λ
too, and add λ·p to the gradient. As in PyTorch, whose numbers these are.

The functions named `…_step` are plain array code: they run on NumPy as they stand. An `Optimiser` compiles one of them for
arrays of any size, so that all parameters of one dtype share two kernels: what is remembered, then the parameter.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

from tang_verified.errors import TangError

Arrays = dict[str, Any]
Rate = float | Callable[[int], float]


class OptimiserError(TangError):
    """Parameters, gradients and state that do not belong together."""


# -- what one step does to one parameter ----------------------------------------------------------------------------


def sgd_step(parameter: Any, gradient: Any, velocity: Any, rate: Any, momentum: float = 0.9, decay: float = 0.0) -> Any:
    """(parameter', velocity'): gradient descent with momentum.

    >>> import numpy as np
    >>> sgd_step(np.ones(2), np.ones(2), np.ones(2), 0.1, momentum=0.5)
    (array([0.85, 0.85]), array([1.5, 1.5]))
    """
    velocity = momentum * velocity + _decayed(gradient, parameter, decay)
    return parameter - rate * velocity, velocity


def adam_step(
    parameter: Any, gradient: Any, mean: Any, square: Any, count: Any, rate: Any,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, decay: float = 0.0,
) -> Any:  # fmt: skip
    """(parameter', mean', square') in step number `count`, from 1: Adam, `decay` added to the gradient.

    >>> import numpy as np
    >>> adam_step(np.ones(1), np.ones(1), np.zeros(1), np.zeros(1), 1, 0.1)[0].round(6)
    array([0.9])
    """
    gradient = _decayed(gradient, parameter, decay)
    way, mean, square = _adaptive(gradient, mean, square, count, beta1, beta2, epsilon)
    return parameter - rate * way, mean, square


def adamw_step(
    parameter: Any, gradient: Any, mean: Any, square: Any, count: Any, rate: Any,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, decay: float = 0.01,
) -> Any:  # fmt: skip
    """(parameter', mean', square') in step number `count`, from 1: Adam, the parameter itself decaying.

    >>> import numpy as np
    >>> adamw_step(np.ones(1), np.ones(1), np.zeros(1), np.zeros(1), 1, 0.1, decay=1.0)[0].round(6)
    array([0.8])
    """
    way, mean, square = _adaptive(gradient, mean, square, count, beta1, beta2, epsilon)
    return parameter - rate * (way + decay * parameter), mean, square


def _decayed(gradient: Any, parameter: Any, decay: float) -> Any:
    return gradient + decay * parameter if decay else gradient


def _adaptive(
    gradient: Any, mean: Any, square: Any, count: Any, beta1: float, beta2: float, epsilon: float
) -> tuple[Any, Any, Any]:
    mean = beta1 * mean + (1.0 - beta1) * gradient
    square = beta2 * square + (1.0 - beta2) * gradient * gradient
    root = gradient.__array_namespace__().sqrt(square * _scale(gradient, count, beta2))
    return mean * _scale(gradient, count, beta1) / (root + epsilon), mean, square


def _scale(like: Any, count: Any, beta: float) -> Any:
    """1 / (1 − βᵗ), by expm1: in float32 the difference would lose half its digits while t is small."""
    xp = like.__array_namespace__()
    return -1.0 / xp.expm1(xp.asarray(count, dtype=like.dtype) * math.log(beta)) if beta else 1.0


# -- optimisers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimiser:
    """A step function with its settings; `memory` names the arrays that it keeps beside each parameter.

    `rate` is a number, or a function of the step (1, 2, …) as `cosine` makes one. `backend="numpy"` runs it uncompiled.
    """

    step: Callable[..., Any]
    memory: tuple[str, ...]
    rate: Rate
    settings: tuple[tuple[str, float], ...]
    backend: str = "c"

    def start(self, parameters: Mapping[str, Any]) -> Arrays:
        """The state before the first step: the number of steps done, and zeros."""
        import numpy as np

        zeros = {name: array.__array_namespace__().zeros_like(array) for name, array in parameters.items()}
        kept = {f"{key}.{name}": zero.copy() for key in self.memory for name, zero in zeros.items()}
        return {"steps": np.zeros((), np.int64), **kept}

    def update(
        self, parameters: Mapping[str, Any], gradients: Mapping[str, Any], state: Mapping[str, Any]
    ) -> tuple[Arrays, Arrays]:
        """New parameters and state; the arrays given stay as they are."""
        import numpy as np

        if parameters.keys() != gradients.keys():
            odd = sorted(parameters.keys() ^ gradients.keys())[0]
            raise OptimiserError(f"{odd} has a gradient or a parameter, but not both", "give one gradient for each parameter")
        count = int(state["steps"]) + 1
        rate = self.rate(count) if callable(self.rate) else self.rate
        new: Arrays = {}
        kept: Arrays = {"steps": np.asarray(count, np.int64)}
        for name, parameter in parameters.items():
            own = {key: state[f"{key}.{name}"] for key in self.memory}
            found = self._one(parameter, gradients[name], own, count, rate)
            new[name] = found[0]
            kept |= {f"{key}.{name}": array for key, array in zip(self.memory, found[1:], strict=True)}
        return new, kept

    def _one(self, parameter: Any, gradient: Any, own: Arrays, count: int, rate: float) -> list[Any]:
        import numpy as np

        if self.backend == "numpy":
            settings: dict[str, Any] = {**dict(self.settings), "rate": rate}
            if "count" in inspect.signature(self.step).parameters:
                settings["count"] = count
            return list(self.step(parameter, gradient, **own, **settings))
        kernel = compiled(self, str(parameter.dtype))
        flat = [array.reshape(-1) for array in (parameter, gradient, *own.values())]
        numbers = {"count": count, "rate": rate}
        scalars = [np.asarray(numbers[t.name], t.dtype) for t in kernel.program.inputs if t.name in numbers]
        return [array.reshape(parameter.shape) for array in kernel(*flat, *scalars)]


def compiled(optimiser: Optimiser, dtype: str) -> Any:
    """The certified kernels of an optimiser's step, for arrays of any size and for any rate."""
    return _compiled(optimiser.step, optimiser.memory, optimiser.settings, optimiser.backend, dtype)


@cache
def _compiled(
    step: Callable[..., Any], memory: tuple[str, ...], settings: tuple[tuple[str, float], ...], backend: str, dtype: str
) -> Any:
    from tang_verified.compiler import compile
    from tang_verified.spec import spec

    fixed = dict(settings)

    @wraps(step)
    def with_settings(*arrays: Any) -> Any:
        return step(*arrays, **fixed)

    names = [name for name in inspect.signature(step).parameters if name not in fixed]
    kinds = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    with_settings.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]
    arrays = ("parameter", "gradient", *memory)
    specs: dict[str, Any] = {name: spec("n" if name in arrays else "", dtype) for name in names}
    return compile(with_settings, backend=backend, name=step.__name__, **specs)


def sgd(rate: Rate, momentum: float = 0.9, decay: float = 0.0, backend: str = "c") -> Optimiser:
    """Gradient descent with momentum.

    >>> import numpy as np
    >>> descent = sgd(rate=0.5)
    >>> p = {"w": np.ones(3, "float32")}
    >>> p, state = descent.update(p, {"w": p["w"]}, descent.start(p))
    >>> p["w"]
    array([0.5, 0.5, 0.5], dtype=float32)
    """
    return Optimiser(sgd_step, ("velocity",), rate, (("momentum", momentum), ("decay", decay)), backend)


def adam(
    rate: Rate, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, decay: float = 0.0, backend: str = "c"
) -> Optimiser:
    """Adam."""
    return _adam(adam_step, rate, beta1, beta2, epsilon, decay, backend)


def adamw(
    rate: Rate, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, decay: float = 0.01, backend: str = "c"
) -> Optimiser:
    """Adam with decoupled decay."""
    return _adam(adamw_step, rate, beta1, beta2, epsilon, decay, backend)


def _adam(
    step: Callable[..., Any], rate: Rate, beta1: float, beta2: float, epsilon: float, decay: float, backend: str
) -> Optimiser:
    settings = (("beta1", beta1), ("beta2", beta2), ("epsilon", epsilon), ("decay", decay))
    return Optimiser(step, ("mean", "square"), rate, settings, backend)


def cosine(rate: float, steps: int, warmup: int = 0, least: float = 0.0) -> Callable[[int], float]:
    """A rate that rises for `warmup` steps and then falls along a cosine, to `least` in step number `steps`.

    >>> schedule = cosine(1.0, steps=10, warmup=2)
    >>> [round(schedule(step), 2) for step in (1, 2, 6, 10)]
    [0.5, 1.0, 0.5, 0.0]
    """

    def at(step: int) -> float:
        if step <= warmup:
            return rate * step / warmup
        done = min((step - warmup) / max(steps - warmup, 1), 1.0)
        return least + (rate - least) * (1.0 + math.cos(math.pi * done)) / 2.0

    return at
