from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.runner import launch as launch_module
from palaestra.runner.job import TrainingJob
from palaestra.runner.launch import Progress, RanksFailed, first_cause, launch, with_restarts
from palaestra.runner.launcher import ExitReport


@dataclass
class PaperRank:
    number: int
    code: int
    ended_at: float = 0.0
    was_killed: bool = False

    @property
    def process(self):
        return SimpleNamespace(returncode=self.code)


GOOD = ExitReport(0, 1.0, directory="/runs/x")
FOLLOWED = ExitReport(1, 2.0, error="Rank 1 failed first: fell", is_consequence=True)


def test_ranks_that_end_in_order_have_no_cause():
    assert first_cause([PaperRank(0, 0), PaperRank(1, 0)], [GOOD, GOOD], []) is None


def test_the_rank_that_failed_is_the_cause_and_not_those_that_followed():
    own = ExitReport(1, 2.5, error="fell", hint="Stand.")
    cause = first_cause([PaperRank(0, 1), PaperRank(1, 1)], [FOLLOWED, own], [])
    assert (cause.rank, cause.message, cause.hint, cause.exit_code) == (1, "Rank 1 failed: fell", "Stand.", 1)


def test_the_users_traceback_comes_with_the_cause():
    own = ExitReport(1, 2.5, error="fell", user_traceback="Traceback of mine")
    assert (
        first_cause([PaperRank(0, 0), PaperRank(1, 1)], [GOOD, own], []).error().user_traceback == "Traceback of mine"
    )


def test_of_two_failures_the_first_by_the_clock_is_the_cause():
    early, late = ExitReport(1, 1.0, error="early"), ExitReport(1, 1.1, error="late")
    assert first_cause([PaperRank(0, 1), PaperRank(1, 1)], [late, early], []).message == "Rank 1 failed: early"


def test_a_killed_rank_is_named_with_its_signal():
    cause = first_cause([PaperRank(0, 1), PaperRank(1, -9)], [FOLLOWED, None], [])
    assert cause.message == "Rank 1 was ended by SIGKILL."


def test_a_rank_that_left_without_a_word_is_named_with_its_code():
    cause = first_cause([PaperRank(0, 1), PaperRank(1, 7)], [FOLLOWED, None], [])
    assert cause.message == "Rank 1 ended with exit code 7 and reported nothing."


def test_an_end_without_a_word_is_a_failure_also_with_the_code_of_a_success():
    cause = first_cause([PaperRank(0, 1), PaperRank(1, 0)], [FOLLOWED, None], [])
    assert cause.message == "Rank 1 ended with exit code 0 and reported nothing."


def test_a_rank_that_we_had_to_end_is_the_one_that_fell_silent():
    timed_out = ExitReport(1, 2.0, error="Another rank did not answer within 4 s.", is_consequence=True)
    cause = first_cause([PaperRank(0, 1), PaperRank(1, -9, was_killed=True)], [timed_out, None], [])
    assert (cause.rank, cause.message) == (
        1,
        "Rank 1 stopped responding and was killed. Another rank did not answer within 4 s.",
    )


def test_a_refusal_keeps_its_message_and_exit_code():
    refusal = ExitReport(3, 1.0, error="No environment named 'X'.", hint="Did you mean 'Y'?")
    error = first_cause([PaperRank(0, 3), PaperRank(1, 1)], [refusal, FOLLOWED], []).error()
    assert (str(error), error.exit_code) == ("No environment named 'X'. Did you mean 'Y'?", 3)


def test_what_a_forwarded_signal_did_is_no_failure():
    assert first_cause([PaperRank(0, -15), PaperRank(1, 143)], [None, None], [15]) is None


@dataclass
class SilentRank(PaperRank):
    """Hangs until somebody ends it."""

    ended_at: float | None = None

    is_paused: bool = False

    def has_ended(self):
        return self.was_killed

    def is_stopped(self):
        return self.is_paused

    def kill(self):
        self.was_killed = True


class LeftRank(PaperRank):
    def has_ended(self):
        return True


