from __future__ import annotations

import pytest

from palaestra.checkpoints.durable import verify
from palaestra.checkpoints.names import model_name
from palaestra.core.run import RunState
from palaestra.runs.documents import read_request
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.web import settling
from palaestra.web.parcels import Parcel
from palaestra.web.settling import settle


@pytest.fixture
def parcel(make_run, save_checkpoint, tmp_path):
    directory = make_run("origin")
    checkpoint = save_checkpoint(directory, 10)
    (directory.checkpoints / model_name(10)).rename(tmp_path / "weights")
    return Parcel(checkpoint, tmp_path / "weights")


def test_an_uploaded_checkpoint_is_a_finished_run_with_its_origin_written_down(parcel, tmp_path):
    store = RunStore(tmp_path / "elsewhere")
    directory = settle(store, parcel, "from-a-friend")
    checkpoint, _ = verify(directory.checkpoints, 10)
    assert checkpoint.score == 1.5
    record = read_record(directory)
    assert (record.state, record.name, record.epoch, record.exit_code) == (RunState.FINISHED, "from-a-friend", 10, 0)
    assert record.pid is None
    origin = read_request(directory).config["origin"]
    assert origin == {"run": parcel.checkpoint.run, "run_name": "first", "epoch": 10}


def test_a_disk_that_says_no_leaves_no_run(parcel, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(settling, "rewrite_sidecar", refuse)
    store = RunStore(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="No space"):
        settle(store, parcel, "")
    assert store.list() == []
