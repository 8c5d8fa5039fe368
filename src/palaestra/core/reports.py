"""What the trainer hands up after every iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.core.episodes import EpisodeResult


class UpdateStats(Protocol):
    """Figures of the updates of one iteration: a frozen dataclass of numbers, one class for each kind of algorithm."""

    def metrics(self) -> dict[str, float]:
        """By the names of CleanRL's TensorBoard tags; what did not happen is absent."""
        ...


@dataclass(frozen=True)
class PpoStats:
    """Means over the minibatches of one update."""

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

    def metrics(self) -> dict[str, float]:
        return {
            "charts/learning_rate": self.learning_rate,
            "losses/policy_loss": self.policy_loss,
            "losses/value_loss": self.value_loss,
            "losses/entropy": self.entropy,
            "losses/old_approx_kl": self.old_approx_kl,
            "losses/approx_kl": self.approx_kl,
            "losses/clipfrac": self.clipfrac,
            "losses/explained_variance": self.explained_variance,
            "losses/grad_norm": self.grad_norm,
        }


@dataclass(frozen=True)
class UpdateFigures:
    """Means over the updates of one iteration, by metric name."""

    figures: dict[str, float] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        return self.figures


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
