"""The process's side, without a process: epochs in, lines out."""

import json
import os

import pytest

from palaestra.evaluation.summary import read_batches
from palaestra.runner import evaluator
from palaestra.runs.journal import read_journal
from palaestra.training.trainer import train


@pytest.fixture
def trained(make_bench, small_config):
    simulations = {"short": {"env": {"max_episode_steps": 5}}, "plain": {}}
    bench = make_bench(small_config(total_steps=64, evaluation={"episodes": 2, "simulations": simulations}))
    for _ in train(bench.state):
        bench.saver.save(bench.state)
    return bench


def talk(bench, *lines):
    reading, writing = os.pipe()
    try:
        assert evaluator.main(lines, bench.directory, writing) == 0
    finally:
        os.close(writing)
    with os.fdopen(reading) as answers:
        return [json.loads(line) for line in answers]


def test_every_epoch_is_judged_as_its_run_says_and_answered_with_figures_at_its_step(trained):
    first, second = talk(trained, "1\n", "2\n")
    assert [(one["epoch"], one["step"]) for one in (first, second)] == [(1, 32), (2, 64)]
    assert {"eval/short/episodic_return", "eval/plain/episodic_return", "eval/episodic_return"} <= set(first["metrics"])
    scores = {one.epoch: one.score for one in trained.manager.list_all_checkpoints()}
    assert scores == {1: first["metrics"]["eval/episodic_return"], 2: second["metrics"]["eval/episodic_return"]}
    assert [line["asked_by"] for line in read_batches(trained.directory)] == ["training"] * 2


def test_what_was_judged_already_is_answered_and_not_judged_again(trained):
    (first,) = talk(trained, "1\n")
    (again,) = talk(trained, "1\n")
    assert again == first
    assert len(read_batches(trained.directory)) == 1


def test_what_cannot_be_judged_is_answered_too_and_the_next_is_judged(trained):
    wrong, right = talk(trained, "7\n", "2\n")
    assert wrong["epoch"] == 7
    assert "7" in wrong["error"]
    assert "error" not in right
    assert not [entry for entry in read_journal(trained.directory.journal_file) if entry.event == "eval.failed"], (
        "the trainer says it"
    )


def test_the_metrics_are_left_to_the_trainer(trained):
    talk(trained, "1\n")
    assert not trained.directory.metrics_file.exists()
