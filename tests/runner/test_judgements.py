import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.runner.spare import Verdict
from palaestra.runs.metrics_writer import MetricsWriter
from palaestra.training.trainer import train


class Judge:
    """Remembers who was asked for; answers what the test puts into it."""

    def __init__(self):
        self.asked, self.answers, self.is_closed = [], [], False

    @property
    def outstanding(self):
        return len(self.asked)

    def ask(self, checkpoint):
        self.asked.append(checkpoint.epoch)

    def collect(self):
        answers, self.answers = self.answers, []
        for answer in answers:
            self.asked.remove(answer.epoch)
        return answers

    def wait(self, seconds):
        pass

    def close(self):
        self.is_closed = True


def answer(epoch, value=1.0):
    return Verdict(epoch, 32 * epoch, {"eval/episodic_return": value}, {"time/evaluation": 2.0})


@pytest.fixture
def saved(bench):
    """Epochs 1 to 4 on disk."""
    return [bench.saver.save(bench.state) for _ in train(bench.state)]


def judged_steps(bench):
    return [sample.step for sample in bench.metrics_logger.samples]


def test_results_go_to_the_loggers_at_their_step_and_are_made_durable(bench, saved):
    judge = Judge()
    judgements = bench.judgements(judge)
    bench.clock.seconds = 5.0
    judgements.ask(saved[1])
    judgements.collect()
    assert judgements.outstanding == 1
    bench.metrics_logger.calls.clear()
    judge.answers = [answer(2, 7.5)]
    judgements.collect()
    assert judgements.outstanding == 0
    assert bench.metrics_logger.calls == ["write 64", "flush"]
    (sample,) = bench.metrics_logger.samples
    assert (sample.step, sample.at) == (64, bench.clock.now())
    assert (sample.metrics, sample.timings) == ({"eval/episodic_return": 7.5}, {"time/evaluation": 2.0})


def test_the_runs_score_is_that_of_its_newest_judged_checkpoint_whenever_that_came(bench, saved):
    judge = Judge()
    judgements = bench.judgements(judge)
    for checkpoint in saved[:3]:
        judgements.ask(checkpoint)
    judge.answers = [answer(2, 7.5)]
    judgements.collect()
    assert bench.session.record.summary["score"] == 7.5
    judge.answers = [answer(3, 9.0), answer(1, 5.0)]
    judgements.collect()
    bench.session.beat(4, 128, 1.0, {"steps_per_second": 1.0})
    assert bench.session.record.summary == {"score": 9.0, "steps_per_second": 1.0}


def test_a_checkpoint_is_held_against_retention_until_it_was_judged(bench, saved):
    judge = Judge()
    judgements = bench.judgements(judge)
    judgements.ask(saved[0])
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (2, 3)
    judge.answers = [answer(1)]
    judgements.collect()
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (1,)


def test_what_is_still_held_is_let_go_at_the_end(bench, saved):
    judge = Judge()
    judgements = bench.judgements(judge)
    judgements.ask(saved[0])
    judgements.close()
    assert judge.is_closed
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (1, 2, 3)


def test_a_failure_costs_a_warning_and_an_entry_in_the_journal(bench, saved, caplog):
    judge = Judge()
    judgements = bench.judgements(judge)
    judgements.ask(saved[0])
    judge.answers = [Verdict(1, error="It raised.")]
    judgements.collect()
    assert [record.getMessage() for record in caplog.records] == [
        "Checkpoint 1 was not judged: It raised. Training goes on."
    ]
    (entry,) = bench.entries("eval.failed")
    assert (entry.data["epoch"], entry.data["error"]) == (1, "It raised.")
    assert bench.metrics_logger.samples == []


def test_the_same_reason_is_said_once_and_written_down_each_time(bench, saved, caplog):
    judge = Judge()
    judgements = bench.judgements(judge)
    for checkpoint in saved[:3]:
        judgements.ask(checkpoint)
    judge.answers = [Verdict(1, error="Ray is away."), Verdict(2, error="Ray is away."), Verdict(3, error="It raised.")]
    judgements.collect()
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [
        "Checkpoint 1 was not judged: Ray is away. Training goes on.",
        "Checkpoint 3 was not judged: It raised. Training goes on.",
    ]
    assert [entry.data["epoch"] for entry in bench.entries("eval.failed")] == [1, 2, 3]


def test_a_checkpoint_that_is_gone_is_not_asked_for(bench, saved, caplog):
    judge = Judge()
    (bench.directory.checkpoints / "model_0002.safetensors").unlink()
    bench.judgements(judge).ask(saved[1])
    assert judge.asked == []
    assert "Checkpoint 2 was not judged" in caplog.text


def test_two_evaluators_are_both_asked_and_what_both_say_is_written_once(bench, saved):
    first, second = Judge(), Judge()
    judgements = bench.judgements(first, second)
    judgements.ask(saved[0])
    assert (first.asked, second.asked) == ([1], [1])
    second.answers = [answer(1)]
    judgements.collect()
    assert bench.manager.retain(keep=1, keep_trainer_states=1).epochs == (2, 3), "the other still needs it"
    first.answers = [answer(1)]
    judgements.collect()
    assert judged_steps(bench) == [32]


@pytest.mark.parametrize(
    ("interval", "epoch", "asked"),
    [(2, 4, [2, 4]), (2, 3, [2]), (1, 4, [1, 2, 3, 4]), (3, 4, [3]), (0, 4, []), (5, 4, [])],
)
def test_a_run_that_goes_on_asks_for_what_was_due_and_has_no_figures(bench, saved, interval, epoch, asked):
    judge = Judge()
    bench.judgements(judge).catch_up(interval, epoch)
    assert judge.asked == asked


def test_a_run_that_goes_on_does_not_ask_for_what_has_figures(bench, saved):
    with MetricsWriter(bench.directory.metrics_file) as metrics:
        metrics.write(Sample(64, {"eval/episodic_return": 3.0}))
        metrics.write(Sample(128, {"losses/entropy": 3.0}))
    judge = Judge()
    bench.judgements(judge).catch_up(2, 4)
    assert judge.asked == [4]


def test_a_new_run_and_one_without_evaluators_ask_for_nothing(bench):
    judge = Judge()
    bench.judgements(judge).catch_up(1, 0)
    judgements = bench.judgements()
    judgements.catch_up(1, 0)
    judgements.collect()
    judgements.wait(0.0)
    assert (judge.asked, judgements.outstanding) == ([], 0)


def test_the_last_is_asked_for_once_and_never_again_after_it_was_told(bench, saved):
    judge = Judge()
    judgements = bench.judgements(judge)
    judgements.ask_last(saved[1].epoch)
    judgements.ask_last(saved[1].epoch)
    judgements.ask_last(99)
    assert judge.asked == [saved[1].epoch]
