"""kill -9 at random instants of back-to-back saves: whatever was acknowledged can be resumed from."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_saves.py")


def kill_saves(directory, kills, seed):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(directory), str(kills), str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def check(found, kills, figure):
    for name, count in found.items():
        figure(name, count)
    assert found["kills"] == kills
    assert found["mid_write"] > 0, "no kill hit a save: the test has seen nothing"
    assert {name: found[name] for name in ("unreadable", "lost", "mixed", "best_lost", "remains")} == {
        "unreadable": 0,
        "lost": 0,
        "mixed": 0,
        "best_lost": 0,
        "remains": 0,
    }


@pytest.mark.fault("C1")
@pytest.mark.slow
def test_25_kills_lose_nothing(tmp_path, figure, chaos_seed):
    check(kill_saves(tmp_path, 25, seed=1 + chaos_seed), 25, figure)


@pytest.mark.fault("C1")
@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_1000_kills_lose_nothing(tmp_path, figure, chaos_seed):
    check(kill_saves(tmp_path, 1000, seed=2 + chaos_seed), 1000, figure)
