"""The engine for networks of layers, tables and memory on a CPU: inference, sampling, advantages, updates compiled.

It works in the memory of the torch modules, of the optimiser and of the tape. Actions are drawn from dice that are a
function of seed, iteration, step and environment, so there is only their seed to save; minibatches are ordered by the
same generator as with torch. Results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.base import Iteration, Progress
from palaestra.algorithms.buffers.rollout_buffer import refuse_non_finite_ends
from palaestra.algorithms.schedules import value_at
from palaestra.core.episodes import EpisodeColumns
from palaestra.core.errors import NonFinite, RunFailed
from palaestra.core.lazy_import import lazy_import
from palaestra.core.reports import PhaseTimes, UpdateStats
from palaestra.envs.batch import BatchEnvs
from palaestra.envs.vector import InProcessEnvs
from palaestra.training.engines.batch_worlds import BatchWorlds, is_watched
from palaestra.training.engines.codes import HeadCode, InputCode, Unfit, plan_head
from palaestra.training.engines.landings import Landings
from palaestra.training.engines.seen import Seen, vector_input
from palaestra.training.engines.worlds import EngineWorlds, stepped_by

learner: ModuleType | None
try:
    from palaestra.training.engines import learner
except ImportError:  # no compiler has been here
    learner = None

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import torch
    from numpy.typing import NDArray

    from palaestra.config.ppo import PpoConfig
    from palaestra.core.episodes import EpisodeResult
    from palaestra.envs.vector import Ending
    from palaestra.policies import normalise
    from palaestra.policies.normalise import ReturnScaler
    from palaestra.training.engines import network_plan
    from palaestra.training.engines.codes import LayerPlan
    from palaestra.training.engines.native_ppo import NativePpo
else:
    torch = lazy_import("torch")
    normalise = lazy_import("palaestra.policies.normalise")
    network_plan = lazy_import("palaestra.training.engines.network_plan")

MAX_CHOICES = 64  # parts of one action; native/engine/heads.hpp


class NativeEngine:
    name = "native"

    def __init__(self, state: NativePpo, kernels: str = "") -> None:
        """Raises Unfit where this engine cannot do what the torch engine would."""
        if learner is None:
            raise Unfit("it was not compiled where palaestra was installed")
        self._compiled = learner
        tape, interface = state.buffer, state.interface
        plan, parameters = _network(state)
        seen = vector_input(plan, interface.observation_space)
        head, counts = plan_head(interface.action_space)
        if len(counts) > MAX_CHOICES:
            raise Unfit(f"actions of {len(counts)} numbers")
        self._seen = Seen(plan, tape)
        self.recording = _new_recording(state, self._seen, head, len(counts))
        self._learner = learner.Learner(
            sizes=plan.sizes,
            layers=plan.layers,
            action_slot=plan.action_slot,
            value_slot=plan.value_slot,
            head=int(head),
            counts=counts,
            log_std=plan.log_std,
            input_code=int(seen.code),
            input_counts=seen.counts,
            input_firsts=seen.firsts,
            parameters=parameters,
            recording={**self.recording, "codes": self._seen.codes},
            normalizer=_normalizer(state, seen.code),
            horizon=tape.horizon,
            env_count=state.envs.count,
            threads=state.config.torch_threads,
            kernels=kernels,
            cells=plan.cells,
            stretch=state.segment_length,
            tables=plan.tables,
        )
        self._rates = _rates(learner, state.config.ppo)
        self._floats = [block for block in (*tape.blocks.values(), tape.rewards) if block.dtype == np.float32]
        self._memory = plan.memory  # names, in the order of the engine's cells
        self._worlds: EngineWorlds | None = None
        self._batch: BatchWorlds | None = None
        self.description = f"native, {self._learner.kernels}; environments stepped {self._take_worlds(state)}"

    def _take_worlds(self, state: NativePpo) -> str:
        """Where they are stepped; with the reason, where it is not inside"""
        envs = stepped_by(state.envs)
        try:
            if isinstance(envs, InProcessEnvs):
                self._worlds = EngineWorlds(envs, self._compiled)
                return "inside"
            if isinstance(envs, BatchEnvs):
                self._batch = BatchWorlds(envs, state.buffer, self._compiled, self._learner)
                return "inside, but step by step from Python while somebody watches"
        except Unfit as unfit:
            return f"in Python: {unfit}"
        return "outside, in a batch or in workers of their own"

    def iterate(self, state: NativePpo, progress: Progress) -> Iteration:
        began = perf_counter()
        episodes = self._play(state, progress)
        played = perf_counter()
        stats = self._learn(state, progress)
        return Iteration(
            state.config.ppo.batch_size, stats, episodes, PhaseTimes(played - began, perf_counter() - played)
        )

    def export_env_state(self) -> None:
        if self._worlds is not None:
            self._worlds.export_env_state()

    def invalidate(self) -> None:
        if self._worlds is not None:
            self._worlds.invalidate()

    def _play(self, state: NativePpo, progress: Progress) -> Sequence[EpisodeResult]:
        self._learner.begin(state.action_seed, progress.iteration)
        self._take_memory(state)
        try:
            episodes = self._play_inside(state) if self._worlds is not None else self._play_outside(state)
        except IndexError as error:  # what is read is checked where it is read
            raise RunFailed(
                f"An environment of '{state.config.env}' left its own observation space: {error}."
            ) from error
        if not self._compiled.are_finite(self._floats):
            state.buffer.refuse_non_finite()
        self._give_memory(state)
        scaler = state.tensors.agent.return_scaler if state.config.policy.normalize_returns else None
        if scaler is not None:
            self._scale(state, scaler)
        return episodes

    def _take_memory(self, state: NativePpo) -> None:
        if self._memory:
            self._learner.take_memory(
                [np.ascontiguousarray(state.tensors.memory[name].numpy()) for name in self._memory]
            )

    def _give_memory(self, state: NativePpo) -> None:
        if self._memory:
            after = [np.empty(state.tensors.memory[name].shape, np.float32) for name in self._memory]
            self._learner.give_memory(after)
            state.tensors.memory = {
                name: torch.from_numpy(part) for name, part in zip(self._memory, after, strict=True)
            }

    def _scale(self, state: NativePpo, scaler: ReturnScaler) -> None:
        """`scaler.scale`, without its loop over steps in torch: that takes longer than a small update."""
        tape = state.buffer
        sums = np.empty_like(tape.rewards)
        self._compiled.discounted_sums(
            tape.rewards, tape.starts[1:], state.tensors.reward_sums.numpy(), state.config.ppo.gamma, sums
        )
        scaler.moments.update(torch.from_numpy(sums).flatten(), state.group.stack)
        factor = (scaler.moments.variance + normalise.EPSILON).rsqrt().float()
        torch.from_numpy(tape.rewards).mul_(factor).clamp_(-scaler.clip, scaler.clip)

    def _play_inside(self, state: NativePpo) -> Sequence[EpisodeResult]:
        worlds = self._worlds
        assert worlds is not None, "asked before"
        worlds.take()
        ended = worlds.worlds.play(self._learner)
        worlds.show(state.envs, state.buffer.horizon, len(ended), state.buffer.rewards[-1])
        if not ended:
            return ()
        _, envs, total_rewards, lengths, terminated = zip(*ended, strict=True)
        return EpisodeColumns(envs, total_rewards, lengths, terminated)

    def _play_outside(self, state: NativePpo) -> Sequence[EpisodeResult]:
        """In worlds that are not the engine's: through their door, or step by step from Python."""
        landings = Landings(state.buffer)
        if self._batch is None or is_watched(state.envs):
            self._play_steps(state, landings)
        else:
            self._batch.play(state.envs, landings)
        self._judge(landings.cuts)
        return landings.episodes

    def _play_steps(self, state: NativePpo, landings: Landings) -> None:
        """Everything but `step` of the environments."""
        tape, envs, act = state.buffer, state.envs, self._learner.act
        actions = self.recording["actions"]
        for step in range(tape.horizon):
            act(step)
            result = envs.step(actions[step], tape.rows[step + 1])
            tape.rewards[step] = result.rewards
            landings.note(step, result.endings)

    def _judge(self, cuts: list[tuple[int, Ending]]) -> None:
        vector, codes = self._seen.stacked([ending.final_observation for _, ending in cuts])
        refuse_non_finite_ends(vector, [ending.env_index for _, ending in cuts])
        self._learner.judge(vector, [step for step, _ in cuts], [ending.env_index for _, ending in cuts], codes)

    def _learn(self, state: NativePpo, progress: Progress) -> UpdateStats:
        ppo, rates = state.config.ppo, self._rates
        rates.clip = value_at(ppo.clip, progress.fraction)
        rates.entropy = value_at(ppo.entropy_coefficient, progress.fraction)
        rates.learning_rate = learning_rate = value_at(ppo.learning_rate, progress.fraction)
        norm = self._learner.update(state.shuffler.bit_generator.capsule, rates, state.group.reducer)
        if not math.isfinite(norm):
            raise NonFinite(f"The gradient's norm is {norm}.")
        stats = UpdateStats(**self._learner.stats(), learning_rate=learning_rate)
        if state.config.policy.normalize_observations:
            state.tensors.agent.take_in(state.buffer.observations, state.group.stack)
        state.buffer.rewind()
        return stats


