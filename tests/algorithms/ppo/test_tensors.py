import numpy as np
import pytest
import torch

from palaestra.algorithms.group import ALONE
from palaestra.algorithms.ppo.tensors import build_tensors
from palaestra.config.policy import PolicyConfig
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.training.engines.numpy_network import build_numpy_network

INTERFACE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))
CPU = torch.device("cpu")


def built(shared=None, **settings):
    return build_tensors(TrainConfig(**settings), INTERFACE, 3, CPU, ALONE, shared)


def shared_memory():
    return build_numpy_network(PolicyConfig(graph="mlp"), INTERFACE, 1).numbers


def flat(tensors):
    return torch.cat([part.detach().ravel() for part in tensors.agent.parameters()])


def test_shared_memory_gives_the_weights_and_stays_their_memory():
    shared = shared_memory()
    tensors = built(shared)
    assert flat(tensors).tolist() == shared["values"].tolist()
    shared["values"][:] = 0.5
    assert set(flat(tensors).tolist()) == {0.5}
    for name, part in tensors.optimizer.adam_memory().items():
        assert np.shares_memory(part.numpy(), shared[name])


def test_muon_begins_with_the_same_weights_in_memory_of_its_own():
    shared = shared_memory()
    tensors = built(shared, ppo={"optimizer": {"kind": "muon"}})
    assert flat(tensors).tolist() == shared["values"].tolist()
    assert not np.shares_memory(tensors.optimizer.flat.numpy(), shared["values"])


def test_torchs_generator_is_seeded_whatever_was_drawn_before():
    built(seed=5)
    expected = torch.rand(4).tolist()
    torch.rand(17)
    built(seed=5)
    assert torch.rand(4).tolist() == expected
    built(seed=6)
    assert torch.rand(4).tolist() != expected


def test_without_shared_memory_torch_draws_the_weights_from_the_seed():
    assert flat(built(seed=5)).tolist() == flat(built(seed=5)).tolist() != flat(built(seed=6)).tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_gets_as_many_threads_as_configured(threads):
    before = torch.get_num_threads()
    try:
        built(torch_threads=threads)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
