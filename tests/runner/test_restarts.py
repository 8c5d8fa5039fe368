from pathlib import Path

import pytest

from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.run import RunRequest
from palaestra.runner.job import TrainingJob
from palaestra.runner.restarts import Progress, RanksFailed, with_restarts


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
