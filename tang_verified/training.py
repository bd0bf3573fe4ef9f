"""A loss, data, an optimiser  ->  parameters and the loss of every step. Killed and started again, the losses are the same.

    gradient = training.gradient(loss, parameters, x="n 64")      compiled; (parameters, x) -> loss, gradients by name
    run = training.fit(gradient, parameters, batches, optim.adam(1e-3), steps=500, checkpoint="run.safetensors")

`gradient` makes one program of it all. For larger models there is `pieces.py`.

What a step draws depends on the seed and the step's number alone, not on the steps before it. So a checkpoint holds
parameters, the optimiser's state and the losses so far; there is no state of a random generator to save.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tang_verified.checkpoint import CheckpointError, load, save
from tang_verified.optim import Arrays, Optimiser
from tang_verified.spec import Spec
from tang_verified.tracing.dtypes import as_dtype

Gradient = Callable[..., tuple[Any, Arrays]]
Batches = Callable[[np.random.Generator], Sequence[Any]]


@dataclass(frozen=True)
class Run:
    """Where a training is: after `len(losses)` steps."""

    parameters: Arrays
    state: Arrays
    losses: np.ndarray[Any, np.dtype[np.float64]]


def gradient(
    loss: Callable[..., Any], parameters: Mapping[str, Any], *, backend: str = "c", **specs: Spec | str
) -> Gradient:  # fmt: skip
    """Compile loss and its gradient as one program: a function (parameters, *batch) -> (loss, gradients by name).

    The parameters are loss's arguments of these names, with these shapes; `specs` are those of the others, the batch. Of
    several results of loss the first counts; the others (hidden layers, say) are then stored for the backward pass.

    >>> step = gradient(lambda x, w: ((x * w - 1.0) ** 2).sum(), {"w": np.ones(2)}, x=Spec((2,), "float64"))
    >>> step({"w": np.ones(2)}, np.array([1.0, 2.0]))
    (1.0, {'w': array([0., 4.])})
    """
    from tang_verified.compiler import compile
    from tang_verified.tracing.differentiate import value_and_grad

    names = list(inspect.signature(loss).parameters)
    wanted = [name for name in names if name in parameters]
    rest = [name for name in names if name not in parameters]
    fixed = {name: Spec(parameters[name].shape, as_dtype(parameters[name].dtype)) for name in wanted}
    both = value_and_grad(loss, tuple(map(names.index, wanted)))
    kernel = compile(both, backend=backend, **specs, **fixed)  # type: ignore[arg-type]

    def evaluate(parameters: Mapping[str, Any], *batch: Any) -> tuple[Any, Arrays]:
        values = {**parameters, **dict(zip(rest, batch, strict=True))}
        value, *found = kernel(*(values[name] for name in names))
        return value.item(), dict(zip(wanted, found[len(found) - len(wanted) :], strict=True))

    evaluate.kernel = kernel  # type: ignore[attr-defined]
    return evaluate


def fit(
    gradient: Gradient, parameters: Mapping[str, Any], batches: Batches, optimiser: Optimiser, steps: int, *, seed: int = 0,
    checkpoint: str | Path | None = None, every: int = 100, progress: bool = True,
) -> Run:  # fmt: skip
    """Train until `steps` steps are done, from the checkpoint where there is one.

    `batches(rng)` gives a step's arrays; `every` so many steps, and at the end, the checkpoint is written. Raises
    `CheckpointError` where the checkpoint is of other parameters, another optimiser or another seed.
    """
    identity = {"format": "tang_verified training 1", "seed": str(seed), "optimiser": _name(optimiser)}
    run = Run(dict(parameters), optimiser.start(parameters), np.zeros(0))
    if checkpoint is not None and Path(checkpoint).exists():
        run = _resumed(Path(checkpoint), run, identity)
    parameters, state, losses = run.parameters, run.state, list(run.losses)
    with _bar(progress) as bar:
        task = bar.add_task("training", total=steps, completed=len(losses), loss="")
        while len(losses) < steps:
            rng = np.random.default_rng([seed, len(losses)])
            loss, found = gradient(parameters, *batches(rng))
            parameters, state = optimiser.update(parameters, found, state)
            losses.append(float(loss))
            if checkpoint is not None and (len(losses) % every == 0 or len(losses) == steps):
                save(checkpoint, _arrays(Run(parameters, state, np.asarray(losses))), identity)
            bar.update(task, completed=len(losses), loss=f"{losses[-1]:.4f}")
    return Run(parameters, state, np.asarray(losses))


def _name(optimiser: Optimiser) -> str:
    """What makes another optimiser of it; a schedule of rates is beyond knowing."""
    rate = "schedule" if callable(optimiser.rate) else repr(optimiser.rate)
    return f"{optimiser.step.__name__} rate={rate} " + " ".join(f"{key}={value!r}" for key, value in optimiser.settings)


def _arrays(run: Run) -> Arrays:
    named = {f"parameter.{key}": array for key, array in run.parameters.items()}
    return {**named, **{f"state.{key}": array for key, array in run.state.items()}, "losses": run.losses}


def _resumed(path: Path, start: Run, identity: Mapping[str, str]) -> Run:
    arrays, words = load(path)
    advice = "give another path, or delete it to start anew"
    for key, value in identity.items():
        if words.get(key) != value:
            raise CheckpointError(f"{path} has {key} {words.get(key)!r}, this run has {value!r}", advice)
    expected = {key: (array.shape, array.dtype) for key, array in _arrays(start).items() if key != "losses"}
    found = {key: (array.shape, array.dtype) for key, array in arrays.items() if key != "losses"}
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            here, there = expected.get(key, "nowhere"), found.get(key, "nowhere")
            raise CheckpointError(f"{path} has {key} {there}, this run {here}", advice)
    parameters = {key: arrays[f"parameter.{key}"] for key in start.parameters}
    return Run(parameters, {key: arrays[f"state.{key}"] for key in start.state}, arrays["losses"])


def _bar(shown: bool) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text, loss = TextColumn("{task.description}"), TextColumn("loss {task.fields[loss]}")
    times = TimeElapsedColumn(), TimeRemainingColumn()
    return Progress(text, BarColumn(), MofNCompleteColumn(), loss, *times, disable=not shown)
