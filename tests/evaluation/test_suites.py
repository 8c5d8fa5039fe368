from __future__ import annotations

import pytest

from palaestra.config.env import EnvConfig
from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.recipes.registry import find_recipe
from palaestra.core import plugins
from palaestra.core.errors import NotFound, UsageError
from palaestra.envs.make import make_env
from palaestra.envs.spaces import interface_of
from palaestra.evaluation.suites import apply_overrides, find_suite, playable_interface, suite_of

ENV = EnvConfig(id="CartPole-v1", kwargs={"sutton_barto_reward": True}, max_episode_steps=40).model_dump()
TWO = {"short": {"category": "speed", "env": {"max_episode_steps": 9}}, "plain": {}}


def written(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


def test_without_simulations_the_suite_is_the_environment_that_was_trained_in():
    suite = suite_of("own", EvaluationConfig(), ENV)
    (only,) = suite.simulations
    assert (only.name, only.category, only.env.model_dump()) == ("default", "default", ENV)


def test_a_simulation_is_laid_over_the_environment_and_the_environment_stays_as_it_was():
    settings = EvaluationConfig(simulations={**TWO, "wide": {"env": {"kwargs": {"render_mode": None}}}})
    short, plain, wide = suite_of("own", settings, ENV).simulations
    assert short.env.model_dump() == {**ENV, "max_episode_steps": 9}
    assert plain.env.model_dump() == ENV
    assert wide.env.kwargs == {"sutton_barto_reward": True, "render_mode": None}
    wide.env.kwargs["more"] = 1
    assert ENV["kwargs"] == {"sutton_barto_reward": True}
    assert plain.env.kwargs == {"sutton_barto_reward": True}, "two simulations share nothing (trap 25)"


def test_another_id_starts_without_the_kwargs_of_the_first():
    settings = EvaluationConfig(simulations={"other": {"env": "Acrobot-v1"}})
    (only,) = suite_of("own", settings, ENV).simulations
    assert only.env == EnvConfig(id="Acrobot-v1")
    assert only.env.kwargs == {}


def test_categories_are_what_is_written_and_not_what_a_name_contains():
    """Trap 27."""
    settings = EvaluationConfig(
        simulations={"training_speed": {"category": "speed", "env": {"max_episode_steps": 5}}, "plain": {}}
    )
    assert [one.category for one in suite_of("own", settings, ENV).simulations] == ["speed", "default"]


def test_simulations_that_become_equal_over_this_environment_are_refused():
    settings = EvaluationConfig(simulations={"plain": {}, "forty": {"env": {"max_episode_steps": 40}}})
    assert len(suite_of("own", settings, {**ENV, "max_episode_steps": 50}).simulations) == 2
    with pytest.raises(UsageError, match="'plain' and 'forty' of 'own' are the same"):
        suite_of("own", settings, ENV)


def test_a_file_says_what_may_stand_under_evaluation(tmp_path):
    path = written(tmp_path, "episodes: 7\nsimulations:\n  short: {category: speed, env: {max_episode_steps: 9}}\n")
    suite = find_suite(path, ENV)
    assert (suite.name, suite.settings.episodes) == ("mine", 7)
    assert [(one.name, one.category) for one in suite.simulations] == [("short", "speed")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("simulations: {}\n", "is empty"),
        ("episodes: 3\n", "is empty"),
        ("- short\n", "is list, not a mapping"),
        ("simulations: {short: {episodes: 0}}\n", "simulations.short.episodes"),
        ("simulations: {a: {}, b: {}}\n", "'a' and 'b' are the same"),
        ("simulation: {a: {}}\n", "simulation"),
    ],
)
def test_a_file_that_is_no_suite_is_refused_by_name(tmp_path, text, told):
    with pytest.raises(UsageError, match=told):
        find_suite(written(tmp_path, text), ENV)


def test_a_file_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(NotFound, match="nowhere.yaml"):
        find_suite(str(tmp_path / "nowhere.yaml"), ENV)


def test_a_recipe_brings_its_own_environment_and_nothing_of_the_checkpoints_is_left_in_it():
    tiny = find_recipe("arena.tiny").config.env
    suite = find_suite("arena.basic", tiny.model_dump(mode="json"))
    basic = find_recipe("arena.basic").config
    assert suite.simulations[0].env == basic.env
    assert [one.name for one in suite.simulations] == list(basic.evaluation.simulations)
    assert "rewards" not in suite.simulations[0].env.kwargs


def test_a_recipe_without_simulations_is_a_suite_of_its_environment():
    (only,) = find_suite("acrobot", ENV).simulations
    assert only.env.id == "Acrobot-v1"


def test_a_plugin_brings_a_suite(monkeypatch):
    monkeypatch.setattr(plugins, "names", lambda kind: ["theirs"] if kind == "suites" else [])
    monkeypatch.setattr(plugins, "load", lambda kind, name: {"simulations": TWO})
    assert [one.name for one in find_suite("theirs", ENV).simulations] == ["short", "plain"]


def test_the_word_default_means_the_environment_that_was_trained_in():
    assert find_suite("default", ENV).has_same_simulations(suite_of("own", EvaluationConfig(), ENV))


def test_a_misspelt_suite_is_refused_with_the_nearest_name():
    with pytest.raises(NotFound, match="Did you mean 'arena.basic'"):
        find_suite("arena.bassic", ENV)


def test_suites_evaluate_alike_when_they_play_the_same_however_often():
    one = suite_of("own", EvaluationConfig(episodes=3, simulations=TWO), ENV)
    assert one.has_same_simulations(suite_of("other", EvaluationConfig(episodes=9, simulations=TWO), ENV))
    assert not one.has_same_simulations(suite_of("own", EvaluationConfig(), ENV))
    assert not one.has_same_simulations(suite_of("own", EvaluationConfig(simulations=TWO), {**ENV, "kwargs": {}}))


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
        ({"ppo": {"gamma": 1}}, "has no setting 'ppo'"),
        ({"evn": {}}, "Did you mean 'env'"),
        ({"env": {"idd": "x"}}, "Did you mean 'id'"),
        ({"env": "CartPole-v1"}, "must be a mapping"),
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
        with pytest.raises(UsageError, match=f"does not fit '{env_id}'.*{space}"):
            playable_interface(EnvConfig(id=env_id), interface)
