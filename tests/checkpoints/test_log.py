from __future__ import annotations

import json
import os
import tracemalloc

import pytest

from palaestra.checkpoints import log as module
from palaestra.checkpoints.durable import REAL
from palaestra.checkpoints.files import RealFileSystem, SaveFailed
from palaestra.checkpoints.log import COPIED_BYTES, LOG_NAME, CheckpointLog, LogEntry, LogLines, entry_of, read_log
from palaestra.core.errors import DamagedFile


def test_an_entry_says_when_where_and_after_how_long(describe):
    assert entry_of(describe(10, metrics={"episodes": 321.0})) == LogEntry(
        epoch=10,
        agent_step=5120,
        episode=321,
        time="2023-11-14T22:13:20.250+00:00",
        total_time=12.5,
        file="model_0010.safetensors",
    )


def test_the_file_has_the_names_that_other_tools_look_for(tmp_path, describe):
    CheckpointLog(tmp_path).update([describe(10)])
    (entry,) = json.loads((tmp_path / LOG_NAME).read_text())["checkpoints"]
    assert (entry["timestamp"], entry["step"], entry["run_duration"]) == ("2023-11-14T22:13:20.250+00:00", 5120, 12.5)
    assert (entry["time"], entry["agent_step"], entry["total_time"]) == ("2023-11-14T22:13:20.250+00:00", 5120, 12.5)


def test_a_log_from_before_those_names_is_read(tmp_path, describe):
    old = {"schema_version": 1, "checkpoints": [vars(entry_of(describe(10)))]}
    (tmp_path / LOG_NAME).write_text(json.dumps(old))
    assert read_log(tmp_path) == [entry_of(describe(10))]


def test_episodes_that_nobody_counted_are_unknown_not_zero(describe):
    assert entry_of(describe(10)).episode is None


def test_what_is_written_is_read_back_in_order_of_epochs(tmp_path, describe):
    CheckpointLog(tmp_path).update([describe(10000), describe(9999)])
    assert read_log(tmp_path) == [entry_of(describe(epoch)) for epoch in (9999, 10000)]


def test_what_retention_removed_stays_in_the_log_and_is_marked(tmp_path, describe):
    CheckpointLog(tmp_path).update([describe(1), describe(2)])
    CheckpointLog(tmp_path).update([describe(2), describe(3)])
    assert [(entry.epoch, entry.removed) for entry in read_log(tmp_path)] == [(1, True), (2, False), (3, False)]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"schema_version": 1}',
        '{"schema_version": 9, "checkpoints": []}',
        '{"schema_version": 1, "checkpoints": [{"epoch": 1}]}',
        '{"schema_version": 1, "checkpoints": 5}',
        "[" * 100_000,
    ],
    ids=range(8),
)
def test_a_damaged_log_is_written_anew(tmp_path, describe, damage):
    (tmp_path / LOG_NAME).write_text(damage)
    with pytest.raises(DamagedFile):
        read_log(tmp_path)
    CheckpointLog(tmp_path).update([describe(1)])
    assert [entry.epoch for entry in read_log(tmp_path)] == [1]


def test_a_log_that_is_up_to_date_is_not_written_again(tmp_path, describe):
    CheckpointLog(tmp_path).update([describe(1)])
    before = (tmp_path / LOG_NAME).stat().st_ino
    CheckpointLog(tmp_path).update([describe(1)])
    assert (tmp_path / LOG_NAME).stat().st_ino == before


def test_other_programs_can_read_it(tmp_path, describe):
    CheckpointLog(tmp_path).update([describe(1)])
    content = json.loads((tmp_path / LOG_NAME).read_text())
    assert content["schema_version"] == 1
    assert content["checkpoints"][0]["file"] == "model_0001.safetensors"


def flags(directory):
    return [(entry.epoch, entry.removed) for entry in read_log(directory)]


def test_a_save_words_what_it_changes_however_long_the_run_has_been(tmp_path, describe, monkeypatch):
    worded = []
    usual = module._encode_entry
    monkeypatch.setattr(module, "_encode_entry", lambda entry: worded.append(entry.epoch) or usual(entry))
    log = CheckpointLog(tmp_path)
    for epoch in range(1, 200):
        worded.clear()
        log.update([describe(one) for one in range(max(1, epoch - 2), epoch + 1)])
        assert sorted(worded) == [one for one in (epoch - 3, epoch) if one > 0]
    assert flags(tmp_path) == [(epoch, epoch < 197) for epoch in range(1, 200)]


def test_it_goes_on_from_what_is_in_the_file(tmp_path, describe):
    CheckpointLog(tmp_path).update([describe(1), describe(2)])
    CheckpointLog(tmp_path).update([describe(2), describe(3)])
    assert flags(tmp_path) == [(1, True), (2, False), (3, False)]


def test_what_another_process_wrote_meanwhile_stays(tmp_path, describe):
    ours = CheckpointLog(tmp_path)
    ours.update([describe(1), describe(2)])
    CheckpointLog(tmp_path).update([describe(2), describe(5)])
    ours.update([describe(2), describe(5), describe(6)])
    assert flags(tmp_path) == [(1, True), (2, False), (5, False), (6, False)]


def test_a_log_that_was_removed_meanwhile_is_written_anew(tmp_path, describe):
    log = CheckpointLog(tmp_path)
    log.update([describe(1)])
    (tmp_path / LOG_NAME).unlink()
    log.update([describe(1), describe(2)])
    assert flags(tmp_path) == [(1, False), (2, False)]


