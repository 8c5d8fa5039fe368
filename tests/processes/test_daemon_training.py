"""Our own trainer under a daemon: submitted, watched, stopped, continued bit for bit, unharmed when the daemon dies."""

import json
import os
import signal
import subprocess
import sys

import pytest

from palaestra.core.run import RunRequest, RunState
from palaestra.core.worker_kind import Resources
from palaestra.daemon.monitor_handle import read_monitor_record
from palaestra.daemon.process_tree import find_members
from palaestra.daemon.service import Daemon
from palaestra.daemon.settings import DaemonSettings
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

pytestmark = pytest.mark.slow

TINY = {
    "total_steps": 2048,
    "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16},
    "checkpoints": {"save_interval": 4},
    "loggers": {"tensorboard": False},
}
SETTINGS = DaemonSettings(machine=Resources(cpus=2, gpus=0, memory_mb=8000))

SERVE = """
import json, sys, time
from pathlib import Path
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import Resources
from palaestra.daemon.service import Daemon
from palaestra.daemon.settings import DaemonSettings
with Daemon(Path(sys.argv[1]), DaemonSettings(machine=Resources(2, 0, 8000))) as daemon:
    print(daemon.submit(RunRequest("native", "cartpole", json.loads(sys.argv[2]), name="trained")).id, flush=True)
    time.sleep(1000)
"""


def request(name="", **changes):
    return RunRequest("native", "cartpole", {**TINY, **changes}, name=name, submitted_by="test")


def saved(directory):
    return sum(entry.event == "checkpoint.saved" for entry in read_journal(directory.journal_file))


def test_a_training_and_its_evaluation_go_through_one_interface(palaestra):
    with Daemon(palaestra.runs, SETTINGS) as daemon:
        trained = daemon.wait(daemon.submit(request("first")).id, 120)
        evaluated = daemon.wait(daemon.submit(RunRequest("evaluate", "", {"target": "latest", "episodes": 2})).id, 120)
    assert (trained.state, trained.record.agent_step) == (RunState.FINISHED, 2048)
    assert (evaluated.state, evaluated.record.recipe) == (RunState.FINISHED, "latest")
    events = [entry.event for entry in read_journal(RunStore(palaestra.runs).directory(trained.id).journal_file)]
    assert events[:3] == ["run.created", "run.queued", "worker.started"]
    assert {"run.started", "checkpoint.saved", "run.finished", "worker.ended", "eval.batch"} <= set(events)


@pytest.mark.full
def test_stopped_and_retried_it_is_bit_for_bit_as_if_never_interrupted(palaestra, wait_until, differences):
    with Daemon(palaestra.runs, SETTINGS) as daemon:
        whole = daemon.submit(request("whole"))
        broken = daemon.submit(request("broken"))
        directory = daemon.directory("broken")
        wait_until(lambda: saved(directory) >= 2, "two checkpoints")
        daemon.stop("broken")
        stopped = daemon.wait("broken", 60)
        assert stopped.state in {RunState.CANCELLED, RunState.FINISHED}
        if stopped.state is RunState.CANCELLED:  # else it was too quick for us
            assert stopped.record.exit_code == 143
            daemon.retry("broken")
        assert daemon.wait("broken", 120).state is RunState.FINISHED
        assert daemon.wait(whole.id, 120).state is RunState.FINISHED
        assert differences(daemon.directory("whole"), directory) == []
        assert broken.id == daemon.get("broken").id


@pytest.mark.fault("G1", "G8")
def test_a_training_goes_on_unharmed_while_its_daemon_is_killed_and_comes_again(palaestra, wait_until, differences):
    serving = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(palaestra.runs), json.dumps(TINY)], stdout=subprocess.PIPE, text=True
    )
    run_id = serving.stdout.readline().strip()
    directory = RunStore(palaestra.runs).directory(run_id)
    wait_until(lambda: saved(directory) >= 1, "a checkpoint")
    serving.kill()
    serving.wait()
    serving.stdout.close()
    with Daemon(palaestra.runs, SETTINGS) as daemon:
        assert daemon.get(run_id).state in {RunState.RUNNING, RunState.FINISHED}
        assert daemon.wait(run_id, 120).state is RunState.FINISHED
        other = daemon.wait(daemon.submit(request("other")).id, 120)
        assert differences(directory, daemon.directory(other.id)) == []
    starts = [
        entry.event for entry in read_journal(directory.journal_file) if entry.event in {"run.started", "run.resumed"}
    ]
    assert starts == ["run.started"]


@pytest.mark.full
@pytest.mark.fault("G2")
def test_a_killed_trainer_of_two_ranks_is_noticed_and_no_rank_is_left(palaestra, wait_until):
    with Daemon(palaestra.runs, SETTINGS) as daemon:
        entry = daemon.submit(RunRequest("native", "cartpole", {**TINY, "total_steps": 10**8}, nproc=2))
        directory = daemon.directory(entry.id)
        wait_until(lambda: saved(directory) >= 1, "a checkpoint")
        assert len(find_members(entry.id, None)) >= 3  # launcher and two ranks
        os.kill(read_monitor_record(directory).worker.pid, signal.SIGKILL)
        done = daemon.wait(entry.id, 60)
        assert (done.state, done.record.failure) == (RunState.FAILED, "the process was ended by SIGKILL")
        assert find_members(entry.id, None) == []


@pytest.mark.fault("R10")
def test_an_environment_that_is_not_there_fails_with_its_own_words(palaestra):
    with Daemon(palaestra.runs, SETTINGS) as daemon:
        done = daemon.wait(daemon.submit(request(env={"id": "NoSuch-v0"})).id, 120)
    assert (done.state, done.record.exit_code) == (RunState.FAILED, 3)
    assert "NoSuch" in done.record.failure
    assert read_record(RunStore(palaestra.runs).directory(done.id)).failure == done.record.failure


@pytest.mark.full
@pytest.mark.fault("G10")
def test_a_second_trainer_in_a_run_of_the_daemon_is_refused(palaestra, wait_until):
    with Daemon(palaestra.runs, SETTINGS) as daemon:
        entry = daemon.submit(request("mine", total_steps=10**8))
        wait_until(lambda: saved(daemon.directory(entry.id)) >= 1, "a checkpoint")
        second = palaestra("train", "--resume", "run=mine", "--quiet")
        assert second.code == 2
        assert "is being trained by process" in second.err
        daemon.stop("mine")
        assert daemon.wait("mine", 60).state is RunState.CANCELLED