def _rates(compiled: Any, ppo: PpoConfig) -> Any:
    """Those that no schedule changes; the others are set before each update."""
    rates = compiled.UpdateRates()
    rates.gamma, rates.gae_lambda = ppo.gamma, ppo.gae_lambda
    rates.epochs, rates.minibatch_size = ppo.update_epochs, ppo.minibatch_size
    rates.target_divergence = math.inf if ppo.target_kl is None else ppo.target_kl
    rates.clip_value = ppo.clip_value_loss
    rates.value = ppo.value_coefficient
    rates.normalize_advantages = ppo.normalize_advantages
    rates.max_grad_norm = ppo.max_grad_norm
    rates.beta1, rates.beta2 = ppo.optimizer.beta1, ppo.optimizer.beta2
    rates.epsilon = ppo.optimizer.epsilon
    rates.weight_decay = ppo.optimizer.weight_decay
    return rates


def _network(state: NativePpo) -> tuple[LayerPlan, dict[str, NDArray[np.float32]]]:
    """What the network is and where its numbers are: as drafted, or as torch has it."""
    if state.network is not None:
        return state.network.plan, state.network.numbers
    optimizer = state.tensors.optimizer
    plan = network_plan.plan_network(state.tensors.agent, optimizer.flat)
    return plan, {name: part.numpy() for name, part in optimizer.adam_memory().items()}


