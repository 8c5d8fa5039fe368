import os

import pytest

from palaestra.apps.cleanrl.order import make_room, read_order
from palaestra.contracts.errors import DamagedFile
from palaestra.contracts.run import RunRequest
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
