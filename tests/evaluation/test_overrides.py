from __future__ import annotations

import pytest

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.evaluation.overrides import apply_overrides, playable_interface

SAVED = EnvConfig(id="Pendulum-v1", kwargs={"g": 9.0}, max_episode_steps=100).model_dump()


def test_without_overrides_it_is_the_checkpoints_own():
    assert apply_overrides(SAVED, {}) == EnvConfig.model_validate(SAVED)


def test_one_setting_changes_and_the_others_stay():
    changed = apply_overrides(SAVED, {"env": {"kwargs": {"render_mode": "rgb_array"}}})
    assert changed.kwargs == {"g": 9.0, "render_mode": "rgb_array"}
    assert changed.max_episode_steps == 100


def test_the_saved_settings_are_not_touched():
    apply_overrides(SAVED, {"env": {"kwargs": {"g": 1.0}}}).kwargs["g"] = 5.0
    assert SAVED["kwargs"] == {"g": 9.0}


def test_another_environment_does_not_inherit_settings():
    changed = apply_overrides(SAVED, {"env": {"id": "CartPole-v1"}})
    assert (changed.kwargs, changed.max_episode_steps) == ({}, None)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"ppo": {"gamma": 1}}, "'ppo' cannot be changed"),
        ({"evn": {}}, "Did you mean 'env'"),
        ({"env": {"idd": "x"}}, "Did you mean 'id'"),
        ({"env": "CartPole-v1"}, "no set of settings"),
        ({"env": {"max_episode_steps": 0}}, r"env\.max_episode_steps=0"),
        ({"env": {"kwargs": 3}}, r"env\.kwargs=3"),
    ],
)
def test_what_cannot_be_changed_is_refused_by_name(overrides, said):
    with pytest.raises(UsageError, match=said):
        apply_overrides(SAVED, overrides)


def test_a_policy_is_not_sent_where_it_cannot_see_or_act():
    interface = interface_of(make_env(EnvConfig(id="CartPole-v1")))
    same = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True})
    assert playable_interface(same, interface) == interface
    for env_id, space in (("Acrobot-v1", "observation space"), ("Pendulum-v1", "observation space")):
        with pytest.raises(UsageError, match=f"'{env_id}' cannot be played.*{space}"):
            playable_interface(EnvConfig(id=env_id), interface)
