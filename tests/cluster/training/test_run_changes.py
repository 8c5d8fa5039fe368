"""What a scan finds; how it is applied elsewhere is in test_run_mirror.py."""

import importlib.util
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from palaestra.cluster.training.run_changes import (
    BLOCK_BYTES,
    NOT_RESUMED,
    Appended,
    CheckpointRemoved,
    CheckpointSaved,
    FilePatch,
    FileRemoved,
    RowsAppended,
    RunScanner,
    read_metrics,
    size_of,
)

spec = importlib.util.spec_from_file_location("toy_training", Path(__file__).with_name("toy_training.py"))
toy_training = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy_training)


@pytest.fixture
def training(tmp_path):
    made = toy_training.ToyTraining(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def scanner(training):
    return RunScanner(training.directory)


def paths(changes):
    others = CheckpointSaved | CheckpointRemoved | RowsAppended
    return [change.path for change in changes if not isinstance(change, others)]


def test_of_a_changed_file_only_the_changed_blocks_are_found(training, scanner):
    file = training.directory.artifacts / "table.bin"
    content = bytearray(10 * BLOCK_BYTES + 5)
    file.write_bytes(content)
    scanner.scan()
    content[3 * BLOCK_BYTES] = content[4 * BLOCK_BYTES] = content[-1] = 1
    file.write_bytes(content)
    (patch,) = [one for one in scanner.scan() if one.path == "artifacts/table.bin"]
    assert [(offset // BLOCK_BYTES, len(data)) for offset, data in patch.pieces] == [(3, 2 * BLOCK_BYTES), (10, 5)]
    assert patch.size == len(content)


def test_a_file_that_became_shorter_says_its_new_size(training, scanner):
    file = training.directory.artifacts / "table.bin"
    file.write_bytes(bytes(2 * BLOCK_BYTES))
    scanner.scan()
    file.write_bytes(bytes(BLOCK_BYTES))
    (patch,) = [one for one in scanner.scan() if one.path == "artifacts/table.bin"]
    assert patch == FilePatch("artifacts/table.bin", BLOCK_BYTES, ())


def test_files_that_are_gone_are_removed_and_locks_temporaries_and_links_never_sent(training, scanner):
    folder = training.directory.path
    (folder / "artifacts" / "a.txt").write_text("a")
    (folder / ".tmp-1-1-x").write_text("half")
    (folder / "artifacts" / "link").symlink_to("/etc/passwd")
    found = paths(scanner.scan())
    assert "artifacts/a.txt" in found
    assert not [name for name in found if "tmp-" in name or "link" in name or ".lock" in name or "-wal" in name]
    (folder / "artifacts" / "a.txt").unlink()
    assert FileRemoved("artifacts/a.txt") in scanner.scan()


def test_the_status_comes_last_and_the_metrics_before_the_checkpoints(training, scanner):
    training.train(1)
    training.save()
    changes = scanner.scan()
    names = [getattr(change, "path", "checkpoint") for change in changes]
    assert names[-1] == "status.json"
    assert names.index("metrics.db") < names.index("checkpoint")


def test_a_score_that_was_added_sends_the_sidecar_and_not_the_weights(training, scanner):
    training.train(1)
    training.save()
    scanner.scan()
    training.manager.update_metadata(1, score=0.5)
    (saved,) = [change for change in scanner.scan() if isinstance(change, CheckpointSaved)]
    assert (saved.epoch, saved.parts) == (1, {})
    assert size_of(saved) == len(saved.sidecar)


def test_of_the_transitions_what_was_added_travels_ahead_of_the_checkpoint_that_needs_it(training, scanner):
    training.train(1)
    training.save()
    first = [change for change in scanner.scan() if isinstance(change, RowsAppended | CheckpointSaved)]
    assert [type(one) for one in first] == [RowsAppended, CheckpointSaved]
    assert (first[0].offset, first[0].data) == (0, toy_training.transitions(0, 1))
    training.train(2)
    training.save()
    (rows,) = [change for change in scanner.scan() if isinstance(change, RowsAppended)]
    assert (rows.name, rows.offset, rows.data) == (first[0].name, len(first[0].data), toy_training.transitions(1, 3))
    assert size_of(rows) == len(rows.data)
    assert not [change for change in scanner.scan() if isinstance(change, RowsAppended)]


def test_a_checkpoint_whose_transitions_are_missing_is_not_sent(training, scanner):
    training.train(1)
    training.save()
    for path in (training.directory.checkpoints / "replay").iterdir():
        path.unlink()
    assert not [change for change in scanner.scan() if isinstance(change, RowsAppended | CheckpointSaved)]


def test_a_new_checkpoint_is_observed_without_a_scan(training, scanner):
    training.train(1)
    training.save()
    assert scanner.has_new_checkpoint()
    scanner.scan()
    assert not scanner.has_new_checkpoint()


def test_a_checkpoint_whose_weights_are_damaged_is_not_sent(training, scanner):
    training.train(1)
    training.save()
    weights = next(training.directory.checkpoints.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert not [change for change in scanner.scan() if isinstance(change, CheckpointSaved)]


def test_to_continue_a_run_logs_and_videos_need_not_travel(training):
    (training.directory.videos / "film.mp4").write_bytes(b"x")
    found = paths(RunScanner(training.directory, NOT_RESUMED).scan())
    assert "config.yaml" in found
    assert not [name for name in found if name.startswith(("logs/", "videos/"))]


def test_of_a_log_what_was_added_is_found(training, scanner):
    scanner.scan()
    with training.directory.log_file(0).open("a") as log:
        log.write("more\n")
    assert Appended("logs/rank_0.log", b"more\n") in scanner.scan()


def test_the_last_scan_finds_what_hides_behind_an_unchanged_stat(training, scanner, monkeypatch):
    """Two writes within one tick of the file system's clock look like one."""
    monkeypatch.setattr("palaestra.cluster.training.run_changes._signature", lambda path: (1, 2, 3))
    scanner.scan()
    training.train(1)
    assert "metrics.db" not in paths(scanner.scan())
    assert "metrics.db" in paths(scanner.scan(is_last=True))


def test_metrics_are_one_state_while_they_are_written_and_need_no_log(training, tmp_path):
    training.train(50)
    copy = tmp_path / "copy.db"
    copy.write_bytes(read_metrics(training.directory.metrics_file))
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (50,)


def test_metrics_that_are_no_database_are_left_out_with_a_warning(tmp_path, caplog):
    (tmp_path / "metrics.db").write_text("nonsense" * 200)
    assert read_metrics(tmp_path / "metrics.db") == b""
    assert "is not sent this time" in caplog.text
