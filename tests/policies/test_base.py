import pytest
import torch

from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.distributions import Categorical


class Fixed(Policy):
    def forward(self, observation, memory, starts=None):
        return PolicyOutput(Categorical(observation), observation.sum(-1), {"seen": starts})


def test_a_policy_without_memory_needs_to_say_nothing_about_it():
    assert Policy().initial_memory(5) == {}


def test_a_policy_must_say_how_it_goes_forward():
    with pytest.raises(NotImplementedError):
        Policy()(torch.zeros(1, 1, 1), {}, None)


def test_acting_is_going_forward_when_a_policy_says_nothing_else():
    observation, starts = torch.randn(1, 2, 3), torch.ones(1, 2, dtype=torch.bool)
    policy = Fixed()
    output, intent = policy(observation, {}, starts), policy.act(observation, {}, starts)
    assert torch.equal(intent.value, output.value)
    assert torch.equal(intent.distribution.log_probs, output.distribution.log_probs)
    assert intent.memory["seen"] is starts
