"""What DQN, SAC and TD3 have in common when torch computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils import vector_to_parameters

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.algorithms.off_policy import OffPolicy
from palaestra.algorithms.stepping import CompiledStepping
from palaestra.core.errors import UsageError
from palaestra.core.seeds import global_seed
from palaestra.policies.agent import compile_network
from palaestra.policies.device import observation_to_device
from palaestra.policies.warm_start import build_agent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.base import Iteration, Progress
    from palaestra.algorithms.buffers.replay_buffer import Batch, ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.stepping import NativeEnvs
    from palaestra.config.off_policy import OffPolicyConfig
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation
    from palaestra.policies.warm_start import WarmStart


@dataclass(frozen=True)
class TensorBatch:
    """A batch on the network's device, with a time axis of 1. Observations are ready for networks: normalised."""

    observations: Observation  # [1, N, …]
    actions: Tensor  # [1, N, …]; of boxes in [-1, 1]
    rewards: Tensor  # [1, N] discounted sum over the steps of each transition
    next_observations: Observation  # [1, N, …]
    discounts: Tensor  # [1, N] of the value of what follows; 0 where the episode terminated


class TorchOffPolicy(CompiledStepping, OffPolicy):
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
        self.native_envs = native_envs

    @property
    def interface(self) -> EnvInterface:
        return self.agent.interface

    def policy(self) -> Agent:
        return self.agent

    def weights(self) -> Agent:
        return self.agent

    def iterate(self, progress: Progress) -> Iteration:
        if self.config.policy.compile:
            compile_network(self.agent)  # by now its weights are the ones to continue with
        return super().iterate(progress)

    def reset_envs(self, seeds: Sequence[int]) -> None:
        super().reset_envs(seeds)
        self.env_state_changed()

    def restore(self, saved: Mapping[str, Any]) -> None:
        super().restore(saved)
        self.env_state_changed()

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


def build_agent_for(
    config: TrainConfig,
    interface: EnvInterface,
    device: torch.device,
    group: Group,
    shared: Mapping[str, NDArray[np.float32]] | None = None,
    warm_start: WarmStart | None = None,
) -> Agent:
    """The policy with its first weights, equal on all ranks.

    `shared`: memory in which a native engine trains this network already, see `FlatOptimizer.adam_memory`; its weights
    are taken as they are by now.
    """
    torch.set_num_threads(1)  # how many there are must not reach the last bits of the first weights
    torch.manual_seed(config.seed)
    agent = build_agent(config.policy, interface, warm_start)
    refuse_unfit_policy(agent, config)
    if shared is not None:
        vector_to_parameters(torch.from_numpy(shared["values"]), agent.parameters())
        # As if nothing was drawn: a capture made before torch was imported says so.
        torch.manual_seed(global_seed(config.seed, group.rank))
    torch.set_num_threads(config.torch_threads)
    return agent.to(device)


def refuse_unfit_policy(agent: Agent, config: TrainConfig) -> None:
    """Transitions are sampled one by one, without what came before them, and learned from as they are."""
    if agent.initial_memory(1):
        raise UsageError(
            f"algorithm={config.algorithm} cannot train policy={config.policy}, which has memory.",
            "Choose a network without memory, such as policy=mlp, or algorithm=ppo.",
        )
    if agent.return_scaler is not None:
        raise UsageError(
            f"policy.normalize_returns=true does not fit algorithm={config.algorithm}, whose rewards are learned from "
            "as they are.",
            "Set policy.normalize_returns=false, or scale rewards with a wrapper of the environment.",
        )
