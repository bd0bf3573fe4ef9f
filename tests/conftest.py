"""Tests of one file run in one process, which keeps what it compiled; those of the conformance suite, of one program."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            case = getattr(item, "callspec", None) and item.callspec.params.get("case")
            item.add_marker(pytest.mark.xdist_group(getattr(case, "group", None) or item.nodeid.split("::")[0]))
