import torch
from torch import nn

from palaestra.algorithms.parameter_groups import group_parameters
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy


class Everything(Policy):
    """One of each kind of weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 16)
        self.queries = nn.Parameter(torch.randn(5, 16))
        self.hidden = nn.Linear(16, 24)
        self.memory = nn.LSTM(24, 8)
        self.kernel = nn.Conv2d(3, 4, 3)
        self.norm = nn.LayerNorm(8)
        self.action_head = nn.Linear(8, 3)
        self.value_head = nn.Linear(8, 1)
        self.tied = self.hidden  # the same module under another name


def names_of(policy: nn.Module, parameters) -> set[str]:
    by_identity = {id(parameter): name for name, parameter in policy.named_parameters()}
    return {by_identity[id(parameter)] for parameter in parameters}


def test_muon_gets_hidden_matrices_and_nothing_else():
    agent = Agent(
        Everything(),
        EnvInterface(BoxSpec((4,)), DiscreteSpec(3)),
        normalize_observations=False,
        normalize_returns=False,
    )
    groups = group_parameters(agent)
    assert names_of(agent, groups.muon) == {
        "network.hidden.weight",
        "network.memory.weight_ih_l0",
        "network.memory.weight_hh_l0",
    }


def test_every_parameter_is_in_exactly_one_group():
    network = Everything()
    groups = group_parameters(network)
    grouped = [id(parameter) for parameter in (*groups.adam, *groups.muon)]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == {id(parameter) for parameter in network.parameters()}
