"""`--nproc 2` from the shell: one outcome, the first cause named, and nobody left behind."""

import json
import os
import signal
import subprocess

import psutil
import pytest

from palaestra.core.run import RunState
from palaestra.runner.launcher import LAUNCHER
from palaestra.runs.documents import read_config
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
    "--nproc",
    "2",
    "--quiet",
]
END_SECONDS = 120.0  # far beyond what anything here takes, also on a busy machine
ORPHAN_SECONDS = 30.0  # the kernel ends them at once; what nobody ends goes on for many minutes


class Launched:
    """A launcher and its ranks, found by what it wrote into their environment."""

    def __init__(self, palaestra, search, name, *more):
        self.name, self.palaestra = name, palaestra
        self.process = subprocess.Popen(
            palaestra.command(*WORDS, f"run={name}", *more),
            cwd=palaestra.home,
            env={**palaestra.variables, "PYTHONPATH": search},
            stderr=subprocess.PIPE,
            text=True,
        )

    def ranks(self):
        """{rank: process} of those alive."""
        found = {}
        for process in psutil.process_iter():
            try:
                variables = process.environ()
                if variables.get(LAUNCHER) == str(self.process.pid) and process.status() != psutil.STATUS_ZOMBIE:
                    found[int(variables["RANK"])] = process
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def saved(self):
        directory = RunStore(self.palaestra.runs).named(self.name)
        entries = read_journal(directory.journal_file) if directory else []
        return sum(entry.event == "checkpoint.saved" for entry in entries)

    def end(self, within=END_SECONDS):
        _, reports = self.process.communicate(timeout=within)
        return self.process.returncode, reports


@pytest.fixture
def launch(palaestra, beside_the_tests, wait_until):
    launched = []

    def start(name, *more, saved=0):
        launched.append(Launched(palaestra, beside_the_tests, name, *more))
        wait_until(lambda: launched[-1].saved() >= saved, f"{saved} checkpoints")
        return launched[-1]

    yield start
    for one in launched:
        alive = one.ranks()
        for process in alive.values():
            process.kill()
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()
        assert not alive, "ranks were left behind"


def last_digests(directory):
    """Of the weights with which each rank ended, as it wrote them into its own log."""
    return [directory.log_file(rank).read_text().rpartition("sha256=")[2].split()[0] for rank in (0, 1)]


def test_two_ranks_end_in_order_with_one_outcome_and_equal_weights(palaestra):
    done = palaestra(*WORDS, "run=good", "total_steps=256", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["agent_step"] == 256
    directory = palaestra.run("good")
    assert len(set(last_digests(directory))) == 1
    assert read_record(directory).state is RunState.FINISHED


@pytest.mark.full
def test_the_recipe_on_two_ranks_is_played_half_by_each_and_learned_by_both(palaestra):
    total_steps = 20_480
    only_the_end = "checkpoints.save_interval=0"  # which all ranks must take part in
    arguments = [
        "train",
        "cartpole",
        "run=halves",
        f"total_steps={total_steps}",
        only_the_end,
        "--nproc",
        "2",
        "--quiet",
    ]
    done = palaestra(*arguments)
    assert done.code == 0, done.err
    directory = palaestra.run("halves")
    assert read_record(directory).agent_step == total_steps
    assert len(set(last_digests(directory))) == 1
    with MetricsReader(directory.metrics_file) as reader:
        episodes = reader.episodes()
    env_count = read_config(directory)["ppo"]["env_count"]
    by_rank = [[each for each in episodes if each.env_index // env_count == rank] for rank in (0, 1)]
    assert len(by_rank[0]) + len(by_rank[1]) == len(episodes)
    for own in by_rank:  # a half each, less the episodes that had not ended
        assert 0.4 * total_steps < sum(episode.length for episode in own) <= total_steps / 2
    first = [[each.length for each in own][:20] for own in by_rank]
    assert first[0] != first[1], "both played the same"


@pytest.mark.fault("D1")
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.full), 1])
def test_a_killed_rank_is_named_and_nobody_is_left(launch, palaestra, victim):
    launched = launch("killed", "total_steps=1e6", saved=2)
    launched.ranks()[victim].kill()
    code, reports = launched.end()
    assert code == 1
    assert reports.strip() == f"palaestra: Rank {victim} was ended by SIGKILL."
    record = read_record(palaestra.run("killed"))
    assert (record.state, record.exit_code) == (RunState.FAILED, 1)
    assert record.failure == f"Rank {victim} was ended by SIGKILL."
    journal = read_journal(palaestra.run("killed").journal_file)
    assert [entry.data["rank"] for entry in journal if entry.event == "rank.failed"] == [victim]
    assert sum(entry.event == "run.failed" for entry in journal) == 1


