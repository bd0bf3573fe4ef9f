"""FILE.py:FUNCTION on the command line  ->  the function. The file is the user's own code and is run to load it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tang_verified.errors import TangError


class LoadError(TangError):
    """A file or function that is not there."""


def load_function(target: str) -> Callable[..., Any]:
    """The function that `FILE.py:FUNCTION` names.

    Raises `LoadError` when the file cannot be found or run, or has no such function (it then lists those there are).
    """
    file, colon, name = target.rpartition(":")
    if not colon:
        raise LoadError(f"{target!r} is not FILE.py:FUNCTION; for example examples/attention.py:causal")
    path = Path(file)
    if not path.is_file():
        raise LoadError(f"no file {file!r}")
    module_name = f"tang_user_{path.stem}"
    found = importlib.util.spec_from_file_location(module_name, path)
    if found is None or found.loader is None:
        raise LoadError(f"{file!r} is no Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module
    try:
        found.loader.exec_module(module)
    except Exception as problem:
        raise LoadError(f"{file} cannot be loaded: {type(problem).__name__}: {problem}") from problem
    function = getattr(module, name, None)
    if not callable(function):
        mine = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module_name]
        raise LoadError(f"{file} has no function {name!r}; it has {', '.join(mine) or 'none'}")
    return function  # type: ignore[no-any-return]


def read_specs(options: tuple[str, ...]) -> dict[str, Any]:
    """--spec 'q=n 64 float16'  ->  {"q": Spec((n, 64), float16)}."""
    from tang_verified.spec import spec

    out = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name.isidentifier():
            raise LoadError(f"--spec {option!r} is not NAME=SHAPE [DTYPE]; for example --spec 'q=n 64 float16'")
        out[name] = spec(" ".join(text.split()))
    return out
