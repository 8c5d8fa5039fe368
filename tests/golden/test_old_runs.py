"""What version 0.1.0 left on a disk is listed, loaded, evaluated, continued and shown by this one.

`made_by_0.1.0.tar.xz` holds a folder of runs made on 2026-11-18: a finished MLP, one whose process was killed, Arena
with a replay, a script, a discovery, and one that a daemon ran, with the daemon's database.
"""

import json
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import palaestra
from tests.golden.cases import surroundings

pytestmark = pytest.mark.slow

ARCHIVE = Path(__file__).parent / "made_by_0.1.0.tar.xz"
STATES = {
    "mlp": "finished",
    "arena": "finished",
    "script": "finished",
    "flips": "finished",
    "queued": "finished",
    "unfinished": "lost",
}


@pytest.fixture
def ask(tmp_path):
    """ask("runs"): the answer of `palaestra runs --json`, among the old runs."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")

    def run(*arguments):
        command = [sys.executable, "-m", "palaestra", *arguments, "--json"]
        done = subprocess.run(command, **surroundings(tmp_path), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_old_runs_are_listed_with_their_states(ask):
    assert {run["name"]: run["state"] for run in ask("runs")} == STATES


def test_an_old_policy_acts_and_scores_what_it_scored_then(ask, tmp_path):
    assert ask("eval", "mlp", "--episodes", "5")["returns"] == [32.0, 36.0, 39.0, 27.0, 38.0]
    checkpoint = next((tmp_path / "runs" / "by-name" / "mlp" / "checkpoints").glob("model_0008.yaml"))
    assert palaestra.load_policy(str(checkpoint)).act(np.zeros(4, np.float32)) in (0, 1)


def test_an_old_script_checkpoint_is_evaluated_with_the_scripts_own_classes(ask):
    assert ask("eval", "script", "--episodes", "2")["episodes"] == 2


def test_an_old_run_that_was_killed_is_continued(ask):
    reports = ask("train", "run=unfinished", "--resume", "total_steps=1024", "--override", "total_steps", "--quiet")
    assert (reports["state"], reports["agent_step"]) == ("finished", 1024)


def test_an_old_replay_and_an_old_discovery_are_shown(ask):
    assert ask("replay", "arena")["steps"] > 0
    assert [(one["format"], one["rank"]) for one in ask("discoveries")["discoveries"]] == [("2x2x2", 7)]


def test_a_daemon_opens_the_old_database_and_serves_the_old_runs(ask, tmp_path):
    command = [sys.executable, "-m", "palaestra", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, **surroundings(tmp_path), stdout=subprocess.PIPE, text=True) as daemon:
        try:
            text = ""
            while not text.endswith("}\n"):
                line = daemon.stdout.readline()
                assert line, "the daemon ended"
                text += line
            token = (tmp_path / "runs" / ".palaestra" / "token").read_text().strip()
            request = urllib.request.Request(f"{json.loads(text)['url']}/api/runs")
            request.add_header("Authorization", f"Bearer {token}")
            with urllib.request.urlopen(request, timeout=30) as reply:
                runs = json.load(reply)["runs"]
        finally:
            daemon.terminate()
    assert {run["name"]: run["state"] for run in runs} == STATES
