"""A run that is stopped, killed or resumed gives the losses of one that is not, bit for bit; checkpoints are whole or absent."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tang_verified import checkpoint, optim, training

pytest.importorskip("safetensors")
WEIGHTS = {"w": np.zeros(5, "float32"), "b": np.zeros((), "float32")}
TRUE = np.arange(5, dtype="float32")


def loss(x: Any, y: Any, w: Any, b: Any) -> Any:
    error = x @ w + b - y
    return (error * error).mean()


def by_hand(p: dict[str, Any], x: Any, y: Any) -> tuple[Any, dict[str, Any]]:
    error = x @ p["w"] + p["b"] - y
    return (error * error).mean(), {"w": 2 * x.T @ error / np.float32(len(x)), "b": 2 * error.mean(dtype="float32")}


def batches(rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.standard_normal((16, 5), dtype="float32")
    return x, x @ TRUE + 1


def run(gradient: Any, steps: int, path: Path | None = None, **options: Any) -> training.Run:
    optimiser = options.pop("optimiser", optim.adam(0.1, backend="numpy"))
    return training.fit(gradient, WEIGHTS, batches, optimiser, steps, checkpoint=path, progress=False, **options)


def same(a: training.Run, b: training.Run) -> bool:
    return a.losses.tobytes() == b.losses.tobytes() and all(
        a.parameters[key].tobytes() == b.parameters[key].tobytes() for key in WEIGHTS
    )


def test_a_compiled_run_learns_and_resumes(tmp_path: Path) -> None:
    gradient = training.gradient(loss, WEIGHTS, x="n 5", y="n")
    whole = run(gradient, 60, optimiser=optim.adam(0.2))
    assert whole.losses[-1] < whole.losses[0] / 20
    run(gradient, 23, tmp_path / "a.safetensors", optimiser=optim.adam(0.2))
    assert same(run(gradient, 60, tmp_path / "a.safetensors", optimiser=optim.adam(0.2)), whole)
    x, y = batches(np.random.default_rng(0))
    value, found = gradient(WEIGHTS, x, y)
    expected, slopes = by_hand(WEIGHTS, x, y)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for name, slope in slopes.items():
        np.testing.assert_allclose(found[name], slope, rtol=1e-5)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.training.test_training import batches, by_hand, optim, training, WEIGHTS
done = 0
def until(p, x, y):
    global done
    done += 1
    if done == 18:
        os.kill(os.getpid(), signal.SIGKILL)
    return by_hand(p, x, y)
training.fit(until, WEIGHTS, batches, optim.adam(0.1, backend="numpy"), 40, checkpoint=Path(sys.argv[1]), every=5, progress=False)
"""


def test_killed_and_started_again(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    root = Path(training.__file__).parents[1]
    for done in (15, 30):  # each run dies in its eighteenth step; the checkpoint before that is kept
        ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=root, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert len(checkpoint.load(path)[0]["losses"]) == done
    assert same(run(by_hand, 40, path), run(by_hand, 40))
    assert [p.name for p in tmp_path.iterdir()] == ["run.safetensors"]


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    first = run(by_hand, 10, path)
    before = path.read_bytes()
    assert same(run(None, 10, path), first) and path.read_bytes() == before


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    run(by_hand, 3, path)
    with pytest.raises(checkpoint.CheckpointError, match="has seed '0', this run has '1'"):
        run(by_hand, 5, path, seed=1)
    with pytest.raises(checkpoint.CheckpointError, match="has optimiser 'adam_step"):
        run(by_hand, 5, path, optimiser=optim.sgd(0.1, backend="numpy"))
    with pytest.raises(checkpoint.CheckpointError, match=r"parameter\.w .*\(5,\).* this run .*\(6,\)"):
        other = {**WEIGHTS, "w": np.zeros(6, "float32")}
        training.fit(by_hand, other, batches, optim.adam(0.1, backend="numpy"), 5, checkpoint=path, progress=False)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(checkpoint.CheckpointError, match="is not read"):
        run(by_hand, 3, path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"x": np.arange(3)}, {"word": "old"})

    def fails(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save(path, {"x": np.arange(4)}, {"word": "new"})
    arrays, words = checkpoint.load(path)
    assert arrays["x"].tolist() == [0, 1, 2] and words == {"word": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    training.fit(by_hand, WEIGHTS, batches, optim.sgd(0.01, backend="numpy"), 3)
    assert "3/3" in capsys.readouterr().out
