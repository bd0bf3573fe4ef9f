"""A small transformer, trained with derived kernels alone, its losses beside PyTorch's of the same model.

    x ← table[ids] + positions
    x ← x + attention(norm(x)·W_q, norm(x)·W_k, norm(x)·W_v)·W_o          causal, 4 heads; RMSNorm
    x ← x + (silu(y·W_gate) ⊙ y·W_up)·W_down,  y = norm(x)                SwiGLU; twice, both layers alike
    loss = cross-entropy of norm(x)·W_out

Each line is a few pieces, compiled forward and backward by themselves: both layers and q, k, v share theirs, so that what is
proved is short. Between pieces the arrays that a tape holds; nothing else is done outside of kernels. AdamW too is compiled.

    python examples/small_transformer.py            (pip install torch to see PyTorch's losses beside these)
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from tang_verified import optim, training
from tang_verified.pieces import Piece, in_pieces
from tang_verified.spec import spec

LAYERS, BATCH, LENGTH, WIDTH, HEADS, INNER = 2, 8, 64, 64, 4, 128
EACH = WIDTH // HEADS
TEXT = " ".join(Path(__file__).with_name("char_network.txt").read_text().split())
LETTERS = sorted(set(TEXT))
NUMBERS = np.array([LETTERS.index(letter) for letter in TEXT], "int32")
TOKENS = len(LETTERS)
ROWS, STREAM, SPLIT = f"{BATCH} {LENGTH}", f"{BATCH} {LENGTH} {WIDTH}", f"{BATCH} {HEADS} {LENGTH} {EACH}"


# -- the pieces, in plain array code --------------------------------------------------------------------------------


def embed(table, positions, ids):
    return table.__array_namespace__().take(table, ids, axis=0) + positions


def norm(x, weight):
    xp = x.__array_namespace__()
    return x / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight


def heads(x, weight):
    return x.__array_namespace__().einsum("bnd,hde->bhne", x, weight)


def attention(q, k, v):
    xp = q.__array_namespace__()
    i = xp.arange(q.shape[-2])
    s = xp.where(i[None, :] <= i[:, None], q @ k.mT / EACH**0.5, -xp.inf)
    p = xp.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def merge(x, o, weight):
    return x + x.__array_namespace__().einsum("bhne,hed->bnd", o, weight)


def linear(x, weight):
    return x @ weight


def gate(g, u):
    return g / (1.0 + g.__array_namespace__().exp(-g)) * u


def add_linear(x, y, weight):
    return x + y @ weight


def cross_entropy(z, label):
    xp = z.__array_namespace__()
    m = z.max(axis=-1, keepdims=True)
    lse = m[..., 0] + xp.log(xp.exp(z - m).sum(axis=-1))
    classes = xp.arange(z.shape[-1])
    return (lse - xp.where(classes == label[..., None], z, 0.0).sum(axis=-1)).mean()


EMBED = Piece(embed, table=f"{TOKENS} {WIDTH}", positions=f"{LENGTH} {WIDTH}", ids=spec(ROWS, "int32"))
NORM = Piece(norm, x=STREAM, weight=f"{WIDTH}")
SPLIT_HEADS = Piece(heads, x=STREAM, weight=f"{HEADS} {WIDTH} {EACH}")
ATTENTION = Piece(attention, q=f"b h n {EACH}", k=f"b h n {EACH}", v=f"b h n {EACH}")
MERGE = Piece(merge, x=STREAM, o=SPLIT, weight=f"{HEADS} {EACH} {WIDTH}")
WIDEN = Piece(linear, x=STREAM, weight=f"{WIDTH} {INNER}")
GATE = Piece(gate, g="b n m", u="b n m")
NARROW = Piece(add_linear, x=STREAM, y=f"{BATCH} {LENGTH} {INNER}", weight=f"{INNER} {WIDTH}")
SCORES = Piece(linear, x=STREAM, weight=f"{WIDTH} {TOKENS}")
ENTROPY = Piece(cross_entropy, z=f"{ROWS} {TOKENS}", label=spec(ROWS, "int32"))
PIECES = (EMBED, NORM, SPLIT_HEADS, ATTENTION, MERGE, WIDEN, GATE, NARROW, SCORES, ENTROPY)


def loss(run, p, ids, label):
    """The mean cross-entropy of the next characters; `run(piece, *arrays)` runs a piece."""
    x = run(EMBED, p["table"], p["positions"], ids)
    for n in range(LAYERS):
        y = run(NORM, x, p[f"{n}.norm1"])
        q, k, v = (run(SPLIT_HEADS, y, p[f"{n}.{name}"]) for name in ("q", "k", "v"))
        x = run(MERGE, x, run(ATTENTION, q, k, v), p[f"{n}.out"])
        y = run(NORM, x, p[f"{n}.norm2"])
        x = run(NARROW, x, run(GATE, run(WIDEN, y, p[f"{n}.gate"]), run(WIDEN, y, p[f"{n}.up"])), p[f"{n}.down"])
    return run(ENTROPY, run(SCORES, run(NORM, x, p["norm"]), p["scores"]), label)


# -- weights, data, training ----------------------------------------------------------------------------------------


def start(seed):
    """Small random matrices; norms begin at one."""
    shapes = {"table": (TOKENS, WIDTH), "positions": (LENGTH, WIDTH), "norm": (WIDTH,), "scores": (WIDTH, TOKENS)}
    for n in range(LAYERS):
        shapes |= {f"{n}.{name}": (HEADS, WIDTH, EACH) for name in ("q", "k", "v")}
        shapes |= {f"{n}.out": (HEADS, EACH, WIDTH), f"{n}.norm1": (WIDTH,), f"{n}.norm2": (WIDTH,)}
        shapes |= {f"{n}.gate": (WIDTH, INNER), f"{n}.up": (WIDTH, INNER), f"{n}.down": (INNER, WIDTH)}
    rng = np.random.default_rng(seed)
    draw = {name: rng.standard_normal(shape) if len(shape) > 1 else np.ones(shape) for name, shape in shapes.items()}
    scale = {name: 0.3 if name in ("table", "positions") else WIDTH**-0.5 if len(shapes[name]) > 1 else 1.0 for name in shapes}
    return {name: (array * scale[name]).astype("float32") for name, array in draw.items()}


def batches(rng):
    """Random stretches of the text, and the same stretches one character on."""
    at = rng.integers(0, len(NUMBERS) - LENGTH, BATCH)[:, None] + np.arange(LENGTH)
    return NUMBERS[at], NUMBERS[at + 1]


def optimiser(steps):
    """AdamW, its rate rising for a tenth of the steps and falling along a cosine."""
    return optim.adamw(optim.cosine(3e-3, steps, warmup=max(steps // 10, 1)), decay=0.01)


def torch_losses(parameters, steps, seed):
    """The losses of the same model, weights, batches and optimiser in PyTorch; None where it is not installed."""
    try:
        import torch
        from torch.nn import functional
    except ImportError:
        return None
    p = {name: torch.tensor(array, requires_grad=True) for name, array in parameters.items()}
    theirs = torch.optim.AdamW(p.values(), lr=0.0, weight_decay=0.01)

    def model(ids, label):
        x = p["table"][ids] + p["positions"]
        for n in range(LAYERS):
            y = functional.rms_norm(x, (WIDTH,), p[f"{n}.norm1"], eps=1e-5)
            q, k, v = (torch.einsum("bnd,hde->bhne", y, p[f"{n}.{name}"]) for name in ("q", "k", "v"))
            o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + torch.einsum("bhne,hed->bnd", o, p[f"{n}.out"])
            y = functional.rms_norm(x, (WIDTH,), p[f"{n}.norm2"], eps=1e-5)
            x = x + (functional.silu(y @ p[f"{n}.gate"]) * (y @ p[f"{n}.up"])) @ p[f"{n}.down"]
        z = functional.rms_norm(x, (WIDTH,), p["norm"], eps=1e-5) @ p["scores"]
        return functional.cross_entropy(z.reshape(-1, TOKENS), label.reshape(-1))

    losses = []
    for step in range(steps):
        ids, label = (torch.tensor(array).long() for array in batches(np.random.default_rng([seed, step])))
        theirs.param_groups[0]["lr"] = optimiser(steps).rate(step + 1)
        theirs.zero_grad()
        value = model(ids, label)
        value.backward()
        theirs.step()
        losses.append(value.item())
    return np.array(losses)


def prepare(pieces=PIECES):
    """Compile all pieces; seconds and kernels of each, forward and backward."""
    rows = []
    for piece in pieces:
        begun = time.perf_counter()
        kernels = [len(kernel.certified.kernels) for kernel in (piece.forward, piece.backward)]
        rows.append((piece.fn.__name__, *kernels, time.perf_counter() - begun))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", help="a .safetensors file to write, and to go on from where it exists")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # these kernels take microseconds: a second thread costs more than it brings
    print("piece            kernels forward, backward   proved and compiled in")
    for name, forward, backward, seconds in prepare():
        print(f"{name:24} {forward:2} {backward:16} {seconds:16.1f} s")
    parameters = start(asked.seed)
    count = sum(array.size for array in parameters.values())
    print(f"{count:,} parameters, {asked.steps} steps of {BATCH} stretches of {LENGTH} characters")
    run = training.fit(
        in_pieces(loss), parameters, batches, optimiser(asked.steps), asked.steps, seed=asked.seed, checkpoint=asked.checkpoint
    )
    theirs = torch_losses(parameters, asked.steps, asked.seed)
    if theirs is None:
        print("PyTorch is not installed: pip install torch to see its losses beside these")
    print(" step      loss" + ("   PyTorch   difference" if theirs is not None else ""))
    for step in [*range(0, asked.steps, max(asked.steps // 10, 1)), asked.steps - 1]:
        beside = f" {theirs[step]:9.5f} {run.losses[step] - theirs[step]:12.1e}" if theirs is not None else ""
        print(f"{step + 1:5} {run.losses[step]:9.5f}{beside}")
    if theirs is not None:
        print(f"largest difference in any step: {np.abs(run.losses - theirs).max():.1e}")


if __name__ == "__main__":
    main()
