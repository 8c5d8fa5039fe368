"""Arena as Gymnasium's vector environment, against the single form."""

import gymnasium
import numpy as np
import pytest

import palaestra.apps.arena.registration  # noqa: F401  registers it, as the entry point does
from palaestra.apps.arena.env import ArenaEnv
from palaestra.apps.arena.vector import ArenaVectorEnv
from palaestra.core.errors import UsageError

SMALL = {"width": 9, "height": 9, "mine": {"count": 2}, "generator": {"count": 1}, "altar": {"count": 1}}


def test_gymnasium_makes_it_and_its_spaces_hold_what_it_gives():
    envs = gymnasium.make_vec("palaestra/Arena-v0", num_envs=6, agents=3, **SMALL)
    assert isinstance(envs.unwrapped, ArenaVectorEnv)
    observations, infos = envs.reset(seed=1)
    assert infos == {}
    assert envs.observation_space.contains(observations)
    observations, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(observations)
    assert rewards.shape == terminated.shape == truncated.shape == (6,)
    envs.close()


def test_worlds_of_one_agent_are_single_environments_side_by_side():
    envs = ArenaVectorEnv(num_envs=3, max_steps=50, **SMALL)
    singles = [ArenaEnv(max_steps=50, **SMALL) for _ in range(3)]
    observations, _ = envs.reset(seed=10)
    alone = [env.reset(seed=10 + index)[0] for index, env in enumerate(singles)]
    random_players = np.random.default_rng(0)
    for _ in range(40):
        assert all(np.array_equal(observations["cells"][index], one["cells"]) for index, one in enumerate(alone))
        actions = random_players.integers(6, size=3)
        observations, rewards, *_ = envs.step(actions)
        steps = [env.step(action) for env, action in zip(singles, actions, strict=True)]
        alone = [step[0] for step in steps]
        assert rewards.tolist() == [step[1] for step in steps]


def test_an_episode_that_is_cut_begins_anew_in_the_same_step_and_leaves_its_last_words():
    envs = ArenaVectorEnv(num_envs=2, agents=2, max_steps=2, **SMALL)
    assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    envs.reset(seed=0)
    assert envs.step(np.zeros(2))[4] == {}
    observations, _, terminated, truncated, infos = envs.step(np.zeros(2))
    assert truncated.tolist() == [True, True]
    assert not terminated.any()
    progress = -1  # the last entry of what an agent knows of itself
    assert observations["self"][:, progress].tolist() == [0, 0]
    assert infos["final_obs"][1]["self"][progress] == 255
    assert infos["_final_obs"].tolist() == [True, True]
    assert infos["final_info"]["moves"].tolist() == [0, 0]


def test_what_was_given_out_is_not_written_over():
    envs = ArenaVectorEnv(num_envs=1, **SMALL)
    first, _ = envs.reset(seed=0)
    kept = first["self"].copy()
    envs.step(np.array([1]))
    assert np.array_equal(first["self"], kept)


def test_the_same_seeds_give_the_same_worlds_as_one_number_or_as_many():
    envs = ArenaVectorEnv(num_envs=2, **SMALL)
    assert envs.reset(seed=5)[0]["cells"].tolist() == envs.reset(seed=[5, 6])[0]["cells"].tolist()
    envs.reset(seed=5)
    drawn = envs.reset()[0]["cells"].tolist()
    envs.reset(seed=5)
    assert envs.reset()[0]["cells"].tolist() == drawn


def test_a_part_of_a_world_is_refused_with_the_nearest_number():
    with pytest.raises(UsageError, match="num_envs=5 is not a multiple of the 3 agents"):
        ArenaVectorEnv(num_envs=5, agents=3)


def test_a_time_limit_and_images_are_those_requested():
    envs = ArenaVectorEnv(num_envs=4, agents=2, render_mode="rgb_array", max_episode_steps=1, **SMALL)
    envs.reset(seed=0)
    pictures = envs.render()
    assert len(pictures) == 2
    assert envs.step(np.zeros(4))[3].all()
