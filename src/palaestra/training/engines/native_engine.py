"""The compiled engine for networks of linear layers, embedding tables and recurrent cells on a CPU.

Inference, sampling, advantages and updates work in the memory of the torch modules, the optimizer and the rollout
buffer. Actions are sampled with a counter-based generator of seed, iteration, step and environment, so that only its
seed is saved; minibatches are ordered by the same generator as with torch. Results do not depend on the number of
threads.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.base import Iteration, Progress
from palaestra.algorithms.buffers.finite import refuse_non_finite_ends
from palaestra.algorithms.schedules import value_at
from palaestra.core.episodes import EpisodeColumns
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.core.lazy_import import lazy_import
from palaestra.core.reports import PhaseTimes, PpoStats
from palaestra.envs.vector.batch import BatchEnvs
from palaestra.envs.vector.in_process import InProcessEnvs
from palaestra.training.engines.native_envs import ClassicControlEnvs, unwrap_published
from palaestra.training.engines.native_rollout import BatchRollout, EpisodeEnds, NetworkInputs, is_watched
from palaestra.training.engines.network_plan import (
    HeadKind,
    HeadPlan,
    InputKind,
    NormalizerPlan,
    Unsupported,
    plan_head,
    plan_vector_input,
)

native_learner: ModuleType | None
try:
    from palaestra.training.engines import native_learner
except ImportError:  # not compiled
    native_learner = None

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import torch
    from numpy.typing import NDArray

    from palaestra.config.ppo import PpoConfig
    from palaestra.core.episodes import EpisodeResult
    from palaestra.envs.vector.in_process import Ending
    from palaestra.policies import normalise
    from palaestra.policies.normalise import ReturnScaler
    from palaestra.training.engines import policy_plan
    from palaestra.training.engines.native_ppo import NativePpo
    from palaestra.training.engines.network_plan import InputPlan, NetworkPlan
else:
    torch = lazy_import("torch")
    normalise = lazy_import("palaestra.policies.normalise")
    policy_plan = lazy_import("palaestra.training.engines.policy_plan")

MAX_PARTS = 64  # entries of an action; native/engine/action_head.hpp


class NativeEngine:
    name = "native"

    def __init__(self, algorithm: NativePpo, kernels: str = "") -> None:
        """Raises Unsupported for what only the torch engine can do."""
        if native_learner is None:
            raise Unsupported("it was not compiled where palaestra was installed")
        self._compiled = native_learner
        buffer, interface = algorithm.buffer, algorithm.interface
        plan, parameters = _network(algorithm)
        vector = plan_vector_input(plan, interface.observation_space)
        head = plan_head(interface.action_space)
        if len(head.counts) > MAX_PARTS:
            raise Unsupported(f"actions of {len(head.counts)} numbers")
        self._inputs = NetworkInputs(plan, buffer)
        self.arrays = _rollout_arrays(algorithm, self._inputs, head)
        self._learner = native_learner.Learner(
            network=plan,
            head=head,
            network_input=vector,
            parameters=parameters,
            buffer={**self.arrays, "codes": self._inputs.codes},
            normalizer=_normalizer(algorithm, vector),
            horizon=buffer.horizon,
            env_count=algorithm.envs.count,
            threads=algorithm.config.torch_threads,
            segment_length=algorithm.segment_length,
            kernels=kernels,
        )
        self._update_config = _update_config(native_learner, algorithm.config.ppo)
        self._floats = [block for block in (*buffer.blocks.values(), buffer.rewards) if block.dtype == np.float32]
        self._memory_names = plan.memory_names
        self._native_envs: ClassicControlEnvs | None = None
        self._batch: BatchRollout | None = None
        self.description = f"native, {self._learner.kernels}; environments stepped {self._choose_stepping(algorithm)}"

    def _choose_stepping(self, algorithm: NativePpo) -> str:
        """Where the environments are stepped, and the reason if they are not stepped inside"""
        envs = unwrap_published(algorithm.envs)
        try:
            if isinstance(envs, InProcessEnvs):
                self._native_envs = ClassicControlEnvs(envs, self._compiled)
                return "inside"
            if isinstance(envs, BatchEnvs):
                self._batch = BatchRollout(envs, algorithm.buffer, self._compiled, self._learner)
                return "inside, but step by step from Python while a viewer is connected"
        except Unsupported as reason:
            return f"in Python: {reason}"
        return "outside, in a batch or in worker processes"

    def iterate(self, algorithm: NativePpo, progress: Progress) -> Iteration:
        began = perf_counter()
        episodes = self._collect(algorithm, progress)
        collected = perf_counter()
        stats = self._update(algorithm, progress)
        return Iteration(
            algorithm.config.ppo.batch_size, stats, episodes, PhaseTimes(collected - began, perf_counter() - collected)
        )

    def export_env_state(self) -> None:
        if self._native_envs is not None:
            self._native_envs.export_state()

    def invalidate(self) -> None:
        if self._native_envs is not None:
            self._native_envs.invalidate()

    def _collect(self, algorithm: NativePpo, progress: Progress) -> Sequence[EpisodeResult]:
        self._learner.begin_rollout(algorithm.action_seed, progress.iteration)
        self._load_memory(algorithm)
        try:
            collect = self._collect_outside if self._native_envs is None else self._collect_inside
            episodes = collect(algorithm)
        except IndexError as error:  # the engine checks observations when it reads them
            raise RunFailed(
                f"An environment of '{algorithm.config.env}' left its own observation space: {error}."
            ) from error
        if not self._compiled.are_finite(self._floats):
            algorithm.buffer.refuse_non_finite()
        self._store_memory(algorithm)
        scaler = algorithm.tensors.agent.return_scaler if algorithm.config.policy.normalize_returns else None
        if scaler is not None:
            self._scale(algorithm, scaler)
        return episodes

    def _load_memory(self, algorithm: NativePpo) -> None:
        if self._memory_names:
            self._learner.load_memory(
                [np.ascontiguousarray(algorithm.tensors.memory[name].numpy()) for name in self._memory_names]
            )

    def _store_memory(self, algorithm: NativePpo) -> None:
        if self._memory_names:
            after = [np.empty(algorithm.tensors.memory[name].shape, np.float32) for name in self._memory_names]
            self._learner.store_memory(after)
            algorithm.tensors.memory = {
                name: torch.from_numpy(part) for name, part in zip(self._memory_names, after, strict=True)
            }

    def _scale(self, algorithm: NativePpo, scaler: ReturnScaler) -> None:
        """Like `scaler.scale`, whose loop over steps in torch takes longer than a small update."""
        buffer = algorithm.buffer
        sums = np.empty_like(buffer.rewards)
        self._compiled.discounted_sums(
            buffer.rewards, buffer.starts[1:], algorithm.tensors.reward_sums.numpy(), algorithm.config.ppo.gamma, sums
        )
        scaler.moments.update(torch.from_numpy(sums).flatten(), algorithm.group.stack)
        factor = (scaler.moments.variance + normalise.EPSILON).rsqrt().float()
        torch.from_numpy(buffer.rewards).mul_(factor).clamp_(-scaler.clip, scaler.clip)

    def _collect_inside(self, algorithm: NativePpo) -> Sequence[EpisodeResult]:
        native = self._native_envs
        assert native is not None, "the caller checks this"
        native.import_state()
        episodes = EpisodeColumns(**native.native.collect(self._learner))
        native.publish(algorithm.envs, algorithm.buffer.horizon, len(episodes), algorithm.buffer.rewards[-1])
        return episodes

    def _collect_outside(self, algorithm: NativePpo) -> Sequence[EpisodeResult]:
        """Environments that the engine does not own: through a batch step API, or step by step from Python."""
        ends = EpisodeEnds(algorithm.buffer)
        if self._batch is None or is_watched(algorithm.envs):
            self._collect_steps(algorithm, ends)
        else:
            self._batch.collect(algorithm.envs, ends)
        self._evaluate_values(ends.truncations)
        return ends.episodes

    def _collect_steps(self, algorithm: NativePpo, ends: EpisodeEnds) -> None:
        """Python steps the environments, the engine does the rest."""
        buffer, envs, act = algorithm.buffer, algorithm.envs, self._learner.act
        actions = self.arrays["actions"]
        for step in range(buffer.horizon):
            act(step)
            result = envs.step(actions[step], buffer.rows[step + 1])
            buffer.rewards[step] = result.rewards
            ends.add(step, result.endings)

    def _evaluate_values(self, truncations: list[tuple[int, Ending]]) -> None:
        vector, codes = self._inputs.stack([ending.final_observation for _, ending in truncations])
        envs = [ending.env_index for _, ending in truncations]
        refuse_non_finite_ends(vector, envs)
        self._learner.evaluate_values(vector, [step for step, _ in truncations], envs, codes)

    def _update(self, algorithm: NativePpo, progress: Progress) -> PpoStats:
        ppo, config = algorithm.config.ppo, self._update_config
        config.clip = value_at(ppo.clip, progress.fraction)
        config.entropy_coefficient = value_at(ppo.entropy_coefficient, progress.fraction)
        config.learning_rate = learning_rate = value_at(ppo.learning_rate, progress.fraction)
        norm = self._learner.update(algorithm.shuffler.bit_generator.capsule, config, algorithm.group.reducer)
        if not math.isfinite(norm):
            raise NonFinite(f"The gradient's norm is {norm}.")
        stats = PpoStats(**self._learner.stats(), learning_rate=learning_rate)
        if algorithm.config.policy.normalize_observations:
            algorithm.tensors.agent.take_in(algorithm.buffer.observations, algorithm.group.stack)
        algorithm.buffer.rewind()
        return stats


def _update_config(compiled: Any, ppo: PpoConfig) -> Any:
    """Everything that no schedule changes; the rest is set before each update."""
    config = compiled.UpdateConfig()
    config.gamma, config.gae_lambda = ppo.gamma, ppo.gae_lambda
    config.epochs, config.minibatch_size = ppo.update_epochs, ppo.minibatch_size
    config.target_kl = math.inf if ppo.target_kl is None else ppo.target_kl
    config.clip_value_loss = ppo.clip_value_loss
    config.value_coefficient = ppo.value_coefficient
    config.normalize_advantages = ppo.normalize_advantages
    config.max_grad_norm = ppo.max_grad_norm
    config.beta1, config.beta2 = ppo.optimizer.beta1, ppo.optimizer.beta2
    config.epsilon = ppo.optimizer.epsilon
    config.weight_decay = ppo.optimizer.weight_decay
    return config


def _network(algorithm: NativePpo) -> tuple[NetworkPlan, dict[str, NDArray[np.float32]]]:
    """The network's plan and parameters, without torch if possible."""
    if algorithm.network is not None:
        return algorithm.network.plan, _adam_arrays(algorithm.network.numbers)
    optimizer = algorithm.tensors.optimizer
    plan = policy_plan.plan_policy(algorithm.tensors.agent, optimizer.flat)
    return plan, _adam_arrays({name: part.numpy() for name, part in optimizer.adam_memory().items()})


