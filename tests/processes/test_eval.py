"""`palaestra eval` as a process: batches until it is stopped, one way or another, and only whole ones stay."""

from __future__ import annotations

import json
import signal

import psutil
import pytest

from palaestra.evaluation.summary import read_batches
from palaestra.runs.journal import read_journal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(server):
    settings = ["ppo.env_count=2", "ppo.horizon=16", "ppo.minibatch_size=16", "--quiet"]
    for name in ("first", "second"):
        done = server("train", "cartpole", f"run={name}", "total_steps=64", *settings)
        assert done.code == 0, done.err
    return server.run("first")


def whole_batches(directory, since=0):
    """Every line of the summary, once it is known that its rows are all there and nobody else's are."""
    lines = read_batches(directory)
    files = {one["file"] for line in lines for one in line["simulations"]}
    assert {f"evaluations/{path.name}" for path in directory.evaluations.iterdir()} == files
    for line in lines:
        for one in line["simulations"]:
            rows = json.loads((directory.path / one["file"]).read_text())["rows"]
            assert len(rows) == one["episodes"]
    return lines[since:]


@pytest.mark.fault("V1")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_batch_after_batch_until_a_signal_and_each_is_whole(server, trained, wait_until, number, code):
    before = len(read_batches(trained))
    judge = server.start("eval", "first:latest", "--episodes", "5", "--seed", "100", "--repeat", "--json")
    wait_until(lambda: len(read_batches(trained)) >= before + 3, "three batches")
    judge.send(number)
    assert judge.wait() == code, judge.err.read_text()
    assert judge.err.read_text() == "palaestra: stopped; only complete batches are saved\n"
    lines = whole_batches(trained, before)
    reports = [json.loads(line) for line in judge.out.read_text().splitlines()]
    assert [one["batch"] for one in reports] == list(range(1, len(lines) + 1))
    assert [line["seed"] for line in lines] == [100 + 5 * batch for batch in range(len(lines))]
    assert [line["mean"] for line in lines] == [one["mean"] for one in reports]
    scored = [entry.data for entry in read_journal(trained.journal_file) if entry.event == "checkpoint.scored"]
    means = [line["mean"] for line in lines]
    assert scored[-1]["score"] == pytest.approx(sum(means) / len(means)), "the score is that of all batches"


@pytest.mark.fault("V1")
def test_kill_minus_nine_leaves_only_whole_batches_and_no_player(server, trained, wait_until):
    before = len(read_batches(trained))
    arguments = ("eval", "first:latest", "--episodes", "20", "--seed", "7000", "--repeat", "--workers", "2")
    judge = server.start(*arguments)
    wait_until(lambda: len(read_batches(trained)) >= before + 2, "two batches")
    players = psutil.Process(judge.pid).children()
    assert len(players) == 2
    judge.send(signal.SIGKILL)
    assert judge.wait() == -signal.SIGKILL
    wait_until(lambda: not any(player.is_running() for player in players), "the players to follow")
    whole_batches(trained, before)


@pytest.mark.fault("V1")
def test_a_checkpoint_that_is_deleted_meanwhile_ends_it_with_the_whole_batches(server, trained, wait_until):
    second = server.run("second")
    judge = server.start("eval", "second:latest", "--episodes", "3", "--repeat")
    wait_until(lambda: read_batches(second), "a batch")
    for path in second.checkpoints.glob("model_*"):
        path.unlink()
    assert judge.wait() == 3
    assert "no checkpoint" in judge.err.read_text().lower()
    whole_batches(second)


@pytest.mark.full
def test_two_processes_give_what_one_gives(server, trained):
    arguments = ("eval", "first:latest", "--episodes", "30", "--stochastic", "--json")
    one, two = server(*arguments), server(*arguments, "--workers", "2")
    assert (one.code, two.code) == (0, 0), two.err
    assert json.loads(one.out)["returns"] == json.loads(two.out)["returns"]
    assert two.err == ""
