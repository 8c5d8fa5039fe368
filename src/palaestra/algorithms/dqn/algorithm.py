"""What DQN keeps between iterations, whichever engine computes it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from palaestra.algorithms.buffers.sum_tree import Priorities
from palaestra.algorithms.exploration import EPSILON_STREAM, epsilon_at, epsilon_greedy
from palaestra.algorithms.off_policy import OffPolicy, multiples_between

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from palaestra.algorithms.base import Progress
    from palaestra.envs.vector.in_process import Arrays, Ending


class Dqn(OffPolicy):
    name = "dqn"
    replicated = frozenset({"optimizer", "target"})
    starts_randomly = False  # epsilon decides from the first step on, as in CleanRL

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        config, buffer = self.config.dqn, self.buffer
        self.dqn = config
        self.priorities = (
            Priorities(config.prioritized, buffer.rows, buffer.env_count) if config.prioritized.enabled else None
        )

    @abstractmethod
    def greedy_actions(self, observations: Arrays) -> NDArray[np.int64]:
        """[B] of the largest value."""

    @abstractmethod
    def update_target(self, tau: float) -> None: ...

    @abstractmethod
    def capture_networks(self) -> dict[str, Any]:
        """The optimizer and the target."""

    @abstractmethod
    def restore_networks(self, saved: Mapping[str, Any]) -> None: ...

    def explore(self, observations: Arrays, now: Progress) -> NDArray[Any]:
        return epsilon_greedy(
            self.epsilon(now),
            self.rng(EPSILON_STREAM, self.row_index(now)),
            self.random_actions(now),
            lambda: self.greedy_actions(observations),
        )

    def epsilon(self, now: Progress) -> float:
        return epsilon_at(self.dqn.exploration, now.fraction)

    def exploration_metrics(self, now: Progress) -> dict[str, float]:
        return {"charts/epsilon": self.epsilon(now)}

    def store(self, actions: NDArray[Any], rewards: Any, endings: Sequence[Ending]) -> None:
        super().store(actions, rewards, endings)
        if self.priorities is not None:
            buffer = self.buffer
            self.priorities.add_row(
                (buffer.position - 1) % buffer.rows, (buffer.position - buffer.capacity - 1) % buffer.rows
            )

    def clear_buffer(self) -> None:
        super().clear_buffer()
        if self.priorities is not None:
            self.priorities.clear()

    def beta(self, now: Progress) -> float:
        """Of prioritised replay: the correction is complete in the end."""
        start = self.dqn.prioritized.beta
        return start + (1 - start) * min(now.fraction, 1.0)

    def after_steps(self, before: Progress, now: Progress) -> None:
        for _ in range(multiples_between(self.dqn.target_interval, before.env_steps, now.env_steps)):
            self.update_target(self.dqn.tau)

    def capture_learning(self) -> dict[str, Any]:
        priorities = None if self.priorities is None else self.priorities.capture()
        return {**self.capture_networks(), "priorities": priorities}

    def restore_learning(self, saved: Mapping[str, Any]) -> None:
        self.restore_networks(saved)
        if self.priorities is not None:
            self.priorities.restore(saved["priorities"])
