"""PPO in torch, for every network and device."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.base import TORCH_ENGINE, Iteration, Progress
from palaestra.algorithms.ppo.algorithm import Ppo
from palaestra.algorithms.ppo.kickstart import Distillation, teacher_loss_weights
from palaestra.algorithms.ppo.update import update
from palaestra.algorithms.rollout import Rollout, collect_rollout
from palaestra.algorithms.stepping import CompiledStepping
from palaestra.core.reports import PhaseTimes, PpoStats
from palaestra.policies.agent import compile_network
from palaestra.policies.diagnostics import gradient_statistics

if TYPE_CHECKING:
    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.algorithms.group import Group
    from palaestra.algorithms.ppo.tensors import PpoTensors
    from palaestra.algorithms.stepping import NativeEnvs
    from palaestra.config.train import TrainConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import VectorEnvs
    from palaestra.policies.agent import Agent


class TorchPpo(CompiledStepping, Ppo):
    engine = TORCH_ENGINE

    def __init__(
        self,
        config: TrainConfig,
        envs: VectorEnvs,
        buffer: RolloutBuffer,
        group: Group,
        tensors: PpoTensors,
        description: str = TORCH_ENGINE,
        native_envs: NativeEnvs | None = None,
    ) -> None:
        """`description`: also why not native, if that was tried. `native_envs`: of these environments."""
        super().__init__(config, envs, buffer, group)
        self.description = description
        self._tensors = tensors
        self.native_envs = native_envs

    @property
    def tensors(self) -> PpoTensors:
        return self._tensors

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
        tensors = self.tensors
        rollout, tensors.memory, episodes = collect_rollout(
            tensors.agent, self.stepped_envs(), self.buffer, tensors.memory, tensors.sampler, tensors.segment_length
        )
        rollout = self._scale_rewards(rollout)
        collected = perf_counter()
        stats, metrics = self._learn(rollout, progress.fraction)
        times = PhaseTimes(collected - began, perf_counter() - collected)
        return Iteration(self.config.ppo.batch_size, stats, episodes, times, metrics)

    def _capture_tensors(self) -> dict[str, Any]:
        return self.tensors.capture()

    def _scale_rewards(self, rollout: Rollout) -> Rollout:
        scaler = self.tensors.agent.return_scaler
        if scaler is None:
            return rollout
        rewards, self.tensors.reward_sums = scaler.scale(
            rollout.rewards, rollout.ended, self.tensors.reward_sums, self.config.ppo.gamma, self.group.stack
        )
        return replace(rollout, rewards=rewards)

    def _learn(self, rollout: Rollout, progress: float) -> tuple[PpoStats, dict[str, float]]:
        ppo, tensors = self.config.ppo, self.tensors
        advantages = estimate_advantages(rollout, ppo.gamma, ppo.gae_lambda)
        distillation = self._distillation(rollout, progress)
        stats = update(
            tensors.agent,
            tensors.optimizer,
            rollout,
            advantages,
            ppo,
            progress,
            self.shuffler,
            segment_length=tensors.segment_length,
            group=self.group,
            distillation=distillation,
        )
        # Only now: within an iteration, acting and learning must see the same normalised observations.
        tensors.agent.take_in(rollout.observations, self.group.stack)
        self.buffer.rewind()
        metrics = {} if distillation is None else distillation.metrics()
        if ppo.gradient_statistics:
            metrics |= gradient_statistics(tensors.agent)
        return stats, metrics

    def _distillation(self, rollout: Rollout, progress: float) -> Distillation | None:
        """The teacher's part in this update; None once its coefficients are 0."""
        weights = teacher_loss_weights(self.config.ppo.kickstart, progress)
        if self.tensors.teacher is None or weights.are_zero:
            return None
        return Distillation(self.tensors.teacher.label(rollout, self.tensors.agent), weights)
