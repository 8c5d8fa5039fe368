"""SAC in torch, for every network and device."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.algorithms.critics import Critics, action_gradient, new_critics
from palaestra.algorithms.optimizers import FlatAdam, FlatOptimizer
from palaestra.algorithms.sac.algorithm import ACTOR_NOISE, EXPLORATION, TARGET_NOISE, Sac
from palaestra.algorithms.sac.loss import (
    expected_actor_gradient,
    expected_soft_values,
    sampled_actor_gradients,
    soft_values,
    temperature_gradient,
)
from palaestra.algorithms.torch_off_policy import TensorBatch, TorchOffPolicy, as_tensor, as_tensors, build_agent_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.algorithms.base import Iteration, Progress
    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.stepping import NativeEnvs
    from palaestra.config.sac import SacConfig
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import Arrays, VectorEnvs
    from palaestra.policies.agent import Agent
    from palaestra.policies.base import Observation
    from palaestra.policies.distributions import Categorical, Distribution, SquashedGaussian
    from palaestra.policies.warm_start import WarmStart


class Temperature:
    """Alpha, the weight of the entropy: exp(log alpha), learned with Adam of its own, or fixed."""

    def __init__(
        self, config: SacConfig, device: torch.device, shared: Mapping[str, NDArray[np.float32]] | None = None
    ) -> None:
        """`shared`: memory of an engine that learns it already, as `FlatOptimizer.adam_memory` calls it."""
        first = config.initial_temperature if config.temperature is None else config.temperature
        self.log_alpha = torch.full((1,), log(first), device=device)
        self.grad = torch.zeros_like(self.log_alpha)
        if shared is not None:
            self.log_alpha, self.grad = torch.from_numpy(shared["values"]), torch.from_numpy(shared["gradient"])
        self._adam = FlatAdam(self.log_alpha, self.grad, config.optimizer, shared)

    @property
    def value(self) -> float:
        return float(self.log_alpha.exp())

    def step(self, gradient: float, learning_rate: float, group: Group) -> None:
        self.grad.fill_(gradient)
        group.average_(self.grad)
        self._adam.step(learning_rate)

    def memory(self) -> dict[str, Tensor]:
        """What a step reads and writes, for an engine that steps by itself: shared, not copied."""
        return {"values": self.log_alpha, "gradient": self.grad, **self._adam.memory()}

    def capture(self) -> dict[str, Tensor]:
        """On the CPU, copied."""
        return {"log_alpha": self.log_alpha.cpu().clone(), **self._adam.capture()}

    def restore(self, saved: dict[str, Any]) -> None:
        self.log_alpha.copy_(saved["log_alpha"])
        self._adam.restore(saved)


@dataclass
class SacTensors:
    agent: Agent
    optimizer: FlatOptimizer  # of agent.network
    critics: Critics
    temperature: Temperature

    def capture(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.capture(),
            **self.critics.capture(),
            "temperature": self.temperature.capture(),
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.optimizer.restore(saved["optimizer"])
        self.critics.restore(saved)
        self.temperature.restore(saved["temperature"])


def build_tensors(
    config: TrainConfig,
    interface: EnvInterface,
    device: torch.device,
    group: Group,
    shared: Mapping[str, Mapping[str, NDArray[np.float32]]] | None = None,
    warm_start: WarmStart | None = None,
) -> SacTensors:
    """Every rank has the same weights.

    `shared`: memory in which a native engine trains these already, `actor`, `critics` (with an entry `target`) and
    `temperature`, each as `FlatOptimizer.adam_memory` calls it.
    """
    settings, memory = config.sac, shared or {}
    agent = build_agent_for(config, interface, device, group, memory.get("actor"), warm_start)
    optimizer = FlatOptimizer(agent, settings.optimizer, shared=memory.get("actor"))
    critics = new_critics(config.policy, agent.interface, 2, settings.optimizer, device, memory.get("critics"))
    return SacTensors(agent, optimizer, critics, Temperature(settings, device, memory.get("temperature")))


class TorchSac(TorchOffPolicy, Sac):
    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: ReplayBuffer,
        group: Group,
        tensors: SacTensors,
        description: str = TORCH_ENGINE,
        native_envs: NativeEnvs | None = None,
    ) -> None:
        super().__init__(config, config.sac, envs, buffer, group, tensors.agent, description, native_envs)
        self.tensors = tensors

    def iterate(self, progress: Progress) -> Iteration:
        if self.config.policy.compile:
            self.tensors.critics.compile()
        return super().iterate(progress)

    def explore(self, observations: Arrays, now: Progress) -> NDArray[Any]:
        rng = self.rng(EXPLORATION, self.row_index(now))
        with torch.inference_mode():
            policy = self.agent.act(as_tensors(observations, self.device, adds_time=True), {}).distribution
            if not self.is_continuous:
                return draw_choices(cast("Categorical", policy), rng.uniform(self.envs.count))
            gaussian = cast("SquashedGaussian", policy)
            noise = as_tensor(rng.normal((self.envs.count, gaussian.mean.shape[-1])), self.device)
            actions: NDArray[Any] = gaussian.sample_unit(noise)[0][0].cpu().numpy()
            return actions

    def learn(self, count: int, now: Progress) -> None:
        settings, buffer = self.sac, self.buffer
        for _ in range(count):
            indices = buffer.draw(self.rng("replay", self.update_count), settings.batch_size)
            batch = self.tensors_of(buffer.gather(indices, settings.n_step, settings.gamma))
            self.figures.add(self.update(batch, now))
            self.update_count += 1

    def update(self, batch: TensorBatch, now: Progress) -> dict[str, float]:
        """One step of the critics, those of actor and temperature that are due, and of the targets."""
        tensors, (learning_rate, critic_learning_rate) = self.tensors, self.learning_rates(now)
        critics = tensors.critics
        targets = torch.addcmul(batch.rewards, batch.discounts, self.next_values(batch))
        if self.is_continuous:
            values = critics.values(batch.observations, batch.actions)
        else:
            chosen = batch.actions.expand(len(critics.networks), 1, -1)
            values = critics.values(batch.observations).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        figures = critics.step(values, targets, critic_learning_rate, self.group).metrics()
        tensors.optimizer.learning_rate = learning_rate
        for number in range(self.actor_updates_due()):
            figures |= self.update_actor(batch.observations, self.update_count + number)
        critics.target.follow(self.sac.tau)
        return {**figures, "charts/learning_rate": learning_rate}

    @torch.no_grad()
    def next_values(self, batch: TensorBatch) -> Tensor:
        """[1, N] the targets' soft values of what follows."""
        critics, alpha = self.tensors.critics, self.tensors.temperature.value
        policy = self._policy(batch.next_observations)
        if not self.is_continuous:
            log_probs = cast("Categorical", policy).log_probs
            return expected_soft_values(critics.target_values(batch.next_observations), log_probs, alpha)
        actions, log_probs = self._sample(policy, TARGET_NOISE, self.update_count)
        return soft_values(critics.target_values(batch.next_observations, actions), log_probs, alpha)

    def update_actor(self, observations: Observation, number: int) -> dict[str, float]:
        """One step of the actor, which leaves the critics as they are, and one of the temperature."""
        tensors = self.tensors
        optimizer, temperature = tensors.optimizer, tensors.temperature
        alpha = temperature.value
        policy = self._policy(observations)
        if self.is_continuous:
            loss, entropy = self._backward_sampled(policy, observations, number, alpha)
        else:
            loss, entropy = self._backward_expected(policy, observations, alpha)
        self.group.average_(optimizer.grad)
        optimizer.step(inf)
        figures = {"losses/actor_loss": loss, "losses/alpha": alpha, "losses/entropy": entropy}
        if self.learns_temperature:
            gradient = temperature_gradient(entropy, self.target_entropy)
            figures["losses/alpha_loss"] = float(temperature.log_alpha) * gradient
            temperature.step(gradient, optimizer.learning_rate, self.group)
        return figures

    def _backward_sampled(
        self, policy: Distribution, observations: Observation, number: int, alpha: float
    ) -> tuple[float, float]:
        """The actor's gradient from one action for each state; loss and entropy."""
        actions, log_probs = self._sample(policy, ACTOR_NOISE, number)
        taken = actions.detach().requires_grad_()
        values = self.tensors.critics.values(observations, taken).amin(dim=0)
        gradients = sampled_actor_gradients(action_gradient(values, taken), log_probs.detach(), alpha)
        self.tensors.optimizer.backward([actions, log_probs], gradients)
        values, log_probs = values.detach(), log_probs.detach()
        return float(-soft_values(values, log_probs, alpha).mean()), float(-log_probs.mean())

    def _backward_expected(self, policy: Distribution, observations: Observation, alpha: float) -> tuple[float, float]:
        """The actor's gradient from the expectation over all actions; loss and entropy."""
        log_probs = cast("Categorical", policy).log_probs
        with torch.no_grad():
            values = self.tensors.critics.values(observations).amin(dim=0)
        fixed = log_probs.detach()
        self.tensors.optimizer.backward([log_probs], [expected_actor_gradient(values, fixed, alpha)])
        loss = -expected_soft_values(values, fixed, alpha).mean()
        return float(loss), float(-(fixed.exp() * fixed).sum(dim=-1).mean())

    def _policy(self, observations: Observation) -> Distribution:
        return self.agent.network(observations, {}).distribution

    def _sample(self, policy: Distribution, purpose: str, number: int) -> tuple[Tensor, Tensor]:
        """Actions in [-1, 1] [1, N, size] and their log probabilities [1, N]"""
        gaussian = cast("SquashedGaussian", policy)
        noise = self.rng(purpose, number).normal(tuple(gaussian.mean.shape[1:]))
        return gaussian.sample_unit(as_tensor(noise, self.device))

    def capture_learning(self) -> dict[str, Any]:
        return self.tensors.capture()

    def restore_learning(self, saved: Mapping[str, Any]) -> None:
        self.tensors.restore(saved)


def draw_choices(policy: Categorical, uniform: NDArray[np.float32]) -> NDArray[np.int64]:
    """[B] the choices at which the cumulative probabilities [1, B, count] pass these numbers [B] in [0, 1)."""
    passed = policy.log_probs[0].exp().cumsum(dim=-1).cpu().numpy() <= uniform[:, None]
    choices: NDArray[np.int64] = np.minimum(passed.sum(axis=-1), passed.shape[-1] - 1)
    return choices
