"""Checkpoints of a training run: when they are due, what is in them, and what happens when the disk says no."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.files import SaveFailed
from palaestra.checkpoints.log import EPISODES_METRIC
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.lazy_import import lazy_import
from palaestra.core.spaces import encode_interface
from palaestra.runner.trainer_state import OTHERS, gather_captures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.checkpoints import background
    from palaestra.checkpoints.manager import CheckpointManager
    from palaestra.core.clock import Clock
    from palaestra.loggers.fanout import LoggerFanout
    from palaestra.runner.session import RunSession
    from palaestra.training.state import TrainingState
else:
    background = lazy_import("palaestra.checkpoints.background")

logger = logging.getLogger(__name__)

RECENT_EPISODES = 100
RETRY_SECONDS = 5.0
DEGRADED_AFTER = 3


class Saver:
    """A save that fails costs a warning and is tried again; the checkpoints that exist stay as they are."""

    def __init__(
        self, manager: CheckpointManager, session: RunSession, loggers: LoggerFanout, clock: Clock, git_commit: str
    ) -> None:
        self._manager = manager
        self._session = session
        self._loggers = loggers
        self._clock = clock
        self._git_commit = git_commit
        self._failures = 0
        self._failed_at = float("-inf")
        self._thread: background.BackgroundSaver | None = None
        self._begun: tuple[Checkpoint, float] | None = None  # under way in that thread, and since when
        self.recent_returns: deque[float] = deque(maxlen=RECENT_EPISODES)
        self.episode_count: int | None = 0  # ended so far, in all sessions; None: an earlier one did not count
        self.seconds_before = 0.0  # of training, in earlier sessions
        self.saved_epoch = -1

    @property
    def should_retry(self) -> bool:
        return self._failures > 0 and self._clock.monotonic() - self._failed_at >= RETRY_SECONDS

    @property
    def last_saved(self) -> str:
        return f"epoch {self.saved_epoch}" if self.saved_epoch >= 0 else "none"

    @property
    def average_return(self) -> float | None:
        return sum(self.recent_returns) / len(self.recent_returns) if self.recent_returns else None

    def count(self, returns: Sequence[float]) -> None:
        """Of the episodes that ended in an iteration."""
        self.recent_returns.extend(returns)
        if self.episode_count is not None:
            self.episode_count += len(returns)

    def capture(self) -> dict[str, Any]:
        return {
            "recent_returns": list(self.recent_returns),
            "episode_count": self.episode_count,
            "seconds": self.seconds_before + self._session.seconds,
            "loggers": self._loggers.capture(),
        }

    def restore(self, saved: dict[str, Any], epoch: int) -> None:
        self.recent_returns.extend(saved["recent_returns"])
        self.episode_count = saved.get("episode_count")  # states from before there was a count lack it
        self.seconds_before = float(saved["seconds"])
        self.saved_epoch = epoch
        # "sinks" in states of 0.1; older ones have neither
        self._loggers.restore(saved.get("loggers", saved.get("sinks", {})))

    def save(self, state: TrainingState, *, meanwhile: bool = False) -> Checkpoint | None:
        """The checkpoint of this moment, durable; None when it could not be written. No metric on disk is behind it.

        `meanwhile`: its files are written by a thread while training goes on; None, and `settle` tells what came of it.
        One save at a time: the one before is waited for, so that checkpoints appear in their order.
        """
        self.settle()
        self._session.check_directory()  # saving would make it anew
        if meanwhile:
            self._begin(state)
            return None
        self._loggers.flush()
        began, described = self._clock.monotonic(), self._describe(state)
        trainer_state = self._trainer_state(state)
        try:
            saved = self._manager.save(state.algorithm.weights(), described, trainer_state)
        except SaveFailed as error:
            self._count_failure(error, described)
            return None
        self._tell(saved, began)
        return saved

    def _begin(self, state: TrainingState) -> None:
        make_metrics_durable = self._loggers.begin_flush()
        began, described = self._clock.monotonic(), self._describe(state)
        self._thread = self._thread or background.BackgroundSaver(self._manager)
        self._thread.save(state.algorithm.weights(), described, self._trainer_state(state), make_metrics_durable)
        self._begun = described, began

    def _trainer_state(self, state: TrainingState) -> dict[str, Any]:
        others = gather_captures(state)  # first: from then on all ranks have torch, or none
        return {"training": state.capture(), OTHERS: others, "session": self.capture()}

    def settle(self, *, wait: bool = True) -> None:
        """Tell what became of a save that is under way; without `wait` only if that is known by now."""
        if self._begun is None or self._thread is None or not (wait or self._thread.is_done):
            return
        self._thread.join()  # if a signal ends this, the save is still there to be waited for
        (described, began), self._begun = self._begun, None
        try:
            saved = self._thread.wait()
        except SaveFailed as error:
            self._count_failure(error, described)
            return
        assert saved is not None, "one was begun"
        self._tell(saved, began)

    def finish(self) -> None:
        """Nothing is under way behind this; what was is told."""
        self.settle()
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _tell(self, saved: Checkpoint, began: float) -> None:
        self._failures = 0
        self.saved_epoch = saved.epoch
        self._session.degraded("")
        size = sum(int(file["size"]) for file in saved.files.values())
        self._session.journal.record(
            "checkpoint.saved",
            epoch=saved.epoch,
            step=saved.agent_step,
            file=saved.path.name if saved.path else "",
            bytes=size,
            seconds=round(self._clock.monotonic() - began, 4),
        )
        self._loggers.checkpoint_saved(saved)

    def _count_failure(self, error: SaveFailed, described: Checkpoint) -> None:
        self._failures += 1
        self._failed_at = self._clock.monotonic()
        logger.warning("Checkpoint %d was not written: %s Training goes on.", described.epoch, error)
        self._session.journal.record(
            "checkpoint.failed",
            epoch=described.epoch,
            step=described.agent_step,
            error=str(error),
            failures=self._failures,
        )
        if self._failures >= DEGRADED_AFTER:
            self._session.degraded(f"degraded: {self._failures} checkpoints in a row could not be written: {error}")

    def _describe(self, state: TrainingState) -> Checkpoint:
        record = self._session.record
        return Checkpoint(
            epoch=state.iteration,
            agent_step=state.env_steps,
            total_time=self.seconds_before + self._session.seconds,
            run=record.id,
            run_name=record.name,
            saved_at=self._clock.now(),
            policy=state.config.policy.model_dump(mode="json"),
            env=state.config.env.model_dump(mode="json"),
            interface=encode_interface(state.algorithm.interface),
            avg_reward=self.average_return,
            seed=state.config.seed,
            metrics={} if self.episode_count is None else {EPISODES_METRIC: float(self.episode_count)},
            git_commit=self._git_commit,
        )


class FollowerSaver:
    """Sends this rank's part of the state to the leader whenever the leader saves."""

    should_retry = False
    average_return: float | None = None

    def __init__(self) -> None:
        self.saved_epoch = -1

    @property
    def last_saved(self) -> str:
        return f"epoch {self.saved_epoch}" if self.saved_epoch >= 0 else "none"

    def count(self, returns: Sequence[float]) -> None:
        """The leader counts for all ranks."""

    def restore(self, saved: dict[str, Any], epoch: int) -> None:
        del saved
        self.saved_epoch = epoch

    def settle(self, *, wait: bool = True) -> None:
        """This rank writes nothing."""

    def finish(self) -> None:
        """This rank writes nothing."""

    def save(self, state: TrainingState, *, meanwhile: bool = False) -> None:
        del meanwhile
        gather_captures(state)
        self.saved_epoch = state.iteration
