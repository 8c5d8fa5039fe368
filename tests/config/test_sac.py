import pytest
from pydantic import ValidationError

from palaestra.config.sac import SacConfig


def test_a_temperature_is_learned_unless_it_is_given():
    assert SacConfig().temperature is None
    assert SacConfig(temperature=0.2).temperature == 0.2


@pytest.mark.parametrize(("key", "value"), [("temperature", 0), ("initial_temperature", -1), ("policy_interval", 0)])
def test_values_out_of_range_are_refused(key, value):
    with pytest.raises(ValidationError, match="greater than"):
        SacConfig.model_validate({key: value})


def test_the_critics_learning_rate_follows_the_actors_unless_it_is_given():
    assert SacConfig().critic_learning_rate is None
    assert SacConfig(critic_learning_rate=1e-3).critic_learning_rate.start == 1e-3
