"""A plan is a list of seeds; a report is what happened on each of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palaestra.contracts.episodes import EpisodeResult


@dataclass(frozen=True)
class EvaluationPlan:
    """Who plays what. Results depend on nothing else, least of all on who carries it out."""

    checkpoint: str  # "RUN_ID:EPOCH" or a path, for tracing
    env_id: str
    env_kwargs: dict[str, object]
    seeds: tuple[int, ...]
    deterministic: bool = True
    suite: str = "default"
    max_episode_steps: int | None = None  # None: the environment's own time limit


@dataclass(frozen=True)
class EvaluationReport:
    plan: EvaluationPlan
    episodes: tuple[EpisodeResult, ...]
    seconds: float
    complete: bool = True

    @property
    def returns(self) -> list[float]:
        return [episode.total_reward for episode in self.episodes]

    @property
    def mean(self) -> float:
        return sum(self.returns) / len(self.returns)

    @property
    def std(self) -> float:
        """Standard deviation of the population of episodes played."""
        mean = self.mean
        return sqrt(sum((value - mean) ** 2 for value in self.returns) / len(self.returns))
