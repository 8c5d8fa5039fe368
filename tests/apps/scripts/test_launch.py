from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from palaestra.apps.scripts.launch import (
    OWN_KEYS,
    LaunchConfig,
    LaunchSpec,
    copy_start_weights,
    prepare_directory,
    read_launch_spec,
    record_checkout,
    start_script,
)
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import RequestRefused
from palaestra.runs.files import read_json
from palaestra.runs.store import RunStore

CONFIG = {
    "script": "/a/ppo.py",
    "python": "/usr/bin/python3",
    "save_seconds": 5.0,
    "keep": 2,
    "wandb_mode": "offline",
    "sha256": "00",
    "argv": ["--seed", "3"],
    "settings": {"seed": 3},
}


def run_with(tmp_path, config):
    return RunStore(tmp_path).create(RunRequest("cleanrl", "ppo", {}), config)


def test_the_launch_spec_follows_the_configuration(tmp_path):
    directory = run_with(tmp_path, CONFIG)
    order = read_launch_spec(directory)
    assert order.argv == ("--seed", "3")
    assert order.environment()["WANDB_MODE"] == "offline"
    reported = order.for_launcher()
    assert (reported["script"], reported["argv"], reported["parent"]) == ("/a/ppo.py", ["--seed", "3"], os.getpid())


def test_without_a_key_nobody_is_requested_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    order = read_launch_spec(run_with(tmp_path, {**CONFIG, "wandb_mode": ""}))
    assert order.environment()["WANDB_MODE"] == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert order.environment()["WANDB_MODE"] == "online"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert order.environment()["WANDB_MODE"] == "disabled"


def test_torchs_threads_sleep_soon_unless_the_user_has_chosen_how_they_wait(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    order = read_launch_spec(run_with(tmp_path, CONFIG))
    assert order.environment()["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert "GOMP_SPINCOUNT" not in order.environment()


def test_a_configuration_of_something_else_is_refused(tmp_path):
    with pytest.raises(DamagedFile, match="does not describe a script's run"):
        read_launch_spec(run_with(tmp_path, {"total_steps": 5}))


def test_what_a_script_writes_for_tensorboard_lands_in_the_runs_own_folder(tmp_path):
    directory = run_with(tmp_path, CONFIG)
    order = read_launch_spec(directory)
    prepare_directory(directory, order)
    (order.outbox / "left.safetensors").write_text("")
    prepare_directory(directory, order)
    assert (directory.path / "runs").resolve() == directory.tensorboard
    assert list(order.outbox.iterdir()) == []


def git(checkout, *arguments):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", "-C", str(checkout), *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_commit_of_the_script_s_checkout_is_recorded(tmp_path):
    script = tmp_path / "checkout" / "cleanrl" / "ppo.py"
    script.parent.mkdir(parents=True)
    script.write_text("print(1)\n")
    git(tmp_path, "init", "checkout")
    git(script.parent, "add", ".")
    git(script.parent, "commit", "-m", "first")
    commit = git(script.parent, "rev-parse", "HEAD")
    directory = run_with(tmp_path / "runs", {**CONFIG, "script": str(script)})
    order = read_launch_spec(directory)
    assert record_checkout(directory, order) == commit
    assert read_json(directory.environment_file)["git"] == {"commit": commit, "dirty": False}
    script.write_text("print(2)\n")
    record_checkout(directory, order)
    described = read_json(directory.environment_file)
    assert described["git"] == {"commit": commit, "dirty": True}
    assert described["packages"]["palaestra"], "the rest is as it was"


def test_a_script_outside_of_a_repository_has_no_commit(tmp_path):
    directory = run_with(tmp_path / "runs", {**CONFIG, "script": str(tmp_path / "ppo.py")})
    assert record_checkout(directory, read_launch_spec(directory)) == ""
    assert read_json(directory.environment_file)["git"] is None


def test_our_own_settings_are_few_and_checked():
    assert OWN_KEYS == ("script", "python", "save_seconds", "keep", "start_from", "live_budget", "wandb_mode")
    with pytest.raises(ValidationError):
        LaunchConfig(save_seconds=-1)
    with pytest.raises(ValidationError):
        LaunchConfig(wandb_mode="sometimes")


@pytest.fixture
def order_of(tmp_path):
    """An order to an interpreter that has nothing installed, so that it starts in a blink."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    python.chmod(0o700)

    def make(text):
        script = tmp_path / "made.py"
        script.write_text(text)
        return LaunchSpec(tmp_path, str(python), str(script), "", (), {}, 0.0, 1, "")

    return make


def all_messages(child):
    found = []
    while child.process.poll() is None:
        found += child.messages(0.1)
    return found + child.drain()


def test_a_scripts_messages_arrive_and_its_code_is_known(order_of):
    with start_script(order_of("global_step = 7\n")) as child:
        found = all_messages(child)
    assert found[0][0] == "adapted"
    assert found[-1] == ["ended", "finished", "", 7, 0]
    assert child.process.returncode == 0


def test_a_script_that_dies_says_nothing_more(order_of):
    with start_script(order_of("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")) as child:
        found = all_messages(child)
    assert "ended" not in {message[0] for message in found}
    assert child.process.returncode == -signal.SIGKILL


def test_no_script_outlives_the_block(order_of):
    with start_script(order_of("import time\nwhile True:\n    time.sleep(1)\n")) as child:
        while not child.messages(0.1):
            assert child.process.poll() is None
    assert child.process.returncode == -signal.SIGKILL


def test_a_traceback_is_reported_by_its_last_line(order_of, capfd):
    with start_script(order_of("raise ValueError('no such thing')\n")) as child:
        found = all_messages(child)
    assert found[-1][:3] == ["ended", "failed", "ValueError: no such thing"]
    assert "Traceback" in capfd.readouterr().err


@pytest.fixture
def saved(runs, scripts, ppo_agent):
    return runs.saved(scripts / "ppo.py", {"agent": ppo_agent})


def test_the_checkpoint_that_was_meant_is_handed_over_as_a_file_of_its_own(runs, scripts, saved):
    directory = runs.make(scripts / "ppo.py", start_from=saved.id)
    order = read_launch_spec(directory)
    assert order.start_from == str(saved.checkpoints / "model_0001.yaml")
    prepare_directory(directory, order)
    ready = copy_start_weights(order)
    assert ready.started_from == f"{saved.id}:1"
    assert Path(ready.start["weights"]).read_bytes() == next(iter(CheckpointManager(saved).open().parts.values()))
    assert ready.for_launcher()["start"] == ready.start


def test_without_one_nothing_is_handed_over(runs, scripts):
    order = read_launch_spec(runs.make(scripts / "ppo.py"))
    assert copy_start_weights(order) is order


@pytest.mark.parametrize(
    ("target", "reported"),
    [("absent", "No run named 'absent'"), ("SAVED", "holds Agent; dqn.py has no class of that name")],
)
def test_what_cannot_be_begun_with_is_refused_when_it_is_requested(runs, scripts, saved, target, reported):
    with pytest.raises(RequestRefused, match=reported) as refused:
        runs.make(scripts / "dqn.py", start_from=target.replace("SAVED", saved.id))
    assert refused.value.field_errors[0].key == "start_from"
