"""Judged on Ray, by the command line and beside a training: no bit changes, nothing but the result is seen of it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess

import psutil
import pytest

from palaestra.evaluation.summary import read_batches
from palaestra.runs.journal import read_journal

pytestmark = pytest.mark.slow

EPOCHS, BATCH = 6, 32
DUE = [2, 4, 6]


def arguments(name: str, *more: str) -> list[str]:
    sizes = ["ppo.env_count=2", "ppo.horizon=16", "ppo.minibatch_size=16", "ppo.update_epochs=1"]
    saving = ["checkpoints.save_interval=1", "checkpoints.keep=9"]
    return ["train", "cartpole", f"run={name}", f"total_steps={EPOCHS * BATCH}", *sizes, *saving, "--quiet", *more]


def remote_words(name: str, *more: str) -> list[str]:
    judging = ["evaluate_interval=2", "evaluate_local=false", "evaluate_remote=true", "evaluation.episodes=3"]
    return arguments(name, *judging, *more)


@pytest.fixture(scope="module")
def alone(shared_palaestra):
    done = shared_palaestra(*arguments("alone"))
    assert done.code == 0, done.err
    return shared_palaestra.run("alone")


@pytest.fixture
def nobody():
    """An address of this machine at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.full
@pytest.mark.fault("V2")
def test_a_cluster_that_is_away_costs_a_training_one_warning_and_no_bit(shared_palaestra, alone, nobody, differences):
    done = shared_palaestra(*remote_words("away", f"cluster.address={nobody}"))
    assert done.code == 0, done.err
    directory = shared_palaestra.run("away")
    assert differences(directory, alone) == []
    reports = [line for line in done.err.splitlines() if line.strip()]
    assert len(reports) == 1, reports
    assert f"was not evaluated: No cluster can be reached at {nobody}" in reports[0]
    failed = [entry.data["epoch"] for entry in read_journal(directory.journal_file) if entry.event == "eval.failed"]
    assert failed == DUE
    assert read_batches(directory) == []


@pytest.mark.full
def test_a_training_evaluated_on_ray_is_the_same_training_and_its_evaluations_are_those_of_eval(
    shared_palaestra, alone, differences
):
    done = shared_palaestra(*remote_words("remote", "cluster.cpus=1"))
    assert (done.code, done.err) == (0, "")
    directory = shared_palaestra.run("remote")
    assert differences(directory, alone) == ["metrics"], "the judgements themselves"
    lines = read_batches(directory)
    assert sorted(line["epoch"] for line in lines) == DUE
    assert {(line["asked_by"], line["complete"]) for line in lines} == {("remote", True)}
    at_home = shared_palaestra("eval", "alone:6", "--episodes", "3", "--json")
    (line,) = [line for line in lines if line["epoch"] == 6]
    rows = json.loads((directory.path / line["file"]).read_text())["rows"]
    assert [row["total_reward"] for row in rows] == json.loads(at_home.out)["returns"]


def test_eval_on_ray_says_what_eval_at_home_says_and_nothing_else(shared_palaestra, alone):
    requested = ("eval", "alone:6", "alone:2", "--episodes", "5", "--stochastic", "--json")
    at_home, on_ray = shared_palaestra(*requested), shared_palaestra(*requested, "remote=true")
    assert (on_ray.code, on_ray.err) == (0, "")
    here, there = (json.loads(done.out)["evaluations"] for done in (at_home, on_ray))
    for one in (*here, *there):
        del one["seconds"]
    assert here == there


@pytest.mark.full
def test_request_eval_sends_what_is_new_and_ctrl_c_leaves_no_process(alone, shared_palaestra, wait_until):
    done = shared_palaestra("request-eval", "alone:all", "suite=default", "--episodes", "2", "--json")
    assert done.code == 0, done.err
    assert [one["status"] for one in json.loads(done.out)["evaluations"]] == ["done"] * EPOCHS
    again = shared_palaestra("request-eval", "alone:all", "--episodes", "2")
    assert again.code == 0
    assert again.out.count(" known ") == EPOCHS
    count = len(read_batches(alone))
    process = subprocess.Popen(
        shared_palaestra.command("eval", "alone:6", "remote=true", "--repeat", "--episodes", "2"),
        cwd=shared_palaestra.home,
        env=shared_palaestra.variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(read_batches(alone)) > count, "a batch from Ray")
    assert any(_works_for(one, shared_palaestra) for one in psutil.process_iter())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "palaestra: stopped; only complete batches were written down\n")
    wait_until(lambda: not any(_works_for(one, shared_palaestra) for one in psutil.process_iter()), "the end of Ray")


def _works_for(process: psutil.Process, palaestra) -> bool:
    """Also a process of Ray's: they inherit the variables of who started them."""
    try:
        return process.environ().get("PALAESTRA_RUNS_DIR") == str(palaestra.runs)
    except psutil.Error:
        return False
