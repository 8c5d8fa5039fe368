"""A sweep on three machines without a shared disk, of which one is killed and one joins late."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.store import RunStore

pytestmark = [pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(1200)]

spec = importlib.util.spec_from_file_location(
    "machines_on_loopback", Path(__file__).parents[1] / "machines_on_loopback.py"
)
machines = importlib.util.module_from_spec(spec)
spec.loader.exec_module(machines)

WAIT_SECONDS = 600.0
GAMMAS = "0.9,0.92,0.94,0.95,0.96,0.97,0.98,0.985,0.99,0.993,0.995,0.999"
SWEEP = (
    "sweep",
    "cartpole",
    "sweep=el",
    f"ppo.gamma={GAMMAS}",
    "total_steps=20480",
    "metric=return",
    "checkpoints.save_interval=5",
    "ppo.env_count=2",
    "ppo.minibatch_size=32",
    "ppo.update_epochs=2",
    "loggers.tensorboard=false",
)


def until(condition, process):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert process.poll() is None, "the sweep ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command(*arguments):
    return [sys.executable, "-m", "palaestra", *arguments]


def rows_of(root, name):
    with MetricsReader(RunStore(root).named(name).metrics_file) as reader:
        return reader.rows()


def has_checkpoint(root, name):
    found = RunStore(root).named(name)
    return found is not None and any(found.checkpoints.glob("model_*.yaml"))


@pytest.fixture
def cluster():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="el") as folder:  # short: Ray's sockets lie deep below it
        made = machines.LoopbackCluster(folder, Path(folder).name)
        yield made
        made.close()


def test_twelve_trials_with_a_machine_killed_and_one_joined_late_are_those_of_one_machine(cluster, tmp_path):
    cluster.start("one", 2, cpus=1)
    cluster.start("two", 3, cpus=1)
    runs, local = tmp_path / "runs", tmp_path / "local"
    common = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    variables = {**common, **cluster.variables, "PALAESTRA_RUNS_DIR": str(runs)}
    arguments = (*SWEEP, "executor=ray", f"cluster.address={cluster.address}", "--json")
    with subprocess.Popen(command(*arguments), env=variables, stdout=subprocess.PIPE, text=True) as sweep:
        try:
            until(lambda: has_checkpoint(runs, "el-t1") and has_checkpoint(runs, "el-t2"), sweep)
            cluster.kill("two")
            until(lambda: has_checkpoint(runs, "el-t4"), sweep)
            cluster.start("three", 4, cpus=1)
            out, _ = sweep.communicate(timeout=WAIT_SECONDS)
        finally:
            sweep.kill()
    assert sweep.returncode == 0, out
    alone = subprocess.run(
        command(*SWEEP, "--slots", "2", "--json"),
        env={**common, "PALAESTRA_RUNS_DIR": str(local)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert alone.returncode == 0, alone.stderr
    theirs, ours = json.loads(out), json.loads(alone.stdout)
    assert [(one["number"], one["value"]) for one in theirs["trials"]] == [
        (one["number"], one["value"]) for one in ours["trials"]
    ]
    numbers = range(1, 13)
    assert all(rows_of(runs, f"el-t{number}") == rows_of(local, f"el-t{number}") for number in numbers)
    journals = [read_journal(RunStore(runs).named(f"el-t{number}").journal_file) for number in numbers]
    assert sum(entry.event == "run.resumed" for entries in journals for entry in entries) == 1
