"""Another library's answer, from a process of its own.

What PyTorch loads when an optimiser first steps (its compiler, 800 modules) did once never return, in two processes at a time, on a
machine where everything else of PyTorch worked. A peer that does not answer is no fault of ours: the test says so and is skipped.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 240
CHILD = """
import pickle, sys
function, arguments = pickle.load(sys.stdin.buffer)
sys.path.insert(0, {root!r})
with open({path!r}, "wb") as file:
    pickle.dump(function(*arguments), file)
"""
LOAD = "import torch; x = torch.ones(2, requires_grad=True); x.sum().backward(); torch.optim.SGD([x], lr=0.1).step()"


@cache
def steps() -> bool:
    """Whether PyTorch's optimisers step here."""
    return _within([sys.executable, "-c", LOAD], b"")


def answer(path: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of a module under `tests` gives when another process calls it; skips where PyTorch does not step."""
    pytest.importorskip("torch")
    file = path / "answer"
    child = CHILD.format(root=str(ROOT), path=str(file))
    if not steps() or not _within([sys.executable, "-c", child], pickle.dumps((function, arguments))):
        pytest.skip(f"PyTorch's optimiser did not step within {SECONDS} s on this machine")
    return pickle.loads(file.read_bytes())


def _within(command: list[str], given: bytes) -> bool:
    try:
        subprocess.run(command, input=given, cwd=ROOT, capture_output=True, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        return False
    except subprocess.CalledProcessError as problem:
        raise AssertionError(problem.stderr.decode(errors="replace")) from None
    return True