@pytest.mark.parametrize("code", [0, 130, 1])
def test_a_rank_that_hangs_after_another_has_ended_is_not_waited_for_without_end(monkeypatch, code):
    monkeypatch.setattr(launch_module, "LEAVE_SECONDS", 0.05)
    monkeypatch.setattr(launch_module, "GRACE_SECONDS", 0.05)
    left, silent = LeftRank(0, code, ended_at=time.monotonic()), SilentRank(1, 0)
    launch_module._wait([left, silent], 30.0)
    assert silent.was_killed
    assert time.monotonic() - left.ended_at > 0.05


def test_a_stopped_rank_is_ended_and_ranks_that_are_stopped_together_are_not():
    running, paused = SilentRank(0, 0), SilentRank(1, 0, is_paused=True)
    stopped = launch_module.StoppedRanks(0.05)
    assert stopped.overdue([running, paused]) == []
    time.sleep(0.06)  # the silence itself
    assert stopped.overdue([running, paused]) == [paused]
    running.is_paused = True
    assert stopped.overdue([running, paused]) == []
    running.is_paused = False
    assert stopped.overdue([running, paused]) == []  # counted anew


def test_under_torchrun_no_ranks_are_started(monkeypatch):
    location = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
    for name, value in location.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="Invalid --nproc 2: RANK=0"):
        launch(None, 2)


def job_with(restarts):
    config = TrainConfig.model_validate({"distributed": {"restarts": restarts}})
    return TrainingJob(RunRequest("native", "cartpole", {}), config, Path("runs"))


def failed(epoch=None, **attributes):
    error = RanksFailed("Rank 1 was ended by SIGKILL.")
    error.progress = None if epoch is None else Progress("good-name", epoch)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class Launcher:
    """Fails as listed, then returns; remembers the jobs that it was given."""

    def __init__(self, *errors):
        self.errors, self.jobs = list(errors), []

    def __call__(self, job):
        self.jobs.append(job)
        if self.errors:
            raise self.errors.pop(0)
        return "outcome"


def test_without_restarts_the_first_failure_is_raised():
    launcher = Launcher(failed(3))
    with pytest.raises(RanksFailed):
        with_restarts(launcher, job_with(0))
    assert len(launcher.jobs) == 1


def test_the_run_that_failed_is_continued_by_its_name(capsys):
    launcher = Launcher(failed(7))
    assert with_restarts(launcher, job_with(1)) == "outcome"
    first, second = launcher.jobs
    assert (first.request.name, first.resume_only, first.restart) == ("", False, 0)
    assert (second.request.name, second.resume_only, second.restart) == ("good-name", True, 1)
    assert capsys.readouterr().err == (
        "palaestra: Rank 1 was ended by SIGKILL. Restarting from checkpoint 7 (restart 1 of 1).\n"
    )


def test_a_failure_before_there_is_a_run_starts_anew(capsys):
    launcher = Launcher(failed())
    assert with_restarts(launcher, job_with(1)) == "outcome"
    assert launcher.jobs[1].resume_only is False
    assert "Restarting from the first step" in capsys.readouterr().err


def test_only_restarts_without_a_newer_checkpoint_are_counted():
    launcher = Launcher(failed(1), failed(1), failed(2), failed(2), failed(3))
    assert with_restarts(launcher, job_with(2)) == "outcome"
    assert [job.restart for job in launcher.jobs] == [0, 1, 2, 3, 4, 5]
    launcher = Launcher(failed(1), failed(1), failed(1))
    with pytest.raises(RanksFailed, match="restarted 2 times without a newer checkpoint"):
        with_restarts(launcher, job_with(2))
    assert len(launcher.jobs) == 3


@pytest.mark.parametrize("error", [failed(1, exit_code=2), failed(1, was_stopped=True), UsageError("no")])
def test_refusals_and_the_users_own_stop_are_not_repeated(error):
    launcher = Launcher(error)
    with pytest.raises(type(error)):
        with_restarts(launcher, job_with(5))
    assert len(launcher.jobs) == 1