def test_an_epoch_that_is_saved_anew_takes_its_place(tmp_path, describe):
    """A run that was killed goes on from before its last checkpoint."""
    log = CheckpointLog(tmp_path)
    log.update([describe(1), describe(3)])
    log.update([describe(1), describe(2), describe(3, total_time=99.0)])
    assert [(entry.epoch, entry.total_time) for entry in read_log(tmp_path)] == [(1, 12.5), (2, 12.5), (3, 99.0)]


def test_after_a_failed_write_nothing_is_taken_for_written(tmp_path, describe, monkeypatch):
    log = CheckpointLog(tmp_path)
    log.update([describe(1)])

    def full(path, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(REAL), "write_temporary", staticmethod(full))
        with pytest.raises(SaveFailed):
            log.update([describe(1), describe(2)])
    log.update([describe(1), describe(2)])
    assert flags(tmp_path) == [(1, False), (2, False)]


def test_what_is_gone_takes_no_memory_however_long_the_run_has_been(tmp_path, describe):
    log = CheckpointLog(tmp_path)
    log.update([describe(epoch) for epoch in range(1, 10_001)])
    log.update([describe(10_000)])
    tracemalloc.start()
    try:
        for epoch in range(10_001, 10_011):
            log.update([describe(epoch - 1), describe(epoch)])
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert flags(tmp_path)[-2:] == [(10_009, False), (10_010, False)]
    assert len(flags(tmp_path)) == 10_010
    assert (tmp_path / LOG_NAME).stat().st_size > 1_500_000
    assert held < 20_000
    assert most < 300_000


def test_an_epoch_that_was_removed_can_be_saved_again(tmp_path, describe):
    log = CheckpointLog(tmp_path)
    log.update([describe(epoch) for epoch in range(1, 6)])
    log.update([describe(1)])
    log.update([describe(1), describe(3, total_time=99.0)])
    log.update([describe(3, total_time=99.0), describe(4, total_time=100.0)])
    assert flags(tmp_path) == [(1, True), (2, True), (3, False), (4, False), (5, True)]
    assert [entry.total_time for entry in read_log(tmp_path)] == [12.5, 12.5, 99.0, 100.0, 12.5]


@pytest.fixture
def lines(tmp_path):
    return LogLines(tmp_path / "log", b"[\n")


def text(directory):
    return (directory / "log").read_text()


def test_lines_stand_between_head_and_tail(tmp_path, lines):
    lines.write({1: b"one", 2: b"two"}, {1, 2})
    assert text(tmp_path) == "[\none,\ntwo\n]}\n"


def test_changes_of_any_length_come_where_the_line_was_and_new_ones_at_the_end(tmp_path, lines):
    lines.write({1: b"one", 2: b"two", 3: b"three"}, {1, 2, 3})
    lines.change({1: b"first of all", 4: b"four", 5: b"five"}, {2, 3, 4, 5})
    assert text(tmp_path) == "[\nfirst of all,\ntwo,\nthree,\nfour,\nfive\n]}\n"
    lines.change({2: b"2", 4: b"", 5: b"the fifth"}, {3, 5})
    lines.change({3: b"THREE", 5: b"V", 6: b"six"}, {6})
    assert text(tmp_path) == "[\nfirst of all,\n2,\nTHREE,\n,\nV,\nsix\n]}\n"


def test_only_what_was_said_to_change_and_what_is_newer_can(lines):
    lines.write({1: b"one", 3: b"three"}, {3})
    assert lines.is_editable([3, 4])
    assert not lines.is_editable([1])
    assert not lines.is_editable([2])


def test_a_file_of_many_pieces_comes_over_whole(tmp_path, lines):
    long = {epoch: f"{epoch:0100d}".encode() for epoch in range(3 * COPIED_BYTES // 100)}
    lines.write(long, {1, 2000})
    lines.change({1: b"one", 2000: b"two thousand"}, ())
    expected = list((long | {1: b"one", 2000: b"two thousand"}).values())
    assert (tmp_path / "log").read_bytes() == b"[\n" + b",\n".join(expected) + b"\n]}\n"


@pytest.mark.parametrize("by", ["another file", "more text", "nothing"])
def test_what_somebody_else_wrote_is_not_known(tmp_path, lines, by):
    assert not lines.are_logged
    lines.write({1: b"one"}, {1})
    assert lines.are_logged
    if by == "another file":
        (tmp_path / "new").write_text(text(tmp_path))
        (tmp_path / "new").replace(tmp_path / "log")
    elif by == "more text":
        with (tmp_path / "log").open("a") as file:
            file.write(" ")
    else:
        (tmp_path / "log").unlink()
    assert not lines.are_logged


def test_a_file_that_became_shorter_is_a_failed_save_and_stays_as_it_is(tmp_path, lines):
    lines.write({1: b"one", 2: b"two"}, {2})
    os.truncate(tmp_path / "log", 4)
    with pytest.raises(SaveFailed, match="became shorter"):
        lines.change({2: b"TWO"}, ())
    assert text(tmp_path) == "[\non"
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_after_a_failed_write_nothing_is_known(tmp_path):
    class Full(RealFileSystem):
        is_full = False

        def write_temporary(self, path, data):
            if self.is_full:
                raise OSError(28, "No space left on device")
            super().write_temporary(path, data)

    disk = Full()
    lines = LogLines(tmp_path / "log", b"[\n", disk)
    lines.write({1: b"one"}, {1})
    disk.is_full = True
    with pytest.raises(SaveFailed):
        lines.change({1: b"ONE"}, {1})
    assert not lines.are_logged
    assert text(tmp_path) == "[\none\n]}\n"
