"""`executor=ray nproc=2` from the shell: the same weights as `--nproc 2`, the same ends, and nobody left behind."""

import json
import os
import signal
import subprocess

import psutil
import pytest

from palaestra.core.run import RunState
from palaestra.runs.documents import read_request
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

pytestmark = pytest.mark.slow

WORDS = [
    "train",
    "cartpole",
    "ppo.env_count=2",
    "ppo.horizon=16",
    "ppo.minibatch_size=16",
    "checkpoints.save_interval=1",
    "loggers.tensorboard=false",
    "--quiet",
]
RESUMED = ["--override", "total_steps", "--quiet"]
ON_RAY = ["executor=ray", "nproc=2", "cluster.cpus=2"]


class Launched:
    """A driver in a process group of its own, and its ranks, found by their environment."""

    def __init__(self, palaestra, name, *arguments, **variables):
        self.name, self.palaestra = name, palaestra
        self.process = subprocess.Popen(
            palaestra.command(*WORDS, *ON_RAY, f"run={name}", *(arguments or ["total_steps=1e9"])),
            cwd=palaestra.home,
            env={**palaestra.variables, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def ranks(self):
        """{rank: process} of those alive."""
        found = {}
        for process in psutil.process_iter():
            try:
                variables = process.environ()
                is_ours = (
                    variables.get("PALAESTRA_FRAME_BUFFERS_DIR")
                    == self.palaestra.variables["PALAESTRA_FRAME_BUFFERS_DIR"]
                )
                is_ours = is_ours and "RANK" in variables
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    found[int(variables["RANK"])] = process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def saved(self):
        directory = RunStore(self.palaestra.runs).named(self.name)
        entries = read_journal(directory.journal_file) if directory else []
        return sum(entry.event == "checkpoint.saved" for entry in entries)

    def end(self):
        out, reports = self.process.communicate(timeout=120)
        assert out == ""
        return self.process.returncode, reports


@pytest.fixture
def launch(palaestra, wait_until):
    launched = []

    def start(name, *arguments, **variables):
        launched.append(Launched(palaestra, name, *arguments, **variables))
        wait_until(lambda: launched[-1].saved() >= 2 or launched[-1].process.poll() is not None, "two checkpoints")
        return launched[-1]

    yield start
    for one in launched:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()
        wait_until(lambda one=one: not one.ranks(), "the end of all ranks")


def rows_of(directory):
    with MetricsReader(directory.metrics_file) as reader:
        return reader.rows()


def digests(directory):
    """Of the weights with which each rank ended, as it wrote them into its own log."""
    return [directory.log_file(rank).read_text().rpartition("sha256=")[2].split()[0] for rank in (0, 1)]


@pytest.mark.full
def test_the_weights_are_those_of_nproc_and_the_request_says_who_placed_it(palaestra):
    placed = palaestra(*WORDS, *ON_RAY, "run=placed", "total_steps=512", "--json")
    assert placed.code == 0, placed.err
    assert json.loads(placed.out)["agent_step"] == 512
    local = palaestra(*WORDS, "run=local", "total_steps=512", "--nproc", "2")
    assert local.code == 0, local.err
    mine, theirs = digests(palaestra.run("placed")), digests(palaestra.run("local"))
    assert len({*mine, *theirs}) == 1
    request = read_request(palaestra.run("placed"))
    assert (request.executor, request.nproc) == ("ray", 2)


@pytest.mark.full
def test_ctrl_c_in_a_terminal_lets_all_ranks_save_and_leave_together(launch, palaestra):
    launched = launch("stopped")
    os.killpg(launched.process.pid, signal.SIGINT)
    code, reports = launched.end()
    assert code == 130, reports
    record = read_record(palaestra.run("stopped"))
    assert record.state is RunState.CANCELLED
    assert launched.ranks() == {}
    again = palaestra("train", "--resume", "run=stopped", *ON_RAY, f"total_steps={record.agent_step + 64}", *RESUMED)
    assert again.code == 0, again.err


@pytest.mark.full
def test_a_driver_that_is_killed_leaves_no_rank(launch, wait_until):
    launched = launch("orphaned")
    assert len(launched.ranks()) == 2
    launched.process.kill()
    launched.process.communicate()
    wait_until(lambda: launched.ranks() == {}, "the end of the ranks")


@pytest.mark.full
def test_a_rank_that_is_killed_is_the_cause_by_name(launch, palaestra):
    launched = launch("wounded")
    launched.ranks()[1].kill()
    code, reports = launched.end()
    assert code == 1
    assert "Rank 1 was ended by SIGKILL." in reports
    record = read_record(palaestra.run("wounded"))
    assert record.state is RunState.FAILED
    assert "Rank 1 was ended by SIGKILL." in record.failure


@pytest.mark.full
def test_an_actor_that_ray_loses_is_reported_as_its_rank(launch):
    launched = launch("bereft")
    psutil.Process(launched.ranks()[1].ppid()).kill()
    code, reports = launched.end()
    assert code == 1
    assert "Rank 1 failed: Ray lost it on" in reports


@pytest.mark.full
def test_without_a_shared_disk_the_run_is_here_in_the_end_as_if_trained_here_and_goes_on(palaestra, tmp_path):
    apart = {"PALAESTRA_OWN_DISK": "1", "TMPDIR": str(tmp_path)}
    for steps, more in (("256", []), ("512", ["--override", "total_steps"])):
        placed = palaestra(*WORDS, *ON_RAY, "run=apart", f"total_steps={steps}", "--json", *more, variables=apart)
        assert placed.code == 0, placed.err
        found = json.loads(placed.out)
        assert (found["agent_step"], found["directory"]) == (int(steps), str(palaestra.run("apart").path))
    local = palaestra(*WORDS, "run=local", "total_steps=256", "--nproc", "2")
    assert local.code == 0, local.err
    local = palaestra(*WORDS, "run=local", "total_steps=512", "--nproc", "2", "--override", "total_steps")
    assert local.code == 0, local.err
    apart, here = palaestra.run("apart"), palaestra.run("local")
    assert digests(apart) == digests(here)
    assert rows_of(apart) == rows_of(here)
    names = [sorted(path.name for path in one.checkpoints.iterdir()) for one in (apart, here)]
    assert names[0] == names[1]
    assert not list(tmp_path.glob("palaestra-run-*"))


@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_lost_actor_is_placed_again_and_the_run_ends_as_if_nothing_had_happened(launch, palaestra, victim, tmp_path):
    arguments = ("total_steps=8192", "distributed.restarts=1")
    launched = launch("lost", *arguments, PALAESTRA_OWN_DISK="1", TMPDIR=str(tmp_path))
    psutil.Process(launched.ranks()[victim].ppid()).kill()
    code, message = launched.end()
    assert code == 0, message
    assert "Restarting from checkpoint" in message
    events = [entry.event for entry in read_journal(palaestra.run("lost").journal_file)]
    assert events.count("run.restarted") == events.count("run.resumed") == 1
    whole = palaestra(*WORDS, "run=whole", *arguments, "--nproc", "2")
    assert whole.code == 0, whole.err
    assert digests(palaestra.run("lost")) == digests(palaestra.run("whole"))
    assert rows_of(palaestra.run("lost")) == rows_of(palaestra.run("whole"))


def test_more_ranks_than_processors_are_refused_with_both_numbers_and_nothing_is_left(palaestra):
    done = palaestra(*WORDS, "executor=ray", "nproc=5", "cluster.cpus=3", "run=crowd")
    assert done.code == 2
    assert "nproc=5 needs 5 CPUs" in done.err
    assert "has 3" in done.err
    assert not palaestra.runs.exists()
