"""From a checkpoint on disk to rows, summary, journal, sidecar and video."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import av
import gymnasium
import pytest
import torch

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NotFound, RefusedFile, RunFailed, UsageError
from palaestra.core.evaluation import Stopped
from palaestra.evaluation.session import EvaluationCallbacks, EvaluationOptions, EvaluationSession, evaluate_target
from palaestra.evaluation.summary import read_batches
from palaestra.evaluation.targets import load_policy_target
from palaestra.runs.documents import write_config
from palaestra.runs.journal import read_journal

if TYPE_CHECKING:
    from pathlib import Path


def judge(run, target="judged", **changes):
    settings = {"episodes": 3, "seed": 10, "deterministic": True, **changes}
    return evaluate_target(target, run.root, **settings)


def test_returns_are_those_of_playing_the_weights_by_hand(trained_run):
    report = judge(trained_run)
    weights, _ = CheckpointManager(trained_run.directory).load_weights(3)
    by_hand = [play_by_hand(weights, seed) for seed in (10, 11, 12)]
    assert report.returns == by_hand
    assert [episode.seed for episode in report.episodes] == [10, 11, 12]


def play_by_hand(weights, seed):
    """Only torch's basic operations and Gymnasium: no code of ours but the names of the weights."""
    tower = sorted({name.rpartition(".")[0] for name in weights if ".actor." in name})
    layers = [*tower, "network.nodes.action.layer"]
    env = gymnasium.make("CartPole-v1", max_episode_steps=40)
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        hidden = torch.tensor(observation)
        for index, layer in enumerate(layers):
            hidden = weights[f"{layer}.weight"] @ hidden + weights[f"{layer}.bias"]
            hidden = torch.tanh(hidden) if index < len(layers) - 1 else hidden
        observation, reward, terminated, truncated, _ = env.step(int(hidden.argmax()))
        total, ended = total + float(reward), terminated or truncated
    return total


def test_the_score_reaches_the_sidecar_of_the_checkpoint_that_was_evaluated(trained_run):
    trained_run.save(epoch=7, seed=1)
    report = judge(trained_run, "judged:3")
    assert trained_run.score(3) == report.mean
    assert trained_run.score(7) is None


def test_two_evaluations_with_other_settings_are_two_environments(trained_run):
    """What one asked for reaches neither the next one nor the checkpoint. Sutton's CartPole pays -1 at the end."""
    other = {"env": {"kwargs": {"sutton_barto_reward": True}}}
    usual, strange, again = judge(trained_run), judge(trained_run, overrides=other), judge(trained_run)
    assert set(strange.returns) <= {-1.0, 0.0}
    assert usual.returns == again.returns == [play_by_hand(weights_of(trained_run), seed) for seed in (10, 11, 12)]
    rows = [json.loads((trained_run.directory.evaluations / f"3-{number}.json").read_text()) for number in (1, 2, 3)]
    assert [each["plan"]["env_kwargs"] for each in rows] == [{}, {"sutton_barto_reward": True}, {}]


def weights_of(trained_run):
    return CheckpointManager(trained_run.directory).load_weights(3)[0]


def test_without_a_selector_the_latest_is_evaluated_until_there_is_a_best(trained_run):
    trained_run.save(epoch=7, seed=1)
    assert judge(trained_run).checkpoint.endswith(":7")
    CheckpointManager(trained_run.directory).update_metadata(3, score=1e9, metrics={"score_episodes": 3.0})
    assert judge(trained_run).checkpoint.endswith(":3")


def test_rows_summary_and_journal_report_the_same_story(trained_run):
    report = judge(trained_run)
    judge(trained_run, seed=50)
    directory = trained_run.directory
    rows = json.loads((directory.evaluations / "3-1.json").read_text())
    assert [row["total_reward"] for row in rows["rows"]] == report.returns
    assert rows["schema_version"] == 1
    assert rows["complete"] is True
    assert (directory.evaluations / "3-2.json").is_file()
    first, second = read_batches(directory)
    assert (first["batch"], first["mean"], first["file"]) == (1, report.mean, "evaluations/3-1.json")
    assert (second["batch"], second["seed"]) == (2, 50)
    batches = [entry.data for entry in read_journal(directory.journal_file) if entry.event == "eval.batch"]
    assert [batch["batch"] for batch in batches] == [1, 2]
    assert batches[0]["mean"] == report.mean


def test_a_changed_environment_is_evaluated_but_leaves_no_score(trained_run):
    report = judge(trained_run, overrides={"env": {"max_episode_steps": 5}})
    assert max(report.returns) <= 5
    assert trained_run.score(3) is None
    assert read_batches(trained_run.directory)[0]["overrides"] == {"env": {"max_episode_steps": 5}}


