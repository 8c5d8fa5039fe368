"""Which task each environment plays next: one place, one generator, for all environments of this process.

`weighted` draws in proportion to the weights. `learning_progress` keeps a fast and a slow running mean of each task's
return and draws in proportion to weight * |fast - slow|: a task whose return moves, up or down, is played more than one
that is solved or out of reach. The share `floor` of all episodes is drawn by weight alone, so that no task is
forgotten; as long as a task was never played, all episodes are.

Results count when an iteration is over, for all processes of the group together: every process has the same means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.algorithms import serialization
from palaestra.core.lazy_import import lazy_import
from palaestra.envs.tasks import TASK

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from palaestra.algorithms.group import Group
    from palaestra.config.env import CurriculumConfig
else:
    torch = lazy_import("torch")


class Curriculum:
    """A `palaestra.envs.tasks.TaskSource` that learns from what came of the tasks."""

    def __init__(self, config: CurriculumConfig, env_count: int, seed: int) -> None:
        self._config = config
        self._tasks = config.tasks
        self.names = tuple(config.tasks)
        weights = np.array([task.weight for task in config.tasks.values()])
        self._by_weight: NDArray[np.float64] = weights / weights.sum()
        self._generator = np.random.default_rng(seed)
        self._playing = [0] * env_count  # index of each environment's task
        self._results = torch.zeros(
            len(self.names), 2, dtype=torch.float64
        )  # episodes, sum of returns; not counted yet
        self._fast = np.full(len(self.names), np.nan)  # NaN: never played
        self._slow = np.full(len(self.names), np.nan)
        self.completed = 0  # episodes, over all processes

    def next_options(self, env_index: int) -> dict[str, Any]:
        drawn = int(self._generator.choice(len(self.names), p=self.shares()))
        self._playing[env_index] = drawn
        name = self.names[drawn]
        return {TASK: name, **(self._tasks[name].kwargs if self._config.given_by == "options" else {})}

    def ended(self, env_index: int, total_reward: float) -> None:
        self._results[self._playing[env_index]] += torch.tensor([1.0, total_reward], dtype=torch.float64)

    def shares(self) -> NDArray[np.float64]:
        """[tasks] probabilities of the next draw."""
        if self._config.kind == "weighted" or np.isnan(self._fast).any():
            return self._by_weight
        progress = self._by_weight * np.abs(self._fast - self._slow)
        if not progress.any():
            return self._by_weight
        floor = self._config.floor
        mixed: NDArray[np.float64] = floor * self._by_weight + (1 - floor) * progress / progress.sum()
        return mixed

    def count_results(self, group: Group) -> dict[str, float]:
        """Take in what ended since the last time, over all processes. Gives the metrics of this iteration."""
        results = group.sum_(self._results.clone()).numpy()
        self._results.zero_()
        metrics: dict[str, float] = {}
        for index, (name, (count, total)) in enumerate(zip(self.names, results, strict=True)):
            if count:
                mean = float(total / count)
                metrics[f"tasks/{name}/return"] = mean
                self._fast[index] = updated_mean(self._fast[index], mean, self._config.fast_rate, count)
                self._slow[index] = updated_mean(self._slow[index], mean, self._config.slow_rate, count)
        self.completed += int(results[:, 0].sum())
        shares = {f"tasks/{name}/share": float(share) for name, share in zip(self.names, self.shares(), strict=True)}
        return {**metrics, **shares, "tasks/completed": float(self.completed)}

    def capture(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "generator": serialization.generator_state(self._generator),
            "playing": list(self._playing),
            "results": self._results.clone(),
            "fast": self._fast.tolist(),
            "slow": self._slow.tolist(),
            "completed": self.completed,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        if tuple(saved["names"]) != self.names:
            raise ValueError(f"its tasks are {saved['names']}, this curriculum's are {list(self.names)}")
        serialization.set_generator_state(self._generator, saved["generator"])
        self._playing = list(saved["playing"])
        self._results = saved["results"].clone()
        self._fast, self._slow = np.array(saved["fast"]), np.array(saved["slow"])
        self.completed = int(saved["completed"])


def updated_mean(mean: float, value: float, rate: float, count: float) -> float:
    """A running mean after `count` results of the same `value`; the first result is the mean."""
    return value if np.isnan(mean) else value + (mean - value) * (1 - rate) ** count
