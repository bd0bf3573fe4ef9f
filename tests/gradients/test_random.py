"""Random programs' derivatives. HYPOTHESIS_PROFILE=thorough looks at many more of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tang_verified as tv
from tests.differential.programs import Source, programs
from tests.differential.test_differential import PROFILE
from tests.gradients.models import elementwise, gradients, named, unary, write
from tests.gradients.random_programs import check

EXAMPLES = {"views": 12, "elementwise": 14, "reductions": 10, "products": 10, "comprehensions": 14}


@pytest.mark.parametrize("menu", EXAMPLES)
def test_random_programs(menu: str) -> None:
    @settings(PROFILE, max_examples=EXAMPLES[menu] if PROFILE.max_examples < 100 else PROFILE.max_examples)
    @given(programs(menu), st.integers(0, 9))
    def agree(made: tuple[Source, dict[str, int]], seed: int) -> None:
        assume(check(*made, seed))

    agree()


# -- what random programs once got wrong, shrunk ----------------------------------------------------------------------


def test_joined_under_a_mask() -> None:
    """An axis was matched with a condition, and the pass fell over."""

    def fn(x: Any, c: Any) -> Any:
        xp = x.__array_namespace__()
        v = xp.where(c, x, 1.5)
        return xp.concat([v, v], axis=1)

    x, c = np.array([1.0, 2.0, 3.0]), np.arange(18).reshape(2, 3, 3) % 2 == 0
    np.testing.assert_array_equal(gradients(fn, [x, c])[0], 2.0 * c.sum(axis=(0, 1)))


def test_a_power_of_a_power() -> None:
    """Forward and reverse differ where a partial is infinite, and of that nothing is claimed."""
    fn = unary("(lambda v: (xp.abs(v) + 0.5) ** xp.sin(v))((xp.abs(x) + 0.5) ** xp.sin(x))")
    np.testing.assert_allclose(gradients(fn, [np.array([1.0, 2.0])])[0], [1.29187748, 0.03666898], rtol=1e-6)


def test_a_tangent_through_a_count() -> None:
    """What depends on an argument by comparisons alone does not move with it."""
    fn = named(elementwise("x.sum() - 3.0 * (x > y).sum().astype(xp.float64)"), ("x", "y"))
    x = np.array([1.0, 2.0])
    written = write(tv.jvp(fn), {"x": "n", "y": "n", "d_x": "n", "d_y": "n"})
    np.testing.assert_array_equal(written(x, x[::-1], x, x), [0.0, 3.0])


def test_an_arrays_conditions_about_its_borders() -> None:
    """A padded convolution's inner sum, as a definition of its own, read outside the image."""
    fn = elementwise("sum((xp.pad(x, ((1, 1), (0, 0)))[i : i + 4] @ y) * 1.0 for i in range(3))")
    x, y = np.arange(12.0).reshape(4, 3), np.ones((3, 2))
    got = gradients(fn, [x, y])
    np.testing.assert_allclose(got[0], np.array([4.0, 6.0, 6.0, 4.0])[:, None] * np.ones(3))
    np.testing.assert_allclose(got[1], (x * np.array([2.0, 3.0, 3.0, 2.0])[:, None]).sum(0)[:, None] * np.ones(2))
