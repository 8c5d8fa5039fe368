import os
import subprocess

import pytest

from palaestra.apps.scripts.order import make_room, read_order, record_checkout
from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunRequest
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


def test_an_order_is_what_the_configuration_says(tmp_path):
    directory = run_with(tmp_path, CONFIG)
    order = read_order(directory)
    assert order.argv == ("--seed", "3")
    assert order.environment()["WANDB_MODE"] == "offline"
    told = order.for_launcher()
    assert (told["script"], told["argv"], told["parent"]) == ("/a/ppo.py", ["--seed", "3"], os.getpid())


def test_without_a_key_nobody_is_asked_for_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    order = read_order(run_with(tmp_path, {**CONFIG, "wandb_mode": ""}))
    assert order.environment()["WANDB_MODE"] == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert order.environment()["WANDB_MODE"] == "online"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert order.environment()["WANDB_MODE"] == "disabled"


def test_torchs_threads_sleep_soon_unless_the_user_has_chosen_how_they_wait(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    order = read_order(run_with(tmp_path, CONFIG))
    assert order.environment()["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert "GOMP_SPINCOUNT" not in order.environment()


def test_a_configuration_of_something_else_is_refused(tmp_path):
    with pytest.raises(DamagedFile, match="does not describe a script's run"):
        read_order(run_with(tmp_path, {"total_steps": 5}))


def test_what_a_script_writes_for_tensorboard_lands_in_the_runs_own_folder(tmp_path):
    directory = run_with(tmp_path, CONFIG)
    order = read_order(directory)
    make_room(directory, order)
    (order.outbox / "left.safetensors").write_text("")
    make_room(directory, order)
    assert (directory.path / "runs").resolve() == directory.tensorboard
    assert list(order.outbox.iterdir()) == []


def git(checkout, *words):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", "-C", str(checkout), *identity, *words], capture_output=True, text=True, check=True)
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
    order = read_order(directory)
    assert record_checkout(directory, order) == commit
    assert read_json(directory.environment_file)["git"] == {"commit": commit, "dirty": False}
    script.write_text("print(2)\n")
    record_checkout(directory, order)
    described = read_json(directory.environment_file)
    assert described["git"] == {"commit": commit, "dirty": True}
    assert described["packages"]["palaestra"], "the rest is as it was"


def test_a_script_outside_of_a_repository_has_no_commit(tmp_path):
    directory = run_with(tmp_path / "runs", {**CONFIG, "script": str(tmp_path / "ppo.py")})
    assert record_checkout(directory, read_order(directory)) == ""
    assert read_json(directory.environment_file)["git"] is None
