"""What a process writes of itself, with time moved by hand."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace

import pytest

from palaestra.algorithms.group import Group
from palaestra.core.errors import RunFailed
from palaestra.core.run import RunState
from palaestra.runner.loop import TrainingLoop
from palaestra.runner.resume import Resumed
from palaestra.runner.saving import FollowerSaver
from palaestra.runner.session import HEARTBEAT_SECONDS, STATUS_SECONDS, FollowerSession, RunSession
from palaestra.runs.status import read_record, read_written_record


def test_from_its_first_moment_the_run_is_running_in_this_process(bench):
    record = read_record(bench.directory)
    assert (record.state, record.pid, record.total_steps) == (RunState.RUNNING, os.getpid(), 128)


def test_status_goes_to_disk_at_most_once_a_second(bench):
    bench.session.heartbeat(1, 32, 10.0, {})
    assert read_record(bench.directory).epoch == 0
    bench.clock.seconds += STATUS_SECONDS
    bench.session.heartbeat(2, 64, 10.0, {"episodic_return": 7.0})
    assert (read_record(bench.directory).epoch, read_record(bench.directory).summary) == (2, {"episodic_return": 7.0})
    bench.session.heartbeat(3, 96, 10.0, {})
    assert read_record(bench.directory).epoch == 2


def test_a_heartbeat_is_in_the_journal_every_ten_seconds(bench):
    for second in range(25):
        bench.clock.seconds = float(second)
        bench.session.heartbeat(second, second * 32, 32.0, {})
    beats = bench.entries("run.heartbeat")
    assert [entry.data["epoch"] for entry in beats] == [HEARTBEAT_SECONDS, 2 * HEARTBEAT_SECONDS]
    assert beats[0].data["steps_per_second"] == 32.0


def test_a_start_and_a_resume_have_different_events(bench):
    bench.session.begun(bench.state, None)
    bench.session.begun(bench.state, Resumed(3, "model_0003.yaml", {}, "torch is another one."))
    assert bench.entries("run.started")[0].data["seed"] == 1
    assert bench.entries("run.started")[0].data["engine"] == bench.state.algorithm.description
    resumed = bench.entries("run.resumed")[0].data
    assert (resumed["checkpoint"], resumed["exact"], resumed["reason"]) == (
        "model_0003.yaml",
        False,
        "torch is another one.",
    )


@pytest.mark.parametrize(
    ("leave", "state", "code", "event"),
    [
        (lambda session: session.finished(), RunState.FINISHED, 0, "run.finished"),
        (lambda session: session.cancelled("SIGTERM", 143), RunState.CANCELLED, 143, "run.cancelled"),
        (lambda session: session.failed(RunFailed("It broke."), 1), RunState.FAILED, 1, "run.failed"),
    ],
)
def test_every_end_is_in_status_and_journal(bench, leave, state, code, event):
    bench.clock.seconds = 5.0
    leave(bench.session)
    record = read_record(bench.directory)
    assert (record.state, record.exit_code, record.ended_at) == (state, code, bench.clock.now())
    assert len(bench.entries(event)) == 1


def test_a_requested_stop_is_in_the_status_before_it_happens(bench):
    bench.session.stopping("SIGTERM")
    assert read_record(bench.directory).state is RunState.STOPPING
    assert bench.entries("run.stopping")[0].data["signal"] == "SIGTERM"


def test_a_degraded_run_says_why_until_it_is_well_again(bench):
    bench.session.degraded("degraded: no room")
    assert read_record(bench.directory).failure == "degraded: no room"
    assert read_record(bench.directory).state is RunState.RUNNING
    bench.session.degraded("")
    assert read_record(bench.directory).failure == ""


def test_a_status_that_cannot_be_written_is_logged_once_and_written_later(bench, caplog):
    status = bench.directory.status_file
    status.unlink()
    status.mkdir()  # a file cannot replace a directory, not even root's
    for reason in ("a", "b"):
        bench.session.degraded(reason)
    assert len([record for record in caplog.records if "status.json" in record.getMessage()]) == 1
    status.rmdir()
    bench.session.degraded("c")
    assert read_written_record(bench.directory).failure == "c"


def test_a_session_counts_its_own_seconds_and_clears_the_last_ones_failure(bench):
    bench.session.failed(RunFailed("It broke."), 1)
    bench.clock.seconds += 100.0
    again = RunSession(bench.directory, 128, bench.clock)
    bench.clock.seconds += 7.0
    assert again.seconds == 7.0
    assert (again.record.failure, again.record.exit_code, again.record.ended_at) == ("", None, None)


@pytest.mark.fault("C5")
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_directory_that_is_gone_ends_the_run_with_the_reason_and_is_not_made_anew(bench, caplog, how):
    path = bench.directory.path
    if how == "deleted":
        shutil.rmtree(path)
    else:
        path.rename(path.with_name("elsewhere"))
    if how == "replaced":
        path.mkdir()
    bench.clock.seconds += STATUS_SECONDS
    with pytest.raises(RunFailed, match="was deleted or moved while the run was using it") as failed:
        bench.session.heartbeat(1, 32, 10.0, {})
    with pytest.raises(RunFailed, match="deleted or moved"):
        bench.saver.save(bench.state)
    bench.session.failed(failed.value, 1)
    assert path.exists() == (how == "replaced")
    assert how != "replaced" or list(path.iterdir()) == []
    assert caplog.text == "", "the reason is enough"


class Second(Group):
    """The second of two ranks, which gets no answers."""

    rank = 1
    world_size = 2

    def __init__(self) -> None:
        self.gathered = 0

    def gather_bytes(self, data):
        self.gathered += 1
        return []


@pytest.fixture
def follower_session(bench, clock):
    return FollowerSession(bench.directory, 128, clock)


def test_a_follower_keeps_its_state_and_writes_nothing(bench, follower_session, caplog):
    before = {path: path.read_bytes() for path in bench.directory.path.rglob("*") if path.is_file()}
    caplog.set_level(logging.INFO, "palaestra")
    follower_session.heartbeat(1, 32, 10.0, {})
    follower_session.stopping("SIGTERM")
    follower_session.cancelled("SIGTERM", 143)
    record = follower_session.record
    assert (record.state, record.exit_code, record.epoch) == (RunState.CANCELLED, 143, 1)
    assert {path: path.read_bytes() for path in bench.directory.path.rglob("*") if path.is_file()} == before
    assert "run.cancelled" in caplog.text


def test_a_follower_runs_the_loop_and_sends_its_state_at_every_save(bench, follower_session):
    bench.state.group = Second()
    saver = FollowerSaver()
    loop = TrainingLoop(replace(bench.context(saver=saver), session=follower_session))
    assert loop.run() is True
    assert saver.saved_epoch == bench.state.iteration == 2  # 128 steps, 64 of them per iteration of two ranks
    assert bench.state.group.gathered == 2 * 2  # a report and a state each time
    assert list(bench.directory.checkpoints.iterdir()) == []
