from __future__ import annotations

import pytest
from pydantic import ValidationError

from palaestra.config.evaluation import EvaluationConfig, SimulationConfig, refuse_duplicates, validate_name
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError


@pytest.mark.parametrize("bad", [{"episodes": 0}, {"seed": -1}])
def test_an_evaluation_has_episodes_and_seeds(bad):
    with pytest.raises(ValidationError):
        EvaluationConfig.model_validate(bad)


def test_evaluation_seeds_are_far_from_training_seeds():
    assert EvaluationConfig().seed > TrainConfig().seed + 1000


def test_without_simulations_there_is_none_and_with_some_they_keep_their_order():
    assert EvaluationConfig().simulations == {}
    named = {name: {"env": {"max_episode_steps": steps}} for name, steps in (("b", 1), ("a", 2))}
    assert list(EvaluationConfig(simulations=named).simulations) == ["b", "a"]


def evaluation(**simulations):
    return resolve_config(EvaluationConfig, None, {"simulations": simulations})


def test_a_bare_name_is_the_id_of_an_environment():
    assert SimulationConfig(env="Acrobot-v1").env == {"id": "Acrobot-v1"}


@pytest.mark.parametrize(
    ("simulation", "told"),
    [
        ({"episodes": 0}, "simulations.short.episodes"),
        ({"seed": -1}, "simulations.short.seed"),
        ({"env": {"kwarg": {}}}, "an environment has no 'kwarg'"),
        ({"category": "a/b"}, "'a/b' is no name of a category"),
        ({"categorie": "speed"}, "categorie"),
    ],
)
def test_what_is_no_simulation_is_refused_by_name(simulation, told):
    with pytest.raises(UsageError, match=told):
        evaluation(short=simulation)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 41])
def test_a_name_must_fit_into_the_names_of_metrics_and_files(name):
    with pytest.raises(ValueError, match="is no name of a simulation"):
        validate_name(name, "a simulation")
    with pytest.raises(UsageError, match="is no name of a simulation"):
        evaluation(**{name: {}})


@pytest.mark.parametrize(
    "other",
    [
        {"env": {"max_episode_steps": 9}},
        {"env": {"max_episode_steps": 9}, "episodes": 20},  # what holds anyway
        {"env": {"max_episode_steps": 9}, "seed": 1_000_000},
        {"env": {"max_episode_steps": 9}, "category": "speed"},  # a heading changes nothing of what is played
    ],
)
def test_one_simulation_under_two_names_is_refused_with_both(other):
    with pytest.raises(UsageError, match="'short' and 'brief' are the same"):
        evaluation(short={"env": {"max_episode_steps": 9}}, brief=other)


@pytest.mark.parametrize("other", [{"env": {}}, {"env": {"max_episode_steps": 9}, "seed": 5}])
def test_what_differs_in_anything_that_is_played_are_two(other):
    both = {"short": SimulationConfig(env={"max_episode_steps": 9}), "other": SimulationConfig.model_validate(other)}
    refuse_duplicates(both, episodes=20, seed=1_000_000)
    assert list(EvaluationConfig(simulations=both).simulations) == ["short", "other"]


def test_a_simulation_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError):
        SimulationConfig().category = "other"
