from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import EVENTS, Journal, read_journal

WRITE = """
import sys; from pathlib import Path
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import Journal
journal = Journal(RunDirectory(Path(sys.argv[1])), rank=int(sys.argv[2]))
print("ready", flush=True); input()
for step in range(300): journal.record("run.heartbeat", step=step, phase="x" * 200)
"""


class JumpingClock:
    def __init__(self, *times: float) -> None:
        self.times = list(times)

    def now(self) -> float:
        return self.times.pop(0)

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def location(tmp_path) -> RunDirectory:
    return RunDirectory(tmp_path / "01J8Z3K4M5N6P7Q8R9S0T1V2W3").make()


def test_an_entry_goes_out_and_comes_back(location):
    Journal(location, JumpingClock(12.5), rank=1).record("checkpoint.saved", epoch=3, step=512, score=0.5)
    (entry,) = read_journal(location.journal_file)
    assert (entry.at, entry.event, entry.level, entry.rank) == (12.5, "checkpoint.saved", "info", 1)
    assert entry.data == {"epoch": 3, "step": 512, "score": 0.5}


def test_every_line_carries_run_and_rank_and_is_strict_json(location):
    Journal(location, rank=2).record("run.failed", error="line\nbreak \x1b[31m", step=math.nan)
    (line,) = location.journal_file.read_text().splitlines()
    data = json.loads(line, parse_constant=pytest.fail)
    assert (data["run"], data["rank"]) == (location.id, 2)
    assert "\x1b" not in line


def test_the_level_is_that_of_the_table_unless_reported_otherwise(location):
    journal = Journal(location)
    journal.record("run.failed")
    journal.record("run.failed", level="warning")
    assert [entry.level for entry in read_journal(location.journal_file)] == ["error", "warning"]


@pytest.mark.fault("G14")
def test_the_order_is_that_of_writing_when_the_clock_jumps_back(location):
    journal = Journal(location, JumpingClock(100_000.0, 10.0, 50.0))
    for event in ("run.started", "run.heartbeat", "run.finished"):
        journal.record(event)
    assert [entry.event for entry in read_journal(location.journal_file)] == [
        "run.started",
        "run.heartbeat",
        "run.finished",
    ]


def test_a_torn_line_costs_itself_only(location):
    journal = Journal(location)
    journal.record("run.started")
    whole = location.journal_file.read_bytes()
    location.journal_file.write_bytes(whole + whole[: len(whole) // 2])
    assert [entry.event for entry in read_journal(location.journal_file)] == ["run.started"]
    journal.record("run.resumed")
    assert [entry.event for entry in read_journal(location.journal_file)] == ["run.started", "run.resumed"]


def test_every_way_of_cutting_a_journal_leaves_its_whole_lines_readable(location):
    journal = Journal(location)
    for event in ("run.started", "run.finished"):
        journal.record(event)
    content = location.journal_file.read_bytes()
    for length in range(len(content)):
        location.journal_file.write_bytes(content[:length])
        readable = content[:length].count(b"\n") + (content[length : length + 1] == b"\n")  # cut just before a line end
        assert len(read_journal(location.journal_file)) == readable


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"null",
        b"\xff\xff",
        b'{"at": "x"}',
        b"[" * 100_000,
        b'{"at": 1, "event": 2}',
        b'{"at": 1, "event": "run.started", "level": "info", "run": "R", "rank": Infinity, "data": {}}',
        b'{"at": 1' + b"0" * 400 + b', "event": "run.started", "level": "info", "run": "R", "rank": 0, "data": {}}',
    ],
    ids=range(8),
)
def test_lines_that_are_not_entries_are_passed_over(location, line):
    location.journal_file.write_bytes(line + b"\n")
    assert read_journal(location.journal_file) == []


def test_an_absent_journal_is_empty(tmp_path):
    assert read_journal(tmp_path / "journal.jsonl") == []


def test_a_full_disk_is_reported_once_and_never_raised(tmp_path, caplog, monkeypatch):
    location = RunDirectory(tmp_path)
    monkeypatch.setattr(RunDirectory, "journal_file", Path("/dev/full"))
    journal = Journal(location)
    journal.record("run.heartbeat")
    assert len(caplog.records) == 1
    for _ in range(2):
        journal.record("run.heartbeat")
    assert journal.failures == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No space left" in caplog.text


def test_an_event_or_field_that_is_not_in_the_table_is_an_error_in_tests(location):
    journal = Journal(location)
    with pytest.warns(UserWarning, match=r"run\.begun"):
        journal.record("run.begun")
    with pytest.warns(UserWarning, match="no field colour"):
        journal.record("run.started", colour="red")
    with pytest.raises(UserWarning):
        journal.record("run.begun")
    found = [(entry.event, entry.level) for entry in read_journal(location.journal_file)]
    assert found == [("run.begun", "info"), ("run.started", "info")]


def test_who_says_no_rank_is_the_leader_and_a_line_holds_microseconds_and_letters_as_they_are(location):
    Journal(location, JumpingClock(12.123456789)).record("run.failed", error="größer")
    line = location.journal_file.read_text(encoding="utf-8")
    assert line.startswith('{"at":12.123457,"event":"run.failed","level":"error",')
    assert '"rank":0,"data":{"error":"größer"}}' in line


def test_several_processes_keep_one_journal_without_tearing_lines(location, start_python):
    writers = [start_python(WRITE, location.path, rank) for rank in range(2)]
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert [writer.wait(30) for writer in writers] == [0, 0]
    entries = read_journal(location.journal_file)
    for rank in range(2):
        assert [entry.data["step"] for entry in entries if entry.rank == rank] == list(range(300))


PAGE = Path(__file__).parents[2] / "docs" / "events.md"


def test_every_event_has_a_level_a_meaning_and_a_name_of_two_words():
    for name, spec in EVENTS.items():
        assert re.fullmatch(r"[a-z]+\.[a-z]+", name)
        assert spec.level in {"debug", "info", "warning", "error"}
        assert spec.meaning
        assert len(set(spec.fields)) == len(spec.fields)


def test_the_page_for_people_says_what_the_table_says():
    rows = re.findall(r"^\| `([a-z.]+)` \| (\w+) \| (.*?) \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    written = {name: (level, re.findall(r"`(\w+)`", fields), meaning) for name, level, fields, meaning in rows}
    assert written == {name: (spec.level, list(spec.fields), spec.meaning) for name, spec in EVENTS.items()}
