"""Tests of one file run in one process, which keeps what it compiled; those of an example, wherever they stand, in one too.

Such a group is read off a test's id: `test_programs.py::test_agrees_with_numpy[attention:causal float32-c]` is of
"attention:causal float32". (xdist's marks for groups are not heeded by every pytest that this suite runs with.)
The longest groups come first, so that no process is left alone with one at the end.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

ALONE = re.compile(r"test_differential\.py|test_styles\.py")  # every test is long, and shares nothing
COMMON = re.compile(r"softmax:|rmsnorm:|layernorm:|linear_gelu:|conformance/test_(arrays|empty_rows)")  # small, used together
EXAMPLE = re.compile(r"\[(?:[^:\[\]]*-)?(\w+:\w+)( float16)?")


def group(nodeid: str) -> str:
    """What shares certificates: the example and its dtype, or the file."""
    if ALONE.search(nodeid):
        return nodeid
    found = EXAMPLE.search(nodeid)
    name = f"{found[1]}{found[2] or ' float32'}" if found else nodeid.split("::")[0]
    return "common" if COMMON.search(name) else name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: 0 if ALONE.search(item.nodeid) else 1 if EXAMPLE.search(item.nodeid) else 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    config.option.loadscopereorder = False  # xdist would take those of most tests first
    return Groups(config, log)
