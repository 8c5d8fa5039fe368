import pytest
from pydantic import ValidationError

from palaestra.config.ppo import PpoConfig


def test_the_defaults_are_cleanrls_for_cartpole():
    config = PpoConfig()
    assert (config.env_count, config.horizon, config.batch_size, config.minibatch_size) == (4, 128, 512, 128)
    assert (config.gamma, config.gae_lambda, config.update_epochs, config.max_grad_norm) == (0.99, 0.95, 4, 0.5)


@pytest.mark.parametrize(("asked", "near"), [(100, 128), (500, 512), (3, 2), (1000, 512)])
def test_a_minibatch_that_does_not_divide_is_refused_with_one_that_does(asked, near):
    with pytest.raises(ValidationError) as caught:
        PpoConfig(env_count=4, horizon=128, minibatch_size=asked)
    assert f"try minibatch_size={near}" in str(caught.value)
    assert 512 % near == 0


@pytest.mark.parametrize("bad", [{"gamma": 1.1}, {"env_count": 0}, {"target_kl": 0}, {"max_grad_norm": 0}])
def test_numbers_out_of_range_are_refused(bad):
    with pytest.raises(ValidationError):
        PpoConfig.model_validate(bad)
