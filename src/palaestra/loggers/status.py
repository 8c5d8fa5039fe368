"""What the person who watches is told about a run, gathered from the samples as they come."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from palaestra.core.episodes import episode_lengths, episode_returns
from palaestra.loggers.samples import (
    EPSILON,
    EVALUATED_RETURN,
    LEARNING_RATE,
    REPLAY_TRANSITIONS,
    STEPS_PER_SECOND,
    TASKS_COMPLETED,
    TASKS_PER_SECOND,
    task_metric,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from palaestra.core.clock import Clock
    from palaestra.core.metrics_logger import Sample

EPISODES_AVERAGED = 100
SAMPLES_TIMED = 100
PHASES = ("rollout", "learn", "other")


@dataclass(frozen=True)
class RunHeader:
    name: str
    recipe: str
    total_steps: int
    directory: Path
    algorithm: str = "ppo"


# By algorithm: the figures of its updates in the table, as (label, metric).
FIGURES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "ppo": (
            ("policy loss", "losses/policy_loss"),
            ("value loss", "losses/value_loss"),
            ("entropy", "losses/entropy"),
            ("approx KL", "losses/approx_kl"),
            ("learning rate", LEARNING_RATE),
        ),
        "pqn": (
            ("TD loss", "losses/td_loss"),
            ("Q value", "losses/q_values"),
            ("epsilon", EPSILON),
            ("grad norm", "losses/grad_norm"),
            ("learning rate", LEARNING_RATE),
        ),
        "dqn": (
            ("TD loss", "losses/td_loss"),
            ("Q value", "losses/q_values"),
            ("epsilon", EPSILON),
            ("replay buffer", REPLAY_TRANSITIONS),
            ("learning rate", LEARNING_RATE),
        ),
        "sac": (
            ("actor loss", "losses/actor_loss"),
            ("critic loss", "losses/qf_loss"),
            ("Q value", "losses/qf1_values"),
            ("temperature", "losses/alpha"),
            ("replay buffer", REPLAY_TRANSITIONS),
        ),
        "td3": (
            ("actor loss", "losses/actor_loss"),
            ("critic loss", "losses/qf_loss"),
            ("Q value", "losses/qf1_values"),
            ("replay buffer", REPLAY_TRANSITIONS),
            ("learning rate", LEARNING_RATE),
        ),
    }
)
# By algorithm: those of the one-line status.
LINE_FIGURES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "ppo": (("kl", "losses/approx_kl"),),
        "pqn": (("q", "losses/q_values"), ("epsilon", EPSILON)),
        "dqn": (("q", "losses/q_values"), ("epsilon", EPSILON)),
        "sac": (("q", "losses/qf1_values"), ("temperature", "losses/alpha")),
        "td3": (("q", "losses/qf1_values"),),
    }
)


@dataclass(frozen=True)
class Figure:
    """One figure of the updates."""

    label: str
    value: float | None
    is_count: bool = False


@dataclass(frozen=True)
class TaskStatus:
    """One task of a curriculum."""

    name: str
    share: float  # of the next draws, in 0..1
    last_return: float | None  # mean of the last iteration in which it was played


@dataclass(frozen=True)
class Status:
    """One moment. None: not known yet, which is never shown as 0."""

    header: RunHeader
    step: int = 0
    steps_per_second: float | None = None
    episode_count: int = 0  # of this session
    last_return: float | None = None  # mean over the last episodes, at most 100
    last_length: float | None = None
    phase_shares: tuple[tuple[str, float], ...] = ()  # name, share of wall time in 0..1
    figures: tuple[Figure, ...] = ()  # of the updates, those that fit the algorithm
    line_figures: tuple[Figure, ...] = ()
    evaluation: tuple[int, float] | None = None  # step, mean return
    checkpoint: tuple[int, int] | None = None  # epoch, step
    tasks_completed: int | None = None  # None: there is no curriculum
    tasks_per_second: float | None = None
    tasks: tuple[TaskStatus, ...] = ()

    @property
    def share_done(self) -> float:
        return min(1.0, self.step / self.header.total_steps)

    @property
    def seconds_left(self) -> float | None:
        if not self.steps_per_second:
            return None
        return max(0, self.header.total_steps - self.step) / self.steps_per_second


class StatusTracker:
    """Takes samples cheaply in every iteration and builds a `Status` on request, a few times a second."""

    def __init__(self, header: RunHeader) -> None:
        self._header = header
        self._step = 0
        self._latest: dict[str, float] = {}
        self._episode_count = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=EPISODES_AVERAGED)  # return, length
        self._phase_seconds: deque[tuple[float, ...]] = deque(maxlen=SAMPLES_TIMED)
        self._evaluation: tuple[int, float] | None = None
        self.checkpoint: tuple[int, int] | None = None

    def take(self, sample: Sample) -> None:
        if EVALUATED_RETURN in sample.metrics:
            self._evaluation = (sample.step, sample.metrics[EVALUATED_RETURN])
        self._step = max(self._step, sample.step)
        self._latest.update(sample.metrics)
        self._latest.update(sample.timings)
        self._episode_count += len(sample.episodes)
        self._recent.extend(zip(episode_returns(sample.episodes), episode_lengths(sample.episodes), strict=True))
        if "time/rollout" in sample.timings:
            self._phase_seconds.append(tuple(sample.timings.get(f"time/{phase}", 0.0) for phase in PHASES))

    def drop_after(self, step: int) -> None:
        """The run continues from `step`, even if it had been further."""
        self._step = step

    def status(self) -> Status:
        latest = self._latest.get
        return Status(
            header=self._header,
            step=self._step,
            steps_per_second=latest(STEPS_PER_SECOND),
            episode_count=self._episode_count,
            last_return=_mean([total_reward for total_reward, _ in self._recent]),
            last_length=_mean([length for _, length in self._recent]),
            phase_shares=self._phase_shares(),
            figures=self._figures(FIGURES),
            line_figures=self._figures(LINE_FIGURES),
            evaluation=self._evaluation,
            checkpoint=self.checkpoint,
            tasks_completed=int(self._latest[TASKS_COMPLETED]) if TASKS_COMPLETED in self._latest else None,
            tasks_per_second=latest(TASKS_PER_SECOND),
            tasks=self._tasks(),
        )

    def _figures(self, table: Mapping[str, tuple[tuple[str, str], ...]]) -> tuple[Figure, ...]:
        rows = table.get(self._header.algorithm, ())
        return tuple(Figure(label, self._latest.get(name), name == REPLAY_TRANSITIONS) for label, name in rows)

    def _tasks(self) -> tuple[TaskStatus, ...]:
        shares = {task: value for name, value in self._latest.items() if (task := task_metric(name, "share"))}
        return tuple(
            TaskStatus(task, share, self._latest.get(f"tasks/{task}/return")) for task, share in shares.items()
        )

    def _phase_shares(self) -> tuple[tuple[str, float], ...]:
        sums = [sum(seconds) for seconds in zip(*self._phase_seconds, strict=True)]
        total = sum(sums)
        return tuple((phase, seconds / total) for phase, seconds in zip(PHASES, sums, strict=False)) if total else ()


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


class StepRate:
    """The rate over the last `window_seconds`, or since `first_step` while the run is younger than that."""

    def __init__(self, clock: Clock, first_step: int, window_seconds: float = 10.0) -> None:
        self._clock = clock
        self._window_seconds = window_seconds
        self._marks: deque[tuple[float, int]] = deque([(clock.monotonic(), first_step)])

    def update(self, step: int) -> float:
        """Steps per second; 0 as long as no time has passed."""
        now = self._clock.monotonic()
        self._marks.append((now, step))
        while len(self._marks) > 2 and now - self._marks[0][0] > self._window_seconds:
            self._marks.popleft()
        then, earlier_step = self._marks[0]
        return (step - earlier_step) / (now - then) if now > then else 0.0
