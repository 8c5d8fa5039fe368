import os
from pathlib import Path

import pytest

from palaestra.core.errors import RunFailed
from palaestra.core.run import RunState
from palaestra.runner.epitaph import write_epitaph
from palaestra.runner.job import TrainingJob
from palaestra.runs.lock import run_lock
from palaestra.runs.status import read_written_record

CAUSE = "Rank 1 was ended by SIGKILL."


@pytest.fixture
def job(bench, config, request_of) -> TrainingJob:
    return TrainingJob(request_of("small"), config, bench.directory.path.parent)


def test_a_leader_that_could_not_speak_is_spoken_for(bench, job):
    write_epitaph(job, os.getpid(), 1, CAUSE, is_told=False)
    record = read_written_record(bench.directory)
    assert (record.state, record.exit_code, record.failure) == (RunState.FAILED, 1, CAUSE)
    assert [entry.data for entry in bench.entries("rank.failed")] == [{"rank": 1, "error": CAUSE}]
    assert len(bench.entries("run.failed")) == 1


def test_a_leader_that_failed_because_of_another_is_corrected(bench, job):
    bench.session.failed(RunFailed("Another rank ended without a word."), 1)
    write_epitaph(job, os.getpid(), 1, CAUSE, is_told=False)
    assert read_written_record(bench.directory).failure == CAUSE
    assert len(bench.entries("run.failed")) == 1


def test_a_leader_that_knew_why_is_left_its_words(bench, job):
    bench.session.failed(RunFailed("My own fault."), 1)
    write_epitaph(job, os.getpid(), 0, "Rank 0 failed: My own fault.", is_told=True)
    assert read_written_record(bench.directory).failure == "My own fault."


def test_nothing_is_written_where_no_run_was_led_or_somebody_goes_on_with_it(bench, job, tmp_path):
    write_epitaph(
        TrainingJob(job.request, job.config, Path(tmp_path / "nothing")), os.getpid(), 1, CAUSE, is_told=False
    )
    write_epitaph(job, 1, 1, CAUSE, is_told=False)
    with run_lock(bench.directory):
        write_epitaph(job, os.getpid(), 1, CAUSE, is_told=False)
    assert read_written_record(bench.directory).state is RunState.RUNNING
