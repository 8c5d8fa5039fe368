"""Checkpoints of a training: what they contain, writing them, and retrying when the disk refuses."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.files import SaveFailed
from palaestra.checkpoints.log import EPISODES_METRIC
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.lazy_import import lazy_import
from palaestra.core.spaces import encode_interface
from palaestra.runner.replay_rows import gather_rows, is_much
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
    """Saves checkpoints. A save that fails is logged and retried; existing checkpoints are not touched."""

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
        self._in_progress: tuple[Checkpoint, float] | None = None  # being written by that thread, and since when
        self.recent_returns: deque[float] = deque(maxlen=RECENT_EPISODES)
        self.episode_count: int | None = 0  # ended so far, in all sessions; None: unknown for an earlier session
        self.seconds_before = 0.0  # of training in earlier sessions
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
        """Adds the returns of episodes that have ended."""
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
        self.episode_count = saved.get("episode_count")  # missing in states of version 0.1
        self.seconds_before = float(saved["seconds"])
        self.saved_epoch = epoch
        # "sinks" in states of 0.1; older ones have neither
        self._loggers.restore(saved.get("loggers", saved.get("sinks", {})))

    def save(self, state: TrainingState, *, meanwhile: bool = False) -> Checkpoint | None:
        """Writes a durable checkpoint; None if that failed. All metrics up to it are on disk before it.

        `meanwhile`: a thread writes the files while training continues; gives None; `complete_save` finishes it.
        Waits for the previous save first, so that checkpoints appear in order.
        """
        self.complete_save()
        self._session.check_directory()  # saving would create it again
        if meanwhile and not is_much(state, self._manager.segments):
            self._save_in_background(state)
            return None
        self._loggers.flush()
        began, described = self._clock.monotonic(), self._describe(state)
        trainer_state = self._trainer_state(state)
        rows = gather_rows(state, self._manager.segments)
        try:
            saved = self._manager.save(state.algorithm.weights(), described, trainer_state, rows)
        except SaveFailed as error:
            self._count_failure(error, described)
            return None
        self._record_saved(saved, began)
        return saved

    def _save_in_background(self, state: TrainingState) -> None:
        make_metrics_durable = self._loggers.begin_flush()
        began, described = self._clock.monotonic(), self._describe(state)
        self._thread = self._thread or background.BackgroundSaver(self._manager)
        trainer_state = self._trainer_state(state)
        rows = gather_rows(state, self._manager.segments, copied=True)
        self._thread.save(state.algorithm.weights(), described, trainer_state, make_metrics_durable, rows)
        self._in_progress = described, began

    def _trainer_state(self, state: TrainingState) -> dict[str, Any]:
        others = gather_captures(state)  # first, because afterwards either all ranks have torch or none has
        return {"training": state.capture(), OTHERS: others, "session": self.capture()}

    def complete_save(self, *, wait: bool = True) -> None:
        """Finishes a save in progress and records its result; without `wait` only if the thread is done."""
        if self._in_progress is None or self._thread is None or not (wait or self._thread.is_done):
            return
        self._thread.join()  # if a signal interrupts this, the save can still be waited for
        (described, began), self._in_progress = self._in_progress, None
        try:
            saved = self._thread.wait()
        except SaveFailed as error:
            self._count_failure(error, described)
            return
        assert saved is not None, "a save was in progress"
        self._record_saved(saved, began)

    def finish(self) -> None:
        """Finishes a save in progress and stops the thread."""
        self.complete_save()
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _record_saved(self, saved: Checkpoint, began: float) -> None:
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
        logger.warning("Checkpoint %d could not be written: %s Training continues.", described.epoch, error)
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

    def complete_save(self, *, wait: bool = True) -> None:
        """This rank writes nothing."""

    def finish(self) -> None:
        """This rank writes nothing."""

    def save(self, state: TrainingState, *, meanwhile: bool = False) -> None:
        del meanwhile
        gather_captures(state)
        gather_rows(state)
        self.saved_epoch = state.iteration
