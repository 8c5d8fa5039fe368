from __future__ import annotations

import hashlib
import json

import pytest
import torch

from palaestra.apps.scripts.checkpoints import CheckpointImporter, read_metadata
from palaestra.apps.scripts.launch import read_launch_spec
from palaestra.apps.scripts.launcher import snapshot
from palaestra.apps.scripts.metrics import ScriptMetrics
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.clock import SystemClock
from palaestra.core.errors import DamagedFile
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
def importer(directory):
    metrics = ScriptMetrics()
    metrics.take([["episode", 0, 20.0, 20, True, 40, 1.0]])
    return CheckpointImporter(RunSession(directory, 0, SystemClock()), read_launch_spec(directory), metrics)


def snapshot_file(tmp_path, metadata=NOTES):
    path = tmp_path / "one.safetensors"
    snapshot.write(path, {"agent.weight": torch.arange(4.0)}, metadata)
    return path


def test_a_snapshot_becomes_a_checkpoint_with_the_script_in_it(importer, directory, tmp_path):
    path = snapshot_file(tmp_path)
    saved = importer.commit(path, 40)
    opened = CheckpointManager(directory).open("latest")
    assert opened.checkpoint.agent_step == 40
    assert opened.checkpoint.avg_reward == 20.0
    assert opened.checkpoint.env == {"id": "CartPole-v1"}
    assert opened.checkpoint.policy["classes"] == {"agent": "Agent"}
    assert opened.checkpoint.seed == 3
    weights, _ = CheckpointManager(directory).load_weights()
    assert weights["agent.weight"].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert read_metadata(next(iter(opened.parts.values())))["source"] == SOURCE
    assert saved.epoch == 1
    assert not path.exists()


def test_checkpoints_are_numbered_on_and_only_some_are_stored(importer, directory, tmp_path):
    for step in (1, 2, 3):
        importer.commit(snapshot_file(tmp_path), step)
    assert [one.epoch for one in CheckpointManager(directory).list_all_checkpoints()] == [2, 3]


def test_a_torn_snapshot_is_reported_and_does_not_stop_the_script(importer, directory, tmp_path):
    path = snapshot_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    assert importer.commit(path, 5) is None
    assert importer.commit(tmp_path / "absent", 6) is None
    failed = [entry.data["failures"] for entry in read_journal(directory.journal_file) if "failed" in entry.event]
    assert failed == [1, 2]
    assert CheckpointManager(directory).list_all_checkpoints() == []


SCRIPT_SOURCE = "print('grüß')\n"
METADATA = {
    "script": "made.py",
    "sha256": hashlib.sha256(SCRIPT_SOURCE.encode()).hexdigest(),
    "source": SCRIPT_SOURCE,
    "args": "{}",
    "classes": "{}",
}


def file_with(metadata):
    header = json.dumps({"__metadata__": metadata}).encode()
    return len(header).to_bytes(8, "little") + header


def test_notes_come_back_as_they_were_written():
    assert read_metadata(file_with(METADATA)) == {**METADATA, "env_id": ""}
    assert read_metadata(file_with({**METADATA, "env_id": "CartPole-v1"}))["env_id"] == "CartPole-v1"


def test_a_file_without_them_is_refused_by_what_it_lacks():
    with pytest.raises(DamagedFile, match="metadata lacks source"):
        read_metadata(file_with({key: value for key, value in METADATA.items() if key != "source"}))


def test_a_script_that_was_exchanged_is_refused():
    with pytest.raises(DamagedFile, match="differs from the recorded one"):
        read_metadata(file_with({**METADATA, "source": "print('other')\n"}))


def test_a_torn_file_is_refused():
    with pytest.raises(DamagedFile):
        read_metadata(file_with(METADATA)[:40])
