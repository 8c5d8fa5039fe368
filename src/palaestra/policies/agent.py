"""A network together with the statistics that belong to it: what is trained, saved, loaded and evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from palaestra.policies.base import Intent, Memory, Observation, Policy, PolicyOutput
from palaestra.policies.features import FeatureMap, feature_map
from palaestra.policies.normalise import ObservationNormalizer, ReturnScaler, own_only

if TYPE_CHECKING:
    from torch import Tensor

    from palaestra.config.policy import PolicyConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.normalise import Stack


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
        self.feature_map: FeatureMap | None = None
        self.config: PolicyConfig | None = None  # what it was built from, where that is known

    def playing_in(self, env: EnvInterface) -> Agent:
        """The same network and statistics for an environment whose named features may have other ids.

        Features that the policy does not know are masked. To learn them, build the policy with
        `adopt_features(interface, env)` first. Spaces that differ in more than features are refused.
        """
        other = Agent(self.network, self.interface, normalize_observations=False, normalize_returns=False)
        other.observation_normalizer = self.observation_normalizer
        other.return_scaler = self.return_scaler
        other.feature_map = feature_map(self.interface, env)
        other.config = self.config
        return other.train(self.training)

    def take_in(self, observation: Observation, stack: Stack = own_only) -> None:
        """A rollout's observations [T, B, …], as the environment gave them, for the statistics."""
        if self.observation_normalizer is not None:
            mapped = observation if self.feature_map is None else self.feature_map(observation)
            self.observation_normalizer.update(mapped, stack)

    def prepare(self, observation: Observation) -> Observation:
        """What the network reads: features mapped, numbers normalised."""
        if self.feature_map is not None:
            observation = self.feature_map(observation)
        if self.observation_normalizer is not None:
            observation = self.observation_normalizer(observation)
        return observation

    def forward(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> PolicyOutput:
        return self.network(self.prepare(observation), memory, starts)

    def act(self, observation: Observation, memory: Memory, starts: Tensor | None = None) -> Intent:
        return self.network.act(self.prepare(observation), memory, starts)

    def initial_memory(self, batch_size: int) -> Memory:
        return self.network.initial_memory(batch_size)


def compile_network(agent: Agent, backend: str = "inductor") -> None:
    """torch.compile for `policy.compile=true`: `forward` for updates and `act` for acting; a second call does nothing.

    The network is compiled in place, after its weights were loaded: it stays the same module with the same parameter
    names, so that checkpoints are unaffected. Normalisers are not compiled.
    """
    network = agent.network
    if getattr(network, "_compiled_call_impl", None) is not None:
        return
    network.compile(backend=backend)
    setattr(network, "act", torch.compile(network.act, backend=backend))  # noqa: B010  a method, for this one object
