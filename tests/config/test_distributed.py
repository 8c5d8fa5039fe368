import pytest
from pydantic import ValidationError

from palaestra.config.distributed import DistributedConfig


def test_gloo_or_nccl_is_chosen_by_what_there_is():
    assert DistributedConfig().backend == "auto"


@pytest.mark.parametrize(
    "wrong", [{"backend": "mpi"}, {"timeout_seconds": 0}, {"peer_timeout_seconds": 1}, {"restarts": -1}]
)
def test_an_unknown_backend_and_a_wait_of_nothing_are_refused(wrong):
    with pytest.raises(ValidationError):
        DistributedConfig(**wrong)
