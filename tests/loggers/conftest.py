from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from palaestra.core.episodes import EpisodeResult
from palaestra.core.reports import IterationReport, PhaseTimes, PpoStats
from palaestra.loggers.samples import sample_of
from palaestra.loggers.status import RunHeader
from palaestra.runs.directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.core.metrics_logger import Sample


class HandClock:
    """Time that moves only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds


def make_episode(total_reward: float, env_step: int, length: int = 20) -> EpisodeResult:
    return EpisodeResult(seed=None, total_reward=total_reward, length=length, terminated=True, env_step=env_step)


def make_report(iteration: int, episodes: tuple[EpisodeResult, ...] = ()) -> IterationReport:
    return IterationReport(
        iteration=iteration,
        env_steps=iteration * 512,
        update=PpoStats(
            policy_loss=-0.0123,
            value_loss=12.5,
            entropy=0.625,
            old_approx_kl=0.001,
            approx_kl=0.003,
            clipfrac=0.25,
            explained_variance=0.875,
            grad_norm=0.5,
            learning_rate=2.5e-4,
            minibatches=16,
        ),
        episodes=episodes,
        times=PhaseTimes(rollout=0.6, learn=0.3, other=0.1),
    )


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def samples() -> list[Sample]:
    """Ten iterations of 512 steps, two episodes in each; the return of an episode is the step at which it ended."""
    return [
        sample_of(
            make_report(
                iteration,
                (
                    make_episode(iteration * 512.0 - 300, iteration * 512 - 300),
                    make_episode(iteration * 512.0 - 4, iteration * 512 - 4),
                ),
            ),
            steps_per_second=1000.0,
            at=1_700_000_000.0 + iteration,
        )
        for iteration in range(1, 11)
    ]


@pytest.fixture
def header(tmp_path: Path) -> RunHeader:
    return RunHeader(name="first", recipe="cartpole", total_steps=5120, directory=tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "01JCW3X7Z9Q8R5T2V4B6N8M0KH").make()


@pytest.fixture
def report_maker():
    return make_report


@pytest.fixture
def episode_maker():
    return make_episode
