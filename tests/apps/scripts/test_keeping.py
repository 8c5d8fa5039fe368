import hashlib
import json

import pytest
import torch

from palaestra.apps.scripts.keeping import Keeper
from palaestra.apps.scripts.launcher import snapshot
from palaestra.apps.scripts.ledger import Ledger
from palaestra.apps.scripts.notes import read_notes
from palaestra.apps.scripts.order import read_order
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.clock import SystemClock
from palaestra.runner.session import RunSession
from palaestra.runs.journal import read_journal

SOURCE = "print(1)\n"
NOTES = {
    "script": "ppo.py",
    "sha256": hashlib.sha256(SOURCE.encode()).hexdigest(),
    "source": SOURCE,
    "args": json.dumps({"env_id": "CartPole-v1", "seed": 3}),
    "classes": json.dumps({"agent": "Agent"}),
}


@pytest.fixture
def directory(runs, scripts):
    return runs.make(scripts / "ppo.py", keep=2)


@pytest.fixture
def keeper(directory):
    ledger = Ledger()
    ledger.take([["episode", 0, 20.0, 20, True, 40, 1.0]])
    return Keeper(RunSession(directory, 0, SystemClock()), read_order(directory), ledger)


def snapshot_file(tmp_path, notes=NOTES):
    path = tmp_path / "one.safetensors"
    snapshot.write(path, {"agent.weight": torch.arange(4.0)}, notes)
    return path


def test_a_snapshot_becomes_a_checkpoint_with_the_script_in_it(keeper, directory, tmp_path):
    path = snapshot_file(tmp_path)
    saved = keeper.keep(path, 40)
    opened = CheckpointManager(directory).open("latest")
    assert opened.checkpoint.agent_step == 40
    assert opened.checkpoint.avg_reward == 20.0
    assert opened.checkpoint.env == {"id": "CartPole-v1"}
    assert opened.checkpoint.policy["classes"] == {"agent": "Agent"}
    assert opened.checkpoint.seed == 3
    weights, _ = CheckpointManager(directory).load_weights()
    assert weights["agent.weight"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert read_notes(next(iter(opened.parts.values())))["source"] == SOURCE
    assert saved.epoch == 1
    assert not path.exists()


def test_checkpoints_are_numbered_on_and_only_some_are_kept(keeper, directory, tmp_path):
    for step in (1, 2, 3):
        keeper.keep(snapshot_file(tmp_path), step)
    assert [one.epoch for one in CheckpointManager(directory).list_all_checkpoints()] == [2, 3]


def test_a_torn_snapshot_is_told_and_does_not_stop_the_script(keeper, directory, tmp_path):
    path = snapshot_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    assert keeper.keep(path, 5) is None
    assert keeper.keep(tmp_path / "absent", 6) is None
    failed = [entry.data["failures"] for entry in read_journal(directory.journal_file) if "failed" in entry.event]
    assert failed == [1, 2]
    assert CheckpointManager(directory).list_all_checkpoints() == []