def test_an_environment_with_other_spaces_is_refused_before_anything_is_written(trained_run):
    with pytest.raises(UsageError, match="observation space"):
        judge(trained_run, overrides={"env": {"id": "Acrobot-v1"}})
    assert read_batches(trained_run.directory) == []


def test_no_time_at_all_is_an_error_and_the_journal_knows_why(trained_run):
    with pytest.raises(RunFailed, match="No episode"):
        judge(trained_run, time_limit=0.0)
    assert [entry.event for entry in read_journal(trained_run.directory.journal_file)][-1] == "eval.failed"
    assert trained_run.score(3) is None


def test_videos_are_written_only_when_requested_and_do_not_change_the_result(trained_run):
    plain = judge(trained_run)
    assert list(trained_run.directory.videos.iterdir()) == []
    filmed = judge(trained_run, video=True, episodes=2)
    assert filmed.returns == plain.returns[:2]
    names = sorted(path.name for path in trained_run.directory.videos.iterdir())
    assert names == ["3-seed10.mp4", "3-seed11.mp4"]
    saved = [entry for entry in read_journal(trained_run.directory.journal_file) if entry.event == "video.saved"]
    assert [(entry.data["file"], entry.data["episodes"]) for entry in saved] == [("videos", 2)]
    with av.open(str(trained_run.directory.videos / "3-seed10.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) == filmed.episodes[0].length + 1


def test_an_unknown_run_or_epoch_is_not_found(trained_run):
    for target in ("nobody", "judged:99"):
        with pytest.raises(NotFound):
            judge(trained_run, target)


def test_a_checkpoint_without_its_run_is_evaluated_and_nothing_is_written_beside_it(trained_run, tmp_path):
    foreign = tmp_path / "downloads"
    shutil.copytree(trained_run.directory.checkpoints, foreign)
    before = sorted(tmp_path.rglob("*"))
    report = judge(trained_run, str(foreign / "model_0003.yaml"))
    assert report.returns == judge(trained_run).returns
    assert sorted(path for path in tmp_path.rglob("*") if "runs" not in path.parts) == [
        path for path in before if "runs" not in path.parts
    ]


def test_a_foreign_checkpoint_cannot_have_a_module_imported(trained_run, tmp_path: Path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hostile_env.py").write_text("raise SystemExit('was imported')")
    CheckpointManager(trained_run.directory).update_metadata(3, env={"id": "hostile_env:X-v0"})
    foreign = tmp_path / "downloads"
    shutil.copytree(trained_run.directory.checkpoints, foreign)
    with pytest.raises(RefusedFile, match="hostile_env"):
        judge(trained_run, str(foreign / "model_0003.yaml"))
    assert "hostile_env" not in sys.modules


def test_judging_leaves_the_number_of_threads_as_it_was(trained_run):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        judge(trained_run)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


SUITE = {"short": {"category": "speed", "env": {"max_episode_steps": 9}}, "plain": {}}


def configured(run, **evaluation):
    write_config(run.directory, TrainConfig.model_validate({"evaluation": evaluation}).model_dump(mode="json"))
    return run


def judge_as_the_run_does(run, **requested):
    return evaluate_target("judged:3", run.root, **requested)


def test_nothing_requested_means_as_the_run_evaluates_itself(trained_run):
    configured(trained_run, episodes=2, seed=70, deterministic=False, simulations=SUITE)
    report = judge_as_the_run_does(trained_run)
    assert [(one.plan.simulation, one.plan.category) for one in report.reports] == [
        ("short", "speed"),
        ("plain", "default"),
    ]
    assert [one.plan.seeds for one in report.reports] == [(70, 71), (70, 71)]
    assert not report.reports[0].plan.deterministic
    assert max(report["short"].returns) <= 9
    assert trained_run.score(3) == (report["short"].mean + report["plain"].mean) / 2


def test_a_suite_plays_each_simulation_as_it_would_be_played_alone(trained_run):
    configured(trained_run, episodes=3, seed=10, simulations=SUITE)
    report = judge_as_the_run_does(trained_run)
    alone = judge(trained_run, suite="default")
    assert report["plain"].episodes == alone.episodes
    short = judge(trained_run, overrides={"env": {"max_episode_steps": 9}})
    assert report["short"].episodes == short.episodes


def test_only_the_suite_of_the_run_gives_a_score(trained_run, tmp_path):
    configured(trained_run, episodes=2, simulations=SUITE)
    judge_as_the_run_does(trained_run, suite="default")
    assert trained_run.score(3) is None, "the run is judged by two simulations, and this is one"
    same = tmp_path / "same.yaml"
    same.write_text("simulations: {short: {env: {max_episode_steps: 9}}, plain: {}}")
    report = judge_as_the_run_does(trained_run, suite=str(same), episodes=1)
    assert report.suite == "same"
    assert trained_run.score(3) == report.mean


def test_settings_for_the_environment_go_below_a_suite_and_leave_no_score(trained_run, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("simulations: {short: {env: {max_episode_steps: 5}}, plain: {}}")
    overrides = {"env": {"kwargs": {"sutton_barto_reward": True}}}
    report = judge(trained_run, suite=str(path), overrides=overrides)
    assert [one.plan.env_kwargs for one in report.reports] == [{"sutton_barto_reward": True}] * 2
    assert trained_run.score(3) is None


def test_a_simulation_that_the_policy_cannot_play_is_refused_before_anything_is_played(trained_run, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("simulations: {plain: {}, other: {env: Acrobot-v1}}")
    with pytest.raises(UsageError, match="does not fit 'Acrobot-v1'"):
        judge(trained_run, suite=str(path))
    assert [entry.event for entry in read_journal(trained_run.directory.journal_file)].count("eval.started") == 0


def test_batches_follow_each_other_and_the_score_is_that_of_all_of_them(trained_run):
    with EvaluationSession(
        load_policy_target("judged:3", trained_run.root), EvaluationOptions(episodes=2, seed=10)
    ) as session:
        batches = [session.evaluate(number) for number in range(3)]
    together = judge(trained_run, episodes=6)
    assert [episode for batch in batches for episode in batch.episodes] == list(together.episodes)
    lines = read_batches(trained_run.directory)
    assert [(line["episodes"], line["seed"]) for line in lines[:3]] == [(2, 10), (2, 12), (2, 14)]
    scored = [entry.data for entry in read_journal(trained_run.directory.journal_file) if "scored" in entry.event]
    assert [entry["episodes"] for entry in scored] == [2, 4, 6, 6]
    assert scored[2]["score"] == scored[3]["score"] == together.mean


def test_a_batch_that_is_stopped_leaves_nothing(trained_run):
    observed = []
    watcher = EvaluationCallbacks(observed.append, lambda: len(observed) == 2)
    with EvaluationSession(load_policy_target("judged:3", trained_run.root), EvaluationOptions(episodes=3)) as session:
        with pytest.raises(Stopped):
            session.evaluate(0, watcher)
    assert len(observed) == 2
    assert read_batches(trained_run.directory) == []
    assert list(trained_run.directory.evaluations.iterdir()) == []
    assert trained_run.score(3) is None


def test_a_stop_that_comes_with_the_last_episode_does_not_undo_the_batch(trained_run):
    observed = []
    with EvaluationSession(load_policy_target("judged:3", trained_run.root), EvaluationOptions(episodes=2)) as session:
        report = session.evaluate(0, EvaluationCallbacks(observed.append, lambda: len(observed) == 2))
    assert report.complete
    assert len(read_batches(trained_run.directory)) == 1


def test_a_checkpoint_that_is_deleted_between_batches_ends_them_with_the_complete_ones(trained_run):
    with EvaluationSession(load_policy_target("judged:3", trained_run.root), EvaluationOptions(episodes=2)) as session:
        session.evaluate(0)
        for path in trained_run.directory.checkpoints.glob("model_0003*"):
            path.unlink()
        with pytest.raises(NotFound):
            session.evaluate(1)
    assert [line["episodes"] for line in read_batches(trained_run.directory)] == [2]


def test_time_that_runs_out_in_the_second_simulation_names_what_is_missing(trained_run, monkeypatch):
    configured(trained_run, episodes=2, simulations=SUITE)
    with EvaluationSession(
        load_policy_target("judged:3", trained_run.root), EvaluationOptions(time_limit=10.0)
    ) as session:
        ticking = SteppedClock()
        session._clock = ticking
        report = session.evaluate(0, EvaluationCallbacks(lambda episode: ticking.skip(6.0)))
    assert not report.complete
    assert report.missing == ("plain",)
    assert trained_run.score(3) is None


class SteppedClock:
    def __init__(self):
        self.seconds = 0.0

    def skip(self, seconds):
        self.seconds += seconds

    def now(self):
        return self.seconds

    monotonic = now


def test_what_was_evaluated_before_is_recalled_and_its_score_observed_to_again(trained_run):
    report = judge(trained_run, "judged:3")
    CheckpointManager(trained_run.directory).update_metadata(3, score=None)
    requested = EvaluationOptions(episodes=3, seed=10)
    with EvaluationSession(load_policy_target("judged:3", trained_run.root), requested) as session:
        assert session.find_recorded() == report
    assert trained_run.score(3) == report.mean
    with EvaluationSession(
        load_policy_target("judged:3", trained_run.root), EvaluationOptions(episodes=4, seed=10)
    ) as session:
        assert session.find_recorded() is None
    assert len(read_batches(trained_run.directory)) == 1
