import pytest
import torch
import torch.distributed as dist

from palaestra.config.distributed import DistributedConfig
from palaestra.core.errors import UsageError
from palaestra.training.distributed.joining import choose_backend, open_group


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_without_variables_one_is_alone_and_nothing_is_opened():
    with open_group(DistributedConfig()) as group:
        assert group.world_size == 1
        assert not dist.is_initialized()


def test_a_world_of_one_opens_nothing_either(monkeypatch):
    for name, value in {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "x",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with open_group(DistributedConfig()) as group:
        assert (group.is_leader, dist.is_initialized()) == (True, False)


def test_ranks_know_their_places_and_the_group_is_closed_after_them(together):
    assert together(lambda group: [group.rank, group.world_size, group.is_leader]) == [[0, 2, True], [1, 2, False]]


def test_the_group_is_closed_also_after_an_exception(together):
    def work(group):
        del group
        try:
            with open_group(DistributedConfig()):
                pass
        except UsageError as error:
            return str(error)  # it was open already

    answers = together(work)
    assert all("torch.distributed is open already, with 2 processes" in answer for answer in answers)


def test_nccl_without_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="distributed.backend=nccl needs CUDA"):
        choose_backend("nccl")
    assert choose_backend("auto") == "gloo"


def test_with_cuda_small_tensors_on_the_host_still_go_over_gloo(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    assert choose_backend("auto") == choose_backend("nccl") == "cpu:gloo,cuda:nccl"
    assert choose_backend("gloo") == "gloo"
