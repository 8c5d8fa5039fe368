"""DQN in torch, for every network and device (Mnih et al., 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, cast

import torch

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.algorithms.dqn.algorithm import Dqn
from palaestra.algorithms.dqn.loss import td_loss, td_targets
from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.schedules import value_at
from palaestra.algorithms.targets import TargetNetwork
from palaestra.algorithms.torch_off_policy import TorchOffPolicy, as_tensor, build_agent_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.base import Progress
    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.stepping import NativeEnvs
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation, Policy
    from palaestra.policies.role_distributions import ActionValues
    from palaestra.policies.warm_start import WarmStart


@dataclass
class DqnTensors:
    agent: Agent
    optimizer: FlatOptimizer  # of agent.network
    target: TargetNetwork[Policy]

    def capture(self) -> dict[str, Any]:
        """On the CPU, copied."""
        return {"optimizer": self.optimizer.capture(), "target": self.target.capture()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.optimizer.restore(saved["optimizer"])
        self.target.restore(saved["target"])


def build_tensors(
    config: TrainConfig,
    interface: EnvInterface,
    device: torch.device,
    group: Group,
    shared: Mapping[str, NDArray[np.float32]] | None = None,
    warm_start: WarmStart | None = None,
) -> DqnTensors:
    """Every rank has the same weights. `shared`: see `build_agent_for`; with an entry `target`."""
    agent = build_agent_for(config, interface, device, group, shared, warm_start)
    optimizer = FlatOptimizer(agent, config.dqn.optimizer, shared=shared)
    target = TargetNetwork(agent.network, optimizer, None if shared is None else shared["target"])
    return DqnTensors(agent, optimizer, target)


class TorchDqn(TorchOffPolicy, Dqn):
    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        tensors: DqnTensors,
        description: str = TORCH_ENGINE,
        native_envs: NativeEnvs | None = None,
    ) -> None:
        super().__init__(config, config.dqn, envs, buffer, group, tensors.agent, description, native_envs)
        self.tensors = tensors

    def greedy_actions(self, observations: Arrays) -> NDArray[np.int64]:
        return self.act(observations)

    def learn(self, count: int, now: Progress) -> None:
        if self.update_count == 0:  # the weights may be the leader's since the target was made
            self.update_target(1.0)
        self.tensors.optimizer.learning_rate = value_at(self.dqn.learning_rate, now.fraction)
        for _ in range(count):
            self._update(now)
            self.update_count += 1

    def _update(self, now: Progress) -> None:
        indices, weights = self._draw(now)
        batch = self.tensors_of(self.buffer.gather(indices, self.dqn.n_step, self.dqn.gamma))
        optimizer, network = self.tensors.optimizer, self.agent.network
        with torch.no_grad():
            next_values = action_values(self.tensors.target.network, batch.next_observations)
            choosing = action_values(network, batch.next_observations) if self.dqn.double else None
            targets = td_targets(batch.rewards, batch.discounts, next_values, choosing)
        taken = action_values(network, batch.observations).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
        td_errors = taken.detach() - targets
        loss, gradient = td_loss(td_errors, weights, self.dqn.loss)
        optimizer.backward((taken,), (gradient,))
        self.group.average_(optimizer.grad)
        norm = optimizer.step(inf if self.dqn.max_grad_norm is None else self.dqn.max_grad_norm)
        if self.priorities is not None:
            self.priorities.update(indices, td_errors[0].cpu().numpy())
        self.figures.add(
            {
                "losses/td_loss": float(loss),
                "losses/q_values": float(taken.detach().mean()),
                "losses/grad_norm": norm,
                "charts/learning_rate": optimizer.learning_rate,
            }
        )

    def _draw(self, now: Progress) -> tuple[NDArray[np.int64], Tensor | None]:
        """Indices [N] and importance weights [1, N], if there are any."""
        rng = self.rng("replay", self.update_count)
        if self.priorities is None:
            return self.buffer.draw(rng, self.dqn.batch_size), None
        indices, weights = self.priorities.draw(rng, self.dqn.batch_size, self.beta(now))
        return indices, as_tensor(weights, self.device)

    def update_target(self, tau: float) -> None:
        self.tensors.target.follow(tau)

    def capture_networks(self) -> dict[str, Any]:
        return self.tensors.capture()

    def restore_networks(self, saved: Mapping[str, Any]) -> None:
        self.tensors.restore(saved)


def action_values(network: Policy, observations: Observation) -> Tensor:
    """[1, N, actions]"""
    return cast("ActionValues", network(observations, {}).distribution).values
