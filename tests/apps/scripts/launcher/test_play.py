"""In a process of its own, as it is used: it changes Gymnasium for everybody in it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.apps.scripts.launcher import bootstrap as start_module
from palaestra.apps.scripts.launcher import snapshot
from palaestra.apps.scripts.launcher.play import load_family

TIMEOUT_SECONDS = 120


def ask(start, *plans):
    """What is answered, line by line."""
    reading, writing = os.pipe()
    lines = [start, *({"plan": plan} for plan in plans)]
    done = subprocess.run(
        [sys.executable, start_module.__file__, "play", str(writing)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=(writing,),
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    os.close(writing)
    with os.fdopen(reading) as stream:
        return [json.loads(line) for line in stream], done


@pytest.fixture
def start(scripts, tmp_path, ppo_agent):
    path = tmp_path / "made.safetensors"
    tensors, classes = snapshot.collect_tensors({"agent": ppo_agent})
    args = {"env_id": "CartPole-v1", "capture_video": False, "num_envs": 2}
    source = (scripts / "ppo.py").read_text()
    notes = {"source": source, "args": json.dumps(args), "classes": json.dumps(classes)}
    snapshot.write(path, tensors, notes)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"weights": str(path), "sha256": digest, "script": str(scripts / "ppo.py"), "parent": os.getpid()}


def plan(**changes):
    return {"env_id": "CartPole-v1", "seeds": [4, 5], "deterministic": True, **changes}


@pytest.mark.slow
@pytest.mark.full
def test_plans_are_answered_by_episodes_and_nonsense_by_one_sentence(start):
    answers, done = ask(start, plan(), plan(seeds=[5]), plan(env_id="CartPool-v1"))
    assert [one["episode"]["seed"] for one in answers[:-1]] == [4, 5, 5], done.stdout
    assert answers[1] == answers[2], "a seed gives what it gave before"
    assert answers[0]["family"] == "policy gradient"
    assert "CartPole" in answers[-1]["error"], "Gymnasium names the nearest"
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.full
def test_a_file_that_changed_since_it_was_verified_is_refused_before_anything_of_it_runs(start, tmp_path):
    Path(start["weights"]).write_bytes(b"other")
    answers, done = ask(start, plan())
    assert [one["error"] for one in answers] == [
        "The checkpoint cannot be played: made.safetensors is not the file that was verified."
    ]
    assert done.stdout == ""


def test_a_plugins_family_is_loaded_by_its_path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n    name = 'mine'\nFAMILY = Mine()\n")
    assert load_family(path).name == "mine"
