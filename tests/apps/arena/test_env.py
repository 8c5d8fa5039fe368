"""One agent of an arena, as Gymnasium and our own checker want it."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_rules

import palaestra.apps.arena.registration  # noqa: F401  registers it, as the entry point does
from palaestra.apps.arena.batch import ArenaBatch
from palaestra.apps.arena.env import ArenaEnv, ArenaVectorEnv, render_state
from palaestra.apps.arena.observe import empty_rows, interface_of_agent
from palaestra.apps.arena.tables import COUNTERS, NORTH, REST
from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.envs.spaces import interface_of
from palaestra.envs.vector.batch import OffersBatch
from palaestra.testing.check_env import check_env

SMALL = {"width": 9, "height": 9, "mine": {"count": 2}, "generator": {"count": 1}, "altar": {"count": 1}}
FORMS = ["bytes", "tokens", "box"]


@pytest.mark.parametrize("form", FORMS)
def test_it_keeps_gymnasiums_rules_is_decided_by_its_seed_and_resumes_exactly(form):
    checked = check_env(EnvConfig(id="palaestra/Arena-v0", kwargs={**SMALL, "observation": form, "max_steps": 40}))
    assert checked.why_inexact == ""


def test_gymnasiums_checker_passes_with_images_too():
    made = gymnasium.make("palaestra/Arena-v0", render_mode="rgb_array", **SMALL)
    check_gymnasium_rules(made.unwrapped)


@pytest.mark.parametrize("form", FORMS)
def test_a_policy_sees_the_same_interface_alone_and_in_the_batch(form):
    env = ArenaEnv(observation=form)
    assert interface_of(env) == interface_of_agent(env.settings)
    assert bool(env.feature_specs) is (form != "bytes")


def test_with_others_it_plays_the_first_while_they_rest():
    env = ArenaEnv(agents=3, **SMALL)
    observations, _ = env.reset(seed=5)
    worlds, out = ArenaBatch([env.settings], 1), empty_rows(env.settings, 3)
    worlds.reset([0], [5], [0], out)
    for action in (1, 2, 3, 4, 0, 1, 1, 2):
        assert all(np.array_equal(observations[name], out[name][0]) for name in out)
        observations, *_ = env.step(action)
        worlds.step(np.array([action, REST, REST]), out, np.zeros(3, np.float32))
    assert env.world_state().agents[1:, :2].tolist() == worlds.world_state(0).agents[1:, :2].tolist()


def test_a_seed_given_is_the_worlds_and_without_one_it_is_drawn_from_the_last():
    one, other = ArenaEnv(**SMALL), ArenaEnv(**SMALL)
    stories = []
    for env in (one, other):
        env.reset(seed=3)
        stories.append([env.reset()[0]["cells"].tolist() for _ in range(4)])
    assert stories[0] == stories[1]
    assert any(observations != stories[0][0] for observations in stories[0])


def test_the_last_step_is_a_truncation_and_reports_the_counters():
    env = ArenaEnv(max_steps=3, **SMALL)
    env.reset(seed=1)
    steps = [env.step(NORTH) for _ in range(3)]
    assert [(terminated, truncated) for _, _, terminated, truncated, _ in steps] == [(False, False)] * 2 + [
        (False, True)
    ]
    assert list(steps[-1][4]) == list(COUNTERS)
    assert steps[0][4] == {}


def test_unknown_settings_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="agent.*agents"):
        gymnasium.make("palaestra/Arena-v0", agent=3)


def test_the_class_offers_a_batch_with_a_time_limit_over_its_own():
    assert isinstance(ArenaEnv, OffersBatch)
    batch = ArenaEnv.native_batch(2, [{**SMALL, "agents": 2, "max_steps": 50}], 4)
    out = empty_rows(ArenaEnv(**SMALL).settings, 4)
    batch.reset([0, 1], [1, 2], [0, 0], out)
    lengths = [
        [end.length for end in batch.step(np.zeros(4, np.int64), out, np.zeros(4, np.float32))] for _ in range(4)
    ]
    assert lengths == [[], [], [], [4, 4]]


def test_it_is_drawn_as_image_and_as_text_and_else_not_at_all():
    env = ArenaEnv(render_mode="ansi", **SMALL)
    env.reset(seed=0)
    assert "##" in env.render()
    state = env.world_state()
    assert render_state(state, "rgb_array").shape[2] == 3
    assert render_state(state, None) is None


VECTOR_SETTINGS = {"width": 9, "height": 9, "mine": {"count": 2}, "generator": {"count": 1}, "altar": {"count": 1}}


def test_gymnasium_makes_it_and_its_spaces_hold_what_it_gives():
    envs = gymnasium.make_vec("palaestra/Arena-v0", num_envs=6, agents=3, **VECTOR_SETTINGS)
    assert isinstance(envs.unwrapped, ArenaVectorEnv)
    observations, infos = envs.reset(seed=1)
    assert infos == {}
    assert envs.observation_space.contains(observations)
    observations, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(observations)
    assert rewards.shape == terminated.shape == truncated.shape == (6,)
    envs.close()


def test_worlds_of_one_agent_are_single_environments_side_by_side():
    envs = ArenaVectorEnv(num_envs=3, max_steps=50, **VECTOR_SETTINGS)
    singles = [ArenaEnv(max_steps=50, **VECTOR_SETTINGS) for _ in range(3)]
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
    envs = ArenaVectorEnv(num_envs=2, agents=2, max_steps=2, **VECTOR_SETTINGS)
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
    envs = ArenaVectorEnv(num_envs=1, **VECTOR_SETTINGS)
    first, _ = envs.reset(seed=0)
    stored = first["self"].copy()
    envs.step(np.array([1]))
    assert np.array_equal(first["self"], stored)


def test_the_same_seeds_give_the_same_worlds_as_one_number_or_as_many():
    envs = ArenaVectorEnv(num_envs=2, **VECTOR_SETTINGS)
    assert envs.reset(seed=5)[0]["cells"].tolist() == envs.reset(seed=[5, 6])[0]["cells"].tolist()
    envs.reset(seed=5)
    drawn = envs.reset()[0]["cells"].tolist()
    envs.reset(seed=5)
    assert envs.reset()[0]["cells"].tolist() == drawn


def test_a_part_of_a_world_is_refused_with_the_nearest_number():
    with pytest.raises(UsageError, match="num_envs=5 is not a multiple of the 3 agents"):
        ArenaVectorEnv(num_envs=5, agents=3)


def test_a_time_limit_and_images_are_those_requested():
    envs = ArenaVectorEnv(num_envs=4, agents=2, render_mode="rgb_array", max_episode_steps=1, **VECTOR_SETTINGS)
    envs.reset(seed=0)
    pictures = envs.render()
    assert len(pictures) == 2
    assert envs.step(np.zeros(4))[3].all()
