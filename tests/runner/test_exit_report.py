import os
import sys

import pytest

from palaestra.core.child_process import LineChild
from palaestra.core.errors import NotFound, RunFailed
from palaestra.runner.exit_report import (
    REPORT_VARIABLE,
    ExitReport,
    parse_report,
    receive_report,
    report_of,
    send_report,
)


def test_a_report_is_one_line_through_a_pipe(monkeypatch):
    pipe, told = os.pipe()
    monkeypatch.setenv(REPORT_VARIABLE, str(told))
    exit_report = ExitReport(3, 1.5, error="gone", hint="look", is_consequence=True)
    send_report(exit_report)
    os.close(told)
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
    child = LineChild([sys.executable, "-c", program], answer_variable=REPORT_VARIABLE)
    child.process.wait()
    assert receive_report(child) == report
    assert child.is_closed
