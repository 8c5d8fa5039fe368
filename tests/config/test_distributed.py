from __future__ import annotations

import pytest
from pydantic import ValidationError

from palaestra.config.distributed import ClusterConfig, DistributedConfig
from palaestra.config.train import TrainConfig


def test_gloo_or_nccl_is_chosen_by_what_there_is():
    assert DistributedConfig().backend == "auto"


@pytest.mark.parametrize(
    "wrong", [{"backend": "mpi"}, {"timeout_seconds": 0}, {"peer_timeout_seconds": 1}, {"restarts": -1}]
)
def test_an_unknown_backend_and_a_wait_of_nothing_are_refused(wrong):
    with pytest.raises(ValidationError):
        DistributedConfig(**wrong)


def test_without_an_address_everything_stays_on_this_machine():
    assert TrainConfig().cluster == ClusterConfig(address=None, cpus=None)


@pytest.mark.parametrize("wrong", [{"address": ""}, {"cpus": 0}, {"cpus": -1}, {"adress": "head:6379"}])
def test_an_empty_address_no_processors_and_unknown_keys_are_refused(wrong):
    with pytest.raises(ValidationError):
        ClusterConfig.model_validate(wrong)
