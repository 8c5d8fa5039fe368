import os
from pathlib import Path

import pytest

from palaestra.core.errors import RunFailed
from palaestra.core.run import RunState
from palaestra.runner.failure_record import record_rank_failure
from palaestra.runner.job import TrainingJob
from palaestra.runs.lock import run_lock
from palaestra.runs.status import read_written_record

CAUSE = "Rank 1 was ended by SIGKILL."


@pytest.fixture
def job(bench, config, request_of) -> TrainingJob:
    return TrainingJob(request_of("small"), config, bench.directory.path.parent)


def test_the_failure_of_a_killed_leader_is_recorded(bench, job):
    record_rank_failure(job, os.getpid(), 1, CAUSE, leader_recorded_it=False)
    record = read_written_record(bench.directory)
    assert (record.state, record.exit_code, record.failure) == (RunState.FAILED, 1, CAUSE)
    assert [entry.data for entry in bench.entries("rank.failed")] == [{"rank": 1, "error": CAUSE}]
    assert len(bench.entries("run.failed")) == 1


def test_the_failure_of_a_leader_that_lost_a_peer_is_corrected(bench, job):
    bench.session.failed(RunFailed("Another rank ended without a word."), 1)
    record_rank_failure(job, os.getpid(), 1, CAUSE, leader_recorded_it=False)
    assert read_written_record(bench.directory).failure == CAUSE
    assert len(bench.entries("run.failed")) == 1


def test_the_leaders_own_record_is_stored_when_it_knew_the_cause(bench, job):
    bench.session.failed(RunFailed("My own fault."), 1)
    record_rank_failure(job, os.getpid(), 0, "Rank 0 failed: My own fault.", leader_recorded_it=True)
    assert read_written_record(bench.directory).failure == "My own fault."


def test_nothing_is_recorded_without_a_run_or_when_another_process_continues_it(bench, job, tmp_path):
    record_rank_failure(
        TrainingJob(job.request, job.config, Path(tmp_path / "nothing")),
        os.getpid(),
        1,
        CAUSE,
        leader_recorded_it=False,
    )
    record_rank_failure(job, 1, 1, CAUSE, leader_recorded_it=False)
    with run_lock(bench.directory):
        record_rank_failure(job, os.getpid(), 1, CAUSE, leader_recorded_it=False)
    assert read_written_record(bench.directory).state is RunState.RUNNING
