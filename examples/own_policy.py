"""A network of your own: a torch class with `Settings` and one method.

PYTHONPATH=examples palaestra train cartpole policy.module=own_policy:SharedTrunk policy.settings.width=32
python examples/own_policy.py
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from palaestra import load_policy, train
from palaestra.config.base import Frozen
from palaestra.core.spaces import EnvInterface
from palaestra.policies.base import Memory, Observation, Policy, PolicyOutput
from palaestra.policies.distributions import head_size, make_distribution
from palaestra.policies.observations import flat_size, flatten_observation


class TrunkSettings(Frozen):
    width: int = Field(64, ge=1, description="units of the layer that actor and critic share")


class SharedTrunk(Policy):
    """One layer for both heads; for discrete actions (a Box would also need a log_std)."""

    Settings = TrunkSettings  # unknown policy.settings are refused by it

    def __init__(self, interface: EnvInterface, settings: TrunkSettings) -> None:
        super().__init__()
        self.interface = interface
        self.trunk = nn.Sequential(nn.Linear(flat_size(interface.observation_space), settings.width), nn.Tanh())
        self.actor = nn.Linear(settings.width, head_size(interface.action_space))
        self.critic = nn.Linear(settings.width, 1)

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:
        """Observations are [T, B, …]; a policy without memory hands back what it was given."""
        hidden = self.trunk(flatten_observation(self.interface.observation_space, observation))
        distribution = make_distribution(self.interface.action_space, self.actor(hidden), None)
        return PolicyOutput(distribution, self.critic(hidden).squeeze(-1), memory)


if __name__ == "__main__":
    settings = {"module": "own_policy:SharedTrunk", "settings": {"width": 32}}
    outcome = train("cartpole", total_steps=5_000, policy=settings)
    policy = load_policy(outcome.record.name).policy
    count = sum(weights.numel() for weights in policy.parameters())
    print(f"{outcome.record.name}: {count} weights, return {outcome.metrics['charts/episodic_return']:.1f}")
