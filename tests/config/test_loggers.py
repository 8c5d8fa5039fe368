import pytest
from pydantic import ValidationError

from palaestra.config.loggers import LoggersConfig, WandbConfig


def test_nothing_leaves_the_machine_unless_asked():
    assert LoggersConfig().wandb.enabled is False
    assert WandbConfig().upload_checkpoints is False


def test_tags_are_a_list_and_a_mode_is_one_of_three():
    assert WandbConfig.model_validate({"tags": ["a", "b"]}).tags == ("a", "b")
    with pytest.raises(ValidationError):
        WandbConfig.model_validate({"mode": "on"})
