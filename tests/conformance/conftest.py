"""$TANG_DEADLINE (seconds since the epoch): what has not begun by then is skipped, so that a run with a limit keeps its record."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What lies in this folder is marked."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("conformance")


@pytest.fixture(autouse=True)
def in_time() -> None:
    if time.time() > float(os.environ.get("TANG_DEADLINE", "inf")):
        pytest.skip("out of time")
