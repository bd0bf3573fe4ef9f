"""Random programs' derivatives. HYPOTHESIS_PROFILE=thorough looks at many more of them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.differential.programs import Source, programs
from tests.differential.test_differential import PROFILE
from tests.gradients.random_programs import check

EXAMPLES = {"views": 5, "elementwise": 5, "reductions": 4, "products": 4, "comprehensions": 5}


@pytest.mark.parametrize("menu", EXAMPLES)
def test_random_programs(menu: str) -> None:
    @settings(PROFILE, max_examples=EXAMPLES[menu] if PROFILE.max_examples < 100 else PROFILE.max_examples)
    @given(programs(menu), st.integers(0, 9))
    def agree(made: tuple[Source, dict[str, int]], seed: int) -> None:
        assume(check(*made, seed))

    agree()
