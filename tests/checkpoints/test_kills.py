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


def check(found, kills):
    print(found)
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
def test_25_kills_lose_nothing(tmp_path):
    check(kill_saves(tmp_path, 25, seed=1), 25)


@pytest.mark.fault("C1")
@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_400_kills_lose_nothing(tmp_path):
    check(kill_saves(tmp_path, 400, seed=2), 400)
