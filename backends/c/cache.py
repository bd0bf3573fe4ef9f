"""A folder of compiled libraries that survives whatever happens to it.

    key = sha256(source, flags, compiler, processor)   ->   KEY.so and KEY.sha256, the digest of KEY.so

Writers work on files of their own and rename them into place, so that two processes, or a kill half-way, leave either
nothing or something whole; a library whose digest does not match is compiled again. A folder that cannot be written is
replaced by a temporary one for the life of the process.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_fallback: tempfile.TemporaryDirectory[str] | None = None


def key_of(*parts: str) -> str:
    """A name for what is built from these parts, in this order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(str(len(data)).encode() + b":" + data)
    return digest.hexdigest()


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/tang_verified/c`, or a temporary folder if that cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "tang_verified" / "c"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        global _fallback
        if _fallback is None or not os.path.isdir(_fallback.name):
            _fallback = tempfile.TemporaryDirectory(prefix="tang_verified-")
        return Path(_fallback.name)


def fetch(key: str, build: Callable[[Path], None]) -> Path:
    """The library of that key; `build(path)` writes it if there is none that is whole."""
    folder = cache_folder()
    library, note = folder / f"{key}.so", folder / f"{key}.sha256"
    if is_whole(library, note):
        return library
    sweep(folder)
    handle, name = tempfile.mkstemp(prefix=f"{key[:16]}-", suffix=".tmp.so", dir=folder)
    os.close(handle)
    fresh = Path(name)
    try:
        build(fresh)
        digest = hashlib.sha256(fresh.read_bytes()).hexdigest()
        fresh_note = fresh.with_suffix(".sha256")
        fresh_note.write_text(digest)
        # Between the two renames a reader sees a mismatch and builds for itself: never a wrong library.
        os.replace(fresh, library)
        os.replace(fresh_note, note)
    finally:
        fresh.unlink(missing_ok=True)
        fresh.with_suffix(".sha256").unlink(missing_ok=True)
    return library


def sweep(folder: Path, age: float = 86400.0) -> None:
    """Remove what killed writers left more than a day ago."""
    for path in folder.glob("*.tmp.*"):
        try:
            if time.time() - path.stat().st_mtime > age:
                path.unlink()
        except OSError:
            pass  # another process swept it


def is_whole(library: Path, note: Path) -> bool:
    """Whether the library has the digest that was noted when it was built."""
    try:
        return hashlib.sha256(library.read_bytes()).hexdigest() == note.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False
