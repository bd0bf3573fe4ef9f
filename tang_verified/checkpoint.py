"""Named arrays and a few words  <->  one safetensors file, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tang_verified.errors import TangError


class CheckpointError(TangError):
    """A checkpoint that cannot be read, or is another run's."""


def save(path: str | Path, arrays: Mapping[str, Any], words: Mapping[str, str]) -> None:
    """Write a checkpoint. Whoever reads the path meanwhile, or after a kill, finds the old one or the new one."""
    import numpy as np

    into = Path(path)
    into.parent.mkdir(parents=True, exist_ok=True)
    data = _safetensors().save({name: np.asarray(array, order="C") for name, array in arrays.items()}, dict(words))
    handle, name = tempfile.mkstemp(dir=into.parent, prefix=f".{into.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # the rename may reach the disk before what it names does
        os.replace(name, into)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays and words of a checkpoint."""
    _safetensors()
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})
    except (SafetensorError, OSError) as problem:
        raise CheckpointError(f"{path} is not read: {problem}", "delete it to start anew, or give another path") from problem


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as missing:
        raise CheckpointError("checkpoints need the package safetensors", "pip install 'tang_verified[train]'") from missing
    return safetensors.numpy
