import json

import pytest

from palaestra.checkpoints.log import LOG_NAME, LogEntry, entry_of, read_log, update_log
from palaestra.contracts.errors import DamagedFile


def test_an_entry_says_when_where_and_after_how_long(describe):
    assert entry_of(describe(10, metrics={"episodes": 321.0})) == LogEntry(
        epoch=10,
        agent_step=5120,
        episode=321,
        time="2023-11-14T22:13:20.250+00:00",
        total_time=12.5,
        file="model_0010.safetensors",
    )


def test_episodes_that_nobody_counted_are_unknown_not_zero(describe):
    assert entry_of(describe(10)).episode is None


def test_what_is_written_is_read_back_in_order_of_epochs(tmp_path, describe):
    written = update_log(tmp_path, [describe(10000), describe(9999)])
    assert [entry.epoch for entry in written] == [9999, 10000]
    assert read_log(tmp_path) == written


def test_what_retention_removed_stays_in_the_log_and_is_marked(tmp_path, describe):
    update_log(tmp_path, [describe(1), describe(2)])
    update_log(tmp_path, [describe(2), describe(3)])
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
    update_log(tmp_path, [describe(1)])
    assert [entry.epoch for entry in read_log(tmp_path)] == [1]


def test_a_log_that_is_up_to_date_is_not_written_again(tmp_path, describe):
    update_log(tmp_path, [describe(1)])
    before = (tmp_path / LOG_NAME).stat().st_ino
    update_log(tmp_path, [describe(1)])
    assert (tmp_path / LOG_NAME).stat().st_ino == before


def test_other_programs_can_read_it(tmp_path, describe):
    update_log(tmp_path, [describe(1)])
    content = json.loads((tmp_path / LOG_NAME).read_text())
    assert content["schema_version"] == 1
    assert content["checkpoints"][0]["file"] == "model_0001.safetensors"
