"""A network that learns to write: eight characters in, the next one out. Loss and gradient are one compiled program.

    h₁ = tanh(x·W₁ + b₁),  h₂ = tanh(h₁·W₂ + b₂),  z = h₂·W₃ + b₃,   loss = mean(logsumexp(z) − z[label])

20,957 parameters; the text is char_network.txt, of 29 different characters. Stopped and started again with --checkpoint,
it goes on with the same losses.

    python examples/char_network.py                                        (pip install '.[train]' for a plotted curve)
    python examples/char_network.py --steps 3000 --checkpoint char.safetensors
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from tang_verified import optim, training
from tang_verified.spec import spec

TEXT = " ".join(Path(__file__).with_suffix(".txt").read_text().split())
LETTERS = "abcdefghijklmnopqrstuvwxyz .,"
NUMBERS = np.array([LETTERS.index(letter) for letter in TEXT], "int32")
CONTEXT, HIDDEN, BATCH = 8, 64, 64
INPUTS = CONTEXT * len(LETTERS)
SHAPES = {
    "w1": (INPUTS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,),
    "w3": (HIDDEN, len(LETTERS)), "b3": (len(LETTERS),),
}  # fmt: skip


def network(x, w1, b1, w2, b2, w3, b3):
    """The two hidden layers and the scores of the next character."""
    xp = x.__array_namespace__()
    h1 = xp.tanh(x @ w1 + b1)
    h2 = xp.tanh(h1 @ w2 + b2)
    return h1, h2, h2 @ w3 + b3


def loss(x, label, w1, b1, w2, b2, w3, b3):
    """The mean cross-entropy; then the layers, which the backward pass reads."""
    xp = x.__array_namespace__()
    h1, h2, z = network(x, w1, b1, w2, b2, w3, b3)
    m = z.max(axis=-1, keepdims=True)
    lse = m[:, 0] + xp.log(xp.exp(z - m).sum(axis=-1))
    classes = xp.arange(z.shape[-1])
    picked = xp.where(classes == label[:, None], z, 0.0).sum(axis=-1)
    return (lse - picked).mean(), h1, h2, z


def start(seed):
    """Small random weights, no bias."""
    rng = np.random.default_rng(seed)
    draw = {name: rng.standard_normal(shape) / np.sqrt(shape[0]) for name, shape in SHAPES.items()}
    return {name: (array if array.ndim > 1 else 0.0 * array).astype("float32") for name, array in draw.items()}


def one_hot(numbers):
    """(n, 8) characters as (n, 8·29) zeros and ones."""
    return np.eye(len(LETTERS), dtype="float32")[numbers].reshape(len(numbers), INPUTS)


def batches(rng):
    """Random places of the text: what stands before them, and what stands there."""
    at = rng.integers(CONTEXT, len(NUMBERS), BATCH)
    return one_hot(NUMBERS[at[:, None] + np.arange(-CONTEXT, 0)]), NUMBERS[at]


def write(parameters, begin, length, seed, warmth=0.6):
    """What the network goes on to write, each character drawn by its probability (sharpened, for a warmth below 1)."""
    rng, text = np.random.default_rng(seed), begin
    while len(text) < length:
        numbers = np.array([[LETTERS.index(letter) for letter in text[-CONTEXT:]]])
        z = network(one_hot(numbers), **parameters)[-1][0].astype(float) / warmth
        p = np.exp(z - z.max())
        text += LETTERS[rng.choice(len(LETTERS), p=p / p.sum())]
    return text


def plot(losses, path):
    """The loss curve: a picture where matplotlib is installed, else text."""
    try:
        import matplotlib
    except ImportError:
        print("pip install matplotlib for a picture")
        return print(text_plot(losses))
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(np.arange(1, len(losses) + 1), losses, linewidth=0.5)
    axes.set(xlabel="step", ylabel="loss (nats a character)", ylim=(0, None))
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(f"the loss curve is in {path}")


def text_plot(losses, width=64, height=12):
    """Means over equal parts of the run, as columns."""
    means = [part.mean() for part in np.array_split(np.asarray(losses), min(width, len(losses)))]
    top = max(means)
    levels = [top * row / height for row in range(height, 0, -1)]
    marks = [["█" if mean >= level - top / height / 2 else " " for mean in means] for level in levels]
    return "\n".join(f"{level:6.2f} {''.join(row)}" for level, row in zip(levels, marks, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=3e-3, help="of Adam; default 0.003")
    parser.add_argument("--checkpoint", type=Path, help="a .safetensors file to write, and to go on from where it exists")
    parser.add_argument("--plot", type=Path, default=Path("char_network.png"), help="where the loss curve goes")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # these kernels take microseconds: a second thread costs more than it brings
    begun = time.perf_counter()
    gradient = training.gradient(loss, start(asked.seed), x=spec(f"n {INPUTS}"), label=spec("n", "int32"))
    kernels = len(gradient.kernel.certified.kernels)
    print(f"loss and gradient: one program, {kernels} kernels, proved and compiled in {time.perf_counter() - begun:.1f} s")
    run = training.fit(
        gradient, start(asked.seed), batches, optim.adam(asked.rate), asked.steps, seed=asked.seed, checkpoint=asked.checkpoint,
    )  # fmt: skip
    print(f"loss {run.losses[:20].mean():.3f} -> {run.losses[-100:].mean():.3f} ({np.log(len(LETTERS)):.3f} is guessing)")
    plot(run.losses, asked.plot)
    for number, begin in enumerate(("the kettle", "one night ", "the lamp s")):
        print(f"  {write(run.parameters, begin, 90, number)}")


if __name__ == "__main__":
    main()
