import json

import torch

from palaestra.runner.profiling import TRACE_NAME, profiled


def work(count: int):
    for number in range(count):
        torch.ones(16, 16) @ torch.ones(16, 16)
        yield number


def test_the_reports_come_through_and_a_trace_and_a_table_are_left(tmp_path, capfd):
    assert list(profiled(work(8), tmp_path / "artifacts")) == list(range(8))
    trace = json.loads((tmp_path / "artifacts" / TRACE_NAME).read_text())
    products = [event for event in trace["traceEvents"] if event.get("name") == "aten::mm"]
    assert len(products) == 3  # of eight iterations, three
    messages = capfd.readouterr()
    assert "aten::mm" in messages.err
    assert "Self CPU" in messages.err
    assert messages.out == ""


def test_a_training_that_ends_while_it_is_profiled_leaves_what_there_was(tmp_path):
    assert list(profiled(work(3), tmp_path)) == [0, 1, 2]
    assert (tmp_path / TRACE_NAME).exists()


def test_one_that_ends_before_leaves_nothing(tmp_path):
    assert list(profiled(work(1), tmp_path)) == [0]
    assert not (tmp_path / TRACE_NAME).exists()


def test_a_consumer_that_stops_early_still_gets_its_trace(tmp_path):
    reports = profiled(work(8), tmp_path)
    for _ in range(4):
        next(reports)
    reports.close()
    assert (tmp_path / TRACE_NAME).exists()
