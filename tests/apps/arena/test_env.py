"""One agent of an arena, as Gymnasium and our own checker want it."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_rules

import palaestra.apps.arena.registration  # noqa: F401  registers it, as the entry point does
from palaestra.apps.arena.batch import ArenaBatch
from palaestra.apps.arena.env import ArenaEnv, render_state
from palaestra.apps.arena.spaces import empty_rows, interface_of_agent
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


def test_the_last_step_is_a_truncation_and_tells_the_counters():
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
