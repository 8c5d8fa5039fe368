import pytest
from pydantic import ValidationError

from palaestra.config.cluster import ClusterConfig
from palaestra.config.train import TrainConfig


def test_without_an_address_everything_stays_on_this_machine():
    assert TrainConfig().cluster == ClusterConfig(address=None, cpus=None)


@pytest.mark.parametrize("wrong", [{"address": ""}, {"cpus": 0}, {"cpus": -1}, {"adress": "head:6379"}])
def test_an_empty_address_no_processors_and_unknown_keys_are_refused(wrong):
    with pytest.raises(ValidationError):
        ClusterConfig.model_validate(wrong)
