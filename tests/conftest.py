"""Tests of one file run in one process, which keeps what it compiled; those of an example, wherever they stand, in one too."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
            group = getattr(given.get("case"), "group", None)
            if group is None and "example" in given:
                group = f"{given['example']} float32"
            item.add_marker(pytest.mark.xdist_group(group or item.nodeid.split("::")[0]))
