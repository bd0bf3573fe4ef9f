"""A probe must hit a target through 1,600 leapfrog steps of gravity: speed and heading by the gradient through all of them.

    v ← v + a(x)·h/2,   x ← x + v·h,   v ← v + a(x)·h/2         a(x) = −Σ_b μ_b·(x − x_b) / |x − x_b|³
    (speed, heading) ← (speed, heading) − J⁺·(x_end − target)

The flight is plain Python over pairs of numbers. Two dual passes give the slopes of the last place, exact through every
step; then it is Newton's method, each step shortened until the miss is smaller. Distances in units of the planet's.

    python examples/probe.py
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import tang_verified as tv

STEPS, TIME = 1600, 4.0
BODIES = ((0.0, 0.0, 1.0), (-0.3, 1.6, 0.06))  # x, y, μ: a star, and a planet that bends the way
START = (1.0, 0.0)
TARGET = (-1.2, 1.1)


def pull(x, y):
    """The acceleration at a place."""
    ax, ay = 0.0, 0.0
    for bx, by, mu in BODIES:
        dx, dy = x - bx, y - by
        square = dx * dx + dy * dy
        weight = mu / (square * np.sqrt(square))
        ax, ay = ax - weight * dx, ay - weight * dy
    return ax, ay


def fly(speed, heading, steps=STEPS):
    """The places of a probe that starts with this speed and heading."""
    h = TIME / steps
    x, y = START
    vx, vy = speed * np.cos(heading), speed * np.sin(heading)
    ax, ay = pull(x, y)
    way = [(x, y)]
    for _ in range(steps):
        vx, vy = vx + ax * (h / 2), vy + ay * (h / 2)
        x, y = x + vx * h, y + vy * h
        ax, ay = pull(x, y)
        vx, vy = vx + ax * (h / 2), vy + ay * (h / 2)
        way.append((x, y))
    return way


def end_and_slopes(aim, steps=STEPS):
    """Where the flight ends, and how that moves with speed and with heading."""
    columns = []
    for way in np.eye(2):
        x, y = fly(tv.Dual(aim[0], way[0]), tv.Dual(aim[1], way[1]), steps)[-1]
        columns.append([x.slope, y.slope])
    return np.array([x.value, y.value], float), np.array(columns, float).T


def solve(aim=(1.2, 1.5), target=TARGET, steps=STEPS, tolerance=1e-9, tries=40, tell=lambda *_: None):
    """Speed and heading with which the flight ends at the target, and the miss that is left."""
    aim = np.array(aim, float)
    for number in range(tries):
        end, slopes = end_and_slopes(aim, steps)
        miss = end - np.array(target)
        tell(number, aim, np.hypot(*miss))
        if np.hypot(*miss) < tolerance:
            break
        step = np.linalg.lstsq(slopes, miss, rcond=1e-6)[0]
        step *= min(1.0, 0.3 / np.abs(step).max())
        while np.abs(step).max() > 1e-12 and _miss(aim - step, target, steps) >= np.hypot(*miss):
            step = step / 2
        aim = aim - step
    return aim, _miss(aim, target, steps)


def _miss(aim, target, steps):
    x, y = fly(*aim, steps)[-1]
    return math.hypot(x - target[0], y - target[1])


def picture(way, target, width=72, height=26):
    """The flight as text: · the way, O bodies, s the start, X the target."""
    xs = [x for x, _ in way] + [target[0], *(b[0] for b in BODIES)]
    ys = [y for _, y in way] + [target[1], *(b[1] for b in BODIES)]
    rows = [[" "] * width for _ in range(height)]

    def put(x, y, mark):
        column = round((x - min(xs)) / (max(xs) - min(xs)) * (width - 1))
        rows[height - 1 - round((y - min(ys)) / (max(ys) - min(ys)) * (height - 1))][column] = mark

    for x, y in way:
        put(x, y, "·")
    for x, y, _ in BODIES:
        put(x, y, "O")
    put(*START, "s")
    put(*target, "X")
    return "\n".join("".join(row).rstrip() for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs=2, type=float, default=TARGET, metavar=("X", "Y"))
    parser.add_argument("--steps", type=int, default=STEPS, help=f"leapfrog steps of one flight; default {STEPS}")
    asked = parser.parse_args()
    tell = lambda n, aim, miss: print(f"{n:3}  speed {aim[0]:.9f}  heading {math.degrees(aim[1]):12.7f}°  miss {miss:.3e}")  # noqa: E731
    aim, miss = solve(target=asked.target, steps=asked.steps, tell=tell)
    print(picture(fly(*aim, asked.steps), asked.target))
    print("hit" if miss < 1e-6 else f"missed by {miss:.3g}")


if __name__ == "__main__":
    main()
