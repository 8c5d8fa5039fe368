"""TD3 in torch, for every network and device. DDPG is one of its settings (see `palaestra.config.td3`)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, cast

import torch

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.algorithms.critics import Critics, action_gradient, new_critics
from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.targets import TargetNetwork
from palaestra.algorithms.td3.algorithm import EXPLORATION, TARGET_NOISE, Td3
from palaestra.algorithms.td3.loss import actor_gradient, noisy_actions
from palaestra.algorithms.torch_off_policy import TensorBatch, TorchOffPolicy, as_tensor, as_tensors, build_agent_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.base import Iteration, Progress
    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.stepping import NativeEnvs
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation, Policy
    from palaestra.policies.role_distributions import DeterministicAction
    from palaestra.policies.warm_start import WarmStart


@dataclass
class Td3Tensors:
    agent: Agent
    optimizer: FlatOptimizer  # of agent.network
    target: TargetNetwork[Policy]  # of agent.network
    critics: Critics

    def capture(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.capture(),
            "target": self.target.capture(),
            **self.critics.capture(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.optimizer.restore(saved["optimizer"])
        self.target.restore(saved["target"])
        self.critics.restore(saved)


def build_tensors(
    config: TrainConfig,
    interface: EnvInterface,
    device: torch.device,
    group: Group,
    shared: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    warm_start: WarmStart | None = None,
) -> Td3Tensors:
    """Every rank has the same weights.

    `shared`: memory in which a native engine trains these already, `actor` and `critics`, each as
    `FlatOptimizer.adam_memory` calls it and with an entry `target`.
    """
    settings, memory = config.td3, shared or {}
    actor = memory.get("actor")
    agent = build_agent_for(config, interface, device, group, actor, warm_start)
    optimizer = FlatOptimizer(agent, settings.optimizer, shared=actor)
    target = TargetNetwork(agent.network, optimizer, None if actor is None else actor["target"])
    count = 2 if settings.twin_critics else 1
    critics = new_critics(config.policy, agent.interface, count, settings.optimizer, device, memory.get("critics"))
    return Td3Tensors(agent, optimizer, target, critics)


class TorchTd3(TorchOffPolicy, Td3):
    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        tensors: Td3Tensors,
        description: str = TORCH_ENGINE,
        native_envs: NativeEnvs | None = None,
    ) -> None:
        super().__init__(config, config.td3, envs, buffer, group, tensors.agent, description, native_envs)
        self.tensors = tensors

    def iterate(self, progress: Progress) -> Iteration:
        if self.config.policy.compile:
            self.tensors.critics.compile()
        return super().iterate(progress)

    def explore(self, observations: Arrays, now: Progress) -> NDArray[Any]:
        with torch.inference_mode():
            policy = self.agent.act(as_tensors(observations, self.device, adds_time=True), {}).distribution
            greedy = cast("DeterministicAction", policy).unit
            noise = self.rng(EXPLORATION, self.row_index(now)).normal(tuple(greedy.shape[1:]))
            noisy = noisy_actions(greedy, as_tensor(noise, self.device), self.td3.exploration_noise)
            actions: NDArray[Any] = noisy[0].cpu().numpy()
            return actions

    def learn(self, count: int, now: Progress) -> None:
        settings, buffer = self.td3, self.buffer
        if self.update_count == 0:  # the weights may be the leader's since the target was made
            self.tensors.target.follow(1.0)
        for _ in range(count):
            indices = buffer.draw(self.rng("replay", self.update_count), settings.batch_size)
            batch = self.tensors_of(buffer.gather(indices, settings.n_step, settings.gamma))
            self.figures.add(self.update(batch, now))
            self.update_count += 1

    def update(self, batch: TensorBatch, now: Progress) -> dict[str, float]:
        """One step of the critics, and where it is due one of the actor and of all targets."""
        tensors, learning_rate = self.tensors, self.learning_rate(now)
        critics = tensors.critics
        targets = torch.addcmul(batch.rewards, batch.discounts, self.next_values(batch))
        values = critics.values(batch.observations, batch.actions)
        figures = critics.step(values, targets, learning_rate, self.group).metrics()
        if self.is_actor_due():
            tensors.optimizer.learning_rate = learning_rate
            figures["losses/actor_loss"] = self.update_actor(batch.observations)
            tensors.target.follow(self.td3.tau)
            critics.target.follow(self.td3.tau)
        return {**figures, "charts/learning_rate": learning_rate}

    @torch.no_grad()
    def next_values(self, batch: TensorBatch) -> Tensor:
        """[1, N] the targets' values of what follows, with noise on the target actor's actions."""
        settings = self.td3
        actions = unit_actions(self.tensors.target.network, batch.next_observations)
        noise = as_tensor(self.rng(TARGET_NOISE, self.update_count).normal(tuple(actions.shape[1:])), self.device)
        smoothed = noisy_actions(actions, noise, settings.target_noise, settings.target_noise_clip)
        return self.tensors.critics.target_values(batch.next_observations, smoothed)

    def update_actor(self, observations: Observation) -> float:
        """One step of the actor up the first critic, which it leaves as it is; the loss."""
        tensors = self.tensors
        actions = unit_actions(self.agent.network, observations)
        taken = actions.detach().requires_grad_()
        values = tensors.critics.networks[0](observations, taken)
        tensors.optimizer.backward([actions], [actor_gradient(action_gradient(values, taken))])
        self.group.average_(tensors.optimizer.grad)
        tensors.optimizer.step(inf)
        return float(-values.detach().mean())

    def capture_learning(self) -> dict[str, Any]:
        return self.tensors.capture()

    def restore_learning(self, saved: Mapping[str, Any]) -> None:
        self.tensors.restore(saved)


def unit_actions(network: Policy, observations: Observation) -> Tensor:
    """[1, N, size] in [-1, 1]"""
    return cast("DeterministicAction", network(observations, {}).distribution).unit
