from __future__ import annotations

import json
import math
import os
from dataclasses import replace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import DamagedFile, NotFound, RunFailed
from palaestra.core.evaluation import EvaluationPlan, EvaluationReport, SuiteReport
from palaestra.core.metrics_logger import Sample
from palaestra.evaluation.records import EvaluationEvents, EvaluationRecorder, RecordOptions, find_recorded_report
from palaestra.evaluation.summary import read_batches
from palaestra.runs.files import write_atomic, write_json
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.metrics.writer import MetricsWriter


def report_of(*returns, complete=True):
    seeds = tuple(range(len(returns) if complete else len(returns) + 3))
    episodes = tuple(EpisodeResult(seed, value, 5, True) for seed, value in zip(seeds, returns, strict=False))
    report = EvaluationReport(EvaluationPlan("run:3", "CartPole-v1", {}, seeds), episodes, 1.5, complete)
    return SuiteReport((report,), 1.5)


def record(report, checkpoint, directory, options=None, total=None):
    with EvaluationRecorder(directory, checkpoint, options) as records:
        return records.add(report, total)


@pytest.fixture
def checkpoint(trained_run):
    return trained_run.save(epoch=4, seed=2)


def test_a_complete_evaluation_gives_a_score(trained_run, checkpoint):
    record(report_of(10.0, 20.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) == 15.0
    assert trained_run.score(3) is None


def test_a_new_evaluation_replaces_a_stale_score(trained_run, checkpoint):
    for value in (90.0, 30.0):
        record(report_of(value), checkpoint, trained_run.directory)
    assert trained_run.score(4) == 30.0


def test_negative_and_zero_scores_count(trained_run, checkpoint):
    record(report_of(0.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) == 0.0
    record(report_of(-1000.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) == -1000.0


@pytest.mark.parametrize(
    ("report", "options"),
    [
        (report_of(5.0, complete=False), None),
        (report_of(math.nan), None),
        (report_of(math.inf), None),
        (report_of(5.0), RecordOptions({"env": {"max_episode_steps": 3}}, is_own_suite=False)),
    ],
)
def test_what_is_no_evaluation_of_the_checkpoint_is_written_down_without_a_score(
    trained_run, checkpoint, report, options
):
    record(report, checkpoint, trained_run.directory, options)
    assert trained_run.score(4) is None
    assert len(read_batches(trained_run.directory)) == 1
    rows = json.loads((trained_run.directory.evaluations / "4-1.json").read_text())
    assert rows["complete"] is report.complete
    assert "checkpoint.scored" not in [entry.event for entry in read_journal(trained_run.directory.journal_file)]


def test_rows_trace_back_to_run_epoch_and_seed(trained_run, checkpoint):
    record(report_of(1.0, 2.0), checkpoint, trained_run.directory)
    rows = json.loads((trained_run.directory.evaluations / "4-1.json").read_text())
    assert (rows["run"], rows["epoch"], rows["agent_step"]) == (trained_run.directory.id, 4, 400)
    assert [(row["seed"], row["total_reward"]) for row in rows["rows"]] == [(0, 1.0), (1, 2.0)]


def test_a_number_that_was_freed_is_used_and_none_is_overwritten(trained_run, checkpoint):
    for _ in range(3):
        record(report_of(1.0), checkpoint, trained_run.directory)
    (trained_run.directory.evaluations / "4-2.json").unlink()
    record(report_of(7.0), checkpoint, trained_run.directory)
    means = {path.name: json.loads(path.read_text())["mean"] for path in trained_run.directory.evaluations.iterdir()}
    assert means == {"4-1.json": 1.0, "4-2.json": 7.0, "4-3.json": 1.0}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_result_that_cannot_be_written_is_not_lost_without_a_word(trained_run, checkpoint):
    trained_run.directory.evaluations.chmod(0o500)
    with pytest.raises(RunFailed, match="mean 15 over 2 episodes"):
        record(report_of(10.0, 20.0), checkpoint, trained_run.directory)


def test_a_run_without_room_for_evaluations_says_so(trained_run, checkpoint):
    trained_run.directory.evaluations.rmdir()
    trained_run.directory.evaluations.write_text("in the way")
    with pytest.raises(RunFailed, match="mean 15 over 2 episodes"):
        record(report_of(10.0, 20.0), checkpoint, trained_run.directory)


def suite_report(*means):
    """One episode of each of the simulations a, b, …"""
    reports = [
        EvaluationReport(
            EvaluationPlan("run:4", "CartPole-v1", {}, (5,), simulation=name, category="kind", suite="own"),
            (EpisodeResult(5, mean, 3, True, extras={"heart": mean / 10}),),
            0.5,
        )
        for name, mean in zip("abcdef", means, strict=False)
    ]
    return SuiteReport(tuple(reports), 1.0)


def test_the_score_of_a_suite_is_the_mean_over_its_simulations_and_the_sidecar_names_each(trained_run, checkpoint):
    record(suite_report(10.0, 40.0), checkpoint, trained_run.directory)
    found = CheckpointManager(trained_run.directory).load_weights(4)[1]
    assert found.score == 25.0
    assert found.metrics == {"score_episodes": 2.0, "score_a": 10.0, "score_b": 40.0, "mean_over_2_episodes": 25.0}


def test_the_mean_over_each_number_of_episodes_is_stored_but_sums_of_batches_are_not(trained_run, checkpoint):
    """Checkpoints are compared over a number of episodes that they share; `--repeat` has a new one with every batch."""
    few, many = report_of(10.0, 20.0), report_of(1.0, 2.0, 3.0, 6.0)
    record(many, checkpoint, trained_run.directory)
    record(few, checkpoint, trained_run.directory)
    record(few, checkpoint, trained_run.directory, total=report_of(*[5.0] * 6))
    found = CheckpointManager(trained_run.directory).open(4).checkpoint
    assert (found.score, found.metrics) == (
        5.0,
        {"score_episodes": 6.0, "mean_over_4_episodes": 3.0, "mean_over_2_episodes": 15.0},
    )


def test_a_suite_is_one_line_in_the_summary_with_a_file_for_each_simulation(trained_run, checkpoint):
    assert record(suite_report(10.0, 40.0), checkpoint, trained_run.directory) == 1
    (line,) = read_batches(trained_run.directory)
    assert (line["episodes"], line["avg"], line["min"], line["max"], line["std"], line["seconds"]) == (
        2,
        25,
        10,
        40,
        15,
        1,
    )
    assert [(one["simulation"], one["category"], one["avg"]) for one in line["simulations"]] == [
        ("a", "kind", 10.0),
        ("b", "kind", 40.0),
    ]
    for one in line["simulations"]:
        rows = json.loads((trained_run.directory.path / one["file"]).read_text())
        assert rows["plan"]["simulation"] == one["simulation"]
        assert rows["mean"] == one["mean"]


def test_metrics_stand_at_the_step_of_the_checkpoint_that_was_evaluated(trained_run, checkpoint):
    record(suite_report(10.0, 40.0), checkpoint, trained_run.directory)
    with MetricsReader(trained_run.directory.metrics_file) as metrics:
        values = {name: metrics.last(name) for name in metrics.names(timings=False)}
    assert {point.step for point in values.values()} == {400}
    assert {name: point.value for name, point in values.items() if "length" not in name} == {
        "eval/episodic_return": 25.0,
        "eval/a/episodic_return": 10.0,
        "eval/a/heart": 1.0,
        "eval/b/episodic_return": 40.0,
        "eval/b/heart": 4.0,
    }


def test_curves_of_evaluations_have_a_directory_of_their_own(trained_run, checkpoint):
    with EvaluationRecorder(trained_run.directory, checkpoint) as records:
        records.add(suite_report(10.0))
        records.add(suite_report(20.0))
    assert len(list(trained_run.directory.tensorboard_eval.iterdir())) == 1
    reader = EventAccumulator(str(trained_run.directory.tensorboard_eval)).Reload()
    points = [(point.step, point.value) for point in reader.Scalars("eval/episodic_return")]
    assert points == [(400, 10.0), (400, 20.0)]


def test_a_run_that_trains_keeps_its_metrics_and_the_evaluation_is_written_all_the_same(trained_run, checkpoint):
    with MetricsWriter(trained_run.directory.metrics_file):
        record(report_of(10.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) == 10.0
    with MetricsReader(trained_run.directory.metrics_file) as metrics:
        assert metrics.names() == []


def test_only_what_counts_reaches_the_metrics(trained_run, checkpoint):
    record(report_of(10.0), checkpoint, trained_run.directory, RecordOptions(is_own_suite=False))
    record(report_of(10.0), checkpoint, trained_run.directory, RecordOptions(writes_metrics=False))
    assert not trained_run.directory.metrics_file.exists()


def test_two_lucky_episodes_do_not_replace_fifty_even_when_the_caller_knows_nothing_of_them(trained_run, checkpoint):
    record(report_of(*[10.0] * 50), checkpoint, trained_run.directory)
    record(report_of(500.0, 500.0), checkpoint, trained_run.directory)  # with what the sidecar said before
    assert trained_run.score(4) == 10.0


def test_the_score_of_several_batches_is_that_of_all_their_episodes(trained_run, checkpoint):
    record(report_of(10.0), checkpoint, trained_run.directory)
    record(report_of(40.0), checkpoint, trained_run.directory, total=report_of(10.0, 40.0))
    assert trained_run.score(4) == 25.0


def test_a_checkpoint_that_is_gone_takes_the_batch_with_it(trained_run, checkpoint):
    for path in trained_run.directory.checkpoints.glob("model_0004*"):
        path.unlink()
    with pytest.raises(NotFound):
        record(report_of(10.0), checkpoint, trained_run.directory)
    assert read_batches(trained_run.directory) == []
    assert list(trained_run.directory.evaluations.iterdir()) == []


def test_a_checkpoint_that_was_replaced_by_other_weights_is_not_scored(trained_run, checkpoint):
    trained_run.save(epoch=4, seed=99)
    with pytest.raises(NotFound, match="different weights by now"):
        record(report_of(10.0), checkpoint, trained_run.directory)
    assert trained_run.score(4) is None


@pytest.mark.fault("V1")
@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_whoever_dies_while_writing_leaves_nothing_that_counts_and_the_next_writes_over_it(
    trained_run, checkpoint, monkeypatch, dies_at
):
    """Two files of rows and a summary: after each of the three writes the process is gone."""
    written = []

    def dying(write):
        def die_later(path, content):
            if len(written) == dies_at - 1:
                raise KeyboardInterrupt
            written.append(path)
            write(path, content)

        return die_later

    with monkeypatch.context() as patch:
        patch.setattr("palaestra.evaluation.records.write_json", dying(write_json))
        patch.setattr("palaestra.evaluation.summary.write_atomic", dying(write_atomic))
        with pytest.raises(KeyboardInterrupt):
            record(suite_report(10.0, 40.0), checkpoint, trained_run.directory)
    assert read_batches(trained_run.directory) == []
    assert trained_run.score(4) is None
    record(suite_report(10.0, 40.0), checkpoint, trained_run.directory)
    names = sorted(path.name for path in trained_run.directory.evaluations.iterdir())
    assert names == ["4-1.json", "4-2.json"]


def test_an_evaluation_is_found_again_by_what_was_played_and_by_nothing_else(trained_run, checkpoint):
    report = suite_report(10.0, 40.0)
    plans = [one.plan for one in report.reports]
    assert find_recorded_report(trained_run.directory, checkpoint, plans) is None
    record(report, checkpoint, trained_run.directory)
    assert find_recorded_report(trained_run.directory, checkpoint, plans) == report
    assert find_recorded_report(trained_run.directory, checkpoint, plans[:1]) is None
    other = trained_run.save(epoch=5, seed=77)
    assert find_recorded_report(trained_run.directory, other, plans) is None


def test_an_incomplete_evaluation_is_none_that_could_be_found_again(trained_run, checkpoint):
    report = report_of(5.0, complete=False)
    record(report, checkpoint, trained_run.directory)
    assert find_recorded_report(trained_run.directory, checkpoint, [report.reports[0].plan]) is None


def test_rows_that_are_damaged_are_named(trained_run, checkpoint):
    report = report_of(5.0)
    record(report, checkpoint, trained_run.directory)
    (trained_run.directory.evaluations / "4-1.json").write_text('{"schema_version": 1, "rows": [{}]}')
    with pytest.raises(DamagedFile, match="4-1.json holds no episodes"):
        find_recorded_report(trained_run.directory, checkpoint, [report.reports[0].plan])


def test_code_that_differed_and_was_accepted_is_in_the_record_and_the_result_is_not_reused(trained_run, checkpoint):
    report = replace(report_of(10.0, 20.0), code_differences={"worker-b": ("palaestra/envs/make.py",)})
    record(report, checkpoint, trained_run.directory)
    record(report_of(10.0, 20.0), checkpoint, trained_run.directory)
    other, same = read_batches(trained_run.directory)
    assert other["code_differences"] == {"worker-b": ["palaestra/envs/make.py"]}
    assert (other["key"], bool(same["key"]), "code_differences" in same) == ("", True, False)


def files_of(trained_run):
    return sorted(path.name for path in trained_run.directory.tensorboard_eval.glob("*"))


def test_one_file_for_all_that_is_drawn_and_none_when_nothing_is(trained_run):
    curves = EvaluationEvents(trained_run.directory)
    curves.close()
    assert files_of(trained_run) == []
    for step in (100, 200):
        curves.write(Sample(step, {"eval/episodic_return": 1.0}, {}, at=0.0))
    assert len(files_of(trained_run)) == 1
    curves.close()
    curves.write(Sample(300, {"eval/episodic_return": 1.0}, {}, at=0.0))
    curves.close()
    assert len(files_of(trained_run)) == 2
