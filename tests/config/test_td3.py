import pytest
from pydantic import ValidationError

from palaestra.config.td3 import Td3Config


def test_ddpg_is_a_setting():
    ddpg = Td3Config(twin_critics=False, policy_interval=1, target_noise=0)
    assert not ddpg.twin_critics
    assert ddpg.policy_interval == 1


@pytest.mark.parametrize("key", ["exploration_noise", "target_noise", "target_noise_clip"])
def test_noise_cannot_be_negative(key):
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        Td3Config.model_validate({key: -0.1})


def test_two_critics_are_the_default():
    assert Td3Config().twin_critics
