import json
import shutil
import signal

import pytest

from palaestra.checkpoints.errors import SaveFailed
from palaestra.checkpoints.log import read_log
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.contracts.errors import NonFinite, RunFailed
from palaestra.contracts.run import RunState
from palaestra.workers.loop import TrainingLoop
from palaestra.workers.saving import RETRY_SECONDS
from palaestra.workers.signals import StopRequest


@pytest.fixture
def loop_of():
    def make(bench, stop=None):
        parts = (bench.directory, bench.session, bench.sinks, bench.saver, stop or StopRequest(), bench.clock)
        return TrainingLoop(bench.state, *parts)

    return make


def saved_epochs(bench) -> list[int]:
    return [entry.data["epoch"] for entry in bench.entries("checkpoint.saved")]


def test_every_report_is_a_sample_and_the_end_is_saved(bench, loop_of):
    assert loop_of(bench).run() is True
    assert [sample.step for sample in bench.sink.samples] == [32, 64, 96, 128]
    assert saved_epochs(bench) == [1, 2, 3, 4]


def test_between_intervals_nothing_is_saved_and_the_end_only_once(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={"save_interval": 3}))
    loop_of(bench).run()
    assert saved_epochs(bench) == [3, 4]


def test_without_an_interval_only_the_end_is_saved(make_bench, small_config, loop_of):
    bench = make_bench(small_config(checkpoints={"save_interval": 0}))
    loop_of(bench).run()
    assert saved_epochs(bench) == [4]


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
    save, failures = bench.manager.save_agent, [True, True]

    def fail_twice(*arguments):
        bench.clock.seconds += RETRY_SECONDS
        if failures:
            failures.pop()
            raise SaveFailed("No space left on device.")
        return save(*arguments)

    monkeypatch.setattr(bench.manager, "save_agent", fail_twice)
    monkeypatch.setattr(bench.clock, "monotonic", _ticking(bench.clock))
    assert loop_of(bench).run() is True
    assert [entry.data["epoch"] for entry in bench.entries("checkpoint.failed")] == [2, 3]
    assert saved_epochs(bench) == [4, 6]


def _ticking(clock):
    """Each look at it is a retry's wait later, so that a failed save is due again at once."""

    def monotonic():
        clock.seconds += RETRY_SECONDS
        return clock.seconds

    return monotonic


def test_a_last_save_that_fails_fails_the_run_and_names_the_last_good_one(bench, loop_of, monkeypatch):
    save = bench.manager.save_agent

    def fail_later(agent, checkpoint, state):
        if checkpoint.epoch > 2:
            raise SaveFailed("No space left on device.")
        return save(agent, checkpoint, state)

    monkeypatch.setattr(bench.manager, "save_agent", fail_later)
    with pytest.raises(RunFailed, match="ended at epoch 4.*The last one on disk is epoch 2"):
        loop_of(bench).run()


def test_a_score_reaches_the_sidecar_of_the_checkpoint_that_was_judged(make_bench, small_config, loop_of):
    """CartPole pays 1 a step, so the rows on disk add up to the score by another way."""
    bench = make_bench(
        small_config(checkpoints={"save_interval": 0}, evaluate_interval=2, evaluation={"episodes": 3}),
    )
    loop_of(bench).run()
    scores = {checkpoint.epoch: checkpoint.score for checkpoint in bench.manager.list_all_checkpoints()}
    assert scores.keys() == {2, 4}
    for epoch, score in scores.items():
        rows = json.loads((bench.directory.evaluations / f"{epoch}-1.json").read_text())["rows"]
        assert score == pytest.approx(sum(row["length"] for row in rows) / 3)
    judged = [sample.step for sample in bench.sink.samples if "eval/episodic_return" in sample.metrics]
    assert judged == [64, 128]


