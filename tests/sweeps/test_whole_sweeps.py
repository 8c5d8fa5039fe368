"""The real command with real trainings: finished, interrupted, killed, continued."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from palaestra.core.run import RunState
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # some thirty processes with torch

PATIENCE = 240.0
SMALL = ("ppo.env_count=2", "ppo.minibatch_size=32", "ppo.update_epochs=2", "loggers.tensorboard=false")
GAMMAS = "ppo.gamma=0.9,0.95,0.98,0.99"
ITERATIONS = 60
SWEEP = (
    "sweep",
    "cartpole",
    GAMMAS,
    f"total_steps={64 * ITERATIONS}",
    "metric=return",
    "checkpoints.save_interval=1",
    *SMALL,
    "--slots",
    "2",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("sweeps") / "runs"


@contextmanager
def start(root, *arguments):
    """Whatever the test makes of it, it does not outlive it; nor do its trials."""
    with subprocess.Popen(
        [sys.executable, "-m", "palaestra", *arguments],
        env={**os.environ, "PALAESTRA_RUNS_DIR": str(root), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(root, *arguments):
    with start(root, *arguments) as process:
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def interrupt(process):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
    return found


def at_work(root, name, epoch):
    """Whether the run of that name has come so far; older checkpoints are removed meanwhile."""
    directory = RunStore(root).named(name)
    return directory is not None and max(map(epoch_of, directory.checkpoints.glob("model_*.yaml")), default=0) >= epoch


def epoch_of(path):
    return int(path.stem.removeprefix("model_"))


def rows_of(root, name):
    with MetricsReader(RunStore(root).named(name).metrics_file) as reader:
        return reader.rows()


def sessions_of(root, name):
    events = [entry.event for entry in read_journal(RunStore(root).named(name).journal_file)]
    return Counter(event for event in events if event in {"run.created", "run.started", "run.resumed", "run.finished"})


@pytest.fixture(scope="module")
def whole(root):
    """A sweep that nobody disturbed, to compare with."""
    code, out, err = run(root, *SWEEP, "sweep=whole", "--json")
    assert code == 0, err
    return json.loads(out)


def test_four_trials_on_two_slots_are_four_ordinary_runs(root, whole):
    assert [one["state"] for one in whole["trials"]] == ["finished"] * 4
    values = [one["value"] for one in whole["trials"]]
    assert values == sorted(values, reverse=True)
    assert whole["best"] == whole["trials"][0]["number"]
    names = {record.name for record in RunStore(root).list() if record.name.startswith("whole-")}
    assert names == {f"whole-t{number}" for number in (1, 2, 3, 4)}
    best = RunStore(root).named(f"whole-t{whole['best']}")
    assert read_record(best).summary["episodic_return"] == values[0]


def test_a_fresh_run_has_the_settings_of_the_best_trial(root, whole):
    code, out, err = run(root, "train", "--from-trial", "whole:best", "total_steps=128", "seed=9", "--json")
    assert code == 0, err
    config = json.loads(run(root, "runs", "show", json.loads(out)["run"], "--json")[1])["config"]
    assert config["ppo"]["gamma"] == whole["trials"][0]["settings"]["ppo.gamma"]
    assert (config["seed"], config["total_steps"]) == (9, 128)


@pytest.mark.full
def test_killed_in_the_middle_and_continued_every_trial_is_there_once_as_if_nothing_had_been(root, whole):
    with start(root, *SWEEP, "sweep=killed") as sweeper:
        until(lambda: at_work(root, "killed-t1", 4) or at_work(root, "killed-t2", 4))
        sweeper.kill()
    began = [one for number in (1, 2, 3, 4) if (one := RunStore(root).named(f"killed-t{number}"))]
    until(lambda: not any(read_record(one).state is RunState.RUNNING for one in began))
    assert any(read_record(one).state is RunState.LOST for one in began)
    code, out, err = run(root, "sweep", "--resume", "killed", "--slots", "2", "--json")
    assert code == 0, err
    on_restart = json.loads(out)
    assert [one["number"] for one in on_restart["trials"]] == [one["number"] for one in whole["trials"]]
    assert [one["value"] for one in on_restart["trials"]] == [one["value"] for one in whole["trials"]]
    names = Counter(record.name for record in RunStore(root).list() if record.name.startswith("killed-"))
    assert names == Counter({f"killed-t{number}": 1 for number in (1, 2, 3, 4)})
    for number in (1, 2, 3, 4):
        assert rows_of(root, f"killed-t{number}") == rows_of(root, f"whole-t{number}")
        sessions = sessions_of(root, f"killed-t{number}")
        assert (sessions["run.created"], sessions["run.finished"]) == (1, 1)
    assert sum(sessions_of(root, f"killed-t{number}")["run.resumed"] for number in (1, 2, 3, 4)) >= 1


@pytest.mark.full
def test_interrupted_it_saves_and_the_same_command_goes_on(root, whole):
    with start(root, *SWEEP, "sweep=stopped") as sweeper:
        until(lambda: at_work(root, "stopped-t1", 4) or at_work(root, "stopped-t2", 4))
        code, _, err = interrupt(sweeper)
    assert code == 130, err
    assert "palaestra sweep --resume stopped" in err
    states = {record.name: record.state for record in RunStore(root).list() if record.name.startswith("stopped-")}
    assert RunState.CANCELLED in states.values()
    assert "stopped-t4" not in states
    code, out, err = run(root, *SWEEP, "sweep=stopped", "--json")
    assert code == 0, err
    assert [one["value"] for one in json.loads(out)["trials"]] == [one["value"] for one in whole["trials"]]
    for number in (1, 2, 3, 4):
        assert rows_of(root, f"stopped-t{number}") == rows_of(root, f"whole-t{number}")


@pytest.mark.full
def test_each_seed_is_the_run_that_it_would_be_alone_and_a_failed_one_stops_nobody(root):
    arguments = ("train", "cartpole", "total_steps=256", *SMALL)
    code, out, err = run(root, *arguments, "--seeds", "1..2", "run=many", "--json")
    assert code == 0, err
    assert [one["state"] for one in json.loads(out)["runs"]] == ["finished", "finished"]
    assert run(root, *arguments, "seed=2", "run=alone", "--quiet")[0] == 0
    assert rows_of(root, "many-s2") == rows_of(root, "alone") != rows_of(root, "many-s1")
    again, out, err = run(root, *arguments, "--seeds", "1..3", "run=many", "--json")
    assert again == 0, err
    assert [sessions_of(root, f"many-s{seed}")["run.started"] for seed in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.full
def test_seeds_that_were_interrupted_go_on_with_the_same_command(root):
    arguments = ("train", "cartpole", f"total_steps={64 * ITERATIONS}", "checkpoints.save_interval=1", *SMALL)
    seeds = (*arguments, "--seeds", "1..2", "run=held", "--slots", "2")
    with start(root, *seeds) as process:
        until(lambda: at_work(root, "held-s1", 4) or at_work(root, "held-s2", 4))
        code, out, err = interrupt(process)
    assert code == 130, err
    assert "cancelled" in out
    code, out, err = run(root, *seeds, "--json")
    assert code == 0, err
    assert [(one["state"], one["agent_step"]) for one in json.loads(out)["runs"]] == [("finished", 64 * ITERATIONS)] * 2
    assert run(root, *arguments, "seed=1", "run=unheld", "--quiet")[0] == 0
    assert rows_of(root, "held-s1") == rows_of(root, "unheld")


@pytest.mark.full
def test_a_search_over_silly_and_sensible_rates_finds_a_sensible_one(root):
    arguments = ("ppo.learning_rate=1e-7..1:log", "trials=6", "sampler_seed=4", "total_steps=6144", "metric=return")
    code, out, err = run(root, "sweep", "cartpole", "sweep=rates", *arguments, "seed=1", "--json")
    assert code == 0, err
    found = json.loads(out)
    rates = {one["settings"]["ppo.learning_rate"]: one["value"] for one in found["trials"]}
    assert min(rates) < 1e-6
    assert max(rates) > 0.1
    best = found["trials"][0]["settings"]["ppo.learning_rate"]
    assert 1e-4 <= best <= 3e-2, rates
