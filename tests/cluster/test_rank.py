"""The actor's class without Ray: a process in place of a trainer, reports in place of calls."""

import signal
import sys
import time
from dataclasses import asdict

import pytest

from palaestra.cluster.rank import RankActor, rank_variables
from palaestra.config.train import TrainConfig
from palaestra.contracts.run import RunRequest
from palaestra.workers import ranks as ranks_module
from palaestra.workers.account import PIPE
from palaestra.workers.job import Job
from palaestra.workers.ranks import Seat

SAYS = f"""
import json, os, sys
job = json.loads(sys.stdin.read())
print("out", os.environ["RANK"], os.environ["MASTER_PORT"], os.environ["OMP_NUM_THREADS"], flush=True)
print("err", file=sys.stderr, flush=True)
os.write(int(os.environ["{PIPE}"]), json.dumps({{"exit_code": 0, "at": 1.0, "directory": job["runs_root"]}}).encode())
"""
WAITS = "import sys, signal; sys.stdin.read(); print('ready', flush=True); signal.pause()"


@pytest.fixture
def actor(monkeypatch, tmp_path):
    started = []

    def start(program, folder="/no/such/folder"):
        popen = ranks_module.subprocess.Popen
        monkeypatch.setattr(
            ranks_module.subprocess, "Popen", lambda words, **rest: popen([sys.executable, "-c", program], **rest)
        )
        made = RankActor(0)
        port = made.listen("127.0.0.1")
        job = Job(RunRequest("native", "cartpole", {}), TrainConfig(), tmp_path)
        made.start(asdict(Seat(0, 1, 0, "127.0.0.1", port)), job.to_json(), {"OMP_NUM_THREADS": "3"}, folder)
        started.append(made)
        return made, port

    yield start
    for made in started:
        made.kill()
        until(made, lambda report: report.code is not None)
        made._output.close()


def until(actor, condition):
    """Reports up to the first for which the condition holds."""
    reports = [actor.report()]
    deadline = time.monotonic() + 30
    while not condition(reports[-1]):
        assert time.monotonic() < deadline
        reports.append(actor.report())
    return reports


def test_a_rank_gets_its_seat_and_its_job_and_all_it_prints_is_reported(actor, tmp_path):
    made, port = actor(SAYS)
    reports = until(made, lambda report: report.code is not None)
    assert b"".join(report.output for report in reports).splitlines() == [f"out 0 {port} 3".encode(), b"err"]
    assert reports[-1].code == 0
    assert reports[-1].account["directory"] == str(tmp_path)
    assert reports[-1].ended_at <= reports[-1].now
    assert made.report().account == reports[-1].account  # asked again, it says the same


def test_a_signal_reaches_the_rank(actor):
    made, _ = actor(WAITS)
    until(made, lambda report: b"ready" in report.output)
    made.signal(signal.SIGTERM)
    assert until(made, lambda report: report.code is not None)[-1].code == -signal.SIGTERM


def test_a_rank_that_said_nothing_has_no_account(actor):
    made, _ = actor("import sys; sys.stdin.read()")
    assert until(made, lambda report: report.code is not None)[-1].account is None


def test_an_actor_says_whether_it_sees_the_runs(tmp_path):
    (tmp_path / "witness").touch()
    site = RankActor(0).site("node", "10.0.0.5", str(tmp_path), "witness")
    assert (site.node, site.address, site.sees_runs) == ("node", "10.0.0.5", True)
    assert not RankActor(0).site("node", "10.0.0.5", str(tmp_path), "absent").sees_runs


def test_a_rank_is_none_of_rays_processes_but_may_ask_the_cluster():
    given = {"RAY_JOB_ID": "1", "RAY_AUTH_TOKEN": "x", "RAY_AUTH_MODE": "token", "PATH": "/bin"}
    assert rank_variables(given) == {"RAY_AUTH_TOKEN": "x", "RAY_AUTH_MODE": "token", "PATH": "/bin"}
