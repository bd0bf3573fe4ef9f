"""Find the system's C compiler and ask what it can do. `$CC`, cc, gcc, clang: the first on the path."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tang_verified.errors import TangError

FLAGS = (
    "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC", "-std=gnu11",
    "-Wno-psabi",
)  # fmt: skip
INSTALL = "apt-get install gcc"


class CompilerError(TangError, RuntimeError):
    """There is no usable C compiler, or it refused a text; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that was seen to build a shared library."""

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    openmp: bool
    macros: frozenset[str]
    processor: str


def compiler() -> Compiler:
    """The compiler to use; raises `CompilerError` naming the package to install."""
    return _probe(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _probe(chosen: str, path: str) -> Compiler:
    tried = []
    for candidate in [chosen] if chosen else ["cc", "gcc", "clang"]:
        command = tuple(shlex.split(candidate))
        if not command or shutil.which(command[0], path=path or None) is None:
            tried.append(f"{candidate} is not on the path")
            continue
        for extra in (("-fopenmp",), ()):
            flags = (*FLAGS, *extra)
            problem = _try(command, flags)
            if problem is None:
                version = run([*command, "--version"]).splitlines()[0]
                # `-march=native` picks the instructions, and so the processor is part of the key
                macros = frozenset(
                    line.split()[1] for line in run([*command, "-march=native", "-dM", "-E", "-xc", os.devnull]).splitlines()
                )
                return Compiler(command, version, flags, bool(extra), macros, _processor())
        tried.append(f"{candidate}: {problem}")
    raise CompilerError(f"no usable C compiler ({'; '.join(tried)}). Install one: {INSTALL}, or set CC.")


def _try(command: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    """Build a library of one function; the compiler's complaint, or None."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            run([*command, *flags, "-o", str(Path(folder) / "probe.so"), "-xc", "-"], "int probe(void) { return 0; }\n")
        except CompilerError as error:
            return str(error)
    return None


def run(command: list[str], text: str = "") -> str:
    """The output of a command that reads `text`, or `CompilerError` with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", input=text, check=False)
    except OSError as error:
        raise CompilerError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise CompilerError(f"{command[0]} failed with code {done.returncode}:\n{done.stderr.strip()[:4000]}")
    return done.stdout


def _processor() -> str:
    """The processor's model and features, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        told = [line for line in lines if line.split("\t")[0].strip() in ("model name", "flags", "Features", "CPU part")]
        return "\n".join(told) or platform.processor()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
