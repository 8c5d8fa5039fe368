import pytest
import torch

from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.distributions import Categorical

INTERFACE = EnvInterface(BoxSpec((2,)), DiscreteSpec(2))


class Echo(Policy):
    """Its value is the sum of what it sees; its memory counts the calls."""

    def forward(self, observation, memory, starts=None):
        value = observation.sum(-1)
        return PolicyOutput(Categorical(torch.zeros(*value.shape, 2)), value, {"calls": memory["calls"] + 1})

    def initial_memory(self, batch_size):
        return {"calls": torch.zeros(batch_size)}


def make(normalize_observations=False, normalize_returns=False):
    return Agent(Echo(), INTERFACE, normalize_observations=normalize_observations, normalize_returns=normalize_returns)


def test_the_network_sees_raw_observations_unless_asked_otherwise():
    agent = make()
    observation = torch.tensor([[[3.0, 4.0]]])
    assert agent(observation, agent.initial_memory(1)).value.tolist() == [[7.0]]
    assert agent.observation_normalizer is None
    assert agent.return_scaler is None


@pytest.mark.parametrize("door", ["forward", "act"])
def test_acting_and_learning_see_the_same_normalised_observations(door):
    agent = make(normalize_observations=True)
    agent.observation_normalizer.update(torch.tensor([[[1.0, 10.0]], [[3.0, 30.0]]]))  # mean 2, 20; deviation 1, 10
    output = getattr(agent, door)(torch.tensor([[[4.0, 50.0]]]), agent.initial_memory(1), None)
    assert output.value.item() == pytest.approx(2.0 + 3.0)


def test_memory_is_the_networks_and_goes_in_and_out():
    agent = make()
    memory = agent.initial_memory(3)
    for _ in range(2):
        memory = agent(torch.zeros(1, 3, 2), memory).memory
    assert memory["calls"].tolist() == [2.0] * 3


def test_statistics_are_part_of_what_is_saved():
    names = set(make(normalize_observations=True, normalize_returns=True).state_dict())
    assert {name.split(".")[0] for name in names} == {"observation_normalizer", "return_scaler"}
    assert set(make().state_dict()) == set()
