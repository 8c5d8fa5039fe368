from __future__ import annotations

import gc
import signal

import pytest

from palaestra.algorithms.group import Group
from palaestra.checkpoints.files import SaveFailed
from palaestra.checkpoints.log import read_log
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.core.gc_tuning import collect_rarely
from palaestra.core.run import RunState
from palaestra.evaluation.evaluator import CheckpointEvaluation
from palaestra.runner import loop as loop_module
from palaestra.runner.loop import REPORT_SECONDS, WINDOW, Straggler, StragglerWatch, TrainingLoop
from palaestra.runner.saving import RETRY_SECONDS, Saver
from palaestra.runner.signals import StopRequest


@pytest.fixture
def loop_of():
    return lambda bench, stop=None, evaluators=(): TrainingLoop(bench.context(*evaluators, stop=stop))


def saved_epochs(bench) -> list[int]:
    return [entry.data["epoch"] for entry in bench.entries("checkpoint.saved")]


def test_every_report_is_a_sample_and_the_end_is_saved(bench, loop_of):
    assert loop_of(bench).run() is True
    assert [sample.step for sample in bench.metrics_logger.samples] == [32, 64, 96, 128]
    assert saved_epochs(bench) == [1, 2, 3, 4]


def test_what_a_training_leaves_is_searched_for_as_usual(bench, loop_of):
    before = gc.get_threshold()
    collect_rarely()
    loop_of(bench).run()
    assert gc.get_threshold() == before


def test_between_intervals_nothing_is_saved_and_the_end_only_once(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={"save_interval": 3}))
    loop_of(bench).run()
    assert saved_epochs(bench) == [3, 4]


def test_without_an_interval_only_the_end_is_saved(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={"save_interval": 0}))
    loop_of(bench).run()
    assert saved_epochs(bench) == [4]


def test_default_saves_are_at_most_one_a_second(make_bench, small_config, loop_of, monkeypatch):
    monkeypatch.setattr(loop_module, "DEFAULT_SAVE_INTERVAL", 1)
    bench = make_bench(small_config(total_steps=32 * 8, checkpoints={}))
    write = bench.metrics_logger.write

    def write_for_a_while(sample):
        bench.clock.seconds += 0.4
        write(sample)

    bench.metrics_logger.write = write_for_a_while
    loop_of(bench).run()
    assert saved_epochs(bench) == [1, 4, 7, 8]


@pytest.fixture
def waits_of_saves(monkeypatch):
    """Of every save whether training went on meanwhile."""
    reported, save = [], Saver.save

    def record(self, state, *, meanwhile=False):
        reported.append(meanwhile)
        return save(self, state, meanwhile=meanwhile)

    monkeypatch.setattr(Saver, "save", record)
    return reported


@pytest.mark.parametrize(
    ("asked", "quick_seconds", "meanwhile"), [(None, 1e9, True), (None, 0.0, False), (1, 1e9, False)]
)
def test_default_saves_are_not_waited_for_while_iterations_are_quick(
    make_bench, small_config, loop_of, monkeypatch, waits_of_saves, asked, quick_seconds, meanwhile
):
    monkeypatch.setattr(loop_module, "DEFAULT_SAVE_INTERVAL", 1)
    monkeypatch.setattr(loop_module, "DEFAULT_SAVE_SECONDS", 0.0)
    monkeypatch.setattr(loop_module, "QUICK_SECONDS", quick_seconds)
    bench = make_bench(small_config(checkpoints={"save_interval": asked}))
    loop_of(bench).run()
    assert waits_of_saves == [meanwhile] * 4
    assert saved_epochs(bench) == [1, 2, 3, 4]