def _adam_arrays(numbers: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """By the names of the compiled engine."""
    other_names = {"mean": "exp_avg", "spread": "exp_avg_sq"}
    return {other_names.get(name, name): part for name, part in numbers.items()}


def _rollout_arrays(algorithm: NativePpo, inputs: NetworkInputs, head: HeadPlan) -> dict[str, NDArray[Any]]:
    """The arrays of the rollout buffer, and those that the engine adds, each [T, B, …]."""
    buffer = algorithm.buffer
    shape = (buffer.horizon, algorithm.envs.count)
    is_continuous = head.kind is HeadKind.GAUSSIAN
    is_single = not is_continuous and len(head.counts) == 1 and not hasattr(algorithm.interface.action_space, "counts")
    dtype = np.float32 if is_continuous else np.int64
    own: dict[str, NDArray[Any]] = {
        name: np.zeros(shape, np.float32) for name in ("log_probs", "values", "next_values", "advantages", "returns")
    }
    own["actions"] = np.zeros(shape if is_single else (*shape, len(head.counts)), dtype)
    return {
        **own,
        "observations": inputs.vector,
        "rewards": buffer.rewards,
        "starts": buffer.starts,
        "terminated": buffer.terminated,
    }


def _normalizer(algorithm: NativePpo, vector: InputPlan) -> NormalizerPlan | None:
    if not algorithm.config.policy.normalize_observations:
        return None
    normalizer = algorithm.tensors.agent.observation_normalizer
    assert normalizer is not None, "asked for by the configuration"
    assert vector.kind is InputKind.FLOATS, "the normalizer accepts nothing else"
    box: Any = normalizer.parts["part_"]
    return NormalizerPlan(box.shift.reshape(-1).numpy(), box.scale.reshape(-1).numpy(), box.clip)