def _new_recording(state: NativePpo, seen: Seen, head: HeadCode, parts: int) -> dict[str, NDArray[Any]]:
    """The tape's arrays, and what the engine adds to them, each [T, B]."""
    tape = state.buffer
    shape = (tape.horizon, state.envs.count)
    is_single = head is HeadCode.CHOICES and parts == 1 and not hasattr(state.interface.action_space, "counts")
    dtype = np.float32 if head is HeadCode.NORMAL else np.int64
    own: dict[str, NDArray[Any]] = {
        name: np.zeros(shape, np.float32) for name in ("log_probs", "values", "next_values", "advantages", "returns")
    }
    own["actions"] = np.zeros(shape if is_single else (*shape, parts), dtype)
    return {
        **own,
        "observations": seen.vector,
        "rewards": tape.rewards,
        "starts": tape.starts,
        "terminated": tape.terminated,
    }


def _normalizer(state: NativePpo, code: InputCode) -> tuple[NDArray[np.float32], NDArray[np.float32], float] | None:
    if not state.config.policy.normalize_observations:
        return None
    normalizer = state.tensors.agent.observation_normalizer
    assert normalizer is not None, "asked for by the configuration"
    assert code is InputCode.REALS, "the normaliser itself refuses everything else"
    box: Any = normalizer.parts["part_"]
    return box.shift.reshape(-1).numpy(), box.scale.reshape(-1).numpy(), box.clip
