"""A network together with the statistics that belong to it: what is trained, saved, loaded and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.policies.base import Intent, Memory, Observation, Policy, PolicyOutput
from palaestra.policies.normalise import ObservationNormalizer, ReturnScaler

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.contracts.spaces import EnvInterface


class Agent(Policy):
    def __init__(
        self, network: Policy, interface: EnvInterface, *, normalize_observations: bool, normalize_returns: bool
    ) -> None:
        super().__init__()
        self.interface = interface
        self.network = network
        self.observation_normalizer = (
            ObservationNormalizer(interface.observation_space) if normalize_observations else None
        )
        self.return_scaler = ReturnScaler() if normalize_returns else None

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:
        if self.observation_normalizer is not None:
            observation = self.observation_normalizer(observation)
        return self.network(observation, memory, starts)

    def act(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> Intent:
        if self.observation_normalizer is not None:
            observation = self.observation_normalizer(observation)
        return self.network.act(observation, memory, starts)

    def initial_memory(self, batch_size: int) -> Memory:
        return self.network.initial_memory(batch_size)
