"""The actor's class without Ray: a process in place of a trainer, reports in place of calls."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from palaestra.cluster.training.rank_actor import (
    RankActor,
    RunUpload,
    ScratchDirectory,
    rank_variables,
    remove_abandoned,
)
from palaestra.cluster.training.run_mirror import RunMirror
from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest
from palaestra.runner.job import TrainingJob
from palaestra.runner.launcher import REPORT_VARIABLE
from palaestra.runner.ranks import RankSpec
from palaestra.runs.environment import code_identity

SAYS = f"""
import json, os, sys
job = json.loads(sys.stdin.read())
print("out", os.environ["RANK"], os.environ["MASTER_PORT"], os.environ["OMP_NUM_THREADS"], flush=True)
print("err", file=sys.stderr, flush=True)
os.write(int(os.environ["{REPORT_VARIABLE}"]), json.dumps(
    {{"exit_code": 0, "at": 1.0, "directory": job["runs_root"]}}
).encode() + b"\\n")
"""
WAITS = "import sys, signal; sys.stdin.read(); print('ready', flush=True); signal.pause()"


@pytest.fixture
def actor(monkeypatch, tmp_path):
    started = []

    def start(program, folder="/no/such/folder", delivery=None, name=""):
        popen = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", lambda words, **rest: popen([sys.executable, "-c", program], **rest))
        made = RankActor(0)
        port = made.listen("127.0.0.1")
        job = TrainingJob(RunRequest("native", "cartpole", {}, name), TrainConfig(), tmp_path)
        spec = asdict(RankSpec(0, 1, 0, "127.0.0.1", port))
        made.start(spec, job.to_json(), {"OMP_NUM_THREADS": "3"}, folder, delivery)
        started.append(made)
        return made, port

    yield start
    for made in started:
        made.close()
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
    assert reports[-1].exit_report["directory"] == str(tmp_path)
    assert reports[-1].ended_at <= reports[-1].now
    assert made.report().exit_report == reports[-1].exit_report  # asked again, it says the same


def test_a_signal_reaches_the_rank(actor):
    made, _ = actor(WAITS)
    until(made, lambda report: b"ready" in report.output)
    made.signal(signal.SIGTERM)
    assert until(made, lambda report: report.code is not None)[-1].code == -signal.SIGTERM


def test_a_rank_that_reported_nothing_has_no_account(actor):
    made, _ = actor("import sys; sys.stdin.read()")
    assert until(made, lambda report: report.code is not None)[-1].exit_report is None


def test_an_actor_says_whether_it_sees_the_runs(tmp_path):
    (tmp_path / "marker").touch()
    site = RankActor(0).site("node", "10.0.0.5", str(tmp_path), "marker")
    assert (site.node, site.address, site.sees_runs) == ("node", "10.0.0.5", True)
    assert site.code == code_identity()
    assert not RankActor(0).site("node", "10.0.0.5", str(tmp_path), "absent").sees_runs


def test_a_machine_may_be_instructed_to_use_its_own_disk(tmp_path, monkeypatch):
    (tmp_path / "marker").touch()
    monkeypatch.setenv("PALAESTRA_OWN_DISK", "1")
    assert not RankActor(0).site("node", "10.0.0.5", str(tmp_path), "marker").sees_runs


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "[::1]"])
def test_ranks_meet_at_an_address_of_either_kind(address):
    made = RankActor(0)
    port = made.listen(address)
    socket.create_connection((address.strip("[]"), port), timeout=5).close()
    made._listening.close()


MAKES_A_RUN = """
import json, sys
from pathlib import Path
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore
job = json.loads(sys.stdin.read())
directory = RunStore(Path(job["runs_root"])).create(RunRequest("native", "", {}, "far"), {"a": 1}, "far", 100)
(directory.logs / "rank_0.log").write_text("hello")
print("made in", job["runs_root"], flush=True)
"""


def test_on_a_disk_of_its_own_the_run_comes_with_the_reports_and_nothing_stays(actor, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made, _ = actor(MAKES_A_RUN, delivery=RunUpload(), name="far")
    scratch = made._scratch.path
    reports = until(made, lambda report: report.code is not None)
    with closing(RunMirror(tmp_path / "driver", "far")) as mirror:
        for report in reports:
            if report.run is not None:
                mirror.apply(report.run)
        assert mirror.directory.log_file(0).read_text() == "hello"
    assert scratch.is_dir()
    made.close()
    assert not list(tmp_path.glob("palaestra-run-*"))


def test_a_rank_is_none_of_rays_processes_but_may_ask_the_cluster():
    given = {"RAY_JOB_ID": "1", "RANK": "3", "RAY_AUTH_TOKEN": "x", "RAY_AUTH_MODE": "token", "PATH": "/bin"}
    assert rank_variables(given) == {"RAY_AUTH_TOKEN": "x", "RAY_AUTH_MODE": "token", "PATH": "/bin"}


SCRATCH_WAITS = """
import signal, sys
from pathlib import Path
from palaestra.cluster.training.rank_actor import ScratchDirectory
scratch = ScratchDirectory(Path(sys.argv[1]))
print(scratch.path, flush=True)
signal.pause()
"""


def test_a_scratch_directory_is_private_and_gone_when_it_is_closed(tmp_path):
    scratch = ScratchDirectory(tmp_path)
    (scratch.path / "file").touch()
    assert scratch.path.stat().st_mode & 0o777 == 0o700
    scratch.close()
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(tmp_path):
    living = ScratchDirectory(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", SCRATCH_WAITS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        path = process.stdout.readline().strip()
        remove_abandoned(tmp_path)
        assert Path(path).is_dir()
        process.send_signal(signal.SIGKILL)
    remove_abandoned(tmp_path)
    assert [one.name for one in sorted(tmp_path.iterdir()) if one.is_dir()] == [living.path.name]
    living.close()
