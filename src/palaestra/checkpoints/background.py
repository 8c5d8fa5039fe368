"""Saving while training goes on: the values of the moment of asking, one save at a time, never a queue."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import nn

    from palaestra.checkpoints.replay_segments import Rows
    from palaestra.checkpoints.store import Arrays, CheckpointStore, PreparedSave
    from palaestra.core.checkpoint import Checkpoint


class BackgroundSaver:
    """At most one save is under way and holds memory; what is asked meanwhile is skipped and counted."""

    def __init__(self, manager: CheckpointStore) -> None:
        self.skipped = 0
        self._manager = manager
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[Checkpoint] | None = None

    @property
    def is_done(self) -> bool:
        """Nothing is under way: `wait` returns at once."""
        return self._pending is None or self._pending.done()

    def save(
        self,
        policy: nn.Module | Arrays,
        checkpoint: Checkpoint,
        trainer_state: Mapping[str, Any] | None = None,
        before: Callable[[], None] | None = None,
        replay_rows: Sequence[Rows] = (),
    ) -> bool:
        """False when the last save is not done yet. Raises what the last one failed with.

        `before` is called in the same thread, ahead of everything that touches the disk.
        """
        if not self.is_done:
            self.skipped += 1
            return False
        self.wait()
        prepared = self._manager.prepare(policy, checkpoint, trainer_state, replay_rows)
        self._pending = self._executor.submit(self._commit, prepared, before)
        return True

    def wait(self) -> Checkpoint | None:
        """The save under way, once it is durable; None when there is none."""
        pending, self._pending = self._pending, None
        return pending.result() if pending is not None else None

    def join(self) -> None:
        """Until nothing is under way; what came of it is still there to be asked for."""
        if self._pending is not None:
            wait([self._pending])

    def _commit(self, prepared: PreparedSave, before: Callable[[], None] | None) -> Checkpoint:
        if before is not None:
            before()
        return self._manager.commit(prepared)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._executor.shutdown()
