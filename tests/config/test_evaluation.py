import pytest
from pydantic import ValidationError

from palaestra.config.evaluation import EvaluationConfig
from palaestra.config.train import TrainConfig


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
