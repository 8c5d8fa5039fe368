from __future__ import annotations

import gymnasium
import pytest
import torch

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.evaluation.judged import load_judged
from palaestra.evaluation.plan import make_plan
from palaestra.evaluation.play import play
from palaestra.evaluation.player import Player, one_thread


@pytest.fixture
def loaded(trained_run):
    return load_judged("judged:3", trained_run.root).loaded


def plan_in(env, **settings):
    return make_plan("run:3", env, **{"episodes": 3, "seed": 10, **settings})


def test_a_player_plays_what_everybody_plays(trained_run, loaded):

    plan = plan_in(trained_run.env)
    usual = play(plan, loaded.policy, lambda: gymnasium.make("CartPole-v1", max_episode_steps=40))
    assert tuple(Player(loaded).episodes(plan)) == usual.episodes


def test_one_player_plays_several_environments_and_none_of_them_reaches_another(trained_run, loaded):
    player = Player(loaded)
    strange = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True}, max_episode_steps=40)
    plain = [episode.total_reward for episode in player.episodes(plan_in(trained_run.env))]
    sutton = [episode.total_reward for episode in player.episodes(plan_in(strange))]
    assert set(sutton) <= {-1.0, 0.0}
    assert [episode.total_reward for episode in player.episodes(plan_in(trained_run.env))] == plain


def test_an_environment_that_the_policy_cannot_play_is_refused_before_anything_is_played(loaded):
    with pytest.raises(UsageError, match="cannot be played by this policy"):
        Player(loaded).prepare(plan_in(EnvConfig(id="Acrobot-v1")))


def test_films_of_a_named_simulation_have_its_name(trained_run, loaded, tmp_path):
    player = Player(loaded, videos=tmp_path / "films")
    for simulation in ("default", "short"):
        list(player.episodes(plan_in(trained_run.env, episodes=1, simulation=simulation)))
    assert sorted(path.name for path in (tmp_path / "films").iterdir()) == ["3-seed10.mp4", "3-short-seed10.mp4"]


def test_replays_are_refused_for_environments_that_cannot_be_recorded(trained_run, loaded, tmp_path):
    with pytest.raises(UsageError, match="cannot be recorded"):
        Player(loaded, replays=tmp_path).prepare(plan_in(trained_run.env))


def test_threads_are_given_back_also_after_a_failure():
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), one_thread():
        assert torch.get_num_threads() == 1
        _ = 1 / 0
    assert torch.get_num_threads() == before