@pytest.mark.fault("D1")
@pytest.mark.parametrize("policy", ["mlp", pytest.param("memory", marks=pytest.mark.full)])
def test_two_native_ranks_killed_and_continued_end_with_the_same_bytes(
    launch, palaestra, differences, wait_until, policy
):
    arguments = ("total_steps=6400", "engine=native", f"policy.graph={policy}", "ppo.segment_length=16", "seed=3")
    assert launch("whole", *arguments).end()[0] == 0
    launched = launch("cut", *arguments)
    wait_until(lambda: len(launched.ranks()) == 2, "both ranks")
    ranks = launched.ranks().values()  # looked for now: to find them takes a while, and 100 updates do not
    wait_until(lambda: launched.saved() >= 2, "two checkpoints")
    for process in ranks:
        process.kill()
    assert launched.end()[0] == 1
    assert read_record(palaestra.run("cut")).state is RunState.FAILED, "it was killed too late"
    assert launch("cut", *arguments).end()[0] == 0
    assert differences(palaestra.run("cut"), palaestra.run("whole")) == []
    resumed = next(each for each in read_journal(palaestra.run("cut").journal_file) if each.event == "run.resumed")
    assert resumed.data["engine"].startswith("native, ")
    assert resumed.data["exact"] is True


@pytest.mark.fault("D3")
def test_a_rank_that_is_stopped_ends_the_run_within_the_limit(launch, palaestra):
    launched = launch("stopped", "total_steps=1e6", "distributed.peer_timeout_seconds=4", saved=1)
    launched.ranks()[1].suspend()
    code, printed = launched.end()
    assert code == 1
    assert printed.startswith("palaestra: Rank 1 stopped responding and was killed.")
    assert read_record(palaestra.run("stopped")).failure.startswith("Rank 1 stopped responding and was killed.")


@pytest.mark.fault("D1")
def test_killed_ranks_restart_from_the_last_checkpoint_and_end_with_the_same_bytes(
    launch, palaestra, differences, wait_until
):
    arguments = ("total_steps=9600", "engine=native", "seed=3", "distributed.restarts=1")
    assert launch("whole", *arguments).end(within=60)[0] == 0
    launched = launch("cut", *arguments)
    for goal in (2, 3):  # a newer checkpoint allows another restart
        wait_until(lambda: len(launched.ranks()) == 2, "both ranks")
        victim = launched.ranks()[goal % 2]
        before = launched.saved()
        wait_until(lambda: launched.saved() > before, "a new checkpoint")  # noqa: B023  waited for at once
        victim.kill()
        victim.wait()
    code, printed = launched.end(within=60)
    assert code == 0, printed
    assert printed.count("Restarting from checkpoint") == 2
    directory = palaestra.run("cut")
    restarted = [each.data for each in read_journal(directory.journal_file) if each.event == "run.restarted"]
    assert [each["cause"] for each in restarted] == ["Rank 0 was ended by SIGKILL.", "Rank 1 was ended by SIGKILL."]
    assert [each["restart"] for each in restarted] == [1, 2]
    assert differences(directory, palaestra.run("whole")) == []


@pytest.mark.fault("D4")
def test_no_rank_survives_a_killed_launcher(launch):
    launched = launch("orphans", "total_steps=1e8", saved=1)
    ranks = list(launched.ranks().values())
    assert len(ranks) == 2
    launched.process.kill()
    _, alive = psutil.wait_procs(ranks, timeout=ORPHAN_SECONDS)
    assert alive == []


