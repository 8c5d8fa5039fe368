"""Judged while it trains, by a process beside it: no bit changes, nothing is half, nothing is judged twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.evaluation.summary import read_batches
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record

pytestmark = pytest.mark.slow

EPOCHS, BATCH = 6, 32
DUE = [2, 4, 6]
# a CartPole like any other, which can be asked by PAUSE_ONCE to stand still in the middle of an episode
PAUSABLE = "{id: 'faulty_env:Faulty-v0', kwargs: {rank: 0, at: 5, how: pause}}"
SUITE = f"{{short: {{category: speed, env: {{max_episode_steps: 15}}}}, plain: {{env: {PAUSABLE}}}}}"


def arguments(name: str, *more: str, epochs: int = EPOCHS) -> list[str]:
    return [
        "train",
        "cartpole",
        f"run={name}",
        f"total_steps={epochs * BATCH}",
        "ppo.env_count=2",
        "ppo.horizon=16",
        "ppo.minibatch_size=16",
        "ppo.update_epochs=1",
        "engine=torch",  # slow enough that a judge is caught in the middle
        "checkpoints.save_interval=1",
        "checkpoints.keep=1",  # what is to be judged stays all the same
        "--quiet",
        *more,
    ]


def evaluated_arguments(name: str, *more: str, epochs: int = EPOCHS) -> list[str]:
    settings = ["evaluate_interval=2", "evaluation.episodes=3", f"evaluation.simulations={SUITE}"]
    return arguments(name, *settings, *more, epochs=epochs)


def events(directory, name: str) -> list[int]:
    if directory is None:
        return []
    return [entry.data["epoch"] for entry in read_journal(directory.journal_file) if entry.event == name]


def judged_points(directory) -> dict[int, float]:
    with MetricsReader(directory.metrics_file) as metrics:
        return {point.step: point.value for point in metrics.series("eval/episodic_return")}


def evaluator_of(pid: int) -> int:
    (child,) = psutil.Process(pid).children()
    return child.pid


def is_stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in {"Z", "X"}


@pytest.fixture(scope="module")
def judged(server):
    trainer = server.start(*evaluated_arguments("judged"))
    assert trainer.wait() == 0, trainer.err.read_text()
    return server.run("judged")


def test_every_epoch_that_was_due_is_evaluated_once_at_its_step_and_held_until_then(judged):
    assert [line["epoch"] for line in read_batches(judged)] == DUE
    points = judged_points(judged)
    assert list(points) == [epoch * BATCH for epoch in DUE]
    for line in read_batches(judged):
        assert line["mean"] == points[line["epoch"] * BATCH]
        assert line["complete"]
    scores = {one.epoch: one.score for one in CheckpointManager(judged).list_all_checkpoints()}
    assert all(scores[epoch] == points[epoch * BATCH] for epoch in scores if epoch in DUE)
    assert scores[EPOCHS] == points[EPOCHS * BATCH]
    assert (judged.logs / "evaluator.log").read_text() == ""
    assert list(judged.tensorboard_eval.iterdir())


def test_eval_of_the_same_checkpoint_gives_the_same_episodes(server, judged):
    done = server("eval", "judged:latest", "--json")
    assert done.code == 0, done.err
    line = next(line for line in read_batches(judged) if line["epoch"] == EPOCHS)
    for one, told in zip(line["simulations"], json.loads(done.out)["simulations"], strict=True):
        rows = json.loads((judged.path / one["file"]).read_text())["rows"]
        assert told["returns"] == [row["total_reward"] for row in rows]
        assert (told["simulation"], told["category"]) == (one["simulation"], one["category"])


def test_judging_beside_a_training_changes_no_bit_of_it(server, judged, differences):
    trainer = server.start(*arguments("alone"))
    assert trainer.wait() == 0, trainer.err.read_text()
    alone = server.run("alone")
    assert differences(alone, judged) == ["metrics"], "the judgements themselves"
    rows = []
    for run in (alone, judged):
        with MetricsReader(run.metrics_file) as metrics:
            rows.append([row for row in metrics.rows() if not str(row[2]).startswith("eval/")])
    assert rows[0] == rows[1]
    assert judged_steps_are_missing(alone)


def judged_steps_are_missing(directory) -> bool:
    with MetricsReader(directory.metrics_file) as metrics:
        return not [name for name in metrics.names() if name.startswith("eval/")]


def test_a_evaluate_that_is_killed_in_the_middle_costs_one_warning_and_nothing_else(
    server, judged, differences, wait_until, tmp_path
):
    trainer = server.start(*evaluated_arguments("bereft"), variables={"PAUSE_ONCE": str(tmp_path / "paused")})
    wait_until((tmp_path / "paused").exists, "the first judgement to be in the middle of an episode")
    judge = evaluator_of(trainer.pid)
    wait_until(lambda: is_stopped(judge), "the judge to stand still")
    assert events(server.run("bereft"), "eval.started")
    assert not events(server.run("bereft"), "eval.batch")
    os.kill(judge, signal.SIGKILL)
    assert trainer.wait() == 0, trainer.err.read_text()
    warnings = [line for line in trainer.err.read_text().splitlines() if line]
    assert len(warnings) == 1, warnings
    assert "was ended by SIGKILL at epoch" in warnings[0]
    bereft = server.run("bereft")
    assert [line["epoch"] for line in read_batches(bereft)] == DUE
    files = {one["file"] for line in read_batches(bereft) for one in line["simulations"]}
    assert {f"evaluations/{path.name}" for path in bereft.evaluations.iterdir()} == files, "nothing half, nothing loose"
    assert differences(bereft, judged) == []


@pytest.mark.full
def test_a_trainer_that_is_killed_takes_its_evaluate_along_and_what_was_due_is_evaluated_later_and_once(
    server, judged, differences, wait_until
):
    """Killed once in the middle of the first judgement, and once after it was written down."""
    for event in ("eval.started", "eval.batch"):
        name = f"killed-{event.partition('.')[2]}"
        trainer = server.start(*evaluated_arguments(name))
        wait_until(lambda name=name, event=event: events(server.run(name), event), event)
        judge = evaluator_of(trainer.pid)
        trainer.send(signal.SIGKILL)
        assert trainer.wait() == -signal.SIGKILL
        wait_until(lambda judge=judge: is_gone(judge), "the judge to follow")
        again = server.start(*evaluated_arguments(name))
        assert again.wait() == 0, again.err.read_text()
        killed = server.run(name)
        assert sorted(line["epoch"] for line in read_batches(killed)) == DUE
        assert differences(killed, judged) == []


def test_a_stopped_training_leaves_at_once_and_evaluates_when_it_goes_on(server, wait_until):
    trainer = server.start(*evaluated_arguments("stopped", epochs=500))
    wait_until(lambda: len(server.saved_epochs("stopped")) >= 2, "something to judge")
    trainer.send(signal.SIGTERM)
    assert trainer.wait() == 143, trainer.err.read_text()
    stopped = server.run("stopped")
    reached = read_record(stopped).epoch
    again = server.start(*evaluated_arguments("stopped", "--override", "total_steps", epochs=reached + 1))
    assert again.wait() == 0, again.err.read_text()
    due = sorted({*range(2, reached + 2, 2), reached + 1})  # the last checkpoint is always evaluated
    assert sorted(line["epoch"] for line in read_batches(stopped)) == due
    assert list(judged_points(stopped)) == [epoch * BATCH for epoch in due]


@pytest.mark.parametrize(
    ("how", "told"),
    [("raise", "raised ValueError in the episode"), ("exit", "ended with exit code 7, 2 times")],
)
def test_an_environment_that_fails_only_when_it_is_evaluated_in_costs_a_warning(server, how, told):
    odd = f"{{odd: {{env: {{id: 'faulty_env:Faulty-v0', kwargs: {{rank: 0, at: 1, how: {how}}}}}}}}}"
    trainer = server.start(*arguments(f"odd-{how}", "evaluate_interval=6", f"evaluation.simulations={odd}"))
    assert trainer.wait() == 0, trainer.err.read_text()
    warnings = trainer.err.read_text()
    assert warnings.count("Checkpoint 6 was not evaluated") == 1
    assert told in warnings
    assert events(server.run(f"odd-{how}"), "eval.failed") == [6]
    assert read_batches(server.run(f"odd-{how}")) == []


@pytest.mark.parametrize(
    ("simulations", "told"),
    [
        ("{odd: {env: {kwargs: {nonsense: 1}}}}", "The simulation 'odd': 'CartPole-v1' has no setting 'nonsense'"),
        ("{odd: {env: Acrobot-v1}}", "The simulation 'odd': This policy does not fit 'Acrobot-v1'"),
        ("{one: {}, two: {}}", "'one' and 'two' are the same"),
    ],
)
def test_simulations_that_cannot_be_played_are_refused_before_anything_is_on_disk(server, simulations, told):
    done = server(*arguments("never", "evaluate_interval=2", f"evaluation.simulations={simulations}"))
    assert done.code == 2
    assert told in done.err
    assert server.run("never") is None


def test_judging_elsewhere_without_the_means_is_refused_before_anything_is_on_disk(server):
    done = server(*arguments("far", "evaluate_interval=2", "evaluate_remote=true"), plant="no ray")
    assert done.code == 4
    assert "palaestra[cluster]" in done.err
    assert server.run("far") is None
