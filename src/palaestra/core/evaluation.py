"""A plan is a list of seeds; a report is what happened on each of them; a suite is several plans for one policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palaestra.core.episodes import EpisodeResult

DEFAULT_MAX_STEPS = 10_000  # of one evaluated episode, where neither the plan nor the environment has a limit
DEFAULT = "default"  # the simulation in the environment that a checkpoint was trained in; also its category and suite


class Stopped(Exception):
    """Somebody asked to stop; the batch under way is given up and leaves nothing."""


@dataclass(frozen=True)
class EvaluationPlan:
    """Who plays what. Results depend on nothing else, least of all on who carries it out."""

    checkpoint: str  # "RUN_ID:EPOCH" or a path, for tracing
    env_id: str
    env_kwargs: dict[str, object]
    seeds: tuple[int, ...]
    deterministic: bool = True
    suite: str = DEFAULT
    max_episode_steps: int | None = None  # None: the environment's own time limit
    simulation: str = DEFAULT
    category: str = DEFAULT
    max_steps: int | None = None  # an episode stops here; None: the environment's time limit, else DEFAULT_MAX_STEPS


@dataclass(frozen=True)
class EvaluationReport:
    """One simulation, played."""

    plan: EvaluationPlan
    episodes: tuple[EpisodeResult, ...]  # in the order of the plan's seeds
    seconds: float
    complete: bool = True

    @property
    def returns(self) -> list[float]:
        return [episode.total_reward for episode in self.episodes]

    @property
    def mean(self) -> float:
        return _mean(self.returns)

    @property
    def std(self) -> float:
        """Standard deviation of the population of episodes played."""
        return _deviation(self.returns)


@dataclass(frozen=True)
class SuiteReport:
    """All simulations of a suite, played once by one checkpoint; at least one."""

    reports: tuple[EvaluationReport, ...]
    seconds: float  # of wall time, from the first step to the last
    missing: tuple[str, ...] = ()  # simulations of which no episode was played in time
    code_differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by host whose code was accepted

    @property
    def checkpoint(self) -> str:
        return self.reports[0].plan.checkpoint

    @property
    def suite(self) -> str:
        return self.reports[0].plan.suite

    @property
    def mean(self) -> float:
        """The score: the mean over simulations of their mean return, so that none weighs more by being played more."""
        return _mean([report.mean for report in self.reports])

    @property
    def episodes(self) -> tuple[EpisodeResult, ...]:
        return tuple(episode for report in self.reports for episode in report.episodes)

    @property
    def returns(self) -> list[float]:
        return [episode.total_reward for episode in self.episodes]

    @property
    def std(self) -> float:
        """Of all episodes, whatever simulation they are of."""
        return _deviation(self.returns)

    @property
    def complete(self) -> bool:
        return not self.missing and all(report.complete for report in self.reports)

    def __getitem__(self, simulation: str) -> EvaluationReport:
        return {report.plan.simulation: report for report in self.reports}[simulation]


@dataclass(frozen=True)
class EvaluationRequest:
    """Everything that somebody elsewhere needs to judge a checkpoint, but for its bytes; nothing in it is an object."""

    run: str  # id
    run_name: str
    epoch: int
    agent_step: int
    weights: str  # sha256 of the checkpoint's weights
    plans: tuple[EvaluationPlan, ...]  # one for each simulation
    versions: dict[str, str] = field(default_factory=dict)  # of who asks
    git_commit: str = ""


class RemoteEvaluator(Protocol):
    """Judges checkpoints somewhere else. No call waits for it; what it cannot do is its own affair and its own line.

    The service `remote_evaluator` of an executor returns one, or raises.
    """

    def submit(self, request: EvaluationRequest, sidecar: Path) -> None:
        """Take it; the checkpoint is held until the request is answered."""
        ...

    def collect(self) -> list[tuple[EvaluationRequest, SuiteReport | str]]:
        """What was answered since the last call: a report, or why there is none."""
        ...

    def close(self) -> None:
        """Give up what is under way."""
        ...


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _deviation(values: list[float]) -> float:
    mean = _mean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values))
