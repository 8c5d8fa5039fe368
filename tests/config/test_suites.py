import pytest
from pydantic import ValidationError

from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.resolve import resolve_config
from palaestra.config.suites import SimulationConfig, demand_differences, demand_name
from palaestra.core.errors import UsageError


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
        demand_name(name, "a simulation")
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
    demand_differences(both, episodes=20, seed=1_000_000)
    assert list(EvaluationConfig(simulations=both).simulations) == ["short", "other"]


def test_a_simulation_cannot_be_changed_afterwards():
    with pytest.raises(ValidationError):
        SimulationConfig().category = "other"
