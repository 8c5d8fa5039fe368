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
