from palaestra.apps.matmul import search_log
from palaestra.apps.matmul.search_log import log_checkpoint
from palaestra.checkpoints.log import LOG_NAME, read_log


def test_every_checkpoint_has_its_line_and_only_the_last_has_its_file(tmp_path):
    numbers = [log_checkpoint(tmp_path, flips, flips / 10, "search.json") for flips in (100, 250)]
    assert numbers == [1, 2]
    entries = read_log(tmp_path)
    assert [(entry.epoch, entry.agent_step, entry.total_time, entry.removed) for entry in entries] == [
        (1, 100, 10.0, True),
        (2, 250, 25.0, False),
    ]
    assert {entry.file for entry in entries} == {"search.json"}


def test_a_damaged_log_is_begun_anew(tmp_path):
    (tmp_path / LOG_NAME).write_text("{")
    log_checkpoint(tmp_path, 1, 1.0, "search.json")
    assert len(read_log(tmp_path)) == 1


def test_a_long_search_keeps_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr(search_log, "MOST_ENTRIES", 3)
    for flips in range(6):
        log_checkpoint(tmp_path, flips, 0.0, "search.json")
    assert [entry.agent_step for entry in read_log(tmp_path)] == [3, 4, 5]
