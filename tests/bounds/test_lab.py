"""The search: every candidate proved and measured; a killed one goes on from its log."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tang_verified as tv
from tang_verified import lab
from tang_verified.lab import Limits, Trial, append, below, best, near, read_log, search

SPECS = {"a": "n k", "b": "k m"}
SIZES = {"n": 96, "k": 64, "m": 96}


def product(a, b):
    return a @ b


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_search_then_compile(cache):
    trials = search(product, SPECS, SIZES, Limits(candidates=3, seconds=0.02))
    assert len(trials) == 3
    timed = [t for t in trials if t.verdict == "timed"]
    assert timed == sorted(timed, key=lambda t: t.seconds) and all(t.error < 1e-5 for t in timed)
    plain = tv.compile(product, **SPECS)
    assert best(plain.certified.traced) == timed[0].schedule
    found = tv.compile(product, schedule="lab", **SPECS)
    a, b = np.ones((7, 5), "f"), np.ones((5, 3), "f")
    assert (found(a, b) == 5).all()
    before = len(read_log(lab.log_path(plain.certified.traced)))
    assert len(search(product, SPECS, SIZES, Limits(candidates=3, seconds=0.02))) == before == 3  # nothing is tried twice


def test_over_the_tolerance(cache):
    (trial,) = search(product, SPECS, SIZES, Limits(candidates=1, seconds=0.01, tolerance=0.0))
    assert trial.verdict == "inexact"
    assert best(tv.compile(product, **SPECS).certified.traced) is None


def test_a_log_with_a_torn_line(tmp_path):
    path, trial = tmp_path / "l.jsonl", Trial({"t": {"rows": 6}}, {"n": 3}, "timed", 0.1, 1e-7, "why")
    append(path, trial)
    with open(path, "ab") as file:
        file.write(b'{"schedule": {"t": {"ro')
    assert read_log(path) == [trial]
    append(path, trial)
    assert read_log(path) == [trial, trial]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_killed_search_goes_on(cache):
    text = (
        "from tests.bounds.test_lab import *\n"
        "search(product, SPECS, SIZES, Limits(candidates=6, seconds=0.02))\n"
    )
    run = subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    path = lab.log_path(tv.compile(product, **SPECS).certified.traced)
    end = time.monotonic() + 60
    while not read_log(path) and time.monotonic() < end and run.poll() is None:
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    first = read_log(path)
    assert first
    search(product, SPECS, SIZES, Limits(candidates=len(first) + 1, seconds=0.02))
    assert read_log(path)[: len(first)] == first and len(read_log(path)) == len(first) + 1


def test_rounding():
    assert [near(n, 6, 384) for n in (1, 8, 9, 1000)] == [6, 6, 12, 384]
    assert [below(n, 16, 1024) for n in (1, 31, 61, 5000)] == [16, 16, 48, 1024]
