"""Processes that are not trainers: what starts, signals and ends them is the same."""

import os
import signal
import subprocess
import sys

import pytest

from palaestra.core.child_process import STANDARD_ERROR
from palaestra.runner.launcher import REPORT_VARIABLE
from palaestra.runner.ranks import Rank, RankSpec, forwarded_signals, started_ranks

ECHO = f"""
import json, os, sys
os.write(int(os.environ["{REPORT_VARIABLE}"]), json.dumps(
    {{
        "exit_code": 0,
        "at": 1.0,
        "directory": sys.stdin.read().strip(),
        "hint": os.environ["RANK"] + os.environ["WORLD_SIZE"],
    }}
).encode() + b"\\n")
"""
WAIT = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(42)); print('ready', flush=True); signal.pause()"


class PaperJob:
    def to_json(self) -> str:
        return "the job"


@pytest.fixture
def rank_program(monkeypatch):
    """What runs in place of `python -m palaestra.runner`."""

    def choose(program):
        popen = subprocess.Popen

        def start(_command, **settings):
            if settings["stdout"] == STANDARD_ERROR:
                settings["stdout"] = None
            return popen([sys.executable, "-c", program], **settings)

        monkeypatch.setattr(subprocess, "Popen", start)

    return choose


def test_every_rank_gets_its_number_and_the_job_and_can_report(rank_program):
    rank_program(ECHO)
    with started_ranks(PaperJob(), 2) as ranks:
        for rank in ranks:
            assert rank.process.wait() == 0
        exit_reports = [rank.exit_report() for rank in ranks]
    assert [(report.directory, report.hint) for report in exit_reports] == [("the job", "02"), ("the job", "12")]


def test_a_rank_that_reports_nothing_has_no_report(rank_program):
    rank_program("pass")
    with started_ranks(PaperJob(), 1) as (rank,):
        rank.process.wait()
        assert rank.exit_report() is None


def test_no_rank_outlives_the_block(rank_program):
    rank_program("import time; time.sleep(600)")
    with pytest.raises(ZeroDivisionError), started_ranks(PaperJob(), 2) as ranks:
        raise ZeroDivisionError
    assert [rank.process.returncode for rank in ranks] == [-signal.SIGKILL] * 2
    assert all(rank.was_killed for rank in ranks)


def test_a_signal_goes_to_every_rank_once(rank_program, capfd):
    rank_program(WAIT)
    with started_ranks(PaperJob(), 2) as ranks, forwarded_signals(ranks) as came:
        reported = ""
        while reported.count("ready") < 2:
            reported += capfd.readouterr().out
        os.kill(os.getpid(), signal.SIGTERM)
        assert [rank.process.wait() for rank in ranks] == [42, 42]
    assert came == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_remote_rank_gets_the_meeting_address_and_its_own_output_file(rank_program, tmp_path):
    rank_program("import os; print(*(os.environ[name] for name in ('RANK', 'LOCAL_RANK', 'MASTER_ADDR', 'EXTRA')))")
    variables = {"EXTRA": "more", "PATH": os.environ["PATH"]}
    with (tmp_path / "output").open("wb") as output:
        rank = Rank(RankSpec(3, 4, 1, "10.0.0.5", 7000), None, variables, output)
        rank.give(PaperJob())
        assert rank.process.wait() == 0
    assert rank.exit_report() is None
    assert rank.code == 0
    assert (tmp_path / "output").read_text() == "3 1 10.0.0.5 more\n"
