"""What the trainer hands up after every iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.core.episodes import EpisodeResult


@dataclass(frozen=True)
class UpdateStats:
    """Means over the minibatches of one update; names follow CleanRL's TensorBoard tags."""

    policy_loss: float
    value_loss: float
    entropy: float
    old_approx_kl: float
    approx_kl: float
    clipfrac: float
    explained_variance: float
    grad_norm: float
    learning_rate: float
    minibatches: int


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds of wall time, for the status table. Never part of what must be reproducible."""

    rollout: float = 0.0
    learn: float = 0.0
    other: float = 0.0
    waiting: float = 0.0  # of rollout and learn, what was spent waiting for other ranks


@dataclass(frozen=True)
class IterationReport:
    iteration: int  # counted from 1; also the epoch of a checkpoint made now
    env_steps: int  # over all ranks
    update: UpdateStats
    episodes: Sequence[EpisodeResult]  # those that ended in this iteration, in order
    times: PhaseTimes
    metrics: dict[str, float] = field(default_factory=dict)  # further deterministic scalars, by metric name
    rank_seconds: tuple[float, ...] = ()  # own work of every rank, waiting left out; the leader's, of several
