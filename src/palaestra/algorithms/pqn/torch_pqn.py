"""PQN in torch, for every network and device (Gallici et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import torch

from palaestra.algorithms.base import TORCH_ENGINE, Iteration, Progress
from palaestra.algorithms.dqn.loss import td_loss
from palaestra.algorithms.exploration import epsilon_at
from palaestra.algorithms.off_policy import FigureMeans
from palaestra.algorithms.optimizers import FlatOptimizer
from palaestra.algorithms.pqn.algorithm import Pqn
from palaestra.algorithms.pqn.returns import lambda_returns
from palaestra.algorithms.rollout import TruncatedEpisode, next_values_of
from palaestra.algorithms.schedules import value_at
from palaestra.algorithms.stepping import CompiledStepping
from palaestra.algorithms.torch_off_policy import build_agent_for
from palaestra.core.reports import PhaseTimes, UpdateFigures
from palaestra.policies.agent import compile_network
from palaestra.policies.device import observation_to_device

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.stepping import NativeEnvs
    from palaestra.config.train import TrainConfig
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation
    from palaestra.policies.role_distributions import ActionValues
    from palaestra.policies.warm_start import WarmStart


@dataclass
class PqnTensors:
    agent: Agent
    optimizer: FlatOptimizer


@dataclass(frozen=True)
class Samples:
    """N = T * B steps of a rollout, on the network's device."""

    observations: Observation  # [N, …] raw
    actions: Tensor  # [N]
    returns: Tensor  # [N] λ-returns: what the actions should be worth


def build_tensors(
    config: TrainConfig,
    interface: EnvInterface,
    device: torch.device,
    group: Group,
    shared: Mapping[str, NDArray[np.float32]] | None = None,
    warm_start: WarmStart | None = None,
) -> PqnTensors:
    """Every rank has the same weights. `shared`: see `build_agent_for`."""
    agent = build_agent_for(config, interface, device, group, shared, warm_start)
    return PqnTensors(agent, FlatOptimizer(agent, config.pqn.optimizer, shared=shared))


class TorchPqn(CompiledStepping, Pqn):
    engine = TORCH_ENGINE

    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: RolloutBuffer,
        group: Group,
        tensors: PqnTensors,
        description: str = TORCH_ENGINE,
        native_envs: NativeEnvs | None = None,
    ) -> None:
        super().__init__(config, envs, buffer, group)
        self.description = description
        self.tensors = tensors
        self.native_envs = native_envs

    @property
    def interface(self) -> EnvInterface:
        return self.tensors.agent.interface

    def policy(self) -> Agent:
        return self.tensors.agent

    def weights(self) -> Agent:
        return self.tensors.agent

    def iterate(self, progress: Progress) -> Iteration:
        if self.config.policy.compile:
            compile_network(self.tensors.agent)  # by now its weights are the ones to continue with
        began = perf_counter()
        actions, truncated, episodes = self._step_envs(progress)
        samples = self._samples(actions, truncated)
        collected = perf_counter()
        figures = self._learn(samples, progress)
        # Only now: within an iteration, acting and learning must see the same normalised observations.
        self.tensors.agent.take_in(self.buffer.observations, self.group.stack)
        self.buffer.rewind()
        times = PhaseTimes(collected - began, perf_counter() - collected)
        done = progress.after(self.pqn.steps_per_iteration * self.group.world_size)
        epsilon = epsilon_at(self.pqn.exploration, done.fraction)
        return Iteration(self.pqn.steps_per_iteration, figures, episodes, times, {"charts/epsilon": epsilon})

    def _step_envs(self, progress: Progress) -> tuple[Tensor, list[TruncatedEpisode], list[EpisodeResult]]:
        """Fills the buffer; gives the actions [T, B]."""
        buffer, envs = self.buffer, self.stepped_envs()
        actions: list[Tensor] = []
        truncated: list[TruncatedEpisode] = []
        episodes: list[EpisodeResult] = []
        buffer.starts[1:] = False
        buffer.terminated[:] = False
        for step in range(buffer.horizon):
            action = self.explore(progress, step, partial(self._greedy_actions, step))
            actions.append(torch.from_numpy(action))
            result = envs.step(action, buffer.rows[step + 1])
            buffer.rewards[step] = result.rewards
            for ending in result.endings:
                buffer.terminated[step, ending.env_index] = ending.episode.terminated
                buffer.starts[step + 1, ending.env_index] = True
                episodes.append(ending.episode)
                if not ending.episode.terminated:
                    truncated.append(TruncatedEpisode(step, ending, {}))
        buffer.refuse_non_finite()
        return torch.stack(actions), truncated, episodes

    def _greedy_actions(self, step: int) -> NDArray[np.int64]:
        with torch.inference_mode():
            observation = observation_to_device(self.buffer.inputs[step], self.buffer.device)
            actions: NDArray[np.int64] = self.tensors.agent.act(observation, {}).distribution.mode()[0].cpu().numpy()
            return actions

    @torch.no_grad()
    def _samples(self, actions: Tensor, truncated: list[TruncatedEpisode]) -> Samples:
        buffer, agent, device = self.buffer, self.tensors.agent, self.buffer.device
        observations = observation_to_device(buffer.observations, device)
        values = agent(observations, {}).value
        last_value = agent(observation_to_device(buffer.inputs[-1], device), {}).value
        next_values = next_values_of(values, last_value, truncated, agent, self.envs, buffer)
        rewards, ended = (torch.from_numpy(part).to(device) for part in (buffer.rewards, buffer.starts[1:]))
        returns = lambda_returns(rewards, next_values, ended, self.pqn.gamma, self.pqn.q_lambda)
        return Samples(_flat(observations), actions.flatten().to(device), returns.flatten())

    def _learn(self, samples: Samples, progress: Progress) -> UpdateFigures:
        optimizer, agent = self.tensors.optimizer, self.tensors.agent
        optimizer.learning_rate = value_at(self.pqn.learning_rate, progress.fraction)
        figures = FigureMeans()
        for epoch in range(self.pqn.update_epochs):
            for indices in map(torch.from_numpy, self.minibatches(progress.iteration, epoch)):
                indices = indices.to(self.buffer.device)
                distribution = cast("ActionValues", agent(_pick(samples.observations, indices), {}).distribution)
                taken = distribution.values[0].gather(-1, samples.actions[indices].unsqueeze(-1)).squeeze(-1)
                loss, gradient = td_loss(taken.detach() - samples.returns[indices], None, "mse")
                optimizer.backward((taken,), (gradient,))
                self.group.average_(optimizer.grad)
                norm = optimizer.step(self.pqn.max_grad_norm)
                figures.add(
                    {
                        "losses/td_loss": float(loss),
                        "losses/q_values": float(taken.detach().mean()),
                        "losses/grad_norm": norm,
                        "charts/learning_rate": optimizer.learning_rate,
                    }
                )
        return UpdateFigures(figures.means())

    def capture_optimizer(self) -> dict[str, Any]:
        return {"optimizer": self.tensors.optimizer.capture()}

    def restore_optimizer(self, saved: Mapping[str, Any]) -> None:
        self.tensors.optimizer.restore(saved["optimizer"])


def _flat(observations: Observation) -> Observation:
    """[T, B, …] to [N, …]"""
    if isinstance(observations, torch.Tensor):
        return observations.flatten(0, 1)
    return {name: part.flatten(0, 1) for name, part in observations.items()}


def _pick(observations: Observation, indices: Tensor) -> Observation:
    """[1, M, …] of [N, …]"""
    if isinstance(observations, torch.Tensor):
        return observations[indices][None]
    return {name: part[indices][None] for name, part in observations.items()}
