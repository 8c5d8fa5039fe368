"""What a soak keeps of a moment in which something did not come back."""

import json
import os
import sys

import pytest

from palaestra.daemon.tree import find_process
from palaestra.runs.directory import RunDirectory
from palaestra.testing import soak_house
from palaestra.testing.soak_evidence import LINES, evidence, last_lines
from palaestra.testing.soak_house import RUNS, House


def test_of_a_long_file_only_the_end_is_kept(tmp_path):
    path = tmp_path / "log"
    path.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert last_lines(path) == [f"line {number}" for number in range(10_000 - LINES, 10_000)]


def test_a_file_that_is_not_there_has_no_end(tmp_path):
    assert last_lines(tmp_path / "log") == []


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setattr(soak_house, "PROGRAM", (sys.executable, "-c", "input()"))
    house = House(tmp_path)
    house.ids[RUNS[0]] = "01A"
    directory = house.directory(RUNS[0])
    directory.log_file().parent.mkdir(parents=True)
    directory.log_file().write_text("The run waits for its metrics\n")
    yield house
    house.daemon.kill()
    house.daemon.wait()


def test_it_says_what_was_logged_and_where_every_process_stands(house, monkeypatch):
    monkeypatch.setattr(house, "members", lambda _name: [find_process(os.getpid())])
    told = evidence(house)
    json.dumps(told)  # it becomes part of a report
    assert told[RUNS[0]][RunDirectory(house.root).log_file().name] == ["The run waits for its metrics"]
    (own,) = told[RUNS[0]]["processes"]
    assert (own["pid"], bool(own["threads"]), own["cpu_seconds"] > 0) == (os.getpid(), True, True)


def test_a_process_that_has_gone_is_no_reason_to_stop(house):
    house.daemon.kill()
    house.daemon.wait()
    assert evidence(house)["daemon"] == {}
