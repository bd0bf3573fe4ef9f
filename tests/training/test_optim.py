"""Optimisers: compiled, plain NumPy and PyTorch give the same parameters; each update is a few kernels for every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tang_verified import optim
from tests import peers

SHAPES = {"w": (7, 33), "b": (33,), "scale": (), "none": (0, 4)}
CASES = {
    "sgd": (optim.sgd, {"rate": 0.1, "momentum": 0.9}, 2),
    "sgd decay": (optim.sgd, {"rate": 0.1, "momentum": 0.5, "decay": 0.1}, 2),
    "adam": (optim.adam, {"rate": 0.01}, 2),
    "adam decay": (optim.adam, {"rate": 0.01, "decay": 0.1, "beta1": 0.8}, 2),
    "adamw": (optim.adamw, {"rate": 0.01, "decay": 0.1}, 2),
}


def arrays(seed: int, dtype: str = "float32") -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.standard_normal(shape), dtype) for name, shape in SHAPES.items()}


def trained(optimiser: optim.Optimiser, dtype: str = "float32", steps: int = 5) -> dict[str, Any]:
    parameters = arrays(0, dtype)
    state = optimiser.start(parameters)
    for step in range(steps):
        parameters, state = optimiser.update(parameters, arrays(step + 1, dtype), state)
    assert state["steps"] == steps
    return parameters


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_and_plain_agree(case: str, dtype: str) -> None:
    made, settings, kernels = CASES[case]
    optimiser = made(**settings)
    compiled, plain = trained(optimiser, dtype), trained(made(**settings, backend="numpy"), dtype)
    for name in SHAPES:
        assert compiled[name].dtype == plain[name].dtype == dtype and compiled[name].shape == SHAPES[name]
        np.testing.assert_allclose(compiled[name], plain[name], rtol=2e-6 if dtype == "float32" else 1e-13, atol=1e-7)
    assert len(optim.compiled(optimiser, dtype).certified.kernels) == kernels


def torch_trained(case: str) -> dict[str, Any]:
    """`trained` by PyTorch's optimiser of the same settings."""
    import torch

    _, settings, _ = CASES[case]
    names = {"rate": "lr", "decay": "weight_decay", "momentum": "momentum"}
    theirs = {names[key]: value for key, value in settings.items() if key in names}
    if "beta1" in settings:
        theirs["betas"] = (settings["beta1"], 0.999)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in arrays(0).items()}
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[case.split()[0]]
    optimiser = kind(list(tensors.values()), **theirs)
    for step in range(5):
        for name, array in arrays(step + 1).items():
            tensors[name].grad = torch.tensor(array)
        optimiser.step()
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def all_torch_trained() -> dict[str, dict[str, Any]]:
    return {case: torch_trained(case) for case in CASES}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = peers.answer(tmp_path_factory.mktemp("peer"), all_torch_trained)
    return found


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case: str, theirs: dict[str, dict[str, Any]]) -> None:
    made, settings, _ = CASES[case]
    ours = trained(made(**settings))
    for name in SHAPES:
        np.testing.assert_allclose(ours[name], theirs[case][name], rtol=3e-6, atol=1e-7)


def test_a_schedule_compiles_nothing_anew() -> None:
    optimiser = optim.sgd(optim.cosine(0.1, steps=5, warmup=2))
    trained(optimiser)
    assert optim.compiled(optimiser, "float32") is optim.compiled(optim.sgd(0.1), "float32")


def test_what_does_not_belong_together() -> None:
    optimiser, parameters = optim.sgd(0.1), arrays(0)
    with pytest.raises(optim.OptimiserError, match="b has a gradient or a parameter, but not both"):
        optimiser.update(parameters, {key: value for key, value in parameters.items() if key != "b"}, optimiser.start(parameters))
