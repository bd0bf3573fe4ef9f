"""A two-link arm reaches for a target: damped least squares, the Jacobian from two dual passes.

    tip(a, b) = l₁·(cos a, sin a) + l₂·(cos(a + b), sin(a + b))                    links of 227 mm and 236 mm
    step      = (Jᵀ·J + λ²·I)⁻¹·Jᵀ·(target − tip)                                  (Nakamura and Hanafusa 1986)

λ grows where a step does not help and shrinks where it does. Joints stop at their limits; one that is at its limit, and
would move on, is left out. Where the arm gets stuck, it starts again with the elbow bent the other way.
A pass with the slope (1, 0) gives the first column of J, one with (0, 1) the second: `tip` is plain NumPy code.

    python examples/arm.py --target 250 200
"""

from __future__ import annotations

import argparse

import numpy as np

import tang_verified as tv

LINKS = np.array([227.0, 236.0])  # mm
LIMITS = np.radians([[-100.0, 100.0], [-150.0, 150.0]])
LONGEST = 0.3  # radians a step


def tip(shoulder, elbow):
    """Where the hand is, in mm."""
    x = LINKS[0] * np.cos(shoulder) + LINKS[1] * np.cos(shoulder + elbow)
    y = LINKS[0] * np.sin(shoulder) + LINKS[1] * np.sin(shoulder + elbow)
    return x, y


def tip_and_jacobian(joints):
    """The hand's place, and how it moves with each joint."""
    columns = []
    for way in np.eye(2):
        x, y = tip(tv.Dual(joints[0], way[0]), tv.Dual(joints[1], way[1]))
        columns.append([x.slope, y.slope])
    return np.array([x.value, y.value]), np.array(columns).T


def reach(target, joints=(0.3, 0.6), steps=200, tolerance=1e-6):
    """The joints after each step of the better of two ways: the elbow bent as it is, or the other way."""
    best = descend(target, joints, steps, tolerance)
    if off(best[-1], target) >= tolerance:
        other = descend(target, (joints[0], -joints[1]), steps, tolerance)
        best = min(best, other, key=lambda path: off(path[-1], target))
    return best


def off(joints, target):
    """The hand's distance from the target, in mm."""
    x, y = tip(*joints)
    return np.hypot(x - target[0], y - target[1])


def descend(target, joints, steps, tolerance):
    """The joints after each step, until the hand is within `tolerance` mm of the target or comes no nearer."""
    path, damping = [np.array(joints, float)], 20.0
    place, jacobian = tip_and_jacobian(path[-1])
    for _ in range(steps):
        error = np.asarray(target, float) - place
        step = damped(jacobian, error, damping, free(path[-1], jacobian.T @ error))
        joints = np.clip(path[-1] + step * min(1.0, LONGEST / max(np.abs(step).max(), LONGEST)), *LIMITS.T)
        found = tip_and_jacobian(joints)
        if np.hypot(*(target - found[0])) < np.hypot(*error):
            path.append(joints)
            (place, jacobian), damping = found, max(damping / 4, 1e-3)  # near the target the steps become Newton's
        else:
            damping = max(4 * damping, 1.0)
        if np.hypot(*(target - place)) < tolerance or damping > 1e9:
            break
    return path


def damped(jacobian, error, damping, joints):
    """The step of the joints named that is best for |J·step - error|² + λ²·|step|²; the others stay."""
    columns = jacobian[:, joints]
    step = np.zeros(len(LINKS))
    step[joints] = np.linalg.solve(columns.T @ columns + damping**2 * np.eye(joints.sum()), columns.T @ error)
    return step


def free(joints, wish):
    """Which joints can move the way the target asks: those that are not at the limit on that side."""
    return ~(((joints <= LIMITS[:, 0]) & (wish < 0)) | ((joints >= LIMITS[:, 1]) & (wish > 0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs=2, type=float, default=(250.0, 200.0), metavar=("X", "Y"), help="mm; default 250 200")
    target = parser.parse_args().target
    path = reach(target)
    print("step  shoulder   elbow      x mm      y mm   off by mm")
    for number, joints in enumerate(path):
        x, y = tip(*joints)
        a, b = np.degrees(joints)
        print(f"{number:4} {a:8.2f}° {b:7.2f}° {x:9.3f} {y:9.3f} {off(joints, target):11.2e}")
    stops = [name for name, at, limit in zip(("shoulder", "elbow"), path[-1], LIMITS, strict=True) if at in limit]
    held = f", {' and '.join(stops)} at the limit" if stops else ""
    print(("reached" if off(path[-1], target) < 1e-3 else "out of reach; the nearest place found") + held)


if __name__ == "__main__":
    main()
