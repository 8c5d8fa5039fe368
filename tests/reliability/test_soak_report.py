from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ET

import pytest

from palaestra.daemon.process_tree import find_process
from palaestra.runs.directory import RunDirectory
from tools.reliability import soak_services
from tools.reliability.soak_report import LEFT, LINES, PANEL, PANELS, WIDTH, collect_evidence, draw_curve, last_lines
from tools.reliability.soak_services import RUNS, SoakServices

NAME = "{http://www.w3.org/2000/svg}"


def found(*rows):
    first = {"second": 0.0, "fault": "", "rss_mb": 60.0, "descriptors": 14}
    keys = ("second", "fault", "rss_mb", "descriptors", "recovered_after")
    return {"minutes": 3.0, "seed": 7, "samples": [first, *(dict(zip(keys, row, strict=True)) for row in rows)]}


def lines_of(text):
    return [line.get("points").split() for line in ET.fromstring(text).iter(f"{NAME}polyline")]


def test_every_sample_is_a_point_of_every_panel_and_heights_begin_at_nothing():
    text = draw_curve(found((60.0, "kill_daemon", 30.0, 28, 4.0), (120.0, "freeze_daemon", 60.0, 14, 2.0)))
    memory, descriptors, recovery = lines_of(text)
    assert [len(memory), len(descriptors), len(recovery)] == [3, 3, 2]
    across, heights = zip(*(map(float, point.split(",")) for point in memory), strict=True)
    assert across == (LEFT, (LEFT + WIDTH - 10) / 2, WIDTH - 10)
    assert heights[0] == heights[2] == heights[1] - PANEL / 2, "half of the memory is half as high"


def test_where_the_daemon_was_killed_is_red_and_other_faults_are_not():
    text = draw_curve(found((60.0, "kill_daemon", 30.0, 28, 4.0), (120.0, "freeze_daemon", 60.0, 14, 2.0)))
    colours = [path.get("stroke") for path in ET.fromstring(text).iter(f"{NAME}path")]
    assert [colours.count(colour) for colour in ("#d9534f", "#ccc")] == [len(PANELS)] * 2


def test_a_soak_that_ended_at_once_is_drawn_too():
    text = draw_curve(found())
    assert len(lines_of(text)[0]) == 1
    assert "3 minutes, 0 faults, seed 7" in text


def test_of_a_long_file_only_the_end_is_stored(tmp_path):
    path = tmp_path / "log"
    path.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert last_lines(path) == [f"line {number}" for number in range(10_000 - LINES, 10_000)]


def test_a_file_that_is_not_there_has_no_end(tmp_path):
    assert last_lines(tmp_path / "log") == []


@pytest.fixture
def services(tmp_path, monkeypatch):
    monkeypatch.setattr(soak_services, "PROGRAM", (sys.executable, "-c", "input()"))
    services = SoakServices(tmp_path)
    services.ids[RUNS[0]] = "01A"
    directory = services.directory(RUNS[0])
    directory.log_file().parent.mkdir(parents=True)
    directory.log_file().write_text("The run waits for its metrics\n")
    yield services
    services.daemon.kill()
    services.daemon.wait()


def test_it_says_what_was_logged_and_where_every_process_stands(services, monkeypatch):
    monkeypatch.setattr(services, "members", lambda _name: [find_process(os.getpid())])
    summary = collect_evidence(services)
    json.dumps(summary)  # it becomes part of a report
    assert summary[RUNS[0]][RunDirectory(services.root).log_file().name] == ["The run waits for its metrics"]
    (own,) = summary[RUNS[0]]["processes"]
    assert (own["pid"], bool(own["threads"]), own["cpu_seconds"] > 0) == (os.getpid(), True, True)


def test_a_process_that_has_gone_is_no_reason_to_stop(services):
    services.daemon.kill()
    services.daemon.wait()
    assert collect_evidence(services)["daemon"] == {}
