import pytest
from pydantic import ValidationError

from palaestra.config.checkpoints import CheckpointConfig


@pytest.mark.parametrize("bad", [{"keep": 0}, {"keep_trainer_states": 0}, {"save_interval": -1}])
def test_at_least_one_checkpoint_always_stays(bad):
    with pytest.raises(ValidationError):
        CheckpointConfig.model_validate(bad)


def test_an_interval_that_nobody_asked_for_is_none():
    assert CheckpointConfig().save_interval is None


def test_an_interval_of_zero_means_only_at_the_end():
    assert CheckpointConfig(save_interval=0).save_interval == 0
