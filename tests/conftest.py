"""Tests of one file run in one process, which keeps what it compiled; those of an example, wherever they stand, in one too.

Such a group is read off a test's id: `test_programs.py::test_agrees_with_numpy[attention:causal float32-c]` is of
"attention:causal float32". (xdist's marks for groups are not heeded by every pytest that this suite runs with.)
"""

from __future__ import annotations

import re
from typing import Any

import pytest

EXAMPLE = re.compile(r"\[(?:[^:\[\]]*-)?(\w+:\w+)( float16)?")


def group(nodeid: str) -> str:
    """What shares certificates: the example and its dtype, or the file."""
    found = EXAMPLE.search(nodeid)
    return f"{found[1]}{found[2] or ' float32'}" if found else nodeid.split("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)
