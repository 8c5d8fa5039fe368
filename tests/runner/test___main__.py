import io
import json
import os
import signal

import pytest

from palaestra.algorithms.group import PeerLost
from palaestra.core.errors import UsageError
from palaestra.runner import __main__ as rank_main
from palaestra.runner import train
from palaestra.runner.job import TrainingJob
from palaestra.runner.launcher import LAUNCHER, REPORT_VARIABLE, parse_report


@pytest.fixture
def run_rank(monkeypatch, tmp_path, small_config, request_of):
    """The rank's main with a job, and what it said to its launcher."""
    monkeypatch.setenv(LAUNCHER, str(os.getppid()))
    monkeypatch.setattr(rank_main, "die_with_launcher", lambda: None)

    def run():
        pipe, messages = os.pipe()
        monkeypatch.setenv(REPORT_VARIABLE, str(messages))
        job = TrainingJob(request_of("ranked"), small_config(), tmp_path / "runs", quiet=True)
        monkeypatch.setattr("sys.stdin", io.StringIO(job.to_json()))
        try:
            code = rank_main.main()
        finally:
            os.close(messages)
            with os.fdopen(pipe, "rb") as stream:
                reports.append(parse_report(stream.read()))
        return code

    reports = []
    run.reports = reports
    return run


def test_a_job_is_trained_and_its_directory_is_reported(run_rank):
    assert run_rank() == 0
    (exit_report,) = run_rank.reports
    with open(f"{exit_report.directory}/status.json", encoding="utf-8") as file:  # noqa: PTH123
        assert json.load(file)["state"] == "finished"


@pytest.mark.parametrize(
    ("error", "code", "is_consequence"), [(UsageError("No."), 2, False), (PeerLost("Rank 1 failed first."), 1, True)]
)
def test_an_error_is_reported_to_the_launcher_only(run_rank, monkeypatch, capfd, error, code, is_consequence):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(train, "run_training", refuse)
    assert run_rank() == code
    (exit_report,) = run_rank.reports
    assert (exit_report.exit_code, exit_report.is_consequence) == (code, is_consequence)
    assert capfd.readouterr() == ("", "")


def test_a_defect_of_ours_keeps_its_traceback(run_rank, monkeypatch):
    monkeypatch.setattr(train, "run_training", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_rank()
    assert run_rank.reports[0].error == "ZeroDivisionError: division by zero"


def test_a_signal_that_the_parent_had_blocked_is_handled(run_rank, monkeypatch):
    blocked = []
    monkeypatch.setattr(train, "run_training", lambda *_, **__: blocked.append(signal.pthread_sigmask(0, ())) or 1 / 0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with pytest.raises(ZeroDivisionError):
            run_rank()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert signal.SIGINT not in blocked[0]