def test_a_save_in_progress_is_recorded_also_when_training_fails(make_bench, small_config, loop_of, monkeypatch):
    monkeypatch.setattr(loop_module, "DEFAULT_SAVE_INTERVAL", 1)
    monkeypatch.setattr(loop_module, "QUICK_SECONDS", 1e9)
    env = {"id": "PoisonedForTests-v0", "kwargs": {"at": 20}}  # in the second iteration
    bench = make_bench(small_config(env=env, checkpoints={}))
    with pytest.raises(NonFinite):
        loop_of(bench).run()
    assert (saved_epochs(bench), bench.saver.saved_epoch) == ([1], 1)


def test_quick_reports_are_passed_on_together_each_with_its_own_time(make_bench, small_config, loop_of, monkeypatch):
    bench = make_bench(small_config(total_steps=32 * 5, checkpoints={"save_interval": 0}))
    beats, beat = [], bench.session.heartbeat
    monkeypatch.setattr(bench.session, "heartbeat", lambda *reported: (beats.append(reported[0]), beat(*reported)))
    loop = loop_of(bench)
    take = loop._handle

    def take_later(report):
        bench.clock.seconds += REPORT_SECONDS * 0.4
        take(report)

    monkeypatch.setattr(loop, "_handle", take_later)
    loop.run()
    assert beats == [1, 4, 5]
    assert [sample.step for sample in bench.metrics_logger.samples] == [32, 64, 96, 128, 160]
    began = bench.clock.now() - 5 * REPORT_SECONDS * 0.4
    moments = [sample.at - began for sample in bench.metrics_logger.samples]
    assert moments == pytest.approx([REPORT_SECONDS * 0.4 * number for number in range(1, 6)], abs=1e-5)


def test_pending_reports_are_passed_on_before_a_checkpoint(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={"save_interval": 4}))
    loop_of(bench).run()
    assert bench.metrics_logger.calls == ["write 32", "write 64", "write 96", "write 128", "flush", "checkpoint 4"]


def test_pending_reports_are_passed_on_when_training_fails(make_bench, small_config, loop_of):
    env = {"id": "PoisonedForTests-v0", "kwargs": {"at": 40}}  # in the third iteration
    bench = make_bench(small_config(env=env, checkpoints={"save_interval": 0}))
    with pytest.raises(NonFinite):
        loop_of(bench).run()
    assert [sample.step for sample in bench.metrics_logger.samples] == [32, 64]


class Two(Group):
    world_size = 2


def test_several_processes_save_at_iterations_that_the_leaders_clock_allows(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={}))
    bench.state.group = Two()
    loop = loop_of(bench)

    def due_after_agreeing():
        loop._agree()
        return [loop._is_save_due(iteration) for iteration in (49, 50, 100)]

    loop._saved_at = bench.clock.monotonic()
    assert due_after_agreeing() == [False, False, False]
    bench.clock.seconds += 2.0
    assert [loop._is_save_due(iteration) for iteration in (49, 50)] == [False, False], "they have not agreed on it"
    assert due_after_agreeing() == [False, True, True]
    bench.state.group.rank = 1  # whose clock nobody asks
    assert due_after_agreeing() == [False, False, False]


def test_a_stop_ends_after_the_update_and_saves_it(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={"save_interval": 0}))
    stop = StopRequest()
    stop.handle(signal.SIGTERM, None)
    assert loop_of(bench, stop).run() is False
    assert (bench.state.iteration, saved_epochs(bench)) == (1, [1])
    assert bench.session.record.state is RunState.STOPPING


def test_a_stop_that_comes_with_the_last_update_changes_nothing(make_bench, small_config, loop_of):
    bench = make_bench(small_config(total_steps=32))
    stop = StopRequest()
    stop.handle(signal.SIGTERM, None)
    assert loop_of(bench, stop).run() is True
    assert bench.session.record.state is RunState.RUNNING


