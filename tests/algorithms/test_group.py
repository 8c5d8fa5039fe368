import torch

from palaestra.algorithms.group import ALONE, PeerLost
from palaestra.core.errors import RunFailed


def test_alone_everything_is_as_it_was():
    tensor = torch.tensor([1.0, 2.0])
    assert ALONE.sum_(tensor) is tensor
    assert ALONE.average_(tensor) is tensor
    assert ALONE.broadcast_(tensor) is tensor
    assert tensor.tolist() == [1.0, 2.0]


def test_alone_what_is_gathered_told_and_agreed_is_ones_own():
    assert ALONE.stack(torch.tensor([1.0, 2.0])).tolist() == [[1.0, 2.0]]
    assert ALONE.max_over_ranks(15, 0) == (15, 0)
    assert ALONE.gather_bytes(b"mine") == [b"mine"]
    assert ALONE.broadcast_bytes(b"mine") == b"mine"
    ALONE.barrier()


def test_alone_one_leads():
    assert (ALONE.is_leader, ALONE.rank, ALONE.local_rank, ALONE.world_size) == (True, 0, 0, 1)


def test_a_lost_peer_fails_the_run():
    assert issubclass(PeerLost, RunFailed)
