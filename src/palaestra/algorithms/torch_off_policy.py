"""What DQN, SAC and TD3 have in common when torch computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.algorithms.off_policy import OffPolicy
from palaestra.core.errors import UsageError
from palaestra.policies.device import observation_to_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.buffers.replay_buffer import Batch, ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.rollout import NativeEnvs, SteppableEnvs
    from palaestra.config.off_policy import OffPolicyConfig
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation


@dataclass(frozen=True)
class TensorBatch:
    """A batch on the network's device, with a time axis of 1. Observations are ready for networks: normalised."""

    observations: Observation  # [1, N, …]
    actions: Tensor  # [1, N, …]; of boxes in [-1, 1]
    rewards: Tensor  # [1, N] discounted sum over the steps of each transition
    next_observations: Observation  # [1, N, …]
    discounts: Tensor  # [1, N] of the value of what follows; 0 where the episode terminated


class TorchOffPolicy(OffPolicy):
    engine = TORCH_ENGINE

    def __init__(
        self,
        config: TrainConfig,
        settings: OffPolicyConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        agent: Agent,
        description: str = TORCH_ENGINE,
        native_envs: NativeEnvs | None = None,
    ) -> None:
        """`description`: also why not native, if that was tried. `native_envs`: of these environments."""
        super().__init__(config, settings, envs, buffer, group, description)
        self.agent = agent
        self.device = next(agent.parameters()).device
        self._native_envs = native_envs

    @property
    def interface(self) -> EnvInterface:
        return self.agent.interface

    def policy(self) -> Agent:
        return self.agent

    def weights(self) -> Agent:
        return self.agent

    def stepped_envs(self) -> SteppableEnvs:
        if self._native_envs is None:
            return self.envs
        self._native_envs.import_state()
        return self._native_envs.stepper(self.envs)

    def export_env_state(self) -> None:
        if self._native_envs is not None:
            self._native_envs.export_state()

    def reset_envs(self, seeds: Sequence[int]) -> None:
        super().reset_envs(seeds)
        self._env_state_changed()

    def restore(self, saved: Mapping[str, Any]) -> None:
        super().restore(saved)
        self._env_state_changed()

    def _env_state_changed(self) -> None:
        if self._native_envs is not None:
            self._native_envs.invalidate()

    def take_in(self, row_count: int) -> None:
        if self.agent.observation_normalizer is not None:
            self.agent.take_in(as_tensors(self.buffer.newest(row_count), self.device), self.group.stack)

    def act(self, observations: Arrays) -> NDArray[Any]:
        """[B, …] the greedy actions, in the environments' units."""
        with torch.inference_mode():
            inputs = as_tensors(observations, self.device, adds_time=True)
            actions: NDArray[Any] = self.agent.act(inputs, {}).distribution.mode()[0].cpu().numpy()
            return actions

    def tensors_of(self, batch: Batch) -> TensorBatch:
        device, agent = self.device, self.agent
        return TensorBatch(
            observations=agent.prepare(as_tensors(batch.observations, device, adds_time=True)),
            actions=as_tensor(batch.actions, device),
            rewards=as_tensor(batch.rewards, device),
            next_observations=agent.prepare(as_tensors(batch.next_observations, device, adds_time=True)),
            discounts=as_tensor(batch.discounts, device),
        )


def as_tensor(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """[N, …] to [1, N, …]"""
    return torch.from_numpy(array).to(device, non_blocking=True)[None]


def as_tensors(observations: Arrays, device: torch.device, *, adds_time: bool = False) -> Observation:
    """Not copied, if the network is on the CPU."""
    if isinstance(observations, dict):
        tensors = {name: torch.from_numpy(part) for name, part in observations.items()}
        named: Observation = {name: part[None] for name, part in tensors.items()} if adds_time else tensors
        return observation_to_device(named, device)
    tensor = torch.from_numpy(observations)
    return observation_to_device(tensor[None] if adds_time else tensor, device)


def refuse_memory(agent: Agent, algorithm: str) -> None:
    """Transitions are sampled one by one, without what came before them."""
    if agent.initial_memory(1):
        raise UsageError(
            f"algorithm={algorithm} cannot train policy={agent.config}, which has memory.",
            "Choose a network without memory, such as policy=mlp, or algorithm=ppo.",
        )
