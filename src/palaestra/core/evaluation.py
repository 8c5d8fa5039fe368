"""Plans, reports and requests of evaluations. A plan is a list of seeds; a suite is several plans for one policy."""

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
    """The evaluation was stopped; nothing of the current batch is recorded."""


@dataclass(frozen=True)
class EvaluationPlan:
    """One simulation of a checkpoint. Results depend on nothing else, and not on the evaluator."""

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
    """The episodes of one plan."""

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
    """The reports of all simulations of a suite, for one checkpoint; at least one report."""

    reports: tuple[EvaluationReport, ...]
    seconds: float  # of wall time
    missing: tuple[str, ...] = ()  # simulations without an episode
    # By host: what differs in its code, which was accepted.
    code_differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str:
        return self.reports[0].plan.checkpoint

    @property
    def suite(self) -> str:
        return self.reports[0].plan.suite

    @property
    def mean(self) -> float:
        """The score: the mean over simulations of their mean return, so that all have the same weight."""
        return _mean([report.mean for report in self.reports])

    @property
    def episodes(self) -> tuple[EpisodeResult, ...]:
        return tuple(episode for report in self.reports for episode in report.episodes)

    @property
    def returns(self) -> list[float]:
        return [episode.total_reward for episode in self.episodes]

    @property
    def std(self) -> float:
        """Standard deviation over the episodes of all simulations."""
        return _deviation(self.returns)

    @property
    def complete(self) -> bool:
        return not self.missing and all(report.complete for report in self.reports)

    def __getitem__(self, simulation: str) -> EvaluationReport:
        return {report.plan.simulation: report for report in self.reports}[simulation]


@dataclass(frozen=True)
class EvaluationRequest:
    """Everything that another machine needs to evaluate a checkpoint, except for its bytes; plain types only."""

    run: str  # id
    run_name: str
    epoch: int
    agent_step: int
    weights: str  # sha256 of the checkpoint's weights
    plans: tuple[EvaluationPlan, ...]  # one for each simulation
    versions: dict[str, str] = field(default_factory=dict)  # of the sender
    git_commit: str = ""


class RemoteEvaluator(Protocol):
    """Evaluates checkpoints on other machines. No method blocks.

    The service `remote_evaluator` of an executor returns one, or raises.
    """

    def submit(self, request: EvaluationRequest, sidecar: Path) -> None:
        """Starts an evaluation; retention keeps the checkpoint until the result is collected."""
        ...

    def collect(self) -> list[tuple[EvaluationRequest, SuiteReport | str]]:
        """The results since the last call: a report, or an error message."""
        ...

    def close(self) -> None:
        """Gives up the open requests."""
        ...


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _deviation(values: list[float]) -> float:
    mean = _mean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values))
