"""The examples on dual numbers: the arm within its limits, the probe through all of its steps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.test_examples import module

arm, probe = module("arm"), module("probe")


@pytest.mark.parametrize("target", [(250, 200), (100, -300), (0, 440), (-200, 200), (150, 0)])
def test_the_arm_reaches(target: tuple[float, float]) -> None:
    path = arm.reach(target)
    np.testing.assert_allclose(arm.tip(*path[-1]), target, atol=1e-6)
    assert len(path) < 40
    for joints in path:
        assert np.all(arm.LIMITS[:, 0] <= joints) and np.all(joints <= arm.LIMITS[:, 1])


@pytest.mark.parametrize("target", [(400, 300), (-50, 20), (-400, 20), (900, 0)])
def test_out_of_reach_it_comes_as_near_as_any_pose(target: tuple[float, float]) -> None:
    joints = arm.reach(target)[-1]
    near = np.hypot(*(np.array(arm.tip(*joints)) - target))
    for step in np.random.default_rng(0).normal(size=(200, 2)) * 0.05:
        x, y = arm.tip(*np.clip(joints + step, *arm.LIMITS.T))
        assert np.hypot(x - target[0], y - target[1]) >= near - 1e-6


def test_the_jacobian_is_that_of_differences() -> None:
    joints, h = np.array([0.4, -0.9]), 1e-6
    _, jacobian = arm.tip_and_jacobian(joints)
    for number, way in enumerate(np.eye(2)):
        difference = (np.array(arm.tip(*(joints + h * way))) - np.array(arm.tip(*(joints - h * way)))) / (2 * h)
        np.testing.assert_allclose(jacobian[:, number], difference, rtol=1e-7, atol=1e-6)


def test_the_probe_hits() -> None:
    aim, miss = probe.solve(steps=200)
    assert miss < 1e-9
    assert probe.picture(probe.fly(*aim, 200), probe.TARGET).count("X") == 1


def test_slopes_through_all_steps_are_those_of_differences() -> None:
    aim, h = np.array([1.16, 1.38]), 1e-6
    end, slopes = probe.end_and_slopes(aim)
    assert end.shape == (2,) and len(probe.fly(*aim)) == probe.STEPS + 1 == 1601
    for number, way in enumerate(np.eye(2)):
        ahead, behind = (np.array(probe.fly(*(aim + sign * h * way))[-1], float) for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, number], (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-7)
