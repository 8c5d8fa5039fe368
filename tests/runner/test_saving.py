"""A disk that says no costs a warning, never a run and never an older checkpoint."""

import errno
import threading

import pytest
import torch

from palaestra.checkpoints.files import RealFileSystem
from palaestra.checkpoints.log import read_log
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.runner.saving import DEGRADED_AFTER, RETRY_SECONDS, FollowerSaver, Saver
from palaestra.runs.status import read_record
from palaestra.training.trainer import train


class FullDisk(RealFileSystem):
    """Refuses to write while `is_full`."""

    is_full = False

    def write_temporary(self, path, data):
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_temporary(path, data)


@pytest.fixture
def disk():
    return FullDisk()


@pytest.fixture
def saver(bench, disk):
    manager = CheckpointManager(bench.directory, bench.state.config.checkpoints, disk)
    return Saver(manager, bench.session, bench.loggers, bench.clock, git_commit="abc")


def epochs(bench) -> list[int]:
    return [checkpoint.epoch for checkpoint in bench.manager.list_all_checkpoints()]


def test_a_checkpoint_says_where_it_comes_from(bench):
    next(train(bench.state))
    bench.saver.count([10.0, 20.0])
    saved = bench.saver.save(bench.state)
    assert (saved.epoch, saved.agent_step, saved.run, saved.run_name) == (1, 32, bench.directory.id, "small")
    assert (saved.score, saved.avg_reward, saved.seed, saved.git_commit) == (None, 15.0, 1, "abc")
    assert saved.env["id"] == "CartPole-v1"
    assert saved.metrics == {"episodes": 2.0}
    assert bench.saver.saved_epoch == 1


def test_metrics_are_on_disk_before_the_checkpoint_and_the_loggers_get_it_after(bench):
    next(train(bench.state))
    bench.saver.save(bench.state)
    assert bench.metrics_logger.calls == ["flush", "checkpoint 1"]
    [entry] = bench.entries("checkpoint.saved")
    assert entry.data["file"] == "model_0001.yaml"
    assert entry.data["bytes"] > 1000


def test_a_failed_save_is_recorded_and_leaves_existing_checkpoints(bench, saver, disk):
    next(train(bench.state))
    assert saver.save(bench.state) is not None
    next(train(bench.state))
    disk.is_full = True
    assert saver.save(bench.state) is None
    assert (epochs(bench), saver.saved_epoch, saver.last_saved) == ([1], 1, "epoch 1")
    [entry] = bench.entries("checkpoint.failed")
    assert (entry.data["epoch"], entry.data["failures"]) == (2, 1)
    assert "No space left" in entry.data["error"]


@pytest.mark.fault("C4")
def test_it_is_tried_again_after_a_while_and_not_at_once(bench, saver, disk):
    disk.is_full = True
    assert not saver.should_retry
    saver.save(bench.state)
    assert not saver.should_retry
    bench.clock.seconds += RETRY_SECONDS
    assert saver.should_retry
    disk.is_full = False
    assert saver.save(bench.state) is not None
    assert not saver.should_retry


@pytest.mark.fault("C4")
def test_after_several_failures_the_run_is_degraded_until_a_save_succeeds(bench, saver, disk):
    disk.is_full = True
    for _ in range(DEGRADED_AFTER - 1):
        saver.save(bench.state)
    assert read_record(bench.directory).failure == ""
    saver.save(bench.state)
    assert read_record(bench.directory).failure.startswith(f"degraded: {DEGRADED_AFTER} checkpoints in a row")
    disk.is_full = False
    saver.save(bench.state)
    assert read_record(bench.directory).failure == ""


def test_returns_and_seconds_go_on_where_the_last_session_stopped(bench):
    bench.saver.count(range(150))
    bench.clock.seconds = 40.0
    saved = bench.saver.capture()
    assert saved["recent_returns"] == list(range(50, 150))
    bench.saver.restore(saved, epoch=9)
    bench.clock.seconds = 42.0
    assert bench.saver.capture()["seconds"] == 40.0 + 42.0
    assert bench.saver.average_return == sum(range(50, 150)) / 100
    bench.saver.count([1.0])
    assert bench.saver.episode_count == 151
    assert bench.saver.saved_epoch == 9


def test_a_run_from_before_episodes_were_counted_goes_on_without_a_number_rather_than_a_wrong_one(bench):
    saved = bench.saver.capture()
    del saved["episode_count"]
    bench.saver.restore(saved, epoch=1)
    bench.saver.count([1.0])
    next(train(bench.state))
    assert "episodes" not in bench.saver.save(bench.state).metrics


