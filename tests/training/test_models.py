"""The examples that train: losses fall, gradients and losses are PyTorch's, a resumed run is the same run."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tang_verified import optim, pieces, training
from tang_verified.spec import spec
from tests import peers
from tests.test_examples import FOLDER, module

char: Any = module("char_network")
transformer: Any = module("small_transformer")


@cache
def char_gradient() -> Any:
    return training.gradient(char.loss, char.start(0), x=spec(f"n {char.INPUTS}"), label=spec("n", "int32"))


def test_the_network_has_what_it_says() -> None:
    assert sum(array.size for array in char.start(0).values()) == 20_957
    assert set(char.TEXT) == set(char.LETTERS) and len(char.LETTERS) == 29


def test_the_network_learns_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")

    def run(steps: int, path: Path | None = None) -> training.Run:
        return training.fit(
            char_gradient(), char.start(0), char.batches, optim.adam(3e-3), steps, checkpoint=path, progress=False
        )

    whole = run(150)
    assert whole.losses[0] > 3.3 and whole.losses[-20:].mean() < 2.2
    run(70, tmp_path / "char.safetensors")
    resumed = run(150, tmp_path / "char.safetensors")
    assert resumed.losses.tobytes() == whole.losses.tobytes()
    text = char.write(whole.parameters, "the kettle", 40, 0)
    assert text.startswith("the kettle") and len(text) == 40 and set(text) <= set(char.LETTERS)
    assert char.text_plot(whole.losses).count("\n") == 11


def test_the_networks_gradient_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    x, label = char.batches(np.random.default_rng(1))
    p = {name: torch.tensor(array, requires_grad=True) for name, array in char.start(1).items()}
    hidden = torch.tanh(torch.tanh(torch.tensor(x) @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"])
    expected = torch.nn.functional.cross_entropy(hidden @ p["w3"] + p["b3"], torch.tensor(label).long())
    expected.backward()
    value, found = char_gradient()(char.start(1), x, label)
    assert abs(value - expected.item()) < 1e-6
    for name, array in found.items():
        np.testing.assert_allclose(array, p[name].grad.numpy(), atol=1e-7, rtol=1e-4)


def test_the_curve_is_plotted(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    char.plot(np.linspace(3, 1, 50), tmp_path / "loss.png")
    assert "█" in capsys.readouterr().out
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    char.plot(np.linspace(3, 1, 50), tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def torch_losses(parameters: dict[str, Any], steps: int) -> Any:
    return transformer.torch_losses(parameters, steps, 0)


def test_the_transformer_trains_as_in_pytorch(tmp_path: Path) -> None:
    steps, parameters = 8, transformer.start(0)
    gradient = pieces.in_pieces(transformer.loss)
    run = training.fit(gradient, parameters, transformer.batches, transformer.optimiser(steps), steps, progress=False)
    assert run.losses[-1] < run.losses[0] - 0.5
    ids, label = transformer.batches(np.random.default_rng(0))
    on_numpy = transformer.loss(pieces.plain, parameters, ids, label)
    np.testing.assert_allclose(gradient(parameters, ids, label)[0], on_numpy, rtol=1e-6)
    theirs = peers.answer(tmp_path, torch_losses, parameters, steps)
    np.testing.assert_allclose(run.losses, theirs, rtol=3e-6)


def test_a_piece_used_twice_and_a_parameter_not_at_all() -> None:
    scale = pieces.Piece(lambda x, w: x * w, x="n", w="n")
    total = pieces.Piece(lambda x: x.sum(), x="n")
    step = pieces.in_pieces(lambda run, p: run(total, run(scale, run(scale, p["w"], p["w"]), p["w"])))
    w = np.array([1.0, 2.0], "float32")
    value, found = step({"w": w, "other": np.ones(3, "float32")})
    assert value == 9.0 and found["w"].tolist() == [3.0, 12.0] and found["other"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["arm", "probe", "char_network", "small_transformer"])
def test_help(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(FOLDER / f"{name}.py"), "--help"])
    with pytest.raises(SystemExit) as ended:
        module(name).main()
    assert ended.value.code == 0 and f"python examples/{name}.py" in capsys.readouterr().out