def test_training_goes_on_over_failed_saves_and_tries_again_between_intervals(
    make_bench, small_config, loop_of, monkeypatch
):
    bench = make_bench(small_config(total_steps=32 * 6, checkpoints={"save_interval": 2}))
    save, failures = bench.manager.save, [True, True]

    def fail_twice(*arguments):
        bench.clock.seconds += RETRY_SECONDS
        if failures:
            failures.pop()
            raise SaveFailed("No space left on device.")
        return save(*arguments)

    monkeypatch.setattr(bench.manager, "save", fail_twice)
    monkeypatch.setattr(bench.clock, "monotonic", _ticking(bench.clock))
    assert loop_of(bench).run() is True
    assert [entry.data["epoch"] for entry in bench.entries("checkpoint.failed")] == [2, 3]
    assert saved_epochs(bench) == [4, 6]


def _ticking(clock):
    """Each update at it is a retry's wait later, so that a failed save is due again at once."""

    def monotonic():
        clock.seconds += RETRY_SECONDS
        return clock.seconds

    return monotonic


def test_a_last_save_that_fails_fails_the_run_and_names_the_last_good_one(bench, loop_of, monkeypatch):
    save = bench.manager.save

    def fail_later(agent, checkpoint, state, rows):
        if checkpoint.epoch > 2:
            raise SaveFailed("No space left on device.")
        return save(agent, checkpoint, state, rows)

    monkeypatch.setattr(bench.manager, "save", fail_later)
    with pytest.raises(RunFailed, match="ended at epoch 4.*The last one on disk is epoch 2"):
        loop_of(bench).run()


class SlowEvaluator:
    """Returns the result of an epoch after `delay` calls of `collect`; the score is the epoch."""

    def __init__(self, delay=0):
        self.delay = delay
        self.calls_left = {}
        self.submitted, self.waits = [], 0

    @property
    def outstanding(self):
        return len(self.calls_left)

    def submit(self, checkpoint):
        assert checkpoint.path.exists(), "it is on disk before it is submitted"
        self.submitted.append(checkpoint.epoch)
        self.calls_left[checkpoint.epoch] = (checkpoint.agent_step, self.delay)

    def collect(self):
        done = [epoch for epoch, (_, calls) in self.calls_left.items() if calls == 0]
        results = [
            CheckpointEvaluation(epoch, self.calls_left.pop(epoch)[0], {"eval/episodic_return": float(epoch)})
            for epoch in done
        ]
        self.calls_left = {epoch: (step, calls - 1) for epoch, (step, calls) in self.calls_left.items()}
        return results

    def wait(self, seconds):
        self.waits += 1

    def close(self):
        self.calls_left.clear()


def logged_scores(bench):
    return [
        (sample.step, sample.metrics["eval/episodic_return"])
        for sample in bench.metrics_logger.samples
        if "eval/episodic_return" in sample.metrics
    ]


def test_a_due_checkpoint_is_saved_and_submitted_and_the_loop_goes_on(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={"save_interval": 0}, evaluate_interval=2))
    evaluator = SlowEvaluator()
    loop_of(bench, evaluators=[evaluator]).run()
    assert saved_epochs(bench) == evaluator.submitted == [2, 4]
    assert logged_scores(bench) == [(64, 2.0), (128, 4.0)]


@pytest.mark.parametrize(("interval", "asked"), [(3, [3, 4]), (9, [4]), (4, [4]), (0, [])])
def test_the_last_checkpoint_is_evaluated_whatever_the_interval(make_bench, small_config, loop_of, interval, asked):
    bench = make_bench(small_config(checkpoints={"save_interval": 0}, evaluate_interval=interval))
    evaluator = SlowEvaluator(delay=3)
    loop_of(bench, evaluators=[evaluator] if interval else []).run()
    assert evaluator.submitted == asked
    assert [epoch for _, epoch in logged_scores(bench)] == asked