def test_before_any_episode_ended_there_is_no_average_and_before_any_save_no_epoch(bench):
    assert bench.saver.average_return is None
    assert bench.saver.last_saved == "none"


class SlowDisk(RealFileSystem):
    """Stops before its first write until it is let go, and then works or says no."""

    def __init__(self):
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.is_full = False

    def write_temporary(self, path, data):
        self.reached.set()
        assert self.go_on.wait(30)
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_temporary(path, data)


@pytest.fixture
def slow_disk():
    return SlowDisk()


@pytest.fixture
def patient(bench, slow_disk):
    manager = CheckpointManager(bench.directory, bench.state.config.checkpoints, slow_disk)
    saver = Saver(manager, bench.session, bench.loggers, bench.clock, git_commit="abc")
    yield saver
    slow_disk.go_on.set()
    saver.finish()


def test_training_goes_on_while_a_checkpoint_of_that_moment_is_written(bench, patient, slow_disk):
    reports = train(bench.state)
    next(reports)
    moment = {name: part.clone() for name, part in bench.state.algorithm.policy().state_dict().items()}
    assert patient.save(bench.state, meanwhile=True) is None
    assert slow_disk.reached.wait(30)
    next(reports)
    patient.complete_save(wait=False)
    assert (patient.saved_epoch, bench.entries("checkpoint.saved"), bench.metrics_logger.calls) == (-1, [], ["flush"])
    slow_disk.go_on.set()
    patient.complete_save()
    assert (patient.saved_epoch, bench.metrics_logger.calls) == (1, ["flush", "checkpoint 1"])
    assert [entry.data["epoch"] for entry in bench.entries("checkpoint.saved")] == [1]
    weights, saved = bench.manager.load_weights()
    assert (saved.epoch, saved.agent_step) == (1, 32)
    assert all(torch.equal(weights[name], part) for name, part in moment.items())


def test_the_next_save_waits_for_the_one_in_progress(bench, patient, slow_disk):
    reports = train(bench.state)
    next(reports)
    patient.save(bench.state, meanwhile=True)
    assert slow_disk.reached.wait(30)
    next(reports)
    threading.Timer(0.05, slow_disk.go_on.set).start()
    assert patient.save(bench.state).epoch == 2
    assert [entry.data["epoch"] for entry in bench.entries("checkpoint.saved")] == [1, 2]
    assert [entry.epoch for entry in read_log(bench.manager.directory)] == [1, 2]


@pytest.mark.fault("C4")
def test_a_failed_background_save_is_recorded_with_its_epoch_and_retried(bench, patient, slow_disk):
    reports = train(bench.state)
    next(reports)
    slow_disk.is_full = True
    slow_disk.go_on.set()
    patient.save(bench.state, meanwhile=True)
    next(reports)
    patient.complete_save()
    [entry] = bench.entries("checkpoint.failed")
    assert (entry.data["epoch"], entry.data["step"], patient.saved_epoch) == (1, 32, -1)
    bench.clock.seconds += RETRY_SECONDS
    assert patient.should_retry


def test_metrics_are_durable_before_the_first_file_of_a_checkpoint_that_is_written_meanwhile(bench, patient, slow_disk):
    when = []
    bench.metrics_logger.begin_flush = lambda: lambda: when.append(slow_disk.reached.is_set())
    next(train(bench.state))
    slow_disk.go_on.set()
    patient.save(bench.state, meanwhile=True)
    patient.finish()
    assert when == [False]
    assert slow_disk.reached.is_set()


def test_files_written_meanwhile_have_the_bytes_of_those_that_are_waited_for(bench, patient, slow_disk, tmp_path):
    next(train(bench.state))
    other = Saver(CheckpointManager(tmp_path / "other"), bench.session, bench.loggers, bench.clock, git_commit="abc")
    waited_for = other.save(bench.state)
    slow_disk.go_on.set()
    patient.save(bench.state, meanwhile=True)
    patient.finish()
    [saved] = bench.manager.list_all_checkpoints()
    assert saved.files == waited_for.files


def test_a_follower_knows_which_epoch_was_saved():
    saver = FollowerSaver()
    assert saver.last_saved == "none"
    saver.restore({}, 7)
    assert saver.last_saved == "epoch 7"
