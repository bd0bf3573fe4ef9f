"""The cache of compiled libraries, and what a call checks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tang_verified.backends.c import cache, compiler, runtime
from tang_verified.backends.c.compiler import CompilerError
from tang_verified.backends.c.runtime import load

ROOT = Path(__file__).parents[2]
TEXT = """#include <stdint.h>
int five(const int64_t *size, void *const *array) { *(float *)array[0] = 5 + size[0]; return size[1]; }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "tang_verified" / "c"


def call(function: runtime.CFunction, code: int = 0) -> float:
    out = np.zeros(1, np.float32)
    function([2, code], [out])
    return float(out[0])


def test_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(load(TEXT, "five")) == 7
    monkeypatch.setattr(runtime, "run", lambda *_: pytest.fail("compiled again"))
    assert call(load(TEXT, "five")) == 7
    assert sorted(path.suffix for path in folder.iterdir()) == [".sha256", ".so"]


@pytest.mark.parametrize("damage", ["truncate", "overwrite", "no note", "empty note"])
def test_a_damaged_entry_is_compiled_again(folder: Path, damage: str) -> None:
    path = load(TEXT, "five").path
    data = path.read_bytes()
    path.unlink()  # the mapped file must not change under the process
    note = path.with_suffix(".sha256")
    match damage:
        case "truncate":
            path.write_bytes(data[: len(data) // 2])
        case "overwrite":
            path.write_bytes(data[:4000] + bytes(500) + data[4500:])
        case "no note":
            path.write_bytes(data)
            note.unlink()
        case "empty note":
            path.write_bytes(data)
            note.write_text("")
    again = load(TEXT, "five")
    assert cache.is_whole(again.path, again.path.with_suffix(".sha256"))
    assert call(again) == 7


def script(text: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder.parent.parent), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], env=environment, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once(folder: Path) -> None:
    text = f"""
        import numpy as np
        from tang_verified.backends.c.runtime import load
        for k in range(4):
            out = np.zeros(1, np.float32)
            load({TEXT!r} + f"/* {{k}} */", "five")([k, 0], [out])
            assert out[0] == 5 + k
        print("fine")
    """
    both = [script(text, folder) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == ["fine", "fine"]
    assert not list(folder.glob("*.tmp*"))


def test_killed_while_compiling(folder: Path) -> None:
    text = f"""
        import time
        from tang_verified.backends.c import cache, runtime
        def slow(command, text):
            open(command[command.index("-o") + 1], "wb").write(b"half a library")
            print("started", flush=True)
            time.sleep(60)
        runtime.run = slow
        runtime.load({TEXT!r}, "five")
    """
    process = script(text, folder)
    assert process.stdout is not None and process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert call(load(TEXT, "five")) == 7
    assert sum(path.suffix == ".so" and ".tmp" not in path.name for path in folder.iterdir()) == 1


def test_leftovers_of_killed_processes_are_swept(folder: Path) -> None:
    load(TEXT, "five")
    old, new = folder / "abc.tmp.so", folder / "def.tmp.so"
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (time.time() - 10 * 86400,) * 2)
    load(TEXT + "\n", "five")
    assert not old.exists() and new.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    function = load(TEXT, "five")
    assert call(function) == 7 and blocked not in function.path.parents


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompilerError, match="apt-get install gcc"):
        compiler.compiler()
    assert "apt-get install gcc" in runtime.describe()["usable"]


def test_a_compiler_without_openmp_is_used_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    real = compiler.compiler().command[0]
    fake = tmp_path / "plaincc"
    fake.write_text(f'#!/bin/sh\nfor a in "$@"; do [ "$a" = -fopenmp ] && exit 1; done\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    assert call(load(TEXT, "five")) == 7
    assert runtime.describe()["openmp"].startswith("no") and runtime.describe()["threads"] == "1"


def test_a_text_that_does_not_compile(folder: Path) -> None:
    with pytest.raises(CompilerError, match="error"):
        load("int five( {", "five")
    assert not list(folder.glob("*.so"))


def test_calls_are_checked(folder: Path) -> None:
    function = load(TEXT, "five", ["float32"])
    good = np.zeros(4, np.float32)
    for arrays in ([], [good, good], [good.astype(np.float64)], [good[::2]], [[0.0]]):
        with pytest.raises(TypeError):
            function([0, 0], arrays)  # type: ignore[arg-type]
    with pytest.raises(MemoryError):
        function([0, 1], [good])


def test_describe() -> None:
    told = runtime.describe()
    assert told["usable"] == "yes" and "-ffast-math" not in told["flags"]
    assert runtime.lanes("float32") == 2 * runtime.lanes("float64") == runtime.lanes("float16")
