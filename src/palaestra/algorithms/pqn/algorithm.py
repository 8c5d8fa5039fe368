"""What PQN keeps between iterations, whichever engine computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms.counter_rng import RandomStreams
from palaestra.algorithms.exploration import ACTION_STREAM, EPSILON_STREAM, epsilon_at, epsilon_greedy
from palaestra.algorithms.off_policy import uniform_actions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from palaestra.algorithms.base import Progress
    from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig
    from palaestra.envs.vector.in_process import VectorEnvs


class Pqn(ABC):
    """An `Algorithm` (see `palaestra.algorithms.base`) without the computation."""

    name = "pqn"
    engine: str
    replicated = frozenset({"optimizer"})
    replay_buffer = None

    def __init__(self, config: TrainConfig, envs: VectorEnvs, buffer: RolloutBuffer, group: Group) -> None:
        self.config = config
        self.pqn = config.pqn
        self.envs = envs
        self.buffer = buffer
        self.group = group
        self.rng = RandomStreams(config.seed, group.rank)

    @abstractmethod
    def env_state_changed(self) -> None:
        """The environments were reset or restored: discard what the engine knows of them."""

    @abstractmethod
    def capture_optimizer(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore_optimizer(self, saved: Mapping[str, Any]) -> None: ...

    def reset_envs(self, seeds: Sequence[int]) -> None:
        self.envs.reset(list(seeds), self.buffer.rows[0])
        self.buffer.starts[0] = True
        self.env_state_changed()

    def explore(self, progress: Progress, step: int, greedy: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Actions [B] of a step of the iteration that `progress` begins: random with probability epsilon, or greedy."""
        at_once = self.envs.count * self.group.world_size
        index = progress.env_steps // at_once + step  # steps of each environment so far
        epsilon = epsilon_at(self.pqn.exploration, progress.after(step * at_once).fraction)
        actions = uniform_actions(self.envs.interface.action_space, self.rng(ACTION_STREAM, index), self.envs.count)
        return epsilon_greedy(epsilon, self.rng(EPSILON_STREAM, index), actions, greedy)

    def minibatches(self, iteration: int, epoch: int) -> list[NDArray[np.int64]]:
        """Indices of samples (step * B + environment), each in one of the minibatches, in an order of this epoch."""
        sample_count = self.pqn.steps_per_iteration
        keys = self.rng("minibatches", iteration * self.pqn.update_epochs + epoch).bits(sample_count)
        order = np.argsort(keys, kind="stable")
        return np.split(order, sample_count // self.pqn.minibatch_size)

    def clear_buffer(self) -> None:  # noqa: B027  not abstract: this is what it does
        """There is none."""

    def capture(self) -> dict[str, Any]:
        return {"engine": self.engine, **self.capture_optimizer(), "rollout_buffer": self.buffer.capture()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.restore_optimizer(saved)
        self.buffer.restore(saved["rollout_buffer"])
        self.env_state_changed()
