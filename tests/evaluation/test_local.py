from __future__ import annotations

import json

import gymnasium
import pytest
import torch

from palaestra.config.env import EnvConfig
from palaestra.core import plugins
from palaestra.core.errors import UsageError
from palaestra.evaluation.local import LocalEvaluator, one_thread, require_recorder
from palaestra.evaluation.plans import make_plan
from palaestra.evaluation.play import play
from palaestra.evaluation.session import evaluate_target
from palaestra.evaluation.targets import load_policy_target
from palaestra.runs.replays import list_replays


@pytest.fixture
def loaded(trained_run):
    return load_policy_target("judged:3", trained_run.root).loaded


def plan_in(env, **settings):
    return make_plan("run:3", env, **{"episodes": 3, "seed": 10, **settings})


def test_a_player_plays_what_everybody_plays(trained_run, loaded):

    plan = plan_in(trained_run.env)
    usual = play(plan, loaded.policy, lambda: gymnasium.make("CartPole-v1", max_episode_steps=40))
    assert tuple(LocalEvaluator(loaded).evaluate(plan)) == usual.episodes


def test_one_player_plays_several_environments_and_none_of_them_reaches_another(trained_run, loaded):
    player = LocalEvaluator(loaded)
    strange = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True}, max_episode_steps=40)
    plain = [episode.total_reward for episode in player.evaluate(plan_in(trained_run.env))]
    sutton = [episode.total_reward for episode in player.evaluate(plan_in(strange))]
    assert set(sutton) <= {-1.0, 0.0}
    assert [episode.total_reward for episode in player.evaluate(plan_in(trained_run.env))] == plain


def test_an_environment_that_the_policy_cannot_play_is_refused_before_anything_is_played(loaded):
    with pytest.raises(UsageError, match="This policy does not fit"):
        LocalEvaluator(loaded).prepare(plan_in(EnvConfig(id="Acrobot-v1")))


def test_videos_of_a_named_simulation_have_its_name(trained_run, loaded, tmp_path):
    player = LocalEvaluator(loaded, videos=tmp_path / "films")
    for simulation in ("default", "short"):
        list(player.evaluate(plan_in(trained_run.env, episodes=1, simulation=simulation)))
    assert sorted(path.name for path in (tmp_path / "films").iterdir()) == ["3-seed10.mp4", "3-short-seed10.mp4"]


def test_replays_are_refused_for_environments_that_cannot_be_recorded(trained_run, loaded, tmp_path):
    with pytest.raises(UsageError, match="has no replay recorder"):
        LocalEvaluator(loaded, replays=tmp_path).prepare(plan_in(trained_run.env))


def test_threads_are_given_back_also_after_a_failure():
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), one_thread():
        assert torch.get_num_threads() == 1
        _ = 1 / 0
    assert torch.get_num_threads() == before


ARENA = EnvConfig(
    id="palaestra/Arena-v0",
    kwargs={"agents": 2, "width": 9, "height": 9, "rewards": {"ore": 1.0}, "mine": {"count": 6, "cost": 0}},
    max_episode_steps=25,
)


@pytest.fixture
def arena_run(trained_run):
    run = type(trained_run)(trained_run.root, trained_run.directory, ARENA)
    run.save(epoch=7)
    return run


def judge(run, **settings):
    return evaluate_target("judged:7", run.root, episodes=3, seed=50, deterministic=False, **settings)


def test_every_episode_is_recorded_and_the_recording_says_what_the_report_says(arena_run):
    report = judge(arena_run, replays=True)
    files = {path.name: path for path in list_replays(arena_run.directory)}
    assert sorted(files) == ["7-seed50.json.gz", "7-seed51.json.gz", "7-seed52.json.gz"]
    assert sum(report.returns) > 0
    for episode in report.episodes:
        summary = plugins.load("replays", "arena")(files[f"7-seed{episode.seed}.json.gz"]).summary()
        assert summary["return_per_agent"] == pytest.approx(episode.total_reward)
        assert summary["steps"] == episode.length == 25
        assert (summary["run"], summary["epoch"], summary["seed"]) == (arena_run.directory.id, 7, episode.seed)
        assert summary["deterministic"] is False


def test_recording_changes_no_result(arena_run):
    assert judge(arena_run, replays=True).returns == judge(arena_run).returns


def test_the_journal_names_the_replays_and_nothing_is_written_unasked(arena_run):
    judge(arena_run)
    assert list_replays(arena_run.directory) == []
    judge(arena_run, replays=True, video=True)
    lines = [json.loads(line) for line in arena_run.directory.journal_file.read_text().splitlines()]
    saved = {line["event"]: line["data"] for line in lines if line["event"].endswith(".saved")}
    expected = {"checkpoint": f"{arena_run.directory.id}:7", "epoch": 7, "episodes": 3}
    assert saved["replay.saved"] == {**expected, "file": "replays"}
    assert saved["video.saved"] == {**expected, "file": "videos"}


def test_an_environment_that_cannot_be_recorded_is_refused_before_it_is_played(trained_run):
    with pytest.raises(UsageError, match="'CartPole-v1' has no replay recorder"):
        evaluate_target("judged", trained_run.root, episodes=1, seed=0, deterministic=True, replays=True)
    assert not (trained_run.directory.evaluations / "3-1.json").exists()
    require_recorder("palaestra/Arena-v0")
