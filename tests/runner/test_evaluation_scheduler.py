import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.evaluation.background import CheckpointEvaluation
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.training.trainer import train


class FakeEvaluator:
    """Remembers the submitted epochs, and returns the results that the test sets."""

    def __init__(self):
        self.submitted, self.results, self.is_closed = [], [], False

    @property
    def outstanding(self):
        return len(self.submitted)

    def submit(self, checkpoint):
        self.submitted.append(checkpoint.epoch)

    def collect(self):
        results, self.results = self.results, []
        for result in results:
            self.submitted.remove(result.epoch)
        return results

    def wait(self, seconds):
        pass

    def close(self):
        self.is_closed = True


def result_of(epoch, value=1.0):
    return CheckpointEvaluation(epoch, 32 * epoch, {"eval/episodic_return": value}, {"time/evaluation": 2.0})


@pytest.fixture
def saved(bench):
    """Epochs 1 to 4 on disk."""
    return [bench.saver.save(bench.state) for _ in train(bench.state)]


def logged_steps(bench):
    return [sample.step for sample in bench.metrics_logger.samples]


def test_a_result_is_logged_at_the_step_of_its_checkpoint_and_flushed(bench, saved):
    evaluator = FakeEvaluator()
    evaluations = bench.evaluations(evaluator)
    bench.clock.seconds = 5.0
    evaluations.submit(saved[1])
    evaluations.collect()
    assert evaluations.outstanding == 1
    bench.metrics_logger.calls.clear()
    evaluator.results = [result_of(2, 7.5)]
    evaluations.collect()
    assert evaluations.outstanding == 0
    assert bench.metrics_logger.calls == ["write 64", "flush"]
    (sample,) = bench.metrics_logger.samples
    assert (sample.step, sample.at) == (64, bench.clock.now())
    assert (sample.metrics, sample.timings) == ({"eval/episodic_return": 7.5}, {"time/evaluation": 2.0})


def test_the_score_of_a_run_is_that_of_its_newest_evaluated_checkpoint_whenever_it_arrived(bench, saved):
    evaluator = FakeEvaluator()
    evaluations = bench.evaluations(evaluator)
    for checkpoint in saved[:3]:
        evaluations.submit(checkpoint)
    evaluator.results = [result_of(2, 7.5)]
    evaluations.collect()
    assert bench.session.record.summary["score"] == 7.5
    evaluator.results = [result_of(3, 9.0), result_of(1, 5.0)]
    evaluations.collect()
    bench.session.heartbeat(4, 128, 1.0, {"steps_per_second": 1.0})
    assert bench.session.record.summary == {"score": 9.0, "steps_per_second": 1.0}


def test_a_submitted_checkpoint_is_stored_by_retention_until_its_result_arrives(bench, saved):
    evaluator = FakeEvaluator()
    evaluations = bench.evaluations(evaluator)
    evaluations.submit(saved[0])
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (2, 3)
    evaluator.results = [result_of(1)]
    evaluations.collect()
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (1,)


def test_closing_releases_the_submitted_checkpoints(bench, saved):
    evaluator = FakeEvaluator()
    evaluations = bench.evaluations(evaluator)
    evaluations.submit(saved[0])
    evaluations.close()
    assert evaluator.is_closed
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (1, 2, 3)


def test_a_failure_is_a_warning_and_an_entry_in_the_journal(bench, saved, caplog):
    evaluator = FakeEvaluator()
    evaluations = bench.evaluations(evaluator)
    evaluations.submit(saved[0])
    evaluator.results = [CheckpointEvaluation(1, error="It raised.")]
    evaluations.collect()
    assert [record.getMessage() for record in caplog.records] == [
        "Checkpoint 1 was not evaluated: It raised. Training goes on."
    ]
    (entry,) = bench.entries("eval.failed")
    assert (entry.data["epoch"], entry.data["error"]) == (1, "It raised.")
    assert bench.metrics_logger.samples == []


def test_a_repeated_error_warns_once_and_is_in_the_journal_each_time(bench, saved, caplog):
    evaluator = FakeEvaluator()
    evaluations = bench.evaluations(evaluator)
    for checkpoint in saved[:3]:
        evaluations.submit(checkpoint)
    evaluator.results = [
        CheckpointEvaluation(1, error="Ray is away."),
        CheckpointEvaluation(2, error="Ray is away."),
        CheckpointEvaluation(3, error="It raised."),
    ]
    evaluations.collect()
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [
        "Checkpoint 1 was not evaluated: Ray is away. Training goes on.",
        "Checkpoint 3 was not evaluated: It raised. Training goes on.",
    ]
    assert [entry.data["epoch"] for entry in bench.entries("eval.failed")] == [1, 2, 3]


def test_a_removed_checkpoint_is_not_submitted(bench, saved, caplog):
    evaluator = FakeEvaluator()
    (bench.directory.checkpoints / "model_0002.safetensors").unlink()
    bench.evaluations(evaluator).submit(saved[1])
    assert evaluator.submitted == []
    assert "Checkpoint 2 was not evaluated" in caplog.text


def test_two_evaluators_get_each_checkpoint_and_equal_results_are_logged_once(bench, saved):
    first, second = FakeEvaluator(), FakeEvaluator()
    evaluations = bench.evaluations(first, second)
    evaluations.submit(saved[0])
    assert (first.submitted, second.submitted) == ([1], [1])
    second.results = [result_of(1)]
    evaluations.collect()
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (2, 3), "the other evaluator still uses it"
    first.results = [result_of(1)]
    evaluations.collect()
    assert logged_steps(bench) == [32]


@pytest.mark.parametrize(
    ("interval", "epoch", "submitted"),
    [(2, 4, [2, 4]), (2, 3, [2]), (1, 4, [1, 2, 3, 4]), (3, 4, [3]), (0, 4, []), (5, 4, [])],
)
def test_a_resumed_run_submits_the_due_checkpoints_without_metrics(bench, saved, interval, epoch, submitted):
    evaluator = FakeEvaluator()
    bench.evaluations(evaluator).submit_missing(interval, epoch)
    assert evaluator.submitted == submitted


def test_a_resumed_run_does_not_submit_checkpoints_with_metrics(bench, saved):
    with MetricsWriter(bench.directory.metrics_file) as metrics:
        metrics.write(Sample(64, {"eval/episodic_return": 3.0}))
        metrics.write(Sample(128, {"losses/entropy": 3.0}))
    evaluator = FakeEvaluator()
    bench.evaluations(evaluator).submit_missing(2, 4)
    assert evaluator.submitted == [4]


def test_a_new_run_and_a_run_without_evaluators_submit_nothing(bench):
    evaluator = FakeEvaluator()
    bench.evaluations(evaluator).submit_missing(1, 0)
    evaluations = bench.evaluations()
    evaluations.submit_missing(1, 0)
    evaluations.collect()
    evaluations.wait(0.0)
    assert (evaluator.submitted, evaluations.outstanding) == ([], 0)


def test_the_last_checkpoint_is_submitted_once(bench, saved):
    evaluator = FakeEvaluator()
    evaluations = bench.evaluations(evaluator)
    evaluations.submit_last(saved[1].epoch)
    evaluations.submit_last(saved[1].epoch)
    evaluations.submit_last(99)
    assert evaluator.submitted == [saved[1].epoch]
