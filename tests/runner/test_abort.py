"""`os._exit` in the user's code is a failure with a place, whatever code it was called with."""

import os
import signal
import subprocess
import sys

import pytest

from palaestra.core.errors import RunFailed
from palaestra.core.run import RunState
from palaestra.runner.abort import Abort, exits_reported
from palaestra.runner.launcher import REPORT_VARIABLE, parse_report
from palaestra.runner.session import FollowerSession
from palaestra.runner.signals import StopNow
from palaestra.runs.directory import RunDirectory


class Exited(BaseException):
    """Instead of the end of the process."""


@pytest.fixture
def abort(monkeypatch, tmp_path, clock):
    def exit_now(code):
        raise Exited(code)

    monkeypatch.setattr(os, "_exit", exit_now)
    monkeypatch.delenv(REPORT_VARIABLE, raising=False)
    abort = Abort()
    abort.session = FollowerSession(RunDirectory(tmp_path), 100, clock)
    return abort


@pytest.mark.parametrize("status", [0, 7])
def test_an_exit_is_never_a_success_and_its_position_is_reported(abort, capsys, status):
    with exits_reported(abort), pytest.raises(Exited) as exited:
        os._exit(status)
    assert exited.value.args == (1,)
    assert (abort.session.record.state, abort.session.record.exit_code) == (RunState.FAILED, 1)
    assert f"os._exit({status}) was called" in abort.session.record.failure
    reports = capsys.readouterr().err
    assert "test_abort.py" in reports
    assert f"palaestra: os._exit({status}) was called." in reports


def test_afterwards_it_is_pythons_own_again(abort):
    before = os._exit
    with exits_reported(abort):
        assert os._exit is not before
    assert os._exit is before


def test_a_forked_process_may_exit():
    with exits_reported(Abort()):
        child = os.fork()
        if child == 0:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_a_rank_reports_to_its_launcher_instead_of_the_terminal(abort, monkeypatch, capsys):
    pipe, reports = os.pipe()
    monkeypatch.setenv(REPORT_VARIABLE, str(reports))
    with pytest.raises(Exited):
        abort.fail(RunFailed("it hangs", "wait longer"), "stack")
    os.close(reports)
    with os.fdopen(pipe, "rb") as stream:
        exit_report = parse_report(stream.read())
    assert (exit_report.exit_code, exit_report.error, exit_report.hint) == (1, "it hangs", "wait longer")
    assert capsys.readouterr().err == ""


def test_a_signal_that_could_not_be_obeyed_cancels(abort):
    with pytest.raises(Exited) as exited:
        abort.cancel(StopNow(15, "SIGTERM came in a step"), "stack")
    assert exited.value.args == (143,)
    assert abort.session.record.state is RunState.CANCELLED


def test_a_crash_in_compiled_code_prints_where_python_was():
    program = (
        "import ctypes\nfrom palaestra.runner.abort import explain_crashes\nexplain_crashes()\nctypes.string_at(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV
    assert 'File "<string>", line 4 in <module>' in done.stderr