@pytest.mark.fault("D4")
def test_no_rank_survives_a_launcher_that_is_killed_while_its_ranks_start(launch, wait_until):
    launched = launch("early", "total_steps=1e8")
    wait_until(launched.ranks, "a rank")
    launched.process.kill()
    launched.process.wait()
    wait_until(lambda: not launched.ranks(), "the end of its ranks")  # without a launcher there will be no others


@pytest.mark.fault("R4", "D6")
def test_a_signal_to_the_launcher_saves_once_and_leaves_with_its_code(launch, palaestra):
    launched = launch("stopped", "total_steps=1e6", saved=1)
    launched.process.send_signal(signal.SIGTERM)
    code, reports = launched.end()
    assert (code, reports) == (143, "")
    record = read_record(palaestra.run("stopped"))
    assert (record.state, record.exit_code) == (RunState.CANCELLED, 143)


@pytest.mark.full
def test_a_fault_of_one_rank_is_reported_once_with_its_rank(launch, palaestra):
    launched = launch("faulty", "env.id=faulty_env:Faulty-v0", "env.kwargs={how: raise, at: 40}", "total_steps=1e6")
    code, reports = launched.end()
    assert code == 1
    traceback, _, reports = reports.partition("palaestra: ")
    assert "Traceback (most recent call last):\n" in traceback
    assert 'faulty_env.py", line' in traceback
    assert reports.startswith("Rank 1 failed: Environment 0 (seed ")
    assert reports.count("the cart fell off") == 1
    assert "the cart fell off" in read_record(palaestra.run("faulty")).failure


@pytest.mark.chaos
def test_what_is_refused_is_reported_once_and_leaves_nothing(launch, palaestra):
    code, reports = launch("refused", "env.id=CartPoll-v1").end()
    assert code == 3
    assert reports.count("CartPoll-v1") == 1
    assert RunStore(palaestra.runs).named("refused") is None


def test_ranks_that_are_started_by_others_are_not_started_again(palaestra):
    done = palaestra(
        *WORDS,
        variables=dict.fromkeys(("RANK", "LOCAL_RANK", "MASTER_PORT"), "1")
        | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"},
    )
    assert done.code == 2
    assert "Under torchrun leave out --nproc" in done.err


@pytest.fixture
def torchrun(palaestra, wait_until):
    """torchrun with two ranks; `saved=False` does not wait until they train."""
    agents = []

    def start(name, *, saved=True):
        command = palaestra.command(*WORDS[:-3], "--quiet", f"run={name}", "total_steps=1e8")[1:]
        arguments = [
            os.sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            *command,
        ]
        agents.append(
            subprocess.Popen(arguments, cwd=palaestra.home, env=palaestra.variables, stderr=subprocess.DEVNULL)
        )
        if saved:
            directory = wait_until(lambda: RunStore(palaestra.runs).named(name), "the run")
            wait_until(lambda: "checkpoint.saved" in directory.journal_file.read_text(), "a checkpoint")
        ranks = wait_until(lambda: two_children(agents[-1].pid), "two ranks")
        return agents[-1], ranks

    yield start
    for agent in agents:
        agent.kill()
        agent.wait()


def two_children(pid):
    children = psutil.Process(pid).children()
    return children if len(children) == 2 else None


@pytest.mark.fault("D4")
@pytest.mark.chaos
@pytest.mark.parametrize("saved", [True, False])
def test_torchrun_ranks_end_with_the_agent_also_while_they_start(torchrun, saved):
    agent, ranks = torchrun("agent", saved=saved)
    agent.kill()
    agent.wait()
    _, alive = psutil.wait_procs(ranks, timeout=ORPHAN_SECONDS)
    assert alive == []


@pytest.mark.fault("D1")
@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_killed_under_torchrun_is_named_with_its_signal(torchrun, palaestra, victim):
    agent, ranks = torchrun("killed")
    [rank] = [rank for rank in ranks if rank.environ()["RANK"] == str(victim)]
    rank.kill()
    assert agent.wait(timeout=END_SECONDS) == 1
    record = read_record(palaestra.run("killed"))
    assert (record.state, record.failure) == (RunState.FAILED, f"Rank {victim} was ended by SIGKILL.")