def test_a_result_that_comes_late_lands_at_its_own_step(make_bench, small_config, loop_of):
    """Epochs 1 and 2 are evaluated only after epoch 4 was trained."""
    bench = make_bench(small_config(evaluate_interval=1))
    evaluator = SlowEvaluator(delay=3)
    loop_of(bench, evaluators=[evaluator]).run()
    assert logged_scores(bench) == [(32, 1.0), (64, 2.0), (96, 3.0), (128, 4.0)]
    assert bench.metrics_logger.calls.index("write 128") < bench.metrics_logger.calls.index("write 32", 2)
    assert evaluator.waits > 0, "at the end there is time to wait"


def test_heartbeats_continue_while_the_last_evaluations_are_awaited(make_bench, small_config, loop_of, monkeypatch):
    """Trap 15: every update takes eleven seconds here, and the journal hears of each."""
    bench = make_bench(small_config(evaluate_interval=4))
    evaluator = SlowEvaluator(delay=4)
    monkeypatch.setattr(evaluator, "wait", lambda seconds: setattr(bench.clock, "seconds", bench.clock.seconds + 11.0))
    loop_of(bench, evaluators=[evaluator]).run()
    beats = [entry.data["phase"] for entry in bench.entries("run.heartbeat")]
    assert beats.count("evaluate") >= 2


def test_a_stopped_run_does_not_wait_for_evaluations(make_bench, small_config, loop_of):
    bench = make_bench(small_config(evaluate_interval=1))
    evaluator, stop = SlowEvaluator(delay=10**9), StopRequest()
    stop.handle(signal.SIGTERM, None)
    assert loop_of(bench, stop, [evaluator]).run() is False
    assert (evaluator.submitted, evaluator.waits, logged_scores(bench)) == ([1], 0, [])


def test_a_stop_while_the_last_evaluation_is_awaited_leaves_the_run_complete(
    make_bench, small_config, loop_of, monkeypatch, caplog
):
    bench = make_bench(small_config(evaluate_interval=4))
    evaluator, stop = SlowEvaluator(delay=10**9), StopRequest()
    monkeypatch.setattr(evaluator, "wait", lambda seconds: stop.handle(signal.SIGINT, None))
    assert loop_of(bench, stop, [evaluator]).run() is True
    assert "1 evaluations were abandoned" in caplog.text


def test_a_checkpoint_that_could_not_be_saved_is_not_evaluated(make_bench, small_config, loop_of, monkeypatch):
    bench = make_bench(small_config(checkpoints={"save_interval": 0}, evaluate_interval=2))
    save = bench.manager.save

    def fail_at_two(agent, checkpoint, state, rows):
        if checkpoint.epoch == 2:
            raise SaveFailed("No space left on device.")
        return save(agent, checkpoint, state, rows)

    monkeypatch.setattr(bench.manager, "save", fail_at_two)
    evaluator = SlowEvaluator()
    loop_of(bench, evaluators=[evaluator]).run()
    assert evaluator.submitted == [4]


def test_no_rank_waits_for_an_evaluation_while_it_trains(make_bench, small_config, loop_of):
    """Trap 16: an evaluator that never answers changes neither a step nor the order of what is done."""
    evaluator, calls = SlowEvaluator(delay=10**9), []
    for evaluators in ([], [evaluator]):
        bench = make_bench(small_config(evaluate_interval=1))
        loop = loop_of(bench, None, evaluators)
        loop._wait_for_evaluations = lambda: None
        assert loop.run() is True
        calls.append(bench.metrics_logger.calls)
        bench.directory.path.rename(bench.directory.path.with_name(f"away-{len(calls)}"))
    assert calls[0] == calls[1]
    assert (evaluator.submitted, evaluator.waits) == ([1, 2, 3, 4], 0)


def test_the_log_of_checkpoints_counts_the_episodes_that_ended(bench, loop_of):
    loop_of(bench).run()
    ended = [(sample.step, len(sample.episodes)) for sample in bench.metrics_logger.samples]
    assert sum(count for _, count in ended) > 0
    for entry in read_log(bench.directory.checkpoints):
        assert entry.episode == sum(count for step, count in ended if step <= entry.agent_step)


