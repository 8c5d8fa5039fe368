from __future__ import annotations

import pytest

from palaestra.config.env import EnvConfig
from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.recipes.registry import find_recipe
from palaestra.core import plugins
from palaestra.core.errors import NotFound, UsageError
from palaestra.evaluation.suites import find_suite, suite_of

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
    assert find_suite("default", ENV).judges_like(suite_of("own", EvaluationConfig(), ENV))


def test_a_misspelt_suite_is_refused_with_the_nearest_name():
    with pytest.raises(NotFound, match="Did you mean 'arena.basic'"):
        find_suite("arena.bassic", ENV)


def test_suites_judge_alike_when_they_play_the_same_however_often():
    one = suite_of("own", EvaluationConfig(episodes=3, simulations=TWO), ENV)
    assert one.judges_like(suite_of("other", EvaluationConfig(episodes=9, simulations=TWO), ENV))
    assert not one.judges_like(suite_of("own", EvaluationConfig(), ENV))
    assert not one.judges_like(suite_of("own", EvaluationConfig(simulations=TWO), {**ENV, "kwargs": {}}))
