import contextlib

import page_speed
import pytest

from palaestra.runs.metrics import MetricsReader

pytest.importorskip("playwright")

MAIN, OTHER = {"pid": 1, "tid": 2}, {"pid": 1, "tid": 3}
NAMES = [
    {"name": "thread_name", "args": {"name": "CrRendererMain"}, **MAIN},
    {"name": "thread_name", "args": {"name": "Compositor"}, **OTHER},
]


def task(thread, microseconds, name="RunTask"):
    return {"name": name, "dur": microseconds, **thread}


def test_only_tasks_of_the_thread_that_runs_the_page_count():
    events = [*NAMES, task(MAIN, 10), task(OTHER, 90_000), task(MAIN, 70, "Paint"), {"name": "RunTask", **MAIN}]
    assert page_speed.main_tasks(events) == [task(MAIN, 10)]


def test_a_trace_keeps_the_names_and_what_took_a_while():
    events = [*NAMES, task(MAIN, 5000), task(MAIN, 999), task(MAIN, 1000, "Paint"), task(OTHER, 90_000)]
    assert page_speed.worth_keeping(events) == [*NAMES, task(MAIN, 5000), task(MAIN, 1000, "Paint")]


def test_a_round_counts_as_long_when_any_part_of_it_had_a_long_frame(tmp_path, monkeypatch):
    rounds = iter([(16.7, 33.3), (16.7, 66.6), (50.1, 16.7)])

    def measured(serving, runs, trace):
        scrolling, zooming = ({"longest picture, ms": one} for one in next(rounds))
        return {"first page, ms": 500.0, "scrolling": scrolling, "zooming": zooming}

    monkeypatch.setattr(page_speed, "served", contextlib.nullcontext)
    monkeypatch.setattr(page_speed, "measure", measured)
    found = page_speed.measure_rounds(tmp_path, 100, 3, [])
    assert [row["longest picture, ms"]["zooming"] for row in found["rounds"]] == [33.3, 66.6, 16.7]
    assert found["rounds with a picture over 50 ms"] == 1


def test_made_up_metrics_have_as_many_points_as_were_requested(tmp_path):
    page_speed.make_metrics(tmp_path / "metrics.db", ["one", "two"], 50, seed=1)
    with MetricsReader(tmp_path / "metrics.db") as metrics:
        assert len(list(metrics.steps())) == 50
