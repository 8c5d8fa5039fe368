from __future__ import annotations

import json
import math
import os

import pytest

from palaestra.contracts.episodes import EpisodeResult
from palaestra.contracts.errors import RunFailed
from palaestra.contracts.evaluation import EvaluationPlan, EvaluationReport
from palaestra.evaluation.records import write_down
from palaestra.evaluation.summary import read_batches
from palaestra.runs.journal import read_journal


def report_of(*returns, complete=True):
    seeds = tuple(range(len(returns) if complete else len(returns) + 3))
    episodes = tuple(EpisodeResult(seed, value, 5, True) for seed, value in zip(seeds, returns, strict=False))
    return EvaluationReport(EvaluationPlan("run:3", "CartPole-v1", {}, seeds), episodes, 1.5, complete)


@pytest.fixture
def checkpoint(trained_run):
    return trained_run.save(epoch=4, seed=2)


def test_a_complete_evaluation_gives_a_score(trained_run, checkpoint):
    write_down(report_of(10.0, 20.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) == 15.0
    assert trained_run.score(3) is None


def test_a_new_evaluation_replaces_a_stale_score(trained_run, checkpoint):
    for value in (90.0, 30.0):
        write_down(report_of(value), checkpoint, trained_run.directory)
    assert trained_run.score(4) == 30.0


def test_negative_and_zero_scores_count(trained_run, checkpoint):
    write_down(report_of(0.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) == 0.0
    write_down(report_of(-1000.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) == -1000.0


@pytest.mark.parametrize(
    ("report", "overrides"),
    [
        (report_of(5.0, complete=False), {}),
        (report_of(math.nan), {}),
        (report_of(math.inf), {}),
        (report_of(5.0), {"env": {"max_episode_steps": 3}}),
    ],
)
def test_what_is_no_judgement_of_the_checkpoint_is_written_down_without_a_score(
    trained_run, checkpoint, report, overrides
):
    write_down(report, checkpoint, trained_run.directory, overrides)
    assert trained_run.score(4) is None
    assert len(read_batches(trained_run.directory)) == 1
    rows = json.loads((trained_run.directory.evaluations / "4-1.json").read_text())
    assert rows["complete"] is report.complete
    assert "checkpoint.scored" not in [entry.event for entry in read_journal(trained_run.directory.journal_file)]


def test_rows_trace_back_to_run_epoch_and_seed(trained_run, checkpoint):
    write_down(report_of(1.0, 2.0), checkpoint, trained_run.directory)
    rows = json.loads((trained_run.directory.evaluations / "4-1.json").read_text())
    assert (rows["run"], rows["epoch"], rows["agent_step"]) == (trained_run.directory.id, 4, 400)
    assert [(row["seed"], row["total_reward"]) for row in rows["rows"]] == [(0, 1.0), (1, 2.0)]


def test_a_number_that_was_freed_is_used_and_none_is_overwritten(trained_run, checkpoint):
    for _ in range(3):
        write_down(report_of(1.0), checkpoint, trained_run.directory)
    (trained_run.directory.evaluations / "4-2.json").unlink()
    write_down(report_of(7.0), checkpoint, trained_run.directory)
    means = {path.name: json.loads(path.read_text())["mean"] for path in trained_run.directory.evaluations.iterdir()}
    assert means == {"4-1.json": 1.0, "4-2.json": 7.0, "4-3.json": 1.0}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_result_that_cannot_be_written_is_not_lost_without_a_word(trained_run, checkpoint):
    trained_run.directory.evaluations.chmod(0o500)
    with pytest.raises(RunFailed, match="mean 15 over 2 episodes"):
        write_down(report_of(10.0, 20.0), checkpoint, trained_run.directory)


def test_a_run_without_room_for_evaluations_says_so(trained_run, checkpoint):
    trained_run.directory.evaluations.rmdir()
    trained_run.directory.evaluations.write_text("in the way")
    with pytest.raises(RunFailed, match="mean 15 over 2 episodes"):
        write_down(report_of(10.0, 20.0), checkpoint, trained_run.directory)
