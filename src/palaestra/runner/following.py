"""What the leader keeps on disk, the other ranks keep to themselves: the same account, written only to a log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from palaestra.core.run import RunRecord, RunState
from palaestra.runner.captures import gather_captures
from palaestra.runner.session import RunSession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.core.clock import Clock
    from palaestra.runs.directory import RunDirectory
    from palaestra.training.state import TrainingState

logger = logging.getLogger(__name__)


class LogJournal:
    """Events go to this rank's log file."""

    def record(self, event: str, *, level: str | None = None, **data: Any) -> None:
        del level
        logger.info("%s %s", event, data)


class FollowerSession(RunSession):
    """Moves through the same states as the leader's session."""

    def __init__(self, directory: RunDirectory, total_steps: int, clock: Clock) -> None:
        record = RunRecord(
            id=directory.id,
            name=directory.id,
            kind="native",
            recipe="",
            state=RunState.RUNNING,
            created_at=clock.now(),
            total_steps=total_steps,
        )
        self._keep(directory, clock, LogJournal(), record)

    def _write(self, *, durable: bool = False) -> None:
        """The leader does."""


class FollowerSaver:
    """Gives the leader what belongs to this rank, whenever the leader saves."""

    should_retry = False
    average_return: float | None = None

    def __init__(self) -> None:
        self.saved_epoch = -1

    @property
    def last_saved(self) -> str:
        return f"epoch {self.saved_epoch}" if self.saved_epoch >= 0 else "none"

    def count(self, returns: Sequence[float]) -> None:
        """The leader does, for all ranks."""

    def restore(self, saved: dict[str, Any], epoch: int) -> None:
        del saved
        self.saved_epoch = epoch

    def settle(self, *, wait: bool = True) -> None:
        """Nothing is ever under way here."""

    def finish(self) -> None:
        """Nothing is ever under way here."""

    def save(self, state: TrainingState, *, meanwhile: bool = False) -> None:
        del meanwhile
        gather_captures(state)
        self.saved_epoch = state.iteration
