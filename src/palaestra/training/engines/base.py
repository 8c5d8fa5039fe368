"""What an engine is: one call per iteration, and nothing that anybody else has to know of it.

Weights, optimiser, statistics, tape and environments are the state's, whoever works with them. So a run can be
continued by another engine than it began with; a checkpoint says which one that was, because only the same one goes on
bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.reports import PhaseTimes, UpdateStats
    from palaestra.training.state import TrainingState


TORCH_NAME = "torch"  # of the engine that there has always been


@dataclass(frozen=True)
class Iteration:
    """One rollout and one update."""

    update: UpdateStats
    episodes: Sequence[EpisodeResult]  # in the order in which they ended
    times: PhaseTimes
    metrics: dict[str, float] = field(default_factory=dict)


class Engine(Protocol):
    name: str
    about: str  # for the log: what it is and why it was taken

    def iterate(self, state: TrainingState) -> Iteration:
        """Play one tape full and learn from it. Counting iterations is the caller's."""
        ...

    def hand_back(self, state: TrainingState) -> None:
        """Put what the engine kept to itself where everybody looks for it: before a capture or a picture."""
        ...

    def forget(self) -> None:
        """The state was changed from outside: take nothing over from before."""
        ...
