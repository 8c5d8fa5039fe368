from __future__ import annotations

import os
import signal
import socket
import sys

import pytest

from palaestra.algorithms.group import PeerLost
from palaestra.core.child_process import LineChild
from palaestra.core.errors import NotFound, RunFailed, UsageError
from palaestra.runner import launcher
from palaestra.runner.launcher import (
    LAUNCHER,
    REPORT_VARIABLE,
    ExitReport,
    die_with_launcher,
    parse_report,
    receive_report,
    refusals_posted,
    report_of,
    send_report,
)


def in_child(work) -> int:
    """How a forked process that does `work` ends."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.timeout(20)
def test_a_rank_ends_with_its_launcher():
    pipe, kept_open = os.pipe()

    def parent():
        if not os.fork():
            os.close(pipe)
            die_with_launcher()
            os.write(kept_open, b"x")  # from now on the kernel watches
            signal.pause()
        os.read(pipe, 1)

    assert in_child(parent) == 0
    os.close(kept_open)
    assert os.read(pipe, 1) == b""  # the grandchild had the other end, and is gone
    os.close(pipe)


def test_a_launcher_that_is_gone_already_is_not_survived(monkeypatch):
    monkeypatch.setenv(LAUNCHER, "1")
    assert in_child(die_with_launcher) == -signal.SIGKILL


@pytest.fixture
def torchrun_at(monkeypatch):
    """As torchrun describes itself to its ranks; gives the socket at which it would listen."""
    with socket.socket() as agent:
        agent.bind(("127.0.0.1", 0))
        monkeypatch.delenv(LAUNCHER, raising=False)
        monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(agent.getsockname()[1]))
        yield agent


def test_a_torchrun_that_ended_before_prctl_is_not_survived(torchrun_at):
    assert in_child(die_with_launcher) == -signal.SIGKILL


def test_a_torchrun_that_listens_is_no_reason_to_end(torchrun_at):
    torchrun_at.listen()
    assert in_child(die_with_launcher) == 0


def test_a_launcher_that_lives_is_no_reason_to_end(monkeypatch):
    monkeypatch.setenv(LAUNCHER, str(os.getpid()))
    assert in_child(die_with_launcher) == 0


def test_a_report_is_one_line_through_a_pipe(monkeypatch):
    pipe, reports = os.pipe()
    monkeypatch.setenv(REPORT_VARIABLE, str(reports))
    exit_report = ExitReport(3, 1.5, error="gone", hint="look", is_consequence=True)
    send_report(exit_report)
    os.close(reports)
    with os.fdopen(pipe, "rb") as stream:
        assert parse_report(stream.read()) == exit_report


def test_our_errors_keep_their_code_and_hint_and_others_their_name():
    ours = report_of(NotFound("No run.", "List them."), is_consequence=False)
    assert (ours.exit_code, ours.error, ours.hint) == (3, "No run.", "List them.")
    other = report_of(ZeroDivisionError("by zero"), is_consequence=False)
    assert (other.exit_code, other.error) == (1, "ZeroDivisionError: by zero")


def test_the_users_traceback_goes_along_and_no_text_fills_the_pipe():
    error = RunFailed("x" * 100_000)
    error.user_traceback = "Traceback of mine"
    exit_report = report_of(error, is_consequence=False)
    assert exit_report.user_traceback == "Traceback of mine"
    assert len(exit_report.error) < 10_000


def test_a_report_that_is_not_whole_is_none():
    assert parse_report(b"") is None
    assert parse_report(b'{"exit_code": 3, "at"') is None
    assert parse_report(b'{"surprise": 3}') is None


REPORTS = """
import json, os
os.write(int(os.environ["PALAESTRA_REPORT_FD"]), json.dumps({"exit_code": 2, "at": 1.0}).encode() + TAIL)
"""


@pytest.mark.parametrize(("tail", "report"), [(b"\n", ExitReport(2, 1.0)), (b"", None)])
def test_a_report_is_received_after_the_end_of_its_process_if_it_is_whole(tail, report):
    program = REPORTS.replace("TAIL", repr(tail))
    child = LineChild([sys.executable, "-c", program], pipe_variable=REPORT_VARIABLE)
    child.process.wait()
    assert receive_report(child) == report
    assert child.is_closed


PLACE = {"RANK": "1", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture
def posted(monkeypatch):
    found = []
    monkeypatch.setattr(launcher, "post_refusal", lambda place, message, seconds: found.append((place.rank, message)))
    monkeypatch.delenv(LAUNCHER, raising=False)
    for name, value in PLACE.items():
        monkeypatch.setenv(name, value)
    return found


def refuse(error):
    with pytest.raises(type(error)), refusals_posted():
        raise error


def test_a_refusal_of_one_of_several_ranks_is_posted(posted):
    refuse(NotFound("There is no run."))
    assert posted == [(1, "There is no run.")]


def known():
    error = UsageError("posted already, through the group")
    error.is_posted = True
    return error


@pytest.mark.parametrize("error", [known(), PeerLost("of another"), RunFailed("could not join")])
def test_what_the_others_know_and_what_is_no_refusal_is_not_posted(posted, error):
    refuse(error)
    assert posted == []


def test_one_process_alone_posts_nothing(posted, monkeypatch):
    for name in PLACE:
        monkeypatch.delenv(name)
    refuse(UsageError("no"))
    assert posted == []


def test_a_launcher_of_ours_sees_it_by_itself(posted, monkeypatch):
    monkeypatch.setenv(LAUNCHER, "1")
    refuse(UsageError("no"))
    assert posted == []


def test_invalid_rank_variables_post_nothing(posted, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR")
    refuse(UsageError("MASTER_ADDR is not set"))
    assert posted == []
