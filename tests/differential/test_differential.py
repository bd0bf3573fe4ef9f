"""Random programs: what is compiled against the reference interpreter and against NumPy in float64.

HYPOTHESIS_PROFILE=thorough looks at many more of them, at random; by default the same few are looked at every time.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tang_verified.errors import CompileError

from .check import check
from .programs import MENUS, Source, programs

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
QUICK = (Phase.explicit, Phase.generate)  # a compile a try: shrinking is for the thorough profile
settings.register_profile("ci", derandomize=True, max_examples=16, deadline=None, suppress_health_check=CHECKS, database=None, phases=QUICK)
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=CHECKS, print_blob=True)
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.mark.parametrize("menu", MENUS)
def test_random_programs(menu: str) -> None:
    @settings(PROFILE, max_examples=max(3, PROFILE.max_examples // (6 if menu in ("dependents", "all") else 1)))  # the longest
    @given(programs(menu), st.integers(0, 9))
    def agree(made: tuple[Source, dict[str, int]], seed: int) -> None:
        try:
            check(*made, seed)
        except CompileError as refusal:  # integers that 62 bits may not hold: refused on purpose
            assume("width/int64" not in str(refusal))
            raise

    agree()