@pytest.mark.fault("R9")
def test_what_is_not_finite_never_reaches_a_checkpoint(make_bench, small_config, loop_of):
    bench = make_bench(small_config(env={"id": "PoisonedForTests-v0", "kwargs": {"at": 40}}))
    with pytest.raises(NonFinite, match="Update 3 was stopped before its step"):
        loop_of(bench).run()
    assert saved_epochs(bench) == [1, 2]


def test_time_beyond_playing_and_learning_is_counted_as_other(bench, loop_of, monkeypatch):
    monkeypatch.setattr(bench.loggers, "flush", lambda: setattr(bench.clock, "seconds", bench.clock.seconds + 1000.0))
    loop_of(bench).run()
    others = [sample.timings["time/other"] for sample in bench.metrics_logger.samples]
    assert others[0] == 0.0
    assert all(990.0 < other <= 1000.0 for other in others[1:])  # less what playing and learning really took


def test_with_a_curriculum_every_sample_has_tasks_and_their_rate(make_bench, small_config, loop_of):
    tasks = {"plain": {}, "sutton": {"kwargs": {"sutton_barto_reward": True}}}
    bench = make_bench(small_config(curriculum={"tasks": tasks}))
    loop_of(bench).run()
    last = bench.metrics_logger.samples[-1]
    ended = sum(len(sample.episodes) for sample in bench.metrics_logger.samples)
    assert last.metrics["tasks/completed"] == ended > 0
    assert "charts/tasks_per_second" in last.timings
    assert {"tasks/plain/share", "tasks/sutton/share"} <= set(last.metrics)


def test_without_a_curriculum_there_are_no_tasks(bench, loop_of):
    loop_of(bench).run()
    names = {name for sample in bench.metrics_logger.samples for name in (*sample.metrics, *sample.timings)}
    assert not any("task" in name for name in names)


def reported(rows):
    watch = StragglerWatch()
    return [found for found in map(watch.update, rows) if found is not None]


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_rank_twice_as_slow_for_a_whole_window_is_reported_once(slow):
    row = tuple(0.5 if rank == slow else 0.1 for rank in range(3))
    assert reported([row] * (WINDOW - 1)) == []
    assert reported([row] * 5 * WINDOW) == [Straggler(slow, 0.5, 0.1)]


def test_two_stragglers_one_after_the_other_are_both_reported():
    assert [one.rank for one in reported([(0.5, 0.1)] * WINDOW + [(0.1, 0.5)] * WINDOW)] == [0, 1]


def test_a_few_slow_iterations_make_no_straggler():
    rows = [(9.0, 0.1)] * (WINDOW // 2 - 1) + [(0.1, 0.1)] * (WINDOW // 2 + 1)
    assert reported(rows * 3) == []


@pytest.mark.parametrize("row", [(0.2, 0.1), (0.19, 0.1), (0.06, 0.01), (0.1, 0.1), (5.0,), ()])
def test_similar_ranks_tiny_differences_and_a_single_process_are_not_reported(row):
    assert reported([row] * 3 * WINDOW) == []


def test_just_beyond_the_bounds_a_rank_is_reported():
    assert reported([(0.2001, 0.1)] * WINDOW) == [Straggler(0, 0.2001, 0.1)]
    assert reported([(0.0701, 0.02)] * WINDOW) == [Straggler(0, 0.0701, 0.02)]


def test_a_rank_is_compared_with_the_median_of_the_others():
    """One idle rank does not make a straggler of a normal one."""
    assert reported([(0.3, 0.29, 0.01)] * WINDOW) == []


def test_the_warning_names_both_times_and_what_to_check():
    text = str(Straggler(3, 0.5, 0.123))
    assert "Rank 3 is slow" in text
    assert "0.50 s" in text
    assert "0.12 s" in text
    assert "Look at its machine" in text
