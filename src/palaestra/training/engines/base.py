"""The interface of a training engine: one call per iteration.

Weights, optimizer, statistics, rollout buffer and environments belong to the training state, so a run can continue with
another engine than it started with. The checkpoint records the engine: only the same one continues bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.reports import PhaseTimes, UpdateStats
    from palaestra.training.state import TrainingState


TORCH_NAME = "torch"


@dataclass(frozen=True)
class Iteration:
    """One rollout and one update."""

    update: UpdateStats
    episodes: Sequence[EpisodeResult]  # in the order in which they ended
    times: PhaseTimes
    metrics: dict[str, float] = field(default_factory=dict)


class Engine(Protocol):
    name: str
    description: str  # for the log: what the engine is and why it was chosen

    def iterate(self, state: TrainingState) -> Iteration:
        """Collect one rollout and update on it. The caller counts iterations."""
        ...

    def export_env_state(self) -> None:
        """Copy the state of environments that the engine steps itself back to Python: before a capture or a frame."""
        ...

    def invalidate(self) -> None:
        """Discard cached state: the training state was changed from outside."""
        ...