def test_a_judgement_that_finds_no_room_costs_a_warning_and_not_the_run(make_bench, small_config, loop_of, caplog):
    bench = make_bench(small_config(evaluate_interval=2, evaluation={"episodes": 1}))
    bench.directory.evaluations.parent.mkdir(exist_ok=True)
    shutil.rmtree(bench.directory.evaluations, ignore_errors=True)
    bench.directory.evaluations.write_text("in the way")  # no directory can be made here
    assert loop_of(bench).run() is True
    assert saved_epochs(bench) == [1, 2, 3, 4]
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 2
    assert all("could not be written" in text and text.endswith("Training goes on.") for text in told)
    assert [entry.data["epoch"] for entry in bench.entries("eval.failed")] == [2, 4]
    scores = {checkpoint.epoch: checkpoint.score for checkpoint in bench.manager.list_all_checkpoints()}
    assert scores[1] is None
    assert scores[2] is not None


def test_a_score_that_cannot_be_written_again_costs_a_warning_too(make_bench, small_config, loop_of, monkeypatch):
    def refuse(*_arguments, **_named):
        raise SaveFailed("No space left on device.")

    monkeypatch.setattr(CheckpointManager, "update_metadata", refuse)
    bench = make_bench(small_config(evaluate_interval=4, evaluation={"episodes": 1}))
    assert loop_of(bench).run() is True
    assert [entry.data["error"] for entry in bench.entries("eval.failed")] == ["No space left on device."]


def test_the_log_of_checkpoints_counts_the_episodes_that_ended(bench, loop_of):
    loop_of(bench).run()
    ended = [(sample.step, len(sample.episodes)) for sample in bench.sink.samples]
    assert sum(count for _, count in ended) > 0
    for entry in read_log(bench.directory.checkpoints):
        assert entry.episode == sum(count for step, count in ended if step <= entry.agent_step)


def test_judging_does_not_change_what_is_learned(make_bench, small_config, loop_of, tmp_path):
    weights = []
    for interval in (0, 1):
        bench = make_bench(small_config(evaluate_interval=interval, evaluation={"episodes": 1}))
        loop_of(bench).run()
        weights.append((bench.directory.checkpoints / "model_0004.safetensors").read_bytes())
        bench.directory.path.rename(tmp_path / f"away-{interval}")
    assert weights[0] == weights[1]


def test_what_is_not_finite_never_reaches_a_checkpoint(make_bench, small_config, loop_of):
    bench = make_bench(small_config(env={"id": "PoisonedForTests-v0", "kwargs": {"at": 40}}))
    with pytest.raises(NonFinite, match="Update 3 was stopped before its step"):
        loop_of(bench).run()
    assert saved_epochs(bench) == [1, 2]


def test_time_beyond_playing_and_learning_is_counted_as_other(bench, loop_of, monkeypatch):
    monkeypatch.setattr(bench.sinks, "flush", lambda: setattr(bench.clock, "seconds", bench.clock.seconds + 1000.0))
    loop_of(bench).run()
    others = [sample.timings["time/other"] for sample in bench.sink.samples]
    assert others[0] == 0.0
    assert all(990.0 < other <= 1000.0 for other in others[1:])  # less what playing and learning really took


def test_with_a_curriculum_every_sample_tells_tasks_and_their_rate(make_bench, small_config, loop_of):
    tasks = {"plain": {}, "sutton": {"kwargs": {"sutton_barto_reward": True}}}
    bench = make_bench(small_config(curriculum={"tasks": tasks}))
    loop_of(bench).run()
    last = bench.sink.samples[-1]
    ended = sum(len(sample.episodes) for sample in bench.sink.samples)
    assert last.metrics["tasks/completed"] == ended > 0
    assert "charts/tasks_per_second" in last.timings
    assert {"tasks/plain/share", "tasks/sutton/share"} <= set(last.metrics)


def test_without_a_curriculum_there_are_no_tasks(bench, loop_of):
    loop_of(bench).run()
    names = {name for sample in bench.sink.samples for name in (*sample.metrics, *sample.timings)}
    assert not any("task" in name for name in names)
