"""The conformance suite on a machine with an NVIDIA GPU, in one command of less than nine minutes, without internet:

    python benchmarks/gpu_conformance.py OUT [--carried .carry] [--minutes 8.5] [--only 'softmax or attention']

Runs the suite on cuda, cuda-sm90a, opencl, wgsl and glsl, with what `gpu_carry.sh` brought. Writes into OUT: conformance.xml
(each test), conformance.md (the table), conformance.log (date, driver, versions, what pytest said). Prints which backends were
skipped and why. What has not begun a minute before the end of the given minutes is skipped as "out of time".
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = ("cuda", "cuda-sm90a", "opencl", "wgsl", "glsl")
PACKAGES = ("z3-solver", "islpy", "numpy", "scipy", "cupy-cuda13x", "torch", "jax", "pyopencl", "wgpu", "pytest")


def unpack(carried: Path, into: Path) -> dict[str, str]:
    """Install the wheels and tools that were carried, into a folder of their own; the environment that finds them."""
    environment = dict(os.environ)
    wheels, debs = sorted(carried.glob("wheels/*.whl")), sorted(carried.glob("debs/*.deb"))
    paths = [str(ROOT)]
    if wheels:
        site = into / "site"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--upgrade"]
        subprocess.run([*pip, "--target", str(site), *map(str, wheels)], check=True)
        paths.insert(0, str(site))
    for deb in debs:
        subprocess.run(["dpkg", "-x", str(deb), str(into / "tools")], check=True)
    for name, folders in {
        "PYTHONPATH": paths,
        "PATH": [str(into / "tools/usr/bin")],
        "LD_LIBRARY_PATH": [str(into / "tools/usr/lib/x86_64-linux-gnu")],
    }.items():
        environment[name] = os.pathsep.join(filter(None, [*folders, environment.get(name, "")]))
    return environment | drivers(into)


def drivers(into: Path) -> dict[str, str]:
    """Where the loaders of Vulkan and OpenCL find NVIDIA's driver, if it does not stand where they look."""
    found = {}
    usual = [Path(folder, "vulkan/icd.d") for folder in ("/usr/share", "/etc", "/usr/local/share", "/usr/local/etc")]
    if not any(folder.glob("nvidia*.json") for folder in map(Path, usual)) and "VK_DRIVER_FILES" not in os.environ:
        elsewhere = sorted(Path("/usr/local").rglob("nvidia_icd*.json")) + sorted(Path("/opt").glob("*/**/nvidia_icd*.json"))
        if elsewhere:
            found["VK_DRIVER_FILES"] = str(elsewhere[0])
    if "OCL_ICD_VENDORS" not in os.environ:  # the GPU's driver alone: an OpenCL for the CPU may lie there, too
        vendors = into / "vendors"
        vendors.mkdir(parents=True, exist_ok=True)
        (vendors / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
        found["OCL_ICD_VENDORS"] = str(vendors)
    return found


def said(*command: str) -> str:
    """The last line that a command says, or why it says nothing."""
    if shutil.which(command[0]) is None:
        return f"no {command[0]}"
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return ((done.stdout or done.stderr).strip().splitlines() or ["nothing"])[-1]


def facts(carried: Path) -> list[str]:
    """Of the machine, for the log."""
    out = [
        f"date {datetime.now(UTC):%Y-%m-%d %H:%M} UTC", f"machine {platform.machine()}, {os.cpu_count()} processors",
        f"python {platform.python_version()}", f"commit {said('git', 'rev-parse', '--short', 'HEAD')}",
        f"gpu {said('nvidia-smi', '--query-gpu=name,driver_version,memory.total', '--format=csv,noheader')}",
        f"nvcc {said('nvcc', '--version')}",
    ]  # fmt: skip
    for name in PACKAGES:
        try:
            out.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            wheels = sorted(carried.glob(f"wheels/{name.replace('-', '_')}-*.whl"))
            out.append(f"{name} {wheels[0].name.split('-')[1]}, carried" if wheels else f"{name} missing")
    return out


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--carried", type=Path, default=ROOT / ".carry")
    options.add_argument("--minutes", type=float, default=8.5)
    options.add_argument("--only", default="", help="as pytest's -k")
    options.add_argument("--backends", default=",".join(BACKENDS))
    options.add_argument("--processes", type=int, default=max(1, min(12, (os.cpu_count() or 2) - 2)))
    given = options.parse_args()
    deadline = time.time() + 60 * (given.minutes - 1)
    given.out.mkdir(parents=True, exist_ok=True)
    scratch = given.out.resolve().with_name(f"{given.out.name}-unpacked")
    environment = unpack(given.carried, scratch)
    environment |= {"TANG_CONFORMANCE": given.backends, "XDG_CACHE_HOME": str(scratch / "cache")}
    environment["TANG_DEADLINE"] = str(deadline)
    xml, log = given.out / "conformance.xml", given.out / "conformance.log"
    xml.unlink(missing_ok=True)
    head = facts(given.carried)
    print("\n".join(head), flush=True)
    command = [
        sys.executable, "-m", "pytest", "tests/conformance", f"--junitxml={xml.resolve()}", "-q", "-n", str(given.processes),
        "-p", "no:cacheprovider", "-m", "not large", "--durations=15", *(["-k", given.only] if given.only else []),
    ]  # fmt: skip
    with log.open("w") as stream:
        stream.write("\n".join([*head, " ".join(command[2:]), ""]) + "\n")
        stream.flush()
        run = subprocess.run(command, cwd=ROOT, env=environment, stdout=stream, stderr=subprocess.STDOUT)
    shutil.rmtree(scratch, ignore_errors=True)
    print("\n".join(log.read_text().splitlines()[-25:]))
    if not xml.is_file():
        print("no record was written")
        return 1
    table = [sys.executable, str(ROOT / "benchmarks/conformance_table.py"), str(xml)]
    made = subprocess.run(table, capture_output=True, text=True)
    (given.out / "conformance.md").write_text("\n".join([*head, "", made.stdout]))
    print(made.stdout or made.stderr)
    return run.returncode or made.returncode


if __name__ == "__main__":
    sys.exit(main())
