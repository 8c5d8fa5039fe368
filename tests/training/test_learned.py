import numpy as np
import pytest
import torch

from palaestra.algorithms.group import ALONE
from palaestra.config.policy import PolicyConfig
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.training.draft import draft_network
from palaestra.training.learned import make_learned

INTERFACE = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))
CPU = torch.device("cpu")


def made(draft=None, **settings):
    return make_learned(TrainConfig(**settings), INTERFACE, 3, CPU, ALONE, draft)


def drafted():
    return draft_network(PolicyConfig(graph="mlp"), INTERFACE, 1)


def flat(learned):
    return torch.cat([part.detach().ravel() for part in learned.agent.parameters()])


def test_a_draft_becomes_the_networks_weights_and_stays_their_memory():
    draft = drafted()
    learned = made(draft)
    assert flat(learned).tolist() == draft.numbers["values"].tolist()
    draft.numbers["values"][:] = 0.5
    assert set(flat(learned).tolist()) == {0.5}
    for name, part in learned.optimizer.adam_memory().items():
        assert np.shares_memory(part.numpy(), draft.numbers[name])


def test_muon_begins_with_the_same_weights_in_memory_of_its_own():
    draft = drafted()
    learned = made(draft, ppo={"optimizer": {"kind": "muon"}})
    assert flat(learned).tolist() == draft.numbers["values"].tolist()
    assert not np.shares_memory(learned.optimizer.flat.numpy(), draft.numbers["values"])


def test_torchs_dice_are_those_of_the_seed_whatever_was_drawn_before():
    made(seed=5)
    expected = torch.rand(4).tolist()
    torch.rand(17)
    made(seed=5)
    assert torch.rand(4).tolist() == expected
    made(seed=6)
    assert torch.rand(4).tolist() != expected


def test_without_a_draft_torch_draws_the_weights_from_the_seed():
    assert flat(made(seed=5)).tolist() == flat(made(seed=5)).tolist() != flat(made(seed=6)).tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_gets_as_many_threads_as_were_asked_for(threads):
    before = torch.get_num_threads()
    try:
        made(torch_threads=threads)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
